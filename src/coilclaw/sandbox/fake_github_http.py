"""How the fake GitHub is spoken to: answers, scripted ones first, over HTTP on loopback. Not for production."""

import re
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, parse_object

Scripted = TypeVar("Scripted")


class GitHubReply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the fake."""

    status: int = 200
    body: Json = None
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False
    """Hang up before anything is sent."""


Answering: TypeAlias = Callable[[str, str, JsonObject, Mapping[str, str]], GitHubReply]
"""Answers a request: its method, path, body and headers."""


def fault(status: int, message: str) -> GitHubReply:
    """An error as the service words it."""
    return GitHubReply(status=status, body={"message": message, "documentation_url": "https://docs.github.com/rest"})


def scripted(script: "list[tuple[str, Scripted]]", asked: str) -> "Scripted | None":
    """What a script holds for a request, once."""
    for place, (pattern, answer) in enumerate(script):
        if re.search(pattern, asked):
            del script[place]
            return answer
    return None


class GitHubServer(ThreadingHTTPServer):
    """The fake's own server."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Answering, port: int) -> None:
        super().__init__(("127.0.0.1", port), _GitHubHandler)
        self.answer = answer


class _GitHubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name the base class gave it
        pass

    def _serve(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        kind = headers.get("content-type", "")
        form = kind == "application/x-www-form-urlencoded" and self.path.startswith("/login/")  # the API takes JSON
        given: JsonObject = dict(parse_qsl(data.decode())) if form else parse_object(data or b"{}")
        reply = cast("GitHubServer", self.server).answer(self.command, self.path, given, headers)
        self.close_connection = True
        if reply.cut:
            return
        body = b"" if reply.status in (204, 304) else msgspec.json.encode(reply.body)
        self.send_response(reply.status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *reply.headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 -- the names the base class looks for
