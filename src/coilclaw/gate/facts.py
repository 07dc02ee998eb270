"""Gathering facts: everything a decision depends on, looked up before it and never inside it."""

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.gate.decision_input import BY_HAND, BY_OWNER, Facts, Standing, ToolFact, UrlFact, leads_to_system
from coilclaw.gate.estop import Estop
from coilclaw.gate.identities import bound, identity_fault, takes
from coilclaw.gate.paths import PathFact, look_at
from coilclaw.gate.root import Root
from coilclaw.gate.standing import matches_of
from coilclaw.gate.turn import Turn
from coilclaw.lib.shell.facts import CommandFacts
from coilclaw.packets.action import Label, ToolCall, unparsed_fault
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.http import Principal
from coilclaw.packets.labels import untrusted_only
from coilclaw.packets.ports import Tool
from coilclaw.packets.touches import Touches
from coilclaw.sandbox.files import FileGrant, WorkspaceFiles, read_existing
from coilclaw.store.conversation import NOTHING_SAID, Conversation

if TYPE_CHECKING:
    from coilclaw.gate.committing import LookedAt
    from coilclaw.gate.taking import TakenAlong
    from coilclaw.sandbox.commit import CommitPlan
    from coilclaw.store.standing_answers import StandingAnswer

INPUT_BYTES = 1 << 20
"""The largest file that can be part of an effect."""

IN_WORKSPACE = Turn("", "", "cli")
"""A turn of no conversation, which works in the workspace."""

COMMANDS_KEPT = 16
"""How many commands are kept as they were read."""

JudgeUrl: TypeAlias = Callable[[str, Principal, tuple[tuple[str, ...], ...]], UrlFact]
"""What the airlock thinks of a URL before any look-up, narrowed to what every one of these sets allows."""

Answers: TypeAlias = "Callable[[str, str], tuple[StandingAnswer, ...]]"
"""The standing answers that hold in a root and a conversation."""

Talk: TypeAlias = Callable[[str, str, str], Conversation]
"""The conversation of a thread as it concerns one call of one turn."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much was going on before a call."""

    recent: int
    """Calls proposed within a minute."""
    waiting: int
    """Actions waiting for the owner."""
    asked_reads: int
    """Reads in an account that the same turn asked about."""


class Inspected(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its facts, and what is needed to run it if it may."""

    facts: Facts
    tool: Tool | None
    args: msgspec.Struct | None
    touches: Touches
    root: Root
    """The folder its paths lie in."""
    at: Root
    """The folder its conversation works in: the same, but for what always lies in the workspace."""
    inputs: tuple[bytes, ...] = ()
    """What the declared inputs hold; hashed into the digest and handed over as read."""
    edited: bytes | None = None
    """What its edits make of its input."""
    taken: "TakenAlong | None" = None
    """What it would move or remove."""
    commit: "CommitPlan | None" = None
    """What it would commit."""
    fault: ToolError | None = None
    """Why the call can only fail. It changes nothing then, and is decided and run as the read it is: nobody is asked
    about it, and what its error quotes carries the labels of the file."""

    narrowing: tuple[tuple[str, ...], ...] = ()
    """What its job and its skills leave of the network: each set must allow an address."""
    despite_estop: bool = False
    """ESTOP does not hold it: the owner only takes something away from the agent."""

    @property
    def taint(self) -> tuple[Label, ...]:
        """Every untrusted source that may have a hand in the call."""
        return untrusted_only((*self.facts.inherited, *self.facts.fresh))

    @property
    def digest_parts(self) -> tuple[bytes, ...]:
        """The hash of each input."""
        return tuple(sha256_hex(data).encode() for data in self.inputs)


class Inspector:
    """Looks at calls."""

    def __init__(
        self,
        tools: Callable[[], Mapping[str, Tool]],
        root_of: Callable[[Turn], Root],
        estop: Estop,
        judge_url: JudgeUrl,
        count: Callable[[str, Turn], Counts],
        talk: Talk,
        seal: Callable[[str], str],
        answers: Answers,
        *,
        unsafe: bool,
    ) -> None:
        self._tools = tools
        self._root_of = root_of
        self._answers = answers
        self._estop = estop
        self._judge_url = judge_url
        self._count = count
        self._talk = talk
        self._seal = seal
        self._unsafe = unsafe
        self._read = lru_cache(maxsize=COMMANDS_KEPT)(_read)
        """Cached: the result depends on the text alone, and a call is inspected several times on its way."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All current tools."""
        return self._tools()

    def ahead(self, call: ToolCall, turn: Turn, *, begun: bool = False) -> "Awaitable[LookedAt | None] | None":
        """What git must be asked about a call: to be awaited and handed to `inspect` at once, so that nobody else waits
        for git. None for every other call."""
        tool = bound(call, self.tools.get(call.tool))
        if tool is None or not tool.always_ask or tool.destination not in ("workspace", "external"):
            return None
        if identity_fault(call, tool) is not None:
            return None
        root, (args, _) = self._root_of(turn), self._parse(tool, call.args_bytes)
        if tool.destination == "external":  # it keeps what git or a mailbox says, so that `inspect` finds it
            return None if args is None or self._estop.engaged() else tool.look_ahead(args, begun=begun)
        touches = Touches() if args is None else tool.touches(args)
        if touches.commits is None or root.fault():
            return None
        from coilclaw.gate.committing import plan_aside

        return plan_aside(root, _paths(root, touches, None))

    def inspect(self, call: ToolCall, turn: Turn, action_id: str = "~", ahead: "LookedAt | None" = None) -> Inspected:
        """The current facts of a call. The counts are of actions older than `action_id`."""
        at = self._root_of(turn)
        tool = bound(call, self.tools.get(call.tool))
        misnamed = identity_fault(call, tool)
        if gone := at.fault():
            return self._nowhere(call, turn, at, tool, gone)
        args, schema_error = self._parse(tool, call.args_bytes)
        acts = tool is not None and (misnamed is None or not tool.identities)
        touches = tool.touches(args) if tool is not None and args is not None and acts else Touches()
        root = self._root_of(IN_WORKSPACE) if touches.in_workspace else at
        command = self._read(touches.command) if touches.command is not None else None
        declared = None if tool is None else _fact(tool, touches)
        counts = self._count(action_id, turn)
        paths = _paths(root, touches, command)
        talk = self._talk(turn.thread_id, turn.turn_id, action_id) if _sends_words(touches) else NOTHING_SAID
        inputs, unread = self._inputs(root, touches, paths)
        edited, fault = _edited(root, touches, paths, inputs)
        inputs, fault = inputs or touches.content, fault or touches.fault
        taken, commit, committed = None, None, tuple[PathFact, ...]()
        if touches.removes is not None or touches.moves is not None:
            from coilclaw.gate.taking import take_along

            taking = take_along(touches, paths, root.places)
            paths, taken, fault = taking.paths, taking.taken, taking.fault
        if touches.commits is not None:
            from coilclaw.gate.committing import look_at_commit

            looked = look_at_commit(root, paths, ahead)
            commit, committed, fault = looked.plan, looked.paths, looked.fault
            inputs = () if commit is None else (commit.binding, commit.diff)
        if fault is not None and declared is not None:
            touches, unread = msgspec.structs.replace(touches, writes=(), edits=()), ""
            paths, declared = _as_reads(paths), msgspec.structs.replace(declared, effect="READ", always_ask=False)
        despite_estop = touches.tightens and turn.source == BY_OWNER
        without_uploads = self._runs_without_uploads(root, command)
        facts = Facts(
            tool_name=call.tool,
            tool=declared,
            near_names=() if tool is not None else _near(call.tool, self.tools),
            schema_error=schema_error or unread,
            estop=self._estop.engaged() and not despite_estop,
            paths=paths,
            command=command,
            url=self._url(root, touches, turn, talk, turn.domains),
            domains=tuple(self._judge_url(_address(domain), "box", turn.domains) for domain in touches.domains),
            secret=call.withheld or (not touches.edits and any(map(self._holds_secret, inputs))),  # edits stay here
            unsafe=self._unsafe,
            recent_calls=counts.recent,
            open_proposals=counts.waiting,
            fresh=turn.fresh,
            inherited=self._inherited(root, touches, (*paths, *committed), command, turn, without_uploads),
            private=talk.private,
            job=turn.job,
            only_reads=_changes_nothing(declared, touches, command),
            without_uploads=without_uploads,
            committed=committed,
            tree=bool(root.tree),
            merge=touches.merge,
            guest=touches.guest,
            permit=touches.permit,
            identity=call.identity,
            asked_reads=counts.asked_reads,
            identity_fault=misnamed,
        )
        return Inspected(
            facts=self._weighed(facts, root, call, turn, touches),
            tool=tool,
            args=args,
            touches=touches,
            root=root,
            at=at,
            inputs=inputs,
            edited=edited,
            taken=taken,
            commit=commit,
            fault=fault,
            narrowing=turn.domains,
            despite_estop=despite_estop,
        )

    def _weighed(self, facts: Facts, root: Root, call: ToolCall, turn: Turn, touches: Touches) -> Facts:
        """Adds what follows from the other facts: whether it can be undone, and a standing answer."""
        if facts.schema_error or facts.estop:
            return facts
        if self._changes_repository(root, touches, facts.command):
            facts = msgspec.structs.replace(facts, changes_repository=True)
        if not root.tree:  # which is gone in the end anyhow
            facts = msgspec.structs.replace(facts, irreversible=root.undoing.obstacle(touches, facts))
        if touches.writes or (facts.command is not None and not facts.only_reads):
            facts = msgspec.structs.replace(facts, standing=self._standing(root, call, turn, touches, facts))
        return facts

    def _nowhere(self, call: ToolCall, turn: Turn, root: Root, tool: Tool | None, gone: str) -> Inspected:
        """A call whose folder is not there any more: nothing is looked at, and the gate refuses it."""
        facts = Facts(
            tool_name=call.tool,
            tool=None if tool is None else _fact(tool),
            near_names=(),
            schema_error="",
            estop=self._estop.engaged(),
            paths=(),
            command=None,
            url=None,
            secret=call.withheld,
            unsafe=self._unsafe,
            recent_calls=0,
            open_proposals=0,
            fresh=turn.fresh,
            inherited=turn.inherited,
            private=False,
            job=turn.job,
            only_reads=True,
            root_fault=gone,
        )
        return Inspected(facts=facts, tool=tool, args=None, touches=Touches(), root=root, at=root)

    def _standing(self, root: Root, call: ToolCall, turn: Turn, touches: Touches, facts: Facts) -> Standing | None:
        """The standing answers that concern a call; none in a turn that took in untrusted content."""
        if facts.fresh or facts.inherited:
            return None
        ran = {} if facts.command is None else _ran(root, facts.command)
        matches = matches_of(call, touches, facts.paths, facts.command, ran)
        folder = root.places.workspace
        if root.project_id:  # another folder may come to its path
            folder = f"{folder} ({root.project_id})"
        return Standing(root=folder, matches=matches, answers=self._answers(folder, turn.thread_id) if matches else ())

    def _inherited(
        self, root: Root, touches: Touches, paths: tuple[PathFact, ...], command: CommandFacts | None, turn: Turn,
        without_uploads: bool,
    ) -> tuple[Label, ...]:  # fmt: skip
        """What the conversation carries, and what the files carry whose content may become part of the effect."""
        if command is not None:
            read = root.labels.labels_for_command(command, without_uploads=without_uploads)
            return untrusted_only((*turn.inherited, *read))
        if touches.restores is not None:
            return untrusted_only((*turn.inherited, *root.undoing.labels(touches.restores)))
        sent = [path.relative for path in paths if path.asked in touches.inputs and path.relative is not None]
        if touches.commits is not None:
            sent = [path.relative for path in paths if path.relative is not None]
        if not sent:
            return untrusted_only((*turn.inherited, *touches.labels)) if touches.labels else turn.inherited
        return untrusted_only((*turn.inherited, *(label for path in sent for label in root.labels.labels_of(path))))

    def _runs_without_uploads(self, root: Root, command: CommandFacts | None) -> bool:
        """Whether there is a command whose box is without the folder of uploads: see docs/decisions/0050."""
        from coilclaw.gate.command_reads import names_uploads

        if command is None or self._unsafe or only_reads(command):
            return False
        return not names_uploads(command) and root.has_uploads

    def _changes_repository(self, root: Root, touches: Touches, command: CommandFacts | None) -> bool:
        from coilclaw.gate.command_reads import changes_repository

        if command is None or self._unsafe or root.tree or touches.permit is not None or touches.domains:
            return False
        return changes_repository(command, root.folder)

    def _holds_secret(self, data: bytes) -> bool:
        text = data.decode("utf-8", "replace")
        return self._seal(text) != text

    def _inputs(self, root: Root, touches: Touches, paths: tuple[PathFact, ...]) -> tuple[tuple[bytes, ...], str]:
        """What the declared inputs hold now, or why they cannot be read. Paths the gate refuses are not looked into."""
        read: list[bytes] = []
        for name in touches.inputs:
            path = next((path for path in paths if path.asked == name and not path.write), None)
            if path is None:
                return (), f"{name!r} is an input that the tool does not declare as read"
            if path.fault or path.in_home or path.forbidden_by:
                return (), ""  # the gate says why
            if path.relative is None:
                return (), f"{name!r} is outside the workspace; only workspace files can be sent or edited"
            data = read_existing(root.folder, path.relative, INPUT_BYTES)
            if data is None:
                return (), f"{name!r} is not a regular file of at most {INPUT_BYTES} bytes"
            read.append(data)
        return tuple(read), ""

    def _url(
        self, root: Root, touches: Touches, turn: Turn, talk: Conversation, narrowing: tuple[tuple[str, ...], ...]
    ) -> UrlFact | None:
        if touches.url is None:
            return None
        judged = self._judge_url(touches.url, touches.principal or "http", narrowing)
        if touches.target is not None or touches.guest or touches.principal == "google":
            return msgspec.structs.replace(judged, origin="configured")
        if touches.principal == "web_search":
            return msgspec.structs.replace(judged, origin="query")
        # What is proposed again by hand belongs to a conversation, and its address was the model's.
        if turn.source in BY_HAND and not turn.taint and turn.thread_id in ("", root.project_id):
            return msgspec.structs.replace(judged, origin="owner")
        from coilclaw.gate.addresses import origin_of

        origin, followed = origin_of(touches.url, talk)
        holds = bool(turn.taint) or talk.private
        stays = talk.sent if origin != "constructed" else holds
        return msgspec.structs.replace(judged, origin=origin, followed=followed, stays=stays and origin != "owner")

    def in_short(self, call: ToolCall) -> str:
        """What a call would do, in the tool's own sentence, or else the tool's name. Looks nothing up."""
        tool = bound(call, self.tools.get(call.tool))
        if tool is None or identity_fault(call, tool):
            return call.tool
        try:
            return tool.summary(tool.parse(call.args_bytes))
        except msgspec.DecodeError:  # arguments that do not fit, or a damaged row
            return call.tool

    def _parse(self, tool: Tool | None, args: bytes) -> tuple[msgspec.Struct | None, str]:
        if tool is None:
            return None, ""
        try:
            return tool.parse(args), ""
        except msgspec.ValidationError as error:
            return None, unparsed_fault(args) or f"{str(error).rstrip('.')}; {takes(tool)}"


def _paths(root: Root, touches: Touches, command: CommandFacts | None) -> tuple[PathFact, ...]:
    named = [(path, False, False) for path in touches.reads] + [(path, True, False) for path in touches.writes]
    if command is not None:
        named += [(path, False, True) for path in command.reads] + [(path, True, True) for path in command.writes]
    follow = touches.removes is None and touches.moves is None  # what is moved or removed is the link itself
    places = root.places
    governing = () if touches.restores is None else filter(places.governs, touches.restores.paths)
    found = tuple(look_at(path, places, write=write, boxed=boxed, follow=follow) for path, write, boxed in named)
    return (*found, *map(places.restored, governing))


def _edited(
    root: Root, touches: Touches, paths: tuple[PathFact, ...], inputs: tuple[bytes, ...]
) -> tuple[bytes | None, ToolError | None]:
    """What the edits of a call make of its input, or why they cannot be made."""
    path = next((path for path in paths if path.asked in touches.inputs and not path.write), None)
    if not touches.edits or path is None or path.fault or path.in_home or path.forbidden_by or not path.relative:
        return None, None
    from coilclaw.lib.edit import apply_edits

    try:
        if not inputs:  # the reason is the same that reading it would give
            grant = FileGrant(asked=path.asked, root=str(root.folder), relative=path.relative, writable=False)
            inputs = (WorkspaceFiles((grant,)).read(path.asked, max_bytes=INPUT_BYTES),)
        return apply_edits(inputs[0], touches.edits, path.asked), None
    except ToolError as error:
        return None, error


def _read(text: str) -> CommandFacts:
    from coilclaw.lib.shell.command import read_command

    return read_command(text)


def _ran(root: Root, command: CommandFacts) -> dict[str, str] | None:
    """The hash of every file that a command runs, empty for a missing one; where it leads, for a link to a program of
    the system; None if one cannot be read."""
    found: dict[str, str] = {}
    for name in command.executes:
        path = look_at(name, root.places, write=False)
        if leads_to_system(path):
            found[name] = path.absolute
            continue
        if path.fault or path.relative is None:
            return None
        there = os.path.lexists(path.absolute)
        data = read_existing(root.folder, path.relative, INPUT_BYTES) if there else b""
        if data is None:
            return None
        found[name] = sha256_hex(data) if there else ""
    return found


def _as_reads(paths: tuple[PathFact, ...]) -> tuple[PathFact, ...]:
    """The paths of a call that can only fail, as reads."""
    named = {path.asked: msgspec.structs.replace(path, write=False) for path in paths if not path.within}
    return tuple(named.values())


def _sends_words(touches: Touches) -> bool:
    """Whether what the model wrote leaves the machine unless the owner says no: in an address, or to a guest."""
    ours = touches.target is not None or touches.principal == "google"
    return (touches.url is not None and not ours) or bool(touches.guest)


def _address(domain: str) -> str:
    return f"{domain}/" if "://" in domain else f"https://{domain}/"


def _fact(tool: Tool, touches: Touches = Touches()) -> ToolFact:  # noqa: B008 - frozen
    return ToolFact(
        name=tool.name,
        effect=tool.effect,
        destination=tool.destination,
        always_ask=tool.always_ask,
        callers=tool.callers,
        governs=tool.governs or touches.governs,
        tightens=touches.tightens,
        outlasts=touches.outlasts,
    )


READERS = frozenset(
    """
    ls cat head tail wc grep egrep fgrep rg find fd stat file du df pwd date cal diff cmp comm join paste tree basename
    dirname realpath readlink which id whoami uname nproc true false test [ echo printf sleep seq expr cut sort uniq tr
    nl tac rev fold fmt expand column od hexdump strings md5sum sha1sum sha256sum sha512sum cksum jq sed awk git
    """.split()  # noqa: SIM905  seventy quoted words are harder to read
)
"""Programs that change nothing unless the reader says so: by an option, a script or where their output goes."""
_GIT_READS = frozenset(
    f"git {verb}"
    for verb in """
    status diff log show blame grep shortlog describe rev-parse rev-list ls-files ls-tree cat-file name-rev show-ref
    for-each-ref merge-base diff-tree diff-files diff-index check-ignore count-objects whatchanged cherry
    """.split()  # noqa: SIM905
) | {f"git {verb} (list)" for verb in ("branch", "stash", "tag", "worktree", "reflog", "symbolic-ref")}
"""Subcommands of git that change nothing, whatever their operands."""


def _changes_nothing(tool: ToolFact | None, touches: Touches, command: CommandFacts | None) -> bool:
    """Whether no workspace file can change but those the call names."""
    if command is not None:
        return only_reads(command)
    if touches.commits is not None:
        return True  # only the repository's own data changes, which no call reaches otherwise
    unnamed = not touches.writes and tool is not None and tool.destination == "workspace"
    return not (unnamed and tool is not None and tool.effect != "READ")


def only_reads(command: CommandFacts) -> bool:
    """Whether a command changes no file. Its box holds it to that: nothing of the workspace is writable there."""
    plain = not command.writes and not command.opaque and not command.executes
    return plain and set(command.programs) <= READERS | set(command.told) and set(command.verbs) <= _GIT_READS


def _near(name: str, tools: Mapping[str, Tool]) -> tuple[str, ...]:
    from difflib import get_close_matches

    words = set(name[:80].split("_"))  # read_file is file_read
    same = [tool for tool in tools if words == set(tool.split("_"))]
    return tuple(same or get_close_matches(name[:80], tools, n=2))
