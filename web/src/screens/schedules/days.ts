/** A time on some days of the week, and the calendar line it is. Pure. */

export interface DaysAndTime {
  /** Monday is 1, Sunday 7. */
  days: readonly number[];
  /** `09:30` */
  time: string;
}

export const WEEK = [1, 2, 3, 4, 5, 6, 7] as const;

/** What a calendar line says in days and a time; null for all that says more than that. */
export function daysOf(cron: string): DaysAndTime | null {
  const [, minute, hour, weekdays] = /^\s*(\d{1,2})\s+(\d{1,2})\s+\*\s+\*\s+([\d,*-]+)\s*$/.exec(cron) ?? [];
  if (minute === undefined || hour === undefined || weekdays === undefined || Number(minute) > 59 || Number(hour) > 23) return null;
  const days = weekdays === '*' ? [...WEEK] : listedDays(weekdays);
  return days && { days, time: `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}` };
}

/** The calendar line for them; empty as long as no day is chosen or the time is none. */
export function cronOf({ days, time }: DaysAndTime): string {
  const [, hour, minute] = /^(\d{2}):(\d{2})/.exec(time) ?? [];
  if (!days.length || hour === undefined || minute === undefined) return '';
  const sorted = [...new Set(days)].sort((a, b) => a - b);
  return `${Number(minute)} ${Number(hour)} * * ${sorted.length === 7 ? '*' : spans(sorted)}`;
}

function listedDays(text: string): number[] | null {
  const found = new Set<number>();
  for (const piece of text.split(',')) {
    const [, from, to] = /^([0-7])(?:-([0-7]))?$/.exec(piece) ?? [];
    if (from === undefined || (to !== undefined && Number(to) < Number(from))) return null;
    for (let day = Number(from); day <= Number(to ?? from); day += 1) found.add(day === 0 ? 7 : day);
  }
  return [...found].sort((a, b) => a - b);
}

/** `1-5,7`; Sunday is written 0, which every calendar knows, and stands by itself. */
function spans(days: readonly number[]): string {
  const pieces: string[] = days.includes(7) ? ['0'] : [];
  const rest = days.filter((day) => day !== 7);
  for (let at = 0; at < rest.length; ) {
    let end = at;
    while (rest[end + 1] === (rest[end] ?? 0) + 1) end += 1;
    pieces.push(end > at + 1 ? `${rest[at] ?? ''}-${rest[end] ?? ''}` : rest.slice(at, end + 1).join(','));
    at = end + 1;
  }
  return pieces.join(',');
}
