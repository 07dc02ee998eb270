/** What can be said of accounts without a server. Pure. */
import type { AccountView, ApprovalCard } from '../../api/types.ts';
import type { IconName } from '../../parts/icons.ts';
import type { Tone } from '../../parts/tone.ts';

const TONES: Record<AccountView['state'], Tone> = { not_connected: 'plain', connected: 'good', reconnect: 'bad' };
const ICONS: Record<AccountView['state'], IconName> = { not_connected: 'close', connected: 'check', reconnect: 'warn' };
const CALLS: readonly string[] = ['google_connect', 'google_disconnect'];

export function toneOf(account: Pick<AccountView, 'state'>): Tone {
  return TONES[account.state];
}

export function iconOf(account: Pick<AccountView, 'state'>): IconName {
  return ICONS[account.state];
}

/** The question about this account that waits, if any: asked here, on another device, or before the page was loaded. */
export function questionOf(pending: readonly Pick<ApprovalCard, 'action_id' | 'tool_name' | 'args'>[], identity: string): string | null {
  return pending.find((card) => CALLS.includes(card.tool_name) && accountIn(card.args) === identity)?.action_id ?? null;
}

function accountIn(text: string): unknown {
  try {
    const args: unknown = JSON.parse(text);
    return typeof args === 'object' && args !== null && 'account' in args ? args.account : undefined;
  } catch {
    return undefined;
  }
}
