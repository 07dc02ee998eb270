/** Short messages at the edge: what just happened, never the only place that says so. */
import { said } from '../text/problem.ts';

export type Tone = 'good' | 'plain' | 'bad';

export interface Toast {
  id: number;
  tone: Tone;
  text: string;
  more: string;
  /** What it is about: a later word about the same takes its place. */
  topic: string;
}

const STAYS: Record<Tone, number> = { good: 4_000, plain: 4_000, bad: 12_000 };
const MOST = 3;

export class Toasts {
  list: Toast[] = $state.raw([]);
  #next = 1;

  show(tone: Tone, text: string, more = '', topic = ''): void {
    const toast = { id: this.#next++, tone, text, more, topic };
    const others = this.list.filter((each) => !topic || each.topic !== topic);
    this.list = [...others.slice(1 - MOST), toast];
    setTimeout(() => this.dismiss(toast.id), STAYS[tone]);
  }

  /** An error in the owner's words, with what to do next. */
  fail(thrown: unknown): void {
    const { what, remedy } = said(thrown);
    this.show('bad', what, remedy);
  }

  /** The number of the newest so far. */
  get last(): number {
    return this.#next - 1;
  }

  dismiss(id: number): void {
    this.list = this.list.filter((each) => each.id !== id);
  }
}
