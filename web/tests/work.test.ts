import { describe, expect, test } from 'vitest';
import { Client } from '../src/api/client.ts';
import { actionEndpoints } from '../src/api/endpoints_work.ts';
import { Kept } from '../src/api/kept.ts';
import type { Fresh } from '../src/api/client.ts';
import type { ActionSummary, Assertion, Job, JobEvent, Page, Story } from '../src/api/types.ts';
import { withProof } from '../src/auth/proof.ts';
import { canRepropose, isDenied, known, queryOf, storyline, wantedOf } from '../src/screens/work/actions.ts';
import { canResume, evidenceOf, isOver, standing, timeline, viewOf } from '../src/screens/work/jobs.ts';
import { linesOf, namesOf, wholeOf } from '../src/parts/typed.ts';
import { whoSaid } from '../src/text/who.ts';
import { firstOf } from '../src/state/pages.ts';

const NOW = Date.parse('2026-11-16T10:00:00Z');
const LATER = '2026-11-16T12:00:00Z';

function job(change: Partial<Job> = {}): Job {
  return {
    job_id: 'job_1', thread_id: 'conv_1', goal: 'g', state: 'EXECUTING', status: 'RUNNING', reason: '', attempt: 0, next_wakeup_at: null,
    deadline_at: null, working: false, sop: null, schedule_id: null, progress: { done: 0, of: 1, calls: 0 }, waiting: [],
    created_at: '2026-11-16T09:00:00Z', updated_at: '2026-11-16T09:00:00Z', ...change,
  };
}

let events = 0;
function event(type: string, payload: JobEvent['payload'] = {}): JobEvent {
  return { event_id: `e${events++}`, type, payload, created_at: '2026-11-16T09:00:00Z' };
}

describe('what may be done with a job', () => {
  test('lets the owner send on what rests until a time to come', () => {
    expect(canResume(job({ state: 'PAUSED_BUDGET', status: 'PAUSED_BUDGET', next_wakeup_at: LATER }), NOW)).toBe(true);
    expect(canResume(job({ attempt: 1, next_wakeup_at: LATER }), NOW)).toBe(true);
  });

  test('does not offer it where an answer is awaited, work goes on, or it is over', () => {
    expect(canResume(job({ state: 'WAITING_APPROVAL', next_wakeup_at: LATER }), NOW)).toBe(false);
    expect(canResume(job({ working: true, next_wakeup_at: LATER }), NOW)).toBe(false);
    expect(canResume(job({ next_wakeup_at: '2026-11-16T09:59:00Z' }), NOW)).toBe(false);
    expect(canResume(job({ state: 'DONE', next_wakeup_at: LATER }), NOW)).toBe(false);
    expect(canResume(job(), NOW)).toBe(false);
  });

  test('knows every state that a job never leaves', () => {
    for (const state of ['DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT'] as const) expect(isOver({ state })).toBe(true);
    for (const state of ['RECEIVED', 'EXECUTING', 'WAITING_APPROVAL', 'PAUSED_BUDGET'] as const) expect(isOver({ state })).toBe(false);
  });

  test('takes an unknown view for the open jobs', () => {
    expect(viewOf('failed')).toBe('failed');
    expect(viewOf('else')).toBe('open');
    expect(viewOf(null)).toBe('open');
  });
});

describe('how a job stands, in words', () => {
  test('tells a try that is to come from work that goes on', () => {
    expect(standing(job({ attempt: 2, next_wakeup_at: LATER }), NOW)).toBe('The last step failed. It is tried again in 2 hours.');
    expect(standing(job({ working: true }), NOW)).toBe('The agent is working on it.');
    expect(standing(job(), NOW)).toBe('It goes on as soon as a worker is free.');
  });

  test('says when a pause ends', () => {
    expect(standing(job({ state: 'PAUSED_BUDGET', status: 'PAUSED_BUDGET', next_wakeup_at: LATER }), NOW)).toContain('It goes on by itself in 2 hours');
  });
});

describe('the timeline of a job', () => {
  test('leaves out what only the machine cares about, and makes steps in a row one line', () => {
    const told = timeline([
      event('created'),
      event('state', { from: 'RECEIVED', to: 'PARSED' }),
      event('state', { from: 'PARSED', to: 'POLICY_CHECKED' }),
      event('state', { from: 'POLICY_CHECKED', to: 'PLANNED' }),
      event('state', { from: 'PLANNED', to: 'EXECUTING' }),
      event('step', { step: 0, calls: 2 }),
      event('step', { step: 1, calls: 1 }),
      event('state', { from: 'EXECUTING', to: 'WAITING_APPROVAL', reason: 'It waits for act_1.' }),
      event('state', { from: 'WAITING_APPROVAL', to: 'EXECUTING' }),
      event('step', { step: 2, calls: 0 }),
      event('state', { from: 'EXECUTING', to: 'FAILED', reason: 'evidence missing: report.' }),
    ]);
    expect(told.map((line) => line.text)).toEqual([
      'Handed in', 'Checked against the rules and planned', 'Started', 'The model took 2 turns', 'Asked you and waits', 'Went on', 'The model took 1 turn', 'Failed',
    ]);
    expect(told[3]?.more).toBe('3 tool calls');
    expect(told.at(-1)).toMatchObject({ more: 'Evidence missing: report.', tone: 'bad' });
  });

  test('shows an event of a kind it does not know by its name', () => {
    expect(timeline([event('teleported')])[0]?.text).toBe('teleported');
  });
});

describe('the evidence of a job', () => {
  test('is read as far as it is what we know', () => {
    const evidence = evidenceOf({ manifest_hash: 'ab', receipts: [{ id: 'r1', tool: 'time', status: 'allowed' }, 7], files: 'none', messages: 3 });
    expect(evidence).toMatchObject({ hash: 'ab', messages: 3, files: [], receipts: [{ id: 'r1', tool: 'time', status: 'allowed' }] });
  });
});

describe('what is typed into the forms', () => {
  test('becomes lists without gaps and numbers that are numbers', () => {
    expect(linesOf(' a \n\n b')).toEqual(['a', 'b']);
    expect(namesOf('file_read, file_write\nfile_read')).toEqual(['file_read', 'file_write']);
    expect(wholeOf(' 12 ')).toBe(12);
    expect(wholeOf('')).toBeNull();
    expect(wholeOf('-3')).toBeNaN();
    expect(wholeOf('many')).toBeNaN();
  });
});

const action = { action_id: 'act_1', status: 'UNKNOWN', verdict: 'ask', code: 'AUTONOMY_ASKS', attempt: 1, uncertain: false } as ActionSummary;

describe('actions', () => {
  test('keep their filter in the address, and nothing that makes no sense', () => {
    const query = new URLSearchParams('status=FAILED&lane=Z&tool=shell&q=');
    expect(wantedOf(query)).toEqual({ status: 'FAILED', tool: 'shell' });
    expect(queryOf({ status: 'FAILED', tool: 'shell', lane: '' })).toBe('?status=FAILED&tool=shell');
    expect(queryOf({})).toBe('');
    expect(wantedOf(new URLSearchParams(queryOf({ q: 'a&b=c' })))).toEqual({ q: 'a&b=c' });
  });

  test('tell a no of the policy from a no of the owner', () => {
    expect(isDenied({ status: 'REJECTED', verdict: 'deny' })).toBe(true);
    expect(isDenied({ status: 'REJECTED', verdict: 'ask' })).toBe(false);
  });

  test('are proposed again only when refused or failed, and whole', () => {
    expect(canRepropose({ status: 'REJECTED', code: 'X' })).toBe(true);
    expect(canRepropose({ status: 'FAILED', code: 'X' })).toBe(true);
    expect(canRepropose({ status: 'UNKNOWN', code: 'X' })).toBe(false);
    expect(canRepropose({ status: 'REJECTED', code: 'SECRET_NOT_GRANTED' })).toBe(false);
  });

  test('of unknown end tell what is on record and guess nothing', () => {
    const attempts = [{ number: 1, begun_at: '2026-11-16T09:00:00Z', worker: null, looked_up: false, ended_at: null, end: null, code: null, receipt_id: null, next_in_seconds: null }];
    const facts = known({ ...action, uncertain: true }, { attempts } as unknown as Story, NOW);
    expect(facts[0]).toBe('It was begun once.');
    expect(facts).toContain('CoilClaw stopped before its end was seen.');
    expect(facts).toContain('An earlier try may have had its effect.');
    expect(known(action, null, NOW)).toEqual(['It was begun once.']);
  });

  test('have a story in words, with who and what', () => {
    const told = storyline([{ seq: 1, entry_id: 'x', event_type: 'tool_resolved', entity_id: 'act_1', payload: { verdict: 'not-executed', by: 'device:dev_1' }, created_at: LATER }]);
    expect(told[0]).toMatchObject({ text: 'You said how it ended', more: 'It did not happen · on a paired device' });
    const asked = storyline([{ seq: 1, entry_id: 'x', event_type: 'tool_requested', entity_id: 'act_1', payload: { verdict: 'ask', code: 'AUTONOMY_ASKS' }, created_at: LATER }]);
    expect(asked[0]?.more).toBe('Asked you · AUTONOMY_ASKS');
    expect(whoSaid('terminal')).toBe('at the terminal');
  });
});

test('what a passkey signs to resolve an action names the verdict that is sent', async () => {
  const sent: { path: string; body: unknown }[] = [];
  const fetch = (path: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    sent.push({ path: String(path), body: JSON.parse(String(init?.body)) });
    return Promise.resolve(Response.json({ challenge_id: 'ch_1' }));
  };
  const nothing = (): void => undefined;
  const client = new Client({ fetch, kept: new Kept(undefined), now: () => NOW, newKey: () => 'k', sleep: () => Promise.resolve(), hooks: { unpaired: nothing, unconfirmed: nothing, reached: nothing, skew: nothing } });
  const actions = actionEndpoints(client);
  const question = { purpose: 'resolve', subject: 'act_1', expected: true } as const;
  const sign = (): Promise<Assertion> => Promise.resolve({ challenge_id: 'ch_1' } as Assertion);
  await withProof({ challenge: () => actions.question('act_1', 'executed') }, sign, question, (proof) => actions.resolve('act_1', 'executed', proof));
  expect(sent).toEqual([
    { path: '/v1/passkeys/challenge', body: { purpose: 'resolve', subject: 'act_1', verdict: 'executed' } },
    { path: '/v1/actions/act_1/resolve', body: { verdict: 'executed', proof: { challenge_id: 'ch_1' } } },
  ]);
});

describe('a list that grows by pages', () => {
  const pages: Record<string, Fresh<Page<number>>> = {
    '': { data: { items: [1, 2], next_cursor: 'b' }, staleSince: null },
    b: { data: { items: [], next_cursor: 'c' }, staleSince: 5 },
    c: { data: { items: [3], next_cursor: 'd' }, staleSince: null },
  };
  const load = (cursor: string | null): Promise<Fresh<Page<number>>> => {
    const page = pages[cursor ?? ''];
    return page ? Promise.resolve(page) : Promise.reject(new Error('gone'));
  };

  test('goes on over a short page until there is enough', async () => {
    expect(await firstOf(load, 3)).toEqual({ data: { items: [1, 2, 3], next_cursor: 'd' }, staleSince: 5 });
    expect((await firstOf(load, 2)).data).toEqual({ items: [1, 2], next_cursor: 'b' });
  });

  test('keeps what was read when a later page fails, and fails when the first does', async () => {
    expect((await firstOf(load, 9)).data.items).toEqual([1, 2, 3]);
    await expect(firstOf(() => Promise.reject(new Error('gone')), 1)).rejects.toThrow('gone');
  });
});
