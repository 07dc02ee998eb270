/** A part of a whole that can be drawn: never below nothing, never above all. */

export interface Share {
  part: number;
  whole: number;
  percent: number;
}

export function shareOf(value: number, of: number): Share {
  const whole = Math.max(of, 0);
  const part = Math.min(Math.max(value, 0), whole);
  return { part, whole, percent: whole > 0 ? (part / whole) * 100 : 0 };
}
