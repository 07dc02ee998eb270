/** The routes of the screens Work and Schedules. */
import type { Client, Fresh, Query } from './client.ts';
import type * as T from './types.ts';
import type * as W from './types_work.ts';

const id = encodeURIComponent;

export interface ActionsWanted {
  status?: T.ActionStatus | '';
  tool?: string;
  lane?: T.Lane | '';
  q?: string;
  job_id?: string;
}

export interface JobsWanted {
  status?: W.JobStatus;
  /** Made since then. */
  since?: string;
}

/** Where the bytes of an artifact are; always a download. */
export function artifactAddress(artifact: string): string {
  return `/v1/artifacts/${id(artifact)}/content`;
}

export function workEndpoints(client: Client) {
  return {
    jobs: {
      list: (wanted: JobsWanted, cursor: string | null = null, limit = 50): Promise<Fresh<T.Page<W.Job>>> =>
        client.kept('/v1/jobs', { ...wanted, cursor, limit } satisfies Query),
      one: (job: string): Promise<Fresh<W.JobShown>> => client.kept(`/v1/jobs/${id(job)}`),
      create: (job: W.NewJob, key: string) => client.post<W.JobShown>('/v1/jobs', job, key),
      cancel: (job: string, reason: string) => client.post<W.JobShown>(`/v1/jobs/${id(job)}/cancel`, { reason }),
      resume: (job: string) => client.post<W.JobShown>(`/v1/jobs/${id(job)}/resume`),
    },
    sops: {
      list: (): Promise<Fresh<T.Page<W.Sop>>> => client.kept('/v1/sops', { limit: 200 }),
    },
    schedules: {
      list: (cursor: string | null = null): Promise<Fresh<W.Schedules>> => client.kept('/v1/schedules', { limit: 200, cursor }),
      one: (schedule: string): Promise<Fresh<W.ScheduleShown>> => client.kept(`/v1/schedules/${id(schedule)}`),
      create: (fields: W.ScheduleFields, key: string) => client.post<W.ScheduleShown>('/v1/schedules', fields, key),
      change: (schedule: string, fields: W.ScheduleFields, if_hash?: string) =>
        client.patch<W.ScheduleShown>(`/v1/schedules/${id(schedule)}`, { ...fields, ...(if_hash ? { if_hash } : {}) }),
      remove: (schedule: string) => client.delete(`/v1/schedules/${id(schedule)}`),
      runNow: (schedule: string, key: string) =>
        client.post<{ run: W.ScheduleRun; job_id: string | null }>(`/v1/schedules/${id(schedule)}/run-now`, {}, key),
      runs: (schedule: string, cursor: string | null = null): Promise<Fresh<T.Page<W.ScheduleRun>>> =>
        client.kept(`/v1/schedules/${id(schedule)}/runs`, { limit: 30, cursor }),
      preview: (asked: W.PreviewAsk) => client.post<W.SchedulePreview>('/v1/schedules/preview', asked),
    },
  };
}

/** What joins the routes of actions. */
export function actionEndpoints(client: Client) {
  return {
    list: (wanted: ActionsWanted, cursor: string | null = null, limit = 50): Promise<Fresh<T.Page<T.ActionSummary>>> =>
      client.kept('/v1/actions', { ...wanted, cursor, limit } satisfies Query),
    kept: (action: string): Promise<Fresh<T.ActionDetail>> => client.kept(`/v1/actions/${id(action)}`),
    /** What a passkey signs to resolve it: the verdict is part of the question. */
    question: (action: string, verdict: W.Resolution) =>
      client.post<T.Challenge>('/v1/passkeys/challenge', { purpose: 'resolve', subject: action, verdict }),
    resolve: (action: string, verdict: W.Resolution, proof?: T.Assertion) =>
      client.post<T.Answered>(`/v1/actions/${id(action)}/resolve`, { verdict, ...(proof ? { proof } : {}) }),
    repropose: (action: string, key: string) => client.post<T.ActionSummary>(`/v1/actions/${id(action)}/repropose`, {}, key),
  };
}
