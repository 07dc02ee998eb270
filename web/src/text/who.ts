/** Who answered, in words. Pure. */
import { lookup, t } from './t.ts';

/** Who said yes, in words. */
export function whoSaid(by: string): string {
  if (by.startsWith('device:')) return t('actions.by.device');
  return lookup(`actions.by.${by}`, by);
}

/** Why everything was stopped, as somebody gave it; empty when nobody did, for the record then only repeats who it was. */
export function stopReason(reason: string): string {
  return /^by device:\S+$/.test(reason) ? '' : reason;
}
