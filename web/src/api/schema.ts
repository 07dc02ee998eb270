/** What the server takes and answers, made from docs/openapi.json by scripts/docs.py. Do not edit. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Where a call about an account stands, and the account. */
export interface AccountAnswer {
  account: AccountView;
  action_id: string;
  code: string;
  message: string;
  /** What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing. */
  needs: string;
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
}

/** The accounts of both identities. */
export interface AccountList {
  /** Whether `[google]` has a client id; without one there is nothing to connect. */
  configured: boolean;
  items: AccountView[];
}

/** An account at Google. */
export interface AccountView {
  identity: 'user' | 'bot';
  /** The code of the last use's failure; empty if it succeeded. */
  last_error: string;
  last_used_at: string;
  /** Its mail address; empty while it is not known. */
  mailbox: string;
  scopes: ScopeView[];
  sign_in: SignInView | null;
  /** When it was connected, or stopped being accepted; empty if it is not connected. */
  since: string;
  state: 'not_connected' | 'connected' | 'reconnect';
}

/** Everything about one action. */
export interface ActionDetail {
  action: ActionSummary;
  args: Json;
  /** While it waits for the owner. */
  card: ApprovalCard | null;
  decision: Decision;
  /** Why the story cannot be told; empty when it can. */
  fault: string;
  outcome: ActionOutcome | null;
  /** Who asked, who approved, every attempt and receipt; null when it cannot be told. */
  story: Story | null;
}

/** What an action, or its last attempt, ended with. */
export interface ActionOutcome {
  artifacts: string[];
  code: string;
  /** The output is longer than what is shown. */
  cut: boolean;
  exit: number | null;
  label: string;
  output: string;
  receipt_id: string | null;
  /** What a command wrote, each stream by itself; `output` holds both. */
  stderr: string | null;
  stdout: string | null;
  success: boolean;
}

/** An action as it stands. */
export interface ActionSummary {
  action_id: string;
  approved_by: string | null;
  /** How often its effect was begun. */
  attempt: number;
  /** It is in somebody's hands and its effect may be under way. */
  begun: boolean;
  /** The stable code of the rule that spoke. */
  code: string;
  created_at: string;
  digest: string;
  expires_at: string;
  job_id: string | null;
  justification: string;
  lane: 'A' | 'B' | 'C';
  /** Untrusted sources that may have a hand in it. */
  provenance: string[];
  /** A server outside is asked, also where it only reads there. */
  reaches_out: boolean;
  /** Who said no; null unless it is REJECTED. */
  refusal: 'rejected' | 'denied' | 'withdrawn' | 'expired' | null;
  rejection_reason: string | null;
  risk: 'R0' | 'R1' | 'R2' | 'R3';
  risk_class: 'READ' | 'WRITE' | 'EXFILTRATION';
  risk_word: 'low' | 'medium' | 'high';
  source: 'chat' | 'job' | 'schedule' | 'cli' | 'gateway' | 'sop' | 'session' | 'mcp';
  source_id: string;
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
  /** What it is, in a sentence. */
  summary: string;
  thread_id: string;
  tool: string;
  turn_id: string;
  /** An earlier attempt may have taken effect. */
  uncertain: boolean;
  /** What the gate said: allow, ask or deny. */
  verdict: 'allow' | 'ask' | 'deny';
}

/** The coding programs. */
export interface AdapterList {
  items: AdapterView[];
}

/** An installed version of a coding program. */
export interface AdapterVersion {
  /** New sessions get it. */
  in_use: boolean;
  /** Whether only that ran which its hook allowed. Versions that did not pass cannot be used. */
  proof: 'passed' | 'failed' | 'none';
  version: string;
}

/** A coding program that sessions can run. */
export interface AdapterView {
  name: 'shell' | 'codex' | 'claude' | 'gemini' | 'fake';
  /** Its package at npm. */
  package: string;
  /** The version that a rollback gives to new sessions, or empty. */
  previous: string;
  /** The version that this CoilClaw was tried with. */
  tried_version: string;
  /** Those that are installed here; without one in use no session can run it. */
  versions: AdapterVersion[];
}

/** A folder to work in. */
export interface AddProject {
  /** What the project is called; otherwise its folder's name. */
  name?: string;
  /** The whole path of a folder on the machine that CoilClaw runs on; it may begin with `~`. */
  path: string;
  /** Whether its files count as the owner's; otherwise all of them are untrusted. */
  vouch: boolean;
}

/** What the agent should do. */
export interface AgentDirective {
  text: string;
}

/** Where to go back to. */
export interface AgentRollback {
  /** A branch, a tag or a commit of the agent's repository. */
  ref: string;
}

/** Something a patrol found. Its words are those of the program that found it: untrusted. */
export interface AlertView {
  alert_id: string;
  building: string;
  count: number;
  evidence: { [key: string]: Json };
  fingerprint: string;
  first_seen: string;
  kind: 'lint' | 'test' | 'build' | 'deps' | 'security' | 'suggest';
  last_seen: string;
  mute_reason: string;
  muted_until: string | null;
  repo: string;
  resolved_at: string | null;
  room: string;
  severity: 'info' | 'warning' | 'error' | 'critical';
  state: 'open' | 'muted' | 'resolved';
  summary: string;
}

/** Standing answers, the newest first. */
export interface AnswerList {
  items: AnswerView[];
}

/** An answer to a question of a session. */
export interface AnswerQuestion {
  /** The action's id. */
  approval_id: string;
  decision: 'allow' | 'deny';
  note?: string;
}

/** A yes that holds from now on. */
export interface AnswerView {
  /** The action whose card was answered. */
  action_id: string;
  answer_id: string;
  created_at: string;
  created_by: string;
  expires_at: string | null;
  /** It was neither revoked nor has it expired. */
  holds: boolean;
  last_used_at: string | null;
  revoked_at: string | null;
  /** The folder its calls work in. */
  root: string;
  /** What it covers, in words. */
  scope: string;
  /** The conversation it holds in; null for all. */
  thread_id: string | null;
  until: 'conversation' | 'today' | 'revoked';
  /** How many calls ran by it. */
  uses: number;
  /** Exactly this command, its program with other arguments, or writes below a folder. */
  what: 'command' | 'program' | 'folder' | 'anywhere';
}

/** Where an action stands after an answer. */
export interface Answered {
  action: ActionSummary;
  /** ESTOP is engaged: it goes on when that is cleared. */
  held: boolean;
  /** Only once it is over: nothing is called done before it is. */
  outcome: ActionOutcome | null;
}

/** Whether it needed an approval, and the outcome. */
export interface Approval {
  approved_at: string | null;
  approved_by: string | null;
  expires_at: string;
  needed: boolean;
  /** The passkey signature, verified again. */
  proof: Signed | null;
  rejection_reason: string | null;
  /** The kind of proof: passkey, token, terminal or none. */
  shown: string | null;
  /** Every signature about this action: to approve it, and to resolve it. */
  signatures: Signed[];
}

/** What the owner is asked: the card, made by the gate from stored data, as things stand now. */
export interface ApprovalCard {
  action_id: string;
  approved_by: string | null;
  /** The arguments, as JSON text in which nothing hides. */
  args: string;
  /** What the owner had said in the turn it comes from, the beginning of it on one line; empty when nobody did. */
  asked: string;
  /** It is no longer what was proposed: a yes would end it, and it would have to be proposed again. */
  changed: boolean;
  created_at: string;
  /** Stands for exactly what would be done; hand it back when approving. */
  digest: string;
  expires_at: string;
  human_summary: string;
  /** In whose name it acts at an account; null for a tool without accounts. */
  identity: 'user' | 'bot' | null;
  job_id: string | null;
  lane: 'A' | 'B' | 'C';
  /** Argument values that stand in untrusted content and not in the owner's own words. */
  marked: string[];
  /** What a yes may cover from now on; hand one back as `from_now_on` when approving. */
  offers: Offer[];
  /** What would be done or changed; empty once it is over. */
  preview_or_diff: string;
  proof: 'none' | 'token' | 'passkey';
  /** Untrusted sources that may have a hand in it. */
  provenance: string[];
  /** A server outside is asked, also where it only reads there. */
  reaches_out: boolean;
  reasons: string[];
  rejection_reason: string | null;
  risk: 'R0' | 'R1' | 'R2' | 'R3';
  risk_class: 'READ' | 'WRITE' | 'EXFILTRATION';
  risk_word: 'low' | 'medium' | 'high';
  /** Something in it has the shape of a secret. It is shown all the same: what is hidden cannot be approved. */
  secretive: boolean;
  /** Stands for what the card was compared with; hand it back when approving. */
  seen: string;
  /** The coding session whose program asks, or empty. */
  session_id: string;
  source_type: 'chat' | 'job' | 'schedule' | 'cli' | 'gateway' | 'sop' | 'session' | 'mcp';
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
  target_entity: string;
  thread_id: string;
  tool_name: string;
}

/** A yes to exactly what was shown. */
export interface Approve {
  /** `digest` of the card that was shown. */
  digest: string;
  /** Makes a standing answer of the yes: one of the card's `offers`, and until when. */
  from_now_on?: FromNowOn | null;
  /** A passkey's assertion over this action, where the card says that one is needed. */
  proof?: Assertion | null;
  /** `seen` of the card that was shown. */
  seen: string;
}

/** Which tools to let in, and what each does. */
export interface ApproveGuest {
  classes: { [key: string]: 'reads' | 'sends' | 'writes' };
  /** The `offer` of the guest as it was shown. */
  offer: string;
}

/** An artifact without its bytes. */
export interface Artifact {
  artifact_id: string;
  created_at: string;
  job_id: string | null;
  /** What it is: message (the whole of a long one), report, upload, … */
  kind: string;
  label: string;
  name: string;
  /** Of the bytes as they are kept. */
  sha256: string;
  size: number;
  thread_id: string | null;
  /** Somebody else's words may be in it. */
  untrusted: boolean;
}

/** What to change. */
export interface AskChanges {
  words: string;
}

/** Who asked for it, and where. */
export interface Asked {
  channel: string | null;
  created_at: string;
  job_goal: string | null;
  job_id: string | null;
  justification: string;
  /** None if the turn had none, or it is no longer stored. */
  message: FirstMessage | null;
  source: string;
  source_id: string;
  thread_id: string;
  turn_id: string;
}

/** An answer to a challenge, as a browser sends it, with the challenge it belongs to. */
export interface Assertion {
  challenge_id: string;
  id: string;
  response: AssertionResponse;
}

/** The inner part of what `navigator.credentials.get` returns, base64url throughout. */
export interface AssertionResponse {
  authenticatorData: string;
  clientDataJSON: string;
  signature: string;
  userHandle?: string | null;
}

/** One attempt at the effect. */
export interface Attempt {
  begun_at: string;
  code: string | null;
  /** The event it ended with; None if no outcome is recorded. */
  end: string | null;
  ended_at: string | null;
  /** It first looked up whether an earlier attempt had its effect. */
  looked_up: boolean;
  /** The delay until the next attempt. */
  next_in_seconds: number | null;
  number: number;
  receipt_id: string | null;
  worker: string | null;
}

/** The inner part of what `navigator.credentials.create` returns, base64url throughout. */
export interface AttestationResponse {
  attestationObject: string;
  clientDataJSON: string;
  transports?: string[];
}

/** A recorded event. */
export interface AuditEvent {
  created_at: string;
  entity_id: string;
  entry_id: string;
  event_type: string;
  payload: Json;
  seq: number;
}

/** An event of the ledger, with what it is about. */
export interface AuditLine {
  /** The action's sentence, the job's goal or the conversation's title; empty where there is none. */
  about: string;
  created_at: string;
  entity_id: string;
  entry_id: string;
  event_type: string;
  payload: Json;
  seq: number;
}

/** Who pays; the plan of the configuration counts, a request only narrows it. */
export interface Billing {
  limits?: PlanLimits;
  plan?: 'enterprise' | 'free' | 'team' | null;
}

/** A new device that wants to come in. */
export interface Binding {
  code: string;
  /** The device's name. */
  name: string;
  /**
   * Its signature, in base64url, over `coilclaw pairing 1`, a newline, the code in capitals without dashes, a newline
   * and `public_key`. For P-256 with SHA-256, as r||s or DER.
   */
  proof_of_key: string;
  /** The device's own key, P-256 or Ed25519: SubjectPublicKeyInfo (DER) in base64url, without padding. */
  public_key: string;
  /** Browsers want a cookie that no script can read; other programs a bearer token. */
  wants: 'bearer' | 'cookie';
}

/** The bot's repository and how it merges. */
export interface BotView {
  /** Paths that the mode whitelist merges. */
  allow: string[];
  /** What holds when yolo is over. */
  configured: 'strict' | 'whitelist' | 'yolo';
  /** The commit whose files the workspace holds. */
  deployed: string;
  /** Jobs end in pull requests. */
  enabled: boolean;
  /** Why pull requests cannot be made now, with the remedy; empty when they can. */
  fault: string;
  /** How things stand with GitHub; null when the bot is not there. */
  github: GitHubView | null;
  /** The commit that main is at; empty when there is none. */
  main: string;
  mode: 'strict' | 'whitelist' | 'yolo';
  open_pulls: number;
  /** Copies of main that jobs work in. */
  trees: number;
  yolo_until: string | null;
}

/** One fault. */
export interface Broken {
  detail: string;
  kind: 'edited' | 'missing' | 'reordered' | 'truncated' | 'forked' | 'forged' | 'damaged';
  /** The receipt concerned; 0 if it is about something else. */
  receipt: number;
}

/** What a message for this browser is encrypted with, in base64url. */
export interface BrowserKeys {
  auth: string;
  p256dh: string;
}

/** Buildings, by name. */
export interface BuildingList {
  items: BuildingView[];
}

/** A repository, or a room of it, and how it is. */
export interface BuildingView {
  /** Open and not muted. */
  alerts: number;
  building: string;
  /** 0 to 100; null when nothing is known. */
  health: number | null;
  patrols: PatrolView[];
  repo: string;
  room: string;
}

/** A call that the model proposed, and how it stands now. */
export interface Call {
  action_id: string | null;
  /** What the owner could change so that such a call is no longer denied. */
  allows: SettingChange[];
  /** JSON, as the model wrote it; in a page at most 4,000 characters of it. */
  arguments: string;
  call_id: string;
  /** Why, in a word. */
  code: string;
  justification: string;
  lane: 'A' | 'B' | 'C' | null;
  reasons: string[];
  receipt_id: string | null;
  /** The action that the owner made of it, when it was refused and proposed again by hand. */
  reproposed_id: string | null;
  reproposed_status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN' | null;
  risk: 'R0' | 'R1' | 'R2' | 'R3' | null;
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN' | null;
  /** What it would do, in the sentence of its card; the tool's name where there is none. */
  summary: string;
  tool: string;
  /** The undo that took back what it wrote, or waits to. */
  undo_id: string | null;
  undo_status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN' | null;
  /** What the gate said: allow, ask or deny. */
  verdict: 'allow' | 'ask' | 'deny' | null;
}

/** Where a call of the owner's stands. */
export interface CallAnswer {
  action_id: string;
  code: string;
  message: string;
  /** What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing. */
  needs: string;
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
}

/** A call to try against the rules, and optionally a policy file as if it were there. */
export interface CallToCheck {
  args?: { [key: string]: Json };
  file?: FileToTry | null;
  /** In whose name it would act, where a tool needs to know. */
  identity?: 'bot' | 'user' | null;
  /** Where the call would come from. */
  source?: 'chat' | 'cli' | 'gateway' | 'job' | 'mcp' | 'schedule' | 'session' | 'sop';
  /** Untrusted content its turn would have taken in, such as `untrusted:example.com`. */
  taint?: string[];
  tool: string;
}

/** How an action ended that had waited when the last words were said. */
export interface CameOfIt {
  action_id: string;
  /** Who said no; null unless it is REJECTED. */
  refusal: 'rejected' | 'denied' | 'withdrawn' | 'expired' | null;
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
  /** What it is, in a sentence. */
  summary: string;
}

/** Calling a job off. */
export interface CancelJob {
  /** The reason; it is stored with the job. */
  reason?: string;
}

/** The receipts as they stand. */
export interface ChainNow {
  /** The hash of the newest receipt. */
  hash: string;
  receipts: number;
  /** Whether the chain held when it was last verified; null when that has not been done yet. */
  valid: boolean | null;
  verified_at: string | null;
}

/** The chain at a glance. */
export interface ChainState {
  /** Of the last receipt. */
  hash: string;
  sealed_at: string | null;
  /** How many receipts the newest signed head covers. */
  sealed_size: number;
  size: number;
  /** What the last verification since the start found; null when there was none. */
  verified: Verification | null;
}

/** What the owner wants to prove themselves for. */
export interface ChallengeAsked {
  /** For `device.add`: what the new device shall be. It is signed too. */
  mode?: 'add' | 'first' | 'replace';
  purpose: 'approve' | 'device.add' | 'device.confirm' | 'device.revoke' | 'estop.clear' | 'passkey.add' | 'passkey.clear' | 'passkey.remove' | 'resolve';
  /**
   * The id of what it is about: an action (approve, resolve), a device (device.*; for device.add the one that asks), a
   * passkey (passkey.*; for passkey.add the id of the new one), or `estop`.
   */
  subject: string;
  /** For `resolve`: what will be said of the action. It is signed too. */
  verdict?: 'executed' | 'not-executed' | 'retry';
}

/** A question for a passkey: five minutes, one answer, by this device. */
export interface ChallengeMade {
  challenge_id: string;
  expires_at: string;
  options: RequestOptions;
  /** What is signed; the challenge in `options` is its hash. */
  question: Question;
}

/** Another version for new sessions. */
export interface ChangeAdapter {
  change: 'rollback' | 'use';
  /** With `use`: which. */
  version?: string;
}

/** A file that differs from what was checked out. */
export interface ChangeView {
  added: number;
  path: string;
  removed: number;
  status: string;
}

/** One file that is changed. */
export interface ChangedFile {
  /** It can be run afterwards. */
  executable: boolean;
  kind: 'added' | 'changed' | 'removed';
  new_size: number;
  old_size: number;
  path: string;
}

export interface ChangedProblem {
  code: string;
  detail: string;
  digest?: string;
  instance?: string;
  remedy?: string;
  seen?: string;
  status: number;
  title: string;
  type: string;
}

/** An answer, or where it will be. */
export interface ChatAnswer {
  conversation_id: string;
  /** `pending` when calls wait for the owner; the same turn goes on once they are answered. */
  ending: string;
  state: 'QUEUED' | 'RUNNING' | 'WAITING' | 'ANSWERED' | 'FAILED' | 'STOPPED' | 'INTERRUPTED';
  /** Null while it is being worked on: see GET /v1/chat/turns/{turn_id}. */
  text: string | null;
  turn_id: string;
}

/** One required check of a pull request, run on what the merge would give. */
export interface Check {
  /** What is wrong, a line each; bounded. */
  details: string[];
  /** `coilclaw/paths` and the like, or the name the owner gave it. */
  name: string;
  passed: boolean;
  seconds: number;
  /** One line: what was found. */
  summary: string;
}

/** The checks of a pull request. */
export interface CheckList {
  /** The commit on main they were run against; empty before they ran. */
  checked_sha: string;
  items: Check[];
}

/** What the gate would say. Nothing was run and nothing is stored. */
export interface CheckedCall {
  decision: Decision;
  /** What is wrong with the file that was tried; with any fault, the decision is that of a broken policy. */
  faults: FaultyLine[];
  /** What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing. */
  needs: string;
}

/** What to check out; without a ref the repository's current branch. */
export interface CheckoutRef {
  ref?: string;
  type?: 'branch' | 'commit';
}

/** What the doctor found. */
export interface Checkup {
  checked_at: string;
  probes: Probe[];
  /** The worst of all probes; with `fail`, something the agent cannot do without does not hold. */
  state: 'ok' | 'warn' | 'fail';
}

/** Let things go on. */
export interface ClearEstop {
  /** A passkey's answer to a challenge of purpose `estop.clear`, subject `estop`. */
  proof?: Assertion | null;
}

/** Why it is closed. */
export interface ClosePull {
  reason?: string;
}

/** A code that lets one device in, once. */
export interface Code {
  /** To be typed in on the new device; case, spaces and dashes do not matter. */
  code: string;
  expires_at: string;
  /** What becomes of the other devices when it is used. */
  mode: 'first' | 'add' | 'replace';
  /** Opened on the new device it carries the code, in the part that browsers keep to themselves. */
  url: string;
}

/** What the new device shall be. */
export interface CodeWanted {
  /**
   * `replace` ends all other devices once the new one is in, `add` lets it in beside them, `first` is refused while
   * there is one.
   */
  mode?: 'add' | 'first' | 'replace';
  /** A passkey's assertion (purpose `device.add`, subject the id of the asking device); needed if there is any. */
  proof?: Assertion | null;
}

/** A piece of what a running command writes, redacted; it has no number and is not kept. */
export interface CommandOutput {
  action_id: string;
  /** How many characters were said before; where it is more than was heard, this reader was too slow for the rest. */
  offset: number;
  piece: string;
  thread_id: string;
  turn_id: string;
}

/** A job's own limits; they only narrow what the configuration grants. */
export interface Constraints {
  allowed_domains: string[] | null;
  /** Programs its commands may run. */
  allowed_programs: string[] | null;
  /** Tools it may use. Other names are programs, and are moved to `allowed_programs`. */
  allowed_tools: string[] | null;
  max_files_changed: number | null;
  max_prs: number | null;
}

/** What the model reads with the next message of a conversation, in about so many tokens. */
export interface ContextUse {
  messages: number;
  prompt: number;
  /** How many messages a summary stands for. */
  summarised: number;
  tools: number;
  /** Of all of it together. */
  used: number;
  /** What fits, with the answer. */
  window: number;
}

/** For `PublicKeyCredential.parseCreationOptionsFromJSON`, as it stands. */
export interface CreationOptions {
  attestation: 'none';
  authenticatorSelection: Selection;
  challenge: string;
  excludeCredentials: Descriptor[];
  pubKeyCredParams: Parameters[];
  rp: Party;
  timeout: number;
  user: User;
}

/** The gate's decision on one call, with its reasons (the PolicyDecisionPacket). */
export interface Decision {
  allowed: boolean;
  /**
   * What the owner could change so that this call is no longer denied; empty if something else blocks it too, or if
   * untrusted content is involved.
   */
  allows: SettingChange[];
  code: string;
  job_id: string | null;
  lane: 'A' | 'B' | 'C';
  policy_hash: string;
  reasons: string[];
  recommended_changes: string[];
  requires_approval: boolean;
  risk: 'R0' | 'R1' | 'R2' | 'R3';
  risk_class: 'READ' | 'WRITE' | 'EXFILTRATION';
  risk_level: 'R0' | 'R1' | 'R2' | 'R3';
  risk_word: 'low' | 'medium' | 'high';
  rule: string;
  /** The skills its turn worked under, each as NAME@HASH. */
  skills: string[];
  verdict: 'allow' | 'ask' | 'deny';
}

/** A passkey that is known here, as browsers are told of it. */
export interface Descriptor {
  id: string;
  transports: string[];
  type: 'public-key';
}

/** A paired device. */
export interface Device {
  /** Whether it can still come in: neither revoked nor signed in too long ago. */
  active: boolean;
  /** Whether it may do anything but ask to be vouched for. */
  confirmed: boolean;
  confirmed_at: string | null;
  created_at: string;
  /** Whether it is the one that asks. */
  current: boolean;
  device_id: string;
  /** To the hour. */
  last_seen_at: string | null;
  name: string;
  revoked_at: string | null;
  /** What its token opens: everything, or `/mcp` alone. */
  scope: '' | 'mcp';
}

/** What a session changed. */
export interface Difference {
  /** It is longer than this. */
  cut: boolean;
  files: ChangeView[];
  /** The difference of that file, or of everything; hidden characters by their numbers. */
  patch: string;
  path: string;
}

/** Why it is given up. */
export interface DropQuest {
  reason?: string;
}

/** What is to be changed; what is left out stays. A new time counts from now. */
export interface EditSchedule {
  at?: string;
  catch_up_window?: string | null;
  /** All limits anew. */
  constraints?: WorkLimits;
  cron?: string;
  /** Whether it runs; true also ends a pause. */
  enabled?: boolean;
  /** Another name for `interval`. */
  every?: string;
  evidence?: string[];
  /** What each run is to do, in place of a goal or a procedure. */
  goal?: string;
  /** `hash` of the schedule as it was read: if it is another by now, nothing is changed (412). */
  if_hash?: string;
  /** Inputs to be set; null takes one away. */
  inputs?: { [key: string]: Json };
  interval?: string;
  max_failures?: number | null;
  /** Null for what is usual; so for the four below. */
  misfire?: 'run_all' | 'run_once' | 'skip' | null;
  overlap?: 'allow' | 'queue_one' | 'replace' | 'skip' | null;
  /** What each run does may stand in here instead. */
  payload?: SchedulePayload;
  /** The project that runs work in; null for the workspace. */
  project?: string | null;
  /** The procedure each run follows, in place of a goal or another procedure. */
  sop?: string;
  stagger?: string | null;
  steps?: string[];
  timezone?: string;
  trigger?: 'at' | 'cron' | 'interval';
  /** `cron`, `interval` or `at` may stand in here instead. */
  trigger_config?: TriggerConfig;
  /** Another name for `trigger`. */
  trigger_type?: 'at' | 'cron' | 'interval';
}

/** Where a change of a file stands: it is an action like any other. */
export interface Edited {
  action_id: string;
  code: string;
  decision: Decision;
  message: string;
  /** What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing. */
  needs: string;
  path: string;
  /** EXECUTED: it is written. PENDING: it waits for the owner's approval. APPROVED: it is about to be written. */
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
}

/** Everything decisions rest on. */
export interface EffectivePolicy {
  autonomy: 'readonly' | 'supervised' | 'full';
  /** What is wrong with the policy files; while something is, only reads run. Empty when they hold. */
  broken: string;
  /** What is wrong with config.toml by now; the values in force are those of the last start. */
  faults: string[];
  /** Stands for everything below; every decision and receipt carries it. */
  policy_hash: string;
  rules: EffectiveRule[];
  settings: EffectiveSetting[];
}

/** A rule of a policy file. Rules only ever narrow what the configuration grants. */
export interface EffectiveRule {
  id: string;
  reason: string;
  verdict: string;
  /** What must hold for it to speak. */
  when: Json;
}

/** One option of the configuration as it is in force. */
export interface EffectiveSetting {
  /** Whether the next start would bring another value. */
  changes: boolean;
  description: string;
  /** Its dotted name in config.toml. */
  key: string;
  /** What the file says by now, when that differs; it holds from the next start on. */
  next_value: Json;
  /** `default`, `config.toml`, or `environment NAME`. */
  source: string;
  value: Json;
}

/** Stop everything. */
export interface EngageEstop {
  /** The reason, for the audit. */
  reason?: string;
}

/** Whether everything is stopped. */
export interface EstopNow {
  /** What clearing it takes from this device: `passkey`, or `passkey_missing` while none is registered. */
  clear_needs: string;
  engaged: boolean;
  reason: string;
  /** Whether the audit has been told; otherwise it is as soon as the database can be written. The state holds now. */
  recorded: boolean;
  /** When it was engaged; null when it is not, or when nobody wrote it down. */
  since: string | null;
}

/** Events of a session, in order; each with its fields at one level. */
export interface EventList {
  items: { [key: string]: Json }[];
  /** The number of the newest event there is. */
  last: number;
}

/** The end of a log. */
export interface EvolveLog {
  text: string;
}

/** What the panel shows. */
export interface EvolvePage {
  agent: EvolveView | null;
  directives: string[];
  /** Whether there is a repository. */
  exists: boolean;
  /** The newest main that started well, which a rollback can go back to. */
  last_good: string;
  reports: string[];
  /** What the watcher wrote into COMMS.md. */
  watcher: string[];
}

/** One line of the bootstrap log. */
export interface EvolveStart {
  at: string;
  branch: string;
  detail: string;
  what: string;
}

/** The agent as it stands. */
export interface EvolveView {
  branch: string;
  failures: number;
  /** Why the watcher or ESTOP holds it; empty if neither does. */
  held: string;
  phase: string;
  sha: string;
  since: string;
  starts: EvolveStart[];
  /** What kept the watcher from its work the last time it tried; it tries again. */
  trouble: string;
  /** Whether `evolve up` runs. */
  up: boolean;
  /** Merges that wait for the owner, by action. */
  waiting: string[];
  /** Digest of the wheels that it installs from; empty if it was given none. */
  wheels: string;
}

/** The last thing that was said in a conversation, shortened to a line. */
export interface Excerpt {
  created_at: string;
  role: 'system' | 'user' | 'assistant' | 'tool';
  text: string;
  /** Somebody else's words may be in it. */
  untrusted: boolean;
}

/** Something wrong with a policy file. */
export interface FaultyLine {
  /** Counted from 1. */
  line: number;
  /** Where in the file, such as `$.rules[2].when`. */
  path: string;
  text: string;
}

/** One file of a difference. */
export interface FileDiff {
  binary: boolean;
  /** It is too long to be shown here as a whole. */
  cut: boolean;
  /** It can be run afterwards. */
  executable: boolean;
  kind: 'added' | 'changed' | 'removed';
  new_size: number;
  old_size: number;
  /** The difference as text, hidden characters by their numbers; empty for binary and long files. */
  patch: string;
  path: string;
}

/** One name in a folder. */
export interface FileListed {
  /** A link is named, and never followed. */
  kind: 'file' | 'dir' | 'link' | 'other';
  /** Something there was labelled as untrusted; showing the file tells whether that still counts. */
  labelled: boolean;
  name: string;
  /** In bytes; 0 for what is no file. */
  size: number;
}

/** A policy file that is not written yet. */
export interface FileToTry {
  content: string;
  name: string;
}

/** The owner's message that started it. */
export interface FirstMessage {
  content: string;
  created_at: string;
  message_id: string;
}

/** A folder of the workspace. */
export interface FolderListing {
  /** There are more. */
  cut: boolean;
  /** Folders first, then by name; at most 1000. */
  items: FileListed[];
  /** Below the workspace; empty for the workspace itself. */
  path: string;
}

/** A delivery that was accepted. */
export interface ForgeWoken {
  /** False if it came before, or is of no interest. */
  woken: boolean;
}

/** An approval that is valid from now on. */
export interface FromNowOn {
  until: 'conversation' | 'revoked' | 'today';
  what: 'anywhere' | 'command' | 'folder' | 'program';
}

/** A pairing code for `POST /v1/pairing/bind`. What it lets in has to be confirmed with a passkey. */
export interface GitHubCode {
  code: string;
  expires_at: string;
}

/** What GitHub sent the page back with. */
export interface GitHubReturn {
  code: string;
  /** The verifier (PKCE) whose hash the page sent along. */
  verifier: string;
}

/** How the bot's repository stands with GitHub. */
export interface GitHubView {
  /** What keeps it from being in order, with the remedy; empty when nothing does. */
  fault: string;
  /** A commit on main there that waits for your word; empty when none does. */
  held: string;
  /** Where main stood there at the last look. */
  main: string;
  /** How many requests GitHub allowed for the rest of the hour at the last look; null if it did not say. */
  requests_left: number | null;
  /** The runs of jobs in Actions; empty where none run there. */
  runs_url: string;
  /** When everything was in order last; null if it never was. */
  synced_at: string | null;
  url: string;
}

/** How to sign in with GitHub. */
export interface GitHubWay {
  /**
   * The address to open. The page adds `state`, `code_challenge` (S256 of its verifier) and
   * `code_challenge_method=S256`. Empty where it is not set up, or there is no passkey.
   */
  address: string;
}

/** Where a call about a guest stands, and the guest. */
export interface GuestAnswer {
  action_id: string;
  code: string;
  guest: GuestView;
  message: string;
  /** What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing. */
  needs: string;
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
}

/** Guests, by name. */
export interface GuestList {
  items: GuestView[];
}

/** A tool that a guest offers or offered. */
export interface GuestToolView {
  /** What the guest says of it, in words. */
  claims: string;
  description: string;
  /** What it does, as the owner said; null if it is not let in. */
  kind: 'reads' | 'writes' | 'sends' | null;
  name: string;
  original: string;
  /** Why it cannot be called now; empty when it can, or was never let in. */
  withheld: string;
}

/** A guest: what it is, what it may do, and which of its tools are let in. */
export interface GuestView {
  approved_at: string | null;
  /** What a tool that nobody spoke of counts as: the most that it could do. */
  counts_as: 'reads' | 'writes' | 'sends';
  /** What an approval would cover, beginning with what changed; empty if there is nothing to approve. */
  difference: string;
  /** Why it last could not be used. */
  fault: string;
  kind: 'plugin' | 'stdio' | 'http';
  /** What it is and may do, a sentence each. */
  may: string[];
  name: string;
  /** The hash of what it offers now; an approval names it. Empty if it was never looked at. */
  offer: string;
  /** Tools that cannot be let in, each with the reason. */
  refused: string[];
  state: 'new' | 'approved' | 'changed' | 'off';
  tools: GuestToolView[];
  version: string;
}

/** Somebody is there. Says little else, because anybody may ask. */
export interface Health {
  /** `rejected` while config.toml as it is now is invalid and the last valid one stays in force. */
  config: 'ok' | 'rejected';
  /** `waiting` while another program keeps this one from writing; `/status` says which. */
  database: 'ok' | 'waiting';
  status: 'ok';
}

/** A message that matches. */
export interface Hit {
  conversation_id: string;
  created_at: string;
  label: string;
  message_id: string;
  role: string;
  score: number;
  /** The part around the words. */
  snippet: string;
  /** The same, by the name that other routes use. */
  thread_id: string;
  /** Somebody else's words may be in it. */
  untrusted: boolean;
}

/** What was found, best first. */
export interface Hits {
  items: Hit[];
}

/** A file of findings. */
export interface IntelFile {
  /** Hidden characters by their numbers; empty where it is too long or no text. */
  content: string;
  cut: boolean;
  path: string;
  size: number;
}

/** A file of the agent's findings that stands on main. */
export interface IntelView {
  path: string;
  size: number;
}

/** A job in a list. */
export interface Job {
  /** Tries of the step it is at that failed. */
  attempt: number;
  created_at: string;
  deadline_at: string | null;
  goal: string;
  job_id: string;
  /** When it goes on. */
  next_wakeup_at: string | null;
  progress: JobProgress;
  /** Why it ended, waits or failed last. */
  reason: string;
  /** The schedule it is a run of. */
  schedule_id: string | null;
  /** The procedure it runs. */
  sop: string | null;
  state: 'RECEIVED' | 'PARSED' | 'POLICY_CHECKED' | 'PLANNED' | 'EXECUTING' | 'WAITING_APPROVAL' | 'PR_OPENED' | 'MERGED' | 'DEPLOYED' | 'DONE' | 'DENIED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT' | 'PAUSED_BUDGET';
  /** The state in a coarser word. */
  status: 'PENDING' | 'RUNNING' | 'WAITING_APPROVAL' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'PAUSED_BUDGET';
  thread_id: string;
  updated_at: string;
  waiting: JobQuestion[];
  /** Somebody works on it right now. */
  working: boolean;
}

/** An artifact of a job, without its bytes. */
export interface JobArtifact {
  artifact_id: string;
  created_at: string;
  kind: string;
  label: string;
  name: string;
  sha256: string;
  size: number;
}

/** A job's budget, fixed when it was created. */
export interface JobBudget {
  steps: number;
  tokens: number;
}

/** An event of a job. */
export interface JobEvent {
  created_at: string;
  event_id: string;
  payload: { [key: string]: Json };
  type: string;
}

/** Which model did a part of a job. */
export interface JobModel {
  /** How many answers it gave for that. */
  answers: number;
  model: string;
  /** `spec` (it read the goal), `plan`, or `step 1` and so on. */
  part: string;
  provider: string;
}

/** How far a job has come. */
export interface JobProgress {
  /** Calls of it that the gate has seen so far. */
  calls: number;
  /** Steps of the plan that are over. */
  done: number;
  /** Steps of the plan. */
  of: number;
}

/** The pull request that a job ended in. */
export interface JobPull {
  number: number;
  state: 'OPEN' | 'MERGED' | 'CLOSED';
}

/** What a job waits for the owner to answer. */
export interface JobQuestion {
  action_id: string;
  expires_at: string;
  lane: 'A' | 'B' | 'C';
  risk: 'R0' | 'R1' | 'R2' | 'R3';
  /** What it is, in a sentence. */
  summary: string;
  tool: string;
}

/** Everything there is to say about a job. */
export interface JobShown {
  /** The last thing it said. */
  answer: string;
  /** What it left, without the bytes. */
  artifacts: JobArtifact[];
  /** Tries of the step it is at that failed. */
  attempt: number;
  budget: JobBudget;
  created_at: string;
  deadline_at: string | null;
  /** What happened to it, oldest first; of a long story, the end. */
  events: JobEvent[];
  /** The manifest of what there is to show for it, once it is over. */
  evidence: { [key: string]: Json } | null;
  /** Files it changed. */
  files: string[];
  goal: string;
  job_id: string;
  /** Which model did what. */
  models: JobModel[];
  /** When it goes on. */
  next_wakeup_at: string | null;
  plan: Plan | null;
  progress: JobProgress;
  /** The pull request it ended in. */
  pull: JobPull | null;
  /** Why it ended, waits or failed last. */
  reason: string;
  /** The schedule it is a run of. */
  schedule_id: string | null;
  /** The procedure it runs. */
  sop: string | null;
  spec: JobSpec;
  state: 'RECEIVED' | 'PARSED' | 'POLICY_CHECKED' | 'PLANNED' | 'EXECUTING' | 'WAITING_APPROVAL' | 'PR_OPENED' | 'MERGED' | 'DEPLOYED' | 'DONE' | 'DENIED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT' | 'PAUSED_BUDGET';
  /** The state in a coarser word. */
  status: 'PENDING' | 'RUNNING' | 'WAITING_APPROVAL' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'PAUSED_BUDGET';
  thread_id: string;
  /** Tokens it has used. */
  tokens: number;
  /** What its messages and actions carry. */
  turn_id: string;
  updated_at: string;
  waiting: JobQuestion[];
  /** Somebody works on it right now. */
  working: boolean;
}

/** Intent, scope and constraints of a job (the JobSpecPacket). */
export interface JobSpec {
  /** The agent started it: its goal and steps are the agent's words and never count as the owner's. */
  by_agent: boolean;
  constraints: Constraints;
  /** Length of the chain of the agent's own follow-ups and jobs that led to it; 0 for the owner's own requests. */
  generation: number;
  inputs: { [key: string]: Json };
  intent: string;
  job_id: string;
  outputs: Outputs;
  /** The job that started it; its pull request counts against that one's `max_prs` too. */
  parent_id: string | null;
  repo: string | null;
}

/** An event from the durable sequence; the name of the message is its first topic. */
export interface LiveEvent {
  at: string;
  /** Ids, codes and hashes, never content. */
  data: Json;
  event: Topic;
  /** What it happened to: an action, a job, a conversation, a device. */
  id: string;
  /** Its number in the sequence of all events. */
  seq: number;
  /** The conversation it belongs to; empty when there is none. */
  thread_id: string;
  /** Every list that it makes stale. */
  topics: Topic[];
  /** What happened, such as `tool_completed`. */
  type: string;
}

/** Something that was said in a conversation. */
export interface Message {
  /** The action that this is the result or the outcome of. */
  action_id: string | null;
  /** What the message tells of; when it is `cut`, where the whole of it is kept. */
  artifact: Pointer | null;
  /** Workspace paths that were sent along. */
  attachments: string[];
  /** For role `tool`: the call that this is the result of. */
  call_id: string;
  /** What an answer of the model proposes. */
  calls: Call[];
  code: string;
  /** In a page at most 16,000 characters of it. */
  content: string;
  created_at: string;
  /** There is more: a single message comes whole, up to 64 KiB, and `artifact` holds what is longer. */
  cut: boolean;
  /** Where it came from: `owner`, `internal`, or `untrusted:` and the sources. */
  label: string;
  message_id: string;
  model: string;
  provider: string;
  receipt_id: string | null;
  role: 'system' | 'user' | 'assistant' | 'tool';
  /** For role `tool`: whether it did what was asked. A call that had to wait tells what came of it. */
  success: boolean | null;
  /** For code `SUMMARY`: how many earlier messages it sums up for the model; they all stay above. */
  summarised: number;
  turn_id: string;
  /** For role `system`: how its turn ended, when the message tells that. */
  turn_state: string;
  /** Somebody else's words may be in it. */
  untrusted: boolean;
}

/** A piece of a conversation, in the order it was said. */
export interface Messages {
  /** Hand it back as `after` for what is said later; null while the conversation is empty. */
  after: string | null;
  /** Hand it back as `before` for what was said earlier; null at the beginning. */
  before: string | null;
  items: Message[];
}

/** What became of it. */
export interface ModeSet {
  /** The action that waits for the owner's proof; null when it is done. */
  action_id: string | null;
  bot: BotView;
}

/** What the sessions of an organization used in a month. */
export interface MonthUsage {
  agent_seconds: number;
  /** How many of the input tokens came from the provider's cache. */
  cached_tokens: number;
  /** In millionths of the currency that the prices are in, by the prices at the time of each call. */
  cost_millionths: number;
  files_touched: number;
  input_tokens: number;
  month: string;
  org_id: string;
  output_tokens: number;
  patrol_seconds: number;
  provider: string;
  /** Calls to its model. */
  provider_invocations: number;
  terminal_kb: number;
  /** Tokens of models without a price; the cost leaves them out. */
  unpriced_tokens: number;
}

/** Why and for how long an alert is muted. */
export interface MuteAlert {
  hours: number;
  reason: string;
}

/** `restricted`: no network. `open`: every domain that the configuration allows to boxes. */
export interface Network {
  mode?: 'open' | 'restricted';
}

/** A job to be made. */
export interface NewJob {
  constraints?: WorkLimits;
  /** Names of artifacts it must leave, or it has failed. */
  evidence?: string[];
  /** What is to be done, in the owner's words; may be left out where an SOP or an intent is named. */
  goal?: string;
  /** Further inputs, kept with the job. */
  inputs?: { [key: string]: Json };
  /** The goal, as a JobSpecPacket calls it. */
  intent?: string;
  /** The sender's own id, as in a JobSpecPacket: the same again gives the job it made, which is also found by it. */
  job_id?: string;
  /** What it must leave behind, as a JobSpecPacket says it. */
  outputs?: Outputs;
  /** The repository it is about; null: the workspace. */
  repo?: string | null;
  /** The procedure it runs; its steps are the job's then. */
  sop?: string | null;
  /** The steps of the plan, in order; without any, the goal is the plan. */
  steps?: string[];
  /** The conversation it belongs to; a new one by default. */
  thread_id?: string | null;
}

/** What the owner says. */
export interface NewMessage {
  /** Paths of workspace files to send along, as an upload gave them. */
  attachments?: string[];
  /** The owner's words. */
  content?: string | null;
  /** Another name for `content`; give one of the two. */
  text?: string | null;
}

/** What a device is to be called. */
export interface NewName {
  /** The device's name. */
  name: string;
}

/** A schedule to be made. One of `cron`, `interval` and `at` says when; `goal` or `sop` says what. */
export interface NewSchedule {
  /** The one time it runs: local in its zone, or with an offset. */
  at?: string | null;
  /** How late a missed slot may still be run. */
  catch_up_window?: string | null;
  constraints?: WorkLimits;
  /** Five fields: minute, hour, day of the month, month, day of the week. */
  cron?: string | null;
  enabled?: boolean;
  /** Another name for `interval`. */
  every?: string | null;
  /** Names of artifacts each run must leave. */
  evidence?: string[];
  /** What each run should do. */
  goal?: string | null;
  /** What is told to each run's job with its goal. */
  inputs?: { [key: string]: Json };
  /** Time from one run to the next, such as 90m or 24h. */
  interval?: string | null;
  /** Failures in a row after which it pauses; 0 is never. */
  max_failures?: number | null;
  /** Missed slots: the newest is run (`run_once`), all of them are (`run_all`, at most 20), or none (`skip`). */
  misfire?: 'run_all' | 'run_once' | 'skip' | null;
  /** When the last run is not over: skip the slot, queue one, run beside it, or replace it. */
  overlap?: 'allow' | 'queue_one' | 'replace' | 'skip' | null;
  /** What each run does may stand in here instead. */
  payload?: SchedulePayload | null;
  /** The project that runs work in; the workspace by default. */
  project?: string | null;
  /** Its id; derived from the goal by default. */
  schedule_id?: string | null;
  /** The procedure that each run follows. */
  sop?: string | null;
  /** Starts are spread over so much time. */
  stagger?: string | null;
  /** The steps of each run's plan, in order. */
  steps?: string[];
  /** The IANA zone, such as Europe/Berlin; an interval needs none. */
  timezone?: string | null;
  /** Which of the three says when; may be left out. */
  trigger?: 'at' | 'cron' | 'interval' | null;
  /** `cron`, `interval` or `at` may stand in here instead. */
  trigger_config?: TriggerConfig | null;
  /** Another name for `trigger`. */
  trigger_type?: 'at' | 'cron' | 'interval' | null;
}

/** A subscription, as a browser's `PushSubscription.toJSON()` writes it; further fields are ignored. */
export interface NewSubscription {
  /** Where its push service takes messages: a public https address. */
  endpoint: string;
  keys: BrowserKeys;
}

/** A conversation to be made. */
export interface NewThread {
  /** The configured provider that answers in it; null: the default one. */
  model?: string | null;
  /** The project it works in; empty: the workspace. */
  project?: string;
  /** The conversation's title; one line. */
  title?: string;
}

/** What a page is to sign with its device's key. */
export interface Nonce {
  nonce: string;
}

/** Something to look at. It holds ids only: what they stand for is fetched by whoever may see it. */
export interface Notification {
  created_at: string;
  /** What `entity_id` is the id of. */
  entity: 'action' | 'job' | 'thread' | 'account' | 'guest' | 'session';
  entity_id: string;
  job_id: string | null;
  notification_id: string;
  /** Why the agent reached out; null for the other types. */
  reason: 'operator_attention_needed' | 'clarification_needed' | 'important_update' | 'follow_up_available' | null;
  seen_at: string | null;
  thread_id: string | null;
  type: 'approval_needed' | 'approval_expiring' | 'job_failed' | 'job_completed' | 'proactive_reach_out' | 'alert_raised' | 'session_waiting';
}

/** Notifications, and how many were not seen. */
export interface Notifications {
  items: Notification[];
  /** Hand it back as `cursor` for what follows; null at the end. */
  next_cursor: string | null;
  /** Counted up to a thousand. */
  unseen: number;
}

/** One thing that approving a card may cover from now on. */
export interface Offer {
  /** A description for the owner. */
  text: string;
  until: ('conversation' | 'today' | 'revoked')[];
  what: 'command' | 'program' | 'folder' | 'anywhere';
}

/** Organizations, by name. */
export interface OrgList {
  items: OrgView[];
}

/** Somebody that sessions are run for, and the limits of the plan. */
export interface OrgView {
  /** 0: no limit. */
  minutes_per_month: number;
  minutes_used: number;
  org_id: string;
  plan: string;
  running: number;
  sessions: number;
}

/** What a job must leave behind. */
export interface Outputs {
  evidence_required?: string[];
  pr_required?: boolean;
}

/** Everything for the first screen. */
export interface Overview {
  approvals: OverviewAnswers;
  budget: OverviewBudget;
  /** The oldest first, every day of them. */
  days: OverviewDay[];
  /** ESTOP is engaged: everything is held. */
  estop: boolean;
  evidence: OverviewEvidence;
  /** The same decisions by risk. */
  risks: { [key: string]: number };
  schedules: OverviewRuns;
  /** The first day. */
  since: string;
  /** The fifty that were called most. */
  tools: OverviewTool[];
  /** Decisions of the gate by what it said. */
  verdicts: { [key: string]: number };
  waiting: OverviewWaiting;
}

/** What was put to the owner, and what they said. */
export interface OverviewAnswers {
  approved: number;
  asked: number;
  expired: number;
  /** From a question to its answer; null when there was none. */
  median_wait_seconds: number | null;
  /** Refused by the owner, or withdrawn because nobody needed it any more. */
  rejected: number;
  waiting: number;
}

/** Today's share of the tokens. */
export interface OverviewBudget {
  daily_tokens: number;
  left_today: number;
  used_today: number;
}

/** One day (UTC): the jobs that were made on it by how they stand now, and what was spent on it. */
export interface OverviewDay {
  cancelled: number;
  completed: number;
  /** In millionths of the currency that the prices are in; null when no price is known. */
  cost_millionths: number | null;
  day: string;
  failed: number;
  input_tokens: number;
  /** Jobs that are not over. */
  open: number;
  output_tokens: number;
  /** Tokens of models without a price; the cost leaves them out. */
  unpriced_tokens: number;
}

/** Jobs that are over, and how many of them left all they had to. */
export interface OverviewEvidence {
  complete: number;
  /** The newest thousand at most. */
  looked_at: number;
  percent: number | null;
}

/** Runs of schedules, by how they ended. */
export interface OverviewRuns {
  cancelled: number;
  failed: number;
  queued: number;
  running: number;
  skipped_slots: number;
  started: number;
  succeeded: number;
  /** Of the runs that succeeded or failed; null when there were none. */
  success_percent: number | null;
}

/** Calls of one tool, by what became of them. */
export interface OverviewTool {
  calls: number;
  executed: number;
  failed: number;
  rejected: number;
  tool: string;
  unknown: number;
  /** Not answered, or approved and not carried out yet. */
  waiting: number;
}

/** What waits for the owner now. */
export interface OverviewWaiting {
  approvals: number;
  /** Not seen yet, but for questions that were answered since; counted up to a thousand. */
  notifications: number;
  /** Jobs that stopped because a budget is used up. */
  paused_jobs: number;
  paused_schedules: number;
  /** Actions whose end nobody knows. */
  unknown_actions: number;
  /** Jobs that wait for an approval. */
  waiting_jobs: number;
}

/** A file of the owner as it is now. */
export interface OwnerFile {
  content: string;
  /** Untrusted sources its content may stem from. */
  labels: string[];
  /** Where it is in the workspace. */
  path: string;
  /** Something in it looks like a secret, or is no text, and is not shown: writing this back would lose it. */
  redacted: boolean;
  /** Hand it back as `if_sha256` when you replace the file. Empty when there is no file yet. */
  sha256: string;
  /** In bytes. */
  size: number;
}

/** What the page shows beside its cookie from now on, as `X-CoilClaw-Page`; to be kept in memory alone. */
export interface PageKey {
  page_key: string;
}

/** A page of a list. */
export interface PageOfActionSummary {
  items: ActionSummary[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfAlertView {
  items: AlertView[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfApprovalCard {
  items: ApprovalCard[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfAuditLine {
  items: AuditLine[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfChangedFile {
  items: ChangedFile[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfDevice {
  items: Device[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfFileDiff {
  items: FileDiff[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfIntelView {
  items: IntelView[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfJob {
  items: Job[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfPasskeySeen {
  items: PasskeySeen[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfPolicyFileListed {
  items: PolicyFileListed[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfPullView {
  items: PullView[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfQuestView {
  items: QuestView[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfReceiptLine {
  items: ReceiptLine[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfRunView {
  items: RunView[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfScheduleRun {
  items: ScheduleRun[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfSessionView {
  items: SessionView[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfSkillDetails {
  items: SkillDetails[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfSopListed {
  items: SopListed[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfSopRun {
  items: SopRun[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** A page of a list. */
export interface PageOfThread {
  items: Thread[];
  /** Send it as `cursor` for the next page; null at the end. */
  next_cursor: string | null;
}

/** That a page holds the device's key, which never leaves its origin. */
export interface PageProof {
  nonce: string;
  /** In base64url, over `coilclaw page 1`, a newline, the nonce, a newline and the page's origin. */
  signature: string;
}

/** The device that was let in. */
export interface Paired {
  device: Device;
  /** When it is signed out, unless it is used before; every use puts it off. */
  expires_at: string;
  /** For `Authorization: Bearer`, shown this once; null when it was set as a cookie. */
  token: string | null;
}

/** A kind of signature that is believed. */
export interface Parameters {
  alg: number;
  type: 'public-key';
}

/** Whom a passkey is made for. */
export interface Party {
  id: string;
  name: string;
}

/** The assertion of another passkey that stands behind it. */
export interface PasskeyClearing {
  proof?: Assertion | null;
}

/** A new passkey, and who vouches for it. */
export interface PasskeyMade {
  challenge_id: string;
  credential: Registration;
  name: string;
  /** Needed unless it is the first. */
  proof?: Assertion | null;
}

/** Another name. */
export interface PasskeyName {
  name: string;
}

/** The assertion that stands behind it. */
export interface PasskeyRemoval {
  proof?: Assertion | null;
  /** Also sign out the other devices that used it. */
  sign_out?: boolean;
}

/** A passkey as it is shown; its key stays here. */
export interface PasskeySeen {
  aaguid: string;
  /** Whether it is synchronised to other devices of its owner. */
  backed_up: boolean;
  created_at: string;
  /** From which device it was registered. */
  device_id: string | null;
  last_used_at: string | null;
  name: string;
  /** The credential id, in base64url. */
  passkey_id: string;
  removed_at: string | null;
  /** When its counter went back: it may have been copied, and proves nothing until the owner clears it. */
  suspended_at: string | null;
  transports: string[];
  /** Whether it belongs to the address the panel has now. */
  usable: boolean;
  /** Names of the paired devices that registered it or proved something with it. */
  used_on: string[];
}

/** The job that does it. */
export interface PatrolStarted {
  job_id: string;
}

/** One patrol of a building: how it went last, and before. */
export interface PatrolView {
  /** The owner's own command; empty: what its files suggest. */
  command: string;
  kind: 'lint' | 'test' | 'build' | 'deps' | 'security' | 'suggest';
  last: RunView | null;
  /** The oldest first. */
  trend: TrendPoint[];
}

/** Ordered steps and the evidence they need (the PlanPacket). */
export interface Plan {
  /** A model made it: its steps are the agent's words and never count as the owner's. */
  by_model: boolean;
  job_id: string;
  required_evidence: string[];
  steps: PlanStep[];
}

/** Limits that narrow those of the plan. */
export interface PlanLimits {
  max_concurrency?: number | null;
}

/** One step of a plan and the evidence it must produce. */
export interface PlanStep {
  description: string;
  evidence: string[];
  step_id: string;
  tool: string | null;
  /** Whether it should write files, if a model planned it. */
  writes: boolean | null;
}

/** An artifact: where the whole of a long message is kept, or what was kept in the conversation. */
export interface Pointer {
  artifact_id: string;
  /** Null when it is no longer kept. */
  size: number | null;
}

/** A policy file. */
export interface PolicyFileListed {
  /** Everything that is wrong with it; one broken file lets nothing but reads run. */
  faults: FaultyLine[];
  name: string;
  /** Empty if it is not a regular file or cannot be read. */
  sha256: string;
  /** In bytes. */
  size: number;
  valid: boolean;
}

/** A policy file with its content. */
export interface PolicyFileShown {
  faults: FaultyLine[];
  file: OwnerFile;
  name: string;
  valid: boolean;
}

/** A message that is kept and will be answered, whatever becomes of the client. */
export interface Posted {
  message_id: string;
  state: 'QUEUED' | 'RUNNING' | 'WAITING' | 'ANSWERED' | 'FAILED' | 'STOPPED' | 'INTERRUPTED';
  thread_id: string;
  turn_id: string;
}

/** What a trigger means, or what is wrong with it. */
export interface Preview {
  /** What may surprise about that. */
  cron_notes: string | null;
  /** When it runs, in words. */
  cron_summary: string;
  /** The first of the faults; empty when there is none. */
  fault: string;
  faults: PreviewFault[];
  /** The same by the clocks of the zone. */
  next_runs_local: string[];
  next_runs_utc: string[];
  /** What may surprise about that, as people say it. */
  plain_notes: string[];
  /** When it runs, as people say it. */
  plain_summary: string;
  remedy: string;
  valid: boolean;
}

/** A trigger as far as it is written. One of `cron`, `interval` and `at` says when. */
export interface PreviewAsk {
  /** Runs after this moment are shown; now when left out. */
  after?: string | null;
  at?: string | null;
  count?: number;
  cron?: string | null;
  /** Another name for `interval`. */
  every?: string | null;
  interval?: string | null;
  /** The IANA zone; an interval needs none. */
  timezone?: string | null;
  /** Which of the three counts; may be left out when only one is there. */
  trigger?: 'at' | 'cron' | 'interval' | null;
}

/** Something wrong, and in which field. */
export interface PreviewFault {
  fault: string;
  field: 'trigger' | 'cron' | 'interval' | 'at' | 'timezone' | 'after';
  /** What could be written there instead. */
  meant: string[];
  /** The right spelling, where it can be told. */
  remedy: string;
}

/** One line of the doctor: what was tested, by its behaviour, and what to do if it failed. */
export interface Probe {
  detail: string;
  name: string;
  remedy: string;
  state: 'ok' | 'warn' | 'fail' | 'info';
}

/** An error over HTTP (RFC 9457). */
export interface Problem {
  code: string;
  detail: string;
  instance?: string;
  remedy?: string;
  status: number;
  title: string;
  type: string;
}

/** Projects, by name. */
export interface ProjectList {
  items: ProjectView[];
}

/** A folder of the owner's that the agent may work in. */
export interface ProjectView {
  added_at: string;
  /** How many conversations have worked there. */
  conversations: number;
  /** Why nothing works there now; empty when all is well. */
  fault: string;
  name: string;
  path: string;
  project_id: string;
  /** Its files count as the owner's, unless they are labelled one by one; otherwise all are untrusted. */
  vouched: boolean;
}

/** A receipt, its position in the chain, and what is wrong with it. */
export interface Proof {
  disagreements: string[];
  place: number;
  receipt: Receipt;
}

/** Changes that belong together: all of them are made, or none. */
export interface ProposeSettings {
  changes: SettingChange[];
}

/** Every configured provider, in the order of the configuration. */
export interface ProviderList {
  items: ProviderListed[];
}

/** A configured provider; its key is only ever named. */
export interface ProviderListed {
  /** Where it is, without user and password; empty when it is on no server. */
  base_url: string;
  /** Whether it is the one that answers. */
  default: boolean;
  /** The name of its key; empty when it needs none. */
  key_name: string;
  /** Whether that key is there, in the environment or in the vault. */
  key_set: boolean;
  kind: string;
  /** The providers it passes questions on to. */
  leans_on: string[];
  /** The model it is asked for; empty for a provider that passes questions on. */
  model: string;
  name: string;
}

/** A provider answered. */
export interface ProviderTried {
  /** Which model really answered. */
  model: string;
  name: string;
  seconds: number;
  /** The beginning of its answer. */
  text: string;
}

/** The question whether a session's commits may leave it. */
export interface PullAsked {
  action_id: string;
  /** What approving it takes from this device: `passkey`, `passkey_missing`, or nothing when nothing waits. */
  needs: string;
  /** `EXECUTED`: these commits are a pull request already. */
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
}

/** Everything about a pull request but its difference. */
export interface PullShown {
  /** Its merge question, answered at /v1/approvals; null when nobody is asked now. */
  action_id: string | null;
  base_sha: string;
  body: string;
  branch: string;
  /** The commit on main that the checks were run against; empty before they ran. */
  checked_sha: string;
  checks: 'passed' | 'failed' | 'not run';
  /** When it was deployed. */
  deployed_at: string | null;
  /** It is open, but nobody is asked: the question expired, or checks do not pass. */
  dormant: boolean;
  /** It is not finished: nobody is asked about its merge. */
  draft: boolean;
  /** Where it stands on GitHub; empty if it does not. */
  github_url: string;
  head_sha: string;
  /** The job that made it; null for one that takes another back, for those of the runtime and of sessions. */
  job_id: string | null;
  labels: string[];
  /** It changes what controls the agent, so your review there does not merge it: merge it there, or answer here. */
  merge_on_github: boolean;
  /** The commit on main that merged it; empty before. */
  merged_sha: string;
  /** The merge mode in force. */
  mode: 'strict' | 'whitelist' | 'yolo';
  number: number;
  opened_at: string;
  /** Why it was closed, or taken back after it was merged. */
  reason: string;
  /** The repository that a session's is for; empty for the bot's own. */
  repository: string;
  /** Of its checks. */
  results: Check[];
  /** Of the riskiest path it touches. */
  risk: 'R0' | 'R1' | 'R2' | 'R3';
  /** How often its job was woken to resolve conflicts or to fix what checks found. */
  rounds: number;
  /** The coding session that made it. */
  session_id: string | null;
  state: 'OPEN' | 'MERGED' | 'CLOSED';
  /** Its job took in untrusted content. */
  tainted: boolean;
  /** The branch that a session's is merged into; empty for the bot's own, which is main. */
  target: string;
  title: string;
  updated_at: string;
  /** What the owner asked to be changed and its job has not taken up yet. */
  wanted: string;
}

/** A pull request in a list. */
export interface PullView {
  /** Its merge question, answered at /v1/approvals; null when nobody is asked now. */
  action_id: string | null;
  branch: string;
  checks: 'passed' | 'failed' | 'not run';
  /** When it was deployed. */
  deployed_at: string | null;
  /** It is open, but nobody is asked: the question expired, or checks do not pass. */
  dormant: boolean;
  /** It is not finished: nobody is asked about its merge. */
  draft: boolean;
  /** The job that made it; null for one that takes another back, for those of the runtime and of sessions. */
  job_id: string | null;
  labels: string[];
  number: number;
  opened_at: string;
  /** Why it was closed, or taken back after it was merged. */
  reason: string;
  /** The repository that a session's is for; empty for the bot's own. */
  repository: string;
  /** Of the riskiest path it touches. */
  risk: 'R0' | 'R1' | 'R2' | 'R3';
  /** The coding session that made it. */
  session_id: string | null;
  state: 'OPEN' | 'MERGED' | 'CLOSED';
  /** Its job took in untrusted content. */
  tainted: boolean;
  /** The branch that a session's is merged into; empty for the bot's own, which is main. */
  target: string;
  title: string;
  updated_at: string;
}

/** What a browser needs to subscribe, and what this device has subscribed. */
export interface PushState {
  /** The `applicationServerKey`, in base64url. */
  public_key: string;
  subscriptions: Subscription[];
}

/** The whole new content of a file. */
export interface PutFile {
  content: string;
  /** The hash of the file this replaces, empty when there must be none yet; null to replace whatever is there. */
  if_sha256?: string | null;
}

/** An alert as a task. */
export interface QuestView {
  acceptance: string[];
  alert_id: string;
  /** What the owner will be asked before the work can leave: `merge`, `deps_add`. */
  approvals: string[];
  building: string;
  created_at: string;
  goal: string;
  kind: 'lint' | 'test' | 'build' | 'deps' | 'security' | 'suggest';
  quest_id: string;
  reason: string;
  repo: string;
  /** The run that looked at its branch last. */
  run_id: string;
  session_id: string;
  state: 'offered' | 'taken' | 'in_review' | 'done' | 'dropped';
  title: string;
  updated_at: string;
}

/** What a passkey signs: one thing, in exactly this shape, once. */
export interface Question {
  /** The digest of an action; empty where there is none. */
  digest: string;
  /** Random, so that no two questions are alike. */
  nonce: string;
  purpose: 'approve' | 'resolve' | 'estop.clear' | 'passkey.add' | 'passkey.remove' | 'passkey.clear' | 'device.add' | 'device.confirm' | 'device.revoke';
  /** The id of its subject: an action, a device, a passkey; `estop` for ESTOP. */
  subject: string;
  /** The action's `expires_at`; for other purposes, the challenge's expiry. */
  valid_until: string;
}

/** One attempt's outcome, chained to the one before it. */
export interface Receipt {
  action_id: string;
  /** The standing answer that let it run without asking; omitted from the line if there was none. */
  answer?: string;
  args_hash: string;
  /** Of what the runtime did itself, so without an `action_id`: the action that led to it; omitted if none did. */
  cause?: string;
  code: string;
  conversation_id: string;
  digest: string;
  id: string;
  /** In whose name it was done, the owner's (`user`) or the bot's; omitted if in nobody's. */
  identity?: string;
  policy_hash: string;
  previous_hash: string;
  receipt_hash: string;
  result_hash: string;
  risk: 'low' | 'medium' | 'high';
  risk_level: 'R0' | 'R1' | 'R2' | 'R3';
  status: 'allowed' | 'denied' | 'failed' | 'unknown';
  timestamp: string;
  tool: string;
}

/** One receipt, held against its place in the chain. */
export interface ReceiptDetail {
  /** What the action was, in a sentence; empty when that cannot be told. */
  about: string;
  faults: string[];
  /** It matches its own hash and follows the one before it. */
  holds: boolean;
  number: number;
  /** Null when it cannot be read. */
  receipt: Receipt | null;
  /** Who said no; null unless it is a receipt of that. */
  refusal: 'rejected' | 'denied' | 'withdrawn' | 'expired' | null;
}

/** A receipt in a list. */
export interface ReceiptLine {
  /** What the action was, in a sentence; empty when that cannot be told. */
  about: string;
  number: number;
  receipt: Receipt;
  /** Who said no; null unless it is a receipt of that. */
  refusal: 'rejected' | 'denied' | 'withdrawn' | 'expired' | null;
}

/** A new passkey, as a browser sends it (`credential.toJSON()`). */
export interface Registration {
  id: string;
  response: AttestationResponse;
}

/** What a browser needs to make a passkey. */
export interface RegistrationMade {
  challenge_id: string;
  expires_at: string;
  options: CreationOptions;
  /** Whether a passkey that is registered must vouch for the new one (purpose `passkey.add`). */
  proof_needed: boolean;
}

/** A no. */
export interface Reject {
  /** The reason; the agent sees it. */
  reason?: string;
}

/** A conversation's new title, or who answers in it from now on. */
export interface Renamed {
  /** A configured provider; null for the default one. */
  model?: string | null;
  title?: string;
}

/** How long a token is good now. */
export interface Renewed {
  expires_at: string;
}

/** Repositories, by name. */
export interface RepoList {
  items: RepoRef[];
}

/** A repository: one of `[repos]`, a project, or one at GitHub. */
export interface RepoRef {
  name: string;
  owner?: string;
  provider?: 'github' | 'local' | 'project';
}

/** For `PublicKeyCredential.parseRequestOptionsFromJSON`, as it stands. */
export interface RequestOptions {
  allowCredentials: Descriptor[];
  challenge: string;
  rpId: string;
  timeout: number;
  userVerification: 'required';
}

/** What the owner knows of an end that is not on record. */
export interface Resolve {
  /** A passkey's assertion over this action and this verdict, for lane B and C. */
  proof?: Assertion | null;
  /** `executed`: it was done. `not-executed`: it was not. `retry`: do it again, the same bytes with the same key. */
  verdict: 'executed' | 'not-executed' | 'retry';
}

/** Its result, and the box it ran in. */
export interface Result {
  box_end: string | null;
  box_tier: string | null;
  code: string;
  exit: number | null;
  first_lines: string;
  label: string;
  metadata: { [key: string]: Json };
  output_hash: string;
  success: boolean;
}

/** Where the rollback stands. */
export interface RollbackAnswer {
  action_id: string;
  message: string;
  /** What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing. */
  needs: string;
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
}

/** A patrol to run. */
export interface RunPatrol {
  /** `lint`, `test`, `build`, `deps`, `security`, several with commas, or `all`. */
  kinds?: string;
  repo: string;
  room?: string | null;
}

/** A run with the end of what its command wrote: anybody's words. */
export interface RunShown {
  /** The commit that was looked at. */
  base: string;
  building: string;
  command: string;
  ended_at: string | null;
  failed: number;
  findings: number;
  /** What its output was read as; empty before it was. */
  format: string;
  job_id: string;
  kind: 'lint' | 'test' | 'build' | 'deps' | 'security' | 'suggest';
  output: string;
  passed: number;
  quest_id: string;
  reason: string;
  repo: string;
  room: string;
  run_id: string;
  seconds: number;
  skipped: number;
  started_at: string;
  state: 'running' | 'passed' | 'failed' | 'not_audited' | 'error';
}

/** A run that was asked for. */
export interface RunStarted {
  job_id: string | null;
  run: ScheduleRun;
}

/** A run of a patrol. */
export interface RunView {
  /** The commit that was looked at. */
  base: string;
  building: string;
  command: string;
  ended_at: string | null;
  failed: number;
  findings: number;
  /** What its output was read as; empty before it was. */
  format: string;
  job_id: string;
  kind: 'lint' | 'test' | 'build' | 'deps' | 'security' | 'suggest';
  passed: number;
  quest_id: string;
  reason: string;
  repo: string;
  room: string;
  run_id: string;
  seconds: number;
  skipped: number;
  started_at: string;
  state: 'running' | 'passed' | 'failed' | 'not_audited' | 'error';
}

/** A new token. It is shown once. */
export interface RunnerToken {
  expires_at: string;
  token: string;
  token_id: string;
}

/** What the owner says. */
export interface Said {
  /** Continue this conversation; leave it out for a new one. */
  conversation_id?: string | null;
  /** The owner's words. */
  message: string;
  /** How long to wait for the answer. */
  wait_seconds?: number;
}

/** A file that is in the workspace now. */
export interface Saved {
  action_id: string;
  /** Whose words it counts as: what it says is not the owner's. */
  label: string;
  /** Where it lies in the workspace; the name may carry a number when it was taken. */
  path: string;
  receipt_id: string;
  sha256: string;
  size: number;
}

/** A schedule in a list. */
export interface Schedule {
  at: string | null;
  cron: string | null;
  /** What may surprise about that. */
  cron_notes: string | null;
  /** When it runs, in words. */
  cron_summary: string;
  enabled: boolean;
  /** Runs that failed in a row. */
  failures: number;
  goal: string;
  /** Stands for what is declared; hand it back as `if_hash`, or quoted as If-Match, when changing it. */
  hash: string;
  interval: string | null;
  /** Where a follow-up's words came from. */
  labels: string[];
  last_run: ScheduleLast | null;
  /** The same by the clocks of its zone. */
  next_run_local: string | null;
  next_run_utc: string | null;
  /** `registry`: the owner's; `followup`: the agent's own. */
  origin: 'registry' | 'followup';
  paused_reason: string | null;
  /** What may surprise about that, as people say it. */
  plain_notes: string[];
  /** When it runs, as people say it. */
  plain_summary: string;
  /** The project that runs work in; null for the workspace. */
  project: string | null;
  schedule_id: string;
  sop: string | null;
  /** It waits for its next run; it is paused after failures; it is switched off; it has no further run. */
  state: 'waits' | 'paused' | 'disabled' | 'over';
  timezone: string;
  trigger: 'cron' | 'interval' | 'at';
}

/** The last run that made a job, and how it stands. */
export interface ScheduleLast {
  at: string;
  status: string;
}

/** What happens when a slot was missed, when runs would overlap, and when they fail. */
export interface ScheduleOptions {
  /** Null: any time. */
  catch_up_window: string | null;
  max_failures: number;
  misfire: 'run_once' | 'run_all' | 'skip';
  overlap: 'skip' | 'queue_one' | 'allow' | 'replace';
  stagger: string;
}

/** What each run does, by the names that stand beside it otherwise. */
export interface SchedulePayload {
  constraints?: WorkLimits | null;
  evidence?: string[] | null;
  goal?: string | null;
  inputs?: { [key: string]: Json } | null;
  /** Another name for `goal`. */
  intent?: string | null;
  sop?: string | null;
  steps?: string[] | null;
}

/** One run, or neighbouring slots that were skipped together. */
export interface ScheduleRun {
  /** On time; caught up after it was missed; asked for by the owner. */
  cause: 'due' | 'late' | 'manual';
  created_at: string;
  /** When its job was over. */
  ended_at: string | null;
  first_slot: string;
  job_id: string | null;
  lateness_seconds: number;
  /** How its job ended. */
  outcome: 'RECEIVED' | 'PARSED' | 'POLICY_CHECKED' | 'PLANNED' | 'EXECUTING' | 'WAITING_APPROVAL' | 'PR_OPENED' | 'MERGED' | 'DEPLOYED' | 'DONE' | 'DENIED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT' | 'PAUSED_BUDGET' | null;
  /** Why it was skipped or waits. */
  reason: string;
  run_instance_id: string;
  /** How its job's answer begins, or why it ended. */
  said: string;
  schedule_id: string;
  scheduled_at: string;
  slots: number;
  state: 'QUEUED' | 'STARTED' | 'ENDED' | 'SKIPPED';
}

/** Everything there is to say about a schedule. */
export interface ScheduleShown {
  at: string | null;
  constraints: WorkLimits;
  cron: string | null;
  /** What may surprise about that. */
  cron_notes: string | null;
  /** When it runs, in words. */
  cron_summary: string;
  /** When its next run starts, shifted by the stagger. */
  due_at: string | null;
  enabled: boolean;
  evidence: string[];
  /** Runs that failed in a row. */
  failures: number;
  goal: string;
  /** Stands for what is declared; hand it back as `if_hash`, or quoted as If-Match, when changing it. */
  hash: string;
  /** What is told to each run's job with its goal. */
  inputs: { [key: string]: Json };
  interval: string | null;
  /** Where a follow-up's words came from. */
  labels: string[];
  last_run: ScheduleLast | null;
  /** The same by the clocks of its zone. */
  next_run_local: string | null;
  next_run_utc: string | null;
  next_runs_local: string[];
  next_runs_utc: string[];
  options: ScheduleOptions;
  /** `registry`: the owner's; `followup`: the agent's own. */
  origin: 'registry' | 'followup';
  paused_reason: string | null;
  /** What may surprise about that, as people say it. */
  plain_notes: string[];
  /** When it runs, as people say it. */
  plain_summary: string;
  /** The project that runs work in; null for the workspace. */
  project: string | null;
  /** Runs that are queued or not over. */
  running: ScheduleRun[];
  /** The last runs, newest first. */
  runs: ScheduleRun[];
  schedule_id: string;
  sop: string | null;
  /** It waits for its next run; it is paused after failures; it is switched off; it has no further run. */
  state: 'waits' | 'paused' | 'disabled' | 'over';
  steps: string[];
  timezone: string;
  trigger: 'cron' | 'interval' | 'at';
  tzdata_version: string;
}

/** A schedule whose row cannot be read. */
export interface ScheduleUnreadable {
  message: string;
  schedule_id: string;
}

/** Schedules, and what is wrong with them. */
export interface Schedules {
  /** What the agent planned for itself and is still to come; on the first page only. */
  followups: Schedule[];
  /** The owner's, by name. */
  items: Schedule[];
  /** Hand it back as `cursor` for what follows; null at the end. */
  next_cursor: string | null;
  /** What is wrong with cron/jobs.json; the schedules that were last good go on. */
  registry_broken: string | null;
  /** The file says something else than what runs; a worker takes it over within a second. */
  registry_changed: boolean;
  unreadable: ScheduleUnreadable[];
}

/** One thing that an account may be allowed to do. */
export interface ScopeView {
  granted: boolean;
  /** Google's name for it. */
  scope: string;
  /** The same in plain words. */
  words: string;
}

/** What that changed. */
export interface Seen {
  /** Notifications that were not seen before. */
  seen: number;
  /** Counted up to a thousand. */
  unseen: number;
}

/** What was seen. */
export interface SeenUntil {
  /** The id of the newest notification that was seen; it and all before it are. */
  until: string;
}

/** What an authenticator must be able to do. */
export interface Selection {
  requireResidentKey: boolean;
  residentKey: 'preferred';
  userVerification: 'required';
}

/** Narrows what the configuration allows; it never widens it. */
export interface SessionPolicy {
  /**
   * Paths of the checkout whose files are hidden in the box. What was committed there is still in its history; commits
   * that change such a path do not leave the session.
   */
  forbidden_paths?: string[];
  network?: Network;
  /**
   * What a coding program asks for although its lists allow it: programs, or every `command` or `write`. `deps_add`,
   * `secrets` and `deploy` always ask; with `merge` its pull request does, although its repository has `auto_merge`.
   */
  requires_approval_for?: string[];
  /** The only programs in the box, beside its shell. */
  shell_allowlist?: string[] | null;
  /** A single word is a program that is absent in the box; more words are refused as a line of input. */
  shell_denylist?: string[];
}

/** A session that was started, or waits for the owner. */
export interface SessionStarted {
  /** What approving it takes from this device: `passkey`, `passkey_missing`, or nothing when nothing waits. */
  needs: string;
  session: SessionView;
  session_id: string;
  workspace_id: string;
  worktree_path: string;
}

/** A family of sessions, parents before those that they began. */
export interface SessionTree {
  items: SessionView[];
}

/** A session. */
export interface SessionView {
  /** The action that started it. */
  action_id: string;
  /** The commit that was checked out. */
  base: string;
  branch: string;
  /** Why it ended. */
  code: 'EXITED' | 'STOPPED' | 'ESTOP' | 'LOST' | 'LIMIT' | 'INTERRUPTED' | 'CHECKOUT_FAILED' | 'START_FAILED' | 'OVER_PLAN' | 'UNGUARDED' | '';
  created_at: string;
  ended_at: string | null;
  exit_code: number | null;
  /** The job that it belongs to, or empty. */
  job_id: string;
  mode: 'read' | 'write';
  org_id: string;
  /** The session that began it, or empty. */
  parent_id: string;
  provider: string;
  reason: string;
  repo: RepoRef;
  room_path: string;
  /** The number of its last event. */
  seq: number;
  session_id: string;
  size: Size;
  started_at: string | null;
  /** `WAITING_FOR_APPROVAL` while a question of it is in the queue. */
  state: 'CREATED' | 'PREPARING_WORKSPACE' | 'STARTING_PROVIDER' | 'RUNNING' | 'WAITING_FOR_APPROVAL' | 'PAUSED_BY_HUMAN' | 'STOPPING' | 'COMPLETED' | 'FAILED';
  /** Without a screen of its own. */
  structured: boolean;
  task: Task;
  /** The conversation that it belongs to, or empty. */
  thread_id: string;
  usage: Units;
  /** The actions that wait for the owner's answer: what it asked for, or its own start. */
  waiting: string[];
  workspace_id: string;
  /** Its checkout; empty before there is one. */
  worktree_path: string;
}

/** Which pull requests merge without a question. */
export interface SetMode {
  /** How long yolo lasts; only for yolo. */
  hours?: number | null;
  mode: 'strict' | 'whitelist' | 'yolo';
}

/** One changed key. */
export interface SettingChange {
  /** Its dotted name in config.toml. */
  key: string;
  /** `add` and `remove` change one item of a list. */
  op?: 'add' | 'remove' | 'set' | 'unset';
  /** The value, or the item; omitted for `unset`. */
  value?: string | boolean | number | string[] | { [key: string]: string } | null;
}

/** Which file is to be shown. */
export interface ShowFile {
  /** Where it is in the workspace. */
  path: string;
}

/** A workspace file as it is now. Showing it is an action like any other. */
export interface ShownFile {
  action_id: string;
  /** Its text, without secrets; empty when it is none. */
  content: string;
  /** It is a text, and there is more of it than is shown. */
  cut: boolean;
  /** The bytes of a PNG, JPEG, GIF or WebP of at most 1 MiB and 16 million pixels, in base64; empty for all else. */
  image: string;
  /** What it is, by its first bytes and never by its name. */
  kind: 'text' | 'png' | 'jpeg' | 'gif' | 'webp' | 'pdf' | 'zip' | 'other';
  /** Where it came from: `owner`, `internal`, or `untrusted:` and the sources. */
  label: string;
  path: string;
  /** Of all its bytes, as the receipt's action has it. */
  sha256: string;
  /** In bytes. */
  size: number;
  /** Somebody else's words may be in it. */
  untrusted: boolean;
}

/** Who asks, and what the panel needs to know first. */
export interface SignIn {
  confirmed: boolean;
  device: Device;
  /** Whether everything is stopped. */
  estop: boolean;
  /** Where the panel is opened. */
  origin: string;
  /** Until when this device may register the first passkey; null when it may not. */
  passkey_window_ends_at: string | null;
  /** How many passkeys there are. */
  passkeys: number;
  version: string;
  /** How the token was shown. */
  way: 'cookie' | 'bearer';
}

/** A sign-in that is under way. */
export interface SignInView {
  /** What to open in a browser. */
  address: string;
  fault: string;
  state: 'waiting' | 'answered' | 'failed';
}

/** A passkey signature, and what is wrong with it. */
export interface Signed {
  assertion_id: string;
  /** The device it was given at. */
  device_id: string;
  disagreements: string[];
  /** Whether it still verifies over what is stored. */
  holds: boolean;
  origin: string;
  passkey_id: string;
  /** None if no such passkey was ever registered here. */
  passkey_name: string | null;
  purpose: string;
  signed_at: string;
}

/** Where a browser on another machine ended. */
export interface SignedIn {
  /** The whole address from the browser's address bar. */
  address: string;
}

/** The size of a terminal in characters. */
export interface Size {
  columns?: number;
  rows?: number;
}

/** The open work. */
export interface Sizes {
  /** Actions approved and not yet executed. */
  approved: number;
  /** Unfinished jobs. */
  open_jobs: number;
  /** Actions with an unknown outcome; the owner resolves them. */
  unknown: number;
  /** Actions pending approval. */
  waiting: number;
}

/** A skill: what it is for, what is wrong with it, and what it narrows. */
export interface SkillDetails {
  /** What it is for. */
  description: string;
  /** The only domains it leaves; null leaves them all. */
  domains: string[] | null;
  /** What a job under it must leave. */
  evidence: string[];
  /** What is wrong with the file; it is not used while there are any. */
  faults: string[];
  /** What a job under it must be given. */
  inputs: string[];
  /** The intent of jobs that it is for; empty when it is guidance. */
  intent: string;
  /** Untrusted sources its content may stem from; it is not used while there are any. */
  labels: string[];
  name: string;
  sha256: string;
  /** In bytes; 0 when its file cannot be read. */
  size: number;
  /** The only tools it leaves; null leaves them all. */
  tools: string[] | null;
  /** Words in a message that it is taken up for. */
  triggers: string[];
  /** What it names and the configuration does not grant; that stays denied. */
  ungranted: string[];
}

/** A skill with its text. */
export interface SkillShown {
  details: SkillDetails;
  file: OwnerFile;
  name: string;
  /** Where it was used, the newest first. */
  uses: SkillUsed[];
}

/** A turn or a job that worked under a skill. */
export interface SkillUsed {
  at: string;
  job_id: string | null;
  /** Of the file as it was then. */
  sha256: string;
  /** Empty when it is not known any more. */
  thread_id: string;
  turn_id: string;
  why: string;
}

/** Something wrong with a procedure. */
export interface SopFault {
  message: string;
  /** The step it is in; empty when it is the file as a whole. */
  step: string;
}

/** A procedure in the workspace. */
export interface SopListed {
  description: string;
  faults: SopFault[];
  file_hash: string;
  /** Untrusted sources its content may stem from: a run of it is tainted by them. */
  labels: string[];
  name: string;
  steps: SopStepListed[];
  valid: boolean;
}

/** A run of a procedure in a list. */
export interface SopRun {
  /** What it waited for has its answer, and it has not gone on yet. */
  answered: boolean;
  created_at: string;
  /** The job whose work it is; null when it was begun at a terminal. */
  job_id: string | null;
  /** The procedure. */
  name: string;
  /** Steps it has. */
  of: number;
  /** Why it waits, or how it ended. */
  reason: string;
  run_id: string;
  state: 'RUNNING' | 'WAITING' | 'DONE' | 'FAILED';
  /** The step it stands at, counted from 1; of one that is over, the last it came to. */
  step: number;
  /** What that step is called. */
  step_id: string;
  thread_id: string;
  updated_at: string;
  waiting: JobQuestion[];
  /** Somebody works on it right now; one that is RUNNING without was cut off. */
  working: boolean;
}

/** A run with its steps. */
export interface SopRunShown {
  /** What it waited for has its answer, and it has not gone on yet. */
  answered: boolean;
  /** The file is another by now; the run keeps the steps it was begun with. */
  changed: boolean;
  created_at: string;
  description: string;
  /** Of the file as it was when the run began. */
  file_hash: string;
  /** The job whose work it is; null when it was begun at a terminal. */
  job_id: string | null;
  /** Untrusted sources that it has met. */
  labels: string[];
  /** The procedure. */
  name: string;
  /** Steps it has. */
  of: number;
  /** Why it waits, or how it ended. */
  reason: string;
  run_id: string;
  state: 'RUNNING' | 'WAITING' | 'DONE' | 'FAILED';
  /** The step it stands at, counted from 1; of one that is over, the last it came to. */
  step: number;
  /** What that step is called. */
  step_id: string;
  steps: SopRunStep[];
  thread_id: string;
  updated_at: string;
  waiting: JobQuestion[];
  /** Somebody works on it right now; one that is RUNNING without was cut off. */
  working: boolean;
}

/** A step of a run, begun or not. */
export interface SopRunStep {
  /** Its call, or the last one of the agent that it waits for. */
  action_id: string | null;
  action_status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN' | null;
  /** Where all of it is, when it is long. */
  artifact_id: string | null;
  code: string;
  /** There is more of it than `output` has. */
  cut: boolean;
  ended_at: string | null;
  id: string;
  kind: string;
  label: string;
  /** The beginning of what it left. */
  output: string;
  /** What the agent was told or the owner is asked; empty for a tool. */
  prompt: string;
  started_at: string | null;
  state: 'TO_DO' | 'RUNNING' | 'WAITING' | 'HELD' | 'SUCCEEDED' | 'FAILED' | 'SKIPPED';
  tool: string | null;
  /** How often it was begun. */
  tries: number;
  /** The condition without which it is skipped. */
  when: string;
}

/** A step of a procedure. */
export interface SopStepListed {
  id: string;
  kind: string;
  tool: string | null;
}

/** A session to start. */
export interface StartSession {
  billing?: Billing;
  checkout?: CheckoutRef;
  /** The job that it belongs to, if any. */
  job_id?: string;
  /** `read`: the checkout cannot be changed. */
  mode?: 'read' | 'write';
  org_id?: string;
  /** The session that began it. Nobody else can say so: a request with one is refused. */
  parent_id?: string;
  policy?: SessionPolicy;
  /** What runs in it: a shell for you, or a coding program that works on the task. */
  provider?: 'claude' | 'codex' | 'fake' | 'gemini' | 'shell';
  /** Wait for a free place instead of being refused when the plan's sessions are all in use. */
  queue?: boolean;
  repo: RepoRef;
  /** The folder of the checkout that the session begins in. */
  room_path?: string;
  size?: Size;
  /**
   * Without a screen of its own: the coding program works on the task, its words are shown as lines, and it ends when
   * it is done. A line that is typed is its next prompt.
   */
  structured?: boolean;
  task?: Task;
  /** The conversation that it belongs to, if any. Only the owner's own devices say so. */
  thread_id?: string;
}

/** How things stand. */
export interface StatusNow {
  autonomy: 'readonly' | 'supervised' | 'full';
  chain: ChainNow;
  /** Why config.toml as it is now is not in force; empty when it is. */
  config_fault: string;
  estop: EstopNow;
  /** The model that is asked for. */
  model: string;
  /** A policy file is broken, so only reads run. */
  policy_broken: boolean;
  provider: string;
  queue: Sizes;
  started_at: string;
  uptime_seconds: number;
  version: string;
  /** Who keeps the database from being written, and what to do about it; empty when nobody does. */
  waiting_for: string;
  /** Whether some process works on jobs and carries out what is approved. */
  worker: boolean;
}

/** Everything recorded about one action. */
export interface Story {
  action_id: string;
  /** Whether the row, its receipts and their positions in the chain agree. */
  agrees: boolean;
  approval: Approval;
  args: Json;
  args_hash: string;
  asked: Asked;
  attempt: number;
  attempts: Attempt[];
  decision: { [key: string]: Json };
  digest: string;
  disagreements: string[];
  events: AuditEvent[];
  idempotency_key: string;
  identity: string | null;
  next_attempt_at: string | null;
  notes: string[];
  receipts: Proof[];
  result: Result | null;
  /** Which skills its turn worked under, why, and what each left; or that none matched. */
  skills: AuditEvent[];
  status: string;
  taint: Json;
  tool: string;
  uncertain: boolean;
  updated_at: string;
}

/** The story of an action, and what it is. */
export interface StoryTold {
  /** What it is, in a sentence; empty when that cannot be told. */
  about: string;
  action_id: string;
  /** Whether the row, its receipts and their positions in the chain agree. */
  agrees: boolean;
  approval: Approval;
  args: Json;
  args_hash: string;
  asked: Asked;
  attempt: number;
  attempts: Attempt[];
  decision: { [key: string]: Json };
  digest: string;
  disagreements: string[];
  events: AuditEvent[];
  idempotency_key: string;
  identity: string | null;
  next_attempt_at: string | null;
  notes: string[];
  receipts: Proof[];
  /** Who said no; null unless it is REJECTED. */
  refusal: 'rejected' | 'denied' | 'withdrawn' | 'expired' | null;
  result: Result | null;
  /** Which skills its turn worked under, why, and what each left; or that none matched. */
  skills: AuditEvent[];
  status: string;
  taint: Json;
  tool: string;
  uncertain: boolean;
  updated_at: string;
}

/** These numbers are missing. `from` beyond `to`: they never existed, and the stream continues at `to`. */
export interface StreamGap {
  from: number;
  to: number;
}

/** The first message of every stream. */
export interface StreamHello {
  /** The server's clock. */
  now: string;
  /** The number of the newest event. */
  seq: number;
  version: string;
}

/** One message of the event stream; `data` is sent as one line of JSON. */
export type StreamMessage =
  | { data: StreamHello; event: 'hello' }
  | { data: StreamGap; event: 'gap' }
  | { data: TextDelta; event: 'text' }
  | { data: CommandOutput; event: 'command_output' }
  | { data: LiveEvent; event: Topic };

/** A browser of this device that is told while the panel is closed. */
export interface Subscription {
  created_at: string;
  /** The SHA-256 of its endpoint, in hex: a browser finds out whether its own subscription is among them. */
  endpoint_sha256: string;
  /** The push service. */
  host: string;
  subscription_id: string;
}

/** Who works on it. */
export interface TakeQuest {
  provider?: string;
}

/** What the session is for. */
export interface Task {
  acceptance?: string[];
  constraints?: string[];
  goal?: string;
  title?: string;
}

/** A piece of an answer that is being written; it has no number and is not stored. */
export interface TextDelta {
  /** The number of characters before it. */
  offset: number;
  text: string;
  thread_id: string;
  turn_id: string;
}

/** A conversation. */
export interface Thread {
  /** What came of it after the last words were said; null while anything of it is open, and when nothing did. */
  came_of_it: CameOfIt | null;
  /** Where it was begun: panel, cli, job, … */
  channel: string;
  created_at: string;
  last: Excerpt | null;
  /** How many; counted up to 10,000. */
  messages: number;
  /** The provider that was chosen to answer in it; null: the default one. */
  model: string | null;
  /** The name of the project it works in; null for the workspace. */
  project: string | null;
  /** The turn that is being answered now. */
  running_turn_id: string | null;
  thread_id: string;
  title: string;
  updated_at: string;
  /** Actions of this conversation that wait for the owner. */
  waiting_approvals: number;
  /** Messages that wait for their turn. */
  waiting_turns: number;
}

/** What a page shows beside its cookie to open one WebSocket, as the second protocol, within half a minute. */
export interface Ticket {
  ticket: string;
}

/** What a token is to open. */
export interface TokenRequest {
  access: 'drive' | 'watch';
  org_id: string;
  repo_id?: string | null;
  session_id?: string | null;
}

/** Every tool there is. */
export interface ToolList {
  items: ToolListed[];
}

/** A tool, and what a plain call of it would be told. */
export interface ToolListed {
  always_ask: boolean;
  description: string;
  destination: 'internal' | 'workspace' | 'machine' | 'external';
  effect: 'READ' | 'WRITE' | 'EXFILTRATION';
  idempotent: boolean;
  /** A: this machine. B: outside it. C: what governs the agent itself. Arguments can raise it. */
  lane: 'A' | 'B' | 'C';
  name: string;
  /** JSON Schema of the arguments. */
  parameters: { [key: string]: Json };
  reasons: string[];
  /** The least it can be; arguments can raise it. */
  risk: 'R0' | 'R1' | 'R2' | 'R3';
  /** What the gate says to a plain call now: run, ask the owner, or deny. */
  verdict: 'allow' | 'ask' | 'deny';
}

/** What an event is about. */
export type Topic =
  | 'thread'
  | 'action'
  | 'approval'
  | 'job'
  | 'pull'
  | 'session'
  | 'patrol'
  | 'evolve'
  | 'sop'
  | 'schedule'
  | 'receipt'
  | 'notification'
  | 'estop'
  | 'device'
  | 'settings'
  | 'ledger';

/** How one past run went. */
export interface TrendPoint {
  at: string;
  failed: number;
  findings: number;
  state: 'running' | 'passed' | 'failed' | 'not_audited' | 'error';
}

/** When it runs: one of `cron`, `interval` and `at`. */
export interface TriggerConfig {
  at?: string | null;
  cron?: string | null;
  /** An interval in seconds. */
  every_seconds?: number | null;
  interval?: string | null;
}

/** One message of the owner and its answer. */
export interface Turn {
  /** The last word, once it is answered. */
  answer: string | null;
  /** Why it failed, in a word. */
  code: string;
  created_at: string;
  ended_at: string | null;
  /**
   * Once answered: `answered`, `pending` (calls wait for the owner), `max_rounds`, `budget` (it had to end) or `stuck`
   * (the same call kept giving the same result).
   */
  ending: string;
  /** The owner's message. */
  message_id: string;
  /** What the model has said so far, while it runs. A text event replaces everything from its offset on. */
  partial: string;
  reason: string;
  started_at: string | null;
  /** QUEUED and RUNNING go on, WAITING does once its calls are answered; the others are final. */
  state: 'QUEUED' | 'RUNNING' | 'WAITING' | 'ANSWERED' | 'FAILED' | 'STOPPED' | 'INTERRUPTED';
  thread_id: string;
  turn_id: string;
}

/** Input for a session. */
export interface TypeIn {
  data: string;
  /** `line`: with Enter after it. */
  mode?: 'line' | 'raw';
}

/** An undo that waits for the owner: its card names every file. */
export interface UndoProposed {
  action_id: string;
  /** `write`: only what was asked for. `turn`: everything since the turn began, where one write cannot be told. */
  scope: 'write' | 'turn';
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
}

/** What is to be taken back: what an action wrote, or the last writing of a file. */
export interface UndoWrite {
  /** An action that wrote in the workspace. Empty when a path is named. */
  action_id?: string;
  /** A file of the workspace. Empty when an action is named. */
  path?: string;
}

/** What a session used. */
export interface Units {
  agent_seconds: number;
  /** How many of the input tokens came from the provider's cache. */
  cached_tokens: number;
  /** In millionths of the currency that the prices are in, by the prices at the time of each call. */
  cost_millionths: number;
  files_touched: number;
  input_tokens: number;
  output_tokens: number;
  /** Calls to its model. */
  provider_invocations: number;
  terminal_kb: number;
  /** Tokens of models without a price; the cost leaves them out. */
  unpriced_tokens: number;
}

/** What one group took, and what it cost as far as prices are known. */
export interface UsageBill {
  answers: number;
  /** How many of the input tokens came from a provider's cache, as it reports them. */
  cached_tokens: number;
  /** In millionths of the currency that the prices are in; null when no price is known. */
  cost_millionths: number | null;
  /** How many of the tokens are our own estimate, because a provider did not say. */
  estimated_tokens: number;
  /** The model, the provider, the day as 2026-03-01, or the job; empty for what belongs to no job. */
  group: string;
  input_tokens: number;
  output_tokens: number;
  /** Tokens of models without a price; the cost leaves them out. */
  unpriced_tokens: number;
}

/** The ceilings, and what is left of them today. */
export interface UsageBudgets {
  daily_tokens: number;
  /** What one job may use. */
  job_tokens: number;
  left_today: number;
  /** What one turn may use. */
  turn_tokens: number;
  used_today: number;
}

/** What sessions used, by organization, month and provider. */
export interface UsageList {
  items: MonthUsage[];
}

/** What answers took. */
export interface UsageReport {
  budgets: UsageBudgets;
  by: 'model' | 'provider' | 'day' | 'job';
  rows: UsageBill[];
  since: string;
  total: UsageBill;
}

/** Whose passkey it is. */
export interface User {
  displayName: string;
  id: string;
  name: string;
}

/** What verification found. */
export interface Verification {
  /** When it began. */
  at: string;
  /** The first broken link, and its kind. */
  broken: Broken | null;
  /** How many signed heads it was compared with. */
  heads: number;
  notes: string[];
  /** How many are valid, counted from the first. */
  receipts: number;
  valid: boolean;
}

/** Which file the owner vouches for, as they were shown it. */
export interface VouchFile {
  path: string;
  /** Of what was shown: nobody vouches for what they have not seen. */
  sha256: string;
}

/** A vouching that waits for the owner's proof: its card names every label that goes. */
export interface VouchProposed {
  action_id: string;
  /** What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing. */
  needs: string;
  status: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN';
}

/** How many actions wait for the owner's word. */
export interface Waiting {
  lanes: WaitingLanes;
  total: number;
}

/** How many wait, by lane. */
export interface WaitingLanes {
  /** They stay on this machine. */
  A: number;
  /** They leave it. */
  B: number;
  /** They govern the agent. */
  C: number;
}

/** A delivery that was accepted. */
export interface WebhookTaken {
  /** False if it came before, or a patrol that has not begun will see it anyway. */
  started: boolean;
}

/** A passkey's answer, where one is needed. */
export interface WithProof {
  /** The assertion over a challenge of `POST /v1/passkeys/challenge`. */
  proof?: Assertion | null;
}

/** Limits of a job; they only ever narrow what the configuration grants. */
export interface WorkLimits {
  /** The hosts it may reach; null: all that are listed. */
  allowed_domains?: string[] | null;
  /** The programs its commands may run; null: all it is given. */
  allowed_programs?: string[] | null;
  /** The tools it may use; null: all it is given. Names that are no tools are programs its commands may run. */
  allowed_tools?: string[] | null;
  /** Number of workspace files it may change. */
  max_files_changed?: number | null;
  /** Number of pull requests it may open. */
  max_prs?: number | null;
}

/**
 * Every operation by method and path: what fills the path, what is asked in the query, what is sent, what is answered.
 * An answer that is no JSON is a Response.
 */
export interface Routes {
  DELETE: {
    '/runner/v1/sessions/{session_id}': { path: { session_id: string }; answer: undefined };
    '/v1/answers/{answer_id}': { path: { answer_id: string }; answer: AnswerView };
    '/v1/chat/threads/{thread_id}': { path: { thread_id: string }; answer: undefined };
    '/v1/projects/{project_id}': { path: { project_id: string }; answer: undefined };
    '/v1/push/subscriptions/{subscription_id}': { path: { subscription_id: string }; answer: undefined };
    '/v1/schedules/{schedule_id}': { path: { schedule_id: string }; answer: undefined };
  };
  GET: {
    '/health': { answer: Health };
    '/memory/search': { query: { q: string; limit?: number }; answer: Hits };
    '/metrics': { answer: Response };
    '/receipts': { query?: { limit?: number }; answer: Receipt[] };
    '/runner/v1/adapters': { answer: AdapterList };
    '/runner/v1/alerts': { query?: { everything?: boolean; limit?: number; cursor?: string | null }; answer: PageOfAlertView };
    '/runner/v1/buildings': { answer: BuildingList };
    '/runner/v1/orgs': { answer: OrgList };
    '/runner/v1/orgs/{org_id}/audit': { path: { org_id: string }; answer: Response };
    '/runner/v1/patrols': { query?: { repo?: string | null; limit?: number; cursor?: string | null }; answer: PageOfRunView };
    '/runner/v1/patrols/{run_id}': { path: { run_id: string }; answer: RunShown };
    '/runner/v1/quests': { query?: { limit?: number; cursor?: string | null }; answer: PageOfQuestView };
    '/runner/v1/repos': { answer: RepoList };
    '/runner/v1/sessions': { query?: { org_id?: string | null; thread_id?: string; job_id?: string; limit?: number; cursor?: string | null }; answer: PageOfSessionView };
    '/runner/v1/sessions/{session_id}': { path: { session_id: string }; answer: SessionView };
    '/runner/v1/sessions/{session_id}/diff': { path: { session_id: string }; query?: { path?: string }; answer: Difference };
    '/runner/v1/sessions/{session_id}/events': { path: { session_id: string }; query?: { after?: number; limit?: number }; answer: EventList };
    '/runner/v1/sessions/{session_id}/terminal': { path: { session_id: string }; query?: { format?: 'text' | 'asciicast' }; answer: string };
    '/runner/v1/sessions/{session_id}/tree': { path: { session_id: string }; answer: SessionTree };
    '/runner/v1/usage': { query?: { org_id?: string | null }; answer: UsageList };
    '/status': { answer: StatusNow };
    '/tools': { answer: ToolList };
    '/v1/accounts': { answer: AccountList };
    '/v1/actions': { query?: { status?: 'PENDING' | 'APPROVED' | 'REJECTED' | 'EXECUTED' | 'FAILED' | 'UNKNOWN' | null; refusal?: 'rejected' | 'denied' | 'withdrawn' | 'expired' | null; tool?: string | null; lane?: 'A' | 'B' | 'C' | null; source?: 'chat' | 'job' | 'schedule' | 'cli' | 'gateway' | 'sop' | 'session' | 'mcp' | null; thread_id?: string | null; job_id?: string | null; session_id?: string | null; since?: string | null; until?: string | null; q?: string | null; limit?: number; cursor?: string | null }; answer: PageOfActionSummary };
    '/v1/actions/{action_id}': { path: { action_id: string }; answer: ActionDetail };
    '/v1/answers': { query?: { ended?: boolean }; answer: AnswerList };
    '/v1/approvals': { query?: { status?: 'pending' | 'approved' | 'rejected' | 'executed' | 'failed' | 'unknown' | 'expired' | 'all'; order?: 'newest' | 'expiring'; lane?: 'A' | 'B' | 'C' | null; thread_id?: string | null; job_id?: string | null; limit?: number; cursor?: string | null }; answer: PageOfApprovalCard };
    '/v1/approvals/waiting': { query?: { thread_id?: string | null; job_id?: string | null }; answer: Waiting };
    '/v1/approvals/{action_id}': { path: { action_id: string }; answer: ApprovalCard };
    '/v1/artifacts/{artifact_id}': { path: { artifact_id: string }; answer: Artifact };
    '/v1/artifacts/{artifact_id}/content': { path: { artifact_id: string }; answer: Response };
    '/v1/audit': { query?: { event_type?: string | null; entity_id?: string | null; quiet?: boolean; since?: string | null; until?: string | null; after?: number | null; limit?: number; cursor?: string | null }; answer: PageOfAuditLine };
    '/v1/audit/export': { query?: { event_type?: string | null; entity_id?: string | null; quiet?: boolean; since?: string | null; until?: string | null }; answer: Response };
    '/v1/audit/{action_id}/story': { path: { action_id: string }; answer: StoryTold };
    '/v1/bot': { answer: BotView };
    '/v1/chat/threads': { query?: { limit?: number; cursor?: string | null; q?: string; talks?: boolean }; answer: PageOfThread };
    '/v1/chat/threads/{thread_id}': { path: { thread_id: string }; answer: Thread };
    '/v1/chat/threads/{thread_id}/context': { path: { thread_id: string }; answer: ContextUse };
    '/v1/chat/threads/{thread_id}/messages': { path: { thread_id: string }; query?: { limit?: number; before?: string | null; after?: string | null }; answer: Messages };
    '/v1/chat/threads/{thread_id}/messages/{message_id}': { path: { thread_id: string; message_id: string }; answer: Message };
    '/v1/chat/turns/{turn_id}': { path: { turn_id: string }; answer: Turn };
    '/v1/devices': { query?: { limit?: number; cursor?: string | null }; answer: PageOfDevice };
    '/v1/doctor': { query?: { short?: boolean }; answer: Checkup };
    '/v1/estop': { answer: EstopNow };
    '/v1/events': { query?: { topics?: string | null; thread_id?: string | null; text_of?: string | null; after?: number | null; follow?: boolean }; answer: Response };
    '/v1/evolve': { answer: EvolvePage };
    '/v1/evolve/logs': { query?: { which?: 'errors' | 'boot' | 'watcher' }; answer: EvolveLog };
    '/v1/files/list': { query?: { folder?: string }; answer: FolderListing };
    '/v1/guests': { answer: GuestList };
    '/v1/guests/{name}': { path: { name: string }; answer: GuestView };
    '/v1/intel': { query?: { limit?: number; cursor?: string | null }; answer: PageOfIntelView };
    '/v1/intel/show': { query: { path: string }; answer: IntelFile };
    '/v1/jobs': { query?: { state?: 'RECEIVED' | 'PARSED' | 'POLICY_CHECKED' | 'PLANNED' | 'EXECUTING' | 'WAITING_APPROVAL' | 'PR_OPENED' | 'MERGED' | 'DEPLOYED' | 'DONE' | 'DENIED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT' | 'PAUSED_BUDGET' | 'PENDING' | 'RUNNING' | 'COMPLETED' | null; status?: 'PENDING' | 'RUNNING' | 'WAITING_APPROVAL' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'PAUSED_BUDGET' | null; thread_id?: string | null; since?: string | null; limit?: number; cursor?: string | null }; answer: PageOfJob };
    '/v1/jobs/{job_id}': { path: { job_id: string }; answer: JobShown };
    '/v1/memory/search': { query: { q: string; limit?: number }; answer: Hits };
    '/v1/notifications': { query?: { unseen?: boolean; limit?: number; cursor?: string | null }; answer: Notifications };
    '/v1/overview': { query?: { days?: number }; answer: Overview };
    '/v1/pairing/github': { answer: GitHubWay };
    '/v1/passkeys': { answer: PageOfPasskeySeen };
    '/v1/policies': { query?: { limit?: number; cursor?: string | null }; answer: PageOfPolicyFileListed };
    '/v1/policies/{name}': { path: { name: string }; answer: PolicyFileShown };
    '/v1/projects': { answer: ProjectList };
    '/v1/providers': { answer: ProviderList };
    '/v1/pulls': { query?: { state?: 'OPEN' | 'MERGED' | 'CLOSED' | null; limit?: number; cursor?: string | null }; answer: PageOfPullView };
    '/v1/pulls/{number}': { path: { number: number }; answer: PullShown };
    '/v1/pulls/{number}/checks': { path: { number: number }; answer: CheckList };
    '/v1/pulls/{number}/diff': { path: { number: number }; query?: { path?: string | null; limit?: number; cursor?: string | null }; answer: PageOfFileDiff };
    '/v1/pulls/{number}/files': { path: { number: number }; query?: { limit?: number; cursor?: string | null }; answer: PageOfChangedFile };
    '/v1/push': { answer: PushState };
    '/v1/receipts': { query?: { status?: 'allowed' | 'denied' | 'failed' | 'unknown' | null; refusal?: 'rejected' | 'denied' | 'withdrawn' | 'expired' | null; tool?: string | null; action_id?: string | null; limit?: number; cursor?: string | null }; answer: PageOfReceiptLine };
    '/v1/receipts/head': { answer: ChainState };
    '/v1/receipts/{receipt_id}': { path: { receipt_id: string }; answer: ReceiptDetail };
    '/v1/schedules': { query?: { limit?: number; cursor?: string | null }; answer: Schedules };
    '/v1/schedules/{schedule_id}': { path: { schedule_id: string }; answer: ScheduleShown };
    '/v1/schedules/{schedule_id}/runs': { path: { schedule_id: string }; query?: { limit?: number; cursor?: string | null }; answer: PageOfScheduleRun };
    '/v1/settings/policy': { answer: EffectivePolicy };
    '/v1/sign-in': { answer: SignIn };
    '/v1/skills': { query?: { limit?: number; cursor?: string | null }; answer: PageOfSkillDetails };
    '/v1/skills/{name}': { path: { name: string }; answer: SkillShown };
    '/v1/sop-runs': { query?: { state?: 'RUNNING' | 'WAITING' | 'DONE' | 'FAILED' | null; alone?: boolean; limit?: number; cursor?: string | null }; answer: PageOfSopRun };
    '/v1/sop-runs/{run_id}': { path: { run_id: string }; answer: SopRunShown };
    '/v1/sops': { query?: { limit?: number; cursor?: string | null }; answer: PageOfSopListed };
    '/v1/system-prompt': { answer: OwnerFile };
    '/v1/usage': { query?: { by?: 'model' | 'provider' | 'day' | 'job'; days?: number }; answer: UsageReport };
  };
  PATCH: {
    '/v1/chat/threads/{thread_id}': { path: { thread_id: string }; body: Renamed; answer: Thread };
    '/v1/devices/{device_id}': { path: { device_id: string }; body: NewName; answer: Device };
    '/v1/passkeys/{passkey_id}': { path: { passkey_id: string }; body: PasskeyName; answer: PasskeySeen };
    '/v1/schedules/{schedule_id}': { path: { schedule_id: string }; body: EditSchedule; answer: ScheduleShown };
  };
  POST: {
    '/chat': { body: Said; answer: ChatAnswer };
    '/estop': { answer: EstopNow };
    '/runner/v1/adapters/{name}': { path: { name: string }; body: ChangeAdapter; answer: AdapterView };
    '/runner/v1/alerts/{alert_id}/mute': { path: { alert_id: string }; body: MuteAlert; answer: AlertView };
    '/runner/v1/alerts/{alert_id}/quest': { path: { alert_id: string }; answer: QuestView };
    '/runner/v1/alerts/{alert_id}/resolve': { path: { alert_id: string }; answer: AlertView };
    '/runner/v1/patrols': { body: RunPatrol; answer: PatrolStarted };
    '/runner/v1/quests/{quest_id}/drop': { path: { quest_id: string }; body: DropQuest; answer: QuestView };
    '/runner/v1/quests/{quest_id}/review': { path: { quest_id: string }; answer: QuestView };
    '/runner/v1/quests/{quest_id}/take': { path: { quest_id: string }; body: TakeQuest; answer: QuestView };
    '/runner/v1/sessions': { body: StartSession; answer: SessionStarted };
    '/runner/v1/sessions/{session_id}/approve': { path: { session_id: string }; body: AnswerQuestion; answer: SessionView };
    '/runner/v1/sessions/{session_id}/input': { path: { session_id: string }; body: TypeIn; answer: undefined };
    '/runner/v1/sessions/{session_id}/pause': { path: { session_id: string }; answer: SessionView };
    '/runner/v1/sessions/{session_id}/pull': { path: { session_id: string }; answer: PullAsked };
    '/runner/v1/sessions/{session_id}/resize': { path: { session_id: string }; body: Size; answer: undefined };
    '/runner/v1/sessions/{session_id}/resume': { path: { session_id: string }; answer: SessionView };
    '/runner/v1/sessions/{session_id}/stop': { path: { session_id: string }; answer: SessionView };
    '/runner/v1/tokens': { body: TokenRequest; answer: RunnerToken };
    '/runner/v1/tokens/renew': { answer: Renewed };
    '/runner/v1/webhooks/{repo_id}': { path: { repo_id: string }; answer: WebhookTaken };
    '/v1/accounts/{identity}/connect': { path: { identity: string }; answer: AccountAnswer };
    '/v1/accounts/{identity}/disconnect': { path: { identity: string }; answer: AccountAnswer };
    '/v1/accounts/{identity}/sign-in': { path: { identity: string }; answer: AccountView };
    '/v1/accounts/{identity}/signed-in': { path: { identity: string }; body: SignedIn; answer: AccountView };
    '/v1/actions/{action_id}/repropose': { path: { action_id: string }; answer: ActionSummary };
    '/v1/actions/{action_id}/resolve': { path: { action_id: string }; body: Resolve; answer: Answered };
    '/v1/approvals/{action_id}/approve': { path: { action_id: string }; body: Approve; answer: Answered };
    '/v1/approvals/{action_id}/reject': { path: { action_id: string }; body?: Reject; answer: Answered };
    '/v1/chat/threads': { body?: NewThread; answer: Thread };
    '/v1/chat/threads/{thread_id}/compact': { path: { thread_id: string }; answer: ContextUse };
    '/v1/chat/threads/{thread_id}/messages': { path: { thread_id: string }; body: NewMessage; answer: Posted };
    '/v1/chat/turns/{turn_id}/stop': { path: { turn_id: string }; answer: Turn };
    '/v1/devices/{device_id}/confirm': { path: { device_id: string }; body?: WithProof; answer: Device };
    '/v1/devices/{device_id}/revoke': { path: { device_id: string }; body?: WithProof; answer: Device };
    '/v1/estop': { body?: EngageEstop | null; answer: EstopNow };
    '/v1/estop/clear': { body?: ClearEstop; answer: EstopNow };
    '/v1/evolve/directives': { body: AgentDirective; answer: EvolvePage };
    '/v1/evolve/release': { answer: EvolvePage };
    '/v1/evolve/rollback': { body: AgentRollback; answer: RollbackAnswer };
    '/v1/evolve/stop': { answer: EvolvePage };
    '/v1/files': { query?: { name?: string | null; folder?: string | null }; body: Blob | FormData; answer: Saved };
    '/v1/files/show': { body: ShowFile; answer: ShownFile };
    '/v1/files/undo': { body: UndoWrite; answer: UndoProposed };
    '/v1/files/vouch': { body: VouchFile; answer: VouchProposed };
    '/v1/forge/webhook': { answer: ForgeWoken };
    '/v1/guests/{name}/approve': { path: { name: string }; body: ApproveGuest; answer: GuestAnswer };
    '/v1/guests/{name}/disable': { path: { name: string }; answer: GuestView };
    '/v1/guests/{name}/look': { path: { name: string }; answer: GuestAnswer };
    '/v1/jobs': { body: NewJob; answer: JobShown };
    '/v1/jobs/{job_id}/cancel': { path: { job_id: string }; body?: CancelJob; answer: JobShown };
    '/v1/jobs/{job_id}/resume': { path: { job_id: string }; answer: JobShown };
    '/v1/notifications/seen': { body: SeenUntil; answer: Seen };
    '/v1/pairing/bind': { body: Binding; answer: Paired };
    '/v1/pairing/code': { body?: CodeWanted; answer: Code };
    '/v1/pairing/github': { body: GitHubReturn; answer: GitHubCode };
    '/v1/passkeys': { body: PasskeyMade; answer: PasskeySeen };
    '/v1/passkeys/challenge': { body: ChallengeAsked; answer: ChallengeMade };
    '/v1/passkeys/registration': { answer: RegistrationMade };
    '/v1/passkeys/{passkey_id}/clear': { path: { passkey_id: string }; body?: PasskeyClearing; answer: PasskeySeen };
    '/v1/passkeys/{passkey_id}/remove': { path: { passkey_id: string }; body?: PasskeyRemoval; answer: PasskeySeen };
    '/v1/policy/check': { body: CallToCheck; answer: CheckedCall };
    '/v1/projects': { body: AddProject; answer: CallAnswer };
    '/v1/projects/{project_id}/vouch': { path: { project_id: string }; answer: CallAnswer };
    '/v1/providers/{name}/test': { path: { name: string }; answer: ProviderTried };
    '/v1/pulls/{number}/ask': { path: { number: number }; answer: PullShown };
    '/v1/pulls/{number}/changes': { path: { number: number }; body: AskChanges; answer: PullShown };
    '/v1/pulls/{number}/close': { path: { number: number }; body?: ClosePull | null; answer: PullShown };
    '/v1/pulls/{number}/reopen': { path: { number: number }; answer: PullShown };
    '/v1/pulls/{number}/revert': { path: { number: number }; answer: PullShown };
    '/v1/push/subscriptions': { body: NewSubscription; answer: Subscription };
    '/v1/receipts/verify': { answer: Verification };
    '/v1/schedules': { body: NewSchedule; answer: ScheduleShown };
    '/v1/schedules/preview': { body: PreviewAsk; answer: Preview };
    '/v1/schedules/{schedule_id}/run-now': { path: { schedule_id: string }; answer: RunStarted };
    '/v1/settings': { body: ProposeSettings; answer: Edited };
    '/v1/sign-in/end': { answer: undefined };
    '/v1/sign-in/nonce': { answer: Nonce };
    '/v1/sign-in/page': { body: PageProof; answer: PageKey };
    '/v1/sign-in/ticket': { answer: Ticket };
    '/v1/sops/{name}/run': { path: { name: string }; answer: JobShown };
  };
  PUT: {
    '/v1/bot/mode': { body: SetMode; answer: ModeSet };
    '/v1/policies/{name}': { path: { name: string }; body: PutFile; answer: Edited };
    '/v1/skills/{name}': { path: { name: string }; body: PutFile; answer: Edited };
    '/v1/system-prompt': { body: PutFile; answer: Edited };
  };
}
