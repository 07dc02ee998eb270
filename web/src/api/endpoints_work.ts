/** The routes of the screens Work and Schedules. */
import { linkTo, type Body } from './address.ts';
import type { Client } from './client.ts';
import type { ActionsWanted, Assertion, EditSchedule, JobsWanted, PullState, Resolution, SetMode } from './types.ts';

/** Where the bytes of an artifact are; always a download. */
export function artifactAddress(artifact_id: string): string {
  return linkTo('/v1/artifacts/{artifact_id}/content', { path: { artifact_id } });
}

export function workEndpoints(client: Client) {
  return {
    jobs: {
      list: (wanted: JobsWanted, cursor: string | null = null, limit = 50) =>
        client.kept('/v1/jobs', { query: { ...wanted, cursor, limit } }),
      one: (job_id: string) => client.kept('/v1/jobs/{job_id}', { path: { job_id } }),
      create: (body: Body<'/v1/jobs'>, key: string) => client.post('/v1/jobs', { body }, key),
      cancel: (job_id: string, reason: string) => client.post('/v1/jobs/{job_id}/cancel', { path: { job_id }, body: { reason } }),
      resume: (job_id: string) => client.post('/v1/jobs/{job_id}/resume', { path: { job_id } }),
    },
    pulls: {
      list: (state: PullState | null, cursor: string | null = null, limit = 50) => client.kept('/v1/pulls', { query: { state, cursor, limit } }),
      one: (number: number) => client.kept('/v1/pulls/{number}', { path: { number } }),
      /** Not kept: they may be many, and nobody answers what may be old. */
      files: async (number: number, cursor: string | null = null) => ({
        data: await client.get('/v1/pulls/{number}/files', { path: { number }, query: { cursor, limit: 1000 } }),
        staleSince: null,
      }),
      patch: (number: number, path: string) => client.get('/v1/pulls/{number}/diff', { path: { number }, query: { path } }),
      changes: (number: number, words: string) => client.post('/v1/pulls/{number}/changes', { path: { number }, body: { words } }),
      close: (number: number, reason: string) => client.post('/v1/pulls/{number}/close', { path: { number }, body: { reason } }),
      ask: (number: number) => client.post('/v1/pulls/{number}/ask', { path: { number } }),
      reopen: (number: number) => client.post('/v1/pulls/{number}/reopen', { path: { number } }),
      revert: (number: number) => client.post('/v1/pulls/{number}/revert', { path: { number } }),
    },
    sessions: {
      list: (cursor: string | null = null, limit = 50) => client.kept('/runner/v1/sessions', { query: { cursor, limit } }),
      of: (belonging: { thread_id: string } | { job_id: string }) => client.kept('/runner/v1/sessions', { query: { ...belonging, limit: 20 } }),
      one: (session_id: string) => client.kept('/runner/v1/sessions/{session_id}', { path: { session_id } }),
      now: (session_id: string) => client.get('/runner/v1/sessions/{session_id}', { path: { session_id } }),
      tree: (session_id: string) => client.kept('/runner/v1/sessions/{session_id}/tree', { path: { session_id } }),
      start: (body: Body<'/runner/v1/sessions'>, key: string) => client.post('/runner/v1/sessions', { body }, key),
      stop: (session_id: string) => client.post('/runner/v1/sessions/{session_id}/stop', { path: { session_id } }),
      pause: (session_id: string) => client.post('/runner/v1/sessions/{session_id}/pause', { path: { session_id } }),
      resume: (session_id: string) => client.post('/runner/v1/sessions/{session_id}/resume', { path: { session_id } }),
      remove: (session_id: string) => client.delete('/runner/v1/sessions/{session_id}', { path: { session_id } }),
      /** Its commits, as a pull request: the question is a card of its own. */
      pull: (session_id: string) => client.post('/runner/v1/sessions/{session_id}/pull', { path: { session_id } }),
      /** Not kept: it changes while it is looked at. */
      diff: async (session_id: string) => ({
        data: await client.get('/runner/v1/sessions/{session_id}/diff', { path: { session_id } }),
        staleSince: null,
      }),
      patch: (session_id: string, path: string) => client.get('/runner/v1/sessions/{session_id}/diff', { path: { session_id }, query: { path } }),
      /** What was recorded, as text or to be played. */
      recorded: async (session_id: string, format: 'text' | 'asciicast', signal: AbortSignal) => {
        const address = linkTo('/runner/v1/sessions/{session_id}/terminal', { path: { session_id }, query: { format } });
        return (await client.open(address, {}, signal)).text();
      },
      /** What happened in it since an event; terminal output is not among it. */
      events: (session_id: string, after: number) => client.kept('/runner/v1/sessions/{session_id}/events', { path: { session_id }, query: { after, limit: 200 } }),
      repos: () => client.kept('/runner/v1/repos'),
    },
    adapters: {
      list: () => client.kept('/runner/v1/adapters'),
      change: (name: string, body: Body<'/runner/v1/adapters/{name}'>, key: string) => client.post('/runner/v1/adapters/{name}', { path: { name }, body }, key),
    },
    patrols: {
      buildings: () => client.kept('/runner/v1/buildings'),
      alerts: () => client.kept('/runner/v1/alerts', { query: { limit: 200 } }),
      quests: () => client.kept('/runner/v1/quests', { query: { limit: 200 } }),
      run: (body: Body<'/runner/v1/patrols'>, key: string) => client.post('/runner/v1/patrols', { body }, key),
      output: (run_id: string) => client.get('/runner/v1/patrols/{run_id}', { path: { run_id } }),
      mute: (alert_id: string, reason: string, hours: number) => client.post('/runner/v1/alerts/{alert_id}/mute', { path: { alert_id }, body: { reason, hours } }),
      resolve: (alert_id: string) => client.post('/runner/v1/alerts/{alert_id}/resolve', { path: { alert_id } }),
      offer: (alert_id: string) => client.post('/runner/v1/alerts/{alert_id}/quest', { path: { alert_id } }),
      take: (quest_id: string, provider: string) => client.post('/runner/v1/quests/{quest_id}/take', { path: { quest_id }, body: { provider } }),
      review: (quest_id: string) => client.post('/runner/v1/quests/{quest_id}/review', { path: { quest_id } }),
      drop: (quest_id: string, reason: string) => client.post('/runner/v1/quests/{quest_id}/drop', { path: { quest_id }, body: { reason } }),
    },
    evolve: {
      page: () => client.kept('/v1/evolve'),
      log: (which: 'errors' | 'boot' | 'watcher') => client.get('/v1/evolve/logs', { query: { which } }),
      say: (text: string, key: string) => client.post('/v1/evolve/directives', { body: { text } }, key),
      stop: (key: string) => client.post('/v1/evolve/stop', undefined, key),
      release: (key: string) => client.post('/v1/evolve/release', undefined, key),
      rollback: (ref: string, key: string) => client.post('/v1/evolve/rollback', { body: { ref } }, key),
    },
    bot: () => client.kept('/v1/bot'),
    mergeMode: (body: SetMode, key: string) => client.put('/v1/bot/mode', { body }, key),
    intel: {
      list: (cursor: string | null = null, limit = 50) => client.kept('/v1/intel', { query: { cursor, limit } }),
      one: (path: string) => client.kept('/v1/intel/show', { query: { path } }),
    },
    sops: {
      list: () => client.kept('/v1/sops', { query: { limit: 200 } }),
      run: (name: string, key: string) => client.post('/v1/sops/{name}/run', { path: { name } }, key),
    },
    /** Those begun at a terminal: the others are jobs. */
    sopRuns: {
      list: (cursor: string | null = null, limit = 50) => client.kept('/v1/sop-runs', { query: { alone: true, cursor, limit } }),
      one: (run_id: string) => client.kept('/v1/sop-runs/{run_id}', { path: { run_id } }),
    },
    schedules: {
      list: (cursor: string | null = null) => client.kept('/v1/schedules', { query: { limit: 200, cursor } }),
      one: (schedule_id: string) => client.kept('/v1/schedules/{schedule_id}', { path: { schedule_id } }),
      create: (body: Body<'/v1/schedules'>, key: string) => client.post('/v1/schedules', { body }, key),
      change: (schedule_id: string, fields: EditSchedule, if_hash?: string) =>
        client.patch('/v1/schedules/{schedule_id}', { path: { schedule_id }, body: { ...fields, ...(if_hash ? { if_hash } : {}) } }),
      remove: (schedule_id: string) => client.delete('/v1/schedules/{schedule_id}', { path: { schedule_id } }),
      runNow: (schedule_id: string, key: string) => client.post('/v1/schedules/{schedule_id}/run-now', { path: { schedule_id } }, key),
      runs: (schedule_id: string, cursor: string | null = null) =>
        client.kept('/v1/schedules/{schedule_id}/runs', { path: { schedule_id }, query: { limit: 30, cursor } }),
      preview: (body: Body<'/v1/schedules/preview'>) => client.post('/v1/schedules/preview', { body }),
    },
  };
}

/** What joins the routes of actions. */
export function actionEndpoints(client: Client) {
  return {
    list: (wanted: ActionsWanted, cursor: string | null = null, limit = 50) =>
      client.kept('/v1/actions', { query: { ...wanted, cursor, limit } }),
    kept: (action_id: string) => client.kept('/v1/actions/{action_id}', { path: { action_id } }),
    /** What a passkey signs to resolve it: the verdict is part of the question. */
    question: (action_id: string, verdict: Resolution) =>
      client.post('/v1/passkeys/challenge', { body: { purpose: 'resolve', subject: action_id, verdict } }),
    resolve: (action_id: string, verdict: Resolution, proof: Assertion | null = null) =>
      client.post('/v1/actions/{action_id}/resolve', { path: { action_id }, body: { verdict, proof } }),
    repropose: (action_id: string, key: string) => client.post('/v1/actions/{action_id}/repropose', { path: { action_id } }, key),
  };
}
