/** The story of an action as steps: asked, decided, approved, tried, receipted. Pure. */
import type { WholeStory } from '../../api/types_house.ts';
import type { StoryAttempt, StorySigned } from '../../api/types_work.ts';
import type { Label, Receipt, Verdict } from '../../api/types.ts';
import { sourcesOf } from '../../parts/label.ts';

export type StepTone = 'good' | 'warn' | 'bad' | 'accent' | 'plain';
export type Answer = 'approved' | 'rejected' | 'waits' | 'alone' | 'denied';

export type Step =
  | { kind: 'asked'; at: string; tone: StepTone }
  | { kind: 'decided'; at: string; tone: StepTone }
  | { kind: 'answer'; answer: Answer; at: string | null; tone: StepTone }
  | { kind: 'attempt'; at: string; tone: StepTone; attempt: StoryAttempt; only: boolean }
  | { kind: 'receipt'; at: string; tone: StepTone; place: number; receipt: Receipt; disagreements: string[] }
  | { kind: 'none'; at: null; tone: StepTone };

const VERDICT: Record<Verdict, StepTone> = { allow: 'good', ask: 'warn', deny: 'bad' };
const RECEIPT: Record<Receipt['status'], StepTone> = { allowed: 'good', denied: 'bad', failed: 'bad', unknown: 'bad' };

/** What became of the question whether it may be done. */
export function answerOf(story: WholeStory): Answer {
  if (story.decision.verdict === 'deny') return 'denied';
  if (!story.approval.needed) return 'alone';
  if (story.approval.approved_by) return 'approved';
  return story.status === 'PENDING' ? 'waits' : 'rejected';
}

const ANSWER: Record<Answer, StepTone> = { approved: 'good', rejected: 'bad', waits: 'warn', alone: 'plain', denied: 'plain' };

function attemptTone(attempt: StoryAttempt): StepTone {
  if (!attempt.end) return 'warn';
  if (attempt.end === 'tool_completed') return 'good';
  return attempt.end === 'tool_retry' ? 'warn' : 'bad';
}

/** When the owner refused it: no field says so, the event does. */
function refusedAt(story: WholeStory): string | null {
  return story.events.find((each) => each.event_type === 'tool_denied')?.created_at ?? null;
}

export function stepsOf(story: WholeStory): Step[] {
  const answer = answerOf(story);
  const requested = story.events.find((each) => each.event_type === 'tool_requested');
  const steps: Step[] = [
    { kind: 'asked', at: story.asked.message?.created_at ?? story.asked.created_at, tone: 'plain' },
    { kind: 'decided', at: requested?.created_at ?? story.asked.created_at, tone: VERDICT[story.decision.verdict] },
    { kind: 'answer', answer, at: answer === 'rejected' ? refusedAt(story) : story.approval.approved_at, tone: ANSWER[answer] },
  ];
  for (const attempt of story.attempts)
    steps.push({ kind: 'attempt', at: attempt.begun_at, tone: attemptTone(attempt), attempt, only: story.attempts.length === 1 });
  for (const { place, receipt, disagreements } of story.receipts) {
    const tone = disagreements.length ? 'bad' : RECEIPT[receipt.status];
    steps.push({ kind: 'receipt', at: receipt.timestamp, tone, place, receipt, disagreements });
  }
  if (!story.receipts.length) steps.push({ kind: 'none', at: null, tone: 'plain' });
  return steps;
}

/** Every signature about it, the one behind the yes first, each once. */
export function signaturesOf(story: WholeStory): StorySigned[] {
  const all = [...(story.approval.proof ? [story.approval.proof] : []), ...story.approval.signatures];
  return all.filter((each, at) => all.findIndex((other) => other.assertion_id === each.assertion_id) === at);
}

/** The untrusted sources that had a hand in it. */
export function influences(story: Pick<WholeStory, 'taint'>): string[] {
  const labels = Array.isArray(story.taint) ? story.taint.filter((each): each is Label => typeof each === 'string') : [];
  return sourcesOf(labels);
}
