/** Something read from the server and kept right by events: the one way screens load data. */
import { untrack } from 'svelte';
import type { Fresh } from '../api/client.ts';
import { asApiError, isAborted, type ApiError } from '../api/problem.ts';
import { concerns } from '../api/topics.ts';
import type { LiveEvent, Topic } from '../api/types.ts';
import type { Live } from './live.svelte.ts';

const CALM = 120;
/** Who is told to come back within so many seconds does so without bothering anybody. */
const PATIENCE = 15;

export interface Follow {
  /** Which events make it old. */
  topics?: readonly Topic[];
  /** Of those, which ones; all when not given. */
  about?: (event: LiveEvent) => boolean;
}

export class Resource<T> {
  data: T | null = $state.raw(null);
  error: ApiError | null = $state.raw(null);
  loading = $state(true);
  /** Since when what is shown is only a memory; null while it is fresh. */
  staleSince: number | null = $state(null);
  readonly #load: () => Promise<Fresh<T>>;
  #asked = 0;
  #first: T | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reading = false;
  #again = false;
  #later: ReturnType<typeof setTimeout> | undefined;

  constructor(load: () => Promise<Fresh<T>>) {
    this.#load = load;
  }

  /** Read it again; what is shown stays until the answer is there. */
  async reload(): Promise<void> {
    const asked = ++this.#asked;
    clearTimeout(this.#later);
    this.loading = this.#reading = true;
    try {
      const { data, staleSince } = await this.#load();
      if (asked !== this.#asked) return;
      this.data = data;
      this.staleSince = staleSince;
      this.error = null;
    } catch (thrown) {
      if (asked !== this.#asked || isAborted(thrown)) return;
      const known = asApiError(thrown);
      if (known.status === 429 && known.retryAfter > 0 && known.retryAfter <= PATIENCE) {
        this.#later = setTimeout(() => void this.reload(), known.retryAfter * 1000);
        return; // what is shown stays, or goes on loading
      }
      this.error = known;
    } finally {
      if (asked === this.#asked) this.#reading = false;
    }
    this.loading = false;
    if (!this.#again) return;
    this.#again = false;
    this.soon();
  }

  /** Read it again soon; many wishes in a row are one, and none is put off for ever. */
  soon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      // Asking again would throw away the answer that is on its way: events that never end must not keep it from coming.
      if (this.#reading) this.#again = true;
      else void this.reload();
    }, CALM);
  }

  /** Something else is shown from now on: what there was must not be taken for it. */
  reset(): void {
    this.stop();
    this.data = this.#first;
    this.#first = null;
    this.error = null;
    this.staleSince = null;
    this.loading = true;
  }

  /** Nobody looks any more: what was to be read soon is not read, and what comes in late is not taken. */
  stop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#later);
    this.#timer = undefined;
    this.#reading = this.#again = false;
    this.#asked += 1;
  }

  /** Show this until the first answer is there: somebody else had it already. */
  begin(data: T): void {
    this.#first = data;
  }

  /** Put an answer that came another way in place (of a write, say). */
  set(data: T): void {
    // What was on its way, or was to be asked for, may be newer than this.
    const missed = this.#reading || this.#timer !== undefined;
    this.stop();
    this.data = data;
    this.staleSince = null;
    this.error = null;
    this.loading = false;
    if (missed) this.soon();
  }
}

/**
 * A resource that lives as long as the component that calls this. What `load` reads of reactive state, before its first
 * await, decides what is loaded: when that changes, it is loaded anew. A property of an object that is itself read again
 * counts as changed each time: name it by a `$derived` of its own, and only another value does.
 */
export function resource<T>(live: Live, load: () => Promise<Fresh<T>>, follow: Follow = {}): Resource<T> {
  const made = new Resource(load);
  $effect(() => {
    untrack(() => made.reset());
    void made.reload();
  });
  $effect(() => {
    const offEvent = live.onEvent((event) => {
      if (follow.topics?.some((topic) => concerns(event, topic)) && (follow.about?.(event) ?? true)) made.soon();
    });
    const offAgain = live.onAgain(() => made.soon());
    return () => {
      offEvent();
      offAgain();
      made.stop();
    };
  });
  return made;
}
