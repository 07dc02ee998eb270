/** The story of an action as steps: asked, decided, approved, tried, receipted. Pure. */
import type { ActionStatus, Decision, Json, Label, Lane, Receipt, RiskWord, Story, StoryAttempt, StorySigned, StoryTold, Verdict } from '../../api/types.ts';
import { sourcesOf } from '../../parts/label.ts';

export type StepTone = 'good' | 'warn' | 'bad' | 'accent' | 'plain';
export type Answer = 'approved' | 'rejected' | 'withdrawn' | 'expired' | 'waits' | 'alone' | 'denied';

export type Step =
  | { kind: 'asked'; at: string; tone: StepTone }
  | { kind: 'decided'; at: string; tone: StepTone }
  | { kind: 'answer'; answer: Answer; at: string | null; tone: StepTone }
  | { kind: 'attempt'; at: string; tone: StepTone; attempt: StoryAttempt; only: boolean }
  | { kind: 'receipt'; at: string; tone: StepTone; place: number; receipt: Receipt; disagreements: string[] }
  | { kind: 'none'; at: null; tone: StepTone };

const VERDICT: Record<Verdict, StepTone> = { allow: 'good', ask: 'warn', deny: 'bad' };
const RECEIPT: Record<Receipt['status'], StepTone> = { allowed: 'good', denied: 'bad', failed: 'bad', unknown: 'bad' };

const LANES: Record<Lane, true> = { A: true, B: true, C: true };
const WORDS: Record<RiskWord, true> = { low: true, medium: true, high: true };
const STATUSES: Record<ActionStatus, true> = { PENDING: true, APPROVED: true, REJECTED: true, EXECUTED: true, FAILED: true, UNKNOWN: true };
const has = <K extends string>(known: Record<K, unknown>, value: Json | undefined): value is K => typeof value === 'string' && Object.hasOwn(known, value);

/** What the gate decided, as far as a story holds it; null when what is stored is none, as after somebody wrote over it. */
export function decisionOf({ decision }: Pick<Story, 'decision'>): Pick<Decision, 'verdict' | 'lane' | 'risk_word' | 'code' | 'rule' | 'policy_hash' | 'reasons'> | null {
  const { verdict, lane, risk_word, code, rule, policy_hash, reasons } = decision;
  if (!has(VERDICT, verdict) || !has(LANES, lane) || !has(WORDS, risk_word) || !Array.isArray(reasons)) return null;
  return { verdict, lane, risk_word, code: String(code), rule: String(rule), policy_hash: String(policy_hash), reasons: reasons.map(String) };
}

/** Where it stands; what no action can be at is not known. */
export function statusOf({ status }: Pick<Story, 'status'>): ActionStatus {
  return has(STATUSES, status) ? status : 'UNKNOWN';
}

/** What became of the question whether it may be done. */
export function answerOf(story: Pick<StoryTold, 'decision' | 'approval' | 'status' | 'refusal'>): Answer {
  if (story.decision['verdict'] === 'deny') return 'denied';
  if (!story.approval.needed) return 'alone';
  if (story.approval.approved_by) return 'approved';
  if (story.status === 'PENDING') return 'waits';
  return story.refusal === 'withdrawn' || story.refusal === 'expired' ? story.refusal : 'rejected';
}

const ANSWER: Record<Answer, StepTone> = { approved: 'good', rejected: 'bad', withdrawn: 'plain', expired: 'plain', waits: 'warn', alone: 'plain', denied: 'plain' };

function attemptTone(attempt: StoryAttempt): StepTone {
  if (!attempt.end) return 'warn';
  if (attempt.end === 'tool_completed') return 'good';
  return attempt.end === 'tool_retry' ? 'warn' : 'bad';
}

const ANSWERED: ReadonlySet<Answer> = new Set(['rejected', 'withdrawn', 'expired']);

/** When it was rejected, withdrawn or expired: no field says so, the event does. */
function refusedAt(story: Story): string | null {
  return story.events.find((each) => each.event_type === 'tool_denied')?.created_at ?? null;
}

export function stepsOf(story: StoryTold): Step[] {
  const answer = answerOf(story);
  const decision = decisionOf(story);
  const requested = story.events.find((each) => each.event_type === 'tool_requested');
  const steps: Step[] = [
    { kind: 'asked', at: story.asked.message?.created_at ?? story.asked.created_at, tone: 'plain' },
    { kind: 'decided', at: requested?.created_at ?? story.asked.created_at, tone: decision ? VERDICT[decision.verdict] : 'bad' },
    { kind: 'answer', answer, at: ANSWERED.has(answer) ? refusedAt(story) : story.approval.approved_at, tone: ANSWER[answer] },
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
export function signaturesOf(story: Story): StorySigned[] {
  const all = [...(story.approval.proof ? [story.approval.proof] : []), ...story.approval.signatures];
  return all.filter((each, at) => all.findIndex((other) => other.assertion_id === each.assertion_id) === at);
}

/** The untrusted sources that had a hand in it. */
export function influences(story: Pick<Story, 'taint'>): string[] {
  const labels = Array.isArray(story.taint) ? story.taint.filter((each): each is Label => typeof each === 'string') : [];
  return sourcesOf(labels);
}
