import { describe, expect, test } from 'vitest';
import type { SopRun, SopRunStep } from '../src/api/types.ts';
import { conditionOf, failureOf, isOver, placeOf, sorted, standOf, stepTone, stepWhy, stepWords, stepsOver, unknownStep } from '../src/screens/work/runs.ts';
import { placeOf as whereIs } from '../src/text/events.ts';

const QUESTION: SopRun['waiting'][number] = { action_id: 'act_1', tool: 'approval', summary: 'Go on?', lane: 'A', risk: 'R1', expires_at: '2026-11-16T12:00:00Z' };

function run(change: Partial<SopRun> = {}): SopRun {
  return {
    run_id: 'sop_1', name: 'weekly', state: 'WAITING', working: false, answered: false, reason: '', step: 2, of: 3, step_id: 'ask', waiting: [],
    job_id: null, thread_id: 'conv_1', created_at: '2026-11-16T09:00:00Z', updated_at: '2026-11-16T09:00:00Z', ...change,
  };
}

function step(change: Partial<SopRunStep> = {}): SopRunStep {
  return {
    id: 'look', kind: 'tool', tool: 'file_list', prompt: '', when: '', state: 'TO_DO', code: '', tries: 0, action_id: null, action_status: null,
    output: '', cut: false, artifact_id: null, label: 'internal', started_at: null, ended_at: null, ...change,
  };
}

describe('a run of a procedure', () => {
  test('stands as people tell it apart', () => {
    expect(standOf(run({ waiting: [QUESTION] }))).toBe('asks');
    expect(standOf(run({ answered: true }))).toBe('answered');
    expect(standOf(run())).toBe('waits');
    expect(standOf(run({ state: 'RUNNING', working: true }))).toBe('running');
    expect(standOf(run({ state: 'RUNNING' }))).toBe('cut');
    expect(standOf(run({ state: 'DONE' }))).toBe('done');
    expect(standOf(run({ state: 'FAILED', reason: 'Step ask failed (FILE_ERROR).' }))).toBe('failed');
    expect(standOf(run({ state: 'FAILED', reason: 'Step ask failed (OWNER_REFUSED).' }))).toBe('refused');
  });

  test('says at which step it stands, or failed, and nothing once it is done', () => {
    expect(placeOf(run())).toBe('Step 2 of 3 · ask');
    expect(placeOf(run({ state: 'FAILED' }))).toBe('Step 2 of 3 · ask');
    expect(placeOf(run({ state: 'DONE', step: 3 }))).toBe('');
  });

  test('comes before those that are over', () => {
    const runs = [run({ run_id: 'a', state: 'DONE' }), run({ run_id: 'b' }), run({ run_id: 'c', state: 'FAILED' }), run({ run_id: 'd', state: 'RUNNING' })];
    const { open, over } = sorted(runs);
    expect([open.map((each) => each.run_id), over.map((each) => each.run_id)]).toEqual([['b', 'd'], ['a', 'c']]);
    expect(runs.map(isOver)).toEqual([true, false, true, false]);
  });

  test('counts the steps that are over, whatever their end', () => {
    const steps = (['SUCCEEDED', 'FAILED', 'SKIPPED', 'HELD', 'WAITING', 'TO_DO'] as const).map((state) => step({ state }));
    expect(stepsOver({ steps })).toBe(3);
  });

  test('names the step whose call has no known end', () => {
    const lost = step({ id: 'send', state: 'WAITING', action_id: 'act_2', action_status: 'UNKNOWN' });
    expect(unknownStep({ steps: [step(), lost] })?.id).toBe('send');
    expect(unknownStep({ steps: [step({ state: 'WAITING', action_status: 'PENDING' })] })).toBeNull();
  });

  test('says why it failed in words, not in codes', () => {
    expect(failureOf({ steps: [step({ state: 'FAILED', code: 'FILE_ERROR' })], step_id: 'look', reason: 'Step look failed (FILE_ERROR).' })).toBe('Step look failed: A file could not be used.');
    expect(failureOf({ steps: [step({ state: 'SUCCEEDED' })], step_id: 'look', reason: 'Its job was called off.' })).toBe('Its job was called off.');
  });

  test('is where the audit leads', () => {
    expect(whereIs({ event_type: 'sop_started', entity_id: 'sop_1', payload: {} })).toBe('#/work/procedures/sop_1');
  });
});

describe('a step of a run', () => {
  test('says why where its state does not', () => {
    expect(stepWhy({ state: 'FAILED', code: 'ESTOP' })).toBe('Everything was stopped');
    expect(stepWhy({ state: 'WAITING', code: 'APPROVAL_NEEDED' })).toBe('');
  });

  test('has a tone once it was begun', () => {
    expect((['TO_DO', 'SKIPPED', 'WAITING', 'FAILED'] as const).map((state) => stepTone({ state, code: '' }))).toEqual(['plain', 'plain', 'warn', 'bad']);
  });

  test('that the owner refused has not failed, and what comes after the end was not begun', () => {
    const refused = { state: 'FAILED', code: 'OWNER_REFUSED' } as const;
    expect([stepWords(refused, true), stepTone(refused), stepWhy(refused)]).toEqual(['You said no', 'plain', '']);
    expect([false, true].map((over) => stepWords({ state: 'TO_DO', code: '' }, over))).toEqual(['To do', 'Not started']);
  });

  test('tells its condition in words', () => {
    expect(conditionOf('look.failed')).toBe('look: Failed');
  });
});
