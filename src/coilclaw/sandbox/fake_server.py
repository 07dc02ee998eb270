"""What the shipped fake model servers share: HTTP on loopback, recorded requests, and scenes.

The last user message chooses the scene with a mark such as `[[tool:file_list {"path": "."}]]` or `[[status:503]]`;
a message without one is answered with text. Nothing here is for production: it listens on 127.0.0.1 only and keeps
every request in memory.
"""

import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, TypeAlias, TypeVar, cast

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, parse_object

MARK = re.compile(r"\[\[(\w+)(?::(.*?))?\]\]", re.DOTALL)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded request."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: JsonObject


class FakeModelServer:
    """Start it, give `base_url` to a provider, look at `requests`. Use it as a context manager."""

    path = ""
    """The path of questions under the base URL."""
    prefix = "/v1"
    """The path of the base URL."""

    def __init__(self, *, models: Sequence[str] = ("fake-model",), api_key: str | None = None, port: int = 0) -> None:
        self.models = tuple(models)
        self.api_key = api_key
        """When set, requests without it are answered 401."""
        self.requests: list[Recorded] = []
        self.script: list[str] = []
        """Texts with marks, one for each question that may be answered with calls: taken instead of what was said."""
        self.stopping = threading.Event()
        self._seen: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        """What belongs into a provider's base_url."""
        return f"http://127.0.0.1:{self._server.server_port}{self.prefix}"

    def start(self) -> Self:
        """Listen in the background."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close all connections and free the port."""
        self.stopping.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def record(self, request: Recorded, body: bytes) -> int:
        """Record a request; returns how often the same bytes came before."""
        with self._lock:
            self.requests.append(request)
            before = self._seen.get(body, 0)
            self._seen[body] = before + 1
            return before

    def play(self, handler: "Handler", body: JsonObject, before: int) -> None:
        """Answer a question by the scene that its last user message names."""
        raise NotImplementedError

    def counts(self, handler: "Handler", body: JsonObject) -> bool:
        """Answer a request that only counts tokens, if this is one."""
        del handler, body
        return False

    def asked_at(self, path: str) -> bool:
        """Whether a question may be sent to this path under the base URL."""
        return path == self.path

    def key_in(self, headers: Mapping[str, str]) -> str:
        """The key that a request brought."""
        return headers.get("authorization", "").removeprefix("Bearer ")


class _Server(ThreadingHTTPServer):
    """Knows its open connections, so that stopping does not wait for idle ones."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, fake: FakeModelServer, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
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
        """Ignore clients that hang up; report anything else."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it was faster


class Handler(BaseHTTPRequestHandler):
    """One connection to the fake."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name the base class gave it
        pass

    def do_GET(self) -> None:
        fake, request, _ = self._received()
        if not self._allowed(fake, request):
            return
        if self.path.partition("?")[0] == "/v1/models":
            listing: Json = [{"id": model, "object": "model"} for model in fake.models]
            self.send_json(200, {"object": "list", "data": listing})
        else:
            self.send_json(404, error_body("Not found", "not_found_error"))

    def do_POST(self) -> None:
        fake, request, before = self._received()
        if not self._allowed(fake, request):
            return
        path = self.path.removeprefix(fake.prefix) if self.path.startswith(fake.prefix) else ""
        if fake.counts(self, request.body):
            return
        if fake.asked_at(path.partition("?")[0]):
            fake.play(self, request.body, before)
        else:
            self.send_json(404, error_body("Not found", "not_found_error"))

    def _received(self) -> tuple[FakeModelServer, Recorded, int]:
        fake = cast("_Server", self.server).fake
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = parse_object(data or b"{}")
        request = Recorded(method=self.command, path=self.path, headers=headers, body=body)
        return fake, request, fake.record(request, data)

    def _allowed(self, fake: FakeModelServer, request: Recorded) -> bool:
        given = fake.key_in(request.headers)
        if fake.api_key is None or given == fake.api_key:
            return True
        self.send_json(401, error_body(f"Incorrect API key provided: {given}", "invalid_request_error"))
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
        """One JSON value."""
        self.send_bytes(status, msgspec.json.encode(value), "application/json", headers or {})

    def send_events(self, events: Iterable[bytes], *, cut: bool = False) -> None:
        """A chunked event stream, an event with a type under its name; cut leaves out the end and hangs up."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            named = re.match(rb'\{"type":"([\w.]+)"', event)
            data = (b"event: " + named[1] + b"\n" if named else b"") + b"data: " + event + b"\n\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


def error_body(text: str, kind: str) -> JsonObject:
    """An error object as these APIs have it."""
    return {"type": "error", "error": {"message": text, "type": kind, "param": None, "code": None}}


class Exchange:
    """One question and the ways to answer it; each API formats its own answers."""

    def __init__(self, handler: Handler, fake: FakeModelServer, body: JsonObject, before: int) -> None:
        self.handler = handler
        self.fake = fake
        self.body = body
        self.before = before
        self.stream = body.get("stream") is True
        self.said = ""
        """The last thing the user said."""
        self.results: list[str] = []
        """Results of calls since then."""

    def say(self, text: str, finish: str = "stop") -> None:
        """Text, streamed word by word."""
        raise NotImplementedError

    def propose(self, calls: Sequence[tuple[str, str]]) -> None:
        """Calls, in fragments when streamed."""
        raise NotImplementedError

    def half(self, text: str) -> list[bytes]:
        """The events of a stream up to this text."""
        raise NotImplementedError

    def fail(
        self, status: int, text: str, kind: str = "server_error", headers: Mapping[str, str] | None = None
    ) -> None:
        """An error object."""
        self.handler.send_json(status, error_body(text, kind), headers)

    @property
    def must_not_call(self) -> bool:
        """Whether the question wants words alone; coding programs send `auto` with each of theirs."""
        return self.body.get("tool_choice") in ("none", {"type": "none"})

    @property
    def may_call(self) -> bool:
        """Whether the question brings tools that may be called."""
        return bool(self.body.get("tools")) and not self.must_not_call

    @property
    def key(self) -> str:
        """The key the client sent."""
        return self.fake.key_in({name.lower(): value for name, value in self.handler.headers.items()})


Played = TypeVar("Played", bound=Exchange)
Scene: TypeAlias = Callable[[Exchange, str], None]


def play(exchange: Played, scenes: "Mapping[str, Callable[[Played, str], None]]") -> None:
    """Answer by the script, by the first mark in the last user message, or with text."""
    if "tool_choice" in exchange.body and not exchange.body.get("tools"):
        return exchange.fail(400, "tool_choice is only allowed with tools", "invalid_request_error")
    if exchange.fake.script and exchange.may_call:
        exchange.said, exchange.results = exchange.fake.script.pop(0), []
    found = MARK.search(exchange.said)
    scene = scenes.get(found[1]) if found else scenes["text"]
    if scene is None:
        return exchange.fail(400, f"There is no scene {found[1] if found else ''}; scenes are {', '.join(scenes)}")
    return scene(exchange, (found[2] or "").strip() if found else "")


def words(text: str) -> list[str]:
    """Text in the pieces it is streamed in."""
    return re.findall(r"\S+\s*|\s+", text)


def fragments(text: str) -> list[str]:
    """Arguments in the pieces they are streamed in."""
    return [text[start : start + 3] for start in range(0, len(text), 3)]


def asked_calls(said: str) -> list[tuple[str, str]]:
    """The calls that the marks of a message ask for."""
    marks = [found[2] or "" for found in MARK.finditer(said) if found[1] not in {"text", "parts"}]
    return [(name, arguments.strip() or "{}") for name, _, arguments in (mark.strip().partition(" ") for mark in marks)]


def plain_text(content: Json) -> str:
    """What a message says, in one piece or in parts."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, Sequence) else []
    return " ".join(str(part["text"]) for part in parts if "text" in part)


def _text(exchange: Exchange, text: str) -> None:
    exchange.say(text or f"You said: {MARK.sub('', exchange.said).strip()}")


def _tool(exchange: Exchange, _: str) -> None:
    """Propose every call marked in the message; then, or when none may be made, tell the results."""
    if exchange.results or exchange.must_not_call:
        return exchange.say(f"Done. {' '.join(exchange.results)}"[:400])
    return exchange.propose(asked_calls(exchange.said))


def status(exchange: Exchange, argument: str) -> None:
    """An error status, with the Retry-After that follows it."""
    code, _, wait = argument.partition(" ")
    texts = {"401": f"Incorrect API key provided: {exchange.key}", "404": "The model does not exist"}
    exchange.fail(int(code), texts.get(code, f"scripted {code}"), headers={"Retry-After": wait} if wait else {})


def _once(exchange: Exchange, argument: str) -> None:
    if exchange.before:
        return exchange.say("The second try worked.")
    return status(exchange, argument)


def _slow(exchange: Exchange, seconds: str) -> None:
    exchange.fake.stopping.wait(float(seconds or 30))
    exchange.say("At last.")


def _drip(exchange: Exchange, seconds: str) -> None:
    """Pause before each event of a stream."""

    def slowly(events: Iterable[bytes]) -> Iterable[bytes]:
        for event in events:
            exchange.fake.stopping.wait(float(seconds or 1))
            yield event

    send = exchange.handler.send_events
    exchange.handler.send_events = lambda events, *, cut=False: send(slowly(events), cut=cut)
    exchange.say("A long answer that arrives word by word.")


def _cut(exchange: Exchange, text: str) -> None:
    """Break off after this text, or at once; without a stream, in the middle of the body."""
    if not exchange.stream:
        return exchange.handler.send_bytes(200, b'{"choices": [{"mess', "application/json", {}, announced=500)
    return exchange.handler.send_events(exchange.half(text) if text else [], cut=True)


def _cut_once(exchange: Exchange, _: str) -> None:
    return exchange.say("The second try worked.") if exchange.before else _cut(exchange, "")


def raw(data: bytes, kind: str = "application/json") -> Scene:
    """A scene that sends these bytes."""
    return lambda exchange, _: exchange.handler.send_bytes(200, data, kind, {})


COMMON: dict[str, Scene] = {
    "text": _text,
    "tool": _tool,
    "length": lambda exchange, _: exchange.say("Cut short by the", "length"),
    "empty": lambda exchange, _: exchange.say(""),
    "status": status,
    "once": _once,
    "too_long": lambda exchange, _: exchange.fail(
        400, "This model's maximum context length is 8 tokens", "invalid_request_error"
    ),
    "quota": lambda exchange, _: exchange.fail(429, "You exceeded your quota", "insufficient_quota"),
    "slow": _slow,
    "drip": _drip,
    "cut": _cut,
    "cut_once": _cut_once,
    "broken": raw(b'{"choices": ['),
    "html": raw(b"<html><body>Please log in to the \x1b[31mWi-Fi</body></html>", "text/html"),
    "oversized": raw(b'{"choices": "' + b"x" * (2 << 20) + b'"}'),
    "oversized_stream": raw(b"data: " + b"x" * (2 << 20), "text/event-stream"),
}
"""What a mark can request, with any API."""


def serve(make: Callable[..., FakeModelServer], program: str) -> None:
    """Serve until interrupted; prints the base URL."""
    import argparse

    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--api-key", default=None, help="answer 401 to requests without this key")
    options = parser.parse_args(namespace=_Options())
    with make(port=options.port, api_key=options.api_key) as fake:
        sys.stdout.write(f"{fake.base_url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("\n")


class _Options:
    port: int = 0
    api_key: str | None = None
