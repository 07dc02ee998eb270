"""The script of the mock provider: a JSON list of replies, checked strictly before the first is given.

docs/mock-provider.md describes the format; every fault in a file is reported with its position.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, canonical_bytes, parse_json
from coilclaw.packets.chat import Usage
from coilclaw.packets.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path  # only for type checking: slow to import

ScriptedError: TypeAlias = Literal["timeout", "unavailable", "rate_limit", "auth", "invalid_json"]
MAX_DELAY = 600
MAX_SCRIPT_BYTES = 1 << 20
REGEX = "regex:"
_REPLY_KEYS = ("text", "stream", "raw", "tool_calls", "error", "delay", "match", "usage")
_CALL_KEYS = ("tool", "args", "arguments", "id", "justification")
_USAGE_KEYS = ("input_tokens", "output_tokens")


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call to propose; the arguments may be anything, to test bad input."""

    tool: str
    arguments: str
    call_id: str
    justification: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the script."""

    pieces: tuple[str, ...]
    """The text in its streamed pieces; a single piece is streamed word by word."""
    raw: str | None
    calls: tuple[ScriptedCall, ...]
    error: ScriptedError | None
    delay: float
    match: str | None
    usage: Usage | None

    @property
    def passing(self) -> bool:
        """An error or broken output: it may leave no assistant message and is then given once."""
        return self.error is not None or self.raw is not None

    def fits(self, last_user: str) -> bool:
        """Whether `match` is found in the last user message."""
        if self.match is None:
            return False
        if self.match.startswith(REGEX):
            return re.search(self.match.removeprefix(REGEX), last_user) is not None
        return self.match.lower() in last_user.lower()


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """Replies in order."""

    replies: tuple[Reply, ...]

    @classmethod
    def parse(cls, data: bytes | str, source: str) -> "Script":
        """Read a script, or raise ConfigError with every fault in it."""
        if len(data) > MAX_SCRIPT_BYTES:
            raise ConfigError([f"{source}: the script is larger than {MAX_SCRIPT_BYTES} bytes"])
        try:
            value = parse_json(data)
        except NotCanonical as error:
            raise ConfigError([f"{source}: {error}"], remedy=_REMEDY) from error
        checker = _Checker()
        replies = checker.replies(value)
        if checker.problems:
            raise ConfigError([f"{source}: {problem}" for problem in checker.problems], remedy=_REMEDY)
        return cls(replies=replies)

    @classmethod
    def read(cls, path: "Path") -> "Script":
        """Read a script file."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError([f"{path}: the mock script cannot be read: {error.strerror}"], remedy=_REMEDY) from error
        return cls.parse(data, str(path))

    def turn(self, last_user: str) -> tuple[Reply, ...]:
        """The replies for one user turn: those with a fitting `match`, else those without `match`."""
        fitting = tuple(reply for reply in self.replies if reply.fits(last_user))
        return fitting or tuple(reply for reply in self.replies if reply.match is None)


_REMEDY = 'See docs/mock-provider.md; the smallest script is [{"text": "Hello."}].'


class _Checker:
    """Walks a parsed script and continues after a fault, so that all are reported at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def replies(self, value: Json) -> tuple[Reply, ...]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            self._fault("$", "the script must be a list of replies")
            return ()
        if not value:
            self._fault("$", "the script contains no reply")
        return tuple(self._reply(item, f"$[{index}]") for index, item in enumerate(value))

    def _reply(self, value: Json, at: str) -> Reply:
        fields = self._object(value, at, _REPLY_KEYS)
        raw = self._text(fields, "raw", at)
        error = self._error(fields, at)
        calls = self._list(fields, "tool_calls", at)
        reply = Reply(
            pieces=self._pieces(fields, at),
            raw=raw,
            calls=tuple(self._call(item, f"{at}.tool_calls[{index}]") for index, item in enumerate(calls)),
            error=error,
            delay=self._number(fields, "delay", at, MAX_DELAY),
            match=self._match(fields, at),
            usage=self._usage(fields, at),
        )
        self._combination(fields, at)
        return reply

    def _combination(self, fields: JsonObject, at: str) -> None:
        """A reply is text (with or without calls), raw output, or an error."""
        if not any(key in fields for key in ("text", "stream", "raw", "tool_calls", "error")):
            self._fault(at, "a reply needs text, stream, tool_calls, raw or error")
        if "text" in fields and "stream" in fields:
            self._fault(at, "text and stream mean the same: give one")
        if "raw" in fields and any(key in fields for key in ("text", "stream", "tool_calls", "error")):
            self._fault(at, "raw is the whole output and excludes text, stream, tool_calls and error")
        if "error" in fields and any(key in fields for key in ("text", "tool_calls")):
            self._fault(at, "an error may only be preceded by stream, not by text or tool_calls")

    def _call(self, value: Json, at: str) -> ScriptedCall:
        fields = self._object(value, at, _CALL_KEYS)
        if not fields.get("tool"):
            self._fault(f"{at}.tool", "a tool name is needed")
        if "args" in fields and "arguments" in fields:
            self._fault(at, "give args (a value) or arguments (raw text), not both")
        arguments = self._text(fields, "arguments", at)
        if arguments is None:
            arguments = canonical_bytes(fields.get("args", {})).decode()
        return ScriptedCall(
            tool=self._text(fields, "tool", at) or "",
            arguments=arguments,
            call_id=self._text(fields, "id", at) or "",
            justification=self._text(fields, "justification", at) or "",
        )

    def _pieces(self, fields: JsonObject, at: str) -> tuple[str, ...]:
        text = self._text(fields, "text", at)
        if text is not None:
            return (text,)
        pieces: list[str] = []
        for index, piece in enumerate(self._list(fields, "stream", at)):
            if isinstance(piece, str):
                pieces.append(piece)
            else:
                self._fault(f"{at}.stream[{index}]", "must be text")
        return tuple(pieces)

    def _error(self, fields: JsonObject, at: str) -> ScriptedError | None:
        value = fields.get("error")
        for known in get_args(ScriptedError):
            if value == known:
                return known
        if "error" in fields:
            self._fault(f"{at}.error", f"must be one of {', '.join(get_args(ScriptedError))}")
        return None

    def _match(self, fields: JsonObject, at: str) -> str | None:
        value = self._text(fields, "match", at)
        if value is not None and value.startswith(REGEX):
            try:
                re.compile(value.removeprefix(REGEX))
            except re.error as error:
                self._fault(f"{at}.match", f"is not a regular expression: {error}")
        return value

    def _usage(self, fields: JsonObject, at: str) -> Usage | None:
        if "usage" not in fields:
            return None
        usage = self._object(fields["usage"], f"{at}.usage", _USAGE_KEYS)
        given, made = (self._number(usage, key, f"{at}.usage", 2**53) for key in _USAGE_KEYS)
        return Usage(input_tokens=int(given), output_tokens=int(made))

    def _object(self, value: Json, at: str, allowed: tuple[str, ...]) -> JsonObject:
        if not isinstance(value, Mapping):
            self._fault(at, "must be an object")
            return {}
        for key in value:
            if key not in allowed:
                self._fault(at, f"has the unknown key {key!r}; allowed keys are {', '.join(allowed)}")
        return value

    def _list(self, fields: JsonObject, key: str, at: str) -> Sequence[Json]:
        value = fields.get(key, ())
        if isinstance(value, str) or not isinstance(value, Sequence):
            self._fault(f"{at}.{key}", "must be a list")
            return ()
        return value

    def _text(self, fields: JsonObject, key: str, at: str) -> str | None:
        value = fields.get(key)
        if key in fields and not isinstance(value, str):
            self._fault(f"{at}.{key}", "must be text")
        return value if isinstance(value, str) else None

    def _number(self, fields: JsonObject, key: str, at: str, most: int) -> float:
        value = fields.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            self._fault(f"{at}.{key}", f"must be a number from 0 to {most}")
            return 0.0
        return value

    def _fault(self, at: str, text: str) -> None:
        self.problems.append(f"{at}: {text}")
