"""The checkout of a session beside bare git: making it, and saying what changed in it."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.home import BenchHome
from bench.rounds import timings
from bench.row import Plan, Row, beside
from coilclaw.features.runner.checkouts import Checkout, Checkouts
from coilclaw.features.runner.sources import RepoSource
from coilclaw.packets.box import BoxSpec
from coilclaw.packets.ports import Box
from coilclaw.sandbox.box import open_box

GROUP = "checkouts"


def measure(plan: Plan) -> Iterator[Row]:
    """A checkout of a repository that is cached, as every session after the first has it."""
    folder = plan.folder / GROUP
    folder.mkdir()
    home = BenchHome(folder)
    try:
        with asyncio.Runner() as loop:
            yield from _Bench(home, folder, loop).rows(plan, plan.size(5000, 100))
    finally:
        home.close()


class _Bench:
    """A home with real boxes, and a repository of the owner's."""

    def __init__(self, home: BenchHome, folder: Path, loop: asyncio.Runner) -> None:
        self.app = home.app
        self.box: Box = open_box(hide=(str(self.app.home.root),), owned=(str(self.app.workspace),))
        self.app.open_box = lambda: self.box
        self.checkouts = Checkouts(self.app)
        self.folder = folder
        self.site = folder / "site"
        self.source = RepoSource(provider="local", owner="", name="site", repository="site", path=str(self.site))
        self.loop = loop
        self.count = 0

    def git(self, place: Path, *args: str) -> None:
        """One git command, without anybody's settings."""
        environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
        named = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
        subprocess.run(["git", "-C", str(place), *named, *args], env=environ, check=True, capture_output=True)

    def prepare(self) -> Checkout:
        """A new checkout."""
        self.count += 1
        return self.loop.run(self.checkouts.prepare(f"sess_{self.count}", self.source, "", "branch", "write"))

    def boxed_true(self) -> None:
        """The least that a box costs."""
        self.loop.run(self.box.run(BoxSpec(command=("/bin/true",), workspace=str(self.site), cwd=str(self.site))))

    def rows(self, plan: Plan, count: int) -> Iterator[Row]:
        """Make a repository of so many files, and measure."""
        self.site.mkdir()
        self.git(self.site, "init", "-q")
        for number in range(count):
            place = self.site / "many" / str(number % 100)
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.txt").write_text(f"file {number}\n" * 20)
        self.git(self.site, "add", "-A")
        self.git(self.site, "commit", "-q", "-m", "many")
        yield self.made(plan, count)
        yield self.changed(plan, count)

    def made(self, plan: Plan, count: int) -> Row:
        """A checkout, beside the clone and the box that it cannot do without."""
        place = self.folder / "plain"

        def plain() -> float:
            start = time.perf_counter()
            self.git(self.folder, "clone", "-q", "--shared", str(self.site), str(place))
            self.boxed_true()
            spent = time.perf_counter() - start
            shutil.rmtree(place)
            return spent

        def made() -> float:
            start = time.perf_counter()
            checkout = self.prepare()
            spent = time.perf_counter() - start
            self.loop.run(self.checkouts.remove(checkout.session_id))
            return spent

        found = timings({"plain": plain, "made": made}, plan.rounds)
        what, against = f"checkout of {count} files", "git clone --shared, boxed true"
        return beside(
            GROUP, what, "ms", found["made"].scaled(1e3), against, found["plain"].scaled(1e3), at_most=1.5
        )  # fmt: skip

    def changed(self, plan: Plan, count: int) -> Row:
        """What changed in a checkout, beside git that trusts it."""
        checkout = self.prepare()
        place = Path(checkout.path)
        for path in sorted(place.rglob("*.txt"))[:20]:
            path.write_text("changed\n")
        alternates = place / ".git" / "objects" / "info" / "alternates"
        alternates.write_text(f"{checkout.cache}\n")  # outside a box it is not where a box has it

        def plain() -> float:
            start = time.perf_counter()
            self.git(place, "diff", "--numstat", "HEAD")
            self.boxed_true()
            return time.perf_counter() - start

        def told() -> float:
            start = time.perf_counter()
            found = self.loop.run(self.checkouts.changes(checkout))
            spent = time.perf_counter() - start
            assert len(found) == 20
            return spent

        found = timings({"plain": plain, "told": told}, plan.rounds)
        what, against = f"changes in {count} files", "git diff --numstat, boxed true"
        return beside(GROUP, what, "ms", found["told"].scaled(1e3), against, found["plain"].scaled(1e3))
