/** Paths of the workspace, as the tree shows them. Pure. */

/** A name below a folder; the workspace itself is the empty path. */
export function below(folder: string, name: string): string {
  return folder ? `${folder}/${name}` : name;
}

/** Every folder on the way to a path, the outermost first: `a/b/c.md` lies in `a` and `a/b`. */
export function foldersOf(path: string): string[] {
  const pieces = path.split('/').slice(0, -1);
  return pieces.map((_, at) => pieces.slice(0, at + 1).join('/'));
}
