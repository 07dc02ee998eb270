/** Where we are: the fragment of the address, matched against the routes. */
import { match, type Pattern, type Place } from './match.ts';

export class Router {
  readonly #patterns: readonly Pattern[];
  readonly #window: Window;
  place: Place | null = $state.raw(null);

  constructor(patterns: readonly Pattern[], on: Window = window) {
    this.#patterns = patterns;
    this.#window = on;
    this.#read();
  }

  /** Follow the address; the answer stops it. */
  start(): () => void {
    const read = (): void => this.#read();
    this.#window.addEventListener('hashchange', read);
    return () => this.#window.removeEventListener('hashchange', read);
  }

  /** Go somewhere; `replace` leaves no step back. */
  go(hash: string, { replace = false } = {}): void {
    if (replace) {
      this.#window.history.replaceState(null, '', hash);
      this.#read();
    } else {
      this.#window.location.hash = hash;
    }
  }

  #read(): void {
    this.place = match(this.#window.location.hash, this.#patterns);
  }
}
