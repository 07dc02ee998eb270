/** Work by hand and by the clock, as the server says it (server/work.py, server/schedules.py, ledger/story.py). */
import type { ActionStatus, Json, Label, Lane, Moment, Page, Receipt, Risk, Source } from './types.ts';

export type JobState =
  | 'RECEIVED'
  | 'PARSED'
  | 'POLICY_CHECKED'
  | 'PLANNED'
  | 'EXECUTING'
  | 'WAITING_APPROVAL'
  | 'PR_OPENED'
  | 'MERGED'
  | 'DEPLOYED'
  | 'DONE'
  | 'DENIED'
  | 'FAILED'
  | 'CANCELLED'
  | 'TIMED_OUT'
  | 'PAUSED_BUDGET';

/** The state in a coarser word. */
export type JobStatus = 'PENDING' | 'RUNNING' | 'WAITING_APPROVAL' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'PAUSED_BUDGET';

/** What a job waits for the owner to answer. */
export interface JobQuestion {
  action_id: string;
  tool: string;
  lane: Lane;
  risk: Risk;
  expires_at: Moment;
}

export interface Job {
  job_id: string;
  thread_id: string;
  goal: string;
  state: JobState;
  status: JobStatus;
  /** Why it ended, waits or failed last. */
  reason: string;
  /** Tries of the step it is at that failed. */
  attempt: number;
  next_wakeup_at: Moment | null;
  deadline_at: Moment | null;
  /** Somebody works on it right now. */
  working: boolean;
  sop: string | null;
  schedule_id: string | null;
  progress: { done: number; of: number; calls: number };
  waiting: JobQuestion[];
  created_at: Moment;
  updated_at: Moment;
}

export interface JobEvent {
  event_id: string;
  type: string;
  payload: { [key: string]: Json };
  created_at: Moment;
}

export interface JobArtifact {
  artifact_id: string;
  name: string;
  kind: string;
  sha256: string;
  size: number;
  label: Label;
  created_at: Moment;
}

/** Limits only ever narrow what the configuration grants; null is no limit of its own. */
export interface WorkLimits {
  allowed_tools?: string[] | null;
  allowed_domains?: string[] | null;
  max_files_changed?: number | null;
  max_prs?: number | null;
}

export interface JobShown extends Job {
  turn_id: string;
  spec: {
    job_id: string;
    intent: string;
    repo: string | null;
    inputs: { [key: string]: Json };
    constraints: WorkLimits;
    outputs: { pr_required: boolean; evidence_required: string[] };
  };
  plan: { job_id: string; steps: { step_id: string; description: string; tool: string | null; evidence: string[] }[]; required_evidence: string[] } | null;
  budget: { tokens: number; steps: number };
  tokens: number;
  /** Oldest first; of a long story, the end. */
  events: JobEvent[];
  files: string[];
  artifacts: JobArtifact[];
  /** The manifest, once it is over. */
  evidence: { [key: string]: Json } | null;
  answer: string;
}

export interface NewJob {
  goal: string;
  steps: string[];
  constraints: WorkLimits;
  evidence: string[];
  sop?: string;
}

export interface Sop {
  name: string;
  valid: boolean;
  description: string;
  steps: { id: string; kind: string; tool: string | null }[];
  faults: { step: string; message: string }[];
  file_hash: string;
  labels: Label[];
}

// --- the story of an action -----------------------------------------------------------------------------------------

/** What the owner knows of an end that is not on record. */
export type Resolution = 'executed' | 'not-executed' | 'retry';

export interface StorySigned {
  assertion_id: string;
  purpose: string;
  passkey_id: string;
  passkey_name: string | null;
  device_id: string;
  origin: string;
  signed_at: Moment;
  /** Whether it still verifies over what is stored. */
  holds: boolean;
  disagreements: string[];
}

export interface StoryAttempt {
  number: number;
  begun_at: Moment;
  worker: string | null;
  /** It first asked whether an earlier try had its effect. */
  looked_up: boolean;
  ended_at: Moment | null;
  end: string | null;
  code: string | null;
  receipt_id: string | null;
  next_in_seconds: number | null;
}

export interface StoryEvent {
  seq: number;
  entry_id: string;
  event_type: string;
  entity_id: string;
  payload: Json;
  created_at: Moment;
}

/** Everything that is on record about one action. */
export interface ActionStory {
  action_id: string;
  tool: string;
  identity: string | null;
  args: Json;
  args_hash: string;
  status: ActionStatus;
  attempt: number;
  next_attempt_at: Moment | null;
  uncertain: boolean;
  asked: {
    source: Source;
    source_id: string;
    thread_id: string;
    turn_id: string;
    channel: string | null;
    job_id: string | null;
    job_goal: string | null;
    message: { message_id: string; content: string; created_at: Moment } | null;
    justification: string;
    created_at: Moment;
  };
  taint: Json;
  approval: {
    needed: boolean;
    approved_by: string | null;
    approved_at: Moment | null;
    rejection_reason: string | null;
    expires_at: Moment;
    shown: string | null;
    proof: StorySigned | null;
    signatures: StorySigned[];
  };
  digest: string;
  idempotency_key: string;
  attempts: StoryAttempt[];
  events: StoryEvent[];
  receipts: { place: number; receipt: Receipt; disagreements: string[] }[];
  /** Whether the row, its receipts and their places in the chain all say the same. */
  agrees: boolean;
  disagreements: string[];
  notes: string[];
  updated_at: Moment;
}

// --- schedules ------------------------------------------------------------------------------------------------------

export type TriggerKind = 'cron' | 'interval' | 'at';
export type ScheduleState = 'waits' | 'paused' | 'disabled' | 'over';
export type Misfire = 'run_once' | 'run_all' | 'skip';
export type Overlap = 'skip' | 'queue_one' | 'allow' | 'replace';

export interface Schedule {
  schedule_id: string;
  /** `registry`: the owner's; `followup`: the agent's own. */
  origin: 'registry' | 'followup';
  state: ScheduleState;
  enabled: boolean;
  paused_reason: string | null;
  trigger: TriggerKind;
  cron: string | null;
  every: string | null;
  at: string | null;
  timezone: string;
  /** When it runs, in words. */
  cron_summary: string;
  /** What may surprise about that. */
  cron_notes: string | null;
  next_run_utc: Moment | null;
  /** The same by the clocks of its zone: `2026-02-23 5:00 PM America/Los_Angeles`. */
  next_run_local: string | null;
  /** Runs that failed in a row. */
  failures: number;
  last_run: { at: Moment; status: string } | null;
  goal: string;
  sop: string | null;
  labels: Label[];
  hash: string;
}

export interface ScheduleRun {
  run_instance_id: string;
  schedule_id: string;
  scheduled_at: Moment;
  cause: 'due' | 'late' | 'manual';
  state: 'QUEUED' | 'STARTED' | 'ENDED' | 'SKIPPED';
  job_id: string | null;
  outcome: JobState | null;
  lateness_seconds: number;
  /** Neighbouring slots that were skipped together. */
  slots: number;
  first_slot: Moment;
  reason: string;
  created_at: Moment;
}

export interface ScheduleShown extends Schedule {
  steps: string[];
  constraints: WorkLimits;
  evidence: string[];
  inputs: { [key: string]: Json };
  options: { misfire: Misfire; catch_up_window: string | null; overlap: Overlap; stagger: string; max_failures: number };
  next_runs_utc: Moment[];
  next_runs_local: string[];
  due_at: Moment | null;
  tzdata_version: string;
  running: ScheduleRun[];
  runs: ScheduleRun[];
}

export interface Schedules extends Page<Schedule> {
  followups: Schedule[];
  unreadable: { schedule_id: string; message: string }[];
  registry_broken: string | null;
  registry_changed: boolean;
}

/** What a schedule is declared as; an edit says only what changes. */
export interface ScheduleFields {
  schedule_id?: string;
  trigger?: TriggerKind;
  cron?: string;
  every?: string;
  at?: string;
  timezone?: string;
  goal?: string;
  sop?: string;
  steps?: string[];
  constraints?: WorkLimits;
  evidence?: string[];
  misfire?: Misfire | null;
  catch_up_window?: string | null;
  overlap?: Overlap | null;
  stagger?: string | null;
  max_failures?: number | null;
  enabled?: boolean;
}

export interface PreviewAsk {
  trigger: TriggerKind;
  cron?: string;
  every?: string;
  at?: string;
  timezone?: string;
  count?: number;
}

export type PreviewField = 'trigger' | 'cron' | 'every' | 'at' | 'timezone' | 'after';

/** What a trigger means, or what is wrong with it. */
export interface SchedulePreview {
  valid: boolean;
  fault: string;
  remedy: string;
  faults: { field: PreviewField; fault: string; remedy: string }[];
  cron_summary: string;
  cron_notes: string | null;
  next_runs_utc: Moment[];
  next_runs_local: string[];
}
