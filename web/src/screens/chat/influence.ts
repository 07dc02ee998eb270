/** What of others an answer rests on, by the names the owner knows it by. Pure. */
import type { Label } from '../../api/types.ts';
import { sourceWords, sourcesOf } from '../../parts/label.ts';

export interface Drawn {
  /** What its tools read, of others. */
  read: string[];
  /** What its tools read, and the owner had uploaded. */
  uploaded: string[];
  /** What it was handed and has not read, as far as is in sight. */
  given: string[];
}

const UPLOADS = 'attachments/';
/** The source of what the owner uploaded. */
const UPLOAD = 'attachment';

/** Collects, message by message, which files brought in which source. */
export class Influences {
  readonly #read = new Map<string, Set<string>>();
  readonly #given = new Map<string, Set<string>>();

  /** A call gave something of others: the file it read, where it read one. */
  took(label: Label, args: string): void {
    const path = pathOf(args);
    if (path) this.#keep(this.#read, label, [path]);
  }

  /** The owner attached files. */
  attached(label: Label, paths: readonly string[]): void {
    this.#keep(this.#given, label, paths.filter((path) => path.startsWith(UPLOADS)));
  }

  /** What stands behind these labels by now; a source that nothing in sight explains goes by its own name. */
  of(labels: readonly Label[]): Drawn {
    const read = new Set<string>();
    const uploaded = new Set<string>();
    const given = new Set<string>();
    for (const source of sourcesOf(labels)) {
      const files = this.#read.get(source) ?? new Set();
      const waiting = [...(this.#given.get(source) ?? [])].filter((each) => !files.has(each));
      for (const each of files) (source === UPLOAD && each.startsWith(UPLOADS) ? uploaded : read).add(nameOf(each));
      for (const each of waiting) given.add(nameOf(each));
      if (!files.size && !waiting.length) (source === UPLOAD ? uploaded : read).add(sourceWords(source));
    }
    // What others had a hand in besides is theirs.
    return { read: [...read], uploaded: [...uploaded].filter((each) => !read.has(each)), given: [...given] };
  }

  #keep(where: Map<string, Set<string>>, label: Label, paths: readonly string[]): void {
    for (const source of sourcesOf([label])) where.set(source, new Set([...(where.get(source) ?? []), ...paths]));
  }
}

function nameOf(path: string): string {
  return path.startsWith(UPLOADS) ? path.slice(UPLOADS.length) : path;
}

function pathOf(args: string): string | null {
  try {
    const found = JSON.parse(args) as { path?: unknown } | null;
    return typeof found?.path === 'string' && found.path ? found.path : null;
  } catch {
    return null;
  }
}
