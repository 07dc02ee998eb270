"""The real executable in a home of its own: run it, start it, sit in front of it at a terminal."""

import contextlib
import ctypes
import fcntl
import json
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coilclaw.sandbox.fake_openai import FakeOpenAI, Recorded
from tests import forked
from tests.forked import COILCLAW
from tests.home import put, slim

PATIENCE = 120.0
"""Seconds after which a wait counts as hanging. Nothing here is expected to come near it."""


class Ran(NamedTuple):
    """How a command ended and what it said."""

    rc: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """What stands on stderr once the lines of the log are taken away."""
        return "\n".join(line for line in self.err.splitlines() if not line.startswith("· "))

    def json(self) -> Any:
        """stdout as one JSON document."""
        assert self.out.lstrip()[:1] in {"{", "["}, self
        return json.loads(self.out)


def one_sentence(ran: Ran, rc: int, *words: str) -> None:
    """The command failed as a person would want it to: right code, one short message, no traceback."""
    assert "Traceback" not in ran.err + ran.out, ran.err[-2000:]
    assert ran.rc == rc, ran
    said = [line for line in ran.sentence.splitlines() if line.strip()]
    assert len(said) == 1, ran
    assert len(said[0]) < 1000, ran
    for word in words:
        assert word.lower() in said[0].lower(), (word, said[0])


def until(holds: Callable[[], object], what: str, process: "subprocess.Popen[str] | None" = None) -> None:
    """Wait for something another process does; if it has ended, it will not do it any more."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        assert process is None or process.poll() is None, f"it ended before {what}: {process.communicate()}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


def sleepers(seconds: str) -> list[int]:
    """Every living process that sleeps for exactly so long."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes() == f"sleep\0{seconds}\0".encode() and alive(int(entry.name)):
                    found.append(int(entry.name))
    return found


def bound_by_modes() -> None:
    """Make permission bits bind the child even when the tests run as root: it loses the right to ignore them."""
    if os.geteuid() == 0:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        for capability in (1, 2, 3):  # DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER
            if prctl(24, capability, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
                raise OSError(ctypes.get_errno(), "a capability could not be given up")


class HeldModel(FakeOpenAI):
    """A model server that takes requests and answers none before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def record(self, request: Recorded, body: bytes) -> int:
        """Keep the request, and with it whoever asked."""
        before = super().record(request, body)
        self.go.wait(2 * PATIENCE)
        return before


class Sitting:
    """A command at a pseudo-terminal: wait for what it shows, then type."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        *,
        piped_out: bool = False,
        size: tuple[int, int] = (160, 40),
    ) -> None:
        self._master, slave = pty.openpty()
        self.resize(*size)

        self.process = forked.start(
            command,
            stdin=slave,
            stdout=subprocess.PIPE if piped_out else slave,
            stderr=slave,
            env=dict(environ),
            cwd=cwd,
            start_new_session=True,
            terminal=True,
        )
        os.close(slave)
        self.shown = ""
        self._raw = b""
        self._seen = 0

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self, seconds: float) -> bool:
        """Take in what came; False at the end."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        if b"\x1b[6n" in data:  # it asks where the cursor is, as a real terminal would be asked
            os.write(self._master, b"\x1b[1;1R")
        self._raw += data
        self.shown = self._raw.decode("utf-8", "replace")
        return bool(data)

    def wait_for(self, text: str) -> "Sitting":
        """Read until the text has come that was not waited for before."""
        self.wait_for_one(text)
        return self

    def wait_for_one(self, *texts: str) -> str:
        """Read until one of the texts has come that was not waited for before; which one it was."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = [(place, text) for text in texts if (place := self.shown.find(text, self._seen)) >= 0]
            if found:
                place, text = min(found)
                self._seen = place + len(text)
                return text
            assert time.monotonic() < deadline, f"{texts!r} never came; shown: {self.shown[-3000:]!r}"
            if not self._read(0.05):
                came = any(text in self.shown[self._seen :] for text in texts)
                assert came, f"it ended before {texts!r}: {self.shown[-3000:]!r}"

    def type(self, keys: str) -> "Sitting":
        """Type keys; `\\r` is Enter, `\\x03` is Ctrl-C, `\\x04` is Ctrl-D."""
        os.write(self._master, keys.encode())
        return self

    def end(self) -> Ran:
        """Read to the end and take the exit code; everything shown counts as stdout."""
        deadline = time.monotonic() + PATIENCE
        while self._read(0.05):
            assert time.monotonic() < deadline, f"it did not end; shown: {self.shown[-3000:]!r}"
            if self.process.poll() is not None and not select.select([self._master], [], [], 0.05)[0]:
                break
        return Ran(self.process.wait(PATIENCE), self.shown.replace("\r\n", "\n"), "")

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)


class HomeAt:
    """One home, one workspace, and the executable that uses them in a clean environment."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "home"
        self.workspace = base / "coilclaw-workspace"
        self.environ = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(base / "user"),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "COILCLAW_HOME": str(self.root),
        }
        self._started: list[subprocess.Popen[str]] = []
        self._sittings: list[Sitting] = []
        self._scripts = 0
        (base / "user").mkdir(exist_ok=True)

    # Running

    def run(
        self, *args: str | bytes, env: Mapping[str, str] | None = None, stdin: bytes | str | None = None, **more: Any
    ) -> Ran:
        """Run a command to its end, without a terminal."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        environ = {**self.environ, **(env or {})}
        done = forked.run([COILCLAW, *args], data=data, env=environ, cwd=self.base, timeout=PATIENCE, **more)
        return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def ok(self, *args: str, env: Mapping[str, str] | None = None, stdin: bytes | str | None = None) -> Ran:
        """Run a command that must succeed."""
        ran = self.run(*args, env=env, stdin=stdin)
        assert ran.rc == 0, ran
        return ran

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        """Start a command and leave it running; it is ended with the test."""
        process = forked.start(
            [COILCLAW, *args],
            env={**self.environ, **(env or {})},
            cwd=self.base,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def sit(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        piped_out: bool = False,
        size: tuple[int, int] = (160, 40),
    ) -> Sitting:
        """Start a command at a pseudo-terminal of so many columns and rows."""
        environ = {**self.environ, **(env or {})}
        sitting = Sitting([COILCLAW, *args], environ, self.base, piped_out=piped_out, size=size)
        self._sittings.append(sitting)
        return sitting

    def close(self) -> None:
        """End whatever a test left running."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for sitting in self._sittings:
            sitting.close()

    # Setting up

    def script(self, *replies: dict[str, Any]) -> dict[str, str]:
        """A mock script of these replies, as the environment that chooses it."""
        self._scripts += 1
        path = self.base / f"script-{self._scripts}.json"
        path.write_text(json.dumps(replies))
        return {"COILCLAW_MOCK_SCRIPT": str(path)}

    def calling(self, tool: str, args: object, text: str = "result: {last_tool_result}") -> dict[str, str]:
        """A model that makes one call and then tells its result."""
        return self.script({"tool_calls": [{"tool": tool, "args": args}]}, {"text": text})

    def configure(self, text: str) -> None:
        """Replace the configuration."""
        (self.root / "config.toml").write_text(text)

    def provider(self, base_url: str, more: str = "") -> None:
        """Configure an OpenAI-compatible server as the one that answers."""
        self.configure(
            'default_provider = "server"\n[providers.models.server]\nkind = "openai-compatible"\n'
            f'model = "fake-model"\nbase_url = "{base_url}"\nmax_retries = 0\n{more}'
        )

    def tool(self, name: str, args: object, *more: str, env: Mapping[str, str] | None = None) -> Ran:
        """Run one tool through the gate."""
        return self.run("tool", "run", name, "--json", json.dumps(args), *more, env=env)

    # Looking

    @property
    def log(self) -> Path:
        """The receipts log."""
        return self.root / "tool_receipts.log"

    def receipts(self) -> list[dict[str, Any]]:
        """Every receipt as `receipt list --json` tells it, oldest first."""
        return list(reversed(self.ok("receipt", "list", "--json", "--limit", "1000").json()))

    def logged(self) -> list[dict[str, Any]]:
        """Every receipt as the log tells it, without asking the executable."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Look into the database without the executable."""
        connection = sqlite3.connect(f"file:{self.root}/memory.sqlite?mode=ro", uri=True)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    def messages(self) -> list[tuple[str, str]]:
        """(role, content) of everything said, oldest first."""
        return self.rows("SELECT role, content FROM messages ORDER BY seq")

    def intact(self) -> dict[str, Any]:
        """The ledger verifies; its report."""
        report = self.run("receipt", "verify", "--json")
        assert report.rc == 0, report
        return report.json()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home and a workspace made once by the real `coilclaw init`; each test gets a copy."""
    base = tmp_path_factory.mktemp("template")
    made = HomeAt(base)
    ran = made.run("init")
    assert ran.rc == 0, ran
    slim(made.workspace)
    return base


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[HomeAt]:
    """A place where no home was made yet."""
    home = HomeAt(tmp_path)
    yield home
    home.close()


def move_in(empty: HomeAt, source: Path) -> HomeAt:
    """A copy of a home and its workspace, where the copy's own place is."""
    for name in ("home", "coilclaw-workspace"):
        put(source / name, empty.base / name)
    link = empty.root / "workspace"
    link.unlink()
    link.symlink_to(empty.workspace)
    config = empty.workspace / ".git" / "config"
    if config.exists():  # it says which home the workspace belongs to
        owner = f"\thome = {os.path.realpath(empty.root)}\n"
        config.write_text(re.sub(r"\thome = .*\n", lambda _: owner, config.read_text()))
    return empty


@pytest.fixture
def home(empty: HomeAt, template: Path) -> HomeAt:
    """A fresh home, as `coilclaw init` leaves it."""
    return move_in(empty, template)


@pytest.fixture(scope="session")
def used_template(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which one conversation with one call took place."""
    home = move_in(HomeAt(tmp_path_factory.mktemp("used")), template)
    home.ok("agent", "-m", "list files please", env=home.calling("file_list", {"path": "."}, "listed"))
    return home.base


@pytest.fixture
def used(empty: HomeAt, used_template: Path) -> HomeAt:
    """A home with a conversation and a receipt in it, so that there is something to lose."""
    return move_in(empty, used_template)


@pytest.fixture
def run(home: HomeAt) -> Callable[..., Ran]:
    """Run the executable in the fresh home."""
    return home.run


@pytest.fixture
def run_in_terminal(home: HomeAt) -> Callable[..., Ran]:
    """Run a command at a terminal: wait for each text in turn and type what answers it."""

    def run_it(args: Sequence[str], keys: Sequence[tuple[str, str]], env: Mapping[str, str] | None = None) -> Ran:
        sitting = home.sit(*args, env=env)
        for text, typed in keys:
            sitting.wait_for(text).type(typed)
        return sitting.end()

    return run_it
