/** The only place that calls fetch for data: problems become errors, writes carry a key, lists are kept for later. */
import { addressOf, type Answer, type Asked, type Method, type Parts, type Path, type Sent } from './address.ts';
import type { Kept } from './kept.ts';
import { ApiError, IN_PROGRESS, OFFLINE, UNCONFIRMED, UNPAIRED, UNREADABLE, asApiError, errorOf, isAborted } from './problem.ts';

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

export class Client {
  readonly #parts: ClientParts;

  constructor(parts: ClientParts) {
    this.#parts = parts;
  }

  /** Read something; an aborted signal rejects with AbortError. */
  get<P extends Path<'GET'>>(path: P, ...[parts, signal]: Asked<P>): Promise<Answer<'GET', P>> {
    return this.#read(addressOf(path, parts), signal);
  }

  /** Read something and keep it; when nothing answers, what was kept, with since when. */
  async kept<P extends Path<'GET'>>(path: P, ...[parts, signal]: Asked<P>): Promise<Fresh<Answer<'GET', P>>> {
    const address = addressOf(path, parts);
    const { forgotten } = this.#parts.kept;
    try {
      const data = await this.#read<Answer<'GET', P>>(address, signal);
      void this.#parts.kept.put(address, data, this.#parts.now(), forgotten);
      return { data, staleSince: null };
    } catch (error) {
      if (!(error instanceof ApiError) || !error.offline) throw error;
      const found = await this.#parts.kept.get(address);
      if (!found) throw error;
      return { data: found.body as Answer<'GET', P>, staleSince: found.since };
    }
  }

  post<P extends Path<'POST'>>(path: P, ...[parts, key]: Sent<'POST', P>): Promise<Answer<'POST', P>> {
    return this.#write('POST', path, parts, key);
  }

  put<P extends Path<'PUT'>>(path: P, ...[parts, key]: Sent<'PUT', P>): Promise<Answer<'PUT', P>> {
    return this.#write('PUT', path, parts, key);
  }

  patch<P extends Path<'PATCH'>>(path: P, ...[parts, key]: Sent<'PATCH', P>): Promise<Answer<'PATCH', P>> {
    return this.#write('PATCH', path, parts, key);
  }

  delete<P extends Path<'DELETE'>>(path: P, ...[parts, key]: Sent<'DELETE', P>): Promise<Answer<'DELETE', P>> {
    return this.#write('DELETE', path, parts, key);
  }

  /** A stream to read; whoever asked closes it through the signal. */
  async open(address: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const response = await this.#parts.fetch(address, {
      headers,
      signal,
      credentials: 'same-origin',
      cache: 'no-store',
    });
    if (response.ok) return response;
    throw await this.#told(response);
  }

  async #read<T>(address: string, signal?: AbortSignal): Promise<T> {
    return this.#readable<T>(await this.#send('GET', address, null, null, signal));
  }

  /**
   * Change something. The key makes a repeated request harmless, so one that got no answer is sent once more, and one
   * that is still under way is asked for again.
   */
  async #write<T>(method: Method, path: string, parts: Parts = {}, key = this.#parts.newKey()): Promise<T> {
    const address = addressOf(path, parts);
    let silent = 0;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#readable<T>(await this.#send(method, address, parts.body ?? null, key));
      } catch (error) {
        const known = asApiError(error);
        const again = UNFINISHED.has(known.code) ? attempt < TRIES : known.offline && silent++ === 0;
        if (!again) throw known;
        await this.#parts.sleep(Math.max(known.retryAfter * 1000, 400));
      }
    }
  }

  async #send(method: Method, address: string, body: unknown, key: string | null, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { Accept: 'application/json' };
    if (key) headers['Idempotency-Key'] = key;
    const raw = body instanceof FormData || body instanceof Blob;
    if (body !== null && !raw) headers['Content-Type'] = 'application/json';
    let response: Response;
    try {
      response = await this.#parts.fetch(address, {
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
