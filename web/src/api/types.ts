/**
 * What the server answers with, by the names of its structs (src/coilclaw/server/routes, packets). Every screen takes its
 * types from here and nowhere else; once the checked-in OpenAPI is complete these are generated from it.
 */

import type { ActionStory } from './types_work.ts';

/** An RFC 3339 moment in UTC. */
export type Moment = string;
/** `owner`, `internal`, or `untrusted:<source>,…`. */
export type Label = string;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type Verdict = 'allow' | 'ask' | 'deny';
export type Risk = 'R0' | 'R1' | 'R2' | 'R3';
export type RiskWord = 'low' | 'medium' | 'high';
export type RiskClass = 'READ' | 'WRITE' | 'EXFILTRATION';
export type Lane = 'A' | 'B' | 'C';
export type Source = 'chat' | 'job' | 'schedule' | 'cli' | 'gateway' | 'sop' | 'session';
export type ActionStatus = 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
export type ReceiptStatus = 'allowed' | 'denied' | 'failed' | 'unknown';

/** A piece of a list; `next_cursor` asks for what follows. */
export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/** RFC 9457, with a stable code and what to do next. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  remedy?: string;
  instance?: string;
}

// --- who am I -------------------------------------------------------------------------------------------------------

export interface Device {
  device_id: string;
  name: string;
  /** The device that asks. */
  current: boolean;
  active: boolean;
  confirmed: boolean;
  created_at: Moment;
  confirmed_at: Moment | null;
  /** To the hour. */
  last_seen_at: Moment | null;
  revoked_at: Moment | null;
}

export interface EstopState {
  engaged: boolean;
  /** When it was engaged; null when it is not, or when nobody wrote it down. */
  since: Moment | null;
  reason: string;
  /** What clearing it takes from this device. */
  clear_needs: string;
}

export interface Session {
  device: Device;
  way: 'cookie' | 'bearer';
  /** False until a passkey vouched for this device: it can do nothing but ask for that. */
  confirmed: boolean;
  passkeys: number;
  /** Until when the first passkey may be registered by this device; null when it may not. */
  passkey_window_ends_at: Moment | null;
  version: string;
  estop: boolean;
  origin: string;
}

export interface BindRequest {
  code: string;
  name: string;
  public_key: string;
  proof_of_key: string;
  wants: 'cookie' | 'bearer';
}

export interface Bound {
  device: Device;
  expires_at: Moment;
  /** Null when it was set as a cookie. */
  token: string | null;
}

// --- owner proof ----------------------------------------------------------------------------------------------------

export type Purpose =
  | 'approve'
  | 'resolve'
  | 'estop.clear'
  | 'passkey.add'
  | 'passkey.remove'
  | 'device.add'
  | 'device.confirm'
  | 'device.revoke';

/** What a passkey is asked to sign. */
export interface Question {
  purpose: Purpose;
  subject: string;
  digest: string;
  valid_until: Moment;
  nonce: string;
}

export interface Challenge {
  challenge_id: string;
  expires_at: Moment;
  options: PublicKeyCredentialRequestOptionsJSON;
  question: Question;
}

export interface RegistrationChallenge {
  challenge_id: string;
  expires_at: Moment;
  /** Whether a registered passkey must vouch for the new one. */
  proof_needed: boolean;
  options: PublicKeyCredentialCreationOptionsJSON;
}

export interface Assertion {
  challenge_id: string;
  id: string;
  response: {
    authenticatorData: string;
    clientDataJSON: string;
    signature: string;
    userHandle: string | null;
  };
}

export interface Registration {
  challenge_id: string;
  name: string;
  credential: Json;
  proof?: Assertion;
}

export interface Passkey {
  passkey_id: string;
  name: string;
  device_id: string | null;
  /** Whether it belongs to the address the panel has now. */
  usable: boolean;
  /** Whether it is synchronised to other devices of its owner. */
  backed_up: boolean;
  aaguid: string;
  transports: string[];
  created_at: Moment;
  last_used_at: Moment | null;
  removed_at: Moment | null;
}

// --- approvals and actions ------------------------------------------------------------------------------------------

/** The card, rendered by the gate from stored data, and what this device has to show to say yes. */
export interface Approval {
  action_id: string;
  tool_name: string;
  human_summary: string;
  target_entity: string;
  risk_class: RiskClass;
  risk: Risk;
  risk_word: RiskWord;
  lane: Lane;
  preview_or_diff: string;
  source_type: Source;
  expires_at: Moment;
  reasons: string[];
  provenance: Label[];
  /** Argument values that stand in untrusted content and not in the owner's own words. */
  marked: string[];
  digest: string;
  /** Stands for what the files it would replace held when this card was made. */
  seen: string;
  args: string;
  status: ActionStatus;
  created_at: Moment;
  thread_id: string;
  job_id: string | null;
  /** It is no longer what was proposed: a yes would end it. */
  changed: boolean;
  approved_by: string | null;
  rejection_reason: string | null;
  /** What a yes needs from this device: nothing (none is awaited), its token alone, or a passkey. */
  proof: 'none' | 'passkey' | 'token';
}

export interface ApproveRequest {
  digest: string;
  seen: string;
  proof?: Assertion;
}

/** An action as it stands. */
export interface ActionSummary {
  action_id: string;
  status: ActionStatus;
  tool: string;
  lane: Lane;
  risk: Risk;
  risk_word: RiskWord;
  risk_class: RiskClass;
  verdict: Verdict;
  code: string;
  source: Source;
  source_id: string;
  thread_id: string;
  turn_id: string;
  job_id: string | null;
  justification: string;
  provenance: Label[];
  digest: string;
  attempt: number;
  begun: boolean;
  uncertain: boolean;
  approved_by: string | null;
  rejection_reason: string | null;
  created_at: Moment;
  expires_at: Moment;
}

/** What an action, or its last attempt, ended with. */
export interface ActionOutcome {
  success: boolean;
  code: string;
  output: string;
  cut: boolean;
  label: Label;
  exit: number | null;
  receipt_id: string | null;
  artifacts: string[];
}

export interface Answered {
  action: ActionSummary;
  /** Only once it is over: nothing is called done before it is. */
  outcome: ActionOutcome | null;
  /** The emergency stop is engaged: it goes on when that is cleared. */
  held: boolean;
}

export interface ActionDetail {
  action: ActionSummary;
  args: Json;
  decision: Decision;
  card: Approval | null;
  outcome: ActionOutcome | null;
  /** Null when it cannot be told; then `fault` says why. */
  story: ActionStory | null;
  fault: string;
}

export interface Decision {
  verdict: Verdict;
  risk: Risk;
  risk_word: RiskWord;
  risk_class: RiskClass;
  lane: Lane;
  code: string;
  rule: string;
  reasons: string[];
  recommended_changes: string[];
  policy_hash: string;
}

export interface Receipt {
  id: string;
  timestamp: Moment;
  conversation_id: string;
  tool: string;
  args_hash: string;
  result_hash: string;
  status: ReceiptStatus;
  risk: RiskWord;
  risk_level: Risk;
  code: string;
  action_id: string;
  digest: string;
  policy_hash: string;
  previous_hash: string;
  receipt_hash: string;
}

export interface Verification {
  valid: boolean;
  receipts: number;
  heads: number;
  broken: { receipt: number; kind: string; detail: string } | null;
  notes: string[];
  at: Moment;
}

/** The chain at a glance, cheap enough to be shown always. */
export interface ChainState {
  size: number;
  hash: string;
  sealed_size: number;
  sealed_at: Moment | null;
  /** What the last verification since the server's start found. */
  verified: Verification | null;
}

// --- chat -----------------------------------------------------------------------------------------------------------

export type Role = 'system' | 'user' | 'assistant' | 'tool';

export interface Thread {
  thread_id: string;
  title: string;
  /** Where it was begun: panel, cli, job, … */
  channel: string;
  created_at: Moment;
  updated_at: Moment;
  messages: number;
  last: { role: Role; text: string; untrusted: boolean; created_at: Moment } | null;
  /** The turn that is being answered now. */
  running_turn_id: string | null;
  waiting_turns: number;
  waiting_approvals: number;
}

/** A call that the model proposed, and how it stands now. */
export interface Call {
  call_id: string;
  tool: string;
  /** JSON, as the model wrote it. */
  arguments: string;
  justification: string;
  action_id: string | null;
  status: ActionStatus | null;
  verdict: Verdict | null;
  code: string;
  reasons: string[];
  lane: Lane | null;
  risk: Risk | null;
  receipt_id: string | null;
}

export interface Message {
  message_id: string;
  turn_id: string;
  role: Role;
  content: string;
  label: Label;
  untrusted: boolean;
  created_at: Moment;
  provider: string;
  model: string;
  /** What an answer of the model proposes. */
  calls: Call[];
  /** For role `tool`: the call that this is the result of. */
  call_id: string;
  action_id: string | null;
  success: boolean | null;
  code: string;
  receipt_id: string | null;
  /** Set when the message is longer than what stands here. */
  artifact: { artifact_id: string; size: number | null } | null;
  attachments: string[];
  /** For role `system`: how its turn ended, when the message tells that. */
  turn_state: string;
}

/** A piece of a conversation, in the order it was said. */
export interface Messages {
  items: Message[];
  /** Hand it back for what was said earlier; null at the beginning. */
  before: string | null;
  after: string | null;
}

export type TurnState = 'QUEUED' | 'RUNNING' | 'ANSWERED' | 'FAILED' | 'STOPPED' | 'INTERRUPTED';

export interface Turn {
  turn_id: string;
  thread_id: string;
  message_id: string;
  state: TurnState;
  ending: string;
  code: string;
  reason: string;
  created_at: Moment;
  started_at: Moment | null;
  ended_at: Moment | null;
  /** What the model has said so far, while it runs. */
  partial: string;
  answer: string | null;
}

export interface Posted {
  thread_id: string;
  turn_id: string;
  message_id: string;
  state: TurnState;
}

export interface Uploaded {
  path: string;
  size: number;
  sha256: string;
  label: Label;
  action_id: string;
  receipt_id: string;
}

// --- what waits -----------------------------------------------------------------------------------------------------

/** One day (UTC): the jobs made on it by how they stand now, and what was spent on it. */
export interface OverviewDay {
  day: string;
  completed: number;
  failed: number;
  cancelled: number;
  open: number;
  input_tokens: number;
  output_tokens: number;
  /** In millionths of the currency that the prices are in; null when no price is known. */
  cost_millionths: number | null;
  unpriced_tokens: number;
}

export interface Overview {
  since: string;
  days: OverviewDay[];
  verdicts: Partial<Record<Verdict, number>>;
  risks: Partial<Record<Risk, number>>;
  approvals: { asked: number; approved: number; rejected: number; expired: number; waiting: number; median_wait_seconds: number | null };
  tools: { tool: string; calls: number; executed: number; rejected: number; failed: number; unknown: number; waiting: number }[];
  schedules: { started: number; succeeded: number; failed: number; cancelled: number; running: number; queued: number; skipped_slots: number; success_percent: number | null };
  evidence: { looked_at: number; complete: number; percent: number | null };
  waiting: { approvals: number; unknown_actions: number; paused_schedules: number; paused_jobs: number; waiting_jobs: number; notifications: number };
  budget: { daily_tokens: number; used_today: number; left_today: number };
  estop: boolean;
}

// --- events ---------------------------------------------------------------------------------------------------------

export type Topic =
  | 'thread'
  | 'action'
  | 'approval'
  | 'job'
  | 'schedule'
  | 'receipt'
  | 'notification'
  | 'estop'
  | 'device'
  | 'settings'
  | 'ledger';

/** Something that happened, from the durable sequence. */
export interface LiveEvent {
  seq: number;
  event: Topic;
  type: string;
  id: string;
  at: Moment;
  /** The conversation it belongs to; empty when there is none. */
  thread_id: string;
  data: Json;
}

/** A piece of an answer that is being written; never stored. */
export interface TextDelta {
  thread_id: string;
  turn_id: string;
  /** How many characters were said before. */
  offset: number;
  text: string;
}
