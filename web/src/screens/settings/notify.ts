/** The form of notifications: what it shows of the settings, and the changes it asks for, all at once. Pure. */
import type { EffectiveSetting, Json, SettingChange } from '../../api/types.ts';
import { typed } from './editable.ts';

export const KINDS = ['approval_needed', 'approval_expiring', 'job_failed', 'job_completed', 'proactive_reach_out', 'alert_raised', 'session_waiting'] as const;
export type Kind = (typeof KINDS)[number];

const TYPES = 'notify.types';
const QUIET = 'notify.quiet';
const PORT = 'notify.smtp.port';
/** One line each. What belongs together stands together: a mail server without a sender is refused. */
export const MESSAGE = ['notify.url', 'notify.token_env'] as const;
export const MAIL = ['notify.smtp.host', PORT, 'notify.smtp.from', 'notify.smtp.to', 'notify.smtp.user', 'notify.smtp.password_env'] as const;
const LINES = ['notify.timezone', 'notify.contact', ...MESSAGE, ...MAIL] as const;

export interface Draft {
  kinds: Record<Kind, boolean>;
  /** The quiet hours; both empty for none. */
  from: string;
  to: string;
  lines: Record<string, string>;
}

type Known = readonly Pick<EffectiveSetting, 'key' | 'value'>[];

function valueOf(settings: Known, key: string): Json {
  return settings.find((each) => each.key === key)?.value ?? null;
}

export function draftOf(settings: Known): Draft {
  const kinds = valueOf(settings, TYPES);
  const [from = '', to = ''] = typed(valueOf(settings, QUIET)).split('-');
  return {
    kinds: Object.fromEntries(KINDS.map((kind) => [kind, Array.isArray(kinds) && kinds.includes(kind)])) as Draft['kinds'],
    from,
    to,
    lines: Object.fromEntries(LINES.map((key) => [key, typed(valueOf(settings, key))])),
  };
}

/** What the form asks for; null while it cannot be read: half of the quiet hours, or a port that is no number. */
export function changesOf(settings: Known, draft: Draft): SettingChange[] | null {
  const port = draft.lines[PORT]?.trim() ?? '';
  if (!draft.from !== !draft.to || !/^\d*$/.test(port)) return null;
  const was = draftOf(settings);
  const changes: SettingChange[] = [];
  if (KINDS.some((kind) => was.kinds[kind] !== draft.kinds[kind])) changes.push({ key: TYPES, op: 'set', value: KINDS.filter((kind) => draft.kinds[kind]) });
  if (was.from !== draft.from || was.to !== draft.to) changes.push(set(QUIET, draft.from && `${draft.from}-${draft.to}`));
  for (const key of LINES) {
    const now = draft.lines[key]?.trim() ?? '';
    if (now !== was.lines[key]) changes.push(set(key, key === PORT && now ? Number(now) : now));
  }
  return changes;
}

/** What was emptied goes back to its default. */
function set(key: string, value: string | number): SettingChange {
  return value === '' ? { key, op: 'unset' } : { key, op: 'set', value };
}
