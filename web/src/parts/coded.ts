/** Words in which code stands between backticks, in pieces. Pure. */
export interface CodedPiece {
  text: string;
  code: boolean;
}

/** A backtick without its partner is a letter like any other. */
export function codedPieces(text: string): CodedPiece[] {
  return text
    .split(/(`[^`\n]+`)/)
    .filter(Boolean)
    .map((piece) => (/^`[^`\n]+`$/.test(piece) ? { text: piece.slice(1, -1), code: true } : { text: piece, code: false }));
}
