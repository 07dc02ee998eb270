/** What can be said of jobs without a server: their groups, what may be done with them, their story in words. Pure. */
import type { IconName } from '../../parts/icons.ts';
import type { Job, JobEvent, JobState, JobStatus, Json } from '../../api/types.ts';
import type { Tone } from '../../parts/tone.ts';
import { ago, stamp } from '../../text/format.ts';
import { count, lookup, t } from '../../text/t.ts';

/** The lists of the screen; `open` holds every job that is not over. */
export const VIEWS = ['open', 'done', 'failed', 'cancelled'] as const;
export type View = (typeof VIEWS)[number];

/** The coarse states of a list, in the order they are shown. */
export const STATUSES: Record<View, readonly JobStatus[]> = {
  open: ['WAITING_APPROVAL', 'RUNNING', 'PAUSED_BUDGET', 'PENDING'],
  done: ['COMPLETED'],
  failed: ['FAILED'],
  cancelled: ['CANCELLED'],
};

export function viewOf(word: string | null | undefined): View {
  return VIEWS.find((each) => each === word) ?? 'open';
}

/** The note a schedule's run has under its goal: `(name, asked for by hand.)`. */
const RUN = /\n\n\(([^\s,()]+), (?:asked for by hand|scheduled for )[^()]*\.\)(?:\n\n[^\n]+)?$/;

/** What the owner asked for, without what the schedule wrote under it. */
export function goalOf(job: Pick<Job, 'goal' | 'schedule_id'>): string {
  const found = job.schedule_id ? RUN.exec(job.goal) : null;
  return found && found[1] === job.schedule_id ? job.goal.slice(0, found.index) : job.goal;
}

/** Those that ended last, and the one that is looked at should it not be among them. */
export function endedLately(jobs: readonly Job[], looked: Job | null, most: number): Job[] {
  const ended = jobs.filter(isOver).slice(0, most);
  return looked && isOver(looked) && !ended.some((each) => each.job_id === looked.job_id) ? [...ended, looked] : ended;
}

/** The kind of the artifact that holds the manifest. */
export const MANIFEST = 'evidence_manifest';

const OVER: ReadonlySet<JobState> = new Set(['DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT']);

export function isOver(job: Pick<Job, 'state'>): boolean {
  return OVER.has(job.state);
}

/** It rests until a time that has not come: the owner may send it on now. */
export function canResume(job: Pick<Job, 'state' | 'working' | 'next_wakeup_at'>, now: number): boolean {
  if (isOver(job) || job.working || job.state === 'WAITING_APPROVAL' || !job.next_wakeup_at) return false;
  return Date.parse(job.next_wakeup_at) > now;
}

const TONES: Record<JobStatus, Tone> = {
  PENDING: 'plain',
  RUNNING: 'accent',
  WAITING_APPROVAL: 'warn',
  PAUSED_BUDGET: 'warn',
  COMPLETED: 'good',
  FAILED: 'bad',
  CANCELLED: 'plain',
};
const ICONS: Record<JobStatus, IconName> = {
  PENDING: 'clock',
  RUNNING: 'refresh',
  WAITING_APPROVAL: 'approve',
  PAUSED_BUDGET: 'clock',
  COMPLETED: 'check',
  FAILED: 'warn',
  CANCELLED: 'close',
};

export function toneOf(status: JobStatus): Tone {
  return TONES[status];
}

export function iconOf(status: JobStatus): IconName {
  return ICONS[status];
}

/** How it stands, in a sentence. */
export function standing(job: Pick<Job, 'state' | 'status' | 'working' | 'attempt' | 'next_wakeup_at'>, now: number): string {
  const due = job.next_wakeup_at ? Date.parse(job.next_wakeup_at) : 0;
  if (job.status === 'RUNNING' && job.attempt > 0 && due > now) return t('work.says.retry', { when: ago(due, now) });
  if (job.status === 'RUNNING' && !job.working) return t('work.says.queued');
  if (job.state === 'PAUSED_BUDGET' && due > now) return t('work.says.PAUSED_BUDGET.until', { when: ago(due, now) });
  return lookup(`work.says.${job.state}`, lookup(`work.state.${job.state}`, job.state));
}

const dayOf = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

export function stampOf(at: string, now: number): string {
  return stamp(Date.parse(at), now);
}

// --- the story ------------------------------------------------------------------------------------------------------

export interface Told {
  key: string;
  at: string;
  text: string;
  more: string;
  tone: Tone;
  /** Where it can be looked at. */
  href?: string;
}

const QUIET: ReadonlySet<string> = new Set(['PARSED', 'POLICY_CHECKED']);

function word(payload: { [key: string]: Json }, name: string): string {
  const value = payload[name];
  return typeof value === 'string' ? value : '';
}

function figure(payload: { [key: string]: Json }, name: string): number {
  const value = payload[name];
  return typeof value === 'number' ? value : 0;
}

/** The events of a job in words, oldest first; what only the machine cares about is left out, steps in a row are one.
 * Who follows a procedure takes its steps; who does not, turns of the model. */
export function timeline(events: readonly JobEvent[], procedure = false): Told[] {
  const taken = procedure ? 'work.event.followed' : 'work.event.steps';
  const told: Told[] = [];
  let steps = 0;
  let calls = 0;
  for (const event of events) {
    if (event.type === 'step') {
      const follows = steps > 0;
      steps += 1;
      calls += figure(event.payload, 'calls');
      const line: Told = { key: event.event_id, at: event.created_at, text: count(taken, steps), more: count('work.event.calls', calls), tone: 'plain' };
      if (follows) told[told.length - 1] = line;
      else told.push(line);
      continue;
    }
    steps = 0;
    calls = 0;
    const line = one(event);
    if (line) told.push(line);
  }
  return told;
}

function one(event: JobEvent): Told | null {
  const { payload } = event;
  const line: Told = { key: event.event_id, at: event.created_at, text: '', more: sentence(word(payload, 'reason')), tone: 'plain' };
  if (event.type === 'state') {
    const to = word(payload, 'to');
    if (QUIET.has(to)) return null;
    line.text = lookup(`work.event.state.${to}`, lookup(`work.state.${to}`, to));
    if (to === 'WAITING_APPROVAL') line.more = ''; // it names an action by its id; what waits stands above with its words
    if (to === 'EXECUTING' && word(payload, 'from') !== 'PLANNED') line.text = t('work.event.state.again');
    line.tone = to === 'DONE' ? 'good' : to === 'WAITING_APPROVAL' || to === 'PAUSED_BUDGET' ? 'warn' : OVER.has(to as JobState) && to !== 'CANCELLED' ? 'bad' : 'plain';
    return line;
  }
  if (event.type === 'retry') return { ...line, text: t('work.event.retry', { n: figure(payload, 'attempt') }), tone: 'warn' };
  return { ...line, text: lookup(`work.event.${event.type}`, event.type) };
}

const MOMENT = /\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z/g;

/** A sentence of the runtime as it is shown; moments in it by this device's clock. */
export function sentence(text: string): string {
  const local = text.replace(MOMENT, (at) => (Number.isNaN(Date.parse(at)) ? at : dayOf.format(new Date(at))));
  return local.charAt(0).toUpperCase() + local.slice(1);
}

/** How far it has come: a plan of one step has no share to tell. */
export function progressOf({ done, of, calls }: Job['progress']): string {
  const called = count('work.event.calls', calls);
  return of > 1 ? `${t('work.steps.done', { done, of })} · ${called}` : called;
}

// --- the evidence ---------------------------------------------------------------------------------------------------

export interface Evidence {
  hash: string;
  madeAt: string;
  messages: number;
  receipts: { id: string; tool: string; status: string }[];
  receiptsLeftOut: boolean;
  files: { path: string; sha256: string }[];
  filesLeftOut: boolean;
}

/** The manifest, as far as it is what we know. */
export function evidenceOf(manifest: { [key: string]: Json }): Evidence {
  return {
    hash: word(manifest, 'manifest_hash'),
    madeAt: word(manifest, 'made_at'),
    messages: figure(manifest, 'messages'),
    receipts: rows(manifest['receipts']).map((each) => ({ id: word(each, 'id'), tool: word(each, 'tool'), status: word(each, 'status') })),
    receiptsLeftOut: manifest['receipts_left_out'] === true,
    files: rows(manifest['files']).map((each) => ({ path: word(each, 'path'), sha256: word(each, 'sha256') })),
    filesLeftOut: manifest['files_left_out'] === true,
  };
}

/** The hash of a file as the job left it; null when the manifest does not name it. */
export function digestOf(manifest: { [key: string]: Json } | null, path: string | null): string | null {
  if (!manifest || path === null) return null;
  return evidenceOf(manifest).files.find((each) => each.path === path)?.sha256 || null;
}

function rows(value: Json | undefined): { [key: string]: Json }[] {
  if (!Array.isArray(value)) return [];
  return value.filter((each): each is { [key: string]: Json } => typeof each === 'object' && each !== null && !Array.isArray(each));
}
