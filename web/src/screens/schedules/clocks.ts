/** A moment by two clocks: the schedule's own zone, as the server wrote it, and UTC. Pure. */

export interface Clocks {
  /** `Mon 23 Feb` by the clocks of the zone; with the year when it is another than the one we are in. */
  day: string;
  /** `17:00` by the clocks of the zone. */
  time: string;
  zone: string;
  /** `Tue 01:00 UTC`; the day only where it is another one. */
  utc: string;
  /** The same by the clock of whoever looks, without a zone: `Tue 02:00`. */
  own: string;
}

const LOCAL = /^(\d{4})-(\d{2})-(\d{2}) (\d{1,2}):(\d{2})(?::\d{2})? ([AP])M (\S+)$/;
const names = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short', timeZone: 'UTC' });
const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'short', timeZone: 'UTC' });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: 'UTC' });

/** Both clocks of one run. A local text that is not what we know is shown as it is. */
export function clocks(utc: string, local: string | null, now: number, mine = 'UTC'): Clocks {
  const moment = Date.parse(utc);
  const found = LOCAL.exec(local ?? '');
  if (!found) return { day: local ?? '', time: '', zone: '', utc: `${names.format(moment).replace(',', '')} ${clock.format(moment)} UTC`, own: ownTime(moment, mine, '') };
  const [, year = '', month = '', day = '', hour = '', minute = '', half = '', zone = ''] = found;
  const wall = Date.UTC(Number(year), Number(month) - 1, Number(day));
  const hours = (Number(hour) % 12) + (half === 'P' ? 12 : 0);
  const sameDay = new Date(moment).toISOString().slice(0, 10) === `${year}-${month}-${day}`;
  const other = year === String(new Date(now).getUTCFullYear()) ? '' : ` ${year}`;
  return {
    day: names.format(wall).replace(',', '') + other,
    time: `${String(hours).padStart(2, '0')}:${minute}`,
    zone,
    utc: `${sameDay ? '' : `${weekday.format(moment)} `}${clock.format(moment)} UTC`,
    own: ownTime(moment, mine, `${year}-${month}-${day}`),
  };
}

/** `09:00` by the clocks of a zone; with the weekday where the date is another than this one. */
function ownTime(moment: number, zone: string, date: string): string {
  const parts = new Map(
    new Intl.DateTimeFormat('en-GB', { year: 'numeric', month: '2-digit', day: '2-digit', weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: zone })
      .formatToParts(moment)
      .map((part) => [part.type, part.value]),
  );
  const there = `${parts.get('year')}-${parts.get('month')}-${parts.get('day')}`;
  return `${there === date ? '' : `${parts.get('weekday')} `}${parts.get('hour')}:${parts.get('minute')}`;
}

/** Whether my own clock tells another time than the zone's and UTC at this moment. */
export function ownDiffers(utc: string, zone: string, mine: string): boolean {
  const moment = Date.parse(utc);
  const at = (name: string): string => ownTime(moment, name, '');
  try {
    return at(mine) !== at('UTC') && at(mine) !== at(zone || 'UTC');
  } catch {
    return false; // a zone that this browser does not know
  }
}

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'always' });

/** How far ahead, in one unit: minutes, hours, days, months. */
export function ahead(at: number, now: number): string {
  const minutes = Math.max(0, (at - now) / 60_000);
  if (minutes < 1) return relative.format(1, 'minute');
  if (minutes < 90) return relative.format(Math.round(minutes), 'minute');
  if (minutes < 36 * 60) return relative.format(Math.round(minutes / 60), 'hour');
  if (minutes < 60 * 24 * 60) return relative.format(Math.round(minutes / 1440), 'day');
  return relative.format(Math.round(minutes / 43_830), 'month');
}

/** The place a zone is named after: `Europe/Berlin` is Berlin. */
export function placeOf(zone: string): string {
  return (zone.split('/').at(-1) ?? zone).replaceAll('_', ' ');
}

/** Every zone this browser knows; UTC among them. */
export function zones(): string[] {
  const known = typeof Intl.supportedValuesOf === 'function' ? Intl.supportedValuesOf('timeZone') : [];
  return known.includes('UTC') ? known : ['UTC', ...known];
}

const plain = (name: string): string => name.trim().toLowerCase().replace(/[\s-]+/g, '_');

/** The zone that is meant by what was typed: its name in any case, or its city alone; what is none stays as it is. */
export function zoneOf(typed: string, known: readonly string[]): string {
  const asked = plain(typed);
  if (!asked) return typed.trim();
  const same = known.find((name) => name.toLowerCase() === asked);
  const cities = known.filter((name) => name.toLowerCase().split('/').at(-1) === asked);
  return same ?? (cities.length === 1 ? (cities[0] ?? typed) : typed.trim());
}
