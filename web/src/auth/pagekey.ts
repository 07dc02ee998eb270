/**
 * The page's key: a cookie goes to every port of this machine, the device's key to none. So the page signs a nonce with it
 * and shows what it gets for that beside the cookie. Kept in memory alone; another page asks for its own.
 */
import type { Answer, Body, Path } from '../api/address.ts';
import type { DeviceKey } from './devicekey.ts';

export const HEADER = 'X-CoilClaw-Page';
export const UNPROVED = 'PAGE_UNPROVED';

/** What the device's key has to sign. */
export function pageText(nonce: string, origin: string): string {
  return `coilclaw page 1\n${nonce}\n${origin}`;
}

async function asked<P extends Path<'POST'>>(send: typeof fetch, path: P, body: Body<P>): Promise<Answer<'POST', P> | null> {
  const response = await send(path, {
    method: 'POST',
    headers: { Accept: 'application/json', 'Content-Type': 'application/json' },
    credentials: 'same-origin',
    cache: 'no-store',
    body: JSON.stringify(body),
  });
  return response.ok ? ((await response.json()) as Answer<'POST', P>) : null;
}

async function unproved(response: Response): Promise<boolean> {
  if (response.status !== 401) return false;
  try {
    return ((await response.clone().json()) as { code?: string }).code === UNPROVED;
  } catch {
    return false;
  }
}

export interface PageKey {
  /** A fetch that proves the page when the server asks for it, once for all requests that wait, and then asks again. */
  fetch: typeof fetch;
}

export function pageKey(send: typeof fetch, device: () => Promise<DeviceKey | null>, origin: () => string): PageKey {
  let key: string | null = null;
  let proving: Promise<void> | null = null;

  async function prove(): Promise<void> {
    key = null;
    const own = await device();
    if (!own) return;
    const question = await asked(send, '/v1/sign-in/nonce', {});
    if (!question) return;
    const signature = await own.sign(pageText(question.nonce, origin()));
    const answer = await asked(send, '/v1/sign-in/page', { nonce: question.nonce, signature });
    key = answer?.page_key ?? null;
  }

  function shown(init?: RequestInit): RequestInit {
    const headers = new Headers(init?.headers);
    if (key) headers.set(HEADER, key);
    return { ...init, headers };
  }

  const proved: typeof fetch = async (input, init) => {
    if (proving) await proving.catch(() => undefined);
    const used = key;
    const response = await send(input, shown(init));
    if (!(await unproved(response))) return response;
    if (key === used) {
      proving ??= prove().finally(() => {
        proving = null;
      });
    }
    if (proving) await proving.catch(() => undefined);
    return key && key !== used ? send(input, shown(init)) : response;
  };
  return { fetch: proved };
}
