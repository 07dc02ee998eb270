/**
 * The types of the panel. What the server takes and answers is in schema.ts, made from its document, and comes from here
 * under the same names; written by hand is only what the document does not name.
 */
import type { Query } from './address.ts';
import type * as S from './schema.ts';

export type * from './schema.ts';

// --- other names ----------------------------------------------------------------------------------------------------

export type {
  Attempt as StoryAttempt,
  Binding as BindRequest,
  CallToCheck as SampleCall,
  ChallengeMade as Challenge,
  Code as PairingCode,
  EstopNow as EstopState,
  Notification as Notice,
  Notifications as Notices,
  PasskeySeen as Passkey,
  Preview as SchedulePreview,
  RegistrationMade as RegistrationChallenge,
  Message,
  Signed as StorySigned,
  SopListed as Sop,
} from './schema.ts';

// --- words that are fields in the document --------------------------------------------------------------------------

/** `owner`, `internal`, or `untrusted:<source>,…`. */
export type Label = S.Artifact['label'];
export type Verdict = S.Decision['verdict'];
export type Risk = S.Decision['risk'];
export type RiskWord = S.Decision['risk_word'];
export type Lane = S.Decision['lane'];
export type Source = S.ActionSummary['source'];
export type ActionStatus = S.ActionSummary['status'];
export type Resolution = S.Resolve['verdict'];
export type Purpose = S.Question['purpose'];
export type JobState = S.Job['state'];
export type JobStatus = S.Job['status'];
export type PullState = S.PullView['state'];
export type MergeMode = S.BotView['mode'];
export type TriggerKind = S.Schedule['trigger'];
export type ScheduleState = S.Schedule['state'];
export type Misfire = S.ScheduleOptions['misfire'];
export type Overlap = S.ScheduleOptions['overlap'];
export type PreviewField = S.PreviewFault['field'];
export type UsageBy = S.UsageReport['by'];

// --- what lists are asked for ---------------------------------------------------------------------------------------

export type ActionsWanted = Pick<Query<'/v1/actions'>, 'status' | 'refusal' | 'tool' | 'lane' | 'q' | 'job_id' | 'session_id'>;
export type JobsWanted = Pick<Query<'/v1/jobs'>, 'status' | 'since'>;
export type AuditWanted = Pick<Query<'/v1/audit'>, 'event_type' | 'entity_id' | 'since' | 'until' | 'quiet'>;
export type ReceiptsWanted = Pick<Query<'/v1/receipts'>, 'status' | 'refusal' | 'tool'>;

/** A piece of a list; `next_cursor` asks for what follows. */
export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}
