"""The watcher's loop: hear signals, orders and answers, take in branches. It can be killed after every step."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .agent import adopt_orphans, kill_tree, reap
from .journal import lock, read_json, remove, write_json
from .record import RESTORING, RecordError, is_branch
from .settings import WatcherSettings
from .supervisor import KINDS, AgentSupervisor
from .volume import AgentSignal, erase

INTAKE_SECONDS = 2
OLD_AGENT_SECONDS = 30
TOLD = 3
"""So many refused branches are told one by one at a time."""


class Watcher(AgentSupervisor):
    """One of these runs for a home; see docs/decisions/0043."""

    def __init__(self, settings: WatcherSettings) -> None:
        super().__init__(settings)
        self._parent = os.getppid()
        self._next_look = self._looked = 0.0
        self._seen: tuple[int, ...] = ()

    # The outermost loop

    def run(self) -> int:
        """Watch until told to stop, or until the process that started this is gone."""
        if lock(self.state_folder / "watcher.lock") is None:
            self.log("another watcher runs already")
            return 75
        adopt_orphans()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.stop)
        self.log(f"watching, process {os.getpid()}")
        troubles = 0
        recovered = False
        while not self.over:
            try:
                if not recovered:
                    self.recover()
                    recovered = True
                self.tick()
                troubles = 0
            except Exception as error:  # the watcher outlives a full disk and whatever else goes wrong
                troubles = min(troubles + 1, 20)
                self.log(f"{type(error).__name__}: {error}")
                with suppress(OSError):
                    self.state.note(reason=f"{type(error).__name__}: {error}"[:300])
            self.wait(min(self.settings.longest_pause, self.settings.poll_seconds * 2**troubles))
        self.stop_agent()
        if not self.state.held:
            with suppress(OSError):
                self.state.note(phase="stopped", branch="", sha="", pid=0)
        self.log("stopped")
        return 0

    def stop(self, _number: int, _frame: object) -> None:
        """Told to stop by a signal of the system's."""
        self.stopping = True

    @property
    def over(self) -> bool:
        """Whether to end: told so, or left alone."""
        return self.stopping or os.getppid() != self._parent

    def wait(self, seconds: float) -> None:
        """Until it is time to look again; what the agent prints is taken in meanwhile."""
        end = time.monotonic() + seconds
        while not self.over and (left := end - time.monotonic()) > 0:
            if self.agent is None:
                time.sleep(min(left, 0.2))
            else:
                self.agent.wait(min(left, 0.5))
                if self.agent.ended() is not None:
                    return

    def tick(self) -> None:
        """Look at everything once."""
        if self.agent is None:
            reap(0)
        self.hear_orders()
        self.hear_answers()
        self.see_success()
        if not self.state.held:
            self.obey_signals()
        self.judge()
        self.watch()
        self.look()
        if self.agent is None and not self.state.held and self._pauses.over and not self.stopping:
            self.catch_up()

    def catch_up(self) -> None:
        """Launch main; before it, once more, what was journaled and could not be launched."""
        journal = self.state_folder / "journal.json"
        if (entry := read_json(journal)) and not entry.get("again"):
            write_json(journal, again := entry | {"again": True})
            self.finish(self.act(again))
            return
        if entry:
            self.report(f"{entry.get('branch')} could not be launched; main is started")
            remove(journal)
        self.launch("main")

    # After a crash

    def recover(self) -> None:
        """End what an earlier watcher left behind, and finish what it had begun."""
        pid, started = self.state.number("pid"), self.state.text("started")
        if pid > 1 and started:
            kill_tree(pid, started=started)
        end = time.monotonic() + OLD_AGENT_SECONDS
        while self._agent_lock is None:
            self._agent_lock = lock(self.state_folder / "agent.lock")
            if self._agent_lock is None and (time.monotonic() > end or self.stopping):
                raise RecordError("an earlier agent is still alive and holds agent.lock; end it, then this goes on")
            time.sleep(0 if self._agent_lock is not None else 0.1)
        for left in self.volume.folder.glob(".watcher-*"):
            erase(left)
        self.tell_held()
        if not self.state.held:
            branch = self.state.text("branch")
            ready = branch and self.volume.succeeded(branch, self.state.number("offset"))
            self.state.note(
                phase="idle", branch="", sha="", pid=0, started="", ran=branch if ready else self.state.text("ran")
            )
        self.reached("recovered")
        if entry := read_json(self.state_folder / "journal.json"):
            self.log(f"going on with {entry.get('kind')} {entry.get('target')}")
            self.finish(self.act(entry))

    # Signals of the agent, orders of the owner

    def obey_signals(self) -> None:
        """Handle what lies in .signal: a rollback first, each once, journaled before anything is done about it."""
        if self.volume.quiet(KINDS):
            return
        branch = None
        for kind in KINDS:
            found = self.volume.signal(kind)
            if found is None:
                continue
            if found.wrong:
                self.volume.refuse_signal(found)
                self.report(f"a {kind} signal was moved aside: {found.wrong}")
                continue
            entry: dict[str, object] = {
                "kind": kind, "target": found.target, "identity": found.identity, "step": "accepted",
                "from": self.ran(),
            }  # fmt: skip
            self.begin(entry)
            branch = self.act(entry) or branch
        self.finish(branch)

    def ran(self) -> str:
        """The branch that runs or ran last, if it reached SUCCESS."""
        if self.agent:
            return self.agent.branch if self.agent.ready is not None else ""
        return self.state.text("ran")

    def hear_orders(self) -> None:
        """Do what the owner's commands ask for; a hold ends with any of them."""
        for path, order in self.desk.orders():
            kind, branch = order.get("kind"), str(order.get("branch", ""))
            if kind == "release":
                self.release("the owner said so")
                remove(path)
            elif kind == "rollback" or (kind == "launch" and is_branch(branch)):
                kind = "rollback" if kind == "rollback" else "bootstrap"
                target = str(order.get("ref", "")) if kind == "rollback" else branch
                entry: dict[str, object] = {
                    "kind": kind,
                    "target": target,
                    "order": path.name,
                    "step": "accepted",
                    "from": "",
                }
                self.begin(entry)
                self.release("the owner gave an order")
                self.finish(self.act(entry), at_once=True)
            else:
                self.log(f"an order was not understood: {order}")
                remove(path)

    def begin(self, entry: dict[str, object]) -> None:
        """Journal what is to be done; from here on it will be, once."""
        write_json(self.state_folder / "journal.json", entry)
        self.log(f"{entry['kind']} {entry['target']} ({entry['step']})")  # after: it is logged at most once
        self.reached(f"{entry['kind']} {entry['step']}")

    def act(self, entry: dict[str, object]) -> str | None:
        """Do what is journaled, up to the launch; gives the branch to launch. Done again, it changes nothing."""
        if entry["step"] != "launch":
            try:
                branch = self.roll_back(entry) if entry["kind"] == "rollback" else self.bootstrap(entry)
            except RecordError as error:  # what cannot be done now cannot be done the next time either
                self.report(f"{entry['kind']} {entry['target']} could not be done: {error}")
                branch = "main" if self.agent is None else None
            if branch is None:
                self.drop(entry)
                remove(self.state_folder / "journal.json")
                return None
            entry |= {"step": "launch", "branch": branch}
            self.begin(entry)
        self.drop(entry)
        self.reached(f"{entry['kind']} dropped")
        return str(entry["branch"])

    def drop(self, entry: dict[str, object]) -> None:
        """Delete the signal or order that was handled."""
        if "order" in entry:
            remove(self.state_folder.parent / "desk" / str(entry["order"]))
        else:
            self.volume.drop_signal(AgentSignal(str(entry["kind"]), "", str(entry["identity"])))

    def finish(self, branch: str | None, *, at_once: bool = False) -> None:
        """Launch what the signals ended in; what the owner ordered at once, and before any pause is over."""
        if branch is None:
            return
        if not at_once and (pause := self._pauses.hurry()) > 0:
            self.log(f"too many launches in ten minutes; {branch} waits {pause:.0f} seconds")
            self.sleep(pause, until=self.desk.orders)
        if not self.over:
            self.launch(branch)
            remove(self.state_folder / "journal.json")
            self.reached("signal done")

    def sleep(self, seconds: float, until: Callable[[], object] = lambda: False) -> None:
        """A pause that ends when the watcher has to, or something is there."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.over and not until():
            time.sleep(min(0.2, seconds))

    def roll_back(self, entry: dict[str, object]) -> str | None:
        """A new branch at the ref; an unknown ref is refused, and what runs goes on."""
        if "branch" not in entry:
            commit = self.record.resolve(str(entry["target"]))
            if commit is None:
                self.report(f"rollback refused: the record has no {str(entry['target'])[:80]!r}")
                return None
            entry |= {"commit": commit, "branch": self.record.rollback_name(), "step": "named"}
            self.begin(entry)
        self.stop_agent()
        self.take_in()
        branch = self.record.roll_back(str(entry["commit"]), str(entry["branch"]))
        self.reached("rollback branched")
        self.report(f"rollback: {branch} is at {str(entry['commit'])[:12]}; main stays what it is")
        return branch

    def bootstrap(self, entry: dict[str, object]) -> str | None:
        """Take in what was pushed; for main, ask for the merge of what ran; a branch must be there with a runner."""
        target = str(entry["target"])
        self.stop_agent()
        self.take_in(target)
        self.reached("bootstrap taken in")
        if target == "main":
            if str(entry["from"]).startswith("agent/"):
                self.ask_merge(str(entry["from"]))
            return "main"
        if self.record.sha(f"refs/heads/{target}") and (target.startswith(RESTORING) or self.volume.has_runner(target)):
            return target
        self.line(f"FAILED {target} - not pushed, or its folder has no infra/runner.py", "FALLBACK main")
        self.report(f"{target} cannot be started: push it, and clone it to /bot/{target}/coilclaw")
        return "main"

    # Merging

    def ask_merge(self, branch: str) -> None:
        """Ask the desk to bring a branch into main; how that is decided is not the watcher's business."""
        new, main = self.record.sha(f"refs/heads/{branch}"), self.record.main()
        if new is None or (self.record.descends(main, new) and not branch.startswith(RESTORING)):
            return
        name = f"merge-{branch.replace('/', '+')}-{new[:12]}"
        name += "+" * self.state.names("expired").count(name)  # another question, if nobody answered the one before
        if name in self.state.names("refused"):
            self.report(f"the merge of {branch} at {new[:12]} was refused before; push something better")
            return
        self.desk.ask(name, {"kind": "merge", "branch": branch, "old": main, "new": new})
        self.reached("merge asked")
        more = (
            "; it also changes the directives or spec/, which stay as they are" if self.record.proposes(branch) else ""
        )
        self.report(f"{branch} at {new[:12]} asks to be merged into main{more}")
        end = time.monotonic() + self.settings.merge_wait
        while time.monotonic() < end and not self.stopping and self.desk.asked(name):
            self.hear_answers()
            self.sleep(0.1)

    def hear_answers(self) -> None:
        """Note what the desk decided."""
        for name, answer in self.desk.answers():
            asked = self.desk.asked(name)
            if asked.get("kind") == "merge":
                branch, why = str(asked.get("branch")), str(answer.get("why", ""))
                if answer.get("ok") is True:
                    self.state.note(merged=[*self.state.names("merged"), branch][-50:])
                    self.report(f"{branch} was merged into main")
                elif answer.get("expired") is True:
                    self.state.note(expired=[*self.state.names("expired"), name.rstrip("+")][-50:])
                    self.report(f"nobody answered whether {branch} is merged; started again, it can ask again")
                else:
                    self.state.note(refused=[*self.state.names("refused"), name][-50:])
                    self.report(f"{branch} was not merged: {why}")
                self._next_look = 0
            self.reached("answer noted")
            self.desk.settle(name)

    def take_in(self, first: str = "") -> None:
        """Bring the agent's branches and reports into the record; what is refused is reported."""
        refused: list[str] = []
        # What is taken in comes first: of refused branches there may be more than the desk has room for.
        for taken in sorted(self.record.take_in(first), key=lambda each: bool(each.refused)):
            if taken.refused:
                refused.append(f"{taken.branch} was not taken in: {taken.refused}")
            self.log(refused[-1] if taken.refused else f"{taken.branch} is at {taken.sha}")
            if len(refused) <= TOLD:
                self.desk.moved(taken.branch, taken.sha, refused=bool(taken.refused))
        for text in [
            *refused[:TOLD],
            *([f"{len(refused) - TOLD} more branches were not taken in"] if len(refused) > TOLD else []),
        ]:
            self.report(text)
        self.reached("taken in")
        try:
            self.record.fold()
        except RecordError as error:  # reports can wait; what runs, and whether it runs, cannot
            self.log(f"reports were not taken over: {error}")
        self.reached("folded")

    def pack(self) -> None:
        """Keep the record small; what cannot be packed now is as good unpacked."""
        try:
            if self.record.pack():
                self.log("the record was packed")
        except (RecordError, OSError) as error:
            self.log(f"the record could not be packed: {error}")
        self.reached("packed")

    def look(self) -> None:
        """Every ten minutes, and when a ref moved: take in, show main, and restart what runs on an old main."""
        now, seen = time.monotonic(), self.record.fingerprint()
        if now < self._next_look and (seen == self._seen or now < self._looked + INTAKE_SECONDS):
            return
        self._seen, self._looked = seen, now  # taken before: what is pushed meanwhile is seen next time
        self.take_in()
        self._next_look = now + (INTAKE_SECONDS if self.record.unfinished else self.settings.look_seconds)
        self.record.show()
        if self.agent or self.state.held:  # nobody waits for it to start meanwhile
            self.pack()
        main = self.record.main()
        if self.state.held and self.record.differs(self.state.text("held_main"), main):
            self.release("main was changed")
        if self.agent and self.agent.branch == "main" and self.record.differs(self.agent.sha, main):
            self.report(f"main moved to {main[:12]}; it is started anew")
            self.stop_agent()
            self.reached("old main stopped")


def watch(path: Path) -> int:
    """Read the settings and watch; gives the exit code."""
    return Watcher(WatcherSettings.load(path)).run()
