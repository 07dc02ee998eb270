"""What the answers of all APIs share: errors for unusable ones, and complete calls with ids."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatResponse, ProposedCall, Usage, unique_ids
from coilclaw.packets.errors import ModelOutputError

MAX_CALLS = 64
MAX_ID = 200
DECLINED = "The model declined to answer."


class UnreadableAnswer(ValueError):
    """The bytes are JSON, but not an answer."""


class ReportedError(Exception):
    """The server sent an error object instead of an answer."""

    def __init__(self, error: bytes) -> None:
        super().__init__("the server reported an error")
        self.error = error


class ModelAnswer(Protocol):
    """An answer as it arrives, whole or event by event. It cannot be used before it is complete."""

    def read_body(self, data: bytes) -> None:
        """Take a whole answer."""
        ...

    def read_event(self, data: bytes) -> bool:
        """Take one event of a stream; True when the answer is complete."""
        ...

    @property
    def may_end(self) -> bool:
        """Whether a stream that simply ends here is complete."""
        ...

    def response(self, provider: str, model: str, call_prefix: str) -> ChatResponse:
        """The whole answer, or ModelOutputError if it is empty or was cut inside a call."""
        ...


class Kind(msgspec.Struct, frozen=True):
    """The type of an item. The rest is parsed only for known types: new ones may have any shape."""

    type: str


class DraftCall:
    """A call as its fragments arrive."""

    def __init__(self, call_id: str, tool: str = "", index: int | None = None) -> None:
        self.call_id = call_id
        self.tool = tool
        self.index = index
        self.arguments: list[str] = []


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer ended and what it cost; `reason` is the server's word, `finish` ours."""

    answer_id: str
    model: str
    reason: str
    finish: str
    usage: Usage | None


def finished(text: str, drafts: Iterable[DraftCall], ending: Ending, provider: str, prefix: str) -> ChatResponse:
    """The response made of a complete answer. One cut by a limit proposes nothing: its last call may be incomplete."""
    calls = named_calls(drafts, prefix)
    if calls and ending.finish in {"length", "content_filter"}:
        raise ModelOutputError(
            f"The answer ended in the middle of a call ({ending.reason:.40}).",
            remedy="Raise max_output_tokens of this provider." if ending.finish == "length" else "",
        )
    if not text.strip() and not calls:
        raise _nothing(ending)
    payload: dict[str, Json] = {"id": ending.answer_id, "model": ending.model, "finish_reason": ending.reason}
    return ChatResponse(
        final_text=text,
        tool_calls=calls,
        raw_provider_payload=payload,
        finish_reason=ending.finish,
        usage=ending.usage,
        provider=provider,
        model=ending.model,
    )


def named_calls(drafts: Iterable[DraftCall], prefix: str) -> tuple[ProposedCall, ...]:
    """Calls with short, unique ids; the prefix depends only on the request."""
    kept: list[DraftCall] = []
    for draft in drafts:
        if len(kept) >= MAX_CALLS:
            raise ModelOutputError(f"The model proposed more than {MAX_CALLS} calls in one answer.")
        if not draft.tool:
            raise ModelOutputError("The model proposed a call without naming a tool.")
        kept.append(draft)
    ids = unique_ids([draft.call_id if len(draft.call_id) <= MAX_ID else "" for draft in kept], prefix)
    return tuple(
        ProposedCall(call_id=call_id, tool=draft.tool, arguments="".join(draft.arguments).strip() or "{}")
        for call_id, draft in zip(ids, kept, strict=True)
    )


def arguments_text(raw: msgspec.Raw) -> str:
    """Arguments as the model wrote them; if a server sends an object instead of text, its bytes are kept."""
    data = bytes(raw)
    if data == b"null":
        return ""
    if data.startswith(b'"'):
        return msgspec.json.decode(data, type=str)
    return data.decode("utf-8", "replace")


class CachedTokens(msgspec.Struct, frozen=True):
    """The cached part of the input."""

    cached_tokens: int | None = None


class WireUsage(msgspec.Struct, frozen=True):
    """Token counts as OpenAI's Responses sends them; cached ones are among the input tokens."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: CachedTokens | None = None


def usage_of(raw: msgspec.Raw, kind: type[WireUsage] = WireUsage) -> Usage | None:
    """Usage is optional: a malformed one must not fail the answer."""
    try:
        usage = msgspec.json.decode(raw, type=kind | None)
    except msgspec.DecodeError:
        return None
    if usage is None or (usage.input_tokens is None and usage.output_tokens is None):
        return None
    cached = usage.input_tokens_details.cached_tokens if usage.input_tokens_details else 0
    return Usage(
        input_tokens=count(usage.input_tokens),
        output_tokens=count(usage.output_tokens),
        cached_tokens=count(cached),
    )


def count(tokens: int | None) -> int:
    """A server's token count, at least zero."""
    return max(0, tokens or 0)


def _nothing(ending: Ending) -> ModelOutputError:
    if ending.finish == "length":
        return ModelOutputError(
            "The model ran out of output tokens before it said anything.",
            remedy="Raise max_output_tokens of this provider.",
        )
    ended = f" (finish_reason {ending.reason:.40})" if ending.reason else ""
    return ModelOutputError(f"The model answered with neither text nor a call{ended}.")
