/** A sentence, cut where a path stands that should not be broken at its hyphens. Together the pieces are the sentence. Pure. */

export interface Piece {
  text: string;
  path: boolean;
}

/** Plain letters alone: what is written from right to left must not be set apart. */
const PATH = /^[\w./~@+:,`'"()-]+$/;

export function piecesOf(sentence: string): Piece[] {
  const pieces: Piece[] = [];
  for (const text of sentence.split(/(\s+)/)) {
    const path = text.includes('-') && /[./]/.test(text) && PATH.test(text);
    const before = pieces.at(-1);
    if (before && !path && !before.path) before.text += text;
    else if (text) pieces.push({ text, path });
  }
  return pieces;
}
