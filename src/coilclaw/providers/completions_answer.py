"""Parses the answer to POST /chat/completions, whole or streamed, into one ChatResponse."""

from collections.abc import Callable

import msgspec

from coilclaw.packets.chat import ChatResponse, Usage
from coilclaw.packets.errors import ModelOutputError
from coilclaw.providers.answer import (
    MAX_CALLS,
    CachedTokens,
    DraftCall,
    Ending,
    ReportedError,
    UnreadableAnswer,
    WireUsage,
    arguments_text,
    finished,
    usage_of,
)

_NULL = msgspec.Raw(b"null")


class WireFunction(msgspec.Struct, frozen=True):
    """A function to call; its arguments are kept verbatim."""

    name: str | None = None
    arguments: msgspec.Raw = _NULL


class WireCall(msgspec.Struct, frozen=True):
    """A call, or a fragment of one."""

    index: int | None = None
    id: str | None = None
    function: WireFunction | None = None


class WirePart(msgspec.Struct, frozen=True):
    """One part of a content list."""

    text: str | None = None
    refusal: str | None = None


class WireMessage(msgspec.Struct, frozen=True):
    """A message, or a streamed delta of it."""

    content: str | list[WirePart] | None = None
    refusal: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: WireFunction | None = None
    """The form before tool_calls; some servers still use it."""


class WireChoice(msgspec.Struct, frozen=True):
    """One of the answers; we request only one."""

    index: int | None = 0
    message: WireMessage | None = None
    delta: WireMessage | None = None
    finish_reason: str | None = None


class CompletionsUsage(WireUsage, frozen=True):
    """Token counts under their names here."""

    input_tokens: int | None = msgspec.field(default=None, name="prompt_tokens")
    output_tokens: int | None = msgspec.field(default=None, name="completion_tokens")
    input_tokens_details: CachedTokens | None = msgspec.field(default=None, name="prompt_tokens_details")


class WireAnswer(msgspec.Struct, frozen=True):
    """A whole answer or one chunk of a streamed one; they differ only in `message` and `delta`."""

    id: str | None = None
    model: str | None = None
    choices: list[WireChoice] | None = None
    usage: msgspec.Raw = _NULL
    error: msgspec.Raw = _NULL

    @property
    def failed(self) -> bool:
        """Some servers report errors with status 200."""
        return bytes(self.error) not in {b"null", b"", b'""', b"{}"}


_decoder = msgspec.json.Decoder(WireAnswer)


_FINISH = {"": "stop", "function_call": "tool_calls"}


def _decode(data: bytes) -> WireAnswer:
    answer = _decoder.decode(data)
    if answer.failed:
        raise ReportedError(bytes(answer.error))
    return answer


class CompletionsAnswer:
    """Assembles an answer from one message or many deltas."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text = on_text
        self._text: list[str] = []
        self._calls: list[DraftCall] = []
        self._usage: Usage | None = None
        self._id = ""
        self._model = ""
        self._finish_reason = ""

    def read_body(self, data: bytes) -> None:
        """Take a whole answer."""
        answer = _decode(data)
        if not answer.choices:
            raise UnreadableAnswer("it contains no choices")
        self._add(answer)

    def read_event(self, data: bytes) -> bool:
        """Take one chunk; True at the end mark."""
        if data.strip() == b"[DONE]":
            return True
        self._add(_decode(data))
        return False

    @property
    def may_end(self) -> bool:
        """A stream without an end mark must have sent a finish_reason."""
        return bool(self._finish_reason)

    def _add(self, answer: WireAnswer) -> None:
        self._id = answer.id or self._id
        self._model = answer.model or self._model
        self._usage = usage_of(answer.usage, CompletionsUsage) or self._usage
        for choice in answer.choices or ():
            if choice.index not in {0, None}:
                continue
            self._finish_reason = choice.finish_reason or self._finish_reason
            if choice.message is not None:
                self._message(choice.message, whole=True)
            elif choice.delta is not None:
                self._message(choice.delta, whole=False)

    def response(self, provider: str, model: str, call_prefix: str) -> ChatResponse:
        """The whole answer, or ModelOutputError if it is empty or was cut inside a call."""
        ending = Ending(
            answer_id=self._id,
            model=self._model or model,
            reason=self._finish_reason,
            finish=_FINISH.get(self._finish_reason, self._finish_reason),
            usage=self._usage,
        )
        return finished("".join(self._text), self._calls, ending, provider, call_prefix)

    def _message(self, message: WireMessage, *, whole: bool) -> None:
        for piece in _texts(message):
            self._text.append(piece)
            if self._on_text is not None:
                self._on_text(piece)
        for fragment in message.tool_calls or ():
            call = (None if whole else self._written(fragment)) or self._begun(fragment)
            call.call_id = call.call_id or fragment.id or ""
            self._extend(call, fragment.function)
        if message.function_call is not None:
            self._extend(self._calls[-1] if self._calls else self._begun(WireCall()), message.function_call)

    def _written(self, fragment: WireCall) -> DraftCall | None:
        """The call that this fragment continues: by index, else the last one; None if it starts a new one."""
        same = [call for call in self._calls if fragment.index is None or call.index == fragment.index]
        if not same:
            return None
        call = same[-1]
        if fragment.id and call.call_id:  # some servers number every call 0, or none: a new id means a new call
            return call if fragment.id == call.call_id else None
        named_again = fragment.function is not None and bool(fragment.function.name) and bool(call.tool)
        return None if fragment.index is None and named_again else call

    def _begun(self, fragment: WireCall) -> DraftCall:
        if len(self._calls) >= MAX_CALLS:
            raise ModelOutputError(f"The model proposed more than {MAX_CALLS} calls in one answer.")
        call = DraftCall(fragment.id or "", index=fragment.index)
        self._calls.append(call)
        return call

    @staticmethod
    def _extend(call: DraftCall, function: WireFunction | None) -> None:
        if function is None:
            return
        if function.name and function.name != call.tool:  # some servers repeat the whole name in every chunk
            call.tool += function.name
        call.arguments.append(arguments_text(function.arguments))


def _texts(message: WireMessage) -> list[str]:
    if isinstance(message.content, list):
        pieces = [part.text or part.refusal or "" for part in message.content]
    else:
        pieces = [message.content or ""]
    if not any(pieces):
        pieces = [message.refusal or ""]
    return [piece for piece in pieces if piece]
