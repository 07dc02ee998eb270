"""Reading SOP.toml: every fault is found in one pass and told with the step it stands in."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast, get_type_hints

import msgspec

from coilclaw.features.sops.sop import MAX_FILE_BYTES, MAX_STEPS, OUTCOMES, Kind, Sop, Step
from coilclaw.packets.canonical import Json, NotCanonical, canonical_bytes
from coilclaw.packets.names import did_you_mean
from coilclaw.packets.ports import Tool
from coilclaw.packets.text import one_line

MOST_FAULTS = 100
_NEEDS: dict[Kind, tuple[str, ...]] = {"tool": ("tool",), "agent": ("prompt",), "approval": ("prompt",)}
_TAKES: dict[Kind, frozenset[str]] = {
    "tool": frozenset({"id", "kind", "tool", "args", "when", "on_failure", "timeout", "retry"}),
    "agent": frozenset({"id", "kind", "prompt", "content_from", "tools", "when", "on_failure", "timeout", "retry"}),
    "approval": frozenset({"id", "kind", "prompt", "when", "on_failure"}),
}
_DOTTED = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"(?:[^"\\\n]|\\.){0,64}"|'[^'\n]{0,64}')[ \t]*\.[ \t]*){64}""")
"""The dots of a key with more than 64 parts."""

_ALIASES = {"type": "kind", "if": "when", "message": "prompt", "retries": "retry", "on_error": "on_failure"}


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong, and the step it is wrong in; empty when it is the file as a whole."""

    step: str
    message: str

    def __str__(self) -> str:
        return one_line(f"step {self.step}: {self.message}" if self.step else self.message)


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """What reading a file gave: a procedure, or why there is none."""

    sop: Sop | None
    faults: tuple[Fault, ...] = ()


def broken(message: str) -> Read:
    """A file that cannot be read at all."""
    return Read(sop=None, faults=(Fault(step="", message=message),))


def read_sop(data: bytes, name: str, tools: Mapping[str, Tool], redact: Callable[[str], str]) -> Read:
    """The procedure in a file of the folder `name`, or every fault in it. A secret in it is a fault: a run is kept."""
    import tomllib

    if len(data) > MAX_FILE_BYTES:
        return broken(f"the file is {len(data)} bytes; at most {MAX_FILE_BYTES} are read.")
    try:
        text = data.decode("utf-8")
        if _DOTTED.search(text):  # before it is parsed: that takes the square of it in time and memory
            return broken("a key has more than 64 parts; something in the file is nested too deeply.")
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        return broken(f"the file is not UTF-8 text (byte {error.start}).")
    except tomllib.TOMLDecodeError as error:
        return broken(redact(f"this is not TOML: {error}."))
    except (RecursionError, ValueError) as error:
        return broken(f"this is not TOML that can be read: {type(error).__name__}.")
    checking = Checking(name, tools, redact)
    try:
        sop = checking.sop(table)
    except RecursionError:
        return broken("something in the file is nested too deeply.")
    return Read(sop=sop, faults=tuple(checking.faults[:MOST_FAULTS]))


class Checking:
    """One pass over one file."""

    def __init__(self, name: str, tools: Mapping[str, Tool], redact: Callable[[str], str]) -> None:
        self._name = name
        self._tools = tools
        self._redact = redact
        self.faults: list[Fault] = []

    def _note(self, step: str, message: str) -> None:
        self.faults.append(Fault(step=self._redact(step), message=self._redact(message)))

    # The file

    def sop(self, table: dict[str, Any]) -> Sop | None:
        """The procedure, as far as it holds."""
        self._unknown("", table, tuple(_hints(Sop)))
        fields = self._fields("", {key: value for key, value in table.items() if key != "steps"}, Sop)
        if "name" not in table:
            self._note("", f'name is missing: write name = "{self._name}".')
        elif fields.get("name", self._name) != self._name:
            self._note("", f"name is {fields['name']!r}, but the folder is called {self._name!r}; they must match.")
        steps = self._steps(table.get("steps"))
        if self.faults:
            return None
        made = msgspec.convert({**fields, "steps": steps}, Sop)
        self._secrets("", made.description)
        for step in made.steps:
            self._secrets(step.id, msgspec.json.encode(step).decode())
        return None if self.faults else made

    def _secrets(self, step: str, text: str) -> None:
        if self._redact(text) != text:
            self._note(step, "this contains a secret; refer to it by the name of its environment variable.")

    def _steps(self, value: object) -> list[Step]:
        if not isinstance(value, list) or not value:
            self._note("", "there are no steps: each begins with [[steps]].")
            return []
        tables = cast("list[object]", value)
        if len(tables) > MAX_STEPS:
            self._note("", f"there are {len(tables)} steps; at most {MAX_STEPS} are allowed.")
            return []
        earlier: dict[str, Step | None] = {}
        later = [str(cast("dict[str, object]", each).get("id", "")) for each in tables if isinstance(each, dict)]
        made: list[Step] = []
        for number, each in enumerate(tables, 1):
            if not isinstance(each, dict):
                self._note(str(number), "a step is a table: it begins with [[steps]].")
                continue
            fields = cast("dict[str, Any]", each)
            name = str(fields.get("id") or number)
            step = self._step(name, fields, earlier, later)
            if name in earlier:
                self._note(name, "this id is used twice; every step needs its own.")
            earlier[name] = step
            made += [] if step is None else [step]
        return made

    # A step

    def _step(
        self, name: str, table: dict[str, Any], earlier: Mapping[str, Step | None], every: Sequence[str]
    ) -> Step | None:
        before = len(self.faults)
        known = tuple(_hints(Step))
        self._unknown(name, table, known)
        fields = self._fields(name, {key: value for key, value in table.items() if key in known}, Step)
        for key in ("id", "kind"):
            if key not in table:
                self._note(name, f"{key} is missing.")
        kind = cast("Kind | None", fields.get("kind"))
        if kind is not None:
            self._fits_kind(name, table, fields, kind)
        self._condition(name, str(fields.get("when", "")), earlier, every)
        if kind == "agent" and fields.get("content_from"):
            self._source(name, str(fields["content_from"]), earlier, every)
        for tool in cast("tuple[str, ...]", fields.get("tools") or ()):
            if tool not in self._tools:
                self._note(name, f"tools: there is no tool {tool[:60]!r}. {did_you_mean(tool, list(self._tools))}")
        if kind == "tool" and isinstance(fields.get("tool"), str) and fields["tool"]:
            self._call(name, str(fields["tool"]), fields.get("args", {}), earlier, every)
        return msgspec.convert(fields, Step) if len(self.faults) == before else None

    def _fits_kind(self, name: str, table: dict[str, Any], fields: Mapping[str, object], kind: Kind) -> None:
        for key in _NEEDS[kind]:
            if key not in fields and key in table:
                continue  # it is there and was told to be wrong already
            if not str(fields.get(key, "")).strip():
                what = "message for the owner (prompt)" if kind == "approval" else key
                self._note(name, f"{_article(kind)} step needs a {what}.")
        for key in table:
            if key in _hints(Step) and key not in _TAKES[kind]:
                where = " Put it in args." if kind == "tool" and key == "content_from" else ""
                self._note(name, f"{_article(kind)} step takes no {key}.{where}")

    def _fields(self, step: str, table: Mapping[str, object], of: type[msgspec.Struct]) -> dict[str, object]:
        """Each value that fits its field; the others are noted."""
        hints = _hints(of)
        found: dict[str, object] = {}
        for key, value in table.items():
            if key not in hints:
                continue
            try:
                found[key] = msgspec.convert(value, hints[key])
            except msgspec.ValidationError as error:
                self._note(step, f"{key}: {_plain(error)}.")
        return found

    def _unknown(self, step: str, table: Mapping[str, object], known: Sequence[str]) -> None:
        for key in table:
            if key not in known:
                meant = f"Did you mean {_ALIASES[key]}?" if key in _ALIASES else did_you_mean(key, known)
                self._note(step, f"there is no key {key[:60]!r}. {meant}")

    # What names another step

    def _named(self, step: str, key: str, name: str, earlier: Mapping[str, Step | None], every: Sequence[str]) -> bool:
        if name in earlier:
            return True
        if name == step:
            self._note(step, f"{key} names the step itself.")
        elif name in every:
            self._note(step, f"{key} names {name!r}, which comes later; only earlier steps can be used.")
        else:
            self._note(
                step, f"{key} names {name[:60]!r}, but there is no such step. {did_you_mean(name, list(earlier))}"
            )
        return False

    def _source(self, step: str, name: str, earlier: Mapping[str, Step | None], every: Sequence[str]) -> None:
        if self._named(step, "content_from", name, earlier, every):
            source = earlier[name]
            if source is not None and source.kind == "approval":
                self._note(step, f"content_from names {name!r}, an approval, which leaves no content.")

    def _condition(self, step: str, when: str, earlier: Mapping[str, Step | None], every: Sequence[str]) -> None:
        if not when:
            return
        name, dot, outcome = when.rpartition(".")
        if not dot or outcome not in OUTCOMES:
            self._note(step, f"when is {when[:60]!r}; write STEP.success, STEP.failed or STEP.skipped.")
            return
        if not self._named(step, "when", name, earlier, every):
            return
        other = earlier[name]
        if other is not None and outcome == "failed" and other.on_failure == "abort":
            self._note(
                step, f'when can never be true: the run ends if {name} fails. Give {name} on_failure = "continue".'
            )
        if other is not None and outcome == "skipped" and not other.when:
            self._note(step, f"when can never be true: {name} has no condition, so it is never skipped.")

    # A call

    def _call(
        self, step: str, tool_name: str, value: object, earlier: Mapping[str, Step | None], every: Sequence[str]
    ) -> None:
        tool = self._tools.get(tool_name)
        if tool is None:
            self._note(step, f"there is no tool {tool_name[:60]!r}. {did_you_mean(tool_name, list(self._tools))}")
        args = dict(cast("dict[str, Json]", value))
        source = args.get("content_from")
        if source is not None and tool is not None and not _takes(tool, "content"):
            self._note(step, f"args: {tool_name} takes no content, so content_from cannot be used.")
            return
        if source is not None:
            if not isinstance(source, str):
                self._note(step, "args: content_from is the id of a step.")
                return
            self._source(step, source, earlier, every)
            if "content" in args:
                self._note(step, "args: content and content_from are both given; remove one.")
            args = {**args, "content": "x"}
            del args["content_from"]
        self._arguments(step, args, tool)

    def _without_identity(self, step: str, args: dict[str, Json], tool: Tool) -> bytes:
        """The arguments without the identity, which stands among them; empty if the tool has none."""
        if not tool.identities:
            return b""
        if args.get("identity") not in tool.identities:
            names = " or ".join(f'"{name}"' for name in sorted(tool.identities, reverse=True))
            self._note(step, f"args: {tool.name} needs identity = {names}.")
        return canonical_bytes({name: value for name, value in args.items() if name != "identity"})

    def _arguments(self, step: str, args: dict[str, Json], tool: Tool | None) -> None:
        strange = _strange(args, "args")
        if strange:
            self._note(step, f"{strange} is a date or time; write it as a string.")
            return
        try:
            data = canonical_bytes(args)
        except NotCanonical as error:
            self._note(step, f"args: {error}.")
            return
        if tool is not None:
            try:
                tool.parse(self._without_identity(step, args, tool) or data)
            except msgspec.ValidationError as error:
                self._note(step, f"args do not match {tool.name}: {_plain(error)}.")


def _hints(of: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(of, include_extras=True)


def _takes(tool: Tool, name: str) -> bool:
    properties = tool.parameters.get("properties", {})
    return isinstance(properties, Mapping) and name in properties


def _strange(value: object, place: str) -> str:
    """The place of the first value that JSON does not have."""
    if isinstance(value, dict):
        return next(
            (f for key, each in cast("dict[str, object]", value).items() if (f := _strange(each, f"{place}.{key}"))), ""
        )
    if isinstance(value, list):
        return next((f for each in cast("list[object]", value) if (f := _strange(each, place))), "")
    return "" if value is None or isinstance(value, str | int | float | bool) else place


def _article(kind: Kind) -> str:
    return f"{'a' if kind == 'tool' else 'an'} {kind}"


def _plain(error: msgspec.ValidationError) -> str:
    """What msgspec says, as the end of a sentence."""
    text = re.sub(r" - at `\$\.?(.*)`$", lambda found: f" (at {found[1]})" if found[1] else "", str(error))
    return text.rstrip(".")
