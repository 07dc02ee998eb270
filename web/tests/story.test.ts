import { describe, expect, test } from 'vitest';
import type { StoryTold } from '../src/api/types.ts';
import { answerOf, decisionOf, influences, signaturesOf, statusOf, stepsOf } from '../src/screens/audit/story.ts';

const SIGNED = { assertion_id: 'as_1', purpose: 'approve', passkey_id: 'pk', passkey_name: 'Phone', device_id: 'dev', origin: 'http://localhost', signed_at: '2026-03-01T10:00:30Z', holds: true, disagreements: [] };
const ATTEMPT = { number: 1, begun_at: '2026-03-01T10:01:00Z', worker: 'w', looked_up: false, ended_at: '2026-03-01T10:01:01Z', end: 'tool_completed', code: 'APPROVED', receipt_id: 'r', next_in_seconds: null };

function story(change: Partial<StoryTold> = {}): StoryTold {
  return {
    action_id: 'act_1', tool: 'webhook_send', identity: null, args: {}, args_hash: '', status: 'EXECUTED', attempt: 1, next_attempt_at: null, uncertain: false,
    asked: { source: 'chat', source_id: 't', thread_id: 'c', turn_id: 't', channel: 'panel', job_id: null, job_goal: null, message: null, justification: '', created_at: '2026-03-01T10:00:00Z' },
    taint: [],
    decision: { verdict: 'ask', risk: 'R2', risk_word: 'medium', risk_class: 'WRITE', lane: 'B', code: 'LANE_B', rule: 'lane', reasons: [], recommended_changes: [], policy_hash: '' },
    approval: { needed: true, approved_by: 'device:dev', approved_at: '2026-03-01T10:00:30Z', rejection_reason: null, expires_at: '', shown: 'passkey', proof: SIGNED, signatures: [SIGNED] },
    digest: '', idempotency_key: '', attempts: [ATTEMPT], events: [], skills: [], result: null,
    receipts: [{ place: 4, receipt: { id: 'r', timestamp: '2026-03-01T10:01:01Z', status: 'allowed' } as StoryTold['receipts'][number]['receipt'], disagreements: [] }],
    agrees: true, disagreements: [], notes: [], updated_at: '', about: 'Send a note.', refusal: null,
    ...change,
  };
}

describe('the story of an action', () => {
  test('goes from the question to the receipt', () => {
    expect(stepsOf(story()).map((step) => step.kind)).toEqual(['asked', 'decided', 'answer', 'attempt', 'receipt']);
  });

  test('without a receipt says so', () => {
    expect(stepsOf(story({ receipts: [], attempts: [] })).at(-1)?.kind).toBe('none');
  });

  test('a receipt that does not hold is bad, whatever it says', () => {
    const [proof] = story().receipts;
    const broken = story({ receipts: proof ? [{ ...proof, disagreements: ['its hash is another'] }] : [] });
    expect(stepsOf(broken).at(-1)).toMatchObject({ kind: 'receipt', tone: 'bad' });
  });

  test('a try without an end is a warning', () => {
    const open = story({ attempts: [{ ...ATTEMPT, end: null, ended_at: null }] });
    expect(stepsOf(open)[3]).toMatchObject({ kind: 'attempt', tone: 'warn' });
  });
});

describe('a story that somebody wrote over', () => {
  test('is told without a decision that cannot be read', () => {
    const broken = story({ decision: { unreadable: '{"verdict":' } });
    expect(decisionOf(broken)).toBeNull();
    expect(stepsOf(broken)[1]).toMatchObject({ kind: 'decided', tone: 'bad' });
    expect(decisionOf(story())?.verdict).toBe('ask');
  });

  test('does not stand where no action can', () => {
    expect(statusOf({ status: 'DONE' })).toBe('UNKNOWN');
    expect(statusOf(story())).toBe('EXECUTED');
  });
});

describe('who let it happen', () => {
  const { decision, approval } = story();

  test.each([
    [story(), 'approved'],
    [story({ status: 'PENDING', approval: { ...approval, approved_by: null } }), 'waits'],
    [story({ status: 'REJECTED', refusal: 'rejected', approval: { ...approval, approved_by: null } }), 'rejected'],
    [story({ status: 'REJECTED', refusal: 'withdrawn', approval: { ...approval, approved_by: null } }), 'withdrawn'],
    [story({ status: 'REJECTED', refusal: 'expired', approval: { ...approval, approved_by: null } }), 'expired'],
    [story({ decision: { ...decision, verdict: 'allow' }, approval: { ...approval, needed: false } }), 'alone'],
    [story({ decision: { ...decision, verdict: 'deny' } }), 'denied'],
  ])('is told apart', (told, answer) => {
    expect(answerOf(told)).toBe(answer);
  });

  test('a signature is told once, though it stands in two places', () => {
    expect(signaturesOf(story())).toHaveLength(1);
  });

  test('others who had a hand in it are named', () => {
    expect(influences({ taint: ['untrusted:mail,web', 'owner'] })).toEqual(['mail', 'web']);
  });
});
