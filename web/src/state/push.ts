/** Web Push on this device: the browser subscribes with the server's key, and the server keeps where to send to. */
import type { PushState } from '../api/types.ts';

/** What the server does for it. */
export interface PushRoutes {
  state(): Promise<PushState>;
  add(subscription: { endpoint: string; keys: { p256dh: string; auth: string } }): Promise<unknown>;
  remove(subscription_id: string): Promise<unknown>;
}

/** The browser's side, as far as it is used here. */
export type Manager = Pick<PushManager, 'getSubscription' | 'subscribe'>;

/** Who subscribes in this browser; null where there is no push, or the page has no service worker. */
export async function managerHere(): Promise<Manager | null> {
  if (!('serviceWorker' in navigator) || typeof PushManager === 'undefined') return null;
  return (await navigator.serviceWorker.getRegistration())?.pushManager ?? null;
}

/** Subscribe and tell the server. A subscription for another key is of no use any more and is made anew. */
export async function turnOn(manager: Manager, routes: PushRoutes): Promise<void> {
  const key = keyBytes((await routes.state()).public_key);
  let found = await manager.getSubscription();
  if (found && !isFor(found, key)) {
    await found.unsubscribe();
    found = null;
  }
  const subscription = found ?? (await manager.subscribe({ userVisibleOnly: true, applicationServerKey: key }));
  const { endpoint, keys } = subscription.toJSON();
  try {
    await routes.add({ endpoint: endpoint ?? '', keys: { p256dh: keys?.['p256dh'] ?? '', auth: keys?.['auth'] ?? '' } });
  } catch (error) {
    await subscription.unsubscribe();
    throw error;
  }
}

/** The server forgets first: what it still has to send must not wake a browser that shows nothing. */
export async function turnOff(manager: Manager, routes: PushRoutes): Promise<void> {
  for (const each of (await routes.state()).subscriptions) await routes.remove(each.subscription_id);
  await (await manager.getSubscription())?.unsubscribe();
}

export function keyBytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (each) => each.charCodeAt(0));
}

function isFor(subscription: PushSubscription, key: Uint8Array): boolean {
  const its = subscription.options.applicationServerKey;
  return its !== null && new Uint8Array(its).join() === key.join();
}
