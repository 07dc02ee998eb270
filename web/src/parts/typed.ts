/** What people type into fields, read. Pure. */

/** A text of several lines as a list; empty lines do not count. */
export function linesOf(text: string): string[] {
  return text.split('\n').map((line) => line.trim()).filter(Boolean);
}

/** Names separated by commas, spaces or lines. */
export function namesOf(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

/** A whole number that was typed; null for none, NaN for what is none. */
export function wholeOf(text: string): number | null {
  const typed = text.trim();
  if (!typed) return null;
  return /^\d{1,7}$/.test(typed) ? Number(typed) : Number.NaN;
}
