"""The agent that works on itself: taking in a push beside a bare fetch, obeying a signal, an idle watcher, a start."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.home import BenchHome
from bench.rounds import Timing, timed, timings
from bench.row import Plan, Row, alone, beside
from coilclaw.features.evolve import watcher
from coilclaw.features.evolve.box import evolve_box
from coilclaw.features.evolve.init import make_repository
from coilclaw.features.evolve.launch import launched
from coilclaw.features.evolve.places import places_of
from coilclaw.features.evolve.watcher.record import Record
from coilclaw.features.evolve.watcher.settings import WatcherSettings
from coilclaw.packets.box import Tier
from coilclaw.packets.errors import BoxUnavailable
from coilclaw.packets.ports import Box

GROUP = "evolve"
_AGENT = {"GIT_AUTHOR_NAME": "agent", "GIT_AUTHOR_EMAIL": "agent@evolve.invalid",
          "GIT_COMMITTER_NAME": "agent", "GIT_COMMITTER_EMAIL": "agent@evolve.invalid"}  # fmt: skip
_RUNNER = """import sys
volume, branch = sys.argv[1:]
with open(volume + "/logs/bootstrap.log", "a") as log:
    log.write(f"x BOOTSTRAPPING {branch}\\nx SUCCESS {branch}\\n")
sys.stdin.read()
"""


def measure(plan: Plan) -> Iterator[Row]:
    """A record of its own, real git, a real watcher; the launcher is the bare interpreter."""
    folder = plan.folder / GROUP
    folder.mkdir()
    bench = _Bench(folder, plan.size(1500, 50))
    yield bench.taken_in(plan)
    process = bench.watch()
    try:
        yield bench.idle(plan, process.pid)
        yield bench.obeyed(plan)
    finally:
        process.terminate()
        process.wait()
    yield from _launches(plan, folder)


def _launches(plan: Plan, folder: Path) -> Iterator[Row]:
    """From nothing to the end of a runner that does nothing: by the launcher, and in a box that somebody has open."""
    home = BenchHome(folder / "launched")
    try:
        with asyncio.Runner() as loop:
            make_repository(home.app, folder / "source")
            code = places_of(home.app.home.root).code("agent/probe")
            (code / "infra").mkdir(parents=True)
            (code / "infra" / "runner.py").write_text("pass\n")
            tiers: tuple[tuple[str, Tier], ...] = (("podman", "C"), ("box", "A" if shutil.which("bwrap") else "B"))
            for container, tier in tiers:
                try:
                    box = evolve_box(home.app, tier)
                except BoxUnavailable:
                    continue
                yield _launch(plan, home, loop, box, container)
    finally:
        home.close()


def _launch(plan: Plan, home: BenchHome, loop: asyncio.Runner, box: Box, container: str) -> Row:
    environ = {**os.environ, "COILCLAW_HOME": str(home.app.home.root), "COILCLAW_EVOLVE_CONTAINER": container}
    words = [sys.executable, "-m", "coilclaw.features.evolve.launch", "agent/probe"]

    def by_launcher() -> None:
        with subprocess.Popen(words, env=environ, stdin=subprocess.PIPE) as started:  # it ends when its input does
            assert started.wait() == 0

    def in_box() -> None:
        assert loop.run(launched(home.app, "agent/probe", box)) == 0

    found = timings({"bare": timed(in_box), "launcher": timed(by_launcher)}, plan.rounds)
    what = f"a start of the agent, in {'Podman' if container == 'podman' else 'a box'}"
    against = found["bare"].scaled(1e3)
    return beside(GROUP, what, "ms", found["launcher"].scaled(1e3), f"bare tier {box.tier}", against, at_most=1.3)


class _Bench:
    def __init__(self, folder: Path, files: int) -> None:
        self.folder, self.home, self.files, self.count = folder, folder / "evolve", files, 0
        source = folder / "source"
        (source / "infra").mkdir(parents=True)
        (source / "infra" / "runner.py").write_text(_RUNNER)
        (source / "COMMS.md").write_text("## Directives\n\n## Reports\n")
        for number in range(files):
            (source / f"f{number}.py").write_text(f"value = {number}\n" * 50)
        self.record = Record(self.home)
        self.record.init(source)
        self.clone = self.home / "bot" / "agent" / "work" / "coilclaw"
        self.clone.parent.mkdir(parents=True)
        self.git(folder, "clone", "-q", str(self.home / "remote.git"), str(self.clone))
        self.git(self.clone, "checkout", "-q", "-b", "agent/work")

    def git(self, place: Path, *words: str) -> None:
        environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **_AGENT}
        subprocess.run(["git", "-C", str(place), *words], env=environ, check=True, capture_output=True)

    def push(self) -> None:
        """A commit of twenty files."""
        self.count += 1
        for number in range(20):
            (self.clone / f"f{number}.py").write_text(f"value = {self.count}\n" * 50)
        self.git(self.clone, "commit", "-qam", f"Change {self.count}")
        self.git(self.clone, "push", "-q", "origin", "agent/work")

    def taken_in(self, plan: Plan) -> Row:
        plain = self.folder / "plain.git"

        def bare() -> float:
            shutil.rmtree(plain, ignore_errors=True)
            self.git(self.folder, "clone", "-q", "--bare", str(self.home / "bot.git"), str(plain))
            self.push()
            words = ("-c", "fetch.fsckObjects=true", "fetch", "-q", str(self.home / "remote.git"), "agent/work")
            start = time.perf_counter()
            self.git(plain, *words)
            return time.perf_counter() - start

        def taken() -> float:  # what was pushed last, which the bare side has fetched
            start = time.perf_counter()
            (found,) = self.record.take_in()
            spent = time.perf_counter() - start
            assert not found.refused, found
            return spent

        found = timings({"bare": bare, "taken": taken}, plan.rounds)
        what = f"taking in a push to {self.files} files"
        against = found["bare"].scaled(1e3)
        return beside(GROUP, what, "ms", found["taken"].scaled(1e3), "git fetch with fsck", against, at_most=1.5)

    # The watcher

    def watch(self) -> "subprocess.Popen[bytes]":
        settings = self.home / "settings.json"
        launch = (sys.executable, "-I", "-S", "{directory}/infra/runner.py", str(self.home / "bot"), "{branch}")
        WatcherSettings(home=str(self.home), launch=launch).save(settings)
        words = [sys.executable, "-I", "-S", str(Path(watcher.__file__).parent), str(settings)]
        process = subprocess.Popen(words)
        self.until("main", 0)
        return process

    def until(self, branch: str, before: int) -> None:
        log = self.home / "bot" / "logs" / "bootstrap.log"
        while not log.exists() or f"SUCCESS {branch}\n" not in log.read_text()[before:]:
            time.sleep(0.005)

    def idle(self, plan: Plan, pid: int) -> Row:
        """Of one processor, while the agent sleeps."""

        def spent() -> int:
            return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])

        seconds = plan.size(60, 2)
        time.sleep(2)
        before = spent()
        time.sleep(seconds)
        share = (spent() - before) / seconds / 1e7
        return alone(GROUP, "watcher while the agent sleeps", "%", Timing.of([share]), at_most=0.1)

    def obeyed(self, plan: Plan) -> Row:
        """From the signal to SUCCESS of the branch, the end of the one before included."""
        samples: list[float] = []
        for number in range(min(plan.rounds, 4)):  # more in ten minutes are slowed down
            branch = "main" if number % 2 else "agent/work"
            log = self.home / "bot" / "logs" / "bootstrap.log"
            before = len(log.read_text())
            start = time.perf_counter()
            signal = self.home / "bot" / ".signal"
            (signal / ".new").write_text(branch + "\n")
            (signal / ".new").rename(signal / "bootstrap")
            self.until(branch, before)
            samples.append((time.perf_counter() - start) * 1e3)
        what = "from a signal to SUCCESS of the next, with a bare launcher"
        return alone(GROUP, what, "ms", Timing.of(samples), at_most=2000.0)
