/** What runs, and what ended lately: jobs and conversations on one list. Pure. */
import type { Job, Thread } from '../../api/types.ts';
import { address } from '../../route/match.ts';
import { lookup, t } from '../../text/t.ts';
import type { Tone } from '../../parts/tone.ts';

export interface Happening {
  id: string;
  href: string;
  title: string;
  state: string;
  tone: Tone;
  at: string;
}

const RUNS: ReadonlySet<Job['status']> = new Set(['PENDING', 'RUNNING', 'WAITING_APPROVAL', 'PAUSED_BUDGET']);

/** Conversations that are being answered, then jobs that are open. */
export function running(threads: readonly Thread[], jobs: readonly Job[]): Happening[] {
  const talks = threads.filter((each) => each.running_turn_id || each.waiting_turns);
  const answered = talks.map((each): Happening => ({ id: each.thread_id, href: address('chat', each.thread_id), title: each.title || t('chat.untitled'), state: t('chat.running'), tone: 'accent', at: each.updated_at }));
  return [...answered, ...jobs.filter((each) => RUNS.has(each.status)).map(ofJob)];
}

/** Jobs that are over, the last to end first. */
export function ended(jobs: readonly Job[], most: number): Happening[] {
  const over = jobs.filter((each) => !RUNS.has(each.status));
  return over.sort((a, b) => b.updated_at.localeCompare(a.updated_at)).slice(0, most).map(ofJob);
}

const TONES: Readonly<Record<Job['status'], Tone>> = { PENDING: 'plain', RUNNING: 'accent', WAITING_APPROVAL: 'warn', COMPLETED: 'good', FAILED: 'bad', CANCELLED: 'plain', PAUSED_BUDGET: 'warn' };

function ofJob(job: Job): Happening {
  const title = job.goal.split('\n', 1)[0] ?? '';
  return { id: job.job_id, href: address('work', 'jobs', job.job_id), title, state: lookup(`work.state.${job.state}`, job.state), tone: TONES[job.status], at: job.updated_at };
}
