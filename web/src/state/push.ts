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

/**
 * Have it on when this returns. A subscription for another key is of no use any more; one that the server no longer has
 * may have been ended by its push service. Both are made anew.
 */
export async function turnOn(manager: Manager, routes: PushRoutes): Promise<void> {
  const { public_key, subscriptions } = await routes.state();
  const key = keyBytes(public_key);
  const found = await manager.getSubscription();
  if (found && isFor(found, key)) {
    const hash = await sha256(found.endpoint);
    if (subscriptions.some((each) => each.endpoint_sha256 === hash)) return;
  }
  await found?.unsubscribe();
  const subscription = await manager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const { endpoint, keys } = subscription.toJSON();
  try {
    await routes.add({ endpoint: endpoint ?? '', keys: { p256dh: keys?.['p256dh'] ?? '', auth: keys?.['auth'] ?? '' } });
  } catch (error) {
    await subscription.unsubscribe();
    throw error;
  }
}

async function sha256(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return Array.from(hash, (each) => each.toString(16).padStart(2, '0')).join('');
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
