/** Findings as they are listed: by the folder they lie in. Pure. */
import type { IntelView } from '../../api/types.ts';

/** The last piece of a path. */
export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

const TOP = 'intel';

/** The same order, newest first, under their folders; what lies in none, such as the README, comes last. */
export function byFolder(items: readonly IntelView[]): { folder: string; items: IntelView[] }[] {
  const folders = new Map<string, IntelView[]>();
  for (const item of items) {
    const folder = item.path.slice(0, Math.max(item.path.lastIndexOf('/'), 0));
    folders.set(folder, [...(folders.get(folder) ?? []), item]);
  }
  const listed = [...folders].map(([folder, found]) => ({ folder, items: found }));
  return [...listed.filter((each) => each.folder !== TOP), ...listed.filter((each) => each.folder === TOP)];
}

/** Whether it is written to be read with headings and lists. */
export function isProse(path: string): boolean {
  return path.endsWith('.md');
}
