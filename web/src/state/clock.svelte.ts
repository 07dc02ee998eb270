/** One clock for all countdowns and "minutes ago": the server's time, as far as we know it. */

export class Clock {
  /** Milliseconds since 1970 by the server's clock, moved on every second. */
  now = $state(Date.now());
  #skew = 0;

  /** The present, not rounded to the last tick. */
  exact(): number {
    return Date.now() + this.#skew;
  }

  /** Learn how far the server is ahead. Small differences are the network's, not the clock's. */
  learn(skew: number): void {
    if (Math.abs(skew - this.#skew) < 1_500) return;
    this.#skew = Math.abs(skew) < 1_500 ? 0 : skew;
    this.now = this.exact();
  }

  start(): () => void {
    const tick = (): void => {
      if (!document.hidden) this.now = this.exact();
    };
    const timer = setInterval(tick, 1_000);
    document.addEventListener('visibilitychange', tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', tick);
    };
  }
}
