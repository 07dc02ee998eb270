"""A loopback model server that ships with the package: speaks OpenAI's chat completions.

SCENES lists the marks it knows, fake_server.py says how they work. `python -m coilclaw.sandbox.fake_openai` runs it.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from coilclaw.packets.canonical import Json, JsonObject
from coilclaw.sandbox.fake_server import (
    COMMON,
    Exchange,
    FakeModelServer,
    Handler,
    Recorded,
    asked_calls,
    fragments,
    plain_text,
    play,
    raw,
    serve,
    words,
)

__all__ = ["SCENES", "FakeOpenAI", "Recorded"]
_USAGE: JsonObject = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}


class FakeOpenAI(FakeModelServer):
    """Speaks POST /chat/completions."""

    path = "/chat/completions"

    def play(self, handler: Handler, body: JsonObject, before: int) -> None:
        """Answer a question by the scene that its last user message names."""
        play(CompletionsExchange(handler, self, body, before), SCENES)


class CompletionsExchange(Exchange):
    """One chat request."""

    def __init__(self, handler: Handler, fake: FakeModelServer, body: JsonObject, before: int) -> None:
        super().__init__(handler, fake, body, before)
        given = body.get("messages")
        self.messages = [item for item in given if isinstance(item, Mapping)] if isinstance(given, list) else []
        last = max((index for index, item in enumerate(self.messages) if item.get("role") == "user"), default=-1)
        self.said = plain_text(self.messages[last].get("content")) if last >= 0 else ""
        self.results = [str(item.get("content")) for item in self.messages[last + 1 :] if item.get("role") == "tool"]

    def answer(self, message: JsonObject, finish: str = "stop", deltas: Sequence[JsonObject] = ()) -> None:
        """A message, whole or as these deltas (the message itself when none are given)."""
        head: dict[str, Json] = {"id": "fake-1", "created": 1, "model": self.body.get("model")}
        if not self.stream:
            choice: Json = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
            return self.handler.send_json(
                200, {**head, "object": "chat.completion", "choices": [choice], "usage": _USAGE}
            )
        events = [self.event(delta) for delta in deltas or (message,)]
        events.append(self.event({}, finish))
        if self.body.get("stream_options") == {"include_usage": True}:
            events.append(msgspec.json.encode({**head, "choices": [], "usage": _USAGE}))
        return self.handler.send_events([*events, b"[DONE]"])

    def event(self, delta: JsonObject, finish: str | None = None) -> bytes:
        """One piece of a stream."""
        choice: Json = {"index": 0, "delta": delta, "finish_reason": finish}
        head: dict[str, Json] = {"id": "fake-1", "created": 1, "model": self.body.get("model")}
        return msgspec.json.encode({**head, "object": "chat.completion.chunk", "choices": [choice]})

    def say(self, text: str, finish: str = "stop") -> None:
        """Text, streamed word by word."""
        self.answer({"content": text}, finish, [{"content": word} for word in words(text)])

    def half(self, text: str) -> list[bytes]:
        """The events of a stream up to this text."""
        return [self.event({"content": text})]

    def propose(self, calls: Sequence[tuple[str, str]]) -> None:
        """Calls, in fragments when streamed."""
        self.call(calls)

    def call(self, asked: Sequence[tuple[str, str]], *, ids: bool = True, number: Callable[[int], int] = int) -> None:
        """Calls with or without ids, numbered well or badly."""
        calls: list[JsonObject] = []
        deltas: list[JsonObject] = []
        for index, (name, arguments) in enumerate(asked):
            given: dict[str, Json] = {"id": f"call_fake_{len(self.messages)}_{index}"} if ids else {}
            calls.append({**given, "type": "function", "function": {"name": name, "arguments": arguments}})
            opening: Json = {"index": number(index), **given, "function": {"name": name, "arguments": ""}}
            deltas.append({"tool_calls": [opening]})
            for part in fragments(arguments):
                piece: Json = {"index": number(index), "function": {"arguments": part}}
                deltas.append({"tool_calls": [piece]})
        self.answer({"content": None, "tool_calls": calls}, "tool_calls", deltas)


def _legacy(exchange: CompletionsExchange, _: str) -> None:
    name, arguments = asked_calls(exchange.said)[0]
    half = len(arguments) // 2
    deltas: list[JsonObject] = [
        {"function_call": {"name": name, "arguments": arguments[:half]}},
        {"function_call": {"arguments": arguments[half:]}},
    ]
    exchange.answer({"content": None, "function_call": {"name": name, "arguments": arguments}}, "function_call", deltas)


def _cut_call(exchange: CompletionsExchange, _: str) -> None:
    """A call whose arguments the token limit cut away, whole or streamed."""
    call: Json = {"index": 0, "id": "call_cut", "function": {"name": "time", "arguments": ""}}
    exchange.answer({"content": None, "tool_calls": [call]}, "length")


def _stream_error(exchange: CompletionsExchange, text: str) -> None:
    events = exchange.half(text) if text else []
    events.append(msgspec.json.encode({"error": {"message": "upstream fell over", "code": 502}}))
    exchange.handler.send_events(events)


def _no_done(exchange: CompletionsExchange, _: str) -> None:
    exchange.handler.send_events([exchange.event({"content": "No mark at the end."}), exchange.event({}, "stop")])


def _objects_to(key: str, text: str) -> Callable[[CompletionsExchange, str], None]:
    def scene(exchange: CompletionsExchange, _: str) -> None:
        if key in exchange.body:
            return exchange.fail(400, text, "invalid_request_error")
        return exchange.say("Now it fits.")

    return scene


SCENES: dict[str, Callable[[CompletionsExchange, str], None]] = {
    **COMMON,
    "no_ids": lambda exchange, _: exchange.call(asked_calls(exchange.said), ids=False),
    "same_index": lambda exchange, _: exchange.call(asked_calls(exchange.said), number=lambda _: 0),
    "legacy": _legacy,
    "cut_call": _cut_call,
    "parts": lambda exchange, text: exchange.answer(
        {"content": [{"type": "text", "text": "In "}, {"type": "text", "text": text or "parts."}]}
    ),
    "refusal": lambda exchange, _: exchange.answer({"content": None, "refusal": "I will not."}),
    "stream_error": _stream_error,
    "error200": lambda exchange, _: exchange.handler.send_json(200, {"error": {"message": "no", "code": 401}}),
    "no_done": _no_done,
    "no_stream_options": _objects_to("stream_options", "Unknown parameter: stream_options"),
    "no_max_tokens": _objects_to("max_tokens", "Use 'max_completion_tokens' instead of max_tokens"),
    "no_tool_choice": _objects_to("tool_choice", "Extra inputs are not permitted: tool_choice"),
    "no_choices": raw(b'{"choices": []}'),
    "wrong_shape": raw(b'{"choices": [{"message": {"content": 7}}]}'),
}
"""What a mark can ask for."""


if __name__ == "__main__":
    serve(FakeOpenAI, "coilclaw.sandbox.fake_openai")
