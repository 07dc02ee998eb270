/** The panel put together once, and handed to every component by context. */
import { createContext } from 'svelte';
import { Client } from './api/client.ts';
import { endpoints, type Endpoints } from './api/endpoints.ts';
import { followDownloads } from './api/download.ts';
import { Kept } from './api/kept.ts';
import { ownDeviceKey, type DeviceKey } from './auth/devicekey.ts';
import { pageKey } from './auth/pagekey.ts';
import { assertionFor } from './auth/passkey.ts';
import { withProof, type Sign } from './auth/proof.ts';
import type { Assertion, Purpose } from './api/types.ts';
import { Router } from './route/router.svelte.ts';
import { PATTERNS } from './route/routes.ts';
import { alertsOf } from './state/alerts.svelte.ts';
import { Clock } from './state/clock.svelte.ts';
import { Live } from './state/live.svelte.ts';
import { Queue } from './state/queue.svelte.ts';
import { SignIn } from './state/sign_in.svelte.ts';
import { Theme } from './state/theme.svelte.ts';
import { Toasts } from './state/toasts.svelte.ts';

export interface Panel {
  api: Endpoints;
  signIn: SignIn;
  live: Live;
  queue: Queue;
  router: Router;
  clock: Clock;
  toasts: Toasts;
  theme: Theme;
  /** Do something that may need a passkey; `expected` when it is known that it will. */
  prove: <T>(question: { purpose: Purpose; subject: string; expected: boolean }, act: (proof?: Assertion) => Promise<T>) => Promise<T>;
  newKey: () => string;
  /** A WebSocket to a route, by the rules of requests. */
  socket: (path: string, protocol: string) => Promise<WebSocket>;
  /** Save what links to the API lead to; the answer stops it. */
  followDownloads: (page: Document) => () => void;
}

export interface Outside {
  fetch: typeof fetch;
  kept?: Kept;
  sign?: Sign;
  device?: () => Promise<DeviceKey | null>;
  sleep?: (milliseconds: number) => Promise<void>;
}

/** Everything but the page: tests give their own fetch. */
export function createPanel(outside: Outside): Panel {
  const kept = outside.kept ?? new Kept();
  const sign = outside.sign ?? assertionFor;
  const clock = new Clock();
  const toasts = new Toasts();
  const newKey = (): string => crypto.randomUUID();
  const page = pageKey(outside.fetch, outside.device ?? ownDeviceKey, () => globalThis.location.origin);
  // The client speaks of the sign-in and the connection, which are made from it.
  const late: { signIn?: SignIn; live?: Live } = {};
  const client = new Client({
    fetch: page.fetch,
    kept,
    now: Date.now,
    newKey,
    sleep: outside.sleep ?? ((milliseconds) => new Promise((done) => setTimeout(done, milliseconds))),
    hooks: {
      unpaired: () => late.signIn?.lost(),
      unconfirmed: () => late.signIn?.waits(),
      reached: (yes) => {
        if (late.live) late.live.reached = yes;
      },
      skew: (milliseconds) => clock.learn(milliseconds),
    },
  });
  const api = endpoints(client);
  const live = (late.live = new Live(api, client));
  const signIn = (late.signIn = new SignIn(api, kept, () => alertsOf(live).forget()));
  return {
    api,
    signIn,
    live,
    queue: new Queue(api, toasts, sign),
    router: new Router(PATTERNS),
    clock,
    toasts,
    theme: new Theme(),
    prove: (question, act) => withProof(api.passkeys, sign, question, act),
    newKey,
    socket: async (path, protocol) => {
      const { ticket } = await api.signIn.ticket();
      return new WebSocket(`${globalThis.location.origin.replace(/^http/, 'ws')}${path}`, [protocol, ticket]);
    },
    followDownloads: (page) => followDownloads(client, page, (error) => toasts.fail(error)),
  };
}

export const [usePanel, providePanel] = createContext<Panel>();
