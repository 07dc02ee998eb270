/** The service worker: registered once; a new version waits until the owner wants it. */

export class Update {
  waiting: ServiceWorker | null = $state.raw(null);

  /** Register; where there are no workers (or the page is not secure) the panel works without. */
  async start(): Promise<void> {
    if (!('serviceWorker' in navigator)) return;
    try {
      // Under Trusted Types the address of a worker must be vouched for; this one and no other.
      window.trustedTypes?.createPolicy('default', { createScriptURL: only('/sw.js') });
      const registration = await navigator.serviceWorker.register('/sw.js', { updateViaCache: 'none' });
      this.#watch(registration);
    } catch (error) {
      console.warn('the panel will not open offline:', error);
    }
  }

  /** Take the new version: it takes over and the page begins anew. */
  take(): void {
    navigator.serviceWorker.addEventListener('controllerchange', () => location.reload(), { once: true });
    this.waiting?.postMessage('take-over');
  }

  #watch(registration: ServiceWorkerRegistration): void {
    const look = (): void => {
      // Without a controller this is the first visit: nothing is replaced.
      if (registration.waiting && navigator.serviceWorker.controller) this.waiting = registration.waiting;
    };
    look();
    registration.addEventListener('updatefound', () => registration.installing?.addEventListener('statechange', look));
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) void registration.update().catch(() => undefined);
    });
  }
}

function only(allowed: string): (url: string) => string {
  return (url) => {
    if (url === allowed) return url;
    throw new TypeError(`${url} is no script of the panel`);
  };
}
