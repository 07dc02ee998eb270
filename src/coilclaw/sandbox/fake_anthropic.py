"""A loopback model server that ships with the package: speaks Anthropic's Messages.

SCENES lists the marks it knows, fake_server.py says how they work. `python -m coilclaw.sandbox.fake_anthropic` runs it.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, parse_json
from coilclaw.sandbox.fake_server import (
    COMMON,
    MARK,
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

_STOP = {"stop": "end_turn", "length": "max_tokens"}


class FakeAnthropic(FakeModelServer):
    """Speaks POST /messages."""

    path = "/messages"

    def play(self, handler: Handler, body: JsonObject, before: int) -> None:
        """Answer a question by the scene that its last user message names."""
        exchange = MessagesExchange(handler, self, body, before)
        if "max_tokens" not in body:
            return exchange.fail(400, "max_tokens: Field required", "invalid_request_error")
        if handler.headers.get("anthropic-version") is None:
            return exchange.fail(400, "anthropic-version: header is required", "invalid_request_error")
        if exchange.has_calls and not body.get("tools"):  # the API did until 2025; servers that speak it still do
            text = "Requests which include `tool_use` or `tool_result` blocks must define tools"
            return exchange.fail(400, text, "invalid_request_error")
        return play(exchange, SCENES)

    def counts(self, handler: Handler, body: JsonObject) -> bool:
        """POST /messages/count_tokens."""
        del body
        if handler.path.partition("?")[0] != f"{self.prefix}{self.path}/count_tokens":
            return False
        handler.send_json(200, {"input_tokens": 10})
        return True

    def key_in(self, headers: Mapping[str, str]) -> str:
        """The key that a request brought."""
        return headers.get("x-api-key", "")


class MessagesExchange(Exchange):
    """One request for a message."""

    def __init__(self, handler: Handler, fake: FakeModelServer, body: JsonObject, before: int) -> None:
        super().__init__(handler, fake, body, before)
        self.turns = len(_list(body.get("messages")))
        self.has_calls = False
        for message in _list(body.get("messages")):
            if message.get("role") != "user":
                continue
            blocks = _list(message.get("content"))
            self.has_calls = self.has_calls or any(block.get("type") == "tool_result" for block in blocks)
            results = [plain_text(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
            said = plain_text([block for block in blocks if block.get("type") == "text"])
            if results and not MARK.search(said):  # a program may add notes of its own to results
                said = ""
            self.results = [] if said else [*self.results, *results]
            self.said = said or self.said

    def say(self, text: str, finish: str = "stop") -> None:
        """Text, streamed word by word."""
        block: JsonObject = {"type": "text", "text": text}
        deltas: list[JsonObject] = [{"type": "text_delta", "text": word} for word in words(text)]
        self.answer([(block, {"type": "text", "text": ""}, deltas)] if text else [], _STOP.get(finish, finish))

    def propose(self, calls: Sequence[tuple[str, str]]) -> None:
        """Calls, in fragments when streamed."""
        self.call(calls, lambda index: f"toolu_fake_{self.turns}_{index}")

    def call(self, calls: Sequence[tuple[str, str]], name_id: Callable[[int], str], stop: str = "tool_use") -> None:
        """Calls with these ids."""
        blocks: list[tuple[JsonObject, JsonObject, Sequence[JsonObject]]] = []
        for index, (name, arguments) in enumerate(calls):
            head: dict[str, Json] = {"type": "tool_use", "id": name_id(index), "name": name}
            deltas: list[JsonObject] = [{"type": "input_json_delta", "partial_json": ""}]
            deltas += [{"type": "input_json_delta", "partial_json": part} for part in fragments(arguments)]
            blocks.append(({**head, "input": _value(arguments)}, {**head, "input": {}}, deltas))
        self.answer(blocks, stop)

    def answer(self, blocks: Sequence[tuple[JsonObject, JsonObject, Sequence[JsonObject]]], stop: str) -> None:
        """A message: for each block the whole, how it begins, and what is added to it."""
        if not self.stream:
            content: Json = [whole for whole, _, _ in blocks]
            ended: JsonObject = {"content": content, "stop_reason": stop, "usage": {**self.usage(), "output_tokens": 5}}
            return self.handler.send_json(200, {**self.head(), **ended})
        events = [self.start()]
        for index, (_, opening, deltas) in enumerate(blocks):
            events.append(_event("content_block_start", index=index, content_block=opening))
            events.append(_event("ping"))
            events += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
            events.append(_event("content_block_stop", index=index))
        return self.handler.send_events([*events, *_end(stop)])

    def half(self, text: str) -> list[bytes]:
        """The events of a stream up to this text."""
        return [
            self.start(),
            _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            _event("content_block_delta", index=0, delta={"type": "text_delta", "text": text}),
        ]

    def head(self) -> dict[str, Json]:
        """What every message begins with."""
        return {
            "type": "message",
            "id": "msg_fake",
            "role": "assistant",
            "model": self.body.get("model"),
            "content": [],
        }

    def start(self) -> bytes:
        """The first event."""
        return _event("message_start", message={**self.head(), "stop_reason": None, "usage": self.usage()})

    def usage(self) -> dict[str, Json]:
        """Counts; what is marked for the cache is read from it the second time."""
        cached = {"cache_read_input_tokens": 4} if self.before else {"cache_creation_input_tokens": 4}
        return {"input_tokens": 6, "output_tokens": 1, **cached}


def _event(kind: str, **fields: Json) -> bytes:
    return msgspec.json.encode({"type": kind, **fields})


def _end(stop: str) -> list[bytes]:
    delta = _event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 5})
    return [delta, _event("message_stop")]


def _list(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _value(arguments: str) -> Json:
    try:
        return parse_json(arguments)
    except NotCanonical:
        return arguments


def _thinking(exchange: MessagesExchange, text: str) -> None:
    """Think first, which is not to be shown or sent back."""
    thought: JsonObject = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    deltas: list[JsonObject] = [
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "c2ln"},
    ]
    said: JsonObject = {"type": "text", "text": text or "Thought through."}
    opening: JsonObject = {"type": "thinking", "thinking": "", "signature": ""}
    exchange.answer([(thought, opening, deltas), (said, said, ())], "end_turn")


def _stream_error(exchange: MessagesExchange, text: str) -> None:
    overloaded: Json = {"type": "overloaded_error", "message": "upstream fell over"}
    exchange.handler.send_events([*(exchange.half(text) if text else []), _event("error", error=overloaded)])


def _two_starts(exchange: MessagesExchange, _: str) -> None:
    exchange.handler.send_events([exchange.start(), exchange.start(), *_end("end_turn")])


def _cut_in_call(exchange: MessagesExchange, _: str) -> None:
    """Hang up while the arguments of a call are being written."""
    opening: Json = {"type": "tool_use", "id": "toolu_cut", "name": "time", "input": {}}
    begun = _event("content_block_start", index=0, content_block=opening)
    exchange.handler.send_events([exchange.start(), begun], cut=True)


SCENES: dict[str, Callable[[MessagesExchange, str], None]] = {
    **COMMON,
    "same_ids": lambda exchange, _: exchange.call(asked_calls(exchange.said), lambda _: "toolu_same"),
    "cut_call": lambda exchange, _: exchange.call([("time", "")], lambda _: "toolu_cut", "max_tokens"),
    "cut_in_call": _cut_in_call,
    "refusal": lambda exchange, _: exchange.say("I will not.", "refusal"),
    "thinking": _thinking,
    "stream_error": _stream_error,
    "two_starts": _two_starts,
    "wrong_shape": raw(b'{"type": "message", "stop_reason": "end_turn", "content": [{"type": "text", "text": 7}]}'),
}
"""What a mark can ask for."""


if __name__ == "__main__":
    serve(FakeAnthropic, "coilclaw.sandbox.fake_anthropic")
