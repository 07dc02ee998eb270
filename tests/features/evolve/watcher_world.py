"""A home of the watcher's with a launcher without a box: what is tested here is what stands outside the box."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from coilclaw.features.evolve import watcher as package
from coilclaw.features.evolve.watcher.git import AGENT
from coilclaw.features.evolve.watcher.record import Record
from coilclaw.features.evolve.watcher.settings import WatcherSettings

WATCHER = Path(package.__file__).parent
PATIENCE = 280

COMMS = "# COMMS\n\n## Directives\n\n- be good\n\n## Reports\n"

LAUNCHER = """
import ctypes, os, subprocess, sys, threading
directory, volume, branch, sha = sys.argv[1:]
def die_with_launcher():
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
words = [sys.executable, "-I", "-S", directory + "/infra/runner.py", volume, branch, sha]
child = subprocess.Popen(words, preexec_fn=die_with_launcher, env={**os.environ, "EVOLVE_BRANCH": branch})
def leave():
    os.read(0, 1)
    child.kill()
    os._exit(1)
threading.Thread(target=leave, daemon=True).start()
sys.exit(child.wait())
"""

STARTS = """
import os, sys, time
volume, branch, sha = sys.argv[1:]
def log(word):
    with open(volume + "/logs/bootstrap.log", "a") as file:
        file.write(f"2026-01-01T00:00:00Z {word} {branch} {sha}\\n")
def send(kind, text):
    with open(volume + "/.signal/." + kind, "w") as file:
        file.write(text)
    os.rename(volume + "/.signal/." + kind, volume + "/.signal/" + kind)
log("BOOTSTRAPPING")
"""
SLEEPS = STARTS + 'log("SUCCESS")\ntime.sleep(1000)\n'
EXITS = STARTS + "sys.exit(0)\n"
CRASHES = STARTS + 'log("SUCCESS")\nprint("about to crash", flush=True)\nraise SystemExit(3)\n'
HANGS = STARTS + "time.sleep(1000)\n"
BOOTS_MAIN = STARTS + 'log("SUCCESS")\nsend("bootstrap", "main")\ntime.sleep(1000)\n'


class World:
    """One home, its record, and a watcher that can be started, killed and asked."""

    def __init__(
        self, root: Path, runner: str = SLEEPS, files: dict[str, str] | None = None, **settings: object
    ) -> None:
        self.root = root
        self.home = root / "evolve"
        self.record = Record(self.home)
        source = root / "source"
        for name, text in {
            "COMMS.md": COMMS,
            "spec/SPEC_1.md": "It MUST.\n",
            "infra/runner.py": runner,
            "a.py": "1\n",
            **(files or {}),
        }.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        self.first = self.record.init(source)
        (root / "launcher.py").write_text(LAUNCHER)
        launch = (
            sys.executable,
            "-I",
            "-S",
            str(root / "launcher.py"),
            "{directory}",
            str(self.volume),
            "{branch}",
            "{sha}",
        )
        quick = {
            "first_pause": 0.05,
            "longest_pause": 0.5,
            "poll_seconds": 0.05,
            "stop_seconds": 0.2,
            "start_seconds": 60,
        }
        self.settings = WatcherSettings(str(self.home), launch, **(quick | settings))  # pyright: ignore[reportArgumentType]
        self.settings.save(self.home / "settings.json")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def volume(self) -> Path:
        return self.home / "bot"

    def start(self, *argv: str) -> None:
        words = argv or (sys.executable, "-I", "-S", str(WATCHER))
        self.process = subprocess.Popen([*words, str(self.home / "settings.json")])

    def end(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)
            self.process = None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process = None

    def state(self) -> dict[str, object]:
        try:
            return json.loads((self.home / "state" / "state.json").read_text())
        except (OSError, ValueError):
            return {}

    def wait(self, condition, what: str = "") -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what or condition}: {self.state()}\n{self.log()}\n{self.boots()}"
            time.sleep(0.02)

    def wait_running(self, branch: str) -> None:
        self.wait(
            lambda: (self.state().get("phase"), self.state().get("branch")) == ("running", branch), f"running {branch}"
        )

    def wait_held(self) -> None:
        self.wait(lambda: self.state().get("phase") == "held", "held")

    def log(self) -> str:
        path = self.home / "state" / "watcher.log"
        return path.read_text() if path.exists() else ""

    def boots(self) -> str:
        path = self.volume / "logs" / "bootstrap.log"
        return path.read_text() if path.is_file() else ""

    def asks(self, kind: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for path in sorted((self.home / "desk").glob("ask-*.json")):
            with suppress(FileNotFoundError):  # settled at this very moment
                found.append(json.loads(path.read_text()))
        return [ask for ask in found if ask["kind"] == kind]

    def answer(self, ask: dict[str, object], ok: bool, why: str = "", *, expired: bool = False) -> None:
        self._put(f"answer-{ask['id']}.json", {"ok": ok, "why": why, "expired": expired})

    def order(self, **order: object) -> None:
        self._put(f"order-{time.time_ns()}.json", order)

    def _put(self, name: str, value: dict[str, object]) -> None:
        beside = self.home / "desk" / f".{name}"
        beside.write_text(json.dumps(value))
        beside.rename(self.home / "desk" / name)

    # What the agent does

    def git(self, *words: str, where: Path | None = None, who: tuple[str, str] = AGENT, given: bytes = b"") -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        for role in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{role}_NAME": who[0], f"GIT_{role}_EMAIL": who[1]}
        place = where or self.root
        done = subprocess.run(["git", *words], cwd=place, env=environment, input=given, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def clone(self, branch: str, base: str = "main") -> Path:
        place = self.volume / branch / "coilclaw"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            self.git("clone", "-q", "-b", base, str(self.home / "remote.git"), str(place))
            self.git("checkout", "-q", "-B", branch, where=place)
        return place

    def push(self, branch: str, files: dict[str, str], who: tuple[str, str] = AGENT) -> str:
        place = self.clone(branch)
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        self.git("add", "-A", where=place)
        self.git("commit", "-qm", "Change", where=place, who=who)
        self.git("push", "-q", "origin", branch, where=place)
        return self.git("rev-parse", "HEAD", where=place)

    def send(self, kind: str, text: str) -> None:
        (self.volume / ".signal").mkdir(parents=True, exist_ok=True)
        (self.volume / ".signal" / f".{kind}").write_text(text)
        (self.volume / ".signal" / f".{kind}").rename(self.volume / ".signal" / kind)

    def fsck(self) -> None:
        self.git("--git-dir", str(self.home / "bot.git"), "fsck", "--full", "--strict")
