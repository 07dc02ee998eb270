/** What a file of the workspace is that cannot be shown as text. Pure. */
import type { ApiError } from '../../api/problem.ts';
import { lookup, t } from '../../text/t.ts';

export interface Unshown {
  why: 'nottext' | 'toolarge';
  /** What it is, by its name. */
  kind: string;
  /** In bytes; null when the answer does not tell. */
  size: number | null;
}

/** How the server puts the size: the only place where it says it. */
const SIZES = [/\(byte \d+ of (\d+)\)/, / is (\d+) bytes, more than /];
const WHY: Record<string, Unshown['why']> = { FILE_NOT_TEXT: 'nottext', FILE_TOO_LARGE: 'toolarge' };

/** What is known of a file that was not shown; null when something else was in the way. */
export function unshown(path: string, error: Pick<ApiError, 'code' | 'detail'>): Unshown | null {
  const why = WHY[error.code];
  if (!why) return null;
  const found = SIZES.map((each) => each.exec(error.detail.slice(error.detail.startsWith(path) ? path.length : 0))?.[1]).find(Boolean);
  return { why, kind: kindOf(path, why), size: found ? Number(found) : null };
}

/** Endings of text: what turned out to be none is not what its name says. */
const TEXTS = new Set(['csv', 'json', 'txt', 'log', 'md', 'svg']);

function kindOf(path: string, why: Unshown['why']): string {
  const ending = /\.([a-z0-9]{1,6})$/i.exec(path)?.[1]?.toLowerCase() ?? '';
  if (why === 'nottext' && TEXTS.has(ending)) return t('work.file.kind.binary');
  return lookup(`work.file.kind.${ending}`, why === 'nottext' ? t('work.file.kind.binary') : t('work.file.kind.any'));
}
