"""A case: one call with the facts, the policy in force, and what kind of call that makes it. Pure."""

import posixpath
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from coilclaw.gate.paths import PathFact
from coilclaw.gate.policy_file import PolicyRule
from coilclaw.lib.shell.facts import CommandFacts
from coilclaw.packets.action import Identity, Label, Source
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.card import What
from coilclaw.packets.decision import Autonomy, Destination, Lane, Reason, Risk, RiskClass, Verdict
from coilclaw.packets.forge import MergeFacts
from coilclaw.packets.http import Origin
from coilclaw.packets.job import JobLimits
from coilclaw.packets.touches import Permit
from coilclaw.store.standing_answers import StandingAnswer


class ToolFact(msgspec.Struct, frozen=True, kw_only=True):
    """What the tool declared about itself."""

    name: str
    effect: RiskClass
    destination: Destination
    always_ask: bool
    callers: frozenset[Source]
    """Where calls of it may come from; from elsewhere it is denied."""
    governs: bool = False
    """Every call of it changes what governs the agent."""
    tightens: bool = False
    """The call only takes something away from the agent."""
    outlasts: bool = False
    """It starts something that outlives the turn: a job, a follow-up, a message to the owner."""


FOLLOWED: dict[str, int] = {"page": 2, "search": 5}
"""How many addresses a turn follows without asking, by where they appear."""


class UrlFact(msgspec.Struct, frozen=True, kw_only=True):
    """What the airlock thinks of a URL before any look-up."""

    host: str
    code: str
    """Empty when it may pass."""
    reason: str
    origin: Origin
    """Who wrote it."""
    followed: int
    """How many addresses of that origin this turn already followed without asking."""
    listable: str = ""
    """What the owner could add to the listed domains so that it may pass; empty when that would not do."""
    stays: bool
    """A redirect to another host is not followed but handed over: it may hold what the model wrote."""


class AnswerMatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a standing answer would compare a call with, and how it is described to the owner."""

    what: What
    data: str
    text: str

    @property
    def digest(self) -> str:
        """The hash of what is compared."""
        return sha256_hex(self.data.encode())


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The standing answers that could cover a call, and those that are valid where it works."""

    root: str
    """The folder the call works in."""
    matches: tuple[AnswerMatch, ...]
    answers: tuple[StandingAnswer, ...]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a decision may depend on, gathered before it."""

    tool_name: str
    tool: ToolFact | None
    near_names: tuple[str, ...]
    schema_error: str
    estop: bool
    paths: tuple[PathFact, ...]
    command: CommandFacts | None
    url: UrlFact | None
    secret: bool
    """The arguments held a secret that was not granted."""
    unsafe: bool
    """Commands would run without a box (`--unsafe`)."""
    recent_calls: int
    """Calls proposed in the last minute, before this one."""
    open_proposals: int
    """Actions that wait for the owner, before this one."""
    fresh: tuple[Label, ...]
    """Untrusted content this turn took in."""
    inherited: tuple[Label, ...]
    """Untrusted content an earlier turn of this conversation took in."""
    private: bool
    """The conversation took in files, notes, memory, artifacts or a command's output. Looked up for addresses only."""
    domains: tuple[UrlFact, ...] = ()
    """What the airlock thinks of each place the command asks to reach."""
    job: JobLimits | None = None
    """What the job leaves this call, when it comes from one."""
    only_reads: bool = False
    """No workspace file can change but those the call names: the command, if any, cannot change one."""
    without_uploads: bool = False
    """The folder of uploads is hidden from its command's box, so that no upload can leak into it."""
    changes_repository: bool = False
    """Its command would have git change the repository of the folder, which is read-only to commands."""
    irreversible: str = ""
    """Why what it writes could not be undone; empty when it can be."""
    root_fault: str = ""
    """Why nothing can be done in the folder the call works in: its project vanished or is another one now."""
    committed: tuple[PathFact, ...] = ()
    """The files whose changes it would commit."""
    tree: bool = False
    """It works in the tree of a job, where nothing is in force: the owner is asked when that is merged."""
    merge: MergeFacts | None = None
    """The merge it would make."""
    guest: str = ""
    """The guest whose tool it is."""
    permit: Permit | None = None
    """What the lists of a coding session say about it; they replace the autonomy matrix's question."""
    identity: Identity | None = None
    """In whose name it is made."""
    asked_reads: int = 0
    """Reads in an account that this turn asked about before; counted once it has read untrusted content."""
    identity_fault: Reason | None = None
    """Why that is not a name its tool acts in."""
    standing: Standing | None = None
    """Standing answers; looked up only where one could settle what would be asked."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force: the configuration grants, every other layer narrows."""

    autonomy: Autonomy
    workspace_only: bool
    allowed_commands: frozenset[str]
    forbidden_commands: frozenset[str]
    allowlists: tuple[tuple[str, frozenset[str]], ...]
    """(layer, tools): a tool must be in every one of them."""
    offered: frozenset[str]
    """The tools that clients of our MCP server may call, of those that the layers allow."""
    calls_per_minute: int
    open_proposals: int
    rules: tuple[PolicyRule, ...]
    broken: str
    hash: str


SKILL_LAYER = "skill:"
"""What the name of a skill's layer in `Policy.allowlists` begins with."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Where the call comes from."""

    source: Source
    job_id: str | None = None
    skills: tuple[str, ...] = ()
    """The skills its turn works under, each with its hash."""


BACKGROUND: frozenset[Source] = frozenset({"job", "schedule", "sop", "session", "mcp"})
"""Sources of unattended calls."""


def background_share(most: int) -> int:
    """How much of a budget background work may use: a quarter is reserved for conversations with the owner."""
    return most - most // 4


BY_HAND: frozenset[Source] = frozenset({"cli", "gateway"})
"""Sources of calls that the owner makes, with no model between."""

OUTSIDE: frozenset[Source] = frozenset({"mcp"})
"""Sources whose model is not ours: we do not know what it read elsewhere, or here in an earlier session."""

BY_OWNER: Source = "gateway"
"""Calls that the owner makes from the panel, with no model between. The server bounds how often."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One call to decide on."""

    facts: Facts
    policy: Policy
    setting: Setting
    risk: Risk
    lane: Lane
    effect: RiskClass

    @property
    def by_owner(self) -> bool:
        """Whether the agent's budgets do not apply: exhausting them must not keep the owner from restricting it."""
        return self.setting.source == BY_OWNER

    @property
    def local_read(self) -> bool:
        """Whether it only reads on this machine, in a conversation: its rounds and tokens bound how much."""
        tool = self.facts.tool
        local = tool is not None and tool.destination != "external"
        return local and self.risk == "R0" and self.setting.source == "chat"

    def share(self, most: int) -> int:
        """How much of a budget may be used up before this call is too much."""
        return background_share(most) if self.setting.source in BACKGROUND else most


_MAILED = ("untrusted:gmail:", "untrusted:gcal")


def mailed(labels: tuple[Label, ...]) -> tuple[Label, ...]:
    """Sources that strangers put into the owner's hands unasked, unlike a page that somebody chose to open."""
    return tuple(label for label in labels if label.startswith(_MAILED))


def told_paths(facts: Facts) -> Iterator[PathFact]:
    """The paths to give reasons for: every named one, and one of each kind from inside a named folder."""
    given: set[tuple[str, str, str, bool]] = set()
    for path in facts.paths:
        kind = (path.path_class, path.fault, path.forbidden_by, path.write)
        if not path.within or kind not in given:
            yield path
        given.add(kind)


Rule: TypeAlias = Callable[[Case], Iterator[Reason]]

MATRIX: dict[Autonomy, dict[Risk, Verdict]] = {
    "readonly": {"R0": "allow", "R1": "deny", "R2": "deny", "R3": "deny"},
    "supervised": {"R0": "allow", "R1": "allow", "R2": "ask", "R3": "deny"},
    "full": {"R0": "allow", "R1": "allow", "R2": "allow", "R3": "ask"},
}

BOX_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
BOX_SCRATCH = (
    "/tmp",  # noqa: S108
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/fd",
    "/dev/tty",
    "/dev/random",
    "/dev/urandom",
)
"""Paths that are the box's own for a command; none of them leads to anything on this machine."""


def reaches_outside(path: PathFact) -> bool:
    """Outside the workspace, and not one of the box's own harmless places."""
    if path.relative is not None or path.fault:
        return False
    if path.boxed:
        if not path.write and leads_to_system(path):  # also by a link, as environments of Python have them
            return False
        return not _below(path.asked, BOX_SCRATCH if path.write else BOX_SYSTEM + BOX_SCRATCH)
    return True


def leads_to_system(path: PathFact) -> bool:
    """Whether it is a file of the system or of a lent folder, which every box has, read-only."""
    return path.relative is None and not path.fault and (path.lent or _below(path.absolute, BOX_SYSTEM))


def _below(name: str, tops: tuple[str, ...]) -> bool:
    return any(name == top or name.startswith(top + "/") for top in tops) and ".." not in name


def unlisted(facts: Facts, policy: Policy) -> tuple[str, ...]:
    """The programs of a command that are neither on the list nor code of the folder it works in.

    A file of the folder that is a link to a program of the system is that program.
    """
    command = facts.command
    if command is None:
        return ()
    from coilclaw.lib.shell.interpreters import family

    linked = (
        family(posixpath.basename(path.absolute))
        for path in facts.paths
        if path.asked in command.executes and leads_to_system(path) and not _below(path.asked, BOX_SYSTEM)
    )
    known = policy.allowed_commands | set(command.own)
    strange = [name for name in command.programs if name not in known]
    return (*strange, *(name for name in linked if name not in policy.allowed_commands))


def runs_own(facts: Facts, policy: Policy) -> tuple[str, ...]:
    """The programs that may run only as code of the folder: each time the owner is asked, in every autonomy."""
    command = facts.command
    return () if command is None else tuple(name for name in command.own if name not in policy.allowed_commands)


def lane_of(facts: Facts) -> Lane:
    """A: this machine. B: outside it. C: what governs the agent itself, or runs without a box."""
    if facts.command is not None and facts.unsafe:
        return "C"
    if facts.tool is not None and facts.tool.governs:
        return "C"
    governing = (path.write and path.path_class == "owner" and path.relative is not None for path in facts.paths)
    if not facts.tree and any(governing):
        return "C"
    if facts.domains and not facts.guest:  # a command that reaches out may send anything
        return "B"
    if facts.tool and facts.tool.destination == "external" and facts.tool.effect != "READ":
        return "B"
    return "A"


def risk_of(facts: Facts, policy: Policy, lane: Lane) -> Risk:
    """R0 reads, R1 internal writes, R2 workspace writes and listed commands, R3 the rest.

    A listed command that certainly only reads is a read: every argument is known, and its box can write nothing.
    """
    tool = facts.tool
    if tool is None or lane == "C" or any(reaches_outside(path) for path in facts.paths):
        return "R3"
    if facts.command is not None:
        if unlisted(facts, policy):
            return "R3"
        return "R0" if facts.only_reads and not facts.command.unsure and not facts.domains else "R2"
    if tool.effect == "READ":
        return "R0"
    if tool.destination == "internal":
        return "R1"
    written = [path for path in facts.paths if path.write]
    if written and all(path.path_class == "informal" for path in written):
        return "R1"
    return "R2"


def describe(case: Case, *, begin: bool = False) -> str:
    """The kind of call, in words; with `begin` as the beginning of a sentence."""
    words = _kind(case)
    return words[0].upper() + words[1:] if begin else words


def _kind(case: Case) -> str:
    command = case.facts.command
    if case.risk == "R3" and command is not None:
        strange = unlisted(case.facts, case.policy)
        if strange:
            return f"a command that is not on the allowlist ({', '.join(strange[:4])})"
    if case.risk == "R2" and (own := runs_own(case.facts, case.policy)):
        return f"a command that runs a program of this folder ({', '.join(own[:4])})"
    return {
        "R0": "a read",
        "R1": "an internal write",
        "R2": "a workspace write or command",
        "R3": "a high-risk action",
    }[case.risk]
