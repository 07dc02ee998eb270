/** Whether a change of settings is in force already. Pure. */
import type { EffectiveSetting, SettingChange } from '../api/types.ts';

/** Whether each of these would add what its list has. */
export function isMade(changes: readonly SettingChange[], settings: readonly Pick<EffectiveSetting, 'key' | 'value'>[]): boolean {
  return (
    changes.length > 0 &&
    changes.every(({ key, op, value }) => {
      const held = settings.find((each) => each.key === key)?.value;
      return op === 'add' && typeof value === 'string' && Array.isArray(held) && held.includes(value);
    })
  );
}
