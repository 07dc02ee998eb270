"""A clean home with a scripted model, a receiver at the end of its webhook, and the real `coilclaw up` on it."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from coilclaw.sandbox.fake_receiver import Receiver, serve
from tests import forked
from tests.forked import COILCLAW, READ_AT_START
from tests.home import move_in

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0

TODAY = """Here is **today**, from your notes:

1. The bakery delivers at 9:00, so the shopping list should be ready.
2. Accounting still waits for the total of November: `1,284.50`.
3. Nothing else is due before Friday.

Say the word and I write the list."""
LIST = "# Shopping\n\n- bread\n- milk\n- coffee beans\n- oranges\n"
REPORT = "# Week 47\n\nThree invoices paid, one open.\nNothing is overdue.\n"
SECRET = "panel-test-webhook-secret-8c1f2a"  # the hook's own; nothing of it may reach a browser

SCRIPT = [
    {"match": "shopping", "text": "I will write it down.", "tool_calls": [
        {"tool": "file_write", "args": {"path": "shopping.md", "content": LIST}, "justification": "You asked."},
    ]},
    {"match": "shopping", "text": "It goes to **shopping.md** as soon as you say yes."},
    {"match": "accounting", "text": "I can tell them.", "tool_calls": [
        {
            "tool": "webhook_send",
            "args": {"target": "accounting", "payload": {"month": "November", "total": "1284.50"}},
            "justification": "Accounting waits for the total.",
        },
    ]},
    {"match": "accounting", "text": "Accounting hears of it as soon as you say yes."},
    {"match": "weekly report", "text": "I put it together.", "tool_calls": [
        {"tool": "file_write", "args": {"path": "notes/week.md", "content": REPORT}, "justification": "The goal."},
    ]},
    {"match": "weekly report", "text": "The report is in **notes/week.md**."},
    {"match": "opening hours", "tool_calls": [
        {"tool": "http", "args": {"url": "https://shop.example/hours"}, "justification": "You asked."},
    ]},
    {"match": "count to ten", "tool_calls": [
        {"tool": "shell", "args": {"command": "echo one; sleep 25; echo ten"}, "justification": "You asked."},
    ]},
    {"match": "take your time", "delay": 30, "text": "That was long."},
    {"match": "today", "text": TODAY},
    {"text": "Hello, and welcome."},
]  # fmt: skip


WEEKLY = """
description = "Looks at the notes, asks, and keeps a copy."

[[steps]]
id = "look"
kind = "tool"
tool = "file_list"
args = { path = "." }

[[steps]]
id = "ask"
kind = "approval"
prompt = "Keep a copy of this week's notes?"

[[steps]]
id = "keep"
kind = "tool"
tool = "file_list"
args = { path = "skills" }
"""
MISSING = """
[[steps]]
id = "read"
kind = "tool"
tool = "file_read"
args = { path = "notes/nowhere.md" }
"""


class House:
    """The home, what was received, and the server that runs on it."""

    def __init__(self, folder, *, script=(), environ=(), receiver=Receiver):
        self.folder = folder
        self.home = folder / "home"
        self.workspace = self.home / "workspace"
        self.receiver = receiver(folder / "received.jsonl", deduplicates=False, lookup=False)
        self._door = serve(self.receiver)
        self._thread = threading.Thread(target=self._door.serve_forever, daemon=True)
        self._thread.start()
        spoken = folder / "script.json"
        spoken.write_text(json.dumps([*script, *SCRIPT]))
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("COILCLAW_", *READ_AT_START))},
            "COILCLAW_HOME": str(self.home),
            "COILCLAW_MOCK_SCRIPT": str(spoken),
            "COILCLAW_WEBHOOKS_ACCOUNTING_URL": f"http://127.0.0.1:{self._door.server_port}/in",
            "COILCLAW_WEBHOOKS_ACCOUNTING_SECRET_ENV": "PANEL_TEST_SECRET",
            "PANEL_TEST_SECRET": SECRET,
            "HOME": str(folder),
            "COILCLAW_FORGE_ENABLED": "false",  # jobs ask for each write, unless a story is about pull requests
            **dict(environ),
        }
        self.server = None
        self._port = _free_port()
        move_in(folder)
        self.up()

    def run(self, *args, code=0):
        """A command of the terminal; what it printed."""
        ran = forked.run([COILCLAW, *args], env=self.environ, text=True, timeout=PATIENCE, cwd=self.folder)
        assert ran.returncode == code, (args, ran.stdout, ran.stderr)
        return ran.stdout

    def up(self):
        """Start the server, always on the same port: a browser has to find it again."""
        self.server = Server(self)
        self.server.listening()

    def put_sop(self, name, text):
        """Write a procedure down, as its owner does."""
        folder = self.workspace / "sops" / name
        folder.mkdir(parents=True)
        (folder / "SOP.toml").write_text(f'name = "{name}"\n{text}')

    def down(self):
        """Stop it as a machine that shuts down does."""
        self.server.stop()

    def new_code(self):
        """A code for one more device, from the terminal."""
        return re.search(r"Pairing code: (\S+)", self.run("pair", "--add"))[1]

    @property
    def origin(self):
        return f"http://localhost:{self._port}"

    @property
    def port(self):
        return self._port

    def received(self):
        """What the webhook got, body by body."""
        return [json.loads(json.loads(line)["body"]) for line in _lines(self.folder / "received.jsonl")]

    def close(self):
        self.server.kill()
        self._door.shutdown()
        self._door.server_close()
        self._thread.join(PATIENCE)


class Server:
    """A running `coilclaw up`."""

    def __init__(self, house):
        self._errors = house.folder / f"up-{time.monotonic_ns()}.err"
        ours, theirs = pty.openpty()  # a code is shown at a terminal only
        self._out = os.fdopen(ours, "rb", buffering=0)
        with self._errors.open("w") as errors:
            self.process = forked.start(
                [COILCLAW, "up", "--addr", f"127.0.0.1:{house.port}"],
                env=house.environ,
                stdout=theirs,
                stderr=errors,
                cwd=house.folder,
            )
        os.close(theirs)
        self.said = ""

    def listening(self):
        """Wait until it has said everything it says at its start."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(r"five attempts|paired\. ", self.said):
            assert time.monotonic() < deadline, (self.said, self.complaint())
            if select.select([self._out], [], [], 1)[0]:
                piece = b""
                with contextlib.suppress(OSError):  # a terminal ends with whoever wrote to it
                    piece = self._out.read(65536)
                assert piece, (self.said, self.complaint())
                self.said += piece.decode()

    @property
    def code(self):
        """The code it gave out for the first device."""
        return re.search(r"Pairing code: (\S+)", self.said)[1]

    def complaint(self):
        return self._errors.read_text()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.complaint()
        self._out.close()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        self._out.close()


def build_panel():
    """The panel as the tree has it now; where it cannot be built, tests say so instead of looking at an old one."""
    built = subprocess.run([ROOT / "scripts" / "panel", "build"], capture_output=True, text=True, timeout=600)
    if built.returncode:
        missing = "Node" in built.stderr and not os.environ.get("CI")
        (pytest.skip if missing else pytest.fail)(f"the panel is not built: {built.stderr.strip()[-500:]}")


def axe_source():
    """The accessibility rules, from the panel's own development packages."""
    found = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
    if not found.exists():
        subprocess.run([ROOT / "scripts" / "panel", "node", "--version"], capture_output=True, timeout=600)
    return found.read_text(encoding="utf-8")


def screenshots():
    """Where pictures of this run are kept."""
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _lines(path):
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
