"""Reads from a model's answer, while it passes, what it cost. Only the places where the wire says it count."""

from typing import Final

import msgspec

from coilclaw.features.runner.model_wires import SessionWire

_NEEDLE: Final = b'"usage'
"""Text of a model cannot contain it: there the quotes are escaped."""
_EVENT_BYTES: Final = 16 << 20
_BYTES_PER_TOKEN: Final = 4
_STREAMED_BYTES: Final = 32
"""Of a stream per token, with its frames: for an answer that did not come to its end."""
_MOST: Final = 1 << 40


class CallCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one answer cost."""

    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    estimated: bool


class _Cached(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class _Counts(msgspec.Struct, frozen=True, rename="camel"):
    """Counts of Google's API; those of the others have their own names."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None


class _Tokens(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Cached | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Whole(msgspec.Struct, frozen=True):
    model: str = ""
    usage: _Tokens | None = None


class _Said(msgspec.Struct, frozen=True):
    """An event, or a whole answer."""

    model: str = ""
    usage: _Tokens | None = None
    message: _Whole | None = None
    response: _Whole | None = None
    modelVersion: str = ""  # noqa: N815 - as it is sent
    usageMetadata: _Counts | None = None  # noqa: N815


class AnswerMeter:
    """Fed with an answer as it passes."""

    def __init__(self, wire: SessionWire, *, streamed: bool) -> None:
        self._wire: SessionWire = wire
        self._streamed = streamed
        self._rest = bytearray()
        self._lost = False
        self._size = 0
        self._model = ""
        self._read = self._cached = self._written = 0
        self._told = False
        """Whether the end of the answer said what it cost."""

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self._size += len(data)
        end = data.rfind(b"\n") + 1 if self._streamed else 0
        if end and not self._lost:
            lines = bytes(self._rest) + data[:end]
            if _NEEDLE in lines:
                for line in lines.split(b"\n"):
                    if _NEEDLE in line and line.startswith(b"data:"):
                        self._take(line[5:])
        if end:
            self._rest, self._lost = bytearray(), False
        self._rest += data[end:]
        if len(self._rest) > _EVENT_BYTES:  # too long to be read: what follows its end is
            self._rest, self._lost = bytearray(), True

    def cost(self, model: str, sent: int, *, whole: bool) -> CallCost:
        """What it cost: as the provider says, else as its length suggests; what is cut short counts too."""
        if self._rest and not self._lost:
            self._take(bytes(self._rest).removeprefix(b"data:") if self._streamed else bytes(self._rest))
            self._rest.clear()
        exact = whole and self._told
        read, written = self._read, self._written
        if not exact:
            read = read or sent // _BYTES_PER_TOKEN + 1
            written = max(written, self._size // (_STREAMED_BYTES if self._streamed else _BYTES_PER_TOKEN))
        return CallCost(
            model=(self._model or model)[:128],
            input_tokens=read,
            cached_tokens=min(self._cached, read),
            output_tokens=written,
            estimated=not exact,
        )

    def _take(self, event: bytes) -> None:
        try:
            said = msgspec.json.decode(event, type=_Said)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        match self._wire:
            case "messages":
                part = said.message or _Whole(model=said.model, usage=said.usage)
                self._model = part.model or self._model
                self._messages(part.usage, final=said.message is None)
            case "responses":
                part = said.response or _Whole(model=said.model, usage=said.usage)
                self._model = part.model or self._model
                self._responses(part.usage)
            case "generate":
                self._model = said.modelVersion or self._model
                self._generate(said.usageMetadata)
            case "completions":  # the runtime's own providers answer these, and say what they cost
                return

    def _messages(self, usage: _Tokens | None, *, final: bool) -> None:
        if usage is None:
            return
        cached = _count(usage.cache_read_input_tokens)
        read = _count(usage.input_tokens) + _count(usage.cache_creation_input_tokens) + cached
        self._sum(read, cached, _count(usage.output_tokens))
        self._told = self._told or final

    def _responses(self, usage: _Tokens | None) -> None:
        if usage is not None:
            cached = _count(usage.input_tokens_details.cached_tokens) if usage.input_tokens_details else 0
            self._sum(_count(usage.input_tokens), cached, _count(usage.output_tokens))
            self._told = True

    def _generate(self, usage: _Counts | None) -> None:
        if usage is not None:
            read = _count(usage.prompt_token_count) + _count(usage.tool_use_prompt_token_count)
            written = _count(usage.candidates_token_count) + _count(usage.thoughts_token_count)
            self._sum(read, _count(usage.cached_content_token_count), written)
            self._told = True

    def _sum(self, read: int, cached: int, written: int) -> None:
        """Counts are totals so far; a later one never takes back what an earlier one said."""
        self._read, self._cached = max(self._read, read), max(self._cached, cached)
        self._written = max(self._written, written)


def _count(tokens: int | None) -> int:
    return min(max(0, tokens or 0), _MOST)
