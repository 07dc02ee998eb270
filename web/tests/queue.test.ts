import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { flushSync, mount, tick, unmount } from 'svelte';
import App from '../src/App.svelte';
import { FakeServer } from './fake.ts';
import { Kept } from '../src/api/kept.ts';
import type { ApprovalCard, Assertion } from '../src/api/types.ts';
import { createPanel, type Panel } from '../src/panel.ts';
import { deedOf } from '../src/screens/approvals/keys.ts';
import { inOrder, neighbour } from '../src/state/queue.svelte.ts';
import { Update } from '../src/state/update.svelte.ts';

const card = (id: string, expires = '2026-01-01'): ApprovalCard => ({ action_id: id, expires_at: expires }) as ApprovalCard;

describe('the order', () => {
  test('is by what expires first, and stable', () => {
    expect(inOrder([card('b', '2026-02'), card('c', '2026-01'), card('a', '2026-01')]).map((each) => each.action_id)).toEqual(['a', 'c', 'b']);
  });

  test('after an answer the next one is looked at, at the end the one before', () => {
    const three = [card('a'), card('b'), card('c')];
    expect(neighbour(three, 'a')).toBe('b');
    expect(neighbour(three, 'b')).toBe('c');
    expect(neighbour(three, 'c')).toBe('b');
    expect(neighbour([card('a')], 'a')).toBeNull();
  });
});

test('keys mean something only when nobody types', () => {
  const pressed = (key: string, target: EventTarget | null, more = {}): string | null =>
    deedOf({ key, target, ctrlKey: false, metaKey: false, altKey: false, repeat: false, ...more });
  const body = document.body;
  expect(['j', 'k', 'a', 'r', 'x'].map((key) => pressed(key, body))).toEqual(['next', 'previous', 'approve', 'reject', null]);
  expect(pressed('a', document.createElement('input'))).toBeNull();
  expect(pressed('a', document.createElement('textarea'))).toBeNull();
  expect(pressed('a', body, { ctrlKey: true })).toBeNull();
  expect(pressed('a', body, { repeat: true })).toBeNull();
  expect(pressed('j', body, { repeat: true })).toBe('next');
});

describe('the screen', () => {
  let server: FakeServer;
  let panel: Panel;
  let app: object;
  const proofs: string[] = [];
  const assertion: Assertion = { challenge_id: 'ch', id: 'pk', response: { authenticatorData: '', clientDataJSON: '', signature: '', userHandle: null } };

  const until = async (what: string, holds: () => boolean): Promise<void> => {
    for (let left = 200; left > 0; left -= 1) {
      flushSync();
      if (holds()) return;
      await new Promise((done) => setTimeout(done, 15));
    }
    throw new Error(`never: ${what}\n${document.body.textContent ?? ''}`);
  };
  const shows = (text: string): (() => boolean) => () => document.querySelector('article h2')?.textContent?.includes(text) ?? false;
  const button = (text: string): HTMLButtonElement | undefined =>
    [...document.querySelectorAll('button')].find((each) => each.textContent?.trim() === text);
  const press = (key: string): void => void window.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  /** The key leads to the button; only the button is a yes. */
  const sayYes = async (): Promise<void> => {
    press('a');
    await until('the button', () => document.activeElement?.textContent?.trim().startsWith('Approve') ?? false);
    (document.activeElement as HTMLButtonElement).click();
  };

  beforeEach(async () => {
    document.body.replaceChildren();
    proofs.length = 0;
    server = new FakeServer();
    server.effect = 60;
    panel = createPanel({
      fetch: ((input: string, init?: RequestInit) => server.fetch(new URL(input, 'http://localhost/'), init)) as typeof fetch,
      kept: new Kept(undefined),
      sign: async (challenge) => {
        proofs.push(challenge.question.subject);
        return assertion;
      },
    });
    panel.router.go('#/approvals', { replace: true });
    app = mount(App, { target: document.body, props: { panel, update: new Update(), code: null } });
    await until('the list', () => panel.queue.pending.length === 4);
  });

  afterEach(async () => {
    await unmount(app);
    server.drop();
    await tick();
  });

  const open = async (id: string, summary: string): Promise<void> => {
    panel.router.go(`#/approvals/${id}`, { replace: true });
    await until(summary, shows(summary));
  };
  const ready = (text: string): Promise<void> => until(`${text} is ready`, () => button(text)?.disabled === false);

  test('an answer asks for the passkey, goes on to the next one, and is done only when the server says so', async () => {
    await open('act_webhook', 'Invoice 2041');
    await ready('Approve with passkey');
    await sayYes();
    await until('the next card', shows('notes/week.md'));
    expect(proofs).toEqual(['act_webhook']);
    expect(['APPROVED', 'EXECUTED']).toContain(panel.queue.statusOf('act_webhook'));
    await until('done', () => panel.queue.statusOf('act_webhook') === 'EXECUTED');
    expect(panel.queue.pending.map((each) => each.action_id)).not.toContain('act_webhook');
  });

  test('a card that has just come into sight cannot be answered yet', async () => {
    await open('act_write', 'notes/week.md');
    press('a');
    button('Approve')?.click();
    await new Promise((done) => setTimeout(done, 100));
    expect(panel.queue.statusOf('act_write')).toBeNull();
    await ready('Approve');
    await sayYes();
    await until('answered', () => panel.queue.statusOf('act_write') !== null);
    expect(proofs).toEqual([]);
  });

  test('a card that changed while it was read has to be looked at again', async () => {
    await open('act_write', 'notes/week.md');
    await ready('Approve');
    server.pending = server.pending.map((each) => (each.action_id === 'act_write' ? { ...each, seen: 'seen_2' } : each));
    await sayYes();
    await until('a warning', () => document.body.textContent?.includes('It changed while you were reading') ?? false);
    expect(panel.queue.statusOf('act_write')).toBeNull();
    await ready('Approve');
    await sayYes();
    await until('answered', () => panel.queue.statusOf('act_write') !== null);
  });

  test('a no takes a reason and goes on', async () => {
    await open('act_shell', 'make test');
    await ready('Reject');
    press('r');
    await until('the dialog', () => document.querySelector('dialog form input') !== null);
    const field = document.querySelector<HTMLInputElement>('dialog form input');
    if (field) {
      field.value = 'not now';
      field.dispatchEvent(new Event('input', { bubbles: true }));
    }
    document.querySelector('dialog form')?.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }));
    await until('rejected', () => panel.queue.statusOf('act_shell') === 'REJECTED');
    await until('the one before', shows('policies/mail.json'));
  });

  test('a passkey that is not used changes nothing', async () => {
    await open('act_webhook', 'Invoice 2041');
    await ready('Approve with passkey');
    server.pending = server.pending.map((each) => (each.action_id === 'act_webhook' ? { ...each } : each));
    const refused = panel.api.passkeys.challenge;
    panel.api.passkeys.challenge = () => Promise.reject(new DOMException('', 'NotAllowedError'));
    await sayYes();
    await until('a message', () => panel.toasts.list.length > 0);
    panel.api.passkeys.challenge = refused;
    expect(panel.queue.statusOf('act_webhook')).toBeNull();
    expect(server.pending).toHaveLength(4);
  });

  test('what is new appears by itself', async () => {
    server.pending = [...server.pending, { ...(server.pending[1] as ApprovalCard), action_id: 'act_new', human_summary: 'Write new.md' }];
    server.tell('approval', 'approval_needed', 'act_new');
    await until('five', () => panel.queue.pending.length === 5);
  });

  test('a lost cookie leads back to pairing and forgets what was shown', async () => {
    server.paired = false;
    server.tell('approval', 'approval_needed', 'act_x');
    await until('pairing', () => document.querySelector('h1')?.textContent === 'Pair this device');
    expect(panel.session.data).toBeNull();
  });
});
