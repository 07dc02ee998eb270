/** A recorded terminal to be played: asciicast, version 2. */
import type { Size } from './screen.ts';

export interface Moment {
  at: number;
  data: string;
}

export interface Cast {
  size: Size;
  moments: Moment[];
  /** In seconds. */
  length: number;
}

const MOST = { rows: 500, columns: 1000 };

export function readCast(text: string): Cast | null {
  const lines = text.split('\n').filter((line) => line !== '');
  try {
    const head = JSON.parse(lines[0] ?? '') as { width?: unknown; height?: unknown };
    const moments: Moment[] = [];
    for (const line of lines.slice(1)) {
      const [at, kind, data] = JSON.parse(line) as [number, string, string];
      if (kind === 'o' && data) moments.push({ at, data });
    }
    const size = { rows: within(head.height, MOST.rows), columns: within(head.width, MOST.columns) };
    return { size, moments, length: moments.at(-1)?.at ?? 0 };
  } catch {
    return null;
  }
}

function within(value: unknown, most: number): number {
  return Math.min(most, Math.max(2, Math.trunc(Number(value)) || 24));
}

/** Where the moments after a time begin. */
export function placeAt(cast: Cast, seconds: number): number {
  const found = cast.moments.findIndex((moment) => moment.at > seconds);
  return found < 0 ? cast.moments.length : found;
}

/** The end of a slider with steps of a tenth: a shorter one would never reach the last moment. */
export function endOf(cast: Cast): number {
  return Math.ceil(cast.length * 10) / 10;
}

/** `3:07`. */
export function clockOf(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.trunc(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}
