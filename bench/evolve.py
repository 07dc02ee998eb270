"""The agent that works on itself: taking in a push beside a bare fetch, obeying a signal, an idle watcher."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.rounds import Timing, timings
from bench.row import Plan, Row, alone, beside
from coilclaw.features.evolve import watcher
from coilclaw.features.evolve.watcher.record import Record
from coilclaw.features.evolve.watcher.settings import WatcherSettings

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
