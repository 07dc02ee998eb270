/** Which lists an event makes old: the server tells it with the event. */
import type { LiveEvent, Topic } from './types.ts';

export function concerns(event: Pick<LiveEvent, 'topics'>, topic: Topic): boolean {
  return event.topics.includes(topic);
}
