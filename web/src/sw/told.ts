/**
 * A pushed message in words. It holds ids alone, and of these only where a press leads is used: the words are fixed,
 * whatever the message says. Part of the service worker, which shares no code with the pages.
 */

const WORDS: Readonly<Record<string, string>> = {
  approval_needed: 'Something waits for your approval',
  approval_expiring: 'An approval expires soon',
  job_failed: 'A job failed',
  job_completed: 'A job is done',
  proactive_reach_out: 'The agent has something to tell you',
  alert_raised: 'A patrol found a problem',
  session_waiting: 'A coding session waits for you',
};
/** A browser must show something for every message it gets. */
const OTHERWISE = 'There is something to look at';
/** Said when the browser gave its subscription up and no panel is open to ask for another. */
export const ENDED = 'Open the panel to be told here again';
const AN_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;

export interface Told {
  body: string;
  /** A newer one about the same thing takes its place. */
  tag: string;
  leads: string;
}

export function toldOf(data: unknown): Told {
  const { type, entity_id: id } = typeof data === 'object' && data !== null ? (data as Record<string, unknown>) : {};
  const body = typeof type === 'string' && Object.hasOwn(WORDS, type) ? WORDS[type] : undefined;
  if (typeof type !== 'string' || !body || typeof id !== 'string' || !AN_ID.test(id)) return { body: body ?? OTHERWISE, tag: 'coilclaw', leads: '#/settings/notices' };
  // What a job said stands in its conversation, which the message does not name; the list leads there.
  if (type === 'proactive_reach_out' && id.startsWith('job_')) return { body, tag: id, leads: '#/settings/notices' };
  if (id.startsWith('account_')) return { body, tag: id, leads: '#/settings/accounts' };
  if (id.startsWith('guest_')) return { body, tag: id, leads: `#/settings/guests/${id.slice('guest_'.length)}` };
  if (type === 'alert_raised') return { body, tag: id, leads: '#/work/patrols' };
  if (type === 'session_waiting') return { body, tag: id, leads: `#/work/sessions/${id}` };
  const area = type.startsWith('approval') ? 'approvals' : id.startsWith('job_') ? 'work/jobs' : 'chat';
  return { body, tag: id, leads: `#/${area}/${id}` };
}
