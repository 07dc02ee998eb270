"""A webhook receiver that counts durably: the other end of `webhook_send` for tests and experiments.

`python -m coilclaw.sandbox.fake_receiver FILE [--deduplicates] [--no-lookup]` listens on a free port of this machine
and prints it. Every effect is one line in FILE, durable before the answer goes out. A body can make it misbehave.
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import msgspec

KEY = "Idempotency-Key"


class _Wanted(msgspec.Struct):
    answers: list[int] = []


class Receiver:
    """Receives messages and counts them in a file."""

    def __init__(self, file: Path, *, deduplicates: bool, lookup: bool) -> None:
        self._file = file
        self._deduplicates = deduplicates
        self._lookup = lookup
        self._lock = threading.Lock()
        self._answers: dict[str, list[int]] = {}

    def take(self, key: str, body: bytes) -> int:
        """Have the effect, again or just once, and return the status."""
        with self._lock:
            scripted = self._scripted(key, body)
            if 400 <= scripted < 500 and scripted != 408:
                return scripted
            if not (self._deduplicates and key in self.keys()):
                line = json.dumps({"key": key, "body": body.decode("utf-8", "replace")})
                descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                try:
                    os.write(descriptor, line.encode() + b"\n")
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            return scripted or 200

    def _scripted(self, key: str, body: bytes) -> int:
        """`{"answers": [429, 500]}` is answered so in turn for a key, then 200; 408 and 500 have their effect first."""
        try:
            wanted = msgspec.json.decode(body, type=_Wanted)
        except msgspec.DecodeError:
            return 0
        left = self._answers.setdefault(key, list(wanted.answers))
        return left.pop(0) if left else 0

    def knows(self, key: str) -> int:
        """The status of a lookup."""
        if not self._lookup:
            return 405
        with self._lock:
            return 200 if key in self.keys() else 404

    def keys(self) -> list[str]:
        """The key of every effect so far, in order."""
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)["key"] for line in lines]


def serve(receiver: Receiver, *, slow: float = 0.0, port: int = 0) -> ThreadingHTTPServer:
    """A server on this machine; `slow` seconds pass between an effect and its answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            if len(body) < length:  # it broke off: nothing was received
                self.close_connection = True
                return
            status = receiver.take(self.headers.get(KEY, ""), body)
            if slow:
                time.sleep(slow)
            self._answer(status)

        def do_GET(self) -> None:
            self._answer(receiver.knows(unquote(self.path.rpartition("/")[2])))

        def _answer(self, status: int) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name upstream
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


def main() -> None:
    """Listen until killed."""
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    (file,) = [word for word in sys.argv[1:] if not word.startswith("--")]
    receiver = Receiver(Path(file), deduplicates="--deduplicates" in options, lookup="--no-lookup" not in options)
    server = serve(receiver)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
