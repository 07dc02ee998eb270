import { describe, expect, test } from 'vitest';
import { ended, running } from '../src/screens/home/lately.ts';
import type { ActionSummary, Job, Overview, Thread } from '../src/api/types.ts';
import { isFirstRun, percent, refusalBars, spendOf, stepOf, toolBars, verdictBars } from '../src/screens/home/figures.ts';

const DAY = { day: '2026-03-01', completed: 0, failed: 0, cancelled: 0, open: 0, input_tokens: 10, output_tokens: 5, cost_millionths: null, unpriced_tokens: 15 };
const overview = (change: Partial<Overview>): Overview => ({ days: [DAY], verdicts: {}, risks: {}, tools: [], since: '2026-03-01', ...change }) as Overview;
const refused = (change: Partial<ActionSummary>): ActionSummary => ({ refusal: 'rejected', verdict: 'ask', code: 'AUTONOMY_ASKS', rejection_reason: 'no', created_at: '2026-03-01T10:00:00Z', ...change }) as ActionSummary;

describe('how much ran by itself', () => {
  test('is counted by what the gate said', () => {
    const { bars, all, alone } = verdictBars(overview({ verdicts: { allow: 3, deny: 1 } }));
    expect(bars.map((bar) => bar.value)).toEqual([3, 0, 1]);
    expect([all, alone]).toEqual([4, 3]);
  });

  test('is never rounded to none or all', () => {
    expect([percent(0, 0), percent(0, 9), percent(9, 9), percent(1, 1000), percent(999, 1000), percent(1, 3)]).toEqual(['0%', '0%', '100%', '1%', '99%', '33%']);
  });
});

describe('what was refused, and why', () => {
  test('tells the rules from the owner and from the clock', () => {
    const bars = refusalBars([refused({}), refused({ refusal: 'expired' }), refused({ refusal: 'denied', code: 'POLICY_RULE' }), refused({ refusal: 'denied', code: 'POLICY_RULE' })], '2026-03-01', 5);
    expect(bars.map((bar) => [bar.name, bar.value])).toEqual([
      ['A rule of a policy file', 2],
      ['Nobody answered in time', 1],
      ['You rejected it', 1],
    ]);
  });

  test('leads to the actions of that kind, and knows what was no longer needed', () => {
    const bars = refusalBars([refused({ refusal: 'withdrawn' })], '2026-03-01', 5);
    expect(bars).toMatchObject([{ name: 'Withdrawn, no longer needed', value: 1, href: '#/work/actions?refusal=withdrawn' }]);
  });

  test('shows a code nobody gave words to as it is', () => {
    expect(refusalBars([refused({ refusal: 'denied', code: 'MOON' })], '2026-03-01', 5)[0]?.name).toBe('MOON');
  });

  test('leaves out what is older than the figures', () => {
    expect(refusalBars([refused({ created_at: '2026-02-01T10:00:00Z' })], '2026-03-01', 5)).toEqual([]);
  });
});

describe('what it cost', () => {
  test('is money where a price is known, tokens otherwise', () => {
    expect(spendOf(overview({}))).toEqual({ priced: false, values: [15], total: 15 });
    expect(spendOf(overview({ days: [DAY, { ...DAY, cost_millionths: 40 }] }))).toEqual({ priced: true, values: [0, 40], total: 40 });
  });
});

test('tools lead to their actions', () => {
  const tool = { tool: 'file_write', calls: 2, executed: 2, rejected: 0, failed: 0, unknown: 0, waiting: 0 };
  expect(toolBars(overview({ tools: [tool] }), 5)[0]).toMatchObject({ name: 'file_write', value: 2, href: '#/work/actions?tool=file_write' });
});

describe('the first run', () => {
  const begin = { passkey: false, asked: false, waiting: null, done: false };

  test('goes on without a passkey: what stays here needs none', () => {
    expect(stepOf(begin)).toBe(3);
  });

  test('waits for the card once something was asked', () => {
    expect(stepOf({ ...begin, asked: true })).toBe(4);
    expect(stepOf({ ...begin, waiting: 'act_1' })).toBe(4);
    expect(stepOf({ ...begin, asked: true, done: true })).toBe(6);
  });

  test('is over as soon as something was approved', () => {
    expect(isFirstRun(0, 0)).toBe(true);
    expect(isFirstRun(1, 1)).toBe(false);
    expect(isFirstRun(0, 30)).toBe(false);
  });
});

describe('what runs and what ended', () => {
  const job = (id: string, status: string, state: string, at: string): Job => ({ job_id: id, goal: `${id}\nand more`, status, state, updated_at: at }) as Job;
  const jobs = [job('a', 'COMPLETED', 'DONE', '2026-03-01'), job('b', 'RUNNING', 'EXECUTING', '2026-03-02'), job('c', 'FAILED', 'FAILED', '2026-03-03')];

  test('a conversation that is being answered comes before jobs', () => {
    const threads = [{ thread_id: 't', title: '', running_turn_id: 'turn', waiting_turns: 0, updated_at: '' }, { thread_id: 'u', title: 'quiet', running_turn_id: null, waiting_turns: 0 }] as Thread[];
    expect(running(threads, jobs).map((each) => [each.title, each.href])).toEqual([['Untitled', '#/chat/t'], ['b', '#/work/jobs/b']]);
  });

  test('the last to end comes first', () => {
    expect(ended(jobs, 5).map((each) => each.id)).toEqual(['c', 'a']);
    expect(ended(jobs, 1)).toHaveLength(1);
  });
});
