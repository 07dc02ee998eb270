/** Who answered, in words. Pure. */
import { lookup, t } from './t.ts';

/** Who said yes, in words. */
export function whoSaid(by: string): string {
  if (by.startsWith('device:')) return t('actions.by.device');
  return lookup(`actions.by.${by}`, by);
}
