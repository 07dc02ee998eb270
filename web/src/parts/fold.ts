/** A long preview at a glance: its beginning, its end, and a count of what is left out. Pure; nothing is ever changed but left out. */
import { parseDiff } from './diff.ts';

const DIFF_LINES = 200;
const TEXT_LINES = 30;
const HEAD = 18;
const TAIL = 8;
const CHARACTERS = 400;

/** The preview itself when nothing has to be left out. */
export function atAGlance(preview: string): string {
  const lines = preview.split('\n').map(cut);
  if (parseDiff(preview)) {
    const rest = lines.slice(DIFF_LINES);
    if (!rest.length) return lines.join('\n');
    const begun = (sign: string): number => rest.filter((line) => line.startsWith(sign)).length;
    return [...lines.slice(0, DIFF_LINES), `… ${rest.length} more lines: ${begun('+')} added, ${begun('-')} removed`].join('\n');
  }
  if (lines.length <= TEXT_LINES) return lines.join('\n');
  return [...lines.slice(0, HEAD), `… ${lines.length - HEAD - TAIL} more lines …`, ...lines.slice(-TAIL)].join('\n');
}

function cut(line: string): string {
  const more = line.length - CHARACTERS;
  return more > 0 ? `${line.slice(0, CHARACTERS)}… ${more} more characters` : line;
}
