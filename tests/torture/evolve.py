"""Kill watcher, launcher and runner at each step of the watcher's, and at random: no signal lost or done twice.

`python -m tests.torture.evolve --kills N --random N`; `scripts/torture --evolve N` runs a part of it.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from coilclaw.features.evolve.watcher.agent import descendants, is_alive
from tests.features.evolve.watcher_world import COMMS, PATIENCE, SLEEPS, WATCHER, World

DYING = """
import os, signal, sys
from pathlib import Path
sys.path.append(sys.argv[1])
from watcher.agent import descendants
from watcher.loop import Watcher
from watcher.settings import WatcherSettings
step, victim, struck, path = sys.argv[2:]
class Dying(Watcher):
    def reached(self, name):
        if step.startswith("/"):
            with open(step, "a") as file:
                file.write(name + "\\n")
        elif name == step and victim == "watcher":
            os.kill(os.getpid(), signal.SIGKILL)
        elif name == step and self.agent and not os.path.exists(struck):
            for pid in [self.agent.pid] if victim == "launcher" else descendants(self.agent.pid):
                os.kill(pid, signal.SIGKILL)
                open(struck, "w").close()
sys.exit(Dying(WatcherSettings.load(Path(path))).run())
"""
VICTIMS = ("watcher", "launcher", "runner")
CHANGES = ("launch", "bootstrap", "merge", "rollback")


class EvolveTally(msgspec.Struct):
    """What came of killing in the middle of one change."""

    change: str
    kills: int = 0
    steps: int = 0
    wrong: list[str] = []


class Pit:
    """One home that goes through a change again and again, and is killed in the middle of it."""

    def __init__(self, folder: Path, change: str) -> None:
        folder.mkdir(parents=True)
        self.world = World(folder, longest_pause=0.05, runaways_per_hour=1000, main_failures=10_000)
        self.change = change
        self.round = 0
        self.tally = EvolveTally(change)
        self.struck = folder / "struck"
        (folder / "dying.py").write_text(DYING)

    def start(self, step: str = "", victim: str = "watcher") -> None:
        """A watcher that dies at a step, or what it launched does; without a step, an ordinary one."""
        if step:
            words = (str(self.world.root / "dying.py"), str(WATCHER.parent), step, victim, str(self.struck))
            self.world.start(sys.executable, "-I", "-S", *words)
        else:
            self.world.start()

    def steps(self) -> list[str]:
        """Which steps the change goes through, undisturbed."""
        recorded = self.world.root / "steps"
        self.prepare()
        self.begin(str(recorded))
        self.come_to_rest()
        self.world.end()
        return list(dict.fromkeys(recorded.read_text().split("\n")[:-1]))

    def prepare(self) -> None:
        """Have the home where the change begins, with an ordinary watcher running."""
        self.round += 1
        self.before = "main"
        if self.world.process is None:
            self.start()
        self.world.wait_running("main")
        if self.change in {"bootstrap", "merge"}:
            report = f"- report {self.round}\n"
            self.new = self.world.push(f"agent/n{self.round}", {f"f{self.round}": "x\n", "COMMS.md": COMMS + report})
        if self.change == "merge":
            self.world.send("bootstrap", f"agent/n{self.round}")
            self.before = f"agent/n{self.round}"
            self.world.wait_running(self.before)
        self.branches = self.rollbacks()
        self.accepted = self.world.log().count("(accepted)")

    def act(self) -> None:
        """What the agent does."""
        if self.change == "bootstrap":
            self.world.send("bootstrap", f"agent/n{self.round}")
        elif self.change == "merge":
            self.world.send("bootstrap", "main")
        elif self.change == "rollback":
            self.world.send("rollback", self.world.first)

    def begin(self, step: str, victim: str = "watcher") -> None:
        """Exchange the watcher for one that kills at a step, and act; what a branch asks for counts as it runs."""
        if self.before == "main":
            self.world.end()
        else:
            self.world.kill()
        self.act()
        self.start(step, victim)

    def kill_at(self, step: str, victim: str = "watcher") -> None:
        """One round: killed at a step, started again, looked at. At some steps no agent runs that could be killed."""
        self.struck.unlink(missing_ok=True)
        self.prepare()
        self.begin(step, victim)
        if victim == "watcher":
            self.await_death()
        self.settle(f"{step}, {victim}")
        if victim != "watcher" and not self.struck.exists():
            self.tally.kills -= 1

    def kill_at_random(self, chance: random.Random) -> None:
        """One round: watcher, launcher or runner killed at some moment."""
        self.prepare()
        self.act()
        time.sleep(chance.random() * 0.8)
        victim = chance.choice(("watcher", "watcher", "launcher", "runner"))
        assert self.world.process is not None
        below = set(descendants(self.world.process.pid))  # never anything else, whatever the state says
        launcher = int(str(self.world.state().get("pid") or 0))
        if victim == "watcher":
            self.world.kill()
        else:
            for other in below & ({launcher} if victim == "launcher" else set(descendants(launcher))):
                with suppress(ProcessLookupError):
                    os.kill(other, signal.SIGKILL)
        self.settle(f"random {victim}")

    def await_death(self) -> None:
        """A step that is not reached within its time is an error of the torture's, and said."""
        assert self.world.process is not None
        end = time.monotonic() + PATIENCE
        while self.world.process.poll() is None:
            if time.monotonic() > end:
                self.tally.wrong.append(f"{self.change}: the watcher did not die")
                self.world.end()
                return
            self.desk()
            time.sleep(0.01)
        self.world.process = None

    def settle(self, how: str) -> None:
        """Start again if need be, come to rest, and hold everything against what must be."""
        self.tally.kills += 1
        if self.world.process is None:
            self.start()
        try:
            self.come_to_rest()
            self.judge(how)
        except (AssertionError, OSError) as error:
            self.tally.wrong.append(f"{self.change} at {how}: {error}"[:3000])
            self.world.end()  # the next round begins with main again

    def come_to_rest(self) -> None:
        """Until something runs, no signal waits, nothing is journaled, and the desk has nothing to do."""
        self.world.wait(self.rests, "at rest")

    def rests(self) -> bool:
        self.desk()
        left = [path for path in (self.world.volume / ".signal").glob("*") if not path.name.startswith(".")]
        journal = (self.world.home / "state/journal.json").exists()
        return (
            self.world.state().get("phase") == "running" and not left and not journal and not self.world.asks("merge")
        )

    def desk(self) -> None:
        """Approve every merge."""
        for ask in self.world.asks("merge"):
            if not (self.world.home / "desk" / f"answer-{ask['id']}.json").exists():
                self.world.record.merge(str(ask["branch"]), str(ask["old"]), str(ask["new"]))
                self.world.answer(ask, ok=True)

    def rollbacks(self) -> int:
        words = ("for-each-ref", "--format=%(refname)", "refs/heads/agent/rollback-*")
        return len(self.world.record.git.run(*words).decode().split())

    def judge(self, how: str) -> None:
        """Every signal once, every merge once, every report once, and a record that is whole."""
        world, log = self.world, self.world.log()
        accepted = log.count("(accepted)") - self.accepted
        # It is logged after it was journaled: killed in between, not at all, and what follows shows that it was done.
        least, most = (0, 0) if self.change == "launch" else (0 if how.startswith("random") else 1, 1)
        assert least <= accepted <= most, f"{accepted} signals accepted"
        if self.change == "bootstrap":
            assert f"launched agent/n{self.round} " in log, "the branch was never launched"
        if self.change == "rollback":
            assert self.rollbacks() == self.branches + 1, "one branch for one rollback"
            assert world.record.sha(f"refs/heads/agent/rollback-{self.branches + 1}") == world.first
        if self.change == "merge":
            merged = world.record.git.text("log", "--format=%s", "main").split("\n").count(f"Merge agent/n{self.round}")
            assert merged <= 1, "merged twice"
            if not how.startswith("random"):
                assert world.record.descends(world.record.main(), self.new), "the merge was lost"
        if self.change in {"bootstrap", "merge"}:
            world.wait(
                lambda: f"agent/n{self.round}: report {self.round}\n" in world.record.comms(), "the report is there"
            )
            assert world.record.comms().count(f": report {self.round}\n") == 1, "a report twice"
        assert "- be good" in world.record.comms()
        assert world.record.git.text("show", "main:infra/runner.py") == SLEEPS.strip()
        if self.tally.kills % 10 == 0:
            world.fsck()
        if self.change != "launch" or world.state().get("branch") != "main":  # back to where the next round begins
            world.end()
        self._alone()

    def _alone(self) -> None:
        """Never two agents: what runs the runner here is below the one watcher."""
        known = {self.world.process.pid, *descendants(self.world.process.pid)} if self.world.process else set[int]()
        mark = str(self.world.volume).encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if b"runner.py" in (line := path.read_bytes()) and mark in line and int(path.parent.name) not in known:
                    assert not is_alive(int(path.parent.name)), "an agent runs that nobody watches"


def torture_change(folder: Path, change: str, kills: int, at_random: int, seed: int, every: int = 1) -> EvolveTally:
    """Kill each victim at every step of a change (or one of them at every so many), and at random moments in it."""
    pit = Pit(folder, change)
    chance = random.Random(f"{seed} {change}")
    try:
        steps = [step for step in pit.steps() if step != "recovered" or change == "launch"]
        pit.tally.steps = len(steps)
        for number, step in enumerate(steps[seed % every :: every]):
            for victim in VICTIMS if every == 1 else (VICTIMS[number % len(VICTIMS)],):
                for _ in range(kills):
                    pit.kill_at(step, victim)
        for _ in range(at_random):
            pit.kill_at_random(chance)
        pit.world.end()
        pit.world.fsck()
    finally:
        if pit.world.process is not None:
            pit.world.end()
    return pit.tally


def main() -> int:
    """All changes, in one process each when asked for by name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=2, help="at each step of each change")
    parser.add_argument("--random", type=int, default=10, help="for each change")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("changes", nargs="*", default=CHANGES)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="evolve-"))
    bad = False
    for change in given.changes:
        tally = torture_change(folder / change, change, given.kills, given.random, given.seed)
        sys.stdout.write(f"{change}: {tally.steps} steps, {tally.kills} kills, {len(tally.wrong)} wrong\n")
        for said in tally.wrong[:10]:
            sys.stdout.write(f"! {said}\n")
        bad = bad or bool(tally.wrong)
    if not bad:
        shutil.rmtree(folder)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
