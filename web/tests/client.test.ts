import { describe, expect, test } from 'vitest';
import { addressOf } from '../src/api/address.ts';
import { Client, type Hooks } from '../src/api/client.ts';
import { Kept, type KeptAnswer } from '../src/api/kept.ts';
import { ApiError } from '../src/api/problem.ts';

class MemoryKept extends Kept {
  readonly held = new Map<string, KeptAnswer>();

  constructor() {
    super(undefined);
  }

  override async put(path: string, body: unknown, since: number): Promise<void> {
    this.held.set(path, { body, since });
  }

  override async get(path: string): Promise<KeptAnswer | null> {
    return this.held.get(path) ?? null;
  }
}

type Answer = Response | Error;

function setup(...answers: Answer[]) {
  const sent: { url: string; init: RequestInit }[] = [];
  const told: string[] = [];
  const slept: number[] = [];
  const kept = new MemoryKept();
  const hooks: Hooks = {
    unpaired: () => told.push('unpaired'),
    unconfirmed: () => told.push('unconfirmed'),
    reached: (yes) => told.push(yes ? 'reached' : 'unreachable'),
    skew: (milliseconds) => told.push(`skew ${milliseconds}`),
  };
  let keys = 0;
  const client = new Client({
    fetch: (async (url: string, init: RequestInit) => {
      sent.push({ url, init });
      const answer = answers.shift();
      if (!answer) throw new Error('one request too many');
      if (answer instanceof Error) throw answer;
      return answer;
    }) as typeof fetch,
    kept,
    hooks,
    now: () => 1_000_000,
    newKey: () => `key-${(keys += 1)}`,
    sleep: async (milliseconds) => void slept.push(milliseconds),
  });
  const keyOf = (at: number): string | undefined => (sent[at]?.init.headers as Record<string, string>)['Idempotency-Key'];
  return { client, sent, told, slept, kept, keyOf };
}

const problem = (status: number, code: string, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify({ type: 'x', title: 'x', status, detail: 'the detail.', code, remedy: 'Do this.' }), { status, headers });
const offline = (): Error => new TypeError('Failed to fetch');

test('a card that holds something like a secret is not kept', async () => {
  const kept = new Map<string, Response>();
  const cache = {
    delete: async (path: string) => kept.delete(path),
    put: async (path: string, answer: Response) => void kept.set(path, answer),
    match: async (path: string) => kept.get(path)?.clone(),
    keys: async () => [...kept.keys()],
  };
  const store = new Kept({ open: async () => cache } as unknown as CacheStorage);
  await store.put('/a', { items: [{ args: '"secretive":true', secretive: false }] }, 1);
  expect(await store.get('/a')).toMatchObject({ since: 1 });
  await store.put('/a', { items: [{ args: 'x', secretive: true }] }, 2);
  expect(await store.get('/a')).toBeNull();
});

describe('reading', () => {
  test('a problem becomes an error with its code and remedy', async () => {
    const { client } = setup(problem(404, 'NOT_FOUND'));
    const error = await client.get('/v1/estop').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 404, code: 'NOT_FOUND', detail: 'the detail.', remedy: 'Do this.', offline: false });
  });

  test('an answer that is no problem+json keeps its status', async () => {
    const { client } = setup(new Response('<html>proxy</html>', { status: 502 }));
    await expect(client.get('/v1/estop')).rejects.toMatchObject({ status: 502, code: 'HTTP_502' });
  });

  test('an answer that is no JSON is unreadable', async () => {
    const { client } = setup(new Response('<html>'));
    await expect(client.get('/v1/estop')).rejects.toMatchObject({ code: 'UNREADABLE' });
  });

  test('a refused cookie is told to the sign-in', async () => {
    const { client, told } = setup(problem(401, 'UNPAIRED'));
    await expect(client.get('/v1/estop')).rejects.toMatchObject({ status: 401 });
    expect(told).toContain('unpaired');
  });

  test('a device nobody vouched for is told to the sign-in', async () => {
    const { client, told } = setup(problem(403, 'UNCONFIRMED'));
    await expect(client.get('/v1/estop')).rejects.toMatchObject({ code: 'UNCONFIRMED' });
    expect(told).toContain('unconfirmed');
  });

  test('a list that cannot be read is remembered, with since when', async () => {
    const { client, told } = setup(Response.json({ items: [1] }), offline());
    expect(await client.kept('/v1/chat/threads', { query: { q: 'a' } })).toEqual({ data: { items: [1] }, staleSince: null });
    expect(await client.kept('/v1/chat/threads', { query: { q: 'a' } })).toEqual({ data: { items: [1] }, staleSince: 1_000_000 });
    expect(told).toEqual(['reached', 'unreachable']);
  });

  test('what was never read is offline, not empty', async () => {
    const { client } = setup(offline());
    await expect(client.kept('/v1/chat/threads')).rejects.toMatchObject({ offline: true });
  });

  test('a refusal is not covered up by a memory', async () => {
    const { client } = setup(Response.json({ items: [1] }), problem(403, 'FORBIDDEN'));
    await client.kept('/v1/chat/threads');
    await expect(client.kept('/v1/chat/threads')).rejects.toMatchObject({ status: 403 });
  });

  test('the difference of the clocks is learnt from the Date header', async () => {
    const { client, told } = setup(Response.json({}, { headers: { Date: new Date(1_060_000).toUTCString() } }));
    await client.get('/v1/estop');
    expect(told).toContain('skew 60500');
  });

  test('empty filters are left out of an address', () => {
    expect(addressOf('/v1/x', { query: { a: '', b: null, c: undefined, d: 0, e: 'ä&' } })).toBe('/v1/x?d=0&e=%C3%A4%26');
    expect(addressOf('/v1/x')).toBe('/v1/x');
  });

  test('what fills a hole of a path stays inside it', () => {
    expect(addressOf('/v1/x/{x_id}/y/{name}', { path: { x_id: 'a/../b?c', name: 'ä' } })).toBe('/v1/x/a%2F..%2Fb%3Fc/y/%C3%A4');
  });
});

describe('writing', () => {
  test('carries a key and JSON', async () => {
    const { client, sent, keyOf } = setup(Response.json({ ok: true }));
    expect(await client.post('/v1/estop', { body: { reason: 'odd' } })).toEqual({ ok: true });
    expect(keyOf(0)).toBe('key-1');
    expect(sent[0]?.init).toMatchObject({ method: 'POST', body: '{"reason":"odd"}', credentials: 'same-origin' });
  });

  test('a request without an answer is sent once more with the same key', async () => {
    const { client, sent, keyOf } = setup(offline(), Response.json({ ok: true }));
    await client.post('/v1/estop', { body: {} });
    expect(sent).toHaveLength(2);
    expect(keyOf(0)).toBe(keyOf(1));
  });

  test('a second silence is an error', async () => {
    const { client, sent } = setup(offline(), offline());
    await expect(client.post('/v1/estop', { body: {} })).rejects.toMatchObject({ offline: true });
    expect(sent).toHaveLength(2);
  });

  test('a request that is still under way is asked for again', async () => {
    const { client, slept, keyOf } = setup(problem(409, 'IN_PROGRESS', { 'Retry-After': '2' }), Response.json({ ok: true }));
    await client.post('/v1/estop', { body: {} }, 'mine');
    expect(slept).toEqual([2000]);
    expect([keyOf(0), keyOf(1)]).toEqual(['mine', 'mine']);
  });

  test('a refusal is not repeated', async () => {
    const { client, sent } = setup(problem(403, 'PROOF_NEEDED'));
    await expect(client.post('/v1/estop', { body: {} })).rejects.toMatchObject({ code: 'PROOF_NEEDED' });
    expect(sent).toHaveLength(1);
  });

  test('an empty answer is nothing', async () => {
    const { client } = setup(new Response(null, { status: 204 }));
    expect(await client.delete('/v1/chat/threads/{thread_id}', { path: { thread_id: 'conv_1' } })).toBeUndefined();
  });
});
