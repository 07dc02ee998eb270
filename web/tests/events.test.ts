import { describe, expect, test } from 'vitest';
import type { Client } from '../src/api/client.ts';
import type { Endpoints } from '../src/api/endpoints.ts';
import { EventStream, SILENCE, type StreamState } from '../src/api/events.ts';
import { ApiError } from '../src/api/problem.ts';
import { SseParser } from '../src/api/sse.ts';
import { concerns } from '../src/api/topics.ts';
import type { LiveEvent, TextDelta } from '../src/api/types.ts';
import { Live } from '../src/state/live.svelte.ts';

describe('the parser', () => {
  test('reads events however they are cut', () => {
    const text = 'retry: 2000\r\nid: 7\r\nevent: job\r\ndata: {"a":\r\ndata: 1}\r\n\r\n: heartbeat\n\nid: 9\n\ndata:x\n\n';
    const whole = new SseParser().feed(text);
    for (let size = 1; size < 9; size += 1) {
      const parser = new SseParser();
      const found = [];
      for (let at = 0; at < text.length; at += size) found.push(...parser.feed(text.slice(at, at + size)));
      expect(found).toEqual(whole);
      expect(parser.lastId).toBe('9');
    }
    expect(whole).toEqual([
      { event: 'job', data: '{"a":\n1}', id: '7' },
      { event: 'message', data: 'x', id: '9' },
    ]);
  });
});

/** A server that the test speaks for, and a clock that the test winds. */
class Stage {
  readonly opened: Record<string, string>[] = [];
  readonly states: StreamState[] = [];
  readonly timers: { call: () => void; wait: number }[] = [];
  refusal: Error | null = null;
  #out: ReadableStreamDefaultController<Uint8Array> | null = null;
  readonly stream = new EventStream({
    open: async (headers, signal) => {
      this.opened.push(headers);
      if (this.refusal) throw this.refusal;
      const body = new ReadableStream<Uint8Array>({ start: (out) => void (this.#out = out) });
      signal.addEventListener('abort', () => this.#out?.error(new DOMException('', 'AbortError')));
      return new Response(body);
    },
    later: (call, wait) => {
      const timer = { call, wait };
      this.timers.push(timer);
      return () => void this.timers.splice(this.timers.indexOf(timer), 1);
    },
    random: () => 0.5,
    changed: (state) => this.states.push(state),
  });

  async say(text: string): Promise<void> {
    this.#out?.enqueue(new TextEncoder().encode(text));
    await settled();
  }

  async end(): Promise<void> {
    this.#out?.close();
    await settled();
  }

  /** Let a waiting timer go off: `quiet` for the one that watches for silence. */
  async wind(which: 'retry' | 'quiet'): Promise<number> {
    const timer = this.timers.find((each) => (each.wait === SILENCE) === (which === 'quiet'));
    if (!timer) throw new Error(`no ${which} timer`);
    this.timers.splice(this.timers.indexOf(timer), 1);
    timer.call();
    await settled();
    return timer.wait;
  }
}

const settled = (): Promise<void> => new Promise((done) => setTimeout(done, 0));
const event = (seq: number, more: Partial<LiveEvent> = {}): string =>
  `id: ${seq}\nevent: job\ndata: ${JSON.stringify({ seq, event: 'job', topics: ['job'], type: 'job_state', id: 'job_1', at: '', thread_id: '', data: {}, ...more })}\n\n`;

describe('the stream', () => {
  test('hands on events, text and gaps, and passes over what it does not know', async () => {
    const stage = new Stage();
    const heard: string[] = [];
    stage.stream.onEvent((each) => heard.push(`${each.event} ${each.seq}`));
    stage.stream.onText((delta: TextDelta) => heard.push(`text ${delta.offset} ${delta.text}`));
    stage.stream.onGap(() => heard.push('gap'));
    stage.stream.start();
    await settled();
    await stage.say('event: hello\ndata: {}\n\n' + event(4) + 'event: text\ndata: {"thread_id":"t","turn_id":"u","offset":0,"text":"Hi"}\n\n');
    await stage.say('event: gap\ndata: {"from":1,"to":3}\n\nevent: job\ndata: not json\n\nevent: surprise\ndata: {}\n\n');
    expect(heard).toEqual(['job 4', 'text 0 Hi', 'gap']);
    expect(stage.states).toEqual(['connecting', 'live']);
  });

  test('comes back after the last number it saw, heartbeats included', async () => {
    const stage = new Stage();
    stage.stream.start();
    await settled();
    await stage.say(event(4) + 'id: 6\n: heartbeat\n\n');
    await stage.end();
    expect(stage.stream.state).toBe('down');
    await stage.wind('retry');
    expect(stage.opened[0]).not.toHaveProperty('Last-Event-ID');
    expect(stage.opened[1]).toMatchObject({ 'Last-Event-ID': '6' });
    expect(stage.stream.state).toBe('live');
  });

  test('waits longer after each failure, and not longer than half a minute', async () => {
    const stage = new Stage();
    stage.refusal = new TypeError('Failed to fetch');
    stage.stream.start();
    await settled();
    const waits = [];
    for (let at = 0; at < 8; at += 1) waits.push(await stage.wind('retry'));
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
  });

  test('heeds Retry-After when there is no room', async () => {
    const stage = new Stage();
    stage.refusal = new ApiError({ status: 503, code: 'FULL', detail: '' }, 9);
    stage.stream.start();
    await settled();
    expect(await stage.wind('retry')).toBe(9000);
  });

  test('a connection that says nothing is given up', async () => {
    const stage = new Stage();
    stage.stream.start();
    await settled();
    await stage.wind('quiet');
    expect(stage.stream.state).toBe('down');
    expect(stage.timers.filter((each) => each.wait !== SILENCE)).toHaveLength(1);
  });

  test('does not knock again when it is no longer welcome', async () => {
    const stage = new Stage();
    stage.refusal = new ApiError({ status: 401, code: 'UNPAIRED', detail: '' });
    stage.stream.start();
    await settled();
    expect(stage.stream.state).toBe('closed');
    expect(stage.timers).toHaveLength(0);
  });

  test('a nudge tries at once, and only while it is down', async () => {
    const stage = new Stage();
    stage.stream.start();
    await settled();
    stage.stream.nudge();
    await settled();
    expect(stage.opened).toHaveLength(1);
    await stage.end();
    stage.stream.nudge();
    await settled();
    expect(stage.opened).toHaveLength(2);
    expect(stage.stream.state).toBe('live');
    expect(stage.timers).toHaveLength(1);
  });

  test('stopping leaves no timer and no connection', async () => {
    const stage = new Stage();
    stage.stream.start();
    await settled();
    stage.stream.stop();
    await settled();
    expect(stage.stream.state).toBe('closed');
    expect(stage.timers).toHaveLength(0);
  });

  test('asked for something else, it goes on after the last number and nobody is told', async () => {
    const stage = new Stage();
    stage.stream.start();
    await settled();
    await stage.say(event(7));
    stage.stream.reopen();
    await settled();
    expect(stage.opened.map((each) => each['Last-Event-ID'])).toEqual([undefined, '7']);
    expect(stage.states).toEqual(['connecting', 'live', 'live']);
    expect(stage.timers).toHaveLength(1);
    stage.stream.stop();
    stage.stream.reopen();
    await settled();
    expect(stage.opened).toHaveLength(2);
  });

  test('a listener that breaks does not silence the others', async () => {
    const stage = new Stage();
    const heard: number[] = [];
    const complain = console.error;
    console.error = () => undefined;
    stage.stream.onEvent(() => {
      throw new Error('broken');
    });
    stage.stream.onEvent((each) => heard.push(each.seq));
    stage.stream.start();
    await settled();
    await stage.say(event(1) + event(2));
    console.error = complain;
    expect(heard).toEqual([1, 2]);
  });
});

describe('the page', () => {
  const wanted = async (): Promise<{ asked: (string | null)[]; live: Live; say: (text: string) => void }> => {
    const asked: (string | null)[] = [];
    let out: ReadableStreamDefaultController<Uint8Array> | null = null;
    const open = async (address: string): Promise<Response> => {
      asked.push(new URL(address, 'http://localhost').searchParams.get('text_of'));
      return new Response(new ReadableStream<Uint8Array>({ start: (made) => void (out = made) }));
    };
    const later = async (): Promise<never> => Promise.reject(new Error('not here'));
    const live = new Live({ estop: { read: later }, receipts: { head: later } } as unknown as Endpoints, { open } as unknown as Client);
    live.start();
    await settled();
    return { asked, live, say: (text) => out?.enqueue(new TextEncoder().encode(text)) };
  };
  const text = (thread_id: string): string => `event: text\ndata: ${JSON.stringify({ thread_id, turn_id: 'turn_1', offset: 0, text: thread_id })}\n\n`;

  test('is sent the text of the conversation that is looked at and of no other', async () => {
    const { asked, live, say } = await wanted();
    const heard: string[] = [];
    const leave = live.onText('conv_1', (delta) => heard.push(delta.text));
    await settled();
    say(text('conv_2') + text('conv_1'));
    await settled();
    expect([asked, heard]).toEqual([['none', 'conv_1'], ['conv_1']]);
    leave();
    const other = live.onText('conv_2', (delta) => heard.push(delta.text));
    await settled();
    other();
    await settled();
    expect(asked).toEqual(['none', 'conv_1', 'conv_2', 'none']);
    expect(live.stream).toBe('live');
  });
});

test('an end of a tool concerns the receipts too', () => {
  expect(concerns({ topics: ['action', 'receipt'] }, 'receipt')).toBe(true);
  expect(concerns({ topics: ['action', 'receipt'] }, 'action')).toBe(true);
  expect(concerns({ topics: ['action', 'receipt'] }, 'job')).toBe(false);
});
