/** Usage as it is shown: every day of a span, and money. Pure. */
import type { UsageBill } from '../../api/types.ts';

const DAY = 24 * 3_600_000;

export interface DayBill {
  day: string;
  input: number;
  output: number;
  cost: number | null;
}

/** Every day (UTC) of the span that ends today, with what was used on it; a day nobody used is zero. */
export function everyDay(rows: readonly UsageBill[], days: number, now: number): DayBill[] {
  const found = new Map(rows.map((each) => [each.group, each]));
  return Array.from({ length: days }, (_, at) => {
    const day = new Date(now - (days - 1 - at) * DAY).toISOString().slice(0, 10);
    const bill = found.get(day);
    return { day, input: bill?.input_tokens ?? 0, output: bill?.output_tokens ?? 0, cost: bill?.cost_millionths ?? null };
  });
}

/** The share of a budget that is used, from 0 to 1; no budget is no share. */
export function share(used: number, all: number): number {
  return all > 0 ? Math.min(1, Math.max(0, used / all)) : 0;
}
