/** Notifications in words, and where they lead. Pure. */
import type { ActionStatus, ActionSummary, Job, Notice, Thread } from '../../api/types.ts';
import { address } from '../../route/match.ts';

export function leadsTo(notice: Pick<Notice, 'type' | 'entity' | 'entity_id' | 'thread_id'>): string {
  if (notice.entity === 'account') return address('settings', 'accounts');
  if (notice.entity === 'guest') return address('settings', 'guests', notice.entity_id.slice('guest_'.length));
  if (notice.type === 'approval_needed' || notice.type === 'approval_expiring') return address('approvals', notice.entity_id);
  if (notice.type === 'alert_raised') return address('work', 'patrols');
  if (notice.type === 'session_waiting') return address('work', 'sessions', notice.entity_id);
  // Of a job too: what it said stands in the conversation, and is answered there.
  if (notice.type === 'proactive_reach_out' && notice.thread_id) return address('chat', notice.thread_id);
  if (notice.entity === 'action') return address('work', 'actions', notice.entity_id);
  if (notice.entity === 'job') return address('work', 'jobs', notice.entity_id);
  return address('chat', notice.thread_id ?? notice.entity_id);
}

/** What is known of the things that notifications are about: they hold ids alone. */
export interface Known {
  name: string;
  /** Of an action: where it stands. */
  status: ActionStatus | null;
}

export type Book = ReadonlyMap<string, Known>;

type Named = { actions: readonly Pick<ActionSummary, 'action_id' | 'summary' | 'status'>[]; jobs: readonly Pick<Job, 'job_id' | 'goal'>[]; threads: readonly Pick<Thread, 'thread_id' | 'title'>[] };

export function bookOf({ actions, jobs, threads }: Named): Book {
  const book = new Map<string, Known>();
  for (const each of actions) book.set(each.action_id, { name: each.summary, status: each.status });
  for (const each of jobs) book.set(each.job_id, { name: firstLine(each.goal), status: null });
  for (const each of threads) book.set(each.thread_id, { name: each.title, status: null });
  return book;
}

function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0] ?? '';
}

/** Of what kinds there are: only those have to be looked up. */
export function kindsOf(notices: readonly Pick<Notice, 'entity'>[]): ReadonlySet<Notice['entity']> {
  return new Set(notices.map((each) => each.entity));
}

/** Whether what it asked for is done with. `waiting` are the actions that wait; null while that is not known. */
export function isSettled(notice: Pick<Notice, 'type' | 'entity_id'>, book: Book, waiting: ReadonlySet<string> | null): boolean {
  if (notice.type !== 'approval_needed' && notice.type !== 'approval_expiring') return false;
  const status = book.get(notice.entity_id)?.status;
  if (waiting?.has(notice.entity_id)) return false;
  return status ? status !== 'PENDING' : waiting !== null;
}
