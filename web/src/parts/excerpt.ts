/** The line of a conversation in a list: what came of it where that is over, else its last words. Pure. */
import type { Thread } from '../api/types.ts';
import { t } from '../text/t.ts';
import { plainly } from './plain.ts';

export function excerptOf(thread: Pick<Thread, 'last' | 'came_of_it' | 'waiting_approvals'>): string {
  const came = thread.came_of_it;
  if (!came || thread.waiting_approvals) return plainly(thread.last?.text ?? '');
  return t('chat.came', { how: came.refusal ? t(`refusal.${came.refusal}`) : t(`status.${came.status}`), what: came.summary });
}
