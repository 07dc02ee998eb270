/** What a finished call left in the workspace: which file, and whether it can be taken back. Pure. */
import type { Call } from '../../api/types.ts';

/** Tools that change files, and the argument that says which file is there afterwards. */
const WRITES: Readonly<Record<string, string | null>> = {
  file_write: 'path',
  file_edit: 'path',
  file_move: 'target',
  file_delete: null,
  attachment_save: 'path',
  shell: null,
};

/** Null when it wrote nothing, or is not over. The path is null where no one file is left to look at. */
export function writtenBy(call: Pick<Call, 'tool' | 'arguments' | 'status' | 'action_id'>): { path: string | null } | null {
  const named = WRITES[call.tool];
  if (named === undefined || call.status !== 'EXECUTED' || !call.action_id) return null;
  return { path: named === null ? null : pathIn(call.arguments, named) };
}

function pathIn(args: string, name: string): string | null {
  try {
    const found = (JSON.parse(args) as Record<string, unknown> | null)?.[name];
    // Elsewhere than in the workspace there is nothing to show.
    return typeof found === 'string' && found && !found.startsWith('/') && !found.startsWith('~') ? found.replace(/^(\.\/)+/, '') : null;
  } catch {
    return null; // too long to be told whole
  }
}
