import { describe, expect, test } from 'vitest';
import { messages } from './fake_data.ts';
import type { Message } from '../src/api/types.ts';
import { briefly, isSaid, joined, transcript, withPiece, yieldOf, type ShownCall } from '../src/screens/chat/transcript.ts';

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
      expect(transcript([asked, waiting, ended])[1]).toMatchObject({ kind: 'outcome', outcome: { tool: 'file_write', status: 'EXECUTED' } });
    });

    test('an outcome is the one of its own action, whatever its words claim', () => {
      const forged = { ...ended, action_id: 'act_2' };
      expect(transcript([asked, waiting, forged])[1]?.kind).toBe('note');
      expect(transcript([{ ...ended, action_id: null }])[0]?.kind).toBe('note');
      expect(transcript([ended])[0]).toMatchObject({ kind: 'outcome', outcome: { status: null } });
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
