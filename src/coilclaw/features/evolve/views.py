"""What the owner sees of the agent: its state, its starts, what it was told and reports, its logs."""

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.evolve.init import needed
from coilclaw.features.evolve.places import EvolvePlaces
from coilclaw.features.evolve.tools import MERGE
from coilclaw.features.evolve.up import running
from coilclaw.features.evolve.watcher.comms import DIRECTIVES, REPORTS, WATCHED, section
from coilclaw.features.evolve.watcher.git import RecordError
from coilclaw.features.evolve.watcher.record import Record
from coilclaw.features.evolve.wheels import pinned_wheels
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import visible
from coilclaw.store.actions import list_actions

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

LOGS = {"boot": "bot/logs/bootstrap.log", "errors": "bot/logs/errors.log", "watcher": "state/watcher.log"}
_LOG_BYTES = 256 << 10
_STATE_BYTES = 1 << 16
_LINE = re.compile(r"(\S{1,40}) (BOOTSTRAPPING|SUCCESS|FAILED|FALLBACK)(?: (\S{1,100}))?(?: (.{1,200}))?")
_WHOLE = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")
_STARTS = 100
_LINES = 200


class EvolveStart(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the bootstrap log."""

    at: str
    what: str
    branch: str
    detail: str


class EvolveView(msgspec.Struct, frozen=True, kw_only=True):
    """The agent as it stands."""

    up: bool
    """Whether `evolve up` runs."""
    phase: str
    branch: str
    sha: str
    since: str
    failures: int
    held: str
    """Why the watcher or ESTOP holds it; empty if neither does."""
    trouble: str
    """What kept the watcher from its work the last time it tried; it tries again."""
    waiting: tuple[str, ...]
    """Merges that wait for the owner, by action."""
    starts: tuple[EvolveStart, ...]
    wheels: str
    """Digest of the wheels that it installs from; empty if it was given none."""


class EvolvePage(msgspec.Struct, frozen=True, kw_only=True):
    """What the panel shows."""

    exists: bool
    """Whether there is a repository."""
    agent: EvolveView | None = None
    directives: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    watcher: tuple[str, ...] = ()
    """What the watcher wrote into COMMS.md."""
    last_good: str = ""
    """The newest main that started well, which a rollback can go back to."""


class _State(msgspec.Struct, frozen=True):
    phase: str = "never started"
    branch: str = ""
    sha: str = ""
    since: str | float = ""
    failures: int = 0
    reason: str = ""


def evolve_view(app: "Runtime") -> EvolveView:
    """The state of a home's agent."""
    places = needed(app)
    try:
        data = (places.state / "state.json").read_bytes()[:_STATE_BYTES]
        state = msgspec.json.decode(data, type=_State)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        state = _State()
    held = state.reason if state.phase == "held" else ""
    if not held and app.estop.engaged():  # which killed the watcher, so its state is that of a moment before
        state = _State(phase="stopped", since=state.since)
        held = "ESTOP is engaged; `coilclaw estop --clear` lets it go on"
    text, _ = read_log(app, "boot", None)
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    starts = [
        EvolveStart(at=each[1], what=each[2], branch=each[3] or "", detail=_WHOLE.sub(r"\1", each[4] or ""))
        for each in found
        if each
    ]
    pending = [each for each in list_actions(app.db.reader, "PENDING", 200) if each.call.tool == MERGE]
    return EvolveView(
        up=running(places) is not None,
        phase=state.phase,
        branch=state.branch,
        sha=state.sha,
        since=str(state.since),
        failures=state.failures,
        held=visible(held),
        trouble="" if held else visible(state.reason),
        waiting=tuple(each.action_id for each in pending),
        starts=tuple(starts[-_STARTS:]),
        wheels=_wheels(places),
    )


def _wheels(places: EvolvePlaces) -> str:
    """What was given, not what is there: that is read before each start, and by the doctor."""
    try:
        pinned = pinned_wheels(places)
    except UsageError:
        return "unreadable"
    return "" if pinned is None else pinned.digest


def evolve_page(app: "Runtime") -> EvolvePage:
    """The page of a home's agent."""
    try:
        record = Record(needed(app).root)
    except UsageError:
        return EvolvePage(exists=False)
    try:
        text, good = record.comms(), record.last_good() or ""
    except RecordError:
        text, good = "", ""

    def lines(name: str) -> tuple[str, ...]:
        # As plain text: the file has `<` in the way of Markdown.
        found = (visible(app.redact(line.replace("&lt;", "<"))) for line in section(text, name) if line.strip())
        return tuple(found)[-_LINES:]

    return EvolvePage(
        exists=True,
        agent=evolve_view(app),
        directives=lines(DIRECTIVES),
        reports=lines(REPORTS),
        watcher=lines(WATCHED),
        last_good=good,
    )


def read_log(app: "Runtime", name: str, place: tuple[int, int] | None) -> tuple[str, tuple[int, int] | None]:
    """What a log of `LOGS` has after a place (without one, its end), and the new place. Control characters are shown.

    The agent can write to its folder, so nothing but a regular file is read, and no link is followed.
    """
    try:
        file = _opened(needed(app).root, LOGS[name])
    except OSError:
        return "", place
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            return "", place
        begin = max(0, facts.st_size - _LOG_BYTES)
        if place is not None and place[0] == facts.st_ino and place[1] <= facts.st_size:
            begin = max(begin, place[1])
        data = os.pread(file, _LOG_BYTES, begin)
    finally:
        os.close(file)
    lines = data.decode("utf-8", "replace").split("\n")
    return "\n".join(visible(app.redact(line)) for line in lines), (facts.st_ino, begin + len(data))


def _opened(root: Path, name: str) -> int:
    """A file below a folder, opened name by name."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    here = os.open(root, flags | os.O_DIRECTORY)
    *folders, last = name.split("/")
    for part, kind in (*((each, os.O_DIRECTORY) for each in folders), (last, 0)):
        try:
            there = os.open(part, flags | kind, dir_fd=here)
        finally:
            os.close(here)
        here = there
    return here
