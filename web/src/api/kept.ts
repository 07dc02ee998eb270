/**
 * Kept answers: the last answer of a list stays in a cache of its own, so that the panel shows it, marked stale, when the
 * server cannot be reached. Gone at sign-out. Nothing else writes here. Answers are redacted by the server,
 * but for cards, which are shown whole: one that holds something like a secret is not kept.
 */
const CACHE = 'coilclaw-kept';
const SINCE = 'x-kept-at';
export const MOST = 60;
/** A card that says so of itself; in words that somebody wrote the quotes would be escaped. */
const SECRETIVE = '"secretive":true';

export interface KeptAnswer {
  body: unknown;
  since: number;
}

export class Kept {
  readonly #caches: CacheStorage | undefined;

  constructor(caches: CacheStorage | undefined = globalThis.caches) {
    this.#caches = caches;
  }

  /** How often everything was forgotten: an answer to a question from before belongs to whoever asked then. */
  forgotten = 0;

  /** Keep an answer. A storage that is full or switched off is no reason to fail. */
  async put(path: string, body: unknown, now: number, forgotten = this.forgotten): Promise<void> {
    try {
      if (forgotten !== this.forgotten) return;
      const cache = await this.#caches?.open(CACHE);
      if (!cache) return;
      await cache.delete(path); // so that the oldest stand first
      const text = JSON.stringify(body);
      if (text.includes(SECRETIVE)) return;
      await cache.put(path, new Response(text, { headers: { [SINCE]: String(now) } }));
      if (forgotten !== this.forgotten) return void (await this.#caches?.delete(CACHE));
      const keys = await cache.keys();
      for (const key of keys.slice(0, Math.max(0, keys.length - MOST))) await cache.delete(key);
    } catch {
      // The next answer may fit.
    }
  }

  async get(path: string): Promise<KeptAnswer | null> {
    try {
      const found = await (await this.#caches?.open(CACHE))?.match(path);
      if (!found) return null;
      return { body: await found.json(), since: Number(found.headers.get(SINCE)) };
    } catch {
      return null;
    }
  }

  /** Forget everything: signed out, or no longer paired. */
  async clear(): Promise<void> {
    this.forgotten += 1;
    try {
      await this.#caches?.delete(CACHE);
    } catch {
      // Nothing was kept.
    }
  }
}
