import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { flushSync, mount, tick, unmount } from 'svelte';
import App from '../src/App.svelte';
import { FakeServer } from './fake.ts';
import { Kept } from '../src/api/kept.ts';
import type { ApprovalCard, Assertion } from '../src/api/types.ts';
import { createPanel, type Panel } from '../src/panel.ts';
import { deedOf } from '../src/screens/approvals/keys.ts';
import { kindsOf } from '../src/screens/approvals/kinds.ts';
import { MOST, neighbour, onceEach } from '../src/state/queue.svelte.ts';
import { Sweep, crowdsOf } from '../src/state/sweep.svelte.ts';
import { Update } from '../src/state/update.svelte.ts';

const card = (id: string, more: Partial<ApprovalCard> = {}): ApprovalCard => ({ action_id: id, expires_at: '2026-01-01', ...more }) as ApprovalCard;

describe('the order', () => {
  test('is the server\'s, each once, without what was answered', () => {
    const read = [card('b'), card('c'), card('b'), card('a')];
    expect(onceEach(read, new Set(['c'])).map((each) => each.action_id)).toEqual(['b', 'a']);
  });

  test('after an answer the next one is looked at, at the end the one before', () => {
    const three = [card('a'), card('b'), card('c')];
    expect(neighbour(three, 'a')).toBe('b');
    expect(neighbour(three, 'b')).toBe('c');
    expect(neighbour(three, 'c')).toBe('b');
    expect(neighbour([card('a')], 'a')).toBeNull();
  });
});

test('kinds are told apart only where there are several, and what is not there is not offered', () => {
  expect(kindsOf({ A: 129, B: 1, C: 0 }, 130)).toEqual([{ kind: null, count: 130 }, { kind: 'B', count: 1 }]);
  expect(kindsOf({ A: 0, B: 2, C: 3 }, 5).map((each) => each.kind)).toEqual([null, 'B', 'C']);
  expect([kindsOf({ A: 9, B: 0, C: 0 }, 9), kindsOf({ A: 0, B: 4, C: 0 }, 4), kindsOf({ A: 0, B: 0, C: 0 }, 0)]).toEqual([[], [], []]);
});

test('a crowd is more than five questions of one job or conversation, and a job\'s are the job\'s', () => {
  const many = (count: number, more: Partial<ApprovalCard>): ApprovalCard[] => Array.from({ length: count }, (_, at) => card(`${JSON.stringify(more)}${at}`, more));
  expect(crowdsOf([...many(5, { job_id: 'job_1', thread_id: 't' }), ...many(5, { job_id: null, thread_id: 't' }), ...many(9, { job_id: null, thread_id: '' })])).toEqual([]);
  expect(crowdsOf([...many(6, { job_id: null, thread_id: 't' }), ...many(7, { job_id: 'job_1', thread_id: 't' })])).toEqual([{ job_id: 'job_1' }, { thread_id: 't' }]);
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
    for (let left = 2000; left > 0; left -= 1) {
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
    await until('the button', () => (document.activeElement?.textContent?.trim().startsWith('Approve') && document.activeElement.getAttribute('aria-disabled') !== 'true') ?? false);
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
  const ready = (text: string): Promise<void> => until(`${text} is ready`, () => button(text)?.disabled === false && button(text)?.getAttribute('aria-disabled') !== 'true');

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

  test('a yes can hold from now on, for what the card offers', async () => {
    const offers: ApprovalCard['offers'] = [{ what: 'folder', text: 'writing ordinary files in notes/', until: ['conversation', 'today'] }];
    server.pending = server.pending.map((each) => (each.action_id === 'act_write' ? { ...each, offers } : each));
    await panel.queue.reload();
    await open('act_write', 'notes/week.md');
    await ready('Yes, and from now on…');
    button('Yes, and from now on…')?.click();
    await until('the choice', () => document.body.textContent?.includes('writing ordinary files in notes/') ?? false);
    expect(button('Until I revoke it')).toBeUndefined();
    button('Until midnight')?.click();
    await until('answered', () => panel.queue.statusOf('act_write') !== null);
    expect(server.always).toEqual([{ what: 'folder', until: 'today' }]);
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

  test('who goes on pressing after an answer approves nothing more', async () => {
    await open('act_write', 'notes/week.md');
    await ready('Approve');
    await sayYes();
    await until('the next card', shows('policies/mail.json'));
    for (let tap = 0; tap < 8; tap += 1) {
      button('Approve with passkey')?.click();
      await new Promise((done) => setTimeout(done, 300));
      expect(button('Approve with passkey')?.getAttribute('aria-disabled')).toBe('true');
    }
    expect(proofs).toEqual([]);
    expect(panel.queue.pending).toHaveLength(3);
    await ready('Approve with passkey');
    await sayYes();
    await until('answered', () => panel.queue.statusOf('act_policy') !== null);
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
    expect(panel.signIn.data).toBeNull();
  });

  /** A hundred and thirty that one job asks for, but for one that leaves the machine. */
  const flood = async (): Promise<void> => {
    const [, write] = server.pending as [ApprovalCard, ApprovalCard];
    server.pending = Array.from({ length: 130 }, (_, at) => ({
      ...write,
      action_id: `act_${String(at).padStart(3, '0')}`,
      human_summary: `Write ${at}.md`,
      expires_at: new Date(Date.now() + 3_600_000 + at * 1000).toISOString(),
      lane: at === 120 ? 'B' : 'A',
      job_id: at === 120 ? null : 'job_1',
    }));
    server.tell('approval', 'approval_needed', 'act_000');
    await until('all counted', () => panel.queue.total === 130);
  };
  const pressed = (text: string): void => button(text)?.click();

  test('many are counted truly, read page by page, and the ones that expire first are there first', async () => {
    await flood();
    expect(document.title).toMatch(/^\(130\) /);
    expect(document.querySelector('nav .sr')?.textContent).toBe('130 wait for you');
    expect(panel.queue.pending.map((each) => each.action_id).slice(0, 2)).toEqual(['act_000', 'act_001']);
    expect([panel.queue.pending.length, panel.queue.more, panel.queue.complete]).toEqual([50, true, false]);
    await until('the note', () => document.body.textContent?.includes('50 of 130 are here') ?? false);
    pressed('Show more');
    await until('a hundred', () => panel.queue.pending.length === 100);
    pressed('Show more');
    await until('all', () => panel.queue.complete && panel.queue.pending.length === 130);
    expect(button('Show more')).toBeUndefined();
  });

  test('the end of what was read is not the end of the list', async () => {
    await flood();
    await open('act_049', 'Write 49.md');
    press('j');
    await until('the next page', shows('Write 50.md'));
  });

  test('no more is held than can be read again at every event', async () => {
    const [, write] = server.pending as [ApprovalCard, ApprovalCard];
    server.pending = Array.from({ length: MOST + 40 }, (_, at) => ({ ...write, action_id: `act_${String(at).padStart(4, '0')}` }));
    for (let page = 0; page < 12; page += 1) await panel.queue.grow();
    await panel.queue.reload();
    for (let page = 0; page < 12; page += 1) await panel.queue.grow();
    expect([panel.queue.pending.length, panel.queue.more, panel.queue.canGrow, panel.queue.total]).toEqual([MOST, true, false, MOST + 40]);
  });

  test('one that leaves the machine is found among many that do not', async () => {
    await flood();
    expect(panel.queue.pending.some((each) => each.lane === 'B')).toBe(false);
    await until('chips', () => button('Leaves this machine 1') !== undefined);
    expect(button('Governs the agent 0')).toBeUndefined();
    pressed('Leaves this machine 1');
    await until('it alone', () => panel.queue.pending.map((each) => each.action_id).join() === 'act_120');
    expect([panel.queue.total, panel.queue.ofKind]).toEqual([130, 1]);
    await panel.queue.reject(panel.queue.pending[0] as ApprovalCard, 'no');
    await until('all again', () => panel.queue.kind === null && panel.queue.total === 129 && panel.queue.pending.length === 50);
    expect(document.querySelector('[role=group][aria-label=Kinds]')).toBeNull();
  });

  test('a filter ends with the screen it was set on', async () => {
    await flood();
    panel.queue.choose('B');
    panel.router.go('#/');
    await until('home', () => panel.queue.kind === null && panel.queue.pending.length === 50);
  });

  test('all questions of a job are refused together, one by one, and the others stay', async () => {
    await flood();
    await until('the offer', () => button('Reject all 129 of this job') !== undefined);
    pressed('Reject all 129 of this job');
    await until('the dialog', () => document.querySelector('dialog form input') !== null);
    const field = document.querySelector<HTMLInputElement>('dialog form input');
    if (field) {
      field.value = 'too many';
      field.dispatchEvent(new Event('input', { bubbles: true }));
    }
    document.querySelector('dialog form')?.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }));
    await until('all of them', () => document.querySelector('dialog')?.textContent?.includes('129 were rejected.') ?? false);
    expect(server.pending.map((each) => each.action_id)).toEqual(['act_120']);
    await until('one is left', () => panel.queue.total === 1);
    expect(panel.toasts.list).toEqual([]);
  });

  const waits: number[] = [];
  const sweep = (): Sweep => {
    waits.length = 0;
    return new Sweep(panel.api, async (milliseconds) => void waits.push(milliseconds));
  };

  test('a sweep waits when it is asked to, and says what could not be refused', async () => {
    await flood();
    server.busy = 3;
    server.held.add('act_001').add('act_090');
    const made = sweep();
    await made.run({ job_id: 'job_1' }, 129, '');
    expect([made.state, made.done, made.failures, waits]).toEqual(['over', 127, 2, [1000, 1000, 1000]]);
    expect(made.told.map((each) => [each.what, each.why.includes('being answered elsewhere')])).toEqual([['Write 1.md', true], ['Write 90.md', true]]);
  });

  test('a sweep refuses no more than were counted when it was asked for', async () => {
    await flood();
    const made = sweep();
    await made.run({ job_id: 'job_1' }, 7, '');
    expect([made.state, made.done, server.pending.length, server.pending[0]?.action_id]).toEqual(['over', 7, 123, 'act_007']);
  });

  test('a sweep stops where it is, and so it does when the server is gone', async () => {
    await flood();
    server.busy = 2;
    const stopped: Sweep = new Sweep(panel.api, async () => {
      if (server.busy === 0) stopped.stop();
    });
    await stopped.run({ job_id: 'job_1' }, 129, '');
    expect([stopped.state, stopped.done, stopped.broken, server.pending.length]).toEqual(['stopped', 0, '', 130]);
    const broken = sweep();
    server.busy = 1000;
    await broken.run({ job_id: 'job_1' }, 50, '');
    expect([broken.state, broken.done, broken.broken !== '']).toEqual(['stopped', 0, true]);
  });
});
