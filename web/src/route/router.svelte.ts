/** Where we are: the fragment of the address, matched against the routes. */
import { match, upOf, type Pattern, type Place } from './match.ts';

/** Which step of ours an entry of the browser's history is: what it was before ours began is not ours to go back to. */
interface Step {
  step: number;
}

export class Router {
  readonly #patterns: readonly Pattern[];
  readonly #window: Window;
  #step = -1;
  place: Place | null = $state.raw(null);
  /** The list that holds what is looked at. */
  up = $state('#/');

  constructor(patterns: readonly Pattern[], on: Window = window) {
    this.#patterns = patterns;
    this.#window = on;
    this.#count();
    this.#read();
  }

  /** Follow the address; the answer stops it. */
  start(): () => void {
    const read = (): void => {
      this.#count();
      this.#read();
    };
    this.#window.addEventListener('hashchange', read);
    return () => this.#window.removeEventListener('hashchange', read);
  }

  /** Go somewhere; `replace` leaves no step back. */
  go(hash: string, { replace = false } = {}): void {
    if (replace) {
      this.#window.history.replaceState({ step: this.#step } satisfies Step, '', hash);
      this.#read();
    } else {
      this.#window.location.hash = hash;
    }
  }

  /** Back to where one came from; who came from outside goes up, to the list. */
  back(): void {
    if (this.#step > 0) this.#window.history.back();
    else this.go(this.up);
  }

  /** A new entry is one step further; one that we made before knows its number. */
  #count(): void {
    const known = (this.#window.history.state as Step | null)?.step;
    if (known !== undefined) {
      this.#step = known;
    } else {
      this.#step += 1;
      this.#window.history.replaceState({ step: this.#step } satisfies Step, '');
    }
  }

  #read(): void {
    this.place = match(this.#window.location.hash, this.#patterns);
    this.up = upOf(this.#window.location.hash);
  }
}
