/** What can be said of runs of procedures without a server: how each stands, and how its steps do. Pure. */
import type { SopRun, SopRunShown, SopRunStep } from '../../api/types.ts';
import type { IconName } from '../../parts/icons.ts';
import type { Tone } from '../../parts/tone.ts';
import { codeWords, lookup, t } from '../../text/t.ts';

/** How a run stands, as people tell it apart. */
export type RunStand = 'running' | 'cut' | 'asks' | 'answered' | 'waits' | 'done' | 'failed' | 'refused';

const REFUSED = 'OWNER_REFUSED';

export function standOf(run: Pick<SopRun, 'state' | 'working' | 'answered' | 'waiting' | 'reason'>): RunStand {
  if (run.state === 'DONE') return 'done';
  // The owner's no is an answer, not a failure; the reason ends with the code of the step.
  if (run.state === 'FAILED') return run.reason.endsWith(`(${REFUSED}).`) ? 'refused' : 'failed';
  if (run.working) return 'running';
  if (run.state === 'RUNNING') return 'cut';
  if (run.waiting.length) return 'asks';
  return run.answered ? 'answered' : 'waits';
}

export function isOver(run: Pick<SopRun, 'state'>): boolean {
  return run.state === 'DONE' || run.state === 'FAILED';
}

const TONES: Record<RunStand, Tone> = { running: 'accent', cut: 'warn', asks: 'warn', answered: 'accent', waits: 'plain', done: 'good', failed: 'bad', refused: 'plain' };
const ICONS: Record<RunStand, IconName> = { running: 'refresh', cut: 'warn', asks: 'approve', answered: 'refresh', waits: 'clock', done: 'check', failed: 'warn', refused: 'close' };

export function toneOf(stand: RunStand): Tone {
  return TONES[stand];
}

export function iconOf(stand: RunStand): IconName {
  return ICONS[stand];
}

/** Those that are not over first, each part in the order it came. */
export function sorted(runs: readonly SopRun[]): { open: SopRun[]; over: SopRun[] } {
  return { open: runs.filter((each) => !isOver(each)), over: runs.filter(isOver) };
}

/** Where it stands among its steps; of one that is done there is nothing to count. */
export function placeOf(run: Pick<SopRun, 'state' | 'step' | 'of' | 'step_id'>): string {
  if (run.state === 'DONE') return '';
  return `${t('work.step', { at: run.step, of: run.of })} · ${run.step_id}`;
}

/** The call of a step whose end nobody knows; null when there is none. */
export function unknownStep(run: Pick<SopRunShown, 'steps'>): SopRunStep | null {
  return run.steps.find((each) => each.state === 'WAITING' && each.action_status === 'UNKNOWN') ?? null;
}

const SETTLED: ReadonlySet<SopRunStep['state']> = new Set(['SUCCEEDED', 'FAILED', 'SKIPPED']);

/** How many of its steps are over, whatever their end. */
export function stepsOver(run: Pick<SopRunShown, 'steps'>): number {
  return run.steps.filter((each) => SETTLED.has(each.state)).length;
}

/** The owner said no to it. */
function isRefused(step: Pick<SopRunStep, 'state' | 'code'>): boolean {
  return step.state === 'FAILED' && step.code === REFUSED;
}

/** How a step stands in a word; of a run that is over nothing is to come. */
export function stepWords(step: Pick<SopRunStep, 'state' | 'code'>, over: boolean): string {
  if (isRefused(step)) return codeWords(REFUSED);
  return over && step.state === 'TO_DO' ? t('runs.step.never') : t(`runs.step.${step.state}`);
}

export function stepTone(step: Pick<SopRunStep, 'state' | 'code'>): Tone {
  if (isRefused(step)) return 'plain';
  const tones: Partial<Record<SopRunStep['state'], Tone>> = { RUNNING: 'accent', WAITING: 'warn', HELD: 'warn', SUCCEEDED: 'good', FAILED: 'bad' };
  return tones[step.state] ?? 'plain';
}

/** What is said beside the state: why it failed or is held; other codes say what the state says. */
export function stepWhy(step: Pick<SopRunStep, 'state' | 'code'>): string {
  if (isRefused(step)) return '';
  return (step.state === 'FAILED' || step.state === 'HELD') && step.code ? codeWords(step.code) : '';
}

/** Why a run failed: the step, in words; what else ended it is told by its reason. */
export function failureOf(run: Pick<SopRunShown, 'steps' | 'reason' | 'step_id'>): string {
  const step = run.steps.find((each) => each.id === run.step_id);
  if (step?.state !== 'FAILED') return run.reason;
  return step.code ? t('runs.why', { name: step.id, why: codeWords(step.code) }) : t('runs.why.only', { name: step.id });
}

/** `look.success` in words: the step, and how it must have ended. */
export function conditionOf(when: string): string {
  const at = when.lastIndexOf('.');
  const outcomes: Record<string, string> = { success: 'SUCCEEDED', failed: 'FAILED', skipped: 'SKIPPED' };
  return `${when.slice(0, at)}: ${lookup(`runs.step.${outcomes[when.slice(at + 1)] ?? ''}`, when)}`;
}
