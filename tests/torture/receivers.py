"""The other end of the torture: receivers in a process of their own, and a way to wait until they are at rest."""

import ctypes
import http.client
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from coilclaw.sandbox.fake_receiver import KEY, Receiver

VARIANTS = ("deduplicates", "lookup", "neither", "liar")
"""What a receiver can do. The liar says that it deduplicates and does not: it shows that duplicates are found."""


class Server(ThreadingHTTPServer):
    """Serves `/VARIANT/HOME/in` and `/VARIANT/HOME/seen/KEY`, each home with its own count; counts open requests."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._folder = folder
        self._receivers: dict[str, Receiver] = {}
        self._lock = threading.Lock()
        self.open = 0
        self.resting = 0

    def receiver(self, variant: str, home: str) -> Receiver:
        with self._lock:
            if home not in self._receivers:
                self._receivers[home] = Receiver(
                    received_file(self._folder, home),
                    deduplicates=variant == "deduplicates",
                    lookup=variant == "lookup",
                )
            return self._receivers[home]

    def process_request(self, request, client_address):
        with self._lock:
            self.open += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        super().shutdown_request(request)
        with self._lock:
            self.open -= 1

    def rest(self) -> None:
        """Come back when every request that was accepted before is over."""
        with self._lock:
            self.resting += 1
        while self.open > self.resting:
            time.sleep(0.0005)
        with self._lock:
            self.resting -= 1


class Handler(BaseHTTPRequestHandler):
    """One request. What breaks off before its body is whole has no effect."""

    server: Server

    def do_POST(self) -> None:
        _, variant, home, _ = self.path.split("/")
        wanted = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(wanted)
        if len(body) == wanted:
            self._answer(self.server.receiver(variant, home).take(self.headers.get(KEY, ""), body))

    def do_GET(self) -> None:
        if self.path == "/rest":
            self.server.rest()
            self._answer(200)
            return
        _, variant, home, _, key = self.path.split("/")
        self._answer(self.server.receiver(variant, home).knows(unquote(key)))

    def _answer(self, status: int) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the other side died
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name upstream
        """Say nothing."""


def received_file(folder: Path, home: str) -> Path:
    """Where the effects of one home are counted."""
    return folder / f"received-{home}.jsonl"


def die_with_parent() -> None:
    """Whatever ends the one who started this process ends it too: nothing is left behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Receivers:
    """The process of the receivers, seen from outside."""

    def __init__(self, folder: Path) -> None:
        server = Server(folder)
        self.port = server.server_port
        self.pid = os.fork()
        if not self.pid:
            die_with_parent()
            server.serve_forever()
        server.socket.close()

    def rest(self) -> None:
        """Wait until nothing that was sent before is still under way."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=280)
        connection.request("GET", "/rest")
        connection.getresponse().read()
        connection.close()

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
