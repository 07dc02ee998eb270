import { describe, expect, test } from 'vitest';
import type { AuditLine } from '../src/api/types.ts';
import { ANYTHING, GROUPS, TYPES, byDay, factsOf, filterOf, gistOf, isCalm, placeOf, queryOf, titleOf, wantedOf, wordsOf } from '../src/text/events.ts';
import { en } from '../src/text/en.ts';

const NOW = Date.parse('2026-03-02T12:00:00Z');

function event(change: Partial<AuditLine>): AuditLine {
  return { seq: 1, entry_id: 'evt_1', event_type: 'tool_requested', entity_id: 'act_1', payload: {}, created_at: '2026-03-02T11:00:00Z', about: '', ...change };
}

describe('the words of an event', () => {
  test('every type the filter offers has words of its own', () => {
    const missing = GROUPS.flatMap((group) => TYPES[group]).filter((type) => !(`audit.event.${type}` in en));
    expect(missing).toEqual([]);
  });

  test('a step of a procedure is told by its name and its end, and what it waits for not by an id', () => {
    expect(gistOf(event({ event_type: 'sop_step', entity_id: 'sop_1', about: 'weekly', payload: { step: 'look', state: 'SUCCEEDED', code: '' } }))).toBe('weekly · look: Done');
    expect(gistOf(event({ event_type: 'sop_state', entity_id: 'sop_1', about: 'weekly', payload: { state: 'WAITING', reason: 'Step ask waits for your answer (act_1m7j1f940bktqg8).' } }))).toBe('weekly · Step ask waits for your answer.');
  });

  test('a type nobody gave words to is shown readably', () => {
    expect(wordsOf('moon_phase_changed')).toBe('Moon phase changed');
  });

  test('the gist names the tool, the verdict and the code, each once', () => {
    expect(gistOf(event({ payload: { tool: 'shell', verdict: 'deny', code: 'COMMAND_FORBIDDEN', reason: 'COMMAND_FORBIDDEN' } }))).toBe('shell · Denied · A forbidden command');
  });

  test('the gist says what it is about, and leaves out codes that say nothing more', () => {
    expect(gistOf(event({ about: 'Write 6 bytes to a.md.', payload: { tool: 'file_write', code: 'APPROVED' } }))).toBe('Write 6 bytes to a.md.');
    expect(gistOf(event({ event_type: 'schedule_added', entity_id: 'daily', payload: {} }))).toBe('daily');
  });

  test('a no is told by whose it was, a job by where it went, a message by whose words it holds', () => {
    expect(titleOf(event({ event_type: 'tool_denied', payload: { code: 'OWNER_REFUSED' } }))).toBe('Action rejected');
    expect(titleOf(event({ event_type: 'tool_denied', payload: { code: 'WITHDRAWN' } }))).toBe('Action withdrawn');
    expect(titleOf(event({ event_type: 'tool_denied', payload: { code: 'ESTOP' } }))).toBe('Action denied');
    expect(titleOf(event({ event_type: 'job_state', payload: { to: 'DONE' } }))).toBe('Job done');
    expect(titleOf(event({ event_type: 'job_state', payload: { to: 'LOST' } }))).toBe('State of a job');
    expect(titleOf(event({ event_type: 'message_added', payload: { role: 'user' } }))).toBe('Message from you');
  });

  test('a payload that is no object has no gist and no facts', () => {
    expect(gistOf(event({ payload: [1, 2] }))).toBe('');
    expect(factsOf('text')).toEqual([]);
  });

  test('facts leave out what says nothing', () => {
    expect(factsOf({ job_id: null, code: '', args_hash: 'ab', tries: 2 })).toEqual([
      { name: 'args hash', value: 'ab' },
      { name: 'tries', value: '2' },
    ]);
  });
});

describe('where an event leads', () => {
  test.each([
    [{ entity_id: 'act_1' }, '#/audit/story/act_1'],
    [{ entity_id: 'job_1', event_type: 'job_state' }, '#/work/jobs/job_1'],
    [{ entity_id: 'conv_1', event_type: 'message_added' }, '#/chat/conv_1'],
    [{ entity_id: 'turn_1', event_type: 'turn_ended', payload: { thread_id: 'conv_9' } }, '#/chat/conv_9'],
    [{ entity_id: 'daily', event_type: 'schedule_run' }, '#/schedules/daily'],
    [{ entity_id: 'estop', event_type: 'estop_engaged' }, '#/settings/estop'],
  ])('%j leads to %s', (change, place) => {
    expect(placeOf(event(change))).toBe(place);
  });

  test('what is gone leads nowhere', () => {
    expect(placeOf(event({ entity_id: 'conv_1', event_type: 'thread_deleted' }))).toBeNull();
    expect(placeOf(event({ entity_id: 'daily', event_type: 'schedule_removed' }))).toBeNull();
  });
});

describe('the filter', () => {
  test('survives the address', () => {
    const filter = { ...ANYTHING, type: 'tool_denied', entity: 'act_1', range: 'span' as const, from: '2026-03-01T08:00', to: '2026-03-02T08:00', all: true };
    expect(filterOf(new URLSearchParams(queryOf(filter)))).toEqual(filter);
  });

  test('that asks for nothing leaves no trace in the address', () => {
    expect(queryOf(ANYTHING)).toBe('');
  });

  test('what makes no sense in an address is left out', () => {
    expect(filterOf(new URLSearchParams('range=forever&from=x'))).toMatchObject({ range: 'any' });
  });

  test('a range ends now', () => {
    expect(wantedOf({ ...ANYTHING, range: 'day' }, NOW)).toEqual({ since: '2026-03-01T12:00:00.000Z', quiet: true });
  });

  test('a span without a readable beginning has none', () => {
    expect(wantedOf({ ...ANYTHING, range: 'span', from: 'nonsense' }, NOW)).toEqual({ quiet: true });
  });

  test('leaves out messages, turns and notifications unless somebody asks for them, for a type or for one thing', () => {
    expect(isCalm(ANYTHING)).toBe(true);
    expect(wantedOf({ ...ANYTHING, all: true }, NOW)).toEqual({});
    expect(isCalm({ ...ANYTHING, type: 'message_added' })).toBe(false);
    expect(isCalm({ ...ANYTHING, entity: 'conv_1' })).toBe(false);
  });
});

test('events stand under their days in the order they came', () => {
  const days = byDay([event({ seq: 3 }), event({ seq: 2, created_at: '2026-03-01T12:00:00Z' }), event({ seq: 1, created_at: '2026-02-01T12:00:00Z' })], NOW);
  expect(days.map((day) => day.events.map((each) => each.seq))).toEqual([[3], [2], [1]]);
  expect(days[0]?.name).toBe('Today');
  expect(days[1]?.name).toBe('Yesterday');
});
