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
  /** In the whole difference, whether its lines are here or not. */
  whole: Counts;
  /** How many of its lines are not here. */
  left: number;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
/** How a difference ends that is longer than a card shows at a glance: what is not here is counted too. */
const LEFT_OUT = /^… (\d+) more lines?: (\d+) added, (\d+) removed$/;

/** The diff in a preview; null when the preview is something else. */
export function parseDiff(preview: string): Diff | null {
  const [first = '', second = '', third = '', ...rest] = preview.split('\n');
  if (!first.startsWith('--- ') || !second.startsWith('+++ ') || !HUNK.test(third)) return null;
  const whole: Counts = { added: 0, removed: 0 };
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
      whole.added += 1;
      lines.push({ kind: 'add', text: line.slice(1), before: null, after: after++ });
    } else if (line.startsWith('-')) {
      whole.removed += 1;
      lines.push({ kind: 'del', text: line.slice(1), before: before++, after: null });
    } else if (line.startsWith(' ')) {
      lines.push({ kind: 'same', text: line.slice(1), before: before++, after: after++ });
    } else if (out) {
      left = Number(out[1]);
      whole.added += Number(out[2]);
      whole.removed += Number(out[3]);
      if (Number(out[2]) + Number(out[3]) > left) return null; // no count of these lines
    } else if (line.startsWith('\\')) {
      lines.push({ kind: 'note', text: line, before: null, after: null });
    } else {
      return null; // something else that begins like one, such as a command made to look harmless
    }
  }
  return { path: second.slice(4), created: first === '--- /dev/null', lines, whole, left };
}
