/**
 * When a yes counts. A card that has just come up may be under a thumb that meant the one before, so its button takes nothing
 * until it was in sight for a while, and each press meanwhile begins that while anew: who goes on tapping approves nothing.
 */

/** So long a card must have been in sight that somebody went to. */
export const LOOK = 600;
/** So long one that follows an answer, or stands in a conversation: it came by itself, to where the thumb still is. */
export const FOLLOWS = 1500;

export class Arming {
  armed = $state(false);
  #wait = LOOK;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** A card is in sight from now on. */
  shown(wait: number): void {
    this.#wait = wait;
    this.#begin();
  }

  /** Somebody pressed the button; true when that counts. */
  pressed(): boolean {
    if (this.armed) return true;
    // Before anything was shown there is nothing to wait for.
    if (this.#timer !== undefined) this.#begin();
    return false;
  }

  /** Nothing is in sight any more. */
  gone(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.armed = false;
  }

  #begin(): void {
    this.gone();
    this.#timer = setTimeout(() => (this.armed = true), this.#wait);
  }
}
