import { describe, expect, test } from 'vitest';
import type { AuditLine, GuestToolView, GuestView } from '../src/api/types.ts';
import { guestOf } from '../src/screens/chat/transcript.ts';
import { canApprove, choicesOf, classesOf, logOf, partsOf, piecesOf, questionOf, saysOf, toolsOf } from '../src/screens/settings/guests.ts';
import { gistOf, placeOf, titleOf } from '../src/text/events.ts';

function tool(original: string, change: Partial<GuestToolView> = {}): GuestToolView {
  return { name: `notes.${original}`, original, description: 'Does it.', claims: 'nothing', kind: null, withheld: '', ...change };
}

function guest(change: Partial<GuestView> = {}): GuestView {
  return {
    name: 'notes', kind: 'stdio', state: 'approved', version: '1', may: [], tools: [tool('add', { kind: 'reads' }), tool('keep')], refused: [], fault: '',
    approved_at: '2026-11-16T09:00:00Z', counts_as: 'writes', offer: 'a'.repeat(64), difference: '', ...change,
  };
}

describe('a guest', () => {
  test('says what its state means', () => {
    expect(saysOf(guest({ state: 'new', offer: '' }))).toContain('Nobody has looked at it yet');
    expect(saysOf(guest({ state: 'changed' }))).toContain('withheld');
    expect(saysOf(guest({ state: 'changed', kind: 'plugin' }))).toContain('the copy you approved');
  });

  test('counts what can be called, and what is withheld', () => {
    const tools = [tool('add', { kind: 'reads' }), tool('keep', { kind: 'writes', withheld: 'it differs' }), tool('other')];
    expect(toolsOf(guest({ tools }))).toEqual({ open: 1, held: 1 });
    expect(toolsOf(guest({ tools, state: 'off' }))).toEqual({ open: 0, held: 0 });
  });

  test('is where its events lead, whatever it is called', () => {
    expect(placeOf({ event_type: 'guest_started', entity_id: 'job_1', payload: {} })).toBe('#/settings/guests/job_1');
    expect(placeOf({ event_type: 'guest_removed', entity_id: 'notes', payload: {} })).toBe('#/settings/guests');
  });

  test('has a log of its own, though another thing is called the same', () => {
    const line = (event_type: string, payload: AuditLine['payload']): AuditLine => ({ about: '', created_at: '2026-11-16T09:00:00Z', entity_id: 'notes', entry_id: 'e1', event_type, payload, seq: 1 });
    const ended = line('guest_ended', { why: 'it was idle' });
    expect(logOf([ended, line('schedule_run', {})])).toEqual([ended]);
    expect(`${titleOf(ended)}: ${gistOf(ended)}`).toBe('Guest ended: it was idle');
  });

  test('is named by its tools', () => {
    expect(['notes.add', 'file_read'].map(guestOf)).toEqual(['notes', null]);
  });
});

describe('the words of the owner', () => {
  test('are those chosen here, then those approved; a new guest counts as the most it could do, a new tool as nothing', () => {
    expect(choicesOf(guest(), {})).toEqual({ add: 'reads', keep: 'none' });
    expect(choicesOf(guest(), { keep: 'sends' })).toEqual({ add: 'reads', keep: 'sends' });
    const fresh = guest({ approved_at: null, counts_as: 'sends', tools: [tool('add'), tool('keep')] });
    expect(choicesOf(fresh, { add: 'none' })).toEqual({ add: 'none', keep: 'sends' });
  });

  test('leave out what is not let in', () => {
    expect(classesOf({ add: 'reads', keep: 'none' })).toEqual({ add: 'reads' });
  });

  test('are approved when they, or the guest, differ from what is in force', () => {
    const same = choicesOf(guest(), {});
    expect(canApprove(guest(), same)).toBe(false);
    expect(canApprove(guest(), { ...same, add: 'writes' })).toBe(true);
    expect(canApprove(guest({ state: 'off' }), same)).toBe(true);
    expect(canApprove(guest({ difference: 'Tools (1):' }), same)).toBe(true);
    expect(canApprove(guest({ state: 'new', offer: '' }), same)).toBe(false);
  });

  test('wait in the question that names this guest, and no other', () => {
    const card = (action_id: string, tool_name: string, args: string) => ({ action_id, tool_name, args });
    const pending = [card('1', 'file_write', '{"name":"notes"}'), card('2', 'guest_approve', '{"name":"other"}'), card('3', 'guest_look', 'no JSON'), card('4', 'guest_approve', '{"name":"notes"}')];
    expect(questionOf(pending, 'notes')).toBe('4');
    expect(questionOf(pending, 'sum')).toBeNull();
    expect(questionOf([{ action_id: '5', tool_name: 'guest_sign_in', args: '{"name":"sum"}' }], 'sum')).toBe('5');
  });
});

describe('the difference', () => {
  test('is what changed, and then all that an approval covers', () => {
    const text = 'What changed since you approved it ([-gone-], {+new+}):\n    says: [-a-] {+b+}\n\nIt has no network.\nTools (1):';
    expect(partsOf(text, true)).toEqual({ changed: text.split('\n\n')[0], covers: 'It has no network.\nTools (1):' });
    expect(partsOf('It has no network.', false)).toEqual({ changed: '', covers: 'It has no network.' });
  });

  test('keeps every character, and tells what went from what came', () => {
    const text = 'says: Adds [-one.-] {+two, [a-z] or {x}.+} end';
    const pieces = piecesOf(text);
    expect(pieces.map((piece) => piece.text).join('')).toBe(text);
    expect(pieces.filter((piece) => piece.kind !== 'same')).toEqual([{ text: '[-one.-]', kind: 'gone' }, { text: '{+two, [a-z] or {x}.+}', kind: 'came' }]);
  });
});
