/** What can be said of audit events without a server. Pure. */
import type { AuditEvent, AuditLine, AuditWanted, Json } from '../api/types.ts';
import type { Tone } from '../parts/tone.ts';
import { address } from '../route/match.ts';
import { refusalOf } from './refusal.ts';
import { codeWords, lookup, t } from './t.ts';

export type EventGroup = 'action' | 'work' | 'schedule' | 'chat' | 'access' | 'house';

/** The types the filter offers, by what they are about. An event of another type is shown all the same. */
export const TYPES: Record<EventGroup, readonly string[]> = {
  action: [
    'tool_requested', 'approval_needed', 'approval_expiring', 'tool_approved', 'answer_created', 'answer_used', 'answer_revoked', 'tool_begun', 'tool_retry', 'tool_stopped', 'tool_trouble', 'tool_completed',
    'tool_denied', 'tool_failed', 'tool_unknown', 'tool_resolved', 'tool_reproposed', 'idempotency_conflict',
  ],
  work: ['job_created', 'job_state', 'job_step', 'job_retry', 'job_resume', 'sop_started', 'sop_state', 'sop_step', 'pr_opened', 'pr_updated', 'pr_checked', 'pr_merged', 'pr_deployed', 'pr_closed'],
  schedule: [
    'schedule_added', 'schedule_edited', 'schedule_removed', 'schedule_enabled', 'schedule_disabled', 'schedule_paused', 'schedule_run',
    'schedule_queued', 'schedule_skipped', 'schedule_run_settled', 'schedule_registry_broken', 'schedule_registry_mended', 'followup_planned',
  ],
  chat: ['thread_created', 'thread_renamed', 'thread_deleted', 'message_added', 'message_redacted', 'turn_queued', 'turn_started', 'turn_waiting', 'turn_ended'],
  access: [
    'pairing_code_issued', 'pairing_failed', 'sign_in_refused', 'pairing_burned', 'device_paired', 'device_confirmed', 'device_renamed', 'device_revoked', 'device_subscribed', 'device_unsubscribed',
    'passkey_registered', 'passkey_renamed', 'passkey_removed', 'passkey_counter_back', 'owner_proved', 'owner_proof_refused',
  ],
  house: [
    'estop_engaged', 'estop_cleared', 'database_older', 'secret_stored', 'secret_removed', 'keys_rotated', 'provider_failed', 'provider_fallback',
    'guest_approved', 'guest_started', 'guest_ended', 'guest_failed', 'guest_changed', 'guest_disabled', 'guest_removed', 'guest_looked_at',
    'label_forgotten', 'notification_added', 'notifications_seen',
  ],
};

export const GROUPS = Object.keys(TYPES) as EventGroup[];

const TONES: Record<string, Tone> = {
  tool_completed: 'good',
  tool_approved: 'accent',
  owner_proved: 'accent',
  approval_needed: 'warn',
  approval_expiring: 'warn',
  tool_retry: 'warn',
  tool_trouble: 'warn',
  schedule_paused: 'warn',
  provider_failed: 'warn',
  tool_denied: 'bad',
  tool_failed: 'bad',
  tool_unknown: 'bad',
  estop_engaged: 'bad',
  database_older: 'bad',
  pairing_failed: 'bad',
  sign_in_refused: 'bad',
  pairing_burned: 'bad',
  owner_proof_refused: 'bad',
  passkey_counter_back: 'bad',
  idempotency_conflict: 'bad',
  schedule_registry_broken: 'bad',
};

export function toneOf(type: string): Tone {
  return TONES[type] ?? 'plain';
}

/** A type in words; one nobody gave words to, as it is, readable. */
export function wordsOf(type: string): string {
  const plain = type.replaceAll('_', ' ');
  return lookup(`audit.event.${type}`, plain.charAt(0).toUpperCase() + plain.slice(1));
}

function word(payload: Json, name: string): string {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) return '';
  const value = payload[name];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** An event in words: who said no, where a job went, whose message it was. */
export function titleOf({ event_type: type, payload }: Pick<AuditEvent, 'event_type' | 'payload'>): string {
  if (type === 'tool_denied') return t(`audit.refused.${refusalOf(word(payload, 'code'))}`);
  if (type === 'job_state') return lookup(`audit.job.${word(payload, 'to')}`, wordsOf(type));
  if (type === 'message_added') return lookup(`audit.message.${word(payload, 'role')}`, wordsOf(type));
  return wordsOf(type);
}

/** A schedule goes by its name, which is its id. */
function scheduleOf({ event_type: type = '', entity_id: id = '' }: Partial<Pick<AuditLine, 'event_type' | 'entity_id'>>): string {
  return type.startsWith('schedule_') && !type.startsWith('schedule_registry') ? id : '';
}

/** Codes that say no more than the words of the event. */
const SAID: ReadonlySet<string> = new Set(['ALLOWED', 'APPROVED', 'AUTONOMY_ASKS', 'APPROVAL_NEEDED', 'OWNER_REFUSED', 'WITHDRAWN', 'EXPIRED']);

/** An action that a sentence names: what it is stands in a line of its own. */
const ID = / \(act_\w+\)/g;

/** What it is about, and what the payload says of it in a few words. */
export function gistOf(event: Pick<AuditEvent, 'payload'> & Partial<Pick<AuditLine, 'about' | 'event_type' | 'entity_id'>>): string {
  const { payload, about = '' } = event;
  const verdict = word(payload, 'verdict');
  const code = word(payload, 'code');
  const told = event.event_type === 'tool_resolved' ? `actions.resolve.${verdict}` : `verdict.${verdict}`;
  const said = [
    about || word(payload, 'tool') || word(payload, 'name') || scheduleOf(event),
    verdict && lookup(told, verdict),
    SAID.has(code) ? '' : codeWords(code),
    event.event_type === 'sop_step' ? `${word(payload, 'step')}: ${lookup(`runs.step.${word(payload, 'state')}`, word(payload, 'state'))}` : '',
    codeWords(word(payload, 'reason')).replace(ID, ''),
    event.event_type?.startsWith('guest_') ? word(payload, 'why') : '',
    word(payload, 'type') && lookup(`settings.notice.${word(payload, 'type')}`, word(payload, 'type')),
  ];
  return [...new Set(said.filter(Boolean))].join(' · ');
}

/** Where what it is about can be looked at; null when there is no such place. */
export function placeOf(event: Pick<AuditEvent, 'event_type' | 'entity_id' | 'payload'>): string | null {
  const { event_type: type, entity_id: id, payload } = event;
  // Before the ids: a guest is called as its owner likes.
  if (type.startsWith('guest_')) return type === 'guest_removed' ? address('settings', 'guests') : address('settings', 'guests', id);
  if (type.startsWith('oauth_') && id.startsWith('google ')) return address('settings', 'accounts');
  if (id.startsWith('act_')) return address('audit', 'story', id);
  if (id.startsWith('job_')) return address('work', 'jobs', id);
  if (id.startsWith('pr_')) return address('work', 'pulls', id.slice(3));
  if (id.startsWith('sop_')) return address('work', 'procedures', id);
  if (id.startsWith('conv_')) return type === 'thread_deleted' ? null : address('chat', id);
  if (id.startsWith('turn_') && word(payload, 'thread_id')) return address('chat', word(payload, 'thread_id'));
  if (id.startsWith('dev_')) return address('settings', 'devices');
  if (type.startsWith('passkey_')) return address('settings', 'passkeys');
  if (type.startsWith('estop_')) return address('settings', 'estop');
  if (type.startsWith('schedule_') && type !== 'schedule_removed' && !type.startsWith('schedule_registry')) return address('schedules', id);
  if (type.startsWith('provider_')) return address('settings', 'providers');
  return null;
}

/** The payload as name and value, each on a line of its own; what says nothing is left out. */
export function factsOf(payload: Json): { name: string; value: string }[] {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) return [];
  return Object.entries(payload)
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => ({ name: name.replaceAll('_', ' '), value: typeof value === 'string' ? value : JSON.stringify(value) }));
}

// --- the filter -----------------------------------------------------------------------------------------------------

export type RangeName = 'any' | 'hour' | 'day' | 'week' | 'month' | 'span';
export const RANGES: readonly RangeName[] = ['any', 'hour', 'day', 'week', 'month', 'span'];
const HOUR = 3_600_000;
const SPANS: Partial<Record<RangeName, number>> = { hour: HOUR, day: 24 * HOUR, week: 7 * 24 * HOUR, month: 30 * 24 * HOUR };

export interface Filter {
  type: string;
  entity: string;
  range: RangeName;
  /** As a browser's field for date and time writes them, by the clock on the wall; only for `span`. */
  from: string;
  to: string;
  /** With what every conversation leaves. */
  all: boolean;
}

export const ANYTHING: Filter = { type: '', entity: '', range: 'any', from: '', to: '', all: false };

/** The filter that an address asks for. */
export function filterOf(query: URLSearchParams): Filter {
  return {
    type: (query.get('type') ?? '').slice(0, 100),
    entity: (query.get('entity') ?? '').trim().slice(0, 200),
    range: RANGES.find((each) => each === query.get('range')) ?? 'any',
    from: query.get('from') ?? '',
    to: query.get('to') ?? '',
    all: query.get('all') === '1',
  };
}

/** The address of a filter, without what is not asked for. */
export function queryOf(filter: Filter): string {
  const { type, entity, range, from, to, all } = filter;
  const between = range === 'span' ? { from, to } : {};
  const said = { type, entity, range: range === 'any' ? '' : range, ...between, all: all ? '1' : '' };
  const found = Object.entries(said).filter(([, value]) => value);
  return found.length ? `?${new URLSearchParams(found).toString()}` : '';
}

function moment(local: string): string | undefined {
  const at = new Date(local);
  return local && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined;
}

/** What the server is asked for. `now` makes spans that end now. */
export function wantedOf(filter: Filter, now: number): AuditWanted {
  const wanted: AuditWanted = {};
  if (filter.type) wanted.event_type = filter.type;
  if (filter.entity) wanted.entity_id = filter.entity;
  if (isCalm(filter)) wanted.quiet = true;
  const span = SPANS[filter.range];
  const since = span ? new Date(now - span).toISOString() : filter.range === 'span' ? moment(filter.from) : undefined;
  const until = filter.range === 'span' ? moment(filter.to) : undefined;
  if (since) wanted.since = since;
  if (until) wanted.until = until;
  return wanted;
}

/** Whether messages, turns and notifications are left out: not where somebody asks for a type or for one thing. */
export function isCalm(filter: Filter): boolean {
  return !filter.all && !filter.type && !filter.entity;
}

export interface Day {
  name: string;
  events: AuditLine[];
}

const dated = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' });

/** Events in the order they came, under the days they happened on, by the clock on the wall. */
export function byDay(events: readonly AuditLine[], now: number): Day[] {
  const today = new Date(now).toDateString();
  const yesterday = new Date(now - 24 * HOUR).toDateString();
  const days: (Day & { of: string })[] = [];
  for (const event of events) {
    const at = new Date(event.created_at);
    const of = at.toDateString();
    const last = days.at(-1);
    if (last?.of === of) last.events.push(event);
    else days.push({ of, name: of === today ? t('audit.today') : of === yesterday ? t('audit.yesterday') : dated.format(at).replace(',', ''), events: [event] });
  }
  return days;
}
