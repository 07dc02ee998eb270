"""What an OpenAI-compatible server answers, whole or in pieces, read into one ChatResponse."""

from collections.abc import Callable

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatResponse, ProposedCall, Usage
from coilclaw.packets.errors import ModelOutputError

MAX_CALLS = 64
MAX_ID = 200
_NULL = msgspec.Raw(b"null")


class WireFunction(msgspec.Struct, frozen=True):
    """A function to call; the arguments are kept as they were written."""

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
    """A message, or the difference a stream's piece makes to it."""

    content: str | list[WirePart] | None = None
    refusal: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: WireFunction | None = None
    """The form before tool_calls; some servers still speak it."""


class WireChoice(msgspec.Struct, frozen=True):
    """One of the answers; only the first is asked for."""

    index: int | None = 0
    message: WireMessage | None = None
    delta: WireMessage | None = None
    finish_reason: str | None = None


class WireUsage(msgspec.Struct, frozen=True):
    """Tokens, in the server's words."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class WireAnswer(msgspec.Struct, frozen=True):
    """A whole answer or one piece of a streamed one; they differ in `message` and `delta` alone."""

    id: str | None = None
    model: str | None = None
    choices: list[WireChoice] | None = None
    usage: msgspec.Raw = _NULL
    error: msgspec.Raw = _NULL

    @property
    def failed(self) -> bool:
        """Some servers report failures with status 200."""
        return bytes(self.error) not in {b"null", b"", b'""', b"{}"}


_decoder = msgspec.json.Decoder(WireAnswer)


def decode(data: bytes) -> WireAnswer:
    """Read a body or an event, or raise msgspec.DecodeError saying what is wrong and where."""
    return _decoder.decode(data)


class _Call:
    """A call as its fragments arrive."""

    def __init__(self, index: int | None, call_id: str) -> None:
        self.index = index
        self.call_id = call_id
        self.tool = ""
        self.arguments: list[str] = []


class Assembly:
    """Puts an answer together from one message or many deltas."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text = on_text
        self._text: list[str] = []
        self._calls: list[_Call] = []
        self._usage: Usage | None = None
        self._id = ""
        self._model = ""
        self.finish_reason = ""

    def add(self, answer: WireAnswer) -> None:
        """Take one answer or one piece."""
        self._id = answer.id or self._id
        self._model = answer.model or self._model
        self._usage = _usage(answer.usage) or self._usage
        for choice in answer.choices or ():
            if choice.index not in {0, None}:
                continue
            self.finish_reason = choice.finish_reason or self.finish_reason
            if choice.message is not None:
                self._message(choice.message, whole=True)
            elif choice.delta is not None:
                self._message(choice.delta, whole=False)

    def response(self, provider: str, model: str, call_prefix: str) -> ChatResponse:
        """The whole answer, or ModelOutputError when it says and proposes nothing."""
        text = "".join(self._text)
        calls = tuple(self._named_calls(call_prefix))
        if not text.strip() and not calls:
            raise _nothing(self.finish_reason)
        payload: dict[str, Json] = {"id": self._id, "model": self._model, "finish_reason": self.finish_reason}
        return ChatResponse(
            final_text=text,
            tool_calls=calls,
            raw_provider_payload=payload,
            finish_reason=self.finish_reason,
            usage=self._usage,
            provider=provider,
            model=self._model or model,
        )

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

    def _written(self, fragment: WireCall) -> _Call | None:
        """The call this fragment continues: by index, else the last one; None when it begins a new one."""
        same = [call for call in self._calls if fragment.index is None or call.index == fragment.index]
        if not same:
            return None
        call = same[-1]
        if fragment.id and call.call_id:  # some servers number every call 0, or none at all: a new id is a new call
            return call if fragment.id == call.call_id else None
        named_again = fragment.function is not None and bool(fragment.function.name) and bool(call.tool)
        return None if fragment.index is None and named_again else call

    def _begun(self, fragment: WireCall) -> _Call:
        if len(self._calls) >= MAX_CALLS:
            raise ModelOutputError(f"The model proposed more than {MAX_CALLS} calls in one answer.")
        call = _Call(fragment.index, fragment.id or "")
        self._calls.append(call)
        return call

    @staticmethod
    def _extend(call: _Call, function: WireFunction | None) -> None:
        if function is None:
            return
        if function.name and function.name != call.tool:  # some servers repeat the whole name in every piece
            call.tool += function.name
        call.arguments.append(_arguments(function.arguments))

    def _named_calls(self, prefix: str) -> list[ProposedCall]:
        """Calls whose ids are there, short and different; the prefix is the same when the request is."""
        named: list[ProposedCall] = []
        taken: set[str] = set()
        for index, call in enumerate(self._calls):
            if not call.tool:
                raise ModelOutputError("The model proposed a call without naming a tool.")
            call_id = call.call_id
            if not call_id or len(call_id) > MAX_ID or call_id in taken:
                call_id = f"{prefix}_{index}"
            taken.add(call_id)
            arguments = "".join(call.arguments)
            named.append(ProposedCall(call_id=call_id, tool=call.tool, arguments=arguments.strip() or "{}"))
        return named


def _texts(message: WireMessage) -> list[str]:
    if isinstance(message.content, list):
        pieces = [part.text or part.refusal or "" for part in message.content]
    else:
        pieces = [message.content or ""]
    if not any(pieces):
        pieces = [message.refusal or ""]
    return [piece for piece in pieces if piece]


def _arguments(raw: msgspec.Raw) -> str:
    """Arguments come as text; a server that sends an object instead gets its own bytes kept."""
    data = bytes(raw)
    if data == b"null":
        return ""
    if data.startswith(b'"'):
        return msgspec.json.decode(data, type=str)
    return data.decode("utf-8", "replace")


def _usage(raw: msgspec.Raw) -> Usage | None:
    """Usage is worth having and not worth failing for."""
    try:
        usage = msgspec.json.decode(raw, type=WireUsage | None)
    except msgspec.DecodeError:
        return None
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return None
    return Usage(input_tokens=max(0, usage.prompt_tokens or 0), output_tokens=max(0, usage.completion_tokens or 0))


def _nothing(finish_reason: str) -> ModelOutputError:
    if finish_reason == "length":
        return ModelOutputError(
            "The model ran out of output tokens before it said anything.",
            remedy="Raise max_output_tokens of this provider.",
        )
    ended = f" (finish_reason {finish_reason:.40})" if finish_reason else ""
    return ModelOutputError(f"The model answered with neither text nor a call{ended}.")
