"""Gathering facts: everything a decision depends on, looked up before it and never inside it."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.gate.decision_input import Facts, ToolFact, UrlFact
from coilclaw.gate.estop import Estop
from coilclaw.gate.paths import PathFact, Places, look_at
from coilclaw.gate.turn import Turn
from coilclaw.lib.shell.facts import CommandFacts
from coilclaw.packets.action import Label, Source, ToolCall, unparsed_fault
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.http import Principal
from coilclaw.packets.labels import untrusted_only
from coilclaw.packets.ports import Tool, Touches
from coilclaw.sandbox.files import read_existing
from coilclaw.store.conversation import NOTHING_SAID, Conversation

if TYPE_CHECKING:
    from coilclaw.gate.labels import FileLabels
    from coilclaw.gate.undoing import Undoing

INPUT_BYTES = 1 << 20
"""The largest file that can be part of an effect."""

COMMANDS_KEPT = 16
"""How many commands are kept as they were read."""

JudgeUrl: TypeAlias = Callable[[str, Principal, tuple[str, ...] | None], UrlFact]
"""What the airlock thinks of a URL before any look-up, narrowed to some domains or not."""

Talk: TypeAlias = Callable[[str, str, str], Conversation]
"""The conversation of a thread as it concerns one call of one turn."""

BY_HAND: frozenset[Source] = frozenset({"cli", "gateway"})
"""Sources of calls that the owner makes, with no model between."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much was going on before a call."""

    recent: int
    """Calls proposed within a minute."""
    waiting: int
    """Actions waiting for the owner."""
    prs_today: int = 0


class Inspected(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its facts, and what is needed to run it if it may."""

    facts: Facts
    tool: Tool | None
    args: msgspec.Struct | None
    touches: Touches
    inputs: tuple[bytes, ...] = ()
    """What the declared inputs hold; hashed into the digest and handed over as read."""

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
        tools: Mapping[str, Tool],
        places: Places,
        estop: Estop,
        judge_url: JudgeUrl,
        count: Callable[[str, ToolFact | None], Counts],
        labels: "Callable[[], FileLabels]",
        talk: Talk,
        seal: Callable[[str], str],
        undoing: "Undoing",
        *,
        unsafe: bool,
    ) -> None:
        self.tools = tools
        self._undoing = undoing
        self._places = places
        self._estop = estop
        self._judge_url = judge_url
        self._count = count
        self._labels = labels
        """Opened only when a call can carry labelled content."""
        self._talk = talk
        self._seal = seal
        self._unsafe = unsafe
        self._read = lru_cache(maxsize=COMMANDS_KEPT)(_read)
        """Reading depends on the text alone, and one call is looked at several times on its way."""

    def inspect(self, call: ToolCall, turn: Turn, action_id: str = "~") -> Inspected:
        """The facts of a call as things stand now. The counts are of actions older than `action_id`."""
        tool = self.tools.get(call.tool)
        args, schema_error = self._parse(tool, call.args_bytes)
        touches = tool.touches(args) if tool is not None and args is not None else Touches()
        command = self._read(touches.command) if touches.command is not None else None
        declared = None if tool is None else _fact(tool)
        counts = self._count(action_id, declared)
        narrowing = turn.job.constraints.allowed_domains if turn.job is not None else None
        paths = self._paths(touches, command)
        talk = self._talk(turn.thread_id, turn.turn_id, action_id) if _asks_for_an_address(touches) else NOTHING_SAID
        inputs, unread = self._inputs(touches, paths)
        facts = Facts(
            tool_name=call.tool,
            tool=declared,
            near_names=() if tool is not None else _near(call.tool, self.tools),
            schema_error=schema_error or unread,
            estop=self._estop.engaged(),
            paths=paths,
            command=command,
            url=self._url(touches, turn, talk, narrowing),
            domains=tuple(self._judge_url(_address(domain), "box", narrowing) for domain in touches.domains),
            secret=call.withheld or any(self._holds_secret(data) for data in inputs),
            unsafe=self._unsafe,
            recent_calls=counts.recent,
            open_proposals=counts.waiting,
            fresh=turn.fresh,
            inherited=self._inherited(touches, paths, command, turn),
            private=talk.private,
            job=turn.job,
            prs_today=counts.prs_today,
            only_reads=_changes_nothing(declared, touches, command),
        )
        if not schema_error and not facts.estop:
            facts = msgspec.structs.replace(facts, irreversible=self._undoing.obstacle(touches, facts))
        return Inspected(facts=facts, tool=tool, args=args, touches=touches, inputs=inputs)

    def _inherited(
        self, touches: Touches, paths: tuple[PathFact, ...], command: CommandFacts | None, turn: Turn
    ) -> tuple[Label, ...]:
        """What the conversation carries, and what the files carry whose content may become part of the effect."""
        if command is not None:
            return untrusted_only((*turn.inherited, *self._labels().labels_for_command(command)))
        if touches.restores is not None:
            return untrusted_only((*turn.inherited, *self._undoing.labels(touches.restores)))
        sent = [path.relative for path in paths if path.asked in touches.inputs and path.relative is not None]
        if not sent:
            return turn.inherited
        return untrusted_only((*turn.inherited, *(label for path in sent for label in self._labels().labels_of(path))))

    def _holds_secret(self, data: bytes) -> bool:
        text = data.decode("utf-8", "replace")
        return self._seal(text) != text

    def _inputs(self, touches: Touches, paths: tuple[PathFact, ...]) -> tuple[tuple[bytes, ...], str]:
        """What the declared inputs hold now, or why they cannot be read. Paths the gate refuses are not looked into."""
        read: list[bytes] = []
        for name in touches.inputs:
            path = next((path for path in paths if path.asked == name and not path.write), None)
            if path is None:
                return (), f"{name!r} is an input that the tool does not declare as read"
            if path.fault or path.in_home or path.forbidden_by:
                return (), ""  # the gate says why
            if path.relative is None:
                return (), f"{name!r} is outside the workspace; only workspace files can be sent"
            data = read_existing(Path(self._places.workspace), path.relative, INPUT_BYTES)
            if data is None:
                return (), f"{name!r} is not a regular file of at most {INPUT_BYTES} bytes"
            read.append(data)
        return tuple(read), ""

    def _url(
        self, touches: Touches, turn: Turn, talk: Conversation, narrowing: tuple[str, ...] | None
    ) -> UrlFact | None:
        if touches.url is None:
            return None
        judged = self._judge_url(touches.url, touches.principal or "http", narrowing)
        if touches.target is not None:
            return msgspec.structs.replace(judged, origin="configured")
        if touches.principal == "web_search":
            return msgspec.structs.replace(judged, origin="query")
        if turn.source in BY_HAND and not turn.taint:
            return msgspec.structs.replace(judged, origin="owner")
        from coilclaw.gate.addresses import origin_of

        origin, followed = origin_of(touches.url, talk)
        holds = bool(turn.taint) or talk.private
        stays = talk.sent if origin != "constructed" else holds
        return msgspec.structs.replace(judged, origin=origin, followed=followed, stays=stays and origin != "owner")

    def in_short(self, call: ToolCall) -> str:
        """What a call would do, in the tool's own sentence; its name where there is none. Looks at nothing."""
        tool = self.tools.get(call.tool)
        try:
            return call.tool if tool is None else tool.summary(tool.parse(call.args_bytes))
        except msgspec.DecodeError:  # arguments that do not fit, or a damaged row
            return call.tool

    def _parse(self, tool: Tool | None, args: bytes) -> tuple[msgspec.Struct | None, str]:
        if tool is None:
            return None, ""
        try:
            return tool.parse(args), ""
        except msgspec.ValidationError as error:
            return None, unparsed_fault(args) or str(error)

    def _paths(self, touches: Touches, command: CommandFacts | None) -> tuple[PathFact, ...]:
        named = [(path, False, False) for path in touches.reads] + [(path, True, False) for path in touches.writes]
        if command is not None:
            named += [(path, False, True) for path in command.reads] + [(path, True, True) for path in command.writes]
        return tuple(look_at(path, self._places, write=write, boxed=boxed) for path, write, boxed in named)


def _read(text: str) -> CommandFacts:
    from coilclaw.lib.shell.command import read_command

    return read_command(text)


def _asks_for_an_address(touches: Touches) -> bool:
    return touches.url is not None and touches.target is None


def _address(domain: str) -> str:
    return f"{domain}/" if "://" in domain else f"https://{domain}/"


def _fact(tool: Tool) -> ToolFact:
    return ToolFact(
        name=tool.name,
        effect=tool.effect,
        destination=tool.destination,
        always_ask=tool.always_ask,
        callers=tool.callers,
        opens_pr=tool.opens_pr,
    )


_READERS = frozenset(
    """
    ls cat head tail wc grep egrep fgrep rg stat du df pwd date diff cmp tree basename dirname realpath readlink id
    whoami uname true false test echo printf sleep seq cut sort uniq tr nl tac rev fold jq
    """.split()  # noqa: SIM905  forty quoted words are harder to read
)
"""Programs that change nothing unless their output is sent to a file."""


def _changes_nothing(tool: ToolFact | None, touches: Touches, command: CommandFacts | None) -> bool:
    """Whether no workspace file can change but those the call names."""
    if command is not None:
        return only_reads(command)
    unnamed = not touches.writes and tool is not None and tool.destination == "workspace"
    return not (unnamed and tool is not None and tool.effect != "READ")


def only_reads(command: CommandFacts) -> bool:
    """Whether a command certainly changes no file."""
    return not command.writes and not command.opaque and set(command.programs) <= _READERS


def _near(name: str, tools: Mapping[str, Tool]) -> tuple[str, ...]:
    from difflib import get_close_matches

    return tuple(get_close_matches(name[:80], tools, n=2))
