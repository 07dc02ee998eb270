"""A typed client, made from docs/openapi.json by scripts/docs.py. Do not edit."""

from typing import Any, Literal, TypeAlias

import httpx
import msgspec


class AccountAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a call about an account stands, and the account."""

    account: "AccountView"
    action_id: str
    code: str
    message: str
    needs: str
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']


class AccountList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The accounts of both identities."""

    configured: bool
    items: list["AccountView"]


class AccountView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An account at Google."""

    identity: Literal['user', 'bot']
    last_error: str
    last_used_at: str
    mailbox: str
    scopes: list["ScopeView"]
    sign_in: Any
    since: str
    state: Literal['not_connected', 'connected', 'reconnect']


class ActionDetail(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything about one action."""

    action: "ActionSummary"
    args: Any
    card: Any
    decision: "Decision"
    fault: str
    outcome: Any
    story: Any


class ActionOutcome(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an action, or its last attempt, ended with."""

    artifacts: list[str]
    code: str
    cut: bool
    exit: int | None
    label: str
    output: str
    receipt_id: str | None
    stderr: str | None
    stdout: str | None
    success: bool


class ActionSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An action as it stands."""

    action_id: str
    approved_by: str | None
    attempt: int
    begun: bool
    code: str
    created_at: str
    digest: str
    expires_at: str
    job_id: str | None
    justification: str
    lane: Literal['A', 'B', 'C']
    provenance: list[str]
    reaches_out: bool
    refusal: Literal['rejected', 'denied', 'withdrawn', 'expired', None]
    rejection_reason: str | None
    risk: Literal['R0', 'R1', 'R2', 'R3']
    risk_class: Literal['READ', 'WRITE', 'EXFILTRATION']
    risk_word: Literal['low', 'medium', 'high']
    source: Literal['chat', 'job', 'schedule', 'cli', 'gateway', 'sop', 'session', 'mcp']
    source_id: str
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']
    summary: str
    thread_id: str
    tool: str
    turn_id: str
    uncertain: bool
    verdict: Literal['allow', 'ask', 'deny']


class AdapterList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The coding programs."""

    items: list["AdapterView"]


class AdapterVersion(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An installed version of a coding program."""

    in_use: bool
    proof: Literal['passed', 'failed', 'none']
    version: str


class AdapterView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A coding program that sessions can run."""

    name: Literal['shell', 'codex', 'claude', 'gemini', 'fake']
    package: str
    previous: str
    tried_version: str
    versions: list["AdapterVersion"]


class AddProject(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A folder to work in."""

    name: str | None = msgspec.field(default=None)
    path: str
    vouch: bool


class AgentDirective(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the agent should do."""

    text: str


class AgentRollback(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where to go back to."""

    ref: str


class AlertView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something a patrol found. Its words are those of the program that found it: untrusted."""

    alert_id: str
    building: str
    count: int
    evidence: dict[str, Any]
    fingerprint: str
    first_seen: str
    kind: Literal['lint', 'test', 'build', 'deps', 'security', 'suggest']
    last_seen: str
    mute_reason: str
    muted_until: str | None
    repo: str
    resolved_at: str | None
    room: str
    severity: Literal['info', 'warning', 'error', 'critical']
    state: Literal['open', 'muted', 'resolved']
    summary: str


class AnswerList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Standing answers, the newest first."""

    items: list["AnswerView"]


class AnswerQuestion(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An answer to a question of a session."""

    approval_id: str
    decision: Literal['allow', 'deny']
    note: str | None = msgspec.field(default=None)


class AnswerView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A yes that holds from now on."""

    action_id: str
    answer_id: str
    created_at: str
    created_by: str
    expires_at: str | None
    holds: bool
    last_used_at: str | None
    revoked_at: str | None
    root: str
    scope: str
    thread_id: str | None
    until: Literal['conversation', 'today', 'revoked']
    uses: int
    what: Literal['command', 'program', 'folder', 'anywhere']


class Answered(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where an action stands after an answer."""

    action: "ActionSummary"
    held: bool
    outcome: Any


class Approval(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Whether it needed an approval, and the outcome."""

    approved_at: str | None
    approved_by: str | None
    expires_at: str
    needed: bool
    proof: Any
    rejection_reason: str | None
    shown: str | None
    signatures: list["Signed"]


class ApprovalCard(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the owner is asked: the card, made by the gate from stored data, as things stand now."""

    action_id: str
    approved_by: str | None
    args: str
    asked: str
    changed: bool
    created_at: str
    digest: str
    expires_at: str
    human_summary: str
    identity: Literal['user', 'bot', None]
    job_id: str | None
    lane: Literal['A', 'B', 'C']
    marked: list[str]
    offers: list["Offer"]
    preview_or_diff: str
    proof: Literal['none', 'token', 'passkey']
    provenance: list[str]
    reaches_out: bool
    reasons: list[str]
    rejection_reason: str | None
    risk: Literal['R0', 'R1', 'R2', 'R3']
    risk_class: Literal['READ', 'WRITE', 'EXFILTRATION']
    risk_word: Literal['low', 'medium', 'high']
    secretive: bool
    seen: str
    session_id: str
    source_type: Literal['chat', 'job', 'schedule', 'cli', 'gateway', 'sop', 'session', 'mcp']
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']
    target_entity: str
    thread_id: str
    tool_name: str


class Approve(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A yes to exactly what was shown."""

    digest: str
    from_now_on: Any | None = msgspec.field(default=None)
    proof: Any | None = msgspec.field(default=None)
    seen: str


class ApproveGuest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which tools to let in, and what each does."""

    classes: dict[str, Literal['reads', 'sends', 'writes']]
    offer: str


class Artifact(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An artifact without its bytes."""

    artifact_id: str
    created_at: str
    job_id: str | None
    kind: str
    label: str
    name: str
    sha256: str
    size: int
    thread_id: str | None
    untrusted: bool


class AskChanges(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What to change."""

    words: str


class Asked(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who asked for it, and where."""

    channel: str | None
    created_at: str
    job_goal: str | None
    job_id: str | None
    justification: str
    message: Any
    source: str
    source_id: str
    thread_id: str
    turn_id: str


class Assertion(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An answer to a challenge, as a browser sends it, with the challenge it belongs to."""

    challenge_id: str
    id: str
    response: "AssertionResponse"


class AssertionResponse(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The inner part of what `navigator.credentials.get` returns, base64url throughout."""

    authenticator_data: str = msgspec.field(name="authenticatorData")
    client_data_json: str = msgspec.field(name="clientDataJSON")
    signature: str
    user_handle: str | None | None = msgspec.field(default=None, name="userHandle")


class Attempt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One attempt at the effect."""

    begun_at: str
    code: str | None
    end: str | None
    ended_at: str | None
    looked_up: bool
    next_in_seconds: float | None
    number: int
    receipt_id: str | None
    worker: str | None


class AttestationResponse(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The inner part of what `navigator.credentials.create` returns, base64url throughout."""

    attestation_object: str = msgspec.field(name="attestationObject")
    client_data_json: str = msgspec.field(name="clientDataJSON")
    transports: list[str] | None = msgspec.field(default=None)


class AuditEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A recorded event."""

    created_at: str
    entity_id: str
    entry_id: str
    event_type: str
    payload: Any
    seq: int


class AuditLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An event of the ledger, with what it is about."""

    about: str
    created_at: str
    entity_id: str
    entry_id: str
    event_type: str
    payload: Any
    seq: int


class Billing(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who pays; the plan of the configuration counts, a request only narrows it."""

    limits: Any = msgspec.field(default=None)
    plan: Literal['enterprise', 'free', 'team'] | None | None = msgspec.field(default=None)


class Binding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A new device that wants to come in."""

    code: str
    name: str
    proof_of_key: str
    public_key: str
    wants: Literal['bearer', 'cookie']


class BotView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The bot's repository and how it merges."""

    allow: list[str]
    configured: Literal['strict', 'whitelist', 'yolo']
    deployed: str
    enabled: bool
    fault: str
    github: Any
    main: str
    mode: Literal['strict', 'whitelist', 'yolo']
    open_pulls: int
    trees: int
    yolo_until: str | None


class Broken(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One fault."""

    detail: str
    kind: Literal['edited', 'missing', 'reordered', 'truncated', 'forked', 'forged', 'damaged']
    receipt: int


class BrowserKeys(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a message for this browser is encrypted with, in base64url."""

    auth: str
    p256dh: str


class BuildingList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Buildings, by name."""

    items: list["BuildingView"]


class BuildingView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A repository, or a room of it, and how it is."""

    alerts: int
    building: str
    health: int | None
    patrols: list["PatrolView"]
    repo: str
    room: str


class Call(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call that the model proposed, and how it stands now."""

    action_id: str | None
    allows: list["SettingChange"]
    arguments: str
    call_id: str
    code: str
    justification: str
    lane: Literal['A', 'B', 'C', None]
    reasons: list[str]
    receipt_id: str | None
    reproposed_id: str | None
    reproposed_status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN', None]
    risk: Literal['R0', 'R1', 'R2', 'R3', None]
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN', None]
    summary: str
    tool: str
    undo_id: str | None
    undo_status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN', None]
    verdict: Literal['allow', 'ask', 'deny', None]


class CallAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a call of the owner's stands."""

    action_id: str
    code: str
    message: str
    needs: str
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']


class CallToCheck(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call to try against the rules, and optionally a policy file as if it were there."""

    args: dict[str, Any] | None = msgspec.field(default=None)
    file: Any | None = msgspec.field(default=None)
    identity: Literal['bot', 'user'] | None | None = msgspec.field(default=None)
    source: Literal['chat', 'cli', 'gateway', 'job', 'mcp', 'schedule', 'session', 'sop'] | None = msgspec.field(default=None)
    taint: list[str] | None = msgspec.field(default=None)
    tool: str


class CameOfIt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How an action ended that had waited when the last words were said."""

    action_id: str
    refusal: Literal['rejected', 'denied', 'withdrawn', 'expired', None]
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']
    summary: str


class CancelJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Calling a job off."""

    reason: str | None = msgspec.field(default=None)


class ChainNow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The receipts as they stand."""

    hash: str
    receipts: int
    valid: bool | None
    verified_at: str | None


class ChainState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The chain at a glance."""

    hash: str
    sealed_at: str | None
    sealed_size: int
    size: int
    verified: Any


class ChallengeAsked(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the owner wants to prove themselves for."""

    mode: Literal['add', 'first', 'replace'] | None = msgspec.field(default=None)
    purpose: Literal['approve', 'device.add', 'device.confirm', 'device.revoke', 'estop.clear', 'passkey.add', 'passkey.clear', 'passkey.remove', 'resolve']
    subject: str
    verdict: Literal['executed', 'not-executed', 'retry'] | None = msgspec.field(default=None)


class ChallengeMade(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A question for a passkey: five minutes, one answer, by this device."""

    challenge_id: str
    expires_at: str
    options: "RequestOptions"
    question: "Question"


class ChangeAdapter(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Another version for new sessions."""

    change: Literal['rollback', 'use']
    version: str | None = msgspec.field(default=None)


class ChangeView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A file that differs from what was checked out."""

    added: int
    path: str
    removed: int
    status: str


class ChangedFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One file that is changed."""

    executable: bool
    kind: Literal['added', 'changed', 'removed']
    new_size: int
    old_size: int
    path: str


class ChangedProblem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """ChangedProblem."""

    code: str
    detail: str
    digest: str | None = msgspec.field(default=None)
    instance: str | None = msgspec.field(default=None)
    remedy: str | None = msgspec.field(default=None)
    seen: str | None = msgspec.field(default=None)
    status: int
    title: str
    type: str


class ChatAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An answer, or where it will be."""

    conversation_id: str
    ending: str
    state: Literal['QUEUED', 'RUNNING', 'WAITING', 'ANSWERED', 'FAILED', 'STOPPED', 'INTERRUPTED']
    text: str | None
    turn_id: str


class Check(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One required check of a pull request, run on what the merge would give."""

    details: list[str]
    name: str
    passed: bool
    seconds: float
    summary: str


class CheckList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The checks of a pull request."""

    checked_sha: str
    items: list["Check"]


class CheckedCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the gate would say. Nothing was run and nothing is stored."""

    decision: "Decision"
    faults: list["FaultyLine"]
    needs: str


class CheckoutRef(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What to check out; without a ref the repository's current branch."""

    ref: str | None = msgspec.field(default=None)
    type: Literal['branch', 'commit'] | None = msgspec.field(default=None)


class Checkup(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the doctor found."""

    checked_at: str
    probes: list["Probe"]
    state: Literal['ok', 'warn', 'fail']


class ClearEstop(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Let things go on."""

    proof: Any | None = msgspec.field(default=None)


class ClosePull(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why it is closed."""

    reason: str | None = msgspec.field(default=None)


class Code(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A code that lets one device in, once."""

    code: str
    expires_at: str
    mode: Literal['first', 'add', 'replace']
    url: str


class CodeWanted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the new device shall be."""

    mode: Literal['add', 'first', 'replace'] | None = msgspec.field(default=None)
    proof: Any | None = msgspec.field(default=None)


class CommandOutput(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A piece of what a running command writes, redacted; it has no number and is not kept."""

    action_id: str
    offset: int
    piece: str
    thread_id: str
    turn_id: str


class Constraints(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job's own limits; they only narrow what the configuration grants."""

    allowed_domains: list[str] | None
    allowed_programs: list[str] | None
    allowed_tools: list[str] | None
    max_files_changed: int | None
    max_prs: int | None


class ContextUse(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the model reads with the next message of a conversation, in about so many tokens."""

    messages: int
    prompt: int
    summarised: int
    tools: int
    used: int
    window: int


class CreationOptions(msgspec.Struct, kw_only=True, omit_defaults=True):
    """For `PublicKeyCredential.parseCreationOptionsFromJSON`, as it stands."""

    attestation: Literal['none']
    authenticator_selection: "Selection" = msgspec.field(name="authenticatorSelection")
    challenge: str
    exclude_credentials: list["Descriptor"] = msgspec.field(name="excludeCredentials")
    pub_key_cred_params: list["Parameters"] = msgspec.field(name="pubKeyCredParams")
    rp: "Party"
    timeout: int
    user: "User"


class Decision(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The gate's decision on one call, with its reasons (the PolicyDecisionPacket)."""

    allowed: bool
    allows: list["SettingChange"]
    code: str
    job_id: str | None
    lane: Literal['A', 'B', 'C']
    policy_hash: str
    reasons: list[str]
    recommended_changes: list[str]
    requires_approval: bool
    risk: Literal['R0', 'R1', 'R2', 'R3']
    risk_class: Literal['READ', 'WRITE', 'EXFILTRATION']
    risk_level: Literal['R0', 'R1', 'R2', 'R3']
    risk_word: Literal['low', 'medium', 'high']
    rule: str
    skills: list[str]
    verdict: Literal['allow', 'ask', 'deny']


class Descriptor(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A passkey that is known here, as browsers are told of it."""

    id: str
    transports: list[str]
    type: Literal['public-key']


class Device(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A paired device."""

    active: bool
    confirmed: bool
    confirmed_at: str | None
    created_at: str
    current: bool
    device_id: str
    last_seen_at: str | None
    name: str
    revoked_at: str | None
    scope: Literal['', 'mcp']


class Difference(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a session changed."""

    cut: bool
    files: list["ChangeView"]
    patch: str
    path: str


class DropQuest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why it is given up."""

    reason: str | None = msgspec.field(default=None)


class EditSchedule(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is to be changed; what is left out stays. A new time counts from now."""

    at: str | None = msgspec.field(default=None)
    catch_up_window: str | None | None = msgspec.field(default=None)
    constraints: Any = msgspec.field(default=None)
    cron: str | None = msgspec.field(default=None)
    enabled: bool | None = msgspec.field(default=None)
    every: str | None = msgspec.field(default=None)
    evidence: list[str] | None = msgspec.field(default=None)
    goal: str | None = msgspec.field(default=None)
    if_hash: str | None = msgspec.field(default=None)
    inputs: dict[str, Any] | None = msgspec.field(default=None)
    interval: str | None = msgspec.field(default=None)
    max_failures: int | None | None = msgspec.field(default=None)
    misfire: Literal['run_all', 'run_once', 'skip'] | None | None = msgspec.field(default=None)
    overlap: Literal['allow', 'queue_one', 'replace', 'skip'] | None | None = msgspec.field(default=None)
    payload: Any = msgspec.field(default=None)
    project: str | None | None = msgspec.field(default=None)
    sop: str | None = msgspec.field(default=None)
    stagger: str | None | None = msgspec.field(default=None)
    steps: list[str] | None = msgspec.field(default=None)
    timezone: str | None = msgspec.field(default=None)
    trigger: Literal['at', 'cron', 'interval'] | None = msgspec.field(default=None)
    trigger_config: Any = msgspec.field(default=None)
    trigger_type: Literal['at', 'cron', 'interval'] | None = msgspec.field(default=None)


class Edited(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a change of a file stands: it is an action like any other."""

    action_id: str
    code: str
    decision: "Decision"
    message: str
    needs: str
    path: str
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']


class EffectivePolicy(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything decisions rest on."""

    autonomy: Literal['readonly', 'supervised', 'full']
    broken: str
    faults: list[str]
    policy_hash: str
    rules: list["EffectiveRule"]
    settings: list["EffectiveSetting"]


class EffectiveRule(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A rule of a policy file. Rules only ever narrow what the configuration grants."""

    id: str
    reason: str
    verdict: str
    when: Any


class EffectiveSetting(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One option of the configuration as it is in force."""

    changes: bool
    description: str
    key: str
    next_value: Any
    source: str
    value: Any


class EngageEstop(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Stop everything."""

    reason: str | None = msgspec.field(default=None)


class EstopNow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Whether everything is stopped."""

    clear_needs: str
    engaged: bool
    reason: str
    recorded: bool
    since: str | None


class EventList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Events of a session, in order; each with its fields at one level."""

    items: list[dict[str, Any]]
    last: int


class EvolveLog(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The end of a log."""

    text: str


class EvolvePage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the panel shows."""

    agent: Any
    directives: list[str]
    exists: bool
    last_good: str
    reports: list[str]
    watcher: list[str]


class EvolveStart(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the bootstrap log."""

    at: str
    branch: str
    detail: str
    what: str


class EvolveView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The agent as it stands."""

    branch: str
    failures: int
    held: str
    phase: str
    sha: str
    since: str
    starts: list["EvolveStart"]
    trouble: str
    up: bool
    waiting: list[str]
    wheels: str


class Excerpt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The last thing that was said in a conversation, shortened to a line."""

    created_at: str
    role: Literal['system', 'user', 'assistant', 'tool']
    text: str
    untrusted: bool


class FaultyLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something wrong with a policy file."""

    line: int
    path: str
    text: str


class FileDiff(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One file of a difference."""

    binary: bool
    cut: bool
    executable: bool
    kind: Literal['added', 'changed', 'removed']
    new_size: int
    old_size: int
    patch: str
    path: str


class FileListed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One name in a folder."""

    kind: Literal['file', 'dir', 'link', 'other']
    labelled: bool
    name: str
    size: int


class FileToTry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A policy file that is not written yet."""

    content: str
    name: str


class FirstMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The owner's message that started it."""

    content: str
    created_at: str
    message_id: str


class FolderListing(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A folder of the workspace."""

    cut: bool
    items: list["FileListed"]
    path: str


class ForgeWoken(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A delivery that was accepted."""

    woken: bool


class FromNowOn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An approval that is valid from now on."""

    until: Literal['conversation', 'revoked', 'today']
    what: Literal['anywhere', 'command', 'folder', 'program']


class GitHubCode(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pairing code for `POST /v1/pairing/bind`. What it lets in has to be confirmed with a passkey."""

    code: str
    expires_at: str


class GitHubReturn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What GitHub sent the page back with."""

    code: str
    verifier: str


class GitHubView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How the bot's repository stands with GitHub."""

    fault: str
    held: str
    main: str
    requests_left: int | None
    runs_url: str
    synced_at: str | None
    url: str


class GitHubWay(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How to sign in with GitHub."""

    address: str


class GuestAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a call about a guest stands, and the guest."""

    action_id: str
    code: str
    guest: "GuestView"
    message: str
    needs: str
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']


class GuestList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Guests, by name."""

    items: list["GuestView"]


class GuestToolView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool that a guest offers or offered."""

    claims: str
    description: str
    kind: Literal['reads', 'writes', 'sends', None]
    name: str
    original: str
    withheld: str


class GuestView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A guest: what it is, what it may do, and which of its tools are let in."""

    approved_at: str | None
    counts_as: Literal['reads', 'writes', 'sends']
    difference: str
    fault: str
    kind: Literal['plugin', 'stdio', 'http']
    may: list[str]
    name: str
    offer: str
    refused: list[str]
    state: Literal['new', 'approved', 'changed', 'off']
    tools: list["GuestToolView"]
    version: str


class Health(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Somebody is there. Says little else, because anybody may ask."""

    config: Literal['ok', 'rejected']
    database: Literal['ok', 'waiting']
    status: Literal['ok']


class Hit(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message that matches."""

    conversation_id: str
    created_at: str
    label: str
    message_id: str
    role: str
    score: float
    snippet: str
    thread_id: str
    untrusted: bool


class Hits(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was found, best first."""

    items: list["Hit"]


class IntelFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A file of findings."""

    content: str
    cut: bool
    path: str
    size: int


class IntelView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A file of the agent's findings that stands on main."""

    path: str
    size: int


class Job(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job in a list."""

    attempt: int
    created_at: str
    deadline_at: str | None
    goal: str
    job_id: str
    next_wakeup_at: str | None
    progress: "JobProgress"
    reason: str
    schedule_id: str | None
    sop: str | None
    state: Literal['RECEIVED', 'PARSED', 'POLICY_CHECKED', 'PLANNED', 'EXECUTING', 'WAITING_APPROVAL', 'PR_OPENED', 'MERGED', 'DEPLOYED', 'DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT', 'PAUSED_BUDGET']
    status: Literal['PENDING', 'RUNNING', 'WAITING_APPROVAL', 'COMPLETED', 'FAILED', 'CANCELLED', 'PAUSED_BUDGET']
    thread_id: str
    updated_at: str
    waiting: list["JobQuestion"]
    working: bool


class JobArtifact(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An artifact of a job, without its bytes."""

    artifact_id: str
    created_at: str
    kind: str
    label: str
    name: str
    sha256: str
    size: int


class JobBudget(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job's budget, fixed when it was created."""

    steps: int
    tokens: int


class JobEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An event of a job."""

    created_at: str
    event_id: str
    payload: dict[str, Any]
    type: str


class JobModel(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which model did a part of a job."""

    answers: int
    model: str
    part: str
    provider: str


class JobProgress(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How far a job has come."""

    calls: int
    done: int
    of: int


class JobPull(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The pull request that a job ended in."""

    number: int
    state: Literal['OPEN', 'MERGED', 'CLOSED']


class JobQuestion(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a job waits for the owner to answer."""

    action_id: str
    expires_at: str
    lane: Literal['A', 'B', 'C']
    risk: Literal['R0', 'R1', 'R2', 'R3']
    summary: str
    tool: str


class JobShown(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything there is to say about a job."""

    answer: str
    artifacts: list["JobArtifact"]
    attempt: int
    budget: "JobBudget"
    created_at: str
    deadline_at: str | None
    events: list["JobEvent"]
    evidence: dict[str, Any] | None
    files: list[str]
    goal: str
    job_id: str
    models: list["JobModel"]
    next_wakeup_at: str | None
    plan: Any
    progress: "JobProgress"
    pull: Any
    reason: str
    schedule_id: str | None
    sop: str | None
    spec: "JobSpec"
    state: Literal['RECEIVED', 'PARSED', 'POLICY_CHECKED', 'PLANNED', 'EXECUTING', 'WAITING_APPROVAL', 'PR_OPENED', 'MERGED', 'DEPLOYED', 'DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT', 'PAUSED_BUDGET']
    status: Literal['PENDING', 'RUNNING', 'WAITING_APPROVAL', 'COMPLETED', 'FAILED', 'CANCELLED', 'PAUSED_BUDGET']
    thread_id: str
    tokens: int
    turn_id: str
    updated_at: str
    waiting: list["JobQuestion"]
    working: bool


class JobSpec(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Intent, scope and constraints of a job (the JobSpecPacket)."""

    by_agent: bool
    constraints: "Constraints"
    generation: int
    inputs: dict[str, Any]
    intent: str
    job_id: str
    outputs: "Outputs"
    parent_id: str | None
    repo: str | None


class LiveEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An event from the durable sequence; the name of the message is its first topic."""

    at: str
    data: Any
    event: "Topic"
    id: str
    seq: int
    thread_id: str
    topics: list["Topic"]
    type: str


class Message(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something that was said in a conversation."""

    action_id: str | None
    artifact: Any
    attachments: list[str]
    call_id: str
    calls: list["Call"]
    code: str
    content: str
    created_at: str
    cut: bool
    label: str
    message_id: str
    model: str
    provider: str
    receipt_id: str | None
    role: Literal['system', 'user', 'assistant', 'tool']
    success: bool | None
    summarised: int
    turn_id: str
    turn_state: str
    untrusted: bool


class Messages(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A piece of a conversation, in the order it was said."""

    after: str | None
    before: str | None
    items: list["Message"]


class ModeSet(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What became of it."""

    action_id: str | None
    bot: "BotView"


class MonthUsage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the sessions of an organization used in a month."""

    agent_seconds: int
    cached_tokens: int
    cost_millionths: int
    files_touched: int
    input_tokens: int
    month: str
    org_id: str
    output_tokens: int
    patrol_seconds: int
    provider: str
    provider_invocations: int
    terminal_kb: int
    unpriced_tokens: int


class MuteAlert(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why and for how long an alert is muted."""

    hours: int
    reason: str


class Network(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`restricted`: no network. `open`: every domain that the configuration allows to boxes."""

    mode: Literal['open', 'restricted'] | None = msgspec.field(default=None)


class NewJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job to be made."""

    constraints: Any = msgspec.field(default=None)
    evidence: list[str] | None = msgspec.field(default=None)
    goal: str | None = msgspec.field(default=None)
    inputs: dict[str, Any] | None = msgspec.field(default=None)
    intent: str | None = msgspec.field(default=None)
    job_id: str | None = msgspec.field(default=None)
    outputs: Any = msgspec.field(default=None)
    repo: str | None | None = msgspec.field(default=None)
    sop: str | None | None = msgspec.field(default=None)
    steps: list[str] | None = msgspec.field(default=None)
    thread_id: str | None | None = msgspec.field(default=None)


class NewMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the owner says."""

    attachments: list[str] | None = msgspec.field(default=None)
    content: str | None | None = msgspec.field(default=None)
    text: str | None | None = msgspec.field(default=None)


class NewName(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a device is to be called."""

    name: str


class NewSchedule(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A schedule to be made. One of `cron`, `interval` and `at` says when; `goal` or `sop` says what."""

    at: str | None | None = msgspec.field(default=None)
    catch_up_window: str | None | None = msgspec.field(default=None)
    constraints: Any = msgspec.field(default=None)
    cron: str | None | None = msgspec.field(default=None)
    enabled: bool | None = msgspec.field(default=None)
    every: str | None | None = msgspec.field(default=None)
    evidence: list[str] | None = msgspec.field(default=None)
    goal: str | None | None = msgspec.field(default=None)
    inputs: dict[str, Any] | None = msgspec.field(default=None)
    interval: str | None | None = msgspec.field(default=None)
    max_failures: int | None | None = msgspec.field(default=None)
    misfire: Literal['run_all', 'run_once', 'skip'] | None | None = msgspec.field(default=None)
    overlap: Literal['allow', 'queue_one', 'replace', 'skip'] | None | None = msgspec.field(default=None)
    payload: Any | None = msgspec.field(default=None)
    project: str | None | None = msgspec.field(default=None)
    schedule_id: str | None | None = msgspec.field(default=None)
    sop: str | None | None = msgspec.field(default=None)
    stagger: str | None | None = msgspec.field(default=None)
    steps: list[str] | None = msgspec.field(default=None)
    timezone: str | None | None = msgspec.field(default=None)
    trigger: Literal['at', 'cron', 'interval'] | None | None = msgspec.field(default=None)
    trigger_config: Any | None = msgspec.field(default=None)
    trigger_type: Literal['at', 'cron', 'interval'] | None | None = msgspec.field(default=None)


class NewSubscription(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A subscription, as a browser's `PushSubscription.toJSON()` writes it; further fields are ignored."""

    endpoint: str
    keys: "BrowserKeys"


class NewThread(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A conversation to be made."""

    model: str | None | None = msgspec.field(default=None)
    project: str | None = msgspec.field(default=None)
    title: str | None = msgspec.field(default=None)


class Nonce(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a page is to sign with its device's key."""

    nonce: str


class Notification(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something to look at. It holds ids only: what they stand for is fetched by whoever may see it."""

    created_at: str
    entity: Literal['action', 'job', 'thread', 'account', 'guest', 'session']
    entity_id: str
    job_id: str | None
    notification_id: str
    reason: Literal['operator_attention_needed', 'clarification_needed', 'important_update', 'follow_up_available', None]
    seen_at: str | None
    thread_id: str | None
    type: Literal['approval_needed', 'approval_expiring', 'job_failed', 'job_completed', 'proactive_reach_out', 'alert_raised', 'session_waiting']


class Notifications(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Notifications, and how many were not seen."""

    items: list["Notification"]
    next_cursor: str | None
    unseen: int


class Offer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thing that approving a card may cover from now on."""

    text: str
    until: list[Literal['conversation', 'today', 'revoked']]
    what: Literal['command', 'program', 'folder', 'anywhere']


class OrgList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Organizations, by name."""

    items: list["OrgView"]


class OrgView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Somebody that sessions are run for, and the limits of the plan."""

    minutes_per_month: int
    minutes_used: int
    org_id: str
    plan: str
    running: int
    sessions: int


class Outputs(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a job must leave behind."""

    evidence_required: list[str] | None = msgspec.field(default=None)
    pr_required: bool | None = msgspec.field(default=None)


class Overview(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything for the first screen."""

    approvals: "OverviewAnswers"
    budget: "OverviewBudget"
    days: list["OverviewDay"]
    estop: bool
    evidence: "OverviewEvidence"
    risks: dict[str, int]
    schedules: "OverviewRuns"
    since: str
    tools: list["OverviewTool"]
    verdicts: dict[str, int]
    waiting: "OverviewWaiting"


class OverviewAnswers(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was put to the owner, and what they said."""

    approved: int
    asked: int
    expired: int
    median_wait_seconds: float | None
    rejected: int
    waiting: int


class OverviewBudget(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Today's share of the tokens."""

    daily_tokens: int
    left_today: int
    used_today: int


class OverviewDay(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One day (UTC): the jobs that were made on it by how they stand now, and what was spent on it."""

    cancelled: int
    completed: int
    cost_millionths: int | None
    day: str
    failed: int
    input_tokens: int
    open: int
    output_tokens: int
    unpriced_tokens: int


class OverviewEvidence(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Jobs that are over, and how many of them left all they had to."""

    complete: int
    looked_at: int
    percent: float | None


class OverviewRuns(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Runs of schedules, by how they ended."""

    cancelled: int
    failed: int
    queued: int
    running: int
    skipped_slots: int
    started: int
    succeeded: int
    success_percent: float | None


class OverviewTool(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Calls of one tool, by what became of them."""

    calls: int
    executed: int
    failed: int
    rejected: int
    tool: str
    unknown: int
    waiting: int


class OverviewWaiting(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What waits for the owner now."""

    approvals: int
    notifications: int
    paused_jobs: int
    paused_schedules: int
    unknown_actions: int
    waiting_jobs: int


class OwnerFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A file of the owner as it is now."""

    content: str
    labels: list[str]
    path: str
    redacted: bool
    sha256: str
    size: int


class PageKey(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the page shows beside its cookie from now on, as `X-CoilClaw-Page`; to be kept in memory alone."""

    page_key: str


class PageOfActionSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["ActionSummary"]
    next_cursor: str | None


class PageOfAlertView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["AlertView"]
    next_cursor: str | None


class PageOfApprovalCard(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["ApprovalCard"]
    next_cursor: str | None


class PageOfAuditLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["AuditLine"]
    next_cursor: str | None


class PageOfChangedFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["ChangedFile"]
    next_cursor: str | None


class PageOfDevice(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["Device"]
    next_cursor: str | None


class PageOfFileDiff(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["FileDiff"]
    next_cursor: str | None


class PageOfIntelView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["IntelView"]
    next_cursor: str | None


class PageOfJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["Job"]
    next_cursor: str | None


class PageOfPasskeySeen(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["PasskeySeen"]
    next_cursor: str | None


class PageOfPolicyFileListed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["PolicyFileListed"]
    next_cursor: str | None


class PageOfPullView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["PullView"]
    next_cursor: str | None


class PageOfQuestView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["QuestView"]
    next_cursor: str | None


class PageOfReceiptLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["ReceiptLine"]
    next_cursor: str | None


class PageOfRunView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["RunView"]
    next_cursor: str | None


class PageOfScheduleRun(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["ScheduleRun"]
    next_cursor: str | None


class PageOfSessionView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["SessionView"]
    next_cursor: str | None


class PageOfSkillDetails(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["SkillDetails"]
    next_cursor: str | None


class PageOfSopListed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["SopListed"]
    next_cursor: str | None


class PageOfSopRun(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["SopRun"]
    next_cursor: str | None


class PageOfThread(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of a list."""

    items: list["Thread"]
    next_cursor: str | None


class PageProof(msgspec.Struct, kw_only=True, omit_defaults=True):
    """That a page holds the device's key, which never leaves its origin."""

    nonce: str
    signature: str


class Paired(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The device that was let in."""

    device: "Device"
    expires_at: str
    token: str | None


class Parameters(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A kind of signature that is believed."""

    alg: int
    type: Literal['public-key']


class Party(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Whom a passkey is made for."""

    id: str
    name: str


class PasskeyClearing(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The assertion of another passkey that stands behind it."""

    proof: Any | None = msgspec.field(default=None)


class PasskeyMade(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A new passkey, and who vouches for it."""

    challenge_id: str
    credential: "Registration"
    name: str
    proof: Any | None = msgspec.field(default=None)


class PasskeyName(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Another name."""

    name: str


class PasskeyRemoval(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The assertion that stands behind it."""

    proof: Any | None = msgspec.field(default=None)
    sign_out: bool | None = msgspec.field(default=None)


class PasskeySeen(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A passkey as it is shown; its key stays here."""

    aaguid: str
    backed_up: bool
    created_at: str
    device_id: str | None
    last_used_at: str | None
    name: str
    passkey_id: str
    removed_at: str | None
    suspended_at: str | None
    transports: list[str]
    usable: bool
    used_on: list[str]


class PatrolStarted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The job that does it."""

    job_id: str


class PatrolView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One patrol of a building: how it went last, and before."""

    command: str
    kind: Literal['lint', 'test', 'build', 'deps', 'security', 'suggest']
    last: Any
    trend: list["TrendPoint"]


class Plan(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Ordered steps and the evidence they need (the PlanPacket)."""

    by_model: bool
    job_id: str
    required_evidence: list[str]
    steps: list["PlanStep"]


class PlanLimits(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Limits that narrow those of the plan."""

    max_concurrency: int | None | None = msgspec.field(default=None)


class PlanStep(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One step of a plan and the evidence it must produce."""

    description: str
    evidence: list[str]
    step_id: str
    tool: str | None
    writes: bool | None


class Pointer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An artifact: where the whole of a long message is kept, or what was kept in the conversation."""

    artifact_id: str
    size: int | None


class PolicyFileListed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A policy file."""

    faults: list["FaultyLine"]
    name: str
    sha256: str
    size: int
    valid: bool


class PolicyFileShown(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A policy file with its content."""

    faults: list["FaultyLine"]
    file: "OwnerFile"
    name: str
    valid: bool


class Posted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message that is kept and will be answered, whatever becomes of the client."""

    message_id: str
    state: Literal['QUEUED', 'RUNNING', 'WAITING', 'ANSWERED', 'FAILED', 'STOPPED', 'INTERRUPTED']
    thread_id: str
    turn_id: str


class Preview(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a trigger means, or what is wrong with it."""

    cron_notes: str | None
    cron_summary: str
    fault: str
    faults: list["PreviewFault"]
    next_runs_local: list[str]
    next_runs_utc: list[str]
    plain_notes: list[str]
    plain_summary: str
    remedy: str
    valid: bool


class PreviewAsk(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A trigger as far as it is written. One of `cron`, `interval` and `at` says when."""

    after: str | None | None = msgspec.field(default=None)
    at: str | None | None = msgspec.field(default=None)
    count: int | None = msgspec.field(default=None)
    cron: str | None | None = msgspec.field(default=None)
    every: str | None | None = msgspec.field(default=None)
    interval: str | None | None = msgspec.field(default=None)
    timezone: str | None | None = msgspec.field(default=None)
    trigger: Literal['at', 'cron', 'interval'] | None | None = msgspec.field(default=None)


class PreviewFault(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something wrong, and in which field."""

    fault: str
    field: Literal['trigger', 'cron', 'interval', 'at', 'timezone', 'after']
    meant: list[str]
    remedy: str


class Probe(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the doctor: what was tested, by its behaviour, and what to do if it failed."""

    detail: str
    name: str
    remedy: str
    state: Literal['ok', 'warn', 'fail', 'info']


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error over HTTP (RFC 9457)."""

    code: str
    detail: str
    instance: str | None = msgspec.field(default=None)
    remedy: str | None = msgspec.field(default=None)
    status: int
    title: str
    type: str


class ProjectList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Projects, by name."""

    items: list["ProjectView"]


class ProjectView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A folder of the owner's that the agent may work in."""

    added_at: str
    conversations: int
    fault: str
    name: str
    path: str
    project_id: str
    vouched: bool


class Proof(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A receipt, its position in the chain, and what is wrong with it."""

    disagreements: list[str]
    place: int
    receipt: "Receipt"


class ProposeSettings(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Changes that belong together: all of them are made, or none."""

    changes: list["SettingChange"]


class ProviderList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Every configured provider, in the order of the configuration."""

    items: list["ProviderListed"]


class ProviderListed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A configured provider; its key is only ever named."""

    base_url: str
    default: bool
    key_name: str
    key_set: bool
    kind: str
    leans_on: list[str]
    model: str
    name: str


class ProviderTried(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A provider answered."""

    model: str
    name: str
    seconds: float
    text: str


class PullAsked(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The question whether a session's commits may leave it."""

    action_id: str
    needs: str
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']


class PullShown(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything about a pull request but its difference."""

    action_id: str | None
    base_sha: str
    body: str
    branch: str
    checked_sha: str
    checks: Literal['passed', 'failed', 'not run']
    deployed_at: str | None
    dormant: bool
    draft: bool
    github_url: str
    head_sha: str
    job_id: str | None
    labels: list[str]
    merge_on_github: bool
    merged_sha: str
    mode: Literal['strict', 'whitelist', 'yolo']
    number: int
    opened_at: str
    reason: str
    repository: str
    results: list["Check"]
    risk: Literal['R0', 'R1', 'R2', 'R3']
    rounds: int
    session_id: str | None
    state: Literal['OPEN', 'MERGED', 'CLOSED']
    tainted: bool
    target: str
    title: str
    updated_at: str
    wanted: str


class PullView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pull request in a list."""

    action_id: str | None
    branch: str
    checks: Literal['passed', 'failed', 'not run']
    deployed_at: str | None
    dormant: bool
    draft: bool
    job_id: str | None
    labels: list[str]
    number: int
    opened_at: str
    reason: str
    repository: str
    risk: Literal['R0', 'R1', 'R2', 'R3']
    session_id: str | None
    state: Literal['OPEN', 'MERGED', 'CLOSED']
    tainted: bool
    target: str
    title: str
    updated_at: str


class PushState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a browser needs to subscribe, and what this device has subscribed."""

    public_key: str
    subscriptions: list["Subscription"]


class PutFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The whole new content of a file."""

    content: str
    if_sha256: str | None | None = msgspec.field(default=None)


class QuestView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An alert as a task."""

    acceptance: list[str]
    alert_id: str
    approvals: list[str]
    building: str
    created_at: str
    goal: str
    kind: Literal['lint', 'test', 'build', 'deps', 'security', 'suggest']
    quest_id: str
    reason: str
    repo: str
    run_id: str
    session_id: str
    state: Literal['offered', 'taken', 'in_review', 'done', 'dropped']
    title: str
    updated_at: str


class Question(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a passkey signs: one thing, in exactly this shape, once."""

    digest: str
    nonce: str
    purpose: Literal['approve', 'resolve', 'estop.clear', 'passkey.add', 'passkey.remove', 'passkey.clear', 'device.add', 'device.confirm', 'device.revoke']
    subject: str
    valid_until: str


class Receipt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One attempt's outcome, chained to the one before it."""

    action_id: str
    answer: str | None = msgspec.field(default=None)
    args_hash: str
    cause: str | None = msgspec.field(default=None)
    code: str
    conversation_id: str
    digest: str
    id: str
    identity: str | None = msgspec.field(default=None)
    policy_hash: str
    previous_hash: str
    receipt_hash: str
    result_hash: str
    risk: Literal['low', 'medium', 'high']
    risk_level: Literal['R0', 'R1', 'R2', 'R3']
    status: Literal['allowed', 'denied', 'failed', 'unknown']
    timestamp: str
    tool: str


class ReceiptDetail(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One receipt, held against its place in the chain."""

    about: str
    faults: list[str]
    holds: bool
    number: int
    receipt: Any
    refusal: Literal['rejected', 'denied', 'withdrawn', 'expired', None]


class ReceiptLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A receipt in a list."""

    about: str
    number: int
    receipt: "Receipt"
    refusal: Literal['rejected', 'denied', 'withdrawn', 'expired', None]


class Registration(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A new passkey, as a browser sends it (`credential.toJSON()`)."""

    id: str
    response: "AttestationResponse"


class RegistrationMade(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a browser needs to make a passkey."""

    challenge_id: str
    expires_at: str
    options: "CreationOptions"
    proof_needed: bool


class Reject(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A no."""

    reason: str | None = msgspec.field(default=None)


class Renamed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A conversation's new title, or who answers in it from now on."""

    model: str | None | None = msgspec.field(default=None)
    title: str | None = msgspec.field(default=None)


class Renewed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How long a token is good now."""

    expires_at: str


class RepoList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Repositories, by name."""

    items: list["RepoRef"]


class RepoRef(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A repository: one of `[repos]`, a project, or one at GitHub."""

    name: str
    owner: str | None = msgspec.field(default=None)
    provider: Literal['github', 'local', 'project'] | None = msgspec.field(default=None)


class RequestOptions(msgspec.Struct, kw_only=True, omit_defaults=True):
    """For `PublicKeyCredential.parseRequestOptionsFromJSON`, as it stands."""

    allow_credentials: list["Descriptor"] = msgspec.field(name="allowCredentials")
    challenge: str
    rp_id: str = msgspec.field(name="rpId")
    timeout: int
    user_verification: Literal['required'] = msgspec.field(name="userVerification")


class Resolve(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the owner knows of an end that is not on record."""

    proof: Any | None = msgspec.field(default=None)
    verdict: Literal['executed', 'not-executed', 'retry']


class Result(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Its result, and the box it ran in."""

    box_end: str | None
    box_tier: str | None
    code: str
    exit: int | None
    first_lines: str
    label: str
    metadata: dict[str, Any]
    output_hash: str
    success: bool


class RollbackAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where the rollback stands."""

    action_id: str
    message: str
    needs: str
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']


class RunPatrol(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A patrol to run."""

    kinds: str | None = msgspec.field(default=None)
    repo: str
    room: str | None | None = msgspec.field(default=None)


class RunShown(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run with the end of what its command wrote: anybody's words."""

    base: str
    building: str
    command: str
    ended_at: str | None
    failed: int
    findings: int
    format: str
    job_id: str
    kind: Literal['lint', 'test', 'build', 'deps', 'security', 'suggest']
    output: str
    passed: int
    quest_id: str
    reason: str
    repo: str
    room: str
    run_id: str
    seconds: float
    skipped: int
    started_at: str
    state: Literal['running', 'passed', 'failed', 'not_audited', 'error']


class RunStarted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run that was asked for."""

    job_id: str | None
    run: "ScheduleRun"


class RunView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run of a patrol."""

    base: str
    building: str
    command: str
    ended_at: str | None
    failed: int
    findings: int
    format: str
    job_id: str
    kind: Literal['lint', 'test', 'build', 'deps', 'security', 'suggest']
    passed: int
    quest_id: str
    reason: str
    repo: str
    room: str
    run_id: str
    seconds: float
    skipped: int
    started_at: str
    state: Literal['running', 'passed', 'failed', 'not_audited', 'error']


class RunnerToken(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A new token. It is shown once."""

    expires_at: str
    token: str
    token_id: str


class Said(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the owner says."""

    conversation_id: str | None | None = msgspec.field(default=None)
    message: str
    wait_seconds: float | None = msgspec.field(default=None)


class Saved(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A file that is in the workspace now."""

    action_id: str
    label: str
    path: str
    receipt_id: str
    sha256: str
    size: int


class Schedule(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A schedule in a list."""

    at: str | None
    cron: str | None
    cron_notes: str | None
    cron_summary: str
    enabled: bool
    failures: int
    goal: str
    hash: str
    interval: str | None
    labels: list[str]
    last_run: Any
    next_run_local: str | None
    next_run_utc: str | None
    origin: Literal['registry', 'followup']
    paused_reason: str | None
    plain_notes: list[str]
    plain_summary: str
    project: str | None
    schedule_id: str
    sop: str | None
    state: Literal['waits', 'paused', 'disabled', 'over']
    timezone: str
    trigger: Literal['cron', 'interval', 'at']


class ScheduleLast(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The last run that made a job, and how it stands."""

    at: str
    status: str


class ScheduleOptions(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What happens when a slot was missed, when runs would overlap, and when they fail."""

    catch_up_window: str | None
    max_failures: int
    misfire: Literal['run_once', 'run_all', 'skip']
    overlap: Literal['skip', 'queue_one', 'allow', 'replace']
    stagger: str


class SchedulePayload(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What each run does, by the names that stand beside it otherwise."""

    constraints: Any | None = msgspec.field(default=None)
    evidence: list[str] | None | None = msgspec.field(default=None)
    goal: str | None | None = msgspec.field(default=None)
    inputs: dict[str, Any] | None | None = msgspec.field(default=None)
    intent: str | None | None = msgspec.field(default=None)
    sop: str | None | None = msgspec.field(default=None)
    steps: list[str] | None | None = msgspec.field(default=None)


class ScheduleRun(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One run, or neighbouring slots that were skipped together."""

    cause: Literal['due', 'late', 'manual']
    created_at: str
    ended_at: str | None
    first_slot: str
    job_id: str | None
    lateness_seconds: int
    outcome: Literal['RECEIVED', 'PARSED', 'POLICY_CHECKED', 'PLANNED', 'EXECUTING', 'WAITING_APPROVAL', 'PR_OPENED', 'MERGED', 'DEPLOYED', 'DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT', 'PAUSED_BUDGET', None]
    reason: str
    run_instance_id: str
    said: str
    schedule_id: str
    scheduled_at: str
    slots: int
    state: Literal['QUEUED', 'STARTED', 'ENDED', 'SKIPPED']


class ScheduleShown(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything there is to say about a schedule."""

    at: str | None
    constraints: "WorkLimits"
    cron: str | None
    cron_notes: str | None
    cron_summary: str
    due_at: str | None
    enabled: bool
    evidence: list[str]
    failures: int
    goal: str
    hash: str
    inputs: dict[str, Any]
    interval: str | None
    labels: list[str]
    last_run: Any
    next_run_local: str | None
    next_run_utc: str | None
    next_runs_local: list[str]
    next_runs_utc: list[str]
    options: "ScheduleOptions"
    origin: Literal['registry', 'followup']
    paused_reason: str | None
    plain_notes: list[str]
    plain_summary: str
    project: str | None
    running: list["ScheduleRun"]
    runs: list["ScheduleRun"]
    schedule_id: str
    sop: str | None
    state: Literal['waits', 'paused', 'disabled', 'over']
    steps: list[str]
    timezone: str
    trigger: Literal['cron', 'interval', 'at']
    tzdata_version: str


class ScheduleUnreadable(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A schedule whose row cannot be read."""

    message: str
    schedule_id: str


class Schedules(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Schedules, and what is wrong with them."""

    followups: list["Schedule"]
    items: list["Schedule"]
    next_cursor: str | None
    registry_broken: str | None
    registry_changed: bool
    unreadable: list["ScheduleUnreadable"]


class ScopeView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thing that an account may be allowed to do."""

    granted: bool
    scope: str
    words: str


class Seen(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What that changed."""

    seen: int
    unseen: int


class SeenUntil(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was seen."""

    until: str


class Selection(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an authenticator must be able to do."""

    require_resident_key: bool = msgspec.field(name="requireResidentKey")
    resident_key: Literal['preferred'] = msgspec.field(name="residentKey")
    user_verification: Literal['required'] = msgspec.field(name="userVerification")


class SessionPolicy(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Narrows what the configuration allows; it never widens it."""

    forbidden_paths: list[str] | None = msgspec.field(default=None)
    network: Any = msgspec.field(default=None)
    requires_approval_for: list[str] | None = msgspec.field(default=None)
    shell_allowlist: list[str] | None | None = msgspec.field(default=None)
    shell_denylist: list[str] | None = msgspec.field(default=None)


class SessionStarted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session that was started, or waits for the owner."""

    needs: str
    session: "SessionView"
    session_id: str
    workspace_id: str
    worktree_path: str


class SessionTree(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A family of sessions, parents before those that they began."""

    items: list["SessionView"]


class SessionView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session."""

    action_id: str
    base: str
    branch: str
    code: Literal['EXITED', 'STOPPED', 'ESTOP', 'LOST', 'LIMIT', 'INTERRUPTED', 'CHECKOUT_FAILED', 'START_FAILED', 'OVER_PLAN', 'UNGUARDED'] | Literal['']
    created_at: str
    ended_at: str | None
    exit_code: int | None
    job_id: str
    mode: Literal['read', 'write']
    org_id: str
    parent_id: str
    provider: str
    reason: str
    repo: "RepoRef"
    room_path: str
    seq: int
    session_id: str
    size: "Size"
    started_at: str | None
    state: Literal['CREATED', 'PREPARING_WORKSPACE', 'STARTING_PROVIDER', 'RUNNING', 'WAITING_FOR_APPROVAL', 'PAUSED_BY_HUMAN', 'STOPPING', 'COMPLETED', 'FAILED']
    structured: bool
    task: "Task"
    thread_id: str
    usage: "Units"
    waiting: list[str]
    workspace_id: str
    worktree_path: str


class SetMode(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which pull requests merge without a question."""

    hours: int | None | None = msgspec.field(default=None)
    mode: Literal['strict', 'whitelist', 'yolo']


class SettingChange(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One changed key."""

    key: str
    op: Literal['add', 'remove', 'set', 'unset'] | None = msgspec.field(default=None)
    value: str | bool | int | float | list[str] | dict[str, str] | None | None = msgspec.field(default=None)


class ShowFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which file is to be shown."""

    path: str


class ShownFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A workspace file as it is now. Showing it is an action like any other."""

    action_id: str
    content: str
    cut: bool
    image: str
    kind: Literal['text', 'png', 'jpeg', 'gif', 'webp', 'pdf', 'zip', 'other']
    label: str
    path: str
    sha256: str
    size: int
    untrusted: bool


class SignIn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who asks, and what the panel needs to know first."""

    confirmed: bool
    device: "Device"
    estop: bool
    origin: str
    passkey_window_ends_at: str | None
    passkeys: int
    version: str
    way: Literal['cookie', 'bearer']


class SignInView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sign-in that is under way."""

    address: str
    fault: str
    state: Literal['waiting', 'answered', 'failed']


class Signed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A passkey signature, and what is wrong with it."""

    assertion_id: str
    device_id: str
    disagreements: list[str]
    holds: bool
    origin: str
    passkey_id: str
    passkey_name: str | None
    purpose: str
    signed_at: str


class SignedIn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a browser on another machine ended."""

    address: str


class Size(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The size of a terminal in characters."""

    columns: int | None = msgspec.field(default=None)
    rows: int | None = msgspec.field(default=None)


class Sizes(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The open work."""

    approved: int
    open_jobs: int
    unknown: int
    waiting: int


class SkillDetails(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A skill: what it is for, what is wrong with it, and what it narrows."""

    description: str
    domains: list[str] | None
    evidence: list[str]
    faults: list[str]
    inputs: list[str]
    intent: str
    labels: list[str]
    name: str
    sha256: str
    size: int
    tools: list[str] | None
    triggers: list[str]
    ungranted: list[str]


class SkillShown(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A skill with its text."""

    details: "SkillDetails"
    file: "OwnerFile"
    name: str
    uses: list["SkillUsed"]


class SkillUsed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A turn or a job that worked under a skill."""

    at: str
    job_id: str | None
    sha256: str
    thread_id: str
    turn_id: str
    why: str


class SopFault(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something wrong with a procedure."""

    message: str
    step: str


class SopListed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A procedure in the workspace."""

    description: str
    faults: list["SopFault"]
    file_hash: str
    labels: list[str]
    name: str
    steps: list["SopStepListed"]
    valid: bool


class SopRun(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run of a procedure in a list."""

    answered: bool
    created_at: str
    job_id: str | None
    name: str
    of: int
    reason: str
    run_id: str
    state: Literal['RUNNING', 'WAITING', 'DONE', 'FAILED']
    step: int
    step_id: str
    thread_id: str
    updated_at: str
    waiting: list["JobQuestion"]
    working: bool


class SopRunShown(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run with its steps."""

    answered: bool
    changed: bool
    created_at: str
    description: str
    file_hash: str
    job_id: str | None
    labels: list[str]
    name: str
    of: int
    reason: str
    run_id: str
    state: Literal['RUNNING', 'WAITING', 'DONE', 'FAILED']
    step: int
    step_id: str
    steps: list["SopRunStep"]
    thread_id: str
    updated_at: str
    waiting: list["JobQuestion"]
    working: bool


class SopRunStep(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A step of a run, begun or not."""

    action_id: str | None
    action_status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN', None]
    artifact_id: str | None
    code: str
    cut: bool
    ended_at: str | None
    id: str
    kind: str
    label: str
    output: str
    prompt: str
    started_at: str | None
    state: Literal['TO_DO', 'RUNNING', 'WAITING', 'HELD', 'SUCCEEDED', 'FAILED', 'SKIPPED']
    tool: str | None
    tries: int
    when: str


class SopStepListed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A step of a procedure."""

    id: str
    kind: str
    tool: str | None


class StartSession(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session to start."""

    billing: Any = msgspec.field(default=None)
    checkout: Any = msgspec.field(default=None)
    job_id: str | None = msgspec.field(default=None)
    mode: Literal['read', 'write'] | None = msgspec.field(default=None)
    org_id: str | None = msgspec.field(default=None)
    parent_id: str | None = msgspec.field(default=None)
    policy: Any = msgspec.field(default=None)
    provider: Literal['claude', 'codex', 'fake', 'gemini', 'shell'] | None = msgspec.field(default=None)
    queue: bool | None = msgspec.field(default=None)
    repo: "RepoRef"
    room_path: str | None = msgspec.field(default=None)
    size: Any = msgspec.field(default=None)
    structured: bool | None = msgspec.field(default=None)
    task: Any = msgspec.field(default=None)
    thread_id: str | None = msgspec.field(default=None)


class StatusNow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How things stand."""

    autonomy: Literal['readonly', 'supervised', 'full']
    chain: "ChainNow"
    config_fault: str
    estop: "EstopNow"
    model: str
    policy_broken: bool
    provider: str
    queue: "Sizes"
    started_at: str
    uptime_seconds: int
    version: str
    waiting_for: str
    worker: bool


class Story(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything recorded about one action."""

    action_id: str
    agrees: bool
    approval: "Approval"
    args: Any
    args_hash: str
    asked: "Asked"
    attempt: int
    attempts: list["Attempt"]
    decision: dict[str, Any]
    digest: str
    disagreements: list[str]
    events: list["AuditEvent"]
    idempotency_key: str
    identity: str | None
    next_attempt_at: str | None
    notes: list[str]
    receipts: list["Proof"]
    result: Any
    skills: list["AuditEvent"]
    status: str
    taint: Any
    tool: str
    uncertain: bool
    updated_at: str


class StoryTold(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The story of an action, and what it is."""

    about: str
    action_id: str
    agrees: bool
    approval: "Approval"
    args: Any
    args_hash: str
    asked: "Asked"
    attempt: int
    attempts: list["Attempt"]
    decision: dict[str, Any]
    digest: str
    disagreements: list[str]
    events: list["AuditEvent"]
    idempotency_key: str
    identity: str | None
    next_attempt_at: str | None
    notes: list[str]
    receipts: list["Proof"]
    refusal: Literal['rejected', 'denied', 'withdrawn', 'expired', None]
    result: Any
    skills: list["AuditEvent"]
    status: str
    taint: Any
    tool: str
    uncertain: bool
    updated_at: str


class StreamGap(msgspec.Struct, kw_only=True, omit_defaults=True):
    """These numbers are missing. `from` beyond `to`: they never existed, and the stream continues at `to`."""

    from_: int = msgspec.field(name="from")
    to: int


class StreamHello(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The first message of every stream."""

    now: str
    seq: int
    version: str

StreamMessage: TypeAlias = dict[str, Any]


class Subscription(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A browser of this device that is told while the panel is closed."""

    created_at: str
    endpoint_sha256: str
    host: str
    subscription_id: str


class TakeQuest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who works on it."""

    provider: str | None = msgspec.field(default=None)


class Task(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the session is for."""

    acceptance: list[str] | None = msgspec.field(default=None)
    constraints: list[str] | None = msgspec.field(default=None)
    goal: str | None = msgspec.field(default=None)
    title: str | None = msgspec.field(default=None)


class TextDelta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A piece of an answer that is being written; it has no number and is not stored."""

    offset: int
    text: str
    thread_id: str
    turn_id: str


class Thread(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A conversation."""

    came_of_it: Any
    channel: str
    created_at: str
    last: Any
    messages: int
    model: str | None
    project: str | None
    running_turn_id: str | None
    thread_id: str
    title: str
    updated_at: str
    waiting_approvals: int
    waiting_turns: int


class Ticket(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a page shows beside its cookie to open one WebSocket, as the second protocol, within half a minute."""

    ticket: str


class TokenRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a token is to open."""

    access: Literal['drive', 'watch']
    org_id: str
    repo_id: str | None | None = msgspec.field(default=None)
    session_id: str | None | None = msgspec.field(default=None)


class ToolList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Every tool there is."""

    items: list["ToolListed"]


class ToolListed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool, and what a plain call of it would be told."""

    always_ask: bool
    description: str
    destination: Literal['internal', 'workspace', 'machine', 'external']
    effect: Literal['READ', 'WRITE', 'EXFILTRATION']
    idempotent: bool
    lane: Literal['A', 'B', 'C']
    name: str
    parameters: dict[str, Any]
    reasons: list[str]
    risk: Literal['R0', 'R1', 'R2', 'R3']
    verdict: Literal['allow', 'ask', 'deny']

Topic: TypeAlias = Literal['thread', 'action', 'approval', 'job', 'pull', 'session', 'patrol', 'evolve', 'sop', 'schedule', 'receipt', 'notification', 'estop', 'device', 'settings', 'ledger']


class TrendPoint(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How one past run went."""

    at: str
    failed: int
    findings: int
    state: Literal['running', 'passed', 'failed', 'not_audited', 'error']


class TriggerConfig(msgspec.Struct, kw_only=True, omit_defaults=True):
    """When it runs: one of `cron`, `interval` and `at`."""

    at: str | None | None = msgspec.field(default=None)
    cron: str | None | None = msgspec.field(default=None)
    every_seconds: int | None | None = msgspec.field(default=None)
    interval: str | None | None = msgspec.field(default=None)


class Turn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One message of the owner and its answer."""

    answer: str | None
    code: str
    created_at: str
    ended_at: str | None
    ending: str
    message_id: str
    partial: str
    reason: str
    started_at: str | None
    state: Literal['QUEUED', 'RUNNING', 'WAITING', 'ANSWERED', 'FAILED', 'STOPPED', 'INTERRUPTED']
    thread_id: str
    turn_id: str


class TypeIn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Input for a session."""

    data: str
    mode: Literal['line', 'raw'] | None = msgspec.field(default=None)


class UndoProposed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An undo that waits for the owner: its card names every file."""

    action_id: str
    scope: Literal['write', 'turn']
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']


class UndoWrite(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is to be taken back: what an action wrote, or the last writing of a file."""

    action_id: str | None = msgspec.field(default=None)
    path: str | None = msgspec.field(default=None)


class Units(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a session used."""

    agent_seconds: int
    cached_tokens: int
    cost_millionths: int
    files_touched: int
    input_tokens: int
    output_tokens: int
    provider_invocations: int
    terminal_kb: int
    unpriced_tokens: int


class UsageBill(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What one group took, and what it cost as far as prices are known."""

    answers: int
    cached_tokens: int
    cost_millionths: int | None
    estimated_tokens: int
    group: str
    input_tokens: int
    output_tokens: int
    unpriced_tokens: int


class UsageBudgets(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The ceilings, and what is left of them today."""

    daily_tokens: int
    job_tokens: int
    left_today: int
    turn_tokens: int
    used_today: int


class UsageList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What sessions used, by organization, month and provider."""

    items: list["MonthUsage"]


class UsageReport(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What answers took."""

    budgets: "UsageBudgets"
    by: Literal['model', 'provider', 'day', 'job']
    rows: list["UsageBill"]
    since: str
    total: "UsageBill"


class User(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Whose passkey it is."""

    display_name: str = msgspec.field(name="displayName")
    id: str
    name: str


class Verification(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What verification found."""

    at: str
    broken: Any
    heads: int
    notes: list[str]
    receipts: int
    valid: bool


class VouchFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which file the owner vouches for, as they were shown it."""

    path: str
    sha256: str


class VouchProposed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A vouching that waits for the owner's proof: its card names every label that goes."""

    action_id: str
    needs: str
    status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN']


class Waiting(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How many actions wait for the owner's word."""

    lanes: "WaitingLanes"
    total: int


class WaitingLanes(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How many wait, by lane."""

    a: int = msgspec.field(name="A")
    b: int = msgspec.field(name="B")
    c: int = msgspec.field(name="C")


class WebhookTaken(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A delivery that was accepted."""

    started: bool


class WithProof(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A passkey's answer, where one is needed."""

    proof: Any | None = msgspec.field(default=None)


class WorkLimits(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Limits of a job; they only ever narrow what the configuration grants."""

    allowed_domains: list[str] | None | None = msgspec.field(default=None)
    allowed_programs: list[str] | None | None = msgspec.field(default=None)
    allowed_tools: list[str] | None | None = msgspec.field(default=None)
    max_files_changed: int | None | None = msgspec.field(default=None)
    max_prs: int | None | None = msgspec.field(default=None)


class Refused(Exception):
    """The server answered with a problem."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('code')}: {problem.get('detail')}")
        self.status = status
        self.code = problem.get("code")
        self.problem = problem


class Client:
    """One method for each operation."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def _ask(
        self, method: str, path: str, query: dict[str, Any], headers: dict[str, Any], body: Any, kind: Any
    ) -> Any:
        sent = None if body is None else msgspec.json.encode(body)
        named = {name: value for name, value in headers.items() if value is not None}
        if sent is not None:
            named["Content-Type"] = "application/json"
        asked = {name: value for name, value in query.items() if value is not None}
        answer = await self._http.request(method, path, params=asked, content=sent, headers=named)
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.json())
        if kind is None or answer.status_code == 204:
            return None
        if kind is bytes:
            return answer.content
        return msgspec.json.decode(answer.content, type=kind)

    async def chat(self, body: Said, *, idempotency_key: str | None = None) -> ChatAnswer:
        """Send a message and wait for the answer: 200 with the answer, 202 when it takes longer; work continues."""
        return await self._ask("POST", "/chat", {}, {"Idempotency-Key": idempotency_key}, body, ChatAnswer)

    async def engage_estop_short(self, *, idempotency_key: str | None = None) -> EstopNow:
        """Stop every effect at once, whatever is sent along. POST /v1/estop does the same and takes a reason."""
        return await self._ask("POST", "/estop", {}, {"Idempotency-Key": idempotency_key}, None, EstopNow)

    async def get_health(self, *, if_none_match: str | None = None) -> Health:
        """Whether somebody is there. Needs no token and nothing of the database."""
        return await self._ask("GET", "/health", {}, {"If-None-Match": if_none_match}, None, Health)

    async def gateway_search_memory(self, *, q: str | None = None, limit: int | None = None, if_none_match: str | None = None) -> Hits:
        """Messages of all conversations that hold the words, best first."""
        return await self._ask("GET", "/memory/search", {"q": q, "limit": limit}, {"If-None-Match": if_none_match}, None, Hits)

    async def get_metrics(self) -> bytes:
        """Counters, gauges and histograms in Prometheus' text format. Needs a token like everything else."""
        return await self._ask("GET", "/metrics", {}, {}, None, bytes)

    async def gateway_receipts(self, *, limit: int | None = None, if_none_match: str | None = None) -> list[Receipt]:
        """The newest receipts, newest first."""
        return await self._ask("GET", "/receipts", {"limit": limit}, {"If-None-Match": if_none_match}, None, list[Receipt])

    async def list_adapters(self, *, if_none_match: str | None = None) -> AdapterList:
        """The coding programs that sessions can run, with the versions that are installed."""
        return await self._ask("GET", "/runner/v1/adapters", {}, {"If-None-Match": if_none_match}, None, AdapterList)

    async def change_adapter(self, name: str, body: ChangeAdapter, *, idempotency_key: str | None = None) -> AdapterView:
        """Give another version to new sessions. Running ones keep theirs."""
        return await self._ask("POST", f"/runner/v1/adapters/{name}", {}, {"Idempotency-Key": idempotency_key}, body, AdapterView)

    async def list_alerts(self, *, everything: bool | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfAlertView:
        """Open alerts, newest first; each fingerprint stands once."""
        return await self._ask("GET", "/runner/v1/alerts", {"everything": everything, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfAlertView)

    async def mute_alert(self, alert_id: str, body: MuteAlert, *, idempotency_key: str | None = None) -> AlertView:
        """Mute an alert for some hours. It is still counted."""
        return await self._ask("POST", f"/runner/v1/alerts/{alert_id}/mute", {}, {"Idempotency-Key": idempotency_key}, body, AlertView)

    async def offer_quest(self, alert_id: str, *, idempotency_key: str | None = None) -> QuestView:
        """Offer an alert as a quest; the one there is if it has one already."""
        return await self._ask("POST", f"/runner/v1/alerts/{alert_id}/quest", {}, {"Idempotency-Key": idempotency_key}, None, QuestView)

    async def resolve_alert(self, alert_id: str, *, idempotency_key: str | None = None) -> AlertView:
        """Close an alert. A run that sees it again raises it again."""
        return await self._ask("POST", f"/runner/v1/alerts/{alert_id}/resolve", {}, {"Idempotency-Key": idempotency_key}, None, AlertView)

    async def list_buildings(self, *, if_none_match: str | None = None) -> BuildingList:
        """Every repository, or room of one, with its health and how its patrols went."""
        return await self._ask("GET", "/runner/v1/buildings", {}, {"If-None-Match": if_none_match}, None, BuildingList)

    async def list_orgs(self, *, if_none_match: str | None = None) -> OrgList:
        """Whom sessions are run for, and how much of their plans is used."""
        return await self._ask("GET", "/runner/v1/orgs", {}, {"If-None-Match": if_none_match}, None, OrgList)

    async def export_org_audit(self, org_id: str) -> bytes:
        """What the ledger holds about the sessions of an organization, and nothing about others'."""
        return await self._ask("GET", f"/runner/v1/orgs/{org_id}/audit", {}, {}, None, bytes)

    async def list_patrol_runs(self, *, repo: str | None | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfRunView:
        """Runs of patrols, newest first."""
        return await self._ask("GET", "/runner/v1/patrols", {"repo": repo, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfRunView)

    async def run_patrol(self, body: RunPatrol, *, idempotency_key: str | None = None) -> PatrolStarted:
        """Run patrols of a repository now, as a job."""
        return await self._ask("POST", "/runner/v1/patrols", {}, {"Idempotency-Key": idempotency_key}, body, PatrolStarted)

    async def get_patrol_run(self, run_id: str, *, if_none_match: str | None = None) -> RunShown:
        """A run, with the end of what its command wrote."""
        return await self._ask("GET", f"/runner/v1/patrols/{run_id}", {}, {"If-None-Match": if_none_match}, None, RunShown)

    async def list_quests(self, *, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfQuestView:
        """Quests, newest first."""
        return await self._ask("GET", "/runner/v1/quests", {"limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfQuestView)

    async def drop_quest(self, quest_id: str, body: DropQuest, *, idempotency_key: str | None = None) -> QuestView:
        """Drop a quest. Its session goes on."""
        return await self._ask("POST", f"/runner/v1/quests/{quest_id}/drop", {}, {"Idempotency-Key": idempotency_key}, body, QuestView)

    async def review_quest(self, quest_id: str, *, idempotency_key: str | None = None) -> QuestView:
        """Have its patrol look at what was committed; it is done when that passes."""
        return await self._ask("POST", f"/runner/v1/quests/{quest_id}/review", {}, {"Idempotency-Key": idempotency_key}, None, QuestView)

    async def take_quest(self, quest_id: str, body: TakeQuest, *, idempotency_key: str | None = None) -> QuestView:
        """Start a session that works on it."""
        return await self._ask("POST", f"/runner/v1/quests/{quest_id}/take", {}, {"Idempotency-Key": idempotency_key}, body, QuestView)

    async def list_repos(self, *, if_none_match: str | None = None) -> RepoList:
        """The repositories and projects that sessions may work on."""
        return await self._ask("GET", "/runner/v1/repos", {}, {"If-None-Match": if_none_match}, None, RepoList)

    async def list_sessions(self, *, org_id: str | None | None = None, thread_id: str | None = None, job_id: str | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfSessionView:
        """Sessions, newest first."""
        return await self._ask("GET", "/runner/v1/sessions", {"org_id": org_id, "thread_id": thread_id, "job_id": job_id, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfSessionView)

    async def start_session(self, body: StartSession, *, idempotency_key: str | None = None) -> SessionStarted:
        """Start a boxed terminal in a checkout of its own. One that may reach the network waits for the owner first."""
        return await self._ask("POST", "/runner/v1/sessions", {}, {"Idempotency-Key": idempotency_key}, body, SessionStarted)

    async def remove_session(self, session_id: str, *, idempotency_key: str | None = None) -> None:
        """Remove the checkout and the recording of a session that is over; its receipts stay."""
        return await self._ask("DELETE", f"/runner/v1/sessions/{session_id}", {}, {"Idempotency-Key": idempotency_key}, None, None)

    async def get_session(self, session_id: str, *, if_none_match: str | None = None) -> SessionView:
        """One session."""
        return await self._ask("GET", f"/runner/v1/sessions/{session_id}", {}, {"If-None-Match": if_none_match}, None, SessionView)

    async def answer_session(self, session_id: str, body: AnswerQuestion, *, idempotency_key: str | None = None) -> SessionView:
        """Answer a question of the session: the same queue and the same proofs as `/v1/approvals`."""
        return await self._ask("POST", f"/runner/v1/sessions/{session_id}/approve", {}, {"Idempotency-Key": idempotency_key}, body, SessionView)

    async def get_session_diff(self, session_id: str, *, path: str | None = None, if_none_match: str | None = None) -> Difference:
        """What differs from the commit that was checked out, read by git in a box."""
        return await self._ask("GET", f"/runner/v1/sessions/{session_id}/diff", {"path": path}, {"If-None-Match": if_none_match}, None, Difference)

    async def list_session_events(self, session_id: str, *, after: int | None = None, limit: int | None = None, if_none_match: str | None = None) -> EventList:
        """What happened in the session, in order; terminal output is not among it."""
        return await self._ask("GET", f"/runner/v1/sessions/{session_id}/events", {"after": after, "limit": limit}, {"If-None-Match": if_none_match}, None, EventList)

    async def type_in(self, session_id: str, body: TypeIn, *, idempotency_key: str | None = None) -> None:
        """Type into a session."""
        return await self._ask("POST", f"/runner/v1/sessions/{session_id}/input", {}, {"Idempotency-Key": idempotency_key}, body, None)

    async def pause_session(self, session_id: str, *, idempotency_key: str | None = None) -> SessionView:
        """Stop all its processes until it is resumed."""
        return await self._ask("POST", f"/runner/v1/sessions/{session_id}/pause", {}, {"Idempotency-Key": idempotency_key}, None, SessionView)

    async def ask_for_pull(self, session_id: str, *, idempotency_key: str | None = None) -> PullAsked:
        """Ask the owner whether its commits may leave it, as a pull request. Every commit is read first."""
        return await self._ask("POST", f"/runner/v1/sessions/{session_id}/pull", {}, {"Idempotency-Key": idempotency_key}, None, PullAsked)

    async def resize_session(self, session_id: str, body: Size, *, idempotency_key: str | None = None) -> None:
        """Change the size of its terminal."""
        return await self._ask("POST", f"/runner/v1/sessions/{session_id}/resize", {}, {"Idempotency-Key": idempotency_key}, body, None)

    async def resume_session(self, session_id: str, *, idempotency_key: str | None = None) -> SessionView:
        """Let it go on."""
        return await self._ask("POST", f"/runner/v1/sessions/{session_id}/resume", {}, {"Idempotency-Key": idempotency_key}, None, SessionView)

    async def stop_session(self, session_id: str, *, idempotency_key: str | None = None) -> SessionView:
        """Ask it to end; what does not end within five seconds is killed."""
        return await self._ask("POST", f"/runner/v1/sessions/{session_id}/stop", {}, {"Idempotency-Key": idempotency_key}, None, SessionView)

    async def get_terminal(self, session_id: str, *, format: Literal['text', 'asciicast'] | None = None, if_none_match: str | None = None) -> str:
        """What was recorded of its terminal, without secrets."""
        return await self._ask("GET", f"/runner/v1/sessions/{session_id}/terminal", {"format": format}, {"If-None-Match": if_none_match}, None, str)

    async def get_session_tree(self, session_id: str, *, if_none_match: str | None = None) -> SessionTree:
        """The session that began it all, and every one below it; each names its parent."""
        return await self._ask("GET", f"/runner/v1/sessions/{session_id}/tree", {}, {"If-None-Match": if_none_match}, None, SessionTree)

    async def issue_runner_token(self, body: TokenRequest, *, idempotency_key: str | None = None) -> RunnerToken:
        """A token that opens only these sessions, for 15 minutes at a time, renewable for a day."""
        return await self._ask("POST", "/runner/v1/tokens", {}, {"Idempotency-Key": idempotency_key}, body, RunnerToken)

    async def renew_runner_token(self, *, idempotency_key: str | None = None) -> Renewed:
        """Another 15 minutes for the runner token that this request is sent with."""
        return await self._ask("POST", "/runner/v1/tokens/renew", {}, {"Idempotency-Key": idempotency_key}, None, Renewed)

    async def get_session_usage(self, *, org_id: str | None | None = None, if_none_match: str | None = None) -> UsageList:
        """What sessions used, by organization, month and provider."""
        return await self._ask("GET", "/runner/v1/usage", {"org_id": org_id}, {"If-None-Match": if_none_match}, None, UsageList)

    async def deliver_webhook(self, repo_id: str) -> WebhookTaken:
        """Start the patrols that the configuration names. The body is only checked against its signature."""
        return await self._ask("POST", f"/runner/v1/webhooks/{repo_id}", {}, {}, None, WebhookTaken)

    async def get_status(self, *, if_none_match: str | None = None) -> StatusNow:
        """How things stand, in one look."""
        return await self._ask("GET", "/status", {}, {"If-None-Match": if_none_match}, None, StatusNow)

    async def list_tools(self, *, if_none_match: str | None = None) -> ToolList:
        """Every tool, and what the gate says to a plain call of it now."""
        return await self._ask("GET", "/tools", {}, {"If-None-Match": if_none_match}, None, ToolList)

    async def list_accounts(self, *, if_none_match: str | None = None) -> AccountList:
        """Both accounts: whose mailbox, what was allowed, when it was last used, and what went wrong."""
        return await self._ask("GET", "/v1/accounts", {}, {"If-None-Match": if_none_match}, None, AccountList)

    async def connect_account(self, identity: str, *, idempotency_key: str | None = None) -> AccountAnswer:
        """Propose to keep the account of the sign-in. It waits for the owner's passkey."""
        return await self._ask("POST", f"/v1/accounts/{identity}/connect", {}, {"Idempotency-Key": idempotency_key}, None, AccountAnswer)

    async def disconnect_account(self, identity: str, *, idempotency_key: str | None = None) -> AccountAnswer:
        """Propose to revoke an account's permission at Google and to forget it here. It waits for the passkey."""
        return await self._ask("POST", f"/v1/accounts/{identity}/disconnect", {}, {"Idempotency-Key": idempotency_key}, None, AccountAnswer)

    async def begin_sign_in(self, identity: str, *, idempotency_key: str | None = None) -> AccountView:
        """Begin to sign in at Google. The account's `sign_in.address` is for a browser; nothing is connected yet."""
        return await self._ask("POST", f"/v1/accounts/{identity}/sign-in", {}, {"Idempotency-Key": idempotency_key}, None, AccountView)

    async def end_sign_in(self, identity: str, body: SignedIn, *, idempotency_key: str | None = None) -> AccountView:
        """Hand in the address that a browser on another machine could not open. On this machine it is not needed."""
        return await self._ask("POST", f"/v1/accounts/{identity}/signed-in", {}, {"Idempotency-Key": idempotency_key}, body, AccountView)

    async def list_actions(self, *, status: Literal['PENDING', 'APPROVED', 'REJECTED', 'EXECUTED', 'FAILED', 'UNKNOWN', None] | None = None, refusal: Literal['rejected', 'denied', 'withdrawn', 'expired', None] | None = None, tool: str | None | None = None, lane: Literal['A', 'B', 'C', None] | None = None, source: Literal['chat', 'job', 'schedule', 'cli', 'gateway', 'sop', 'session', 'mcp', None] | None = None, thread_id: str | None | None = None, job_id: str | None | None = None, session_id: str | None | None = None, since: str | None | None = None, until: str | None | None = None, q: str | None | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfActionSummary:
        """Actions of every status, newest first. A page may be short, or empty, and still have a next one."""
        return await self._ask("GET", "/v1/actions", {"status": status, "refusal": refusal, "tool": tool, "lane": lane, "source": source, "thread_id": thread_id, "job_id": job_id, "session_id": session_id, "since": since, "until": until, "q": q, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfActionSummary)

    async def get_action(self, action_id: str, *, if_none_match: str | None = None) -> ActionDetail:
        """One action with its arguments, its decision, its card while it waits, its outcome and its whole story."""
        return await self._ask("GET", f"/v1/actions/{action_id}", {}, {"If-None-Match": if_none_match}, None, ActionDetail)

    async def repropose_action(self, action_id: str, *, idempotency_key: str | None = None) -> ActionSummary:
        """Propose the stored bytes of a refused or failed action again, by the owner's own hand. The new action says."""
        return await self._ask("POST", f"/v1/actions/{action_id}/repropose", {}, {"Idempotency-Key": idempotency_key}, None, ActionSummary)

    async def resolve_action(self, action_id: str, body: Resolve, *, idempotency_key: str | None = None) -> Answered:
        """Say how an action whose end is UNKNOWN really ended, or have it done again. Look at the other end first."""
        return await self._ask("POST", f"/v1/actions/{action_id}/resolve", {}, {"Idempotency-Key": idempotency_key}, body, Answered)

    async def list_answers(self, *, ended: bool | None = None, if_none_match: str | None = None) -> AnswerList:
        """The yeses that hold from now on, the newest first, with how often each was used."""
        return await self._ask("GET", "/v1/answers", {"ended": ended}, {"If-None-Match": if_none_match}, None, AnswerList)

    async def revoke_answer(self, answer_id: str, *, idempotency_key: str | None = None) -> AnswerView:
        """From now on such calls ask again. Revoking one that has ended changes nothing."""
        return await self._ask("DELETE", f"/v1/answers/{answer_id}", {}, {"Idempotency-Key": idempotency_key}, None, AnswerView)

    async def list_approvals(self, *, status: Literal['pending', 'approved', 'rejected', 'executed', 'failed', 'unknown', 'expired', 'all'] | None = None, order: Literal['newest', 'expiring'] | None = None, lane: Literal['A', 'B', 'C', None] | None = None, thread_id: str | None | None = None, job_id: str | None | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfApprovalCard:
        """Cards of actions that need the owner's word, newest first: those that wait, or those of another standing."""
        return await self._ask("GET", "/v1/approvals", {"status": status, "order": order, "lane": lane, "thread_id": thread_id, "job_id": job_id, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfApprovalCard)

    async def count_waiting(self, *, thread_id: str | None | None = None, job_id: str | None | None = None, if_none_match: str | None = None) -> Waiting:
        """How many actions wait for the owner's word at this moment: all of them, or those of a job or conversation."""
        return await self._ask("GET", "/v1/approvals/waiting", {"thread_id": thread_id, "job_id": job_id}, {"If-None-Match": if_none_match}, None, Waiting)

    async def get_approval(self, action_id: str, *, if_none_match: str | None = None) -> ApprovalCard:
        """The card of an action as things stand now."""
        return await self._ask("GET", f"/v1/approvals/{action_id}", {}, {"If-None-Match": if_none_match}, None, ApprovalCard)

    async def approve_action(self, action_id: str, body: Approve, *, idempotency_key: str | None = None) -> Answered:
        """Approve exactly what was shown, once. The answer comes as soon as the yes is durable; the action is then."""
        return await self._ask("POST", f"/v1/approvals/{action_id}/approve", {}, {"Idempotency-Key": idempotency_key}, body, Answered)

    async def reject_action(self, action_id: str, body: Reject, *, idempotency_key: str | None = None) -> Answered:
        """Refuse an action, with a reason that the agent is told. Saying no again changes nothing."""
        return await self._ask("POST", f"/v1/approvals/{action_id}/reject", {}, {"Idempotency-Key": idempotency_key}, body, Answered)

    async def get_artifact(self, artifact_id: str, *, if_none_match: str | None = None) -> Artifact:
        """Artifact metadata."""
        return await self._ask("GET", f"/v1/artifacts/{artifact_id}", {}, {"If-None-Match": if_none_match}, None, Artifact)

    async def get_artifact_content(self, artifact_id: str, *, if_none_match: str | None | None = None) -> bytes:
        """The bytes of an artifact, as a download. Text leaves without secrets, anything else as it is."""
        return await self._ask("GET", f"/v1/artifacts/{artifact_id}/content", {}, {"If-None-Match": if_none_match}, None, bytes)

    async def list_audit(self, *, event_type: str | None | None = None, entity_id: str | None | None = None, quiet: bool | None = None, since: str | None | None = None, until: str | None | None = None, after: int | None | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfAuditLine:
        """What happened, newest first; with `after`, the events that follow that number, oldest first. Payloads carry."""
        return await self._ask("GET", "/v1/audit", {"event_type": event_type, "entity_id": entity_id, "quiet": quiet, "since": since, "until": until, "after": after, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfAuditLine)

    async def export_audit(self, *, event_type: str | None | None = None, entity_id: str | None | None = None, quiet: bool | None = None, since: str | None | None = None, until: str | None | None = None) -> bytes:
        """Every event that is asked for, oldest first, one JSON object a line, as it stood when the export began."""
        return await self._ask("GET", "/v1/audit/export", {"event_type": event_type, "entity_id": entity_id, "quiet": quiet, "since": since, "until": until}, {}, None, bytes)

    async def get_story(self, action_id: str, *, if_none_match: str | None = None) -> StoryTold:
        """The whole story of an action: who asked, what was decided, who approved, what came of it, and its proof."""
        return await self._ask("GET", f"/v1/audit/{action_id}/story", {}, {"If-None-Match": if_none_match}, None, StoryTold)

    async def get_bot(self, *, if_none_match: str | None = None) -> BotView:
        """Whether pull requests work, what merges by itself, and where main is."""
        return await self._ask("GET", "/v1/bot", {}, {"If-None-Match": if_none_match}, None, BotView)

    async def set_merge_mode(self, body: SetMode, *, idempotency_key: str | None = None) -> ModeSet:
        """Stricter holds at once. Anything else is an action that waits for the owner's proof."""
        return await self._ask("PUT", "/v1/bot/mode", {}, {"Idempotency-Key": idempotency_key}, body, ModeSet)

    async def list_threads(self, *, limit: int | None = None, cursor: str | None | None = None, q: str | None = None, talks: bool | None = None, if_none_match: str | None = None) -> PageOfThread:
        """Conversations, the most recently touched first."""
        return await self._ask("GET", "/v1/chat/threads", {"limit": limit, "cursor": cursor, "q": q, "talks": talks}, {"If-None-Match": if_none_match}, None, PageOfThread)

    async def create_thread(self, body: NewThread, *, idempotency_key: str | None = None) -> Thread:
        """Make a conversation. Without a title it is named after its first message."""
        return await self._ask("POST", "/v1/chat/threads", {}, {"Idempotency-Key": idempotency_key}, body, Thread)

    async def delete_thread(self, thread_id: str, *, idempotency_key: str | None = None) -> None:
        """Forget a conversation. Its actions, receipts and jobs stay on record; while something of it still goes on or."""
        return await self._ask("DELETE", f"/v1/chat/threads/{thread_id}", {}, {"Idempotency-Key": idempotency_key}, None, None)

    async def get_thread(self, thread_id: str, *, if_none_match: str | None = None) -> Thread:
        """One conversation."""
        return await self._ask("GET", f"/v1/chat/threads/{thread_id}", {}, {"If-None-Match": if_none_match}, None, Thread)

    async def rename_thread(self, thread_id: str, body: Renamed, *, idempotency_key: str | None = None) -> Thread:
        """Give a conversation another title, or have another configured provider answer in it from now on."""
        return await self._ask("PATCH", f"/v1/chat/threads/{thread_id}", {}, {"Idempotency-Key": idempotency_key}, body, Thread)

    async def compact_thread(self, thread_id: str, *, idempotency_key: str | None = None) -> ContextUse:
        """Have the model sum up the oldest part of a conversation now, full or not. Nothing is deleted: the summary is."""
        return await self._ask("POST", f"/v1/chat/threads/{thread_id}/compact", {}, {"Idempotency-Key": idempotency_key}, None, ContextUse)

    async def get_context(self, thread_id: str, *, if_none_match: str | None = None) -> ContextUse:
        """How full the model's window is with a conversation, by about how many tokens."""
        return await self._ask("GET", f"/v1/chat/threads/{thread_id}/context", {}, {"If-None-Match": if_none_match}, None, ContextUse)

    async def list_messages(self, thread_id: str, *, limit: int | None = None, before: str | None | None = None, after: str | None | None = None, if_none_match: str | None = None) -> Messages:
        """The last messages of a conversation, or those before or after a page that is there already."""
        return await self._ask("GET", f"/v1/chat/threads/{thread_id}/messages", {"limit": limit, "before": before, "after": after}, {"If-None-Match": if_none_match}, None, Messages)

    async def post_message(self, thread_id: str, body: NewMessage, *, idempotency_key: str | None = None) -> Posted:
        """Say something. The answer is worked on in the background: it comes as events, and stands in the conversation."""
        return await self._ask("POST", f"/v1/chat/threads/{thread_id}/messages", {}, {"Idempotency-Key": idempotency_key}, body, Posted)

    async def get_message(self, thread_id: str, message_id: str, *, if_none_match: str | None = None) -> Message:
        """One message, uncut."""
        return await self._ask("GET", f"/v1/chat/threads/{thread_id}/messages/{message_id}", {}, {"If-None-Match": if_none_match}, None, Message)

    async def get_turn(self, turn_id: str, *, if_none_match: str | None = None) -> Turn:
        """How a turn stands, with what was said so far."""
        return await self._ask("GET", f"/v1/chat/turns/{turn_id}", {}, {"If-None-Match": if_none_match}, None, Turn)

    async def stop_turn(self, turn_id: str, *, idempotency_key: str | None = None) -> Turn:
        """Stop a turn: one that waits never begins, one that runs is cut off. What it did stays done and has its."""
        return await self._ask("POST", f"/v1/chat/turns/{turn_id}/stop", {}, {"Idempotency-Key": idempotency_key}, None, Turn)

    async def list_devices(self, *, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfDevice:
        """Devices that are or were paired, the newest first."""
        return await self._ask("GET", "/v1/devices", {"limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfDevice)

    async def rename_device(self, device_id: str, body: NewName, *, idempotency_key: str | None = None) -> Device:
        """Give a device another name."""
        return await self._ask("PATCH", f"/v1/devices/{device_id}", {}, {"Idempotency-Key": idempotency_key}, body, Device)

    async def confirm_device(self, device_id: str, body: WithProof, *, idempotency_key: str | None = None) -> Device:
        """Vouch for a device with a passkey (purpose `device.confirm`): by itself, or by another confirmed one."""
        return await self._ask("POST", f"/v1/devices/{device_id}/confirm", {}, {"Idempotency-Key": idempotency_key}, body, Device)

    async def revoke_device(self, device_id: str, body: WithProof, *, idempotency_key: str | None = None) -> Device:
        """End a device at once: its token is worth nothing any more, its event streams end."""
        return await self._ask("POST", f"/v1/devices/{device_id}/revoke", {}, {"Idempotency-Key": idempotency_key}, body, Device)

    async def get_doctor(self, *, short: bool | None = None, if_none_match: str | None = None) -> Checkup:
        """Probe everything the agent relies on, with a remedy for each fault."""
        return await self._ask("GET", "/v1/doctor", {"short": short}, {"If-None-Match": if_none_match}, None, Checkup)

    async def get_estop(self, *, if_none_match: str | None = None) -> EstopNow:
        """Whether everything is stopped, since when and why."""
        return await self._ask("GET", "/v1/estop", {}, {"If-None-Match": if_none_match}, None, EstopNow)

    async def engage_estop(self, body: EngageEstop | None, *, idempotency_key: str | None = None) -> EstopNow:
        """Stop every effect at once: no tool starts, what runs is ended. Twice is fine; so is an empty body."""
        return await self._ask("POST", "/v1/estop", {}, {"Idempotency-Key": idempotency_key}, body, EstopNow)

    async def clear_estop(self, body: ClearEstop, *, idempotency_key: str | None = None) -> EstopNow:
        """Let things go on. Needs the owner's passkey; what was held goes on by itself."""
        return await self._ask("POST", "/v1/estop/clear", {}, {"Idempotency-Key": idempotency_key}, body, EstopNow)

    async def follow_events(self, *, topics: str | None | None = None, thread_id: str | None | None = None, text_of: str | None | None = None, after: int | None | None = None, follow: bool | None = None, last_event_id: str | None | None = None) -> bytes:
        """Everything that happens, from any process, as Server-Sent Events."""
        return await self._ask("GET", "/v1/events", {"topics": topics, "thread_id": thread_id, "text_of": text_of, "after": after, "follow": follow}, {"Last-Event-ID": last_event_id}, None, bytes)

    async def get_evolve(self, *, if_none_match: str | None = None) -> EvolvePage:
        """What runs, how its starts went, what it was told and reports. `exists` is false before `evolve init`."""
        return await self._ask("GET", "/v1/evolve", {}, {"If-None-Match": if_none_match}, None, EvolvePage)

    async def direct_evolve(self, body: AgentDirective, *, idempotency_key: str | None = None) -> EvolvePage:
        """Add a directive to COMMS.md on main."""
        return await self._ask("POST", "/v1/evolve/directives", {}, {"Idempotency-Key": idempotency_key}, body, EvolvePage)

    async def get_evolve_log(self, *, which: Literal['errors', 'boot', 'watcher'] | None = None, if_none_match: str | None = None) -> EvolveLog:
        """The end of a log: what the agent prints, its starts, or what the watcher did."""
        return await self._ask("GET", "/v1/evolve/logs", {"which": which}, {"If-None-Match": if_none_match}, None, EvolveLog)

    async def release_evolve(self, *, idempotency_key: str | None = None) -> EvolvePage:
        """Let the agent go on after the watcher held it."""
        return await self._ask("POST", "/v1/evolve/release", {}, {"Idempotency-Key": idempotency_key}, None, EvolvePage)

    async def roll_back_evolve(self, body: AgentRollback, *, idempotency_key: str | None = None) -> RollbackAnswer:
        """Propose to start the agent from an earlier commit. It waits for the owner's passkey."""
        return await self._ask("POST", "/v1/evolve/rollback", {}, {"Idempotency-Key": idempotency_key}, body, RollbackAnswer)

    async def stop_evolve(self, *, idempotency_key: str | None = None) -> EvolvePage:
        """End the agent that runs, and its watcher. It is started at the terminal or by its service."""
        return await self._ask("POST", "/v1/evolve/stop", {}, {"Idempotency-Key": idempotency_key}, None, EvolvePage)

    async def upload_file(self, *, name: str | None | None = None, folder: str | None | None = None, idempotency_key: str | None = None) -> Saved:
        """Upload a file of at most 2 MiB to `attachments/` in the workspace, under its own name or the next free one."""
        return await self._ask("POST", "/v1/files", {"name": name, "folder": folder}, {"Idempotency-Key": idempotency_key}, None, Saved)

    async def list_files(self, *, folder: str | None = None, if_none_match: str | None = None) -> FolderListing:
        """Names, kinds and sizes in one folder. Nothing is opened: showing a file is an action of its own."""
        return await self._ask("GET", "/v1/files/list", {"folder": folder}, {"If-None-Match": if_none_match}, None, FolderListing)

    async def show_file(self, body: ShowFile, *, idempotency_key: str | None = None) -> ShownFile:
        """What a workspace file is, its text (the first 128 KiB of it) or the bytes of a small picture. It is read."""
        return await self._ask("POST", "/v1/files/show", {}, {"Idempotency-Key": idempotency_key}, body, ShownFile)

    async def undo_write(self, body: UndoWrite, *, idempotency_key: str | None = None) -> UndoProposed:
        """Propose to take back what one action wrote, or the last writing of a file. Where nobody can tell the files of."""
        return await self._ask("POST", "/v1/files/undo", {}, {"Idempotency-Key": idempotency_key}, body, UndoProposed)

    async def vouch_for_file(self, body: VouchFile, *, idempotency_key: str | None = None) -> VouchProposed:
        """Propose that what a labelled file holds counts as the owner's from now on. It waits, like all that governs."""
        return await self._ask("POST", "/v1/files/vouch", {}, {"Idempotency-Key": idempotency_key}, body, VouchProposed)

    async def deliver_forge_webhook(self) -> ForgeWoken:
        """Look at GitHub now instead of within a minute. The body is only checked against its signature."""
        return await self._ask("POST", "/v1/forge/webhook", {}, {}, None, ForgeWoken)

    async def list_guests(self, *, if_none_match: str | None = None) -> GuestList:
        """Every plugin and MCP server: what it may do, its tools, and what changed since it was approved."""
        return await self._ask("GET", "/v1/guests", {}, {"If-None-Match": if_none_match}, None, GuestList)

    async def get_guest(self, name: str, *, if_none_match: str | None = None) -> GuestView:
        """One guest."""
        return await self._ask("GET", f"/v1/guests/{name}", {}, {"If-None-Match": if_none_match}, None, GuestView)

    async def approve_guest(self, name: str, body: ApproveGuest, *, idempotency_key: str | None = None) -> GuestAnswer:
        """Propose to let in tools of a guest as it was shown. It waits for the owner's passkey, unless that changes."""
        return await self._ask("POST", f"/v1/guests/{name}/approve", {}, {"Idempotency-Key": idempotency_key}, body, GuestAnswer)

    async def disable_guest(self, name: str, *, idempotency_key: str | None = None) -> GuestView:
        """Switch off a guest until it is approved again."""
        return await self._ask("POST", f"/v1/guests/{name}/disable", {}, {"Idempotency-Key": idempotency_key}, None, GuestView)

    async def look_at_guest(self, name: str, *, idempotency_key: str | None = None) -> GuestAnswer:
        """See what a guest offers now. A server is started once in its box; one with network or secrets asks first."""
        return await self._ask("POST", f"/v1/guests/{name}/look", {}, {"Idempotency-Key": idempotency_key}, None, GuestAnswer)

    async def list_intel(self, *, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfIntelView:
        """The files below intel/ on main."""
        return await self._ask("GET", "/v1/intel", {"limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfIntelView)

    async def get_intel(self, *, path: str | None = None, if_none_match: str | None = None) -> IntelFile:
        """A file below intel/ as it stands on main."""
        return await self._ask("GET", "/v1/intel/show", {"path": path}, {"If-None-Match": if_none_match}, None, IntelFile)

    async def list_jobs(self, *, state: Literal['RECEIVED', 'PARSED', 'POLICY_CHECKED', 'PLANNED', 'EXECUTING', 'WAITING_APPROVAL', 'PR_OPENED', 'MERGED', 'DEPLOYED', 'DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT', 'PAUSED_BUDGET', 'PENDING', 'RUNNING', 'COMPLETED', None] | None = None, status: Literal['PENDING', 'RUNNING', 'WAITING_APPROVAL', 'COMPLETED', 'FAILED', 'CANCELLED', 'PAUSED_BUDGET', None] | None = None, thread_id: str | None | None = None, since: str | None | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfJob:
        """Jobs, newest first, each with how far it has come and what it waits for."""
        return await self._ask("GET", "/v1/jobs", {"state": state, "status": status, "thread_id": thread_id, "since": since, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfJob)

    async def create_job(self, body: NewJob, *, idempotency_key: str | None = None) -> JobShown:
        """Make a job out of a goal. What it is given here only narrows what the configuration grants; one that the."""
        return await self._ask("POST", "/v1/jobs", {}, {"Idempotency-Key": idempotency_key}, body, JobShown)

    async def get_job(self, job_id: str, *, if_none_match: str | None = None) -> JobShown:
        """A job with what was asked and planned, what happened, what waits for the owner, what it did, spent and."""
        return await self._ask("GET", f"/v1/jobs/{job_id}", {}, {"If-None-Match": if_none_match}, None, JobShown)

    async def cancel_job(self, job_id: str, body: CancelJob, *, idempotency_key: str | None = None) -> JobShown:
        """Call a job off. A step that runs is cut, what waits for the owner is withdrawn; what was done stays, with."""
        return await self._ask("POST", f"/v1/jobs/{job_id}/cancel", {}, {"Idempotency-Key": idempotency_key}, body, JobShown)

    async def resume_job(self, job_id: str, *, idempotency_key: str | None = None) -> JobShown:
        """Let a job that is paused, or waits before its next try, go on now."""
        return await self._ask("POST", f"/v1/jobs/{job_id}/resume", {}, {"Idempotency-Key": idempotency_key}, None, JobShown)

    async def search_memory(self, *, q: str | None = None, limit: int | None = None, if_none_match: str | None = None) -> Hits:
        """Messages that hold the words, best first: by relevance, with something added for what is recent."""
        return await self._ask("GET", "/v1/memory/search", {"q": q, "limit": limit}, {"If-None-Match": if_none_match}, None, Hits)

    async def list_notifications(self, *, unseen: bool | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> Notifications:
        """Notifications, newest first, and how many were not seen."""
        return await self._ask("GET", "/v1/notifications", {"unseen": unseen, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, Notifications)

    async def see_notifications(self, body: SeenUntil, *, idempotency_key: str | None = None) -> Seen:
        """Note that a notification and all before it were seen, by whichever device."""
        return await self._ask("POST", "/v1/notifications/seen", {}, {"Idempotency-Key": idempotency_key}, body, Seen)

    async def get_overview(self, *, days: int | None = None, if_none_match: str | None = None) -> Overview:
        """What happened over some days, counted by day, and what waits for the owner now. Days are UTC; a day that is."""
        return await self._ask("GET", "/v1/overview", {"days": days}, {"If-None-Match": if_none_match}, None, Overview)

    async def bind_device(self, body: Binding) -> Paired:
        """Let this device in, with a code that the terminal or a paired device shows. Needs no token."""
        return await self._ask("POST", "/v1/pairing/bind", {}, {}, body, Paired)

    async def create_pairing_code(self, body: CodeWanted, *, idempotency_key: str | None = None) -> Code:
        """A one-time code for another device; the code before it is void. Five tries, a few minutes. The new device."""
        return await self._ask("POST", "/v1/pairing/code", {}, {"Idempotency-Key": idempotency_key}, body, Code)

    async def show_git_hub_sign_in(self, *, if_none_match: str | None = None) -> GitHubWay:
        """Where to sign in with GitHub, if that is set up and there is a passkey. Needs no token."""
        return await self._ask("GET", "/v1/pairing/github", {}, {"If-None-Match": if_none_match}, None, GitHubWay)

    async def create_git_hub_pairing_code(self, body: GitHubReturn) -> GitHubCode:
        """A pairing code for whoever signed in with the owner's account. Needs no token."""
        return await self._ask("POST", "/v1/pairing/github", {}, {}, body, GitHubCode)

    async def list_passkeys(self, *, if_none_match: str | None = None) -> PageOfPasskeySeen:
        """List the passkeys that are registered, the oldest first; there are never more than twenty."""
        return await self._ask("GET", "/v1/passkeys", {}, {"If-None-Match": if_none_match}, None, PageOfPasskeySeen)

    async def register_passkey(self, body: PasskeyMade, *, idempotency_key: str | None = None) -> PasskeySeen:
        """Register the passkey that the browser made; sending the same again changes nothing."""
        return await self._ask("POST", "/v1/passkeys", {}, {"Idempotency-Key": idempotency_key}, body, PasskeySeen)

    async def ask_passkey(self, body: ChallengeAsked, *, idempotency_key: str | None = None) -> ChallengeMade:
        """Request a challenge to sign. The answer's `options` go to `navigator.credentials.get` as they are."""
        return await self._ask("POST", "/v1/passkeys/challenge", {}, {"Idempotency-Key": idempotency_key}, body, ChallengeMade)

    async def begin_passkey(self, *, idempotency_key: str | None = None) -> RegistrationMade:
        """Begin to make a passkey. The answer's `options` go to `navigator.credentials.create` as they are."""
        return await self._ask("POST", "/v1/passkeys/registration", {}, {"Idempotency-Key": idempotency_key}, None, RegistrationMade)

    async def rename_passkey(self, passkey_id: str, body: PasskeyName, *, idempotency_key: str | None = None) -> PasskeySeen:
        """Give a passkey another name."""
        return await self._ask("PATCH", f"/v1/passkeys/{passkey_id}", {}, {"Idempotency-Key": idempotency_key}, body, PasskeySeen)

    async def clear_passkey(self, passkey_id: str, body: PasskeyClearing, *, idempotency_key: str | None = None) -> PasskeySeen:
        """Believe a passkey again that was suspended because its counter went back, with the proof of another one."""
        return await self._ask("POST", f"/v1/passkeys/{passkey_id}/clear", {}, {"Idempotency-Key": idempotency_key}, body, PasskeySeen)

    async def remove_passkey(self, passkey_id: str, body: PasskeyRemoval, *, idempotency_key: str | None = None) -> PasskeySeen:
        """Remove a passkey, with the proof of a registered one (purpose `passkey.remove`); the last only with its own."""
        return await self._ask("POST", f"/v1/passkeys/{passkey_id}/remove", {}, {"Idempotency-Key": idempotency_key}, body, PasskeySeen)

    async def list_policies(self, *, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfPolicyFileListed:
        """The policy files by name, each with everything that is wrong with it."""
        return await self._ask("GET", "/v1/policies", {"limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfPolicyFileListed)

    async def get_policy_file(self, name: str, *, if_none_match: str | None = None) -> PolicyFileShown:
        """One policy file, by its name with `.json`."""
        return await self._ask("GET", f"/v1/policies/{name}", {}, {"If-None-Match": if_none_match}, None, PolicyFileShown)

    async def put_policy_file(self, name: str, body: PutFile, *, idempotency_key: str | None = None) -> Edited:
        """Propose new content for a policy file. It waits for the owner's passkey; what would not hold is refused."""
        return await self._ask("PUT", f"/v1/policies/{name}", {}, {"Idempotency-Key": idempotency_key}, body, Edited)

    async def check_policy(self, body: CallToCheck, *, idempotency_key: str | None = None) -> CheckedCall:
        """The decision a call would get now; with `file`, as if that policy file held that content."""
        return await self._ask("POST", "/v1/policy/check", {}, {"Idempotency-Key": idempotency_key}, body, CheckedCall)

    async def list_projects(self, *, if_none_match: str | None = None) -> ProjectList:
        """The folders that conversations can work in besides the workspace, by name."""
        return await self._ask("GET", "/v1/projects", {}, {"If-None-Match": if_none_match}, None, ProjectList)

    async def add_project(self, body: AddProject, *, idempotency_key: str | None = None) -> CallAnswer:
        """Propose to let the agent work in a folder. It waits for the owner's passkey."""
        return await self._ask("POST", "/v1/projects", {}, {"Idempotency-Key": idempotency_key}, body, CallAnswer)

    async def remove_project(self, project_id: str, *, idempotency_key: str | None = None) -> None:
        """The agent no longer works in that folder, whose files stay as they are. Adding it again restores it."""
        return await self._ask("DELETE", f"/v1/projects/{project_id}", {}, {"Idempotency-Key": idempotency_key}, None, None)

    async def vouch_for_project(self, project_id: str, *, idempotency_key: str | None = None) -> CallAnswer:
        """Propose that the files of a project count as the owner's. It waits for the owner's passkey."""
        return await self._ask("POST", f"/v1/projects/{project_id}/vouch", {}, {"Idempotency-Key": idempotency_key}, None, CallAnswer)

    async def list_providers(self, *, if_none_match: str | None = None) -> ProviderList:
        """The configured providers."""
        return await self._ask("GET", "/v1/providers", {}, {"If-None-Match": if_none_match}, None, ProviderList)

    async def test_provider(self, name: str, *, idempotency_key: str | None = None) -> ProviderTried:
        """Ask a provider for one short answer. It may cost a few tokens."""
        return await self._ask("POST", f"/v1/providers/{name}/test", {}, {"Idempotency-Key": idempotency_key}, None, ProviderTried)

    async def list_pulls(self, *, state: Literal['OPEN', 'MERGED', 'CLOSED', None] | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfPullView:
        """What jobs changed, newest first, each with its checks and its merge question."""
        return await self._ask("GET", "/v1/pulls", {"state": state, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfPullView)

    async def get_pull(self, number: str, *, if_none_match: str | None = None) -> PullShown:
        """A pull request with its text, its checks and what became of it."""
        return await self._ask("GET", f"/v1/pulls/{number}", {}, {"If-None-Match": if_none_match}, None, PullShown)

    async def ask_pull(self, number: str, *, idempotency_key: str | None = None) -> PullShown:
        """Run the checks of an open one and ask about its merge again, where the question has expired."""
        return await self._ask("POST", f"/v1/pulls/{number}/ask", {}, {"Idempotency-Key": idempotency_key}, None, PullShown)

    async def ask_pull_changes(self, number: str, body: AskChanges, *, idempotency_key: str | None = None) -> PullShown:
        """Its job goes on with these words, then asks again."""
        return await self._ask("POST", f"/v1/pulls/{number}/changes", {}, {"Idempotency-Key": idempotency_key}, body, PullShown)

    async def get_pull_checks(self, number: str, *, if_none_match: str | None = None) -> CheckList:
        """How its checks ended."""
        return await self._ask("GET", f"/v1/pulls/{number}/checks", {}, {"If-None-Match": if_none_match}, None, CheckList)

    async def close_pull(self, number: str, body: ClosePull | None, *, idempotency_key: str | None = None) -> PullShown:
        """Close it without merging; its branch stays, its job ends."""
        return await self._ask("POST", f"/v1/pulls/{number}/close", {}, {"Idempotency-Key": idempotency_key}, body, PullShown)

    async def get_pull_diff(self, number: str, *, path: str | None | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfFileDiff:
        """The difference it makes, file by file. Long and binary files are named with their sizes."""
        return await self._ask("GET", f"/v1/pulls/{number}/diff", {"path": path, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfFileDiff)

    async def list_pull_files(self, number: str, *, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfChangedFile:
        """The files it changes, by path, without their differences."""
        return await self._ask("GET", f"/v1/pulls/{number}/files", {"limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfChangedFile)

    async def reopen_pull(self, number: str, *, idempotency_key: str | None = None) -> PullShown:
        """Open it again and ask about its merge, while its branch is there and its job is not over."""
        return await self._ask("POST", f"/v1/pulls/{number}/reopen", {}, {"Idempotency-Key": idempotency_key}, None, PullShown)

    async def revert_pull(self, number: str, *, idempotency_key: str | None = None) -> PullShown:
        """A new pull request that takes a merged one back; the one that is open already, if there is one."""
        return await self._ask("POST", f"/v1/pulls/{number}/revert", {}, {"Idempotency-Key": idempotency_key}, None, PullShown)

    async def show_push(self, *, if_none_match: str | None = None) -> PushState:
        """The public key that browsers subscribe with, and what the calling device has subscribed."""
        return await self._ask("GET", "/v1/push", {}, {"If-None-Match": if_none_match}, None, PushState)

    async def add_push_subscription(self, body: NewSubscription, *, idempotency_key: str | None = None) -> Subscription:
        """Have the calling device told by Web Push, until it is revoked or signed out. It is sent ids alone."""
        return await self._ask("POST", "/v1/push/subscriptions", {}, {"Idempotency-Key": idempotency_key}, body, Subscription)

    async def remove_push_subscription(self, subscription_id: str, *, idempotency_key: str | None = None) -> None:
        """End a subscription of the calling device; what was still to be sent to it is not."""
        return await self._ask("DELETE", f"/v1/push/subscriptions/{subscription_id}", {}, {"Idempotency-Key": idempotency_key}, None, None)

    async def list_receipts(self, *, status: Literal['allowed', 'denied', 'failed', 'unknown', None] | None = None, refusal: Literal['rejected', 'denied', 'withdrawn', 'expired', None] | None = None, tool: str | None | None = None, action_id: str | None | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfReceiptLine:
        """Receipts, newest first. A page may be short, or empty, and still have a next one. A receipt that cannot be."""
        return await self._ask("GET", "/v1/receipts", {"status": status, "refusal": refusal, "tool": tool, "action_id": action_id, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfReceiptLine)

    async def get_chain(self, *, if_none_match: str | None = None) -> ChainState:
        """How long the chain is, where it ends, and what the last verification found. Cheap: nothing is verified."""
        return await self._ask("GET", "/v1/receipts/head", {}, {"If-None-Match": if_none_match}, None, ChainState)

    async def verify_receipts(self, *, idempotency_key: str | None = None) -> Verification:
        """Replay the log against the rows and the signed heads; the first broken link is named, with its kind."""
        return await self._ask("POST", "/v1/receipts/verify", {}, {"Idempotency-Key": idempotency_key}, None, Verification)

    async def get_receipt(self, receipt_id: str, *, if_none_match: str | None = None) -> ReceiptDetail:
        """One receipt by its id or number, held against its place in the chain."""
        return await self._ask("GET", f"/v1/receipts/{receipt_id}", {}, {"If-None-Match": if_none_match}, None, ReceiptDetail)

    async def list_schedules(self, *, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> Schedules:
        """Schedules by name and when each runs next, the agent's own follow-ups apart, and what is wrong with the."""
        return await self._ask("GET", "/v1/schedules", {"limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, Schedules)

    async def create_schedule(self, body: NewSchedule, *, idempotency_key: str | None = None) -> ScheduleShown:
        """Declare a schedule in cron/jobs.json. What it is given here only narrows what the configuration grants. Like."""
        return await self._ask("POST", "/v1/schedules", {}, {"Idempotency-Key": idempotency_key}, body, ScheduleShown)

    async def preview_schedule(self, body: PreviewAsk, *, idempotency_key: str | None = None) -> Preview:
        """Say what a trigger means and when it would run, without scheduling anything. An invalid."""
        return await self._ask("POST", "/v1/schedules/preview", {}, {"Idempotency-Key": idempotency_key}, body, Preview)

    async def delete_schedule(self, schedule_id: str, *, if_match: str | None | None = None, idempotency_key: str | None = None) -> None:
        """Remove a schedule, or a follow-up of the agent's. A job it started goes on; its runs stay on record."""
        return await self._ask("DELETE", f"/v1/schedules/{schedule_id}", {}, {"If-Match": if_match, "Idempotency-Key": idempotency_key}, None, None)

    async def get_schedule(self, schedule_id: str, *, if_none_match: str | None = None) -> ScheduleShown:
        """A schedule: what it does, when, what may surprise, how its runs went."""
        return await self._ask("GET", f"/v1/schedules/{schedule_id}", {}, {"If-None-Match": if_none_match}, None, ScheduleShown)

    async def edit_schedule(self, schedule_id: str, body: EditSchedule, *, if_match: str | None | None = None, idempotency_key: str | None = None) -> ScheduleShown:
        """Change what is declared, or switch it on or off. A new time counts from now; everything else leaves the next."""
        return await self._ask("PATCH", f"/v1/schedules/{schedule_id}", {}, {"If-Match": if_match, "Idempotency-Key": idempotency_key}, body, ScheduleShown)

    async def run_schedule(self, schedule_id: str, *, idempotency_key: str | None = None) -> RunStarted:
        """Start a run at once, beside whatever runs. The next run by the clock stays where it is. While ESTOP holds,."""
        return await self._ask("POST", f"/v1/schedules/{schedule_id}/run-now", {}, {"Idempotency-Key": idempotency_key}, None, RunStarted)

    async def list_schedule_runs(self, schedule_id: str, *, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfScheduleRun:
        """Runs of a schedule, newest first, also of one that was removed."""
        return await self._ask("GET", f"/v1/schedules/{schedule_id}/runs", {"limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfScheduleRun)

    async def propose_settings(self, body: ProposeSettings, *, idempotency_key: str | None = None) -> Edited:
        """Propose to change keys of config.toml. It waits for the owner's passkey; what would not hold is refused."""
        return await self._ask("POST", "/v1/settings", {}, {"Idempotency-Key": idempotency_key}, body, Edited)

    async def get_policy(self, *, if_none_match: str | None = None) -> EffectivePolicy:
        """Every flag and limit in force, each with where it comes from, and the rules of the policy files."""
        return await self._ask("GET", "/v1/settings/policy", {}, {"If-None-Match": if_none_match}, None, EffectivePolicy)

    async def get_sign_in(self, *, if_none_match: str | None = None) -> SignIn:
        """Who this device is; a browser's cookie lasts anew from here."""
        return await self._ask("GET", "/v1/sign-in", {}, {"If-None-Match": if_none_match}, None, SignIn)

    async def sign_out(self, *, idempotency_key: str | None = None) -> None:
        """Sign this device out; to come back it has to be paired again."""
        return await self._ask("POST", "/v1/sign-in/end", {}, {"Idempotency-Key": idempotency_key}, None, None)

    async def ask_page(self, *, idempotency_key: str | None = None) -> Nonce:
        """A question for a page of the panel, which it answers with `POST /v1/sign-in/page`."""
        return await self._ask("POST", "/v1/sign-in/nonce", {}, {"Idempotency-Key": idempotency_key}, None, Nonce)

    async def prove_page(self, body: PageProof, *, idempotency_key: str | None = None) -> PageKey:
        """Prove that a page is the device's own. A cookie alone opens nothing: other ports of this machine see it."""
        return await self._ask("POST", "/v1/sign-in/page", {}, {"Idempotency-Key": idempotency_key}, body, PageKey)

    async def ask_ticket(self, *, idempotency_key: str | None = None) -> Ticket:
        """A ticket for one WebSocket: a page can show no header there, and its key belongs into none that is logged."""
        return await self._ask("POST", "/v1/sign-in/ticket", {}, {"Idempotency-Key": idempotency_key}, None, Ticket)

    async def list_skills(self, *, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfSkillDetails:
        """The skills by name."""
        return await self._ask("GET", "/v1/skills", {"limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfSkillDetails)

    async def get_skill(self, name: str, *, if_none_match: str | None = None) -> SkillShown:
        """One skill."""
        return await self._ask("GET", f"/v1/skills/{name}", {}, {"If-None-Match": if_none_match}, None, SkillShown)

    async def put_skill(self, name: str, body: PutFile, *, idempotency_key: str | None = None) -> Edited:
        """Write a skill. The owner's own request is the approval, so it is written at once where the policy lets it."""
        return await self._ask("PUT", f"/v1/skills/{name}", {}, {"Idempotency-Key": idempotency_key}, body, Edited)

    async def list_sop_runs(self, *, state: Literal['RUNNING', 'WAITING', 'DONE', 'FAILED', None] | None = None, alone: bool | None = None, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfSopRun:
        """Runs of procedures, newest first, each with the step it stands at and what it waits for."""
        return await self._ask("GET", "/v1/sop-runs", {"state": state, "alone": alone, "limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfSopRun)

    async def get_sop_run(self, run_id: str, *, if_none_match: str | None = None) -> SopRunShown:
        """A run with its steps as they were when it began, how each stands, and what it left."""
        return await self._ask("GET", f"/v1/sop-runs/{run_id}", {}, {"If-None-Match": if_none_match}, None, SopRunShown)

    async def list_sops(self, *, limit: int | None = None, cursor: str | None | None = None, if_none_match: str | None = None) -> PageOfSopListed:
        """The procedures in the workspace by name, with their steps, or with what is wrong with them."""
        return await self._ask("GET", "/v1/sops", {"limit": limit, "cursor": cursor}, {"If-None-Match": if_none_match}, None, PageOfSopListed)

    async def run_sop(self, name: str, *, idempotency_key: str | None = None) -> JobShown:
        """Run a procedure as a job: the worker goes through its steps, and it waits as jobs do."""
        return await self._ask("POST", f"/v1/sops/{name}/run", {}, {"Idempotency-Key": idempotency_key}, None, JobShown)

    async def get_system_prompt(self, *, if_none_match: str | None = None) -> OwnerFile:
        """What the owner tells the agent about itself; empty when there is no file."""
        return await self._ask("GET", "/v1/system-prompt", {}, {"If-None-Match": if_none_match}, None, OwnerFile)

    async def put_system_prompt(self, body: PutFile, *, idempotency_key: str | None = None) -> Edited:
        """Propose a new system prompt. It waits for the owner's passkey."""
        return await self._ask("PUT", "/v1/system-prompt", {}, {"Idempotency-Key": idempotency_key}, body, Edited)

    async def get_usage(self, *, by: Literal['model', 'provider', 'day', 'job'] | None = None, days: int | None = None, if_none_match: str | None = None) -> UsageReport:
        """The tokens that were used, what they cost, and what is left of today's budget."""
        return await self._ask("GET", "/v1/usage", {"by": by, "days": days}, {"If-None-Match": if_none_match}, None, UsageReport)
