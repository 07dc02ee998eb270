"""Parses an answer of OpenAI's Responses, whole or streamed, into one ChatResponse."""

from collections.abc import Callable

import msgspec

from coilclaw.packets.chat import ChatResponse
from coilclaw.packets.errors import ModelOutputError
from coilclaw.providers.answer import (
    DECLINED,
    DraftCall,
    Ending,
    Kind,
    ReportedError,
    UnreadableAnswer,
    arguments_text,
    finished,
    usage_of,
)

_NULL = msgspec.Raw(b"null")
_OVER = frozenset({"response.completed", "response.incomplete", "response.failed"})
_TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
_EVENTS = _OVER | _TEXT | {"response.created", "response.output_item.done", "error"}


class _Part(msgspec.Struct, frozen=True):
    """A part of a message."""

    type: str = ""
    text: str = ""
    refusal: str = ""


class _Text(msgspec.Struct, frozen=True):
    """A message."""

    content: list[_Part] = []


class _Call(msgspec.Struct, frozen=True):
    """A call."""

    call_id: str = ""
    name: str = ""
    arguments: msgspec.Raw = _NULL
    status: str | None = None


class _Incomplete(msgspec.Struct, frozen=True):
    """Why an answer was cut short."""

    reason: str = ""


class _Response(msgspec.Struct, frozen=True):
    """An answer; in a stream the last event contains all of it."""

    id: str = ""
    model: str = ""
    status: str | None = None
    output: list[msgspec.Raw] = []
    incomplete_details: _Incomplete | None = None
    usage: msgspec.Raw = _NULL
    error: msgspec.Raw = _NULL


class _Event(msgspec.Struct, frozen=True):
    """One event of a stream; which fields it has depends on its type."""

    type: str
    response: _Response | None = None
    output_index: int = 0
    item: msgspec.Raw = _NULL
    delta: str = ""
    error: msgspec.Raw = _NULL


class ResponsesAnswer:
    """Takes the answer from the last event, or from finished items. Fragments of calls are never read."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text = on_text
        self._shown: list[str] = []
        self._created = False
        self._items: dict[int, msgspec.Raw] = {}
        self._whole = _Response()
        self._text = ""
        self._calls: list[DraftCall] = []
        self._refused = False

    def read_body(self, data: bytes) -> None:
        """Take a whole answer."""
        self._end(msgspec.json.decode(data, type=_Response))

    def read_event(self, data: bytes) -> bool:
        """Take one event; True when the answer is complete."""
        if data.strip() == b"[DONE]":
            raise UnreadableAnswer("it ended before the response was complete")
        kind = msgspec.json.decode(data, type=Kind).type
        if kind not in _EVENTS:
            return False
        event = msgspec.json.decode(data, type=_Event)
        if kind == "error":
            raise ReportedError(data if bytes(event.error) == b"null" else bytes(event.error))
        if kind == "response.created":
            if self._created:
                raise UnreadableAnswer("it holds two responses")
            self._created = True
        elif kind in _TEXT:
            self._show(event.delta)
        elif kind == "response.output_item.done":
            if event.output_index in self._items:
                raise UnreadableAnswer(f"item {event.output_index} is sent twice")
            self._items[event.output_index] = event.item
        else:
            self._end(event.response or _Response())
            return True
        return False

    @property
    def may_end(self) -> bool:
        """Only a final event ends an answer."""
        return False

    def response(self, provider: str, model: str, call_prefix: str) -> ChatResponse:
        """The whole answer, or ModelOutputError if it is empty or was cut inside a call."""
        whole = self._whole
        reason = whole.incomplete_details.reason if whole.incomplete_details else ""
        ending = Ending(
            answer_id=whole.id,
            model=whole.model or model,
            reason=reason or whole.status or "",
            finish=self._finish(reason),
            usage=usage_of(whole.usage),
        )
        return finished(self._text, self._calls, ending, provider, call_prefix)

    def _finish(self, reason: str) -> str:
        if self._refused:
            return "refusal"
        if self._whole.status == "incomplete":
            return "content_filter" if reason == "content_filter" else "length"
        return "tool_calls" if self._calls else "stop"

    def _end(self, whole: _Response) -> None:
        if bytes(whole.error) != b"null" or whole.status == "failed":
            raise ReportedError(bytes(whole.error))
        if whole.status not in {"completed", "incomplete"}:
            raise UnreadableAnswer(f"its status is {whole.status or 'missing':.40}")
        self._whole = whole
        for item in whole.output or [self._items[index] for index in sorted(self._items)]:
            self._take(item)
        if self._refused:
            self._calls.clear()  # calls proposed before a refusal must not run
            self._text = self._text if self._text.strip() else DECLINED
        shown = "".join(self._shown)
        if self._text.startswith(shown):  # a server may omit the deltas
            self._show(self._text[len(shown) :])

    def _take(self, item: msgspec.Raw) -> None:
        """Take an item's text or call; reasoning and unknown items are skipped."""
        kind = msgspec.json.decode(item, type=Kind).type
        if kind == "message":
            parts = msgspec.json.decode(item, type=_Text).content
            said = [part for part in parts if part.type in {"output_text", "refusal"}]
            self._text += "".join(part.text or part.refusal for part in said)
            self._refused = self._refused or any(part.type == "refusal" for part in parts)
        elif kind == "function_call":
            told = msgspec.json.decode(item, type=_Call)
            if told.status not in {"completed", None}:
                raise ModelOutputError("The answer ended in the middle of a call.")
            draft = DraftCall(told.call_id, told.name)
            draft.arguments.append(arguments_text(told.arguments))
            self._calls.append(draft)

    def _show(self, text: str) -> None:
        self._shown.append(text)
        if text and self._on_text is not None:
            self._on_text(text)
