/** The only place that calls fetch for data: problems become errors, writes carry a key, lists are kept for later. */
import type { Kept } from './kept.ts';
import { ApiError, IN_PROGRESS, OFFLINE, UNCONFIRMED, UNPAIRED, UNREADABLE, asApiError, errorOf, isAborted } from './problem.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
export type Query = Record<string, string | number | boolean | null | undefined>;

/** An answer, and since when it is only a memory of one (null: fresh). */
export interface Fresh<T> {
  data: T;
  staleSince: number | null;
}

export interface Hooks {
  /** The cookie is gone or no longer good. */
  unpaired: () => void;
  /** The device waits for a passkey to vouch for it. */
  unconfirmed: () => void;
  /** A server answered (true), or none could be reached (false). */
  reached: (yes: boolean) => void;
  /** How far the server's clock is ahead of ours, in milliseconds. */
  skew: (milliseconds: number) => void;
}

export interface ClientParts {
  fetch: typeof fetch;
  kept: Kept;
  hooks: Hooks;
  now: () => number;
  newKey: () => string;
  sleep: (milliseconds: number) => Promise<void>;
}

const TRIES = 5;
/** The same request is still being worked on. */
const UNFINISHED: ReadonlySet<string> = new Set([IN_PROGRESS, 'UNDER_WAY']);

export function withQuery(path: string, query: Query = {}): string {
  const found = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  if (!found.length) return path;
  return `${path}?${new URLSearchParams(found.map(([name, value]) => [name, String(value)])).toString()}`;
}

export class Client {
  readonly #parts: ClientParts;

  constructor(parts: ClientParts) {
    this.#parts = parts;
  }

  /** Read something; an aborted signal rejects with AbortError. */
  async get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return this.#readable<T>(await this.#send('GET', withQuery(path, query), null, null, signal));
  }

  /** Read something and keep it; when nothing answers, what was kept, with since when. */
  async kept<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Fresh<T>> {
    const address = withQuery(path, query);
    try {
      const data = await this.get<T>(address, {}, signal);
      void this.#parts.kept.put(address, data, this.#parts.now());
      return { data, staleSince: null };
    } catch (error) {
      if (!(error instanceof ApiError) || !error.offline) throw error;
      const found = await this.#parts.kept.get(address);
      if (!found) throw error;
      return { data: found.body as T, staleSince: found.since };
    }
  }

  /**
   * Change something. The key makes a repeated request harmless, so one that got no answer is sent once more, and one
   * that is still under way is asked for again.
   */
  async write<T>(method: Exclude<Method, 'GET'>, path: string, body: unknown = null, key = this.#parts.newKey()): Promise<T> {
    let silent = 0;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#readable<T>(await this.#send(method, path, body, key));
      } catch (error) {
        const known = asApiError(error);
        const again = UNFINISHED.has(known.code) ? attempt < TRIES : known.offline && silent++ === 0;
        if (!again) throw known;
        await this.#parts.sleep(Math.max(known.retryAfter * 1000, 400));
      }
    }
  }

  post<T>(path: string, body: unknown = {}, key?: string): Promise<T> {
    return this.write<T>('POST', path, body, key);
  }

  put<T>(path: string, body: unknown, key?: string): Promise<T> {
    return this.write<T>('PUT', path, body, key);
  }

  patch<T>(path: string, body: unknown, key?: string): Promise<T> {
    return this.write<T>('PATCH', path, body, key);
  }

  delete(path: string, key?: string): Promise<void> {
    return this.write<void>('DELETE', path, null, key);
  }

  /** A stream to read; whoever asked closes it through the signal. */
  async open(path: string, query: Query, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const response = await this.#parts.fetch(withQuery(path, query), {
      headers,
      signal,
      credentials: 'same-origin',
      cache: 'no-store',
    });
    if (response.ok) return response;
    throw await this.#told(response);
  }

  async #send(method: Method, path: string, body: unknown, key: string | null, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { Accept: 'application/json' };
    if (key) headers['Idempotency-Key'] = key;
    const raw = body instanceof FormData || body instanceof Blob;
    if (body !== null && !raw) headers['Content-Type'] = 'application/json';
    let response: Response;
    try {
      response = await this.#parts.fetch(path, {
        method,
        headers,
        credentials: 'same-origin',
        cache: 'no-store',
        body: body === null ? null : raw ? body : JSON.stringify(body),
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      if (isAborted(error)) throw error;
      this.#parts.hooks.reached(false);
      throw new ApiError({ status: 0, code: OFFLINE, detail: '' });
    }
    this.#parts.hooks.reached(true);
    this.#readClock(response);
    if (response.ok) return response;
    throw await this.#told(response);
  }

  async #told(response: Response): Promise<ApiError> {
    const error = await errorOf(response);
    if (error.status === 401 || error.code === UNPAIRED) this.#parts.hooks.unpaired();
    if (error.code === UNCONFIRMED) this.#parts.hooks.unconfirmed();
    return error;
  }

  #readClock(response: Response): void {
    const date = Date.parse(response.headers.get('Date') ?? '');
    // The header counts whole seconds: half of one is the best guess of what it left out.
    if (!Number.isNaN(date)) this.#parts.hooks.skew(date + 500 - this.#parts.now());
  }

  async #readable<T>(response: Response): Promise<T> {
    if (response.status === 204) return undefined as T;
    try {
      return (await response.json()) as T;
    } catch (error) {
      if (isAborted(error)) throw error;
      throw new ApiError({ status: response.status, code: UNREADABLE, detail: '' });
    }
  }
}
