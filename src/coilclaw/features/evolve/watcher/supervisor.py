"""One agent at a time: launched, judged by its log, watched for what it uses, ended; back to main, or held."""

from __future__ import annotations

import os
import time
from pathlib import Path

from .agent import RunningAgent, started_at
from .journal import DeskFiles, Log, WatcherState
from .pauses import Pauses
from .record import RESTORING, Record, RecordError, is_branch, stamp
from .settings import WatcherSettings
from .usage import UsageWatch
from .volume import OutputLog, Volume, erase, measure

SIDE_BYTES, SIDE_FILES = 64 << 20, 4000
"""The agent's side of the record is emptied when it holds more."""
KINDS = ("rollback", "bootstrap")


class AgentSupervisor:
    """Knows the agent, its volume, and what the owner must be told."""

    def __init__(self, settings: WatcherSettings) -> None:
        home = Path(settings.home)
        self.settings = settings
        self.state_folder = home / "state"
        self.record = Record(home)
        self.volume = Volume(home / "bot", self.state_folder / "aside", settings.agent_uid, settings.agent_gid)
        self.desk = DeskFiles(home / "desk")
        self.log = Log(self.state_folder / "watcher.log", settings.log_bytes)
        self.agent: RunningAgent | None = None
        self.state = WatcherState(self.state_folder / "state.json")
        self.stopping = False
        self._pauses = Pauses(settings)
        self._offset = 0
        self._errors = OutputLog(self.volume, settings.log_bytes)
        self._usage: UsageWatch | None = None
        self._clock = time.time() - time.monotonic()
        self._agent_lock: int | None = None

    def reached(self, step: str) -> None:
        """A named step is behind us; here a crash must lose nothing and repeat nothing."""

    def report(self, text: str, severity: str = "") -> None:
        """Say it in the log, in COMMS.md, and with a severity to the owner at once."""
        self.log(text)
        try:
            if severity:
                self.desk.notice(severity, text)
            if told := text if severity else self._pauses.tells(text):  # each line is a commit, for good
                self.record.tell(told)
        except (RecordError, OSError) as error:
            self.log(f"could not report it: {error}")

    # Launching and ending

    def launch(self, branch: str) -> None:
        """Start a branch; main and rollbacks from files written fresh from the record."""
        if self._agent_lock is None:
            raise RecordError("the lock of the agent is not held")
        self.stop_agent()
        self.volume.prepare()
        self.tidy()
        commit = self.record.sha(f"refs/heads/{branch}") or ""
        self.remove_merged()
        if branch == "main" or branch.startswith(RESTORING):
            staged = self.volume.folder / f".watcher-{os.getpid()}-{time.time_ns()}"
            try:
                self.record.check_out(commit, staged, self.settings.agent_uid, self.settings.agent_gid)
                self.reached("launch checked out")
                self.volume.replace_code(branch, staged)
            except RecordError as error:
                self.unlaunchable(branch, str(error))
                return
            finally:
                erase(staged)
        self._offset = self.volume.log_end("bootstrap.log", self.settings.log_bytes)
        self._errors.write(f"--- {stamp()} {branch} {commit}\n".encode())
        self.reached("launch ready")
        argv = self.settings.argv(branch, commit, str(self.volume.code(branch)))
        self.agent = RunningAgent(argv, branch, commit, self._agent_lock, self._errors.write)
        self.reached("launch started")
        self._pauses.launched()
        self._usage = UsageWatch(self.settings, time.monotonic())
        pid = self.agent.pid
        self.state.note(
            phase="starting",
            branch=branch,
            sha=commit,
            pid=pid,
            started=started_at(pid),
            reason="",
            ran="",
            offset=self._offset,
        )
        self.log(f"launched {branch} {commit[:12]} as process {pid}")
        self.reached("launch noted")

    def tidy(self) -> None:
        """Keep the agent's side of the record usable and small; while no agent runs, and no reason not to start one."""
        size, count = measure(self.record.door.directory / "objects", SIDE_BYTES, SIDE_FILES)
        try:
            self.record.sweep_side()
            if size > SIDE_BYTES or count > SIDE_FILES:
                emptied = self.record.empty_side(self.settings.agent_uid, self.settings.agent_gid)
                self.log("the agent's side was emptied" if emptied else "the record does not have all of its side yet")
        except (RecordError, OSError) as error:
            self.log(f"the agent's side could not be tidied: {error}")
        self.reached("tidied")

    def unlaunchable(self, branch: str, why: str) -> None:
        """Files that must not be written are a reason to go on without them: with main, or not at all."""
        if branch == "main":
            self.hold(f"main cannot be checked out: {why}")
            return
        self.line(f"FAILED {branch} {why}", "FALLBACK main")
        self.report(f"{branch} cannot be checked out: {why}")

    def remove_merged(self) -> None:
        """Remove the folders of branches that were merged."""
        merged = self.state.names("merged")
        for branch in merged:
            if branch != "main" and is_branch(branch):
                self.volume.remove_code(branch)
        if merged:
            self.state.note(merged=[])

    def stop_agent(self) -> None:
        """End the agent with everything it started; nothing else is done before that is sure."""
        if self.agent:
            agent, self.agent = self.agent, None
            gone = agent.stop(self.settings.stop_seconds)
            ran = agent.branch if agent.ready is not None else ""
            self._errors.close()
            if not gone:
                self.agent = agent
                raise RecordError("a process of the agent does not end")
            self.log(f"{agent.branch} ended")
            self.state.note(phase="idle", branch="", sha="", pid=0, started="", ran=ran)
        self.reached("stopped")

    def line(self, *texts: str) -> None:
        """Add lines to bootstrap.log."""
        for text in texts:
            self.volume.append("bootstrap.log", f"{stamp()} {text}", self.settings.log_bytes)

    # Judging

    def see_success(self) -> None:
        """Notice that the agent said it is up."""
        agent = self.agent
        if agent and agent.ready is None and self.volume.succeeded(agent.branch, self._offset):
            agent.ready = time.monotonic()
            self.state.note(phase="running", **({"failures": 0} if agent.branch == "main" else {}))
            self.log(f"{agent.branch} reached SUCCESS")
            if agent.branch == "main":
                self.record.mark_good(agent.sha)

    def judge(self) -> None:
        """Whether the agent started, ended, or takes too long."""
        agent, now = self.agent, time.monotonic()
        if agent is None:
            return
        code = agent.ended()
        self.see_success()
        if code is not None:
            self.stop_agent()
            if any(found and not found.wrong for found in map(self.volume.signal, KINDS)):
                return  # it ended to be replaced; the signal is handled next
            self.failed(agent, f"ended with {code} " + ("while working" if agent.ready else "before SUCCESS"))
        elif agent.ready is None and now - agent.started > self.settings.start_seconds:
            self.stop_agent()
            self.failed(agent, f"no SUCCESS within {self.settings.start_seconds:g} seconds")
        elif agent.ready is not None and now - agent.ready > self.settings.steady_seconds:
            self._pauses.steady()

    def failed(self, agent: RunningAgent, why: str) -> None:
        """Back to main after a pause; main failing to start too often is held."""
        self.line(f"FAILED {agent.branch} {agent.sha[:12]} {why}")
        pause = self._pauses.crashed()
        self.reached("failed")
        count = self.state.number("failures")
        if agent.branch == "main" and agent.ready is None:
            count += 1
            self.state.note(failures=count)
        if count >= self.settings.main_failures:
            good = self.record.last_good()
            offer = (
                f"`coilclaw evolve rollback {good[:12]}` goes back to the last that worked"
                if good
                else "no main ever worked"
            )
            self.hold(f"main failed to start {count} times: {why}; {offer}")
            return
        self.line("FALLBACK main")
        self.report(f"{agent.branch} {why}; main is started in {pause:.0f} seconds, logs/errors.log has the output")

    def hold(self, reason: str) -> None:
        """Launch nothing until the owner acts."""
        self.stop_agent()
        self.state.note(phase="held", reason=reason, held_main=self.record.main(), told=False)
        self.reached("held")
        self.tell_held()

    def tell_held(self) -> None:
        """Have the owner told why nothing runs; after a crash in between, again."""
        if self.state.held and not self.state.number("told"):
            self.report(f"HELD: {self.state.text('reason')}", "critical")
            self.state.note(told=True)

    def release(self, why: str) -> None:
        """Go on after a hold."""
        if self.state.held:
            self._pauses.forget()
            self.state.note(phase="idle", reason="", failures=0)
            self.report(f"released: {why}")

    # What it uses

    def watch(self) -> None:
        """End an agent that uses more than it may; twice in an hour is a reason to hold."""
        now = time.monotonic()
        offset = time.time() - now
        if abs(offset - self._clock) > self.settings.clock_seconds:
            self.report(f"the clock was changed by {offset - self._clock:.0f} seconds")
            self._clock = offset
        if self.agent is None:
            return
        if self._usage and (why := self._usage.excess(self.agent, now)):
            agent = self.agent
            self.stop_agent()
            times = self._pauses.ran_away()
            if times >= self.settings.runaways_per_hour:
                self.line(f"FAILED {agent.branch} {agent.sha[:12]} {why}")
                self.hold(f"the agent had to be ended {times} times in an hour: {why}")
            else:
                agent.ready = agent.ready or now  # it started; what failed is its appetite
                self.failed(agent, f"was ended: {why}")
