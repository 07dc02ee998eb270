/** What a trigger means, told while it is being written: asked after a pause, the last question wins. */
import { asApiError, type ApiError } from '../../api/problem.ts';
import type { PreviewAsk, SchedulePreview } from '../../api/types.ts';

export const PAUSE = 250;

export class Preview {
  readonly #ask: (asked: PreviewAsk) => Promise<SchedulePreview>;
  /** What was said last; it stays in sight, dimmed, while the next is asked for. */
  said: SchedulePreview | null = $state.raw(null);
  /** The last one that made sense. */
  good: SchedulePreview | null = $state.raw(null);
  error: ApiError | null = $state.raw(null);
  asking = $state(false);
  #asked = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(ask: (asked: PreviewAsk) => Promise<SchedulePreview>) {
    this.#ask = ask;
  }

  /** Ask soon; many wishes in a row are one. */
  soon(asked: PreviewAsk): void {
    clearTimeout(this.#timer);
    this.asking = true;
    this.#asked += 1;
    this.#timer = setTimeout(() => void this.#now(asked), PAUSE);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#asked += 1;
  }

  async #now(asked: PreviewAsk): Promise<void> {
    const number = this.#asked;
    try {
      const said = await this.#ask(asked);
      if (number !== this.#asked) return;
      this.said = said;
      if (said.valid) this.good = said;
      this.error = null;
    } catch (thrown) {
      if (number !== this.#asked) return;
      this.error = asApiError(thrown);
    }
    this.asking = false;
  }
}
