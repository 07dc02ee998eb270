/** The house: audit, rules and files of the owner, providers, usage, notifications, the doctor, as the server says it. */
import type { ActionStatus, Decision, Json, Label, Lane, Moment, Page, Receipt, Risk, RiskClass, Source, Verdict } from './types.ts';
import type { ActionStory } from './types_work.ts';

// --- audit ----------------------------------------------------------------------------------------------------------

/** Something that happened, as it was written down: ids, codes and hashes, never content. */
export interface AuditEvent {
  seq: number;
  entry_id: string;
  event_type: string;
  entity_id: string;
  payload: Json;
  created_at: Moment;
}

export interface AuditWanted {
  event_type?: string;
  entity_id?: string;
  since?: string;
  until?: string;
}

/** The whole record of an action, with what the gate decided and what the tool gave back. */
export interface WholeStory extends ActionStory {
  decision: Decision;
  result: {
    success: boolean;
    code: string;
    first_lines: string;
    label: Label;
    exit: number | null;
    box_tier: string | null;
    box_end: string | null;
    output_hash: string;
  } | null;
}

/** A receipt and its place in the chain. */
export interface NumberedReceipt {
  number: number;
  receipt: Receipt;
}

export interface ReceiptsWanted {
  status?: Receipt['status'];
  tool?: string;
}

export interface ReceiptDetail {
  number: number;
  /** Null when it cannot be read. */
  receipt: Receipt | null;
  holds: boolean;
  faults: string[];
}

// --- rules ----------------------------------------------------------------------------------------------------------

export type Autonomy = 'readonly' | 'supervised' | 'full';

/** One option of the configuration as it is in force. */
export interface EffectiveSetting {
  key: string;
  value: Json;
  /** `default`, `config.toml`, or `environment NAME`. */
  source: string;
  description: string;
  /** What the file says by now, when that differs; it holds from the next start on. */
  next_value: Json;
  changes: boolean;
}

export interface EffectiveRule {
  id: string;
  verdict: string;
  reason: string;
  when: Json;
}

export interface EffectivePolicy {
  autonomy: Autonomy;
  policy_hash: string;
  /** What is wrong with the policy files; empty when they hold. */
  broken: string;
  rules: EffectiveRule[];
  settings: EffectiveSetting[];
  faults: string[];
}

/** Something wrong with a policy file; lines count from 1. */
export interface FaultyLine {
  line: number;
  path: string;
  text: string;
}

export interface SampleCall {
  tool: string;
  args: { [key: string]: Json };
  source: Source;
  taint: Label[];
}

export interface CheckedCall {
  decision: Decision;
  faults: FaultyLine[];
}

export interface ToolListed {
  name: string;
  description: string;
  effect: RiskClass;
  destination: 'internal' | 'workspace' | 'machine' | 'external';
  idempotent: boolean;
  always_ask: boolean;
  lane: Lane;
  risk: Risk;
  verdict: Verdict;
  reasons: string[];
  /** JSON Schema of the arguments. */
  parameters: { [key: string]: Json };
}

// --- files of the owner ---------------------------------------------------------------------------------------------

export interface OwnerFile {
  path: string;
  size: number;
  /** Hand it back when the file is replaced; empty when there is none yet. */
  sha256: string;
  content: string;
  /** Something in it is not shown: writing it back would lose that. */
  redacted: boolean;
  labels: Label[];
}

export interface PolicyFileListed {
  name: string;
  size: number;
  sha256: string;
  valid: boolean;
  faults: FaultyLine[];
}

export interface PolicyFileShown {
  name: string;
  file: OwnerFile;
  valid: boolean;
  faults: FaultyLine[];
}

export interface SkillListed {
  name: string;
  description: string;
  size: number;
  sha256: string;
  labels: Label[];
}

export interface SkillShown {
  name: string;
  description: string;
  file: OwnerFile;
}

/** Where a change of a file stands: it is an action like any other. */
export interface Edited {
  action_id: string;
  path: string;
  status: ActionStatus;
  needs: string;
  decision: Decision;
  code: string;
  message: string;
}

// --- providers and usage --------------------------------------------------------------------------------------------

export interface Provider {
  name: string;
  kind: string;
  model: string;
  base_url: string;
  key_name: string;
  key_set: boolean;
  leans_on: string[];
  default: boolean;
}

export interface ProviderTried {
  name: string;
  model: string;
  seconds: number;
  text: string;
}

export type UsageBy = 'model' | 'provider' | 'day' | 'job';

export interface UsageBill {
  group: string;
  answers: number;
  input_tokens: number;
  output_tokens: number;
  estimated_tokens: number;
  cost_millionths: number | null;
  unpriced_tokens: number;
}

export interface UsageReport {
  by: UsageBy;
  since: Moment;
  rows: UsageBill[];
  total: UsageBill;
  budgets: { daily_tokens: number; used_today: number; left_today: number; job_tokens: number; turn_tokens: number };
}

// --- doors, word, health --------------------------------------------------------------------------------------------

export interface PairingCode {
  code: string;
  expires_at: Moment;
  url: string;
}

export type NotificationType = 'approval_needed' | 'approval_expiring' | 'job_failed' | 'job_completed' | 'proactive_reach_out';

/** Something to look at: ids alone. */
export interface Notice {
  notification_id: string;
  type: NotificationType;
  reason: 'operator_attention_needed' | 'clarification_needed' | 'important_update' | 'follow_up_available' | null;
  entity: 'action' | 'job' | 'thread';
  entity_id: string;
  thread_id: string | null;
  job_id: string | null;
  seen_at: Moment | null;
  created_at: Moment;
}

export interface Notices extends Page<Notice> {
  unseen: number;
}

export interface Probe {
  name: string;
  state: 'ok' | 'warn' | 'fail' | 'info';
  detail: string;
  remedy: string;
}

export interface Checkup {
  state: 'ok' | 'warn' | 'fail';
  probes: Probe[];
  checked_at: Moment;
}
