"""Gathering facts: everything a decision depends on, looked up before it and never inside it."""

from collections.abc import Callable, Mapping

import msgspec

from coilclaw.gate.case import Facts, ToolFact, UrlFact
from coilclaw.gate.command import CommandFacts, read_command
from coilclaw.gate.estop import Estop
from coilclaw.gate.paths import PathFact, Places, look_at
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.http import Principal
from coilclaw.packets.ports import Tool, Touches


class Inspected(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its facts, and what is needed to run it if it may."""

    facts: Facts
    tool: Tool | None
    args: msgspec.Struct | None
    touches: Touches


class Inspector:
    """Looks at calls."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        places: Places,
        estop: Estop,
        judge_url: Callable[[str, Principal], UrlFact],
        count: Callable[[str], tuple[int, int]],
        *,
        unsafe: bool,
    ) -> None:
        self.tools = tools
        self._places = places
        self._estop = estop
        self._judge_url = judge_url
        self._count = count
        self._unsafe = unsafe

    def inspect(self, call: ToolCall, turn: Turn, action_id: str = "~") -> Inspected:
        """The facts of a call as things stand now. The counts are of actions older than `action_id`."""
        tool = self.tools.get(call.tool)
        args, schema_error = self._parse(tool, call.args_bytes)
        touches = tool.touches(args) if tool is not None and args is not None else Touches()
        command = read_command(touches.command) if touches.command is not None else None
        recent, waiting = self._count(action_id)
        facts = Facts(
            tool_name=call.tool,
            tool=None if tool is None else _fact(tool),
            near_names=() if tool is not None else _near(call.tool, self.tools),
            schema_error=schema_error,
            estop=self._estop.engaged(),
            paths=self._paths(touches, command),
            command=command,
            url=self._url(touches, turn),
            domains=tuple(self._judge_url(_address(domain), "box") for domain in touches.domains),
            secret=call.withheld,
            unsafe=self._unsafe,
            recent_calls=recent,
            open_proposals=waiting,
            fresh=turn.fresh,
            inherited=turn.inherited,
        )
        return Inspected(facts=facts, tool=tool, args=args, touches=touches)

    def _url(self, touches: Touches, turn: Turn) -> UrlFact | None:
        if touches.url is None:
            return None
        judged = self._judge_url(touches.url, touches.principal or "http")
        return msgspec.structs.replace(judged, quoted=turn.quoted(touches.url))

    def _parse(self, tool: Tool | None, args: bytes) -> tuple[msgspec.Struct | None, str]:
        if tool is None:
            return None, ""
        try:
            return tool.parse(args), ""
        except msgspec.ValidationError as error:
            return None, str(error)

    def _paths(self, touches: Touches, command: CommandFacts | None) -> tuple[PathFact, ...]:
        named = [(path, False, False) for path in touches.reads] + [(path, True, False) for path in touches.writes]
        if command is not None:
            named += [(path, False, True) for path in command.reads] + [(path, True, True) for path in command.writes]
        return tuple(look_at(path, self._places, write=write, boxed=boxed) for path, write, boxed in named)


def _address(domain: str) -> str:
    return f"{domain}/" if "://" in domain else f"https://{domain}/"


def _fact(tool: Tool) -> ToolFact:
    return ToolFact(name=tool.name, effect=tool.effect, destination=tool.destination, always_ask=tool.always_ask)


def _near(name: str, tools: Mapping[str, Tool]) -> tuple[str, ...]:
    from difflib import get_close_matches

    return tuple(get_close_matches(name[:80], tools, n=2))
