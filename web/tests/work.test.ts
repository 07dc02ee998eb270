import { describe, expect, test } from 'vitest';
import { Client } from '../src/api/client.ts';
import { actionEndpoints } from '../src/api/endpoints_work.ts';
import { Kept } from '../src/api/kept.ts';
import type { Fresh } from '../src/api/client.ts';
import type { ActionSummary, Assertion, Job, JobEvent, Page, Story } from '../src/api/types.ts';
import { withProof } from '../src/auth/proof.ts';
import { STANDS, canRepropose, fileOf, known, queryOf, standOf, standWords, standing as actionStands, storyline, wantedOf, wantedStand } from '../src/screens/work/actions.ts';
import { altOf, pictureOf, unshown } from '../src/parts/file.ts';
import { canResume, digestOf, endedLately, evidenceOf, goalOf, isOver, progressOf, sentence, standing, timeline, viewOf } from '../src/screens/work/jobs.ts';
import { linesOf, namesOf, wholeOf } from '../src/parts/typed.ts';
import { endIcon, endOf, endTone } from '../src/text/refusal.ts';
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

test('who follows a procedure takes its steps, and the model took no turn', () => {
  const steps = [event('step', { calls: 1 }), event('step', { calls: 2 })];
  expect(timeline(steps, true).map((each) => [each.text, each.more])).toEqual([['2 steps of the procedure have ended', '3 tool calls']]);
  expect(timeline(steps).map((each) => each.text)).toEqual(['The model took 2 turns']);
});

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

  test('is titled by what the owner asked for, not by what its schedule wrote under it', () => {
    const goal = 'What time is it?\n\nNow.\n\n(what-time, asked for by hand.)';
    expect(goalOf({ goal, schedule_id: 'what-time' })).toBe('What time is it?\n\nNow.');
    expect(goalOf({ goal: 'Look.\n\n(daily, scheduled for 2026-11-16T09:00:00Z, 2 h late.)\n\nThe previous run was at today: DONE.', schedule_id: 'daily' })).toBe('Look.');
    expect(goalOf({ goal, schedule_id: null })).toBe(goal);
    expect(goalOf({ goal, schedule_id: 'other' })).toBe(goal);
  });

  test('stays in sight as it ends while it is looked at', () => {
    const done = job({ job_id: 'job_2', state: 'DONE', status: 'COMPLETED' });
    const old = job({ job_id: 'job_9', state: 'FAILED', status: 'FAILED' });
    expect(endedLately([job(), done], null, 5).map((each) => each.job_id)).toEqual(['job_2']);
    expect(endedLately([done], old, 5).map((each) => each.job_id)).toEqual(['job_2', 'job_9']);
    expect(endedLately([done], done, 5)).toHaveLength(1);
    expect(endedLately([done], job(), 5)).toHaveLength(1);
  });

  test('takes an unknown view for the open jobs', () => {
    expect(viewOf('failed')).toBe('failed');
    expect(viewOf('else')).toBe('open');
    expect(viewOf(null)).toBe('open');
  });
});

describe('how a job stands, in words', () => {
  test('tells a try that is to come from work that goes on', () => {
    expect(standing(job({ attempt: 2, next_wakeup_at: LATER }), NOW)).toBe('The last step failed. It is retried in 2 hours.');
    expect(standing(job({ working: true }), NOW)).toBe('The agent is working on it.');
    expect(standing(job(), NOW)).toBe('It continues as soon as a worker is free.');
  });

  test('says when a pause ends', () => {
    expect(standing(job({ state: 'PAUSED_BUDGET', status: 'PAUSED_BUDGET', next_wakeup_at: LATER }), NOW)).toContain('It continues automatically in 2 hours');
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
      'Created', 'Checked against the rules and planned', 'Started', 'The model took 2 turns', 'Asked you and waits', 'Continued', 'The model took 1 turn', 'Failed',
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

  test('have one word for each no, in the filter and in a sentence', () => {
    expect(STANDS.map(standWords)).toEqual(['Outcome unknown', 'Waiting for you', 'Approved, not done yet', 'Done', 'Rejected', 'Denied', 'Withdrawn', 'Expired', 'Failed']);
    for (const stand of STANDS) expect(standOf(wantedOf(new URLSearchParams(queryOf(wantedStand(stand)))))).toBe(stand);
    expect(queryOf(wantedStand(''))).toBe('');
    expect(actionStands({ status: 'REJECTED', refusal: 'rejected' })).toContain('You rejected it');
    expect(actionStands({ status: 'REJECTED', refusal: 'denied' })).toContain('The rules');
    expect(actionStands({ status: 'EXECUTED', refusal: null })).toContain('Done');
  });

  test('say in receipts too whose no it was, and nothing where that is not on record', () => {
    expect(endOf({ status: 'denied', code: 'OWNER_REFUSED' })).toBe('Rejected');
    expect(endOf({ status: 'denied', code: 'WITHDRAWN' })).toBe('Withdrawn');
    expect(endOf({ status: 'denied', code: 'TOOL_UNKNOWN' })).toBe('Denied');
    expect(endOf({ status: 'denied' })).toBe('Not done');
    expect(endOf({ status: 'allowed', code: 'APPROVED' })).toBe('Done');
    expect([endTone({ status: 'denied', code: 'TOOL_UNKNOWN' }), endTone({ status: 'denied', code: 'EXPIRED' })]).toEqual(['bad', 'plain']);
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
    expect(facts[0]).toBe('It was started once.');
    expect(facts).toContain('CoilClaw stopped before its outcome was seen.');
    expect(facts).toContain('An earlier attempt may have taken effect.');
    expect(known(action, null, NOW)).toEqual(['It was started once.']);
  });

  test('have a story in words, with who and what', () => {
    const told = storyline([{ seq: 1, entry_id: 'x', event_type: 'tool_resolved', entity_id: 'act_1', payload: { verdict: 'not-executed', by: 'device:dev_1' }, created_at: LATER }]);
    expect(told[0]).toMatchObject({ text: 'You said how it ended', more: 'It did not happen · on a paired device' });
    const asked = storyline([{ seq: 1, entry_id: 'x', event_type: 'tool_requested', entity_id: 'act_1', payload: { verdict: 'ask', code: 'AUTONOMY_ASKS' }, created_at: LATER }]);
    expect(asked[0]?.more).toBe('Asked you');
    expect(whoSaid('terminal')).toBe('at the terminal');
  });

  test('what has no words of its own in a story is told as the ledger tells it', () => {
    const told = storyline([{ seq: 1, entry_id: 'x', event_type: 'owner_proved', entity_id: 'act_1', payload: {}, created_at: LATER }]);
    expect(told[0]?.text).toBe('You confirmed your identity');
  });

  test('moments in a sentence of the runtime are told by the clock on the wall', () => {
    const told = sentence("the day's 500 tokens are used up; it goes on at 2026-11-17T00:00:00.000Z.");
    expect(told).toMatch(/^The day's 500 tokens are used up; it goes on at 1[67] Nov, \d\d:\d\d\.$/);
    expect(sentence('at 2026-99-99T00:00:00Z')).toBe('At 2026-99-99T00:00:00Z');
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

test('the file that an action wrote can be shown once it is written', () => {
  const wrote = { action: { tool: 'file_write', status: 'EXECUTED' as const }, args: { path: 'a.md', content: 'x' } };
  expect(fileOf(wrote)).toBe('a.md');
  expect(fileOf({ ...wrote, action: { tool: 'file_write', status: 'PENDING' } })).toBeNull();
  expect(fileOf({ ...wrote, action: { tool: 'shell', status: 'EXECUTED' } })).toBeNull();
  for (const args of [null, [], 'x', {}, { path: 3 }]) expect(fileOf({ ...wrote, args })).toBeNull();
});

describe('a file', () => {
  const png = { kind: 'png', image: 'iVBORw0KGgo=', size: 2048 } as const;

  test('that is a picture is shown by an address that holds all of it', () => {
    expect(pictureOf(png)).toBe('data:image/png;base64,iVBORw0KGgo=');
    expect((['jpeg', 'gif', 'webp'] as const).map((kind) => pictureOf({ ...png, kind })?.slice(0, 16))).toEqual(['data:image/jpeg;', 'data:image/gif;b', 'data:image/webp;']);
    expect(unshown(png)).toBeNull();
  });

  test('is never drawn unless it is one of four kinds, whatever it brings along', () => {
    for (const kind of ['text', 'pdf', 'zip', 'other', 'svg+xml'] as const) expect(pictureOf({ kind: kind as 'text', image: png.image })).toBeNull();
    for (const image of ['', '<svg/>', 'a b', 'x\n', 'x,<script>']) expect(pictureOf({ kind: 'png', image })).toBeNull();
  });

  test('of which nothing is shown says why', () => {
    expect((['pdf', 'zip', 'other', 'text'] as const).map((kind) => unshown({ kind, image: '', size: 1 }))).toEqual(['nottext', 'nottext', 'nottext', null]);
    expect(unshown({ ...png, image: '' })).toBe('picture');
  });

  test('is told to who does not see it by its name and size', () => {
    expect(altOf({ path: 'attachments/a.png', size: 2048 })).toBe('a.png, 2.0 kB');
  });

  test('has the hash it had when the job ended, where the manifest names it', () => {
    const manifest = { files: [{ path: 'a.png', sha256: 'ab'.repeat(32) }, { path: 'gone.md', sha256: '' }] };
    expect([digestOf(manifest, 'a.png'), digestOf(manifest, 'gone.md'), digestOf(manifest, 'b'), digestOf(null, 'a.png'), digestOf(manifest, null)]).toEqual(['ab'.repeat(32), null, null, null, null]);
  });
});

test('how far a job has come is told in steps only where there are several', () => {
  expect(progressOf({ done: 0, of: 1, calls: 1 })).toBe('1 tool call');
  expect(progressOf({ done: 1, of: 2, calls: 0 })).toBe('1 of 2 steps done · 0 tool calls');
});

test('an end on record bears the sign that its action bears', () => {
  expect(['allowed', 'denied', 'failed', 'unknown', 'odd'].map((status) => endIcon({ status }))).toEqual(['check', 'close', 'warn', 'warn', 'warn']);
});
