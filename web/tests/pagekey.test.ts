import { describe, expect, it } from 'vitest';
import { HEADER, pageKey, pageText } from '../src/auth/pagekey.ts';

function answer(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });
}

/** A server that wants a page key, and gives one for a right signature. */
function server(): { send: typeof fetch; asked: string[]; keys: Set<string> } {
  const asked: string[] = [];
  const keys = new Set<string>();
  const send = (async (input: RequestInfo | URL, init?: RequestInit) => {
    const path = String(input);
    asked.push(path);
    if (path === '/v1/sign-in/nonce') return answer(201, { nonce: 'n1' });
    if (path === '/v1/sign-in/page') {
      const body = JSON.parse(String(init?.body)) as { nonce: string; signature: string };
      if (body.signature !== `signed:${pageText('n1', 'http://here')}`) return answer(403, { code: 'PAGE_REFUSED' });
      const key = `key${keys.size + 1}`;
      keys.add(key);
      return answer(201, { page_key: key });
    }
    const shown = new Headers(init?.headers).get(HEADER);
    return shown && keys.has(shown) ? answer(200, { ok: true }) : answer(401, { code: 'PAGE_UNPROVED' });
  }) as typeof fetch;
  return { send, asked, keys };
}

const device = async () => ({ publicKey: 'k', sign: async (text: string) => `signed:${text}` });

describe('the page key', () => {
  it('is asked for when the server wants it, once for everything that waits', async () => {
    const { send, asked } = server();
    const { fetch: proved } = pageKey(send, device, () => 'http://here');
    const answers = await Promise.all([proved('/v1/jobs'), proved('/v1/devices')]);
    expect(answers.map((each) => each.status)).toEqual([200, 200]);
    expect(asked.filter((path) => path === '/v1/sign-in/page')).toHaveLength(1);
  });

  it('is asked for anew when the server has forgotten it', async () => {
    const { send, keys } = server();
    const { fetch: proved } = pageKey(send, device, () => 'http://here');
    expect((await proved('/v1/jobs')).status).toBe(200);
    keys.clear();
    keys.add('somebody else');
    expect((await proved('/v1/jobs')).status).toBe(200);
  });

  it('leaves the refusal as it is when this browser has no key', async () => {
    const { send } = server();
    const { fetch: proved } = pageKey(send, async () => null, () => 'http://here');
    expect((await proved('/v1/jobs')).status).toBe(401);
  });
});
