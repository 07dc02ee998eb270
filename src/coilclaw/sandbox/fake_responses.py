"""A loopback model server that ships with the package: speaks OpenAI's Responses.

SCENES lists the marks it knows, fake_server.py says how they work. `python -m coilclaw.sandbox.fake_responses` runs it.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from coilclaw.packets.canonical import Json, JsonObject
from coilclaw.sandbox.fake_server import (
    COMMON,
    Exchange,
    FakeModelServer,
    Handler,
    asked_calls,
    fragments,
    plain_text,
    play,
    raw,
    serve,
    words,
)

_USAGE: JsonObject = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 15,
}


class FakeResponses(FakeModelServer):
    """Speaks POST /responses."""

    path = "/responses"

    def play(self, handler: Handler, body: JsonObject, before: int) -> None:
        """Answer a question by the scene that its last user message names."""
        play(ResponsesExchange(handler, self, body, before), SCENES)


class ResponsesExchange(Exchange):
    """One request for a response."""

    def __init__(self, handler: Handler, fake: FakeModelServer, body: JsonObject, before: int) -> None:
        super().__init__(handler, fake, body, before)
        given = body.get("input")
        self.items = [item for item in given if isinstance(item, Mapping)] if isinstance(given, list) else []
        last = max((index for index, item in enumerate(self.items) if item.get("role") == "user"), default=-1)
        self.said = plain_text(self.items[last].get("content")) if last >= 0 else ""
        since = self.items[last + 1 :]
        self.results = [plain_text(item["output"]) for item in since if item.get("type") == "function_call_output"]

    def say(self, text: str, finish: str = "stop") -> None:
        """Text, streamed word by word."""
        pieces = [
            _event("response.output_text.delta", output_index=0, content_index=0, delta=word) for word in words(text)
        ]
        self.answer(
            [(_message({"type": "output_text", "text": text, "annotations": []}), pieces)] if text else [], finish
        )

    def propose(self, calls: Sequence[tuple[str, str]]) -> None:
        """Calls, in fragments when streamed."""
        self.call(calls, lambda index: f"call_fake_{len(self.items)}_{index}")

    def call(self, calls: Sequence[tuple[str, str]], name_id: Callable[[int], str], finish: str = "stop") -> None:
        """Calls with these ids."""
        items: list[tuple[JsonObject, Sequence[bytes]]] = []
        for index, (name, arguments) in enumerate(calls):
            item: JsonObject = {
                "type": "function_call",
                "id": f"fc_{index}",
                "call_id": name_id(index),
                "name": name,
                "arguments": arguments,
                "status": "completed",
            }
            kind = "response.function_call_arguments"
            deltas = [_event(f"{kind}.delta", output_index=index, delta=part) for part in fragments(arguments)]
            items.append((item, [*deltas, _event(f"{kind}.done", output_index=index, arguments=arguments)]))
        self.answer(items, finish)

    def answer(self, items: Sequence[tuple[JsonObject, Sequence[bytes]]], finish: str = "stop") -> None:
        """A response: each item whole, and the events between its beginning and its end."""
        whole = self.response([item for item, _ in items], finish)
        if not self.stream:
            return self.handler.send_json(200, whole)
        events = self.begin()
        for index, (item, pieces) in enumerate(items):
            opening: Json = {"type": item["type"], "status": "in_progress"}
            events.append(_event("response.output_item.added", output_index=index, item=opening))
            events += pieces
            events.append(_event("response.output_item.done", output_index=index, item=item))
        return self.handler.send_events([*events, _event(f"response.{whole['status']}", response=whole)])

    def half(self, text: str) -> list[bytes]:
        """The events of a stream up to this text."""
        return [*self.begin(), _event("response.output_text.delta", output_index=0, content_index=0, delta=text)]

    def begin(self) -> list[bytes]:
        """The first events."""
        begun = {**self.response([], "stop"), "status": "in_progress", "usage": None}
        return [_event("response.created", response=begun), _event("response.in_progress", response=begun)]

    def response(self, items: Sequence[Json], finish: str) -> dict[str, Json]:
        """A whole response."""
        cut = finish == "length"
        return {
            "id": "resp_fake",
            "object": "response",
            "status": "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "model": self.body.get("model"),
            "output": items,
            "usage": _USAGE,
        }


def _event(kind: str, **fields: Json) -> bytes:
    return msgspec.json.encode({"type": kind, **fields})


def _message(part: JsonObject) -> JsonObject:
    return {"type": "message", "id": "msg_fake", "role": "assistant", "status": "completed", "content": [part]}


def _refusal(exchange: ResponsesExchange, _: str) -> None:
    delta = _event("response.refusal.delta", output_index=0, content_index=0, delta="I will not.")
    exchange.answer([(_message({"type": "refusal", "refusal": "I will not."}), [delta])])


def _thinking(exchange: ResponsesExchange, text: str) -> None:
    """Reason first, which is not to be shown or sent back."""
    said = text or "Thought through."
    delta = _event("response.output_text.delta", output_index=1, content_index=0, delta=said)
    exchange.answer(
        [
            ({"type": "reasoning", "id": "rs_1", "summary": []}, []),
            (_message({"type": "output_text", "text": said}), [delta]),
        ]
    )


def _stream_error(exchange: ResponsesExchange, text: str) -> None:
    fault = _event("error", code="server_error", message="upstream fell over", param=None)
    exchange.handler.send_events([*(exchange.half(text) if text else []), fault])


def _failed(exchange: ResponsesExchange, _: str) -> None:
    error: Json = {"code": "server_error", "message": "upstream fell over"}
    whole = {**exchange.response([], "stop"), "status": "failed", "error": error}
    exchange.handler.send_events([*exchange.begin(), _event("response.failed", response=whole)])


def _two_starts(exchange: ResponsesExchange, _: str) -> None:
    exchange.handler.send_events([*exchange.begin(), *exchange.begin()])


def _cut_in_call(exchange: ResponsesExchange, _: str) -> None:
    """Hang up while the arguments of a call are being written."""
    item: Json = {
        "type": "function_call",
        "call_id": "call_cut",
        "name": "time",
        "arguments": "",
        "status": "in_progress",
    }
    begun = _event("response.output_item.added", output_index=0, item=item)
    exchange.handler.send_events([*exchange.begin(), begun], cut=True)


SCENES: dict[str, Callable[[ResponsesExchange, str], None]] = {
    **COMMON,
    "same_ids": lambda exchange, _: exchange.call(asked_calls(exchange.said), lambda _: "call_same"),
    "cut_call": lambda exchange, _: exchange.call([("time", "")], lambda _: "call_cut", "length"),
    "cut_in_call": _cut_in_call,
    "refusal": _refusal,
    "thinking": _thinking,
    "stream_error": _stream_error,
    "failed": _failed,
    "two_starts": _two_starts,
    "wrong_shape": raw(b'{"status": "completed", "output": [{"type": "message", "content": 7}]}'),
}
"""What a mark can ask for."""


if __name__ == "__main__":
    serve(FakeResponses, "coilclaw.sandbox.fake_responses")
