/** Whether pull requests merge without a question. Pure. */
import type { BotView } from '../api/types.ts';

/** Until when they do; null when they do not. It ends by the clock, without an event. */
export function yoloUntil(bot: Pick<BotView, 'mode' | 'yolo_until'> | null, now: number): number | null {
  if (bot?.mode !== 'yolo' || !bot.yolo_until) return null;
  const until = Date.parse(bot.yolo_until);
  return until > now ? until : null;
}
