/** Reading a unified diff, as the gate renders it, into lines with a meaning. Never fails: what is no diff is text. */

export type LineKind = 'add' | 'del' | 'same' | 'hunk' | 'note';

export interface DiffLine {
  kind: LineKind;
  text: string;
  /** Line numbers before and after; null where there is none. */
  before: number | null;
  after: number | null;
}

export interface Diff {
  /** The file it is about. */
  path: string;
  created: boolean;
  lines: DiffLine[];
  added: number;
  removed: number;
  /** There is more than is shown: the counts are of what is. */
  cut: boolean;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

/** The diff in a preview; null when the preview is something else. */
export function parseDiff(preview: string): Diff | null {
  const [first = '', second = '', third = '', ...rest] = preview.split('\n');
  if (!first.startsWith('--- ') || !second.startsWith('+++ ') || !HUNK.test(third)) return null;
  const diff: Diff = { path: second.slice(4), created: first === '--- /dev/null', lines: [], added: 0, removed: 0, cut: false };
  let before = 0;
  let after = 0;
  for (const line of [third, ...rest]) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      diff.lines.push({ kind: 'hunk', text: line, before: null, after: null });
    } else if (line.startsWith('+')) {
      diff.added += 1;
      diff.lines.push({ kind: 'add', text: line.slice(1), before: null, after: after++ });
    } else if (line.startsWith('-')) {
      diff.removed += 1;
      diff.lines.push({ kind: 'del', text: line.slice(1), before: before++, after: null });
    } else if (line.startsWith(' ')) {
      diff.lines.push({ kind: 'same', text: line.slice(1), before: before++, after: after++ });
    } else if (line.startsWith('\\') || line.startsWith('… ')) {
      diff.cut ||= line.startsWith('… ');
      diff.lines.push({ kind: 'note', text: line, before: null, after: null });
    } else {
      return null; // something else that begins like one, such as a command made to look harmless
    }
  }
  return diff;
}
