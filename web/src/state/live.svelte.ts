/** What is always visible: the connection, the emergency stop, the chain of receipts. */
import { EventStream, type StreamState } from '../api/events.ts';
import { linkTo } from '../api/address.ts';
import type { Client } from '../api/client.ts';
import type { Endpoints } from '../api/endpoints.ts';
import { concerns } from '../api/topics.ts';
import type { ChainState, CommandOutput, EstopState, LiveEvent, TextDelta } from '../api/types.ts';

const CHAIN_CALM = 800;

export class Live {
  readonly #api: Endpoints;
  readonly #stream: EventStream;
  readonly #again = new Set<() => void>();
  stream: StreamState = $state('closed');
  /** The last request got an answer. */
  reached = $state(true);
  estop: EstopState | null = $state.raw(null);
  /** The switch is open: whether to stop, or to go on, is being asked. */
  asking = $state(false);
  chain: ChainState | null = $state.raw(null);
  /** When that was last read. */
  chainRead: number | null = $state(null);
  #chainTimer: ReturnType<typeof setTimeout> | undefined;
  #was: StreamState = 'closed';
  /** The conversation whose text is wanted while it is written; that of all others is not even sent. */
  #textOf = 'none';
  #asked = 'none';

  constructor(api: Endpoints, client: Client) {
    this.#api = api;
    this.#stream = new EventStream({
      open: (headers, signal) => {
        this.#asked = this.#textOf;
        return client.open(linkTo('/v1/events', { query: { text_of: this.#asked } }), headers, signal);
      },
      later: (call, milliseconds) => {
        const timer = setTimeout(call, milliseconds);
        return () => clearTimeout(timer);
      },
      random: Math.random,
      changed: (state) => this.#changed(state),
    });
    this.#stream.onEvent((event) => this.#heard(event));
    this.#stream.onGap(() => this.#tellAgain());
  }

  /** Nothing can be reached: what is shown may be old, and nothing can be changed. */
  get offline(): boolean {
    return !this.reached || this.stream === 'down';
  }

  onEvent(listener: (event: LiveEvent) => void): () => void {
    return this.#stream.onEvent(listener);
  }

  /** Follow the text of one conversation as it is written; the answer stops it. The last one asked for is followed. */
  onText(thread: string, listener: (delta: TextDelta) => void): () => void {
    const off = this.#stream.onText((delta) => {
      if (delta.thread_id === thread) listener(delta);
    });
    this.#want(thread);
    return () => {
      off();
      if (this.#textOf === thread) this.#want('none');
    };
  }

  /** Follow what commands of one conversation write; it comes while its text is followed. */
  onOutput(thread: string, listener: (output: CommandOutput) => void): () => void {
    return this.#stream.onOutput((output) => {
      if (output.thread_id === thread) listener(output);
    });
  }

  /** Ask for it at the end of this turn of the loop: leaving one conversation for another is one wish. */
  #want(thread: string): void {
    this.#textOf = thread;
    setTimeout(() => {
      if (this.#textOf !== this.#asked) this.#stream.reopen();
    }, 0);
  }

  /** Told when whatever is shown should be read again: the connection is back, or events were missed. */
  onAgain(listener: () => void): () => void {
    this.#again.add(listener);
    return () => this.#again.delete(listener);
  }

  start(): () => void {
    this.#stream.start();
    void this.readEstop();
    void this.#firstLook();
    const nudge = (): void => {
      if (!document.hidden) this.#stream.nudge();
    };
    window.addEventListener('online', nudge);
    document.addEventListener('visibilitychange', nudge);
    return () => {
      window.removeEventListener('online', nudge);
      document.removeEventListener('visibilitychange', nudge);
      clearTimeout(this.#chainTimer);
      this.#stream.stop();
    };
  }

  /** Try at once, not when the next try is due. */
  async tryNow(): Promise<void> {
    this.#stream.nudge();
    await this.readEstop();
  }

  async readEstop(): Promise<void> {
    try {
      this.estop = await this.#api.estop.read();
    } catch {
      // What was known last stays; being offline is shown beside it.
    }
  }

  async readChain(): Promise<void> {
    try {
      this.chain = await this.#api.receipts.head();
      this.chainRead = Date.now();
    } catch {
      // As above.
    }
  }

  /** A chain that nobody has verified since the server started is verified once, as soon as it has a receipt. */
  async #firstLook(): Promise<void> {
    await this.readChain();
    if (!this.chain || this.chain.verified || !this.chain.size) return;
    try {
      this.chain = { ...this.chain, verified: await this.#api.receipts.verify() };
    } catch {
      // It stays unchecked, and says so.
    }
  }

  #changed(state: StreamState): void {
    this.stream = state;
    if (state === 'live') {
      this.reached = true;
      // What happened between the first read and the first event would otherwise be missed.
      if (this.#was !== 'live') this.#tellAgain();
    }
    if (state === 'live' || state === 'down') this.#was = state;
    if (state === 'closed') this.#was = 'closed';
  }

  #tellAgain(): void {
    void this.readEstop();
    void this.#firstLook(); // whoever answers now may have been started anew
    for (const listener of [...this.#again]) listener();
  }

  #heard(event: LiveEvent): void {
    if (event.event === 'estop') void this.readEstop();
    if (concerns(event, 'receipt') || concerns(event, 'ledger')) {
      this.#chainTimer ??= setTimeout(() => {
        this.#chainTimer = undefined;
        void this.#firstLook();
      }, CHAIN_CALM);
    }
  }
}
