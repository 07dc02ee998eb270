import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { keyBytes, turnOff, turnOn, type Manager, type PushRoutes } from '../src/state/push.ts';
import { toldOf } from '../src/sw/told.ts';
import { t } from '../src/text/t.ts';

const KEY = 'BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8';

describe('a pushed message', () => {
  test('has the words of the panel for its type, and leads to what it is about', () => {
    for (const type of ['approval_needed', 'approval_expiring', 'job_failed', 'job_completed', 'proactive_reach_out', 'alert_raised', 'session_waiting'] as const)
      expect(toldOf({ notification_id: 'ntf_1', type, entity_id: 'act_1' }).body).toBe(t(`settings.notice.${type}`));
    expect(toldOf({ type: 'approval_needed', entity_id: 'act_1' })).toMatchObject({ tag: 'act_1', leads: '#/approvals/act_1' });
    expect(toldOf({ type: 'job_failed', entity_id: 'job_1' }).leads).toBe('#/work/jobs/job_1');
    expect(toldOf({ type: 'proactive_reach_out', entity_id: 'job_1' }).leads).toBe('#/settings/notices');
    expect(toldOf({ type: 'proactive_reach_out', entity_id: 'conv_1' }).leads).toBe('#/chat/conv_1');
  });

  test('says nothing of what it holds, and leads nowhere but to an id', () => {
    const hostile = { type: 'approval_needed', entity_id: '../../evil?x=<b>', title: 'Send money', body: 'now' };
    expect(toldOf(hostile)).toEqual({ body: t('settings.notice.approval_needed'), tag: 'coilclaw', leads: '#/settings/notices' });
    for (const odd of [null, 'text', 7, [], {}, { type: 'toString', entity_id: 'x' }, { type: 'moon', entity_id: 'act_1' }, { type: {}, entity_id: 'act_1' }])
      expect(toldOf(odd)).toEqual({ body: 'There is something to look at', tag: 'coilclaw', leads: '#/settings/notices' });
  });
});

class Browser {
  held: { key: Uint8Array; ended: boolean; endpoint?: string } | null = null;
  made = 0;

  manager(): Manager {
    const shown = (): PushSubscription | null => {
      const held = this.held;
      if (!held) return null;
      return {
        options: { applicationServerKey: held.key.buffer, userVisibleOnly: true },
        endpoint: held.endpoint,
        toJSON: () => ({ endpoint: held.endpoint, keys: { p256dh: 'p', auth: 'a' } }),
        unsubscribe: () => {
          held.ended = true;
          this.held = null;
          return Promise.resolve(true);
        },
      } as unknown as PushSubscription;
    };
    return {
      getSubscription: () => Promise.resolve(shown()),
      subscribe: (options) => {
        this.made += 1;
        this.held = { key: new Uint8Array(options?.applicationServerKey as Uint8Array<ArrayBuffer>), ended: false, endpoint: `https://push.example.net/${this.made}` };
        return Promise.resolve(shown() as PushSubscription);
      },
    };
  }
}

class Server implements PushRoutes {
  added: unknown[] = [];
  known: string[] = [];
  refuses = false;

  state = async () => ({
    public_key: KEY,
    subscriptions: this.known.map((endpoint) => ({
      subscription_id: endpoint,
      endpoint_sha256: createHash('sha256').update(endpoint).digest('hex'),
      host: 'h',
      created_at: '',
    })),
  });
  remove = (id: string) => Promise.resolve(void (this.known = this.known.filter((each) => each !== id)));
  add(subscription: { endpoint: string }): Promise<unknown> {
    if (this.refuses) return Promise.reject(new Error('no'));
    this.added.push(subscription);
    this.known = [subscription.endpoint];
    return Promise.resolve();
  }
}

describe('push on this device', () => {
  test('is subscribed with the key of the server and told to it', async () => {
    const [browser, server] = [new Browser(), new Server()];
    await turnOn(browser.manager(), server);
    expect(browser.held?.key).toEqual(keyBytes(KEY));
    expect(server.added).toEqual([{ endpoint: 'https://push.example.net/1', keys: { p256dh: 'p', auth: 'a' } }]);
  });

  test('is made anew when the server has another key', async () => {
    const [browser, server] = [new Browser(), new Server()];
    const old = (browser.held = { key: new Uint8Array([4, 1]), ended: false });
    await turnOn(browser.manager(), server);
    expect(old.ended).toBe(true);
    expect(browser.held.key).toEqual(keyBytes(KEY));
  });

  test('is taken back when the server refuses it, and when the owner wants no more', async () => {
    const [browser, server] = [new Browser(), new Server()];
    server.refuses = true;
    await expect(turnOn(browser.manager(), server)).rejects.toThrow('no');
    expect(browser.held).toBeNull();
    server.refuses = false;
    await turnOn(browser.manager(), server);
    await turnOff(browser.manager(), server);
    expect([browser.held, server.known]).toEqual([null, []]);
  });

  test('stays as it is while the server knows it', async () => {
    const [browser, server] = [new Browser(), new Server()];
    await turnOn(browser.manager(), server);
    await turnOn(browser.manager(), server);
    expect([browser.made, server.added.length]).toEqual([1, 1]);
  });

  test('is made anew when the server forgot it, or the browser did', async () => {
    const [browser, server] = [new Browser(), new Server()];
    await turnOn(browser.manager(), server);
    const old = browser.held;
    server.known = ['https://push.example.net/of-another-browser'];
    await turnOn(browser.manager(), server);
    expect([old?.ended, server.known]).toEqual([true, ['https://push.example.net/2']]);
    browser.held = null;
    await turnOn(browser.manager(), server);
    expect(server.known).toEqual(['https://push.example.net/3']);
  });

  test('is not called on when the server does not take it again', async () => {
    const [browser, server] = [new Browser(), new Server()];
    await turnOn(browser.manager(), server);
    server.known = [];
    server.refuses = true;
    await expect(turnOn(browser.manager(), server)).rejects.toThrow('no');
    expect(browser.held).toBeNull();
  });
});
