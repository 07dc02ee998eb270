/** Reading a unified diff, as the gate renders it, into lines with a meaning. Never fails: what is no diff is text. */

export type LineKind = 'add' | 'del' | 'same' | 'hunk' | 'note';

export interface DiffLine {
  kind: LineKind;
  text: string;
  /** Line numbers before and after; null where there is none. */
  before: number | null;
  after: number | null;
}

export interface Counts {
  added: number;
  removed: number;
}

export interface Diff {
  /** The file it is about. */
  path: string;
  created: boolean;
  lines: DiffLine[];
  /** In the lines that are here. */
  here: Counts;
  /** In the whole difference; null when the lines that are here do not tell. */
  whole: Counts | null;
  /** How many of its lines are not here. */
  left: number;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const LEFT_OUT = /^… (\d+) more lines?$/;

/** The diff in a preview; null when the preview is something else. */
export function parseDiff(preview: string): Diff | null {
  const [first = '', second = '', third = '', ...rest] = preview.split('\n');
  if (!first.startsWith('--- ') || !second.startsWith('+++ ') || !HUNK.test(third)) return null;
  const here: Counts = { added: 0, removed: 0 };
  const lines: DiffLine[] = [];
  let left = 0;
  let before = 0;
  let after = 0;
  for (const line of [third, ...rest]) {
    const hunk = HUNK.exec(line);
    const out = LEFT_OUT.exec(line);
    if (left) return null; // nothing follows what was left out
    if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[3]);
      lines.push({ kind: 'hunk', text: line, before: null, after: null });
    } else if (line.startsWith('+')) {
      here.added += 1;
      lines.push({ kind: 'add', text: line.slice(1), before: null, after: after++ });
    } else if (line.startsWith('-')) {
      here.removed += 1;
      lines.push({ kind: 'del', text: line.slice(1), before: before++, after: null });
    } else if (line.startsWith(' ')) {
      lines.push({ kind: 'same', text: line.slice(1), before: before++, after: after++ });
    } else if (out) {
      left = Number(out[1]);
    } else if (line.startsWith('\\')) {
      lines.push({ kind: 'note', text: line, before: null, after: null });
    } else {
      return null; // something else that begins like one, such as a command made to look harmless
    }
  }
  const whole = left ? wholeOf(third, here) : here;
  return { path: second.slice(4), created: first === '--- /dev/null', lines, here, whole, left };
}

/**
 * What a difference of which a part is missing counts as a whole: its first hunk says so where one side has no lines at
 * all, a new file or one that is emptied, for then there is no other hunk. Otherwise nobody knows from here.
 */
function wholeOf(header: string, here: Counts): Counts | null {
  const [, , olds = '1', , news = '1'] = HUNK.exec(header) ?? [];
  const whole: Counts = { added: Number(news), removed: Number(olds) };
  const certain = (whole.removed === 0 && here.removed === 0) || (whole.added === 0 && here.added === 0);
  return certain && whole.added >= here.added && whole.removed >= here.removed ? whole : null;
}
