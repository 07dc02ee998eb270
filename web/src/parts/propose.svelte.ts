/** Proposing a change of settings: one key for one change, and then its card. */
import type { SettingChange } from '../api/types.ts';
import { usePanel } from '../panel.ts';
import { review } from '../route/match.ts';
import { t } from '../text/t.ts';

export function proposer() {
  const { api, toasts, router, newKey } = usePanel();
  let busy = $state(false);
  let key = newKey();
  let keyOf = '';
  return {
    get busy(): boolean {
      return busy;
    },
    async propose(changes: SettingChange[]): Promise<void> {
      const asked = JSON.stringify(changes);
      // A second press after a lost answer proposes nothing twice.
      if (keyOf !== asked) [key, keyOf] = [newKey(), asked];
      busy = true;
      try {
        const made = await api.settings.propose(changes, key);
        keyOf = '';
        toasts.show('plain', t('settings.change.waits'), made.message);
        router.go(review(made.action_id));
      } catch (error) {
        keyOf = '';
        toasts.fail(error);
      } finally {
        busy = false;
      }
    },
  };
}
