/** A conversation begins with its first message, wherever that is written. */
import type { Panel } from '../panel.ts';
import { address } from '../route/match.ts';

/** `thread` is the key of the conversation: a second try after a lost answer does not make a second one. */
export async function begin(panel: Panel, thread: string, words: string, attachments: string[], key: string, replace: boolean, project = ''): Promise<void> {
  const made = await panel.api.chat.create(thread, project);
  await panel.api.chat.post(made.thread_id, words, attachments, key);
  panel.router.go(address('chat', made.thread_id), { replace });
}
