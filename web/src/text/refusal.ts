/** Who said no: one word each, everywhere. Pure. */
import type { ActionSummary } from '../api/types.ts';
import type { IconName } from '../parts/icons.ts';
import type { Tone } from '../parts/tone.ts';
import { lookup, t } from './t.ts';

/** `rejected`: the owner. `denied`: the rules. `withdrawn`: it was no longer needed. `expired`: nobody answered. */
export type Refusal = NonNullable<ActionSummary['refusal']>;

export const REFUSALS: readonly Refusal[] = ['rejected', 'denied', 'withdrawn', 'expired'];

const CODES: Record<string, Refusal> = { OWNER_REFUSED: 'rejected', WITHDRAWN: 'withdrawn', EXPIRED: 'expired' };

/** Who said no, by the code a refusal ended with. */
export function refusalOf(code: string): Refusal {
  return CODES[code] ?? 'denied';
}

/** How a receipt says it ended: whose no it was, where it was a no. */
export function endOf(receipt: { status: string; code?: string }): string {
  if (receipt.status === 'denied') return receipt.code === undefined ? t('audit.receipt.notdone') : t(`refusal.${refusalOf(receipt.code)}`);
  return lookup(`audit.receipt.${receipt.status}`, receipt.status);
}

const TONES: Record<string, Tone> = { allowed: 'good', denied: 'plain', failed: 'bad', unknown: 'bad' };

export function endTone(receipt: { status: string; code?: string }): Tone {
  return receipt.status === 'denied' && receipt.code !== undefined && refusalOf(receipt.code) === 'denied' ? 'bad' : (TONES[receipt.status] ?? 'plain');
}

const ENDS: Record<string, IconName> = { allowed: 'check', denied: 'close' };

/** The sign of an end, the same that an action bears. */
export function endIcon(receipt: { status: string }): IconName {
  return ENDS[receipt.status] ?? 'warn';
}
