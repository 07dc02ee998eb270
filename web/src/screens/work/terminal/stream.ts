/**
 * A session's terminal over the runner's WebSocket. It reconnects by itself and goes on after the last byte it showed;
 * what it has shown it acknowledges, so that a slow page is skipped forward instead of slowing the others.
 */
import type { Size } from './screen.ts';

export type LinkState = 'connecting' | 'live' | 'down' | 'over';

export interface LinkParts {
  /** A connection, once the page has proved itself; it fails when nothing answers. */
  open: () => Promise<WebSocket>;
  /** Runs `call` after that many milliseconds; the answer takes it back. */
  later: (call: () => void, milliseconds: number) => () => void;
  /** Shows output and says when that is done. */
  write: (data: Uint8Array<ArrayBuffer>, done: () => void) => void;
  changed: (state: LinkState) => void;
  /** So many bytes were skipped. */
  missed: (bytes: number) => void;
  sized: (size: Size) => void;
  /** The server would not do something. */
  refused: (detail: string) => void;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const ACK_BYTES = 32 << 10;
const ACK_PAUSE = 100;
const OUTPUT = 1;
const HEAD = 13;
const TYPED = 3;
const TYPED_AT_ONCE = 16 << 10;

/** A binary frame: its kind, which subscription, where it stands in the output, and the bytes. */
export function readFrame(frame: ArrayBuffer): { kind: number; index: number; offset: number; data: Uint8Array<ArrayBuffer> } | null {
  if (frame.byteLength < HEAD) return null;
  const view = new DataView(frame);
  return { kind: view.getUint8(0), index: view.getUint32(1), offset: Number(view.getBigUint64(5)), data: new Uint8Array(frame, HEAD) };
}

export class SessionLink {
  readonly #parts: LinkParts;
  readonly #id: string;
  #socket: WebSocket | null = null;
  #state: LinkState = 'connecting';
  #cancel: (() => void) | null = null;
  #fails = 0;
  #index = 0;
  #offset: number | null = null;
  #shown = 0;
  #acked = 0;
  #acking: (() => void) | null = null;
  #size: Size | null = null;
  #closed = false;

  constructor(id: string, parts: LinkParts) {
    this.#id = id;
    this.#parts = parts;
  }

  start(): void {
    this.#connect();
  }

  /** Try again at once: the network is back, or the page is looked at again. */
  nudge(): void {
    if (this.#state === 'down') this.#connect();
  }

  stop(): void {
    this.#closed = true;
    this.#cancel?.();
    this.#acking?.();
    this.#socket?.close();
  }

  type(text: string): void {
    if (this.#state !== 'live' || !this.#socket) return;
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length; at += TYPED_AT_ONCE) {
      const piece = bytes.subarray(at, at + TYPED_AT_ONCE);
      const frame = new Uint8Array(5 + piece.length);
      new DataView(frame.buffer).setUint8(0, TYPED);
      new DataView(frame.buffer).setUint32(1, this.#index);
      frame.set(piece, 5);
      this.#socket.send(frame);
    }
  }

  resize(size: Size): void {
    if (this.#size && this.#size.rows === size.rows && this.#size.columns === size.columns) return;
    this.#size = size;
    this.#say({ type: 'resize', session_id: this.#id, ...size });
  }

  #set(state: LinkState): void {
    this.#state = state;
    this.#parts.changed(state);
  }

  #say(message: Record<string, unknown>): void {
    if (this.#state === 'live' && this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #connect(): void {
    this.#cancel?.();
    this.#set('connecting');
    this.#parts.open().then((socket) => this.#follow(socket), () => this.#lost());
  }

  #lost(): void {
    if (this.#closed || this.#state === 'over') return;
    this.#fails += 1;
    this.#set('down');
    this.#cancel = this.#parts.later(() => this.#connect(), Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (this.#fails - 1)));
  }

  #follow(socket: WebSocket): void {
    if (this.#closed) return socket.close();
    this.#socket = socket;
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => {
      socket.send(JSON.stringify({ type: 'subscribe', session_id: this.#id, terminal_from: this.#offset }));
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (this.#socket !== socket) return;
      if (typeof data === 'string') this.#hear(JSON.parse(data) as Record<string, unknown>);
      else this.#show(data);
    };
    socket.onclose = () => {
      if (this.#socket === socket) this.#lost();
    };
  }

  #hear(message: Record<string, unknown>): void {
    if (message['type'] === 'subscribed') {
      this.#fails = 0;
      this.#index = Number(message['index']);
      const from = message['terminal_from'];
      if (typeof from === 'number') this.#offset = this.#shown = this.#acked = from;
      this.#set('live');
      if (this.#size) this.#say({ type: 'resize', session_id: this.#id, ...this.#size });
      this.#parts.sized({ rows: Number(message['rows']), columns: Number(message['columns']) });
    } else if (message['type'] === 'resized') {
      this.#parts.sized({ rows: Number(message['rows']), columns: Number(message['columns']) });
    } else if (message['type'] === 'gap') {
      this.#parts.missed(Number(message['last']) - Number(message['first']));
      this.#offset = this.#shown = Number(message['last']);
    } else if (message['type'] === 'unsubscribed') {
      if (message['reason'] === 'ended') this.#set('over');
      this.#socket?.close(); // one that only nobody follows now is asked for again
    } else if (message['type'] === 'error') {
      if (message['code'] === 'NOT_FOUND') this.#set('over');
      else this.#parts.refused(String(message['detail']));
    }
  }

  #show(data: ArrayBuffer): void {
    const frame = readFrame(data);
    if (!frame || frame.index !== this.#index) return;
    if (frame.kind !== OUTPUT) return this.#parts.write(frame.data, () => undefined);
    const end = frame.offset + frame.data.length;
    this.#offset = end;
    this.#parts.write(frame.data, () => {
      this.#shown = Math.max(this.#shown, end);
      if (this.#shown - this.#acked >= ACK_BYTES) this.#ack();
      else this.#acking ??= this.#parts.later(() => this.#ack(), ACK_PAUSE);
    });
  }

  #ack(): void {
    this.#acking?.();
    this.#acking = null;
    if (this.#shown === this.#acked) return;
    this.#acked = this.#shown;
    this.#say({ type: 'ack', session_id: this.#id, offset: this.#shown });
  }
}
