/** A text cut where given values stand in it, so that they can be marked. Pure; the longest value wins. */

export interface Segment {
  text: string;
  marked: boolean;
}

/** Shorter values would mark half of every text. */
const SHORTEST = 3;

export function segments(text: string, values: readonly string[]): Segment[] {
  const wanted = values.filter((value) => value.length >= SHORTEST).sort((a, b) => b.length - a.length);
  if (!wanted.length) return text ? [{ text, marked: false }] : [];
  const pattern = new RegExp(`(${wanted.map((value) => value.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')})`, 'gi');
  return text
    .split(pattern)
    .map((piece, at) => ({ text: piece, marked: at % 2 === 1 }))
    .filter((piece) => piece.text);
}
