/** What can be said of actions without a server. Pure. */
import type { ActionsWanted, ActionStatus, ActionSummary, AuditEvent, Json, Lane, Story } from '../../api/types.ts';
import type { Tone } from '../../parts/tone.ts';
import { codeWords, count, lookup, t } from '../../text/t.ts';
import { titleOf } from '../../text/events.ts';
import { REFUSALS, type Refusal } from '../../text/refusal.ts';
import { whoSaid } from '../../text/who.ts';
import { stampOf, type Told } from './jobs.ts';

/** What the filter offers: every status, and in place of a bare no whose no it was. */
export type Stand = Exclude<ActionStatus, 'REJECTED'> | Refusal;
const STATUSES = ['UNKNOWN', 'PENDING', 'APPROVED', 'EXECUTED', 'FAILED'] as const;
export const STANDS: readonly Stand[] = ['UNKNOWN', 'PENDING', 'APPROVED', 'EXECUTED', ...REFUSALS, 'FAILED'];

export function standWords(stand: Stand): string {
  const refusal = REFUSALS.find((each) => each === stand);
  return refusal ? t(`refusal.${refusal}`) : t(`status.${stand as Exclude<Stand, Refusal>}`);
}

/** The filter for one of them; without any, for all. */
export function wantedStand(stand: Stand | ''): Pick<ActionsWanted, 'status' | 'refusal'> {
  const refusal = REFUSALS.find((each) => each === stand);
  const status = STATUSES.find((each) => each === stand);
  return { status, refusal };
}

export function standOf(wanted: Pick<ActionsWanted, 'status' | 'refusal'>): Stand | '' {
  return STANDS.find((each) => each === (wanted.refusal ?? wanted.status)) ?? '';
}

export const LANES: readonly Lane[] = ['A', 'B', 'C'];

/** The filter that an address asks for; what makes no sense in it is left out. */
export function wantedOf(query: URLSearchParams): ActionsWanted {
  const wanted: ActionsWanted = {};
  const status = STATUSES.find((each) => each === query.get('status'));
  const refusal = REFUSALS.find((each) => each === query.get('refusal'));
  const lane = LANES.find((each) => each === query.get('lane'));
  const tool = query.get('tool')?.trim().slice(0, 200);
  const q = query.get('q')?.trim().slice(0, 200);
  if (status) wanted.status = status;
  if (refusal) wanted.refusal = refusal;
  if (lane) wanted.lane = lane;
  if (tool) wanted.tool = tool;
  if (q) wanted.q = q;
  const job = query.get('job_id')?.slice(0, 200);
  if (job) wanted.job_id = job;
  return wanted;
}

/** The address of a filter, without what is not asked for. */
export function queryOf(wanted: ActionsWanted): string {
  const found = Object.entries(wanted).filter(([, value]) => value);
  return found.length ? `?${new URLSearchParams(found as [string, string][]).toString()}` : '';
}

/** How it stands, in a sentence. */
export function standing(action: Pick<ActionSummary, 'status' | 'refusal'>): string {
  return action.status === 'REJECTED' && action.refusal ? t(`actions.says.${action.refusal}`) : t(`actions.says.${action.status}`);
}

/** Rejected, denied or failed, so its bytes may be proposed again; not where a secret was taken out of them. */
export function canRepropose(action: Pick<ActionSummary, 'status' | 'code'>): boolean {
  return (action.status === 'REJECTED' || action.status === 'FAILED') && action.code !== 'SECRET_NOT_GRANTED';
}

const TONES: Record<string, Tone> = {
  tool_completed: 'good',
  tool_failed: 'bad',
  tool_unknown: 'bad',
  tool_denied: 'bad',
  approval_needed: 'warn',
  tool_retry: 'warn',
};

function payloadWord(payload: Json, name: string): string {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) return '';
  const value = payload[name];
  return typeof value === 'string' ? value : '';
}

/** The events of an action in words. */
export function storyline(events: readonly AuditEvent[]): Told[] {
  return events.map((event) => ({
    key: event.entry_id,
    at: event.created_at,
    text: titleOf(event),
    more: detail(event),
    tone: TONES[event.event_type] ?? 'plain',
  }));
}

function detail(event: AuditEvent): string {
  const code = ['tool_failed', 'tool_unknown', 'tool_retry', 'tool_trouble'].includes(event.event_type) ? payloadWord(event.payload, 'code') : '';
  const by = payloadWord(event.payload, 'by') || payloadWord(event.payload, 'approved_by');
  const verdict = payloadWord(event.payload, 'verdict');
  const spoken = event.event_type === 'tool_resolved' ? `actions.resolve.${verdict}` : `verdict.${verdict}`;
  const said = verdict && lookup(spoken, verdict);
  return [said, code, by && whoSaid(by)].filter(Boolean).join(' · ');
}

/** What is on record of an action whose end is not: each a sentence. */
export function known(action: ActionSummary, story: Story | null, now: number): string[] {
  const last = story?.attempts.at(-1);
  const facts: string[] = [];
  facts.push(count('actions.known.begun', Math.max(action.attempt, story?.attempts.length ?? 0, 1)));
  if (last) facts.push(t('actions.known.last', { when: stampOf(last.begun_at, now) }));
  if (last && (!last.end || last.code === 'INTERRUPTED')) facts.push(t('actions.known.noend'));
  else if (last?.code) facts.push(t('actions.known.code', { code: codeWords(last.code) }));
  if (last?.looked_up) facts.push(t('actions.known.lookedup'));
  if (action.uncertain) facts.push(t('actions.known.uncertain'));
  return facts;
}

/** The file that an action wrote; null when it wrote none. */
export function fileOf({ action, args }: { action: Pick<ActionSummary, 'tool' | 'status'>; args: Json }): string | null {
  if (!['file_write', 'file_edit'].includes(action.tool) || action.status !== 'EXECUTED') return null;
  const path = typeof args === 'object' && args !== null && !Array.isArray(args) ? args['path'] : null;
  return typeof path === 'string' && path ? path : null;
}
