"""A loopback model server that ships with the package: speaks the OpenAI protocol, says what the message asks for.

The last user message chooses the scene with a mark such as `[[tool:file_list {"path": "."}]]` or `[[status:503]]`;
SCENES lists them all, and a message without one is answered with text. `python -m coilclaw.sandbox.fake_openai`
runs it by hand. Nothing here is for production: it listens on 127.0.0.1 only and keeps every request in memory.
"""

import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import cast

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, parse_object

_MARK = re.compile(r"\[\[(\w+)(?::(.*?))?\]\]", re.DOTALL)
_USAGE: JsonObject = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: JsonObject


class FakeOpenAI:
    """Start it, give `base_url` to a provider, look at `requests`. Use it as a context manager."""

    def __init__(self, *, models: Sequence[str] = ("fake-model",), api_key: str | None = None, port: int = 0) -> None:
        self.models = tuple(models)
        self.api_key = api_key
        """When set, requests without it are answered 401."""
        self.requests: list[Recorded] = []
        self.stopping = threading.Event()
        self._seen: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        """What belongs into a provider's base_url."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def start(self) -> "FakeOpenAI":
        """Listen in the background."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Hang up on everyone and free the port."""
        self.stopping.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> "FakeOpenAI":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def record(self, request: Recorded, body: bytes) -> int:
        """Keep a request and tell how often the same bytes came before."""
        with self._lock:
            self.requests.append(request)
            before = self._seen.get(body, 0)
            self._seen[body] = before + 1
            return before


class _Server(ThreadingHTTPServer):
    """Knows its open connections, so that stopping does not wait for idle ones."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, fake: FakeOpenAI, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.fake = fake
        self._open: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, address = cast("tuple[socket.socket, tuple[str, int]]", super().get_request())
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        if isinstance(request, socket.socket):
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """A client that hangs up is part of the game; anything else is told."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it was faster


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name the base class gave it
        pass

    def do_GET(self) -> None:
        fake, _, _ = self._received()
        if not self._allowed(fake):
            return
        if self.path == "/v1/models":
            listing: Json = [{"id": model, "object": "model"} for model in fake.models]
            self.send_json(200, {"object": "list", "data": listing})
        else:
            self.send_json(404, _error("Not found", "not_found_error"))

    def do_POST(self) -> None:
        fake, request, before = self._received()
        if not self._allowed(fake):
            return
        if self.path == "/v1/chat/completions":
            play(Exchange(self, fake, request.body, before))
        else:
            self.send_json(404, _error("Not found", "not_found_error"))

    def _received(self) -> tuple[FakeOpenAI, Recorded, int]:
        fake = cast("_Server", self.server).fake
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = parse_object(data or b"{}")
        request = Recorded(method=self.command, path=self.path, headers=headers, body=body)
        return fake, request, fake.record(request, data)

    def _allowed(self, fake: FakeOpenAI) -> bool:
        given = self.headers.get("Authorization") or ""
        if fake.api_key is None or given == f"Bearer {fake.api_key}":
            return True
        self.send_json(401, _error(f"Incorrect API key provided: {given}", "invalid_request_error"))
        return False

    def send_bytes(
        self, status: int, data: bytes, kind: str, headers: Mapping[str, str], *, announced: int = 0
    ) -> None:
        """One answer in one write; `announced` lies about its length."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(announced or len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = self.close_connection or announced > len(data)

    def send_json(self, status: int, value: Json, headers: Mapping[str, str] | None = None) -> None:
        self.send_bytes(status, msgspec.json.encode(value), "application/json", headers or {})

    def send_events(self, events: Iterable[bytes], *, cut: bool = False) -> None:
        """A chunked event stream; cut leaves out its end and hangs up."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            data = b"data: " + event + b"\n\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


class Exchange:
    """One chat request and the ways to answer it."""

    def __init__(self, handler: _Handler, fake: FakeOpenAI, body: JsonObject, before: int) -> None:
        self.handler = handler
        self.fake = fake
        self.body = body
        self.before = before
        messages = body.get("messages")
        self.messages = [item for item in messages if isinstance(item, Mapping)] if isinstance(messages, list) else []
        self.stream = body.get("stream") is True
        last = max((index for index, item in enumerate(self.messages) if item.get("role") == "user"), default=-1)
        self.said = str(self.messages[last].get("content")) if last >= 0 else ""
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
        deltas: list[JsonObject] = [{"content": word} for word in re.findall(r"\S+\s*|\s+", text)]
        self.answer({"content": text}, finish, deltas)

    def fail(
        self, status: int, text: str, kind: str = "server_error", headers: Mapping[str, str] | None = None
    ) -> None:
        """An error object."""
        self.handler.send_json(status, _error(text, kind), headers)

    @property
    def key(self) -> str:
        """The key the client sent."""
        return (self.handler.headers.get("Authorization") or "").removeprefix("Bearer ")


def _error(text: str, kind: str) -> JsonObject:
    return {"error": {"message": text, "type": kind, "param": None, "code": None}}


def play(exchange: Exchange) -> None:
    """Answer by the first mark in the last user message, or with text."""
    found = _MARK.search(exchange.said)
    scene = SCENES.get(found[1]) if found else _text
    if scene is None:
        return exchange.fail(400, f"There is no scene {found[1] if found else ''}; scenes are {', '.join(SCENES)}")
    return scene(exchange, (found[2] or "").strip() if found else "")


def _text(exchange: Exchange, text: str) -> None:
    exchange.say(text or f"You said: {_MARK.sub('', exchange.said).strip()}")


def _asked_calls(said: str) -> list[tuple[str, str]]:
    marks = [found[2] or "" for found in _MARK.finditer(said) if found[1] in {"tool", "no_ids", "same_index", "legacy"}]
    return [(name, arguments.strip() or "{}") for name, _, arguments in (mark.strip().partition(" ") for mark in marks)]


def _tool(exchange: Exchange, _: str, *, ids: bool = True, number: Callable[[int], int] = int) -> None:
    """Propose every call marked in the message, in fragments when streamed; then tell the results."""
    if exchange.results:
        return exchange.say(f"Done. {' '.join(exchange.results)}"[:400])
    calls: list[JsonObject] = []
    deltas: list[JsonObject] = []
    for index, (name, arguments) in enumerate(_asked_calls(exchange.said)):
        given: dict[str, Json] = {"id": f"call_fake_{len(exchange.messages)}_{index}"} if ids else {}
        calls.append({**given, "type": "function", "function": {"name": name, "arguments": arguments}})
        opening: Json = {"index": number(index), **given, "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [opening]})
        for start in range(0, len(arguments), 3):
            piece: Json = {"index": number(index), "function": {"arguments": arguments[start : start + 3]}}
            deltas.append({"tool_calls": [piece]})
    return exchange.answer({"content": None, "tool_calls": calls}, "tool_calls", deltas)


def _legacy(exchange: Exchange, _: str) -> None:
    name, arguments = _asked_calls(exchange.said)[0]
    half = len(arguments) // 2
    deltas: list[JsonObject] = [
        {"function_call": {"name": name, "arguments": arguments[:half]}},
        {"function_call": {"arguments": arguments[half:]}},
    ]
    exchange.answer({"content": None, "function_call": {"name": name, "arguments": arguments}}, "function_call", deltas)


def _status(exchange: Exchange, argument: str) -> None:
    status, _, wait = argument.partition(" ")
    texts = {"401": f"Incorrect API key provided: {exchange.key}", "404": "The model does not exist"}
    exchange.fail(int(status), texts.get(status, f"scripted {status}"), headers={"Retry-After": wait} if wait else {})


def _once(exchange: Exchange, argument: str) -> None:
    if exchange.before:
        return exchange.say("The second try worked.")
    return _status(exchange, argument)


def _slow(exchange: Exchange, seconds: str) -> None:
    exchange.fake.stopping.wait(float(seconds or 30))
    exchange.say("At last.")


def _cut(exchange: Exchange, text: str) -> None:
    """Break off after this text, or at once; without a stream, in the middle of the body."""
    if not exchange.stream:
        return exchange.handler.send_bytes(200, b'{"choices": [{"mess', "application/json", {}, announced=500)
    return exchange.handler.send_events([exchange.event({"content": text})] if text else [], cut=True)


def _cut_once(exchange: Exchange, _: str) -> None:
    return exchange.say("The second try worked.") if exchange.before else _cut(exchange, "")


def _stream_error(exchange: Exchange, text: str) -> None:
    events = [exchange.event({"content": text})] if text else []
    events.append(msgspec.json.encode({"error": {"message": "upstream fell over", "code": 502}}))
    exchange.handler.send_events(events)


def _no_done(exchange: Exchange, _: str) -> None:
    exchange.handler.send_events([exchange.event({"content": "No mark at the end."}), exchange.event({}, "stop")])


def _objects_to(key: str, text: str) -> "Callable[[Exchange, str], None]":
    def scene(exchange: Exchange, _: str) -> None:
        if key in exchange.body:
            return exchange.fail(400, text, "invalid_request_error")
        return exchange.say("Now it fits.")

    return scene


def _raw(data: bytes, kind: str = "application/json") -> "Callable[[Exchange, str], None]":
    return lambda exchange, _: exchange.handler.send_bytes(200, data, kind, {})


SCENES: dict[str, Callable[[Exchange, str], None]] = {
    "text": _text,
    "tool": _tool,
    "no_ids": lambda exchange, argument: _tool(exchange, argument, ids=False),
    "same_index": lambda exchange, argument: _tool(exchange, argument, number=lambda _: 0),
    "legacy": _legacy,
    "parts": lambda exchange, text: exchange.answer(
        {"content": [{"type": "text", "text": "In "}, {"type": "text", "text": text or "parts."}]}
    ),
    "refusal": lambda exchange, _: exchange.answer({"content": None, "refusal": "I will not."}),
    "length": lambda exchange, _: exchange.say("Cut short by the", "length"),
    "empty": lambda exchange, _: exchange.answer({"content": ""}),
    "status": _status,
    "once": _once,
    "too_long": lambda exchange, _: exchange.fail(
        400, "This model's maximum context length is 8 tokens", "invalid_request_error"
    ),
    "quota": lambda exchange, _: exchange.fail(429, "You exceeded your quota", "insufficient_quota"),
    "slow": _slow,
    "cut": _cut,
    "cut_once": _cut_once,
    "stream_error": _stream_error,
    "error200": lambda exchange, _: exchange.handler.send_json(200, {"error": {"message": "no", "code": 401}}),
    "no_done": _no_done,
    "no_stream_options": _objects_to("stream_options", "Unknown parameter: stream_options"),
    "no_max_tokens": _objects_to("max_tokens", "Use 'max_completion_tokens' instead of max_tokens"),
    "broken": _raw(b'{"choices": ['),
    "no_choices": _raw(b'{"choices": []}'),
    "wrong_shape": _raw(b'{"choices": [{"message": {"content": 7}}]}'),
    "html": _raw(b"<html><body>Please log in to the \x1b[31mWi-Fi</body></html>", "text/html"),
    "oversized": _raw(b'{"choices": "' + b"x" * (2 << 20) + b'"}'),
    "oversized_stream": _raw(b"data: " + b"x" * (2 << 20), "text/event-stream"),
}
"""What a mark can ask for."""


def main() -> None:
    """Serve until interrupted; prints the base URL."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m coilclaw.sandbox.fake_openai", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--api-key", default=None, help="answer 401 to requests without this key")
    options = parser.parse_args(namespace=_Options())
    fake = FakeOpenAI(port=options.port, api_key=options.api_key)
    with fake:
        sys.stdout.write(f"{fake.base_url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("\n")


class _Options:
    port: int = 0
    api_key: str | None = None


if __name__ == "__main__":
    main()
