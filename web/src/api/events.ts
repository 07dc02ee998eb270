/**
 * The event stream: one connection, read by fetch so that a refusal is seen as what it is. It reconnects by itself and
 * goes on after the last number it saw; what was missed comes then.
 */
import { asApiError, isAborted, type ApiError } from './problem.ts';
import { SseParser, type SseEvent } from './sse.ts';
import type { CommandOutput, LiveEvent, StreamMessage, TextDelta } from './types.ts';

export type StreamState = 'connecting' | 'live' | 'down' | 'closed';

export interface StreamParts {
  open: (headers: Record<string, string>, signal: AbortSignal) => Promise<Response>;
  /** Runs `call` after that many milliseconds; the answer takes it back. */
  later: (call: () => void, milliseconds: number) => () => void;
  random: () => number;
  changed: (state: StreamState, error: ApiError | null) => void;
}

export const SILENCE = 45_000;
const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 30_000;
/** Every message of the stream; a name that the server gives up or adds does not compile until it stands here. */
const KNOWN: Record<StreamMessage['event'], true> = {
  hello: true, gap: true, text: true, command_output: true,
  thread: true, action: true, approval: true, job: true, sop: true, schedule: true, receipt: true,
  notification: true, estop: true, device: true, settings: true, ledger: true, pull: true, session: true, patrol: true, evolve: true,
};

type Listener<T> = (value: T) => void;

export class EventStream {
  readonly #parts: StreamParts;
  readonly #events = new Set<Listener<LiveEvent>>();
  readonly #texts = new Set<Listener<TextDelta>>();
  readonly #outputs = new Set<Listener<CommandOutput>>();
  readonly #gaps = new Set<Listener<void>>();
  #lastId = '';
  #fails = 0;
  #abort: AbortController | null = null;
  #cancelRetry: (() => void) | null = null;
  #cancelSilence: (() => void) | null = null;
  #state: StreamState = 'closed';

  constructor(parts: StreamParts) {
    this.#parts = parts;
  }

  get state(): StreamState {
    return this.#state;
  }

  get lastId(): string {
    return this.#lastId;
  }

  /** Follow the durable events; the answer stops it. */
  onEvent(listener: Listener<LiveEvent>): () => void {
    this.#events.add(listener);
    return () => this.#events.delete(listener);
  }

  /** Follow text as it is written. */
  onText(listener: Listener<TextDelta>): () => void {
    this.#texts.add(listener);
    return () => this.#texts.delete(listener);
  }

  /** Follow what running commands write. */
  onOutput(listener: Listener<CommandOutput>): () => void {
    this.#outputs.add(listener);
    return () => this.#outputs.delete(listener);
  }

  /** Told when events may have been missed for good: whatever is shown has to be read again. */
  onGap(listener: Listener<void>): () => void {
    this.#gaps.add(listener);
    return () => this.#gaps.delete(listener);
  }

  start(): void {
    if (this.#state === 'closed') void this.#connect();
  }

  /** Try again at once: the network is back, or the page is looked at again. */
  nudge(): void {
    if (this.#state === 'down') void this.#connect();
  }

  /** Something else is asked for from now on: go on after the last number seen, without a word to anybody. */
  reopen(): void {
    if (this.#state === 'live' || this.#state === 'connecting') void this.#connect(this.#state === 'live');
  }

  stop(): void {
    this.#drop();
    this.#lastId = '';
    this.#fails = 0;
    this.#set('closed', null);
  }

  #drop(): void {
    this.#cancelRetry?.();
    this.#cancelSilence?.();
    this.#cancelRetry = this.#cancelSilence = null;
    this.#abort?.abort();
    this.#abort = null;
  }

  #set(state: StreamState, error: ApiError | null): void {
    this.#state = state;
    this.#parts.changed(state, error);
  }

  async #connect(quietly = false): Promise<void> {
    this.#drop();
    const abort = new AbortController();
    this.#abort = abort;
    if (!quietly) this.#set('connecting', null);
    this.#watch(abort);
    try {
      const headers: Record<string, string> = { Accept: 'text/event-stream' };
      if (this.#lastId) headers['Last-Event-ID'] = this.#lastId;
      const response = await this.#parts.open(headers, abort.signal);
      if (abort.signal.aborted) return;
      this.#fails = 0;
      this.#set('live', null);
      await this.#read(response, abort);
      if (!abort.signal.aborted) this.#retry(null);
    } catch (error) {
      if (abort.signal.aborted && this.#abort !== abort) return;
      this.#retry(isAborted(error) ? null : asApiError(error));
    }
  }

  /** A connection that says nothing, not even a heartbeat, is dead whatever the system thinks. */
  #watch(abort: AbortController): void {
    this.#cancelSilence?.();
    this.#cancelSilence = this.#parts.later(() => {
      if (this.#abort !== abort) return;
      abort.abort();
      this.#retry(null);
    }, SILENCE);
  }

  #retry(error: ApiError | null): void {
    this.#drop();
    if (error && (error.status === 401 || error.status === 403)) {
      this.#set('closed', error); // no longer welcome: the sign-in says what comes next
      return;
    }
    this.#fails += 1;
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (this.#fails - 1)) * (0.75 + this.#parts.random() / 2);
    this.#set('down', error);
    this.#cancelRetry = this.#parts.later(() => void this.#connect(), Math.max(wait, (error?.retryAfter ?? 0) * 1000));
  }

  async #read(response: Response, abort: AbortController): Promise<void> {
    const reader = response.body?.getReader();
    if (!reader) return;
    const parser = new SseParser();
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await reader.read();
      if (abort.signal.aborted) return;
      if (done) return;
      this.#watch(abort);
      for (const event of parser.feed(decoder.decode(value, { stream: true }))) this.#hand(event);
      this.#lastId = parser.lastId || this.#lastId;
    }
  }

  #hand(event: SseEvent): void {
    const message = messageOf(event);
    if (!message) return;
    switch (message.event) {
      case 'hello': return;
      case 'gap': return tell(this.#gaps, undefined);
      case 'text': return tell(this.#texts, message.data);
      case 'command_output': return tell(this.#outputs, message.data);
      default: return tell(this.#events, message.data);
    }
  }
}

/** The message in an event; null when it is not one of ours. */
function messageOf({ event, data }: SseEvent): StreamMessage | null {
  if (!Object.hasOwn(KNOWN, event)) return null;
  try {
    return { event, data: JSON.parse(data) as unknown } as StreamMessage;
  } catch {
    return null;
  }
}

function tell<T>(listeners: Set<Listener<T>>, value: T): void {
  for (const listener of [...listeners]) {
    try {
      listener(value);
    } catch (error) {
      // One listener that breaks must not silence the others.
      console.error(error);
    }
  }
}
