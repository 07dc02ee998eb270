/** The browser's own notifications: pushed, or while the panel is open and not in front. They say that something waits, never what. */
import type { LiveEvent } from '../api/types.ts';
import { address } from '../route/match.ts';
import { lookup, t } from '../text/t.ts';
import type { Router } from '../route/router.svelte.ts';
import type { Live } from './live.svelte.ts';
import { managerHere, turnOff, turnOn, type PushRoutes } from './push.ts';

export type AlertState = 'unsupported' | 'denied' | 'off' | 'on';
const NAME = 'coilclaw.alerts';
/** What is worth to be told at once; the rest stands in the list. */
const TOLD: ReadonlySet<string> = new Set(['approval_needed', 'approval_expiring', 'job_failed', 'job_completed', 'proactive_reach_out', 'alert_raised', 'session_waiting']);

export interface Alert {
  words: string;
  /** Where a press leads. Only ever to look: nothing is answered from outside the panel. */
  leads: string;
}

/** To the thing itself, as a pushed message does; what a job said stands in a conversation that the event does not name. */
function leadsTo(type: string, id: string): string {
  if (type.startsWith('approval')) return address('approvals', id);
  if (type === 'alert_raised') return address('work', 'patrols');
  if (type === 'session_waiting') return address('work', 'sessions', id);
  if (type.startsWith('job')) return address('work', 'jobs', id);
  return id.startsWith('conv_') ? address('chat', id) : address('settings', 'notices');
}

/** What to say of an event; null when nobody has to be told. */
export function alertOf(event: Pick<LiveEvent, 'type' | 'id' | 'data'>): Alert | null {
  if (event.type !== 'notification_added' || typeof event.data !== 'object' || event.data === null || Array.isArray(event.data)) return null;
  const type = event.data['type'];
  if (typeof type !== 'string' || !TOLD.has(type)) return null;
  return { words: lookup(`settings.notice.${type}`, t('app.name')), leads: leadsTo(type, event.id) };
}

function wished(): boolean {
  try {
    return localStorage.getItem(NAME) === 'on';
  } catch {
    return false;
  }
}

export class Alerts {
  #wished = $state(wished());
  #permission: NotificationPermission | 'unsupported' = $state(typeof Notification === 'undefined' ? 'unsupported' : Notification.permission);

  /** Whether this browser is told while the panel is closed too. */
  pushed = $state(false);
  #looking: Promise<void> = Promise.resolve();

  get state(): AlertState {
    if (this.#permission === 'unsupported' || this.#permission === 'denied') return this.#permission;
    return this.#wished && this.#permission === 'granted' ? 'on' : 'off';
  }

  /** Listen, and look whether push is still on, also when the connection is back; the answer stops it. */
  start(live: Live, router: Pick<Router, 'go'>, routes: PushRoutes): () => void {
    const look = (): void => void this.#keepPushed(routes);
    const stops = [
      live.onAgain(look),
      live.onEvent((event) => {
        this.#heard(event, router);
        if (event.type === 'device_unsubscribed') look();
      }),
    ];
    // The worker says that the browser ended it.
    navigator.serviceWorker?.addEventListener('message', look);
    look();
    return () => {
      navigator.serviceWorker?.removeEventListener('message', look);
      for (const stop of stops) stop();
    };
  }

  /** The browser asks the owner; only a press may call this. */
  async allow(routes: PushRoutes): Promise<void> {
    if (this.#permission === 'unsupported') return;
    this.#permission = await Notification.requestPermission();
    this.#wish(this.#permission === 'granted');
    await this.#keepPushed(routes);
  }

  async quiet(routes: PushRoutes): Promise<void> {
    this.#wish(false);
    const manager = await managerHere();
    if (manager) await turnOff(manager, routes);
    this.pushed = false;
  }

  /** Signed out: the server forgot this device, so the browser need not be reachable any more. */
  async forget(): Promise<void> {
    this.#wish(false);
    this.pushed = false;
    await (await (await managerHere())?.getSubscription())?.unsubscribe();
  }

  /** Pushed is only what both sides know: the server forgets a subscription when its device or its push service ends it. */
  #keepPushed(routes: PushRoutes): Promise<void> {
    // One after another: two at once would subscribe twice.
    this.#looking = this.#looking.then(async () => {
      const manager = this.state === 'on' ? await managerHere() : null;
      try {
        if (manager) await turnOn(manager, routes);
        this.pushed = manager !== null && this.state === 'on';
      } catch {
        // No push service, none that may be used, or no connection: it still tells while the panel is open, and says so.
        this.pushed = false;
      }
    });
    return this.#looking;
  }

  #wish(on: boolean): void {
    this.#wished = on;
    try {
      if (on) localStorage.setItem(NAME, 'on');
      else localStorage.removeItem(NAME);
    } catch {
      // It holds until the page is closed.
    }
  }

  #heard(event: LiveEvent, router: Pick<Router, 'go'>): void {
    const alert = alertOf(event);
    if (alert && this.state === 'on' && !this.pushed && (document.hidden || !document.hasFocus())) void this.#show(alert, event.id, router);
  }

  async #show({ words, leads }: Alert, tag: string, router: Pick<Router, 'go'>): Promise<void> {
    const options: NotificationOptions = { tag, icon: '/icon-192.png', body: words, data: leads };
    try {
      const shown = new Notification(t('app.name'), options);
      shown.onclick = () => {
        window.focus();
        router.go(leads);
        shown.close();
      };
    } catch {
      // Phones want the service worker to show it.
      await (await navigator.serviceWorker?.getRegistration())?.showNotification(t('app.name'), options);
    }
  }
}

const made = new WeakMap<Live, Alerts>();

/** The one of this page. */
export function alertsOf(live: Live): Alerts {
  const found = made.get(live) ?? new Alerts();
  made.set(live, found);
  return found;
}
