import { describe, expect, it } from 'vitest';
import type { AlertView, QuestView, TrendPoint } from '../src/api/types.ts';
import { barsOf, gravest, openFirst, placeOf, runWords } from '../src/screens/work/patrols.ts';

const run = { passed: 0, failed: 0, skipped: 0, findings: 0, state: 'passed' as const, reason: '' };
const point = (state: TrendPoint['state'], findings: number): TrendPoint => ({ state, findings, failed: 0, at: '2026-11-18T00:00:00Z' });

describe('a patrol in words', () => {
  it('counts tests, and findings that are not among them', () => {
    expect(runWords({ ...run, passed: 2, failed: 1, findings: 1 })).toBe('2 passed, 1 failed, 0 skipped');
    expect(runWords({ ...run, passed: 2, findings: 3 })).toBe('2 passed, 0 failed, 0 skipped, 3 findings');
    expect(runWords({ ...run, findings: 1 })).toBe('1 finding');
  });

  it('says why it could not run instead of counting nothing', () => {
    expect(runWords({ ...run, state: 'not_audited', reason: 'The registry refused.' })).toBe('The registry refused.');
  });

  it('draws what found most highest, and nothing as nothing at all', () => {
    const bars = barsOf([point('failed', 4), point('failed', 2), point('passed', 0)]);
    expect(bars.map((each) => each.tone)).toEqual(['bad', 'bad', 'good']);
    expect(bars.map((each) => Math.round(each.share * 100))).toEqual([100, 65, 30]);
    expect(barsOf([])).toEqual([]);
  });
});

describe('alerts and quests', () => {
  const alert = (severity: AlertView['severity'], last_seen: string): AlertView => ({ severity, last_seen }) as AlertView;
  const quest = (state: QuestView['state'], updated_at: string): QuestView => ({ state, updated_at }) as QuestView;

  it('come with the worst first, and the newest of the same', () => {
    expect(gravest([alert('info', '3'), alert('error', '1'), alert('critical', '0'), alert('error', '2')]).map((each) => each.severity + each.last_seen)).toEqual(['critical0', 'error2', 'error1', 'info3']);
  });

  it('come with those that somebody works on first, and without dropped ones', () => {
    expect(openFirst([quest('done', '9'), quest('dropped', '9'), quest('offered', '1'), quest('taken', '1'), quest('in_review', '1')]).map((each) => each.state)).toEqual(['in_review', 'taken', 'offered', 'done']);
  });

  it('point to a place only if there is one', () => {
    expect(placeOf({ evidence: { path: 'a.py', line: 7 } })).toBe('a.py:7');
    expect(placeOf({ evidence: { path: 'a.py', line: 0 } })).toBe('a.py');
    expect(placeOf({ evidence: { line: 3 } })).toBe('');
  });
});
