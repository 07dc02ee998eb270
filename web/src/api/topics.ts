/** Which lists an event makes old. The stream sends it under its first topic; some concern more than one. */
import type { LiveEvent, Topic } from './types.ts';

const ALSO: Record<string, readonly Topic[]> = {
  approval_needed: ['action'],
  tool_approved: ['approval'],
  tool_denied: ['approval', 'receipt'],
  tool_completed: ['receipt'],
  tool_failed: ['receipt'],
  tool_unknown: ['receipt'],
  tool_resolved: ['approval'],
  tool_reproposed: ['approval'],
};

export function concerns(event: Pick<LiveEvent, 'event' | 'type'>, topic: Topic): boolean {
  return event.event === topic || (ALSO[event.type]?.includes(topic) ?? false);
}
