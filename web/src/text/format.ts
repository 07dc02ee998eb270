/** Moments, spans and sizes as people read them. Pure: whoever calls says what time it is. */
import { t } from './t.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'long' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const dayOfYear = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
const moment = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const second = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const money = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const words = new Intl.ListFormat('en', { type: 'conjunction' });
const small = new Intl.NumberFormat('en', { maximumSignificantDigits: 2 });

/** How long ago, or how far ahead; from a week on the date. */
export function ago(at: number, now: number): string {
  const gone = at - now;
  const size = Math.abs(gone);
  if (size < 45 * SECOND) return t('time.now');
  if (size < 45 * MINUTE) return relative.format(Math.round(gone / MINUTE), 'minute');
  if (size < 22 * HOUR) return relative.format(Math.round(gone / HOUR), 'hour');
  if (size < 7 * DAY) return relative.format(Math.round(gone / DAY), 'day');
  return new Date(at).getFullYear() === new Date(now).getFullYear() ? day.format(at) : dayOfYear.format(at);
}

/** A moment in full, for a tooltip. */
export function fully(at: number): string {
  return moment.format(at).replace(',', '');
}

/** The time of day. */
export function timeOfDay(at: number): string {
  return clock.format(at);
}

/** When, by this device's clock: of today to the second, otherwise with the day. */
export function stamp(at: number, now: number): string {
  if (new Date(at).toDateString() === new Date(now).toDateString()) return second.format(at);
  return `${(new Date(at).getFullYear() === new Date(now).getFullYear() ? day : dayOfYear).format(at)} ${clock.format(at)}`;
}

/** The time of day, to the second. */
export function toTheSecond(at: number): string {
  return second.format(at);
}

/** A span in its two largest units: `23 h 59 min`, `4 min 05 s`, `9 s`. */
export function span(milliseconds: number): string {
  const left = Math.max(0, Math.floor(milliseconds / SECOND));
  const hours = Math.floor(left / 3600);
  const minutes = Math.floor((left % 3600) / 60);
  const seconds = left % 60;
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  if (hours) return `${hours} h ${String(minutes).padStart(2, '0')} min`;
  if (minutes) return `${minutes} min ${String(seconds).padStart(2, '0')} s`;
  return `${seconds} s`;
}

/** A size in bytes. */
export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(bytes < 10_000 ? 1 : 0)} kB`;
  if (bytes < 1_000_000_000) return `${(bytes / 1_000_000).toFixed(1)} MB`;
  return `${(bytes / 1_000_000_000).toFixed(1)} GB`;
}

/** A large number in three digits: 1.2 k, 34 M. */
export function compact(n: number): string {
  return new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 }).format(n);
}

/** Millionths of the currency that the prices are in, which nobody names. */
export function cost(millionths: number): string {
  const value = millionths / 1_000_000;
  return value > 0 && value < 0.01 ? small.format(value) : money.format(value);
}

/** Names one after the other: `a, b, and c`; of many the first ones and how many there are besides. */
export function listed(names: readonly string[], most = 3): string {
  if (names.length <= most) return words.format(names);
  return words.format([...names.slice(0, most - 1), t('list.others', { n: names.length - most + 1 })]);
}

/** The zone of whoever looks at it. */
export function ownZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}
