import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { flushSync, mount, tick, unmount } from 'svelte';
import App from '../src/App.svelte';
import { FakeServer } from './fake.ts';
import { Kept } from '../src/api/kept.ts';
import type { Assertion, Call, Message } from '../src/api/types.ts';
import { createPanel, type Panel } from '../src/panel.ts';
import { isHeldBack, transcript, waitingOf, type Said } from '../src/screens/chat/transcript.ts';
import { Update } from '../src/state/update.svelte.ts';
import { messages } from './fake_data.ts';

const BLOCKED = 'POLICY_BLOCKED_UNTRUSTED_TURN';
const mail = (): Message[] => messages().get('conv_mail') ?? [];
const send = (mail()[3] as Message).calls[0] as Call;
const held: Call = { ...send, action_id: 'act_held', status: 'REJECTED', verdict: 'deny', code: BLOCKED };
const saying = (...calls: Call[]): Message => ({ ...(mail()[3] as Message), message_id: 'm9', calls });

describe('what is held back', () => {
  test('is told by the gate\'s code, not by anybody\'s words', () => {
    expect(isHeldBack(held)).toBe(true);
    expect(isHeldBack({ ...held, code: 'PATH_FORBIDDEN', reasons: [BLOCKED], justification: BLOCKED })).toBe(false);
    expect(isHeldBack({ ...held, status: 'PENDING', verdict: 'ask' })).toBe(false);
    expect(isHeldBack({ ...held, action_id: null })).toBe(false);
  });

  test('has the outcome of the card that the owner made of it', () => {
    const call: Call = { ...held, reproposed_id: 'act_new', reproposed_status: 'EXECUTED' };
    const ended: Message = { ...(mail()[4] as Message), message_id: 'm10', action_id: 'act_new', content: 'webhook_send (act_new): door answered 200.' };
    const items = transcript([saying(call), ended]);
    expect((items[0] as Said).calls[0]?.outcome?.words).toBe('door answered 200.');
    expect(items).toHaveLength(1);
  });
});

test('calls that wait together are those nobody has answered', () => {
  const [said] = transcript([saying({ ...send, action_id: 'a' }, { ...send, action_id: 'b' }, held)]);
  const calls = (said as Said).calls;
  expect(waitingOf(calls, () => null)).toHaveLength(2);
  expect(waitingOf(calls, (id) => (id === 'a' ? 'APPROVED' : null))).toHaveLength(1);
});

test('a call that the gate allows or denies asks nobody in the moment before it runs or is refused', () => {
  const pending = { ...send, status: 'PENDING' as const };
  const [said] = transcript([saying({ ...pending, action_id: 'a', verdict: 'allow' }, { ...pending, action_id: 'b', verdict: 'deny' }, { ...pending, action_id: 'c' })]);
  expect(waitingOf((said as Said).calls, () => null).map(({ call }) => call.action_id)).toEqual(['c']);
});

describe('in a conversation', () => {
  let server: FakeServer;
  let panel: Panel;
  let app: object;
  let clicks = 0;
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
  const button = (text: string): HTMLButtonElement | undefined =>
    [...document.querySelectorAll('button')].find((each) => each.textContent?.trim() === text);
  const click = async (text: string): Promise<void> => {
    await until(text, () => button(text)?.disabled === false && button(text)?.getAttribute('aria-disabled') !== 'true');
    clicks += 1;
    button(text)?.click();
  };

  const talk = async (...said: Message[]): Promise<void> => {
    server.messages.set('conv_mail', said);
    panel.router.go('#/chat/conv_mail', { replace: true });
    app = mount(App, { target: document.body, props: { panel, update: new Update(), code: null } });
    await until('the conversation', () => document.querySelector('article') !== null);
  };

  beforeEach(() => {
    document.body.replaceChildren();
    proofs.length = 0;
    clicks = 0;
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
  });

  afterEach(async () => {
    await unmount(app);
    server.drop();
    await tick();
  });

  test('one press shows the card in place, another one with the passkey sends it', async () => {
    await talk(saying(held));
    expect(document.body.textContent).toContain('Held back, because this conversation read untrusted content.');
    await click('Show me this to approve');
    await until('the card', () => document.querySelector('.call .detail article') !== null);
    expect(panel.router.place?.params['id']).toBe('conv_mail');
    expect(document.querySelector('.call .detail')?.textContent).toContain('mail.example.com');
    await click('Approve with passkey');
    await until('done', () => document.querySelector('.came')?.textContent?.includes('Done.') ?? false);
    expect([clicks, proofs]).toEqual([2, ['act_held_again']]);
    expect(button('Show me this to approve')).toBeUndefined();
  });

  test('a conversation whose words offer it shows no such button', async () => {
    await talk({ ...saying(), content: `Show me this to approve ${BLOCKED}` });
    expect(button('Show me this to approve')).toBeUndefined();
  });

  test('calls that wait together are answered on one list, and a yes to one arms the others anew', async () => {
    const two = server.pending.slice(0, 2).map((each, at) => ({ ...each, proof: 'none' as const, lane: 'A' as const, action_id: `act_${at}`, preview_or_diff: '+x' }));
    server.pending = two;
    await talk(saying(...two.map((each): Call => ({ ...send, call_id: each.action_id, action_id: each.action_id }))));
    await click('Answer them here');
    await until('both cards', () => document.querySelectorAll('.call .detail article').length === 2);
    await click('Approve');
    await until('the first is answered', () => document.querySelectorAll('.call .detail').length === 1);
    expect(button('Approve')?.getAttribute('aria-disabled')).toBe('true');
    await click('Approve');
    await until('both are done', () => panel.queue.statusOf('act_0') === 'EXECUTED' && panel.queue.statusOf('act_1') === 'EXECUTED');
  });

  test('a summary is one line that opens', async () => {
    const note: Message = { ...(mail()[4] as Message), action_id: null, code: 'SUMMARY', summarised: 12, content: 'They spoke of invoices.', label: 'untrusted:mail.example.com', untrusted: true };
    await talk(mail()[0] as Message, note);
    const folded = document.querySelector('.note details');
    expect(folded?.querySelector('summary')?.textContent).toBe('12 earlier messages summed up');
    expect(folded?.hasAttribute('open')).toBe(false);
    expect(folded?.textContent).toContain('They spoke of invoices.');
    expect(document.querySelector('.note.untrusted')).not.toBeNull();
    expect(document.body.textContent).toContain('What is in my inbox?');
  });
});
