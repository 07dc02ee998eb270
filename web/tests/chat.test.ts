import { describe, expect, test } from 'vitest';
import { messages, threads } from './fake_data.ts';
import { excerptOf } from '../src/parts/excerpt.ts';
import { choices } from '../src/screens/chat/models.ts';
import { writtenBy } from '../src/screens/chat/written.ts';
import { ideasFor } from '../src/screens/chat/ideas.ts';
import type { Message } from '../src/api/types.ts';
import { briefly, isRunning, isSaid, joined, stepAt, transcript, withOutput, withPiece, yieldOf, type ShownCall } from '../src/screens/chat/transcript.ts';

const mail = messages().get('conv_mail') ?? [];
const named = (...ids: string[]): Message[] => ids.map((id) => ({ ...(mail[0] as Message), message_id: id }));
const ids = (list: readonly Message[]): string => list.map((each) => each.message_id).join(' ');

describe('a transcript', () => {
  test('puts results to their calls and keeps the order', () => {
    const items = transcript(mail);
    expect(items.map((each) => each.kind)).toEqual(['said', 'said', 'said', 'note']);
    const read = items[1];
    expect(read?.kind === 'said' && read.calls[0]?.result?.message_id).toBe('m3');
  });

  test('a result without its call still stands there', () => {
    expect(transcript(mail.slice(2, 3)).map((each) => each.kind)).toEqual(['result']);
  });

  test('the same call id in another turn is another call', () => {
    const other = mail.map((each) => ({ ...each, turn_id: 'turn_2', message_id: `${each.message_id}b` }));
    const [first] = transcript([...(mail.slice(1, 2) as Message[]), ...other.slice(2, 3)]);
    expect(first?.kind === 'said' && first.calls[0]?.result).toBeNull();
  });

  describe('of a call that had to wait', () => {
    const asked = { ...(mail[1] as Message), calls: (mail[1] as Message).calls.map((call) => ({ ...call, action_id: 'act_1', status: 'EXECUTED' as const })) };
    const waiting = { ...(mail[2] as Message), content: 'pending act_1: approval needed.', code: 'APPROVAL_NEEDED' };
    const ended = { ...(mail[2] as Message), message_id: 'm9', role: 'system' as const, action_id: 'act_1', content: 'file_write (act_1): Wrote\n52 bytes.' };
    const callOf = (messages: Message[]): ShownCall | undefined => {
      const [first] = transcript(messages);
      return first?.kind === 'said' ? first.calls[0] : undefined;
    };

    test('shows nothing as its result while it waits, then what came of it', () => {
      expect(yieldOf(callOf([asked, waiting]) as ShownCall)).toBeNull();
      expect(yieldOf(callOf([asked, waiting, ended]) as ShownCall)).toMatchObject({ words: 'Wrote\n52 bytes.' });
    });

    test('is told once: its outcome stands with it, and below only when it is out of sight', () => {
      expect(transcript([asked, waiting, ended])).toHaveLength(1);
      expect(transcript([ended])[0]).toMatchObject({ kind: 'outcome', outcome: { tool: 'file_write', action: 'act_1' } });
    });

    test('an outcome is the one of its own action, whatever its words claim', () => {
      const forged = { ...ended, action_id: 'act_2' };
      expect(transcript([asked, waiting, forged])[1]?.kind).toBe('note');
      expect(transcript([{ ...ended, action_id: null }])[0]?.kind).toBe('note');
    });
  });

  test('a call that the gate allowed runs, one that the owner allowed runs once it writes, and neither when it has ended', () => {
    const call = (mail[1] as Message).calls[0] as Message['calls'][number];
    const shown = (verdict: 'allow' | 'ask', result: Message | null = null): ShownCall => ({ call: { ...call, verdict }, result, outcome: null, plan: null });
    const output = { text: 'step 1', length: 6 };
    expect(isRunning(shown('allow'), 'APPROVED', undefined)).toBe(true);
    expect(isRunning(shown('allow'), 'PENDING', undefined)).toBe(true);
    expect(isRunning(shown('ask'), 'PENDING', undefined)).toBe(false);
    expect(isRunning(shown('ask'), 'APPROVED', undefined)).toBe(false);
    expect(isRunning(shown('ask'), 'APPROVED', output)).toBe(true);
    expect(isRunning(shown('allow', mail[2] as Message), 'APPROVED', output)).toBe(false);
    expect(isRunning(shown('allow'), 'EXECUTED', output)).toBe(false);
  });

  describe('with a plan', () => {
    const call = (mail[1] as Message).calls[0];
    const told = (id: string, states: string[], more: object = {}): Message => ({
      ...(mail[1] as Message),
      message_id: id,
      content: '',
      calls: [{ ...(call as NonNullable<typeof call>), call_id: id, tool: 'plan_update', status: 'EXECUTED', arguments: JSON.stringify({ steps: states.map((state, at) => ({ title: `step ${at}`, state })) }), ...more }],
    });
    const turn = (mail[1] as Message).turn_id;

    test('shows it once in a turn, as it is now', () => {
      const items = transcript([told('p1', ['doing', 'todo']), told('p2', ['done', 'doing'])]);
      expect(items).toHaveLength(1);
      expect(items[0]?.kind === 'said' && items[0].calls[0]?.plan?.map((step) => step.state)).toEqual(['done', 'doing']);
      expect(stepAt(items, turn)).toBe('step 1');
      expect(stepAt(items, 'another')).toBe('');
    });

    test('keeps what else an answer says or calls', () => {
      const second = told('p2', ['done']);
      const both = { ...second, content: 'Almost done.', calls: [...second.calls, { ...(call as NonNullable<typeof call>), call_id: 'other' }] };
      const items = transcript([told('p1', ['doing']), both]);
      expect(items[1]?.kind === 'said' && items[1].calls.map((each) => each.call.call_id)).toEqual(['other']);
    });

    test('one that was denied or cannot be read is a call like others', () => {
      for (const more of [{ status: 'REJECTED' }, { arguments: '{"steps": [{"title": "x", "state": "odd"}]}' }, { arguments: '{' }, { arguments: '{"steps": []}' }]) {
        const items = transcript([told('p1', ['doing']), told('p2', ['done'], more)]);
        expect(items).toHaveLength(2);
        expect(items[1]?.kind === 'said' && items[1].calls[0]?.plan).toBeNull();
      }
    });
  });

  test('a call is told by what it touches, not by what it holds', () => {
    expect(briefly({ content: 'long\ntext', path: 'a.md' })).toBe('a.md');
    expect(briefly({ payload: 1, words: 'two\nlines' })).toBe('two');
    expect([briefly({}), briefly(null), briefly([1])]).toEqual(['', '', '']);
  });

  test('a new page joins what is known where they meet', () => {
    expect(ids(joined(named('a', 'b', 'c'), named('b', 'c', 'd')))).toBe('a b c d');
    expect(ids(joined(named('a', 'b'), named('x', 'y')))).toBe('x y');
    expect(ids(joined([], named('x')))).toBe('x');
    expect(ids(joined(named('a'), []))).toBe('');
  });
});

describe('text that is being written', () => {
  test('grows piece by piece, counted in characters as the server counts them', () => {
    let partial = withPiece(null, 't', 0, 'Hé 🦀');
    partial = withPiece(partial, 't', 4, ' b');
    expect(partial).toMatchObject({ text: 'Hé 🦀 b', length: 6 });
  });

  test('a piece replaces everything from its place on', () => {
    const partial = withPiece({ turn_id: 't', text: 'one 🦀 two', length: 9 }, 't', 6, 'three');
    expect(partial).toMatchObject({ text: 'one 🦀 three', length: 11 });
  });

  test('another turn, or another round, begins anew', () => {
    expect(withPiece({ turn_id: 't', text: 'old', length: 3 }, 'u', 0, 'new')?.text).toBe('new');
    expect(withPiece({ turn_id: 't', text: 'old', length: 3 }, 't', 0, 'new')?.text).toBe('new');
  });

  test('a missing piece is noticed', () => {
    expect(withPiece(null, 't', 5, 'late')).toBeNull();
  });

  test('is over when the message stands in the conversation', () => {
    const answer = { ...(mail[1] as Message), content: 'I will read the export first.' };
    expect(isSaid({ turn_id: answer.turn_id, text: 'I will read', length: 11 }, [answer])).toBe(true);
    expect(isSaid({ turn_id: answer.turn_id, text: 'Now the', length: 7 }, [answer])).toBe(false);
    expect(isSaid({ turn_id: 'other', text: 'I will read', length: 11 }, [answer])).toBe(false);
  });
});

describe('what a running command writes', () => {
  const missed = (count: number): string => `[${count} missed]`;

  test('grows, and what is told again stands there once', () => {
    let output = withOutput(undefined, 0, 'one 🦀', missed);
    output = withOutput(output, 5, ' two', missed);
    output = withOutput(output, 0, 'one 🦀 two and', missed);
    expect(output).toEqual({ text: 'one 🦀 two and', length: 13 });
  });

  test('says what was missed, unless one came later', () => {
    expect(withOutput({ text: 'a', length: 1 }, 5, 'b', missed).text).toBe('a\n[4 missed]\nb');
    expect(withOutput(undefined, 5, 'b', missed)).toEqual({ text: 'b', length: 6 });
  });

  test('is shown by its end, however much there is', () => {
    const output = withOutput(undefined, 0, `${'x'.repeat(100_000)}end`, missed);
    expect(output.text.endsWith('end')).toBe(true);
    expect(output.text.length).toBeLessThan(10_000);
    expect(output.length).toBe(100_003);
  });
});

describe('an answer that rests on words of others', () => {
  const base = mail[0] as Message;
  const said = (id: string, turn: string, content: string, more: Partial<Message> = {}): Message => ({ ...base, message_id: id, turn_id: turn, role: 'assistant', content, calls: [], attachments: [], label: 'untrusted:attachment', untrusted: true, ...more });
  const call = (mail[1] as Message).calls[0] as Message['calls'][number];
  const asks = (path: string): Message['calls'] => [{ ...call, call_id: 'c', tool: 'file_read', arguments: JSON.stringify({ path }) }];
  const gave = (id: string, turn: string, label: string): Message => ({ ...(mail[2] as Message), message_id: id, turn_id: turn, role: 'tool', call_id: 'c', label, untrusted: true });
  const note = (turn: string, ...attachments: string[]): Message => said(`n${turn}`, turn, 'Files', { role: 'system', attachments });
  const drawn = (messages: Message[]): (object | null)[] => transcript(messages).flatMap((each) => (each.kind === 'said' ? [each.drawn] : []));

  test('says so once, where it ends, by the name of the file', () => {
    const turn = [note('1', 'attachments/report.csv'), said('a', '1', 'I read it.', { calls: asks('attachments/report.csv') }), gave('b', '1', 'untrusted:attachment'), said('c', '1', 'Nine.')];
    expect(drawn(turn)).toEqual([null, { read: [], uploaded: ['report.csv'], given: [] }]);
  });

  test('tells what was read from what was only handed over', () => {
    const turn = [note('1', 'attachments/a.csv', 'attachments/b.csv', 'own.md'), said('a', '1', '', { calls: asks('attachments/a.csv') }), gave('b', '1', 'untrusted:attachment'), said('c', '1', 'Nine.')];
    expect(drawn(turn)).toEqual([null, { read: [], uploaded: ['a.csv'], given: ['b.csv'] }]);
    expect(drawn([note('1', 'attachments/a.csv'), said('c', '1', 'Thank you.')])).toEqual([{ read: [], uploaded: [], given: ['a.csv'] }]);
  });

  test('says so for every later answer, and names only what that answer bears', () => {
    const first = [note('1', 'attachments/a.csv'), said('a', '1', 'Thank you.')];
    const second = [said('b', '2', 'Later.', { label: 'untrusted:attachment,shop.example' }), said('c', '3', 'Own.', { label: 'internal', untrusted: false })];
    expect(drawn([...first, ...second])).toEqual([{ read: [], uploaded: [], given: ['a.csv'] }, { read: ['shop.example'], uploaded: [], given: ['a.csv'] }, null]);
  });

  test('names the source where nothing in sight explains it', () => {
    expect(drawn([said('a', '1', 'Nine.')])).toEqual([{ read: [], uploaded: ['an attachment'], given: [] }]);
    expect(drawn([said('a', '1', 'x', { label: 'untrusted:shop.example', calls: [{ ...call, call_id: 'c', arguments: '{"command": "cat x"}' }] }), gave('b', '1', 'untrusted:shop.example'), said('c', '1', 'y', { label: 'untrusted:shop.example' })])).toEqual([null, { read: ['shop.example'], uploaded: [], given: [] }]);
    expect(drawn([said('a', '1', 'x', { label: 'nobody knows' })])[0]).not.toBeNull();
  });

  test('is not said to be uploaded where somebody else had a hand in it', () => {
    const read = (path: string, label: string): (object | null)[] => drawn([said('a', '1', '', { calls: asks(path), label }), gave('b', '1', label), said('c', '1', 'Nine.', { label })]);
    expect(read('attachments/a.csv', 'untrusted:attachment,shop.example')).toEqual([null, { read: ['a.csv'], uploaded: [], given: [] }]);
    expect(read('listing.txt', 'untrusted:attachment')).toEqual([null, { read: ['listing.txt'], uploaded: [], given: [] }]);
  });

  test('keeps what its first words bore, whatever its last ones say of themselves', () => {
    const turn = [said('a', '1', 'x', { label: 'untrusted:one.example' }), said('b', '1', 'y', { label: 'untrusted:two.example' })];
    expect(drawn(turn)).toEqual([null, { read: ['one.example', 'two.example'], uploaded: [], given: [] }]);
  });
});

describe('a conversation in a list', () => {
  const [thread] = threads().map((each) => ({ ...each, waiting_approvals: 0 }));
  if (!thread) throw new Error('none');
  const came = { action_id: 'act_1', status: 'EXECUTED', refusal: null, summary: 'Write 17 bytes to todo.md.' } as const;

  test('says what came of it once that is over, and its last words before', () => {
    expect(excerptOf(thread)).toBe(thread.last?.text);
    expect(excerptOf({ ...thread, came_of_it: came })).toBe('Done: Write 17 bytes to todo.md.');
    expect(excerptOf({ ...thread, came_of_it: { ...came, status: 'FAILED' } })).toBe('Failed: Write 17 bytes to todo.md.');
  });

  test('says whose no it was', () => {
    const no = (['rejected', 'denied', 'expired'] as const).map((refusal) => excerptOf({ ...thread, came_of_it: { ...came, status: 'REJECTED', refusal } }));
    expect(no.map((each) => each.split(':')[0])).toEqual(['Rejected', 'Denied', 'Expired']);
  });

  test('says nothing of an end while something else of it waits', () => {
    expect(excerptOf({ ...thread, came_of_it: came, waiting_approvals: 1 })).toBe(thread.last?.text);
  });
});

test('the mock is offered only what it understands', () => {
  expect(ideasFor([{ default: true, kind: 'mock' }])).not.toContain('chat.idea.3');
  expect(ideasFor([{ default: false, kind: 'mock' }, { default: true, kind: 'openai' }])).toContain('chat.idea.3');
  expect(ideasFor([])).toContain('chat.idea.3');
});

describe('what a finished call left', () => {
  const call = { tool: 'file_write', arguments: '{"path":"./notes/a.md","content":"x"}', status: 'EXECUTED' as const, action_id: 'act_1' };

  test('is the file it wrote, by its name in the workspace', () => {
    expect(writtenBy(call)).toEqual({ path: 'notes/a.md' });
    expect(writtenBy({ ...call, tool: 'file_move', arguments: '{"path":"a","target":"b"}' })).toEqual({ path: 'b' });
  });

  test('is nothing while it waits, when it failed, and when it only reads', () => {
    expect(writtenBy({ ...call, status: 'PENDING' as never })).toBeNull();
    expect(writtenBy({ ...call, status: 'FAILED' as never })).toBeNull();
    expect(writtenBy({ ...call, tool: 'file_read' })).toBeNull();
  });

  test('can be taken back even where no one file is named', () => {
    expect(writtenBy({ ...call, tool: 'shell', arguments: '{"command":"make"}' })).toEqual({ path: null });
    expect(writtenBy({ ...call, arguments: '{"content":"cut off' })).toEqual({ path: null });
    expect(writtenBy({ ...call, arguments: '{"path":"/etc/hosts"}' })).toEqual({ path: null });
  });
});

describe('who answers', () => {
  const providers = [
    { name: 'big', model: 'large-1', default: true },
    { name: 'mock', model: 'mock', default: false },
  ];

  test('is offered by name and model, the default first', () => {
    expect(choices(providers, null).map((each) => each.text)).toEqual(['Default: big (large-1)', 'big (large-1)', 'mock']);
  });

  test('is still named when the configuration has lost it', () => {
    expect(choices(providers, 'old').at(-1)).toEqual({ value: 'old', text: 'old, no longer configured' });
    expect(choices([], null)).toEqual([{ value: '', text: 'Default' }]);
  });
});
