/**
 * The service worker: keeps the shell, so that the panel opens without the network. It never touches the API: what is
 * not part of the shell goes to the server as if there were no worker.
 */
/// <reference lib="WebWorker" />
import { ENDED, toldOf } from './told.ts';

const worker = self as unknown as ServiceWorkerGlobalScope;
const PREFIX = 'coilclaw-shell-';
const CACHE = `${PREFIX}__SHELL_VERSION__`;
const PATHS = '__SHELL_PATHS__'.split(' ');
const SHELL = new Set(PATHS);

async function keep(): Promise<void> {
  const cache = await caches.open(CACHE);
  await cache.addAll(PATHS.map((path) => new Request(path, { cache: 'reload' })));
}

async function forgetOlder(): Promise<void> {
  for (const name of await caches.keys()) {
    if (name.startsWith(PREFIX) && name !== CACHE) await caches.delete(name);
  }
  await worker.clients.claim();
}

async function fromShell(request: Request, path: string): Promise<Response> {
  const cache = await caches.open(CACHE);
  return (await cache.match(path)) ?? fetch(request);
}

worker.addEventListener('install', (event) => event.waitUntil(keep()));
worker.addEventListener('activate', (event) => event.waitUntil(forgetOlder()));

worker.addEventListener('message', (event) => {
  // A new version waits until the owner says so: nothing changes under somebody who is reading a card.
  if (event.data === 'take-over') void worker.skipWaiting();
});

/** A notification leads to the panel, where it is looked at and answered. */
async function lead(place: unknown): Promise<void> {
  const url = new URL('/', worker.location.origin);
  if (typeof place === 'string' && place.startsWith('#/')) url.hash = place;
  const [open] = await worker.clients.matchAll({ type: 'window' });
  if (!open) return void (await worker.clients.openWindow(url.href));
  // A window that may not come to the front is led there all the same.
  await open.focus().catch(() => undefined);
  await open.navigate(url.href);
}

/** Words by the type of what was pushed; what cannot be read is told all the same, because the browser wants it so. */
async function tell(data: PushMessageData | null): Promise<void> {
  let read: unknown = null;
  try {
    read = data?.json();
  } catch {
    // Not JSON: fixed words.
  }
  const { body, tag, leads } = toldOf(read);
  await worker.registration.showNotification('CoilClaw', { body, tag, data: leads, icon: '/icon-192.png' });
}

/** The browser ended the subscription. Only the panel may ask the server for another: it does when it is open, or opened. */
async function ended(): Promise<void> {
  const open = await worker.clients.matchAll({ type: 'window' });
  for (const each of open) each.postMessage('push-ended');
  if (!open.length) await worker.registration.showNotification('CoilClaw', { body: ENDED, tag: 'push-ended', data: '#/settings/notices', icon: '/icon-192.png' });
}

worker.addEventListener('pushsubscriptionchange', (event) => (event as ExtendableEvent).waitUntil(ended()));

worker.addEventListener('push', (event) => event.waitUntil(tell(event.data)));

worker.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(lead(event.notification.data));
});

worker.addEventListener('fetch', (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== 'GET' || url.origin !== worker.location.origin || !SHELL.has(url.pathname)) return;
  event.respondWith(fromShell(event.request, url.pathname));
});
