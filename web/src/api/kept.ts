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

  /** Keep an answer. A storage that is full or switched off is no reason to fail. */
  async put(path: string, body: unknown, now: number): Promise<void> {
    try {
      const cache = await this.#caches?.open(CACHE);
      if (!cache) return;
      await cache.delete(path); // so that the oldest stand first
      const text = JSON.stringify(body);
      if (text.includes(SECRETIVE)) return;
      await cache.put(path, new Response(text, { headers: { [SINCE]: String(now) } }));
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
    try {
      await this.#caches?.delete(CACHE);
    } catch {
      // Nothing was kept.
    }
  }
}
