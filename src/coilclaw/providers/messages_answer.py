"""Parses an answer of Anthropic's Messages, whole or streamed, into one ChatResponse."""

from collections.abc import Callable

import msgspec

from coilclaw.packets.chat import ChatResponse, Usage
from coilclaw.providers.answer import (
    DECLINED,
    DraftCall,
    Ending,
    Kind,
    ReportedError,
    UnreadableAnswer,
    count,
    finished,
)

_NULL = msgspec.Raw(b"null")
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


class _Block(msgspec.Struct, frozen=True):
    """A block of text, or a call."""

    text: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = _NULL


class _Delta(msgspec.Struct, frozen=True):
    """What an event adds to a block."""

    text: str = ""
    partial_json: str = ""


class _Usage(msgspec.Struct, frozen=True):
    """Token counts. Tokens written to and read from the cache are not among the input tokens."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Stop(msgspec.Struct, frozen=True):
    """Why the model stopped."""

    stop_reason: str | None = None


class _Message(msgspec.Struct, frozen=True):
    """A whole message, or the start of a streamed one."""

    id: str = ""
    model: str = ""
    content: list[msgspec.Raw] = []
    stop_reason: str | None = None
    usage: msgspec.Raw = _NULL


class _Event(msgspec.Struct, frozen=True):
    """One event of a stream; which fields it has depends on its type."""

    type: str
    message: _Message | None = None
    index: int = 0
    content_block: msgspec.Raw = _NULL
    delta: msgspec.Raw = _NULL
    usage: msgspec.Raw = _NULL
    error: msgspec.Raw = _NULL


class MessagesAnswer:
    """Assembles an answer. A call counts when its block is closed and the message is complete."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text = on_text
        self._text: list[str] = []
        self._calls: list[DraftCall] = []
        self._open: dict[int, str | DraftCall] = {}
        """The open blocks by index: a call, or the type of another block."""
        self._message: _Message | None = None
        self._usage = _Usage()
        self._stop = ""

    def read_body(self, data: bytes) -> None:
        """Take a whole answer."""
        kind = msgspec.json.decode(data, type=Kind).type
        if kind == "error":
            raise ReportedError(bytes(msgspec.json.decode(data, type=_Event).error))
        if kind != "message":
            raise UnreadableAnswer("it is not a message")
        message = msgspec.json.decode(data, type=_Message)
        self._begin(message)
        self._end(message.stop_reason)
        for block in message.content:
            started = self._start(block)
            if isinstance(started, DraftCall):
                self._calls.append(started)
        self._stopped()

    def read_event(self, data: bytes) -> bool:
        """Take one event; True when the message is complete."""
        kind = msgspec.json.decode(data, type=Kind).type
        if kind not in _EVENTS:
            return False
        event = msgspec.json.decode(data, type=_Event)
        if kind == "error":
            raise ReportedError(bytes(event.error))
        if kind == "message_start":
            self._begin(event.message or _Message())
        elif self._message is None:
            raise UnreadableAnswer(f"{kind} came before message_start")
        elif kind == "content_block_start":
            self._start_block(event.index, event.content_block)
        elif kind == "content_block_delta":
            self._extend(event.index, event.delta)
        elif kind == "content_block_stop":
            self._close(event.index)
        elif kind == "message_delta":
            self._end(msgspec.json.decode(event.delta, type=_Stop).stop_reason)
            self._count(event.usage)
        else:
            self._stopped()
            return True
        return False

    @property
    def may_end(self) -> bool:
        """Only message_stop ends a message."""
        return False

    def response(self, provider: str, model: str, call_prefix: str) -> ChatResponse:
        """The whole answer, or ModelOutputError if it is empty or was cut inside a call."""
        message = self._message or _Message()
        ending = Ending(
            answer_id=message.id,
            model=message.model or model,
            reason=self._stop,
            finish=_FINISH.get(self._stop, self._stop),
            usage=_usage(self._usage),
        )
        return finished("".join(self._text), self._calls, ending, provider, call_prefix)

    def _begin(self, message: _Message) -> None:
        if self._message is not None:
            raise UnreadableAnswer("it holds two messages")
        self._message = message
        self._count(message.usage)

    def _start(self, block: msgspec.Raw) -> str | DraftCall:
        """A block's type, or the call that it starts; text is passed on at once, unknown blocks are skipped."""
        kind = msgspec.json.decode(block, type=Kind).type
        if kind not in {"text", "tool_use"}:
            return kind
        told = msgspec.json.decode(block, type=_Block)
        if kind == "text":
            self._say(told.text)
            return kind
        draft = DraftCall(told.id, told.name)
        if bytes(told.input).strip() not in {b"null", b"{}"}:
            draft.arguments.append(bytes(told.input).decode("utf-8", "replace"))
        return draft

    def _start_block(self, index: int, block: msgspec.Raw) -> None:
        if index in self._open:
            raise UnreadableAnswer(f"block {index} starts twice")
        self._open[index] = self._start(block)

    def _extend(self, index: int, delta: msgspec.Raw) -> None:
        if index not in self._open:
            raise UnreadableAnswer(f"block {index} continues without having started")
        kind, block = msgspec.json.decode(delta, type=Kind).type, self._open[index]
        if kind == "text_delta" and block == "text":
            self._say(msgspec.json.decode(delta, type=_Delta).text)
        elif kind == "input_json_delta" and isinstance(block, DraftCall):
            block.arguments.append(msgspec.json.decode(delta, type=_Delta).partial_json)

    def _close(self, index: int) -> None:
        if index not in self._open:
            raise UnreadableAnswer(f"block {index} ends without having started")
        block = self._open.pop(index)
        if isinstance(block, DraftCall):
            self._calls.append(block)

    def _end(self, stop_reason: str | None) -> None:
        self._stop = stop_reason or self._stop

    def _stopped(self) -> None:
        """The message ends: everything in it must be complete."""
        if self._open or not self._stop:
            raise UnreadableAnswer("it ended inside a block" if self._open else "it has no stop_reason")
        if self._stop == "refusal":
            self._calls.clear()  # calls proposed before a refusal must not run
            if not "".join(self._text).strip():
                self._say(DECLINED)

    def _say(self, text: str) -> None:
        if not text:
            return
        self._text.append(text)
        if self._on_text is not None:
            self._on_text(text)

    def _count(self, raw: msgspec.Raw) -> None:
        """Usage is optional and must not fail the answer; counts are cumulative, so the last one is right."""
        try:
            told = msgspec.json.decode(raw, type=_Usage | None)
        except msgspec.DecodeError:
            return
        if told is not None:
            said = {name: value for name, value in msgspec.structs.asdict(told).items() if value is not None}
            self._usage = msgspec.structs.replace(self._usage, **said)


_EVENTS = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    }
)


def _usage(usage: _Usage) -> Usage | None:
    if usage == _Usage():
        return None
    cached = count(usage.cache_read_input_tokens)
    return Usage(
        input_tokens=count(usage.input_tokens) + count(usage.cache_creation_input_tokens) + cached,
        output_tokens=count(usage.output_tokens),
        cached_tokens=cached,
    )
