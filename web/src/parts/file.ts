/** What a file of the workspace is, and how much of it can be shown. Pure. */
import type { ShownFile } from '../api/types.ts';
import { size } from '../text/format.ts';
import { t } from '../text/t.ts';

/** Pictures that are shown: what draws, and nothing that runs. SVG is text, and is shown as such. */
const PICTURES: ReadonlySet<ShownFile['kind']> = new Set(['png', 'jpeg', 'gif', 'webp']);
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The address of a picture, all of it in itself; null for everything that is none or was not sent. */
export function pictureOf(file: Pick<ShownFile, 'kind' | 'image'>): string | null {
  return PICTURES.has(file.kind) && BASE64.test(file.image) ? `data:image/${file.kind};base64,${file.image}` : null;
}

/** What a picture is to who does not see it: its file's name, and how large that is. */
export function altOf(file: Pick<ShownFile, 'path' | 'size'>): string {
  const name = file.path.split('/').at(-1) || file.path;
  return t('work.file.alt', { name, size: size(file.size) });
}

/** Why nothing of it is shown; null when something is. */
export function unshown(file: Pick<ShownFile, 'kind' | 'image' | 'size'>): 'nottext' | 'picture' | null {
  if (file.kind === 'text' || pictureOf(file)) return null;
  return PICTURES.has(file.kind) ? 'picture' : 'nottext';
}
