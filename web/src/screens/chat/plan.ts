/** The agent's plan in a conversation, out of the arguments of its calls. Pure. */
import type { Call } from '../../api/types.ts';

const STATES = ['todo', 'doing', 'done', 'dropped'] as const;

export interface PlanStep {
  title: string;
  state: (typeof STATES)[number];
}

/** The plan that a call tells; null when it tells none, or was not carried out. */
export function planOf(call: Call): PlanStep[] | null {
  if (call.tool !== 'plan_update' || call.status === 'REJECTED' || call.status === 'FAILED') return null;
  let args: unknown;
  try {
    args = JSON.parse(call.arguments);
  } catch {
    return null;
  }
  const steps: unknown = typeof args === 'object' && args !== null && 'steps' in args ? args.steps : null;
  if (!Array.isArray(steps)) return null;
  const read = steps.map(stepOf);
  return read.length && read.every((step) => step !== null) ? read : null;
}

function stepOf(step: unknown): PlanStep | null {
  if (typeof step !== 'object' || step === null || !('title' in step) || typeof step.title !== 'string') return null;
  const named = 'state' in step ? step.state : 'todo';
  const state = STATES.find((each) => each === named);
  return state ? { title: step.title, state } : null;
}

/** How many steps are done, of those that were not dropped. */
export function doneOf(steps: readonly PlanStep[]): { done: number; all: number } {
  const meant = steps.filter((step) => step.state !== 'dropped');
  return { done: meant.filter((step) => step.state === 'done').length, all: meant.length };
}
