"""A real git server over HTTP on loopback: `git http-backend`, behind a token if one is set."""

import base64
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class GitServer:
    """Serves the repositories below a folder at 127.0.0.2, which no other name of a test leads to."""

    def __init__(self, top: Path, token: str = "") -> None:
        self.requests: list[str] = []
        expected = f"Basic {base64.b64encode(f'x-access-token:{token}'.encode()).decode()}"
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.requests.append(f"{self.command} {self.path}")
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if token and self.headers.get("authorization") != expected:
                    self.answer(401, [("www-authenticate", "Basic realm=git")], b"")
                    return
                path, _, query = self.path.partition("?")
                environ = {
                    "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(top), "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("content-type") or "", "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding") or "",
                    "GIT_PROTOCOL": self.headers.get("git-protocol") or "", "HOME": "/nonexistent",
                    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
                }  # fmt: skip
                done = subprocess.run(
                    ["git", "http-backend"], env=environ, input=body, capture_output=True, check=False, timeout=280
                )
                head, _, content = done.stdout.partition(b"\r\n\r\n")
                fields = [line.decode().split(": ", 1) for line in head.split(b"\r\n") if b": " in line]
                status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
                self.answer(status, [(name, value) for name, value in fields if name != "Status"], content)

            do_POST = do_GET  # noqa: N815 - the name that the base class looks for

            def answer(self, status: int, fields: list[tuple[str, str]], content: bytes) -> None:
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.2", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
