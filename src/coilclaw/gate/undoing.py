"""Undoing: what a call would write is kept before it, what it left is noted after it, and what an undo brings back."""

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from coilclaw.gate.decision_input import Facts
from coilclaw.gate.paths import Places
from coilclaw.packets.action import Action, Label
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import Restore, Touches

if TYPE_CHECKING:
    from coilclaw.gate.labels import FileLabels
    from coilclaw.sandbox.snapshot import Change, Plan, Snapshots


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept before a call."""

    snapshot: str = ""
    """Empty when there is nothing to keep, or nothing could be."""
    fault: str = ""
    """Why not everything the call would write could be kept."""


class Undoing:
    """Sees to it that writes can be undone, and says so where they cannot."""

    def __init__(
        self,
        snapshots: "Callable[[], Snapshots]",
        labels: "Callable[[], FileLabels]",
        warn: Callable[[str], None],
        places: Callable[[], Places],
    ) -> None:
        self._snapshots = snapshots
        self._labels = labels
        self._warn = warn
        self._places = places

    # Before

    def obstacle(self, touches: Touches, facts: Facts) -> str:
        """Why what a call writes could not be undone, as far as is known without much looking; empty when it can."""
        if touches.restores is not None:
            return self._snapshots().fault(())
        if touches.command is not None or not facts.only_reads:
            return "" if facts.only_reads else self._snapshots().fault(None)
        written = [path for path in facts.paths if path.write and not path.fault]
        outside = next((path.asked for path in written if path.relative is None), None)
        if outside is not None:
            return f"{outside} is outside the workspace, so it is not kept for undo."
        return self._snapshots().fault([path.relative for path in written if path.relative]) if written else ""

    async def prepare(self, facts: Facts, stopped: Callable[[], bool]) -> bool:
        """Before a command is decided on, find out whether the workspace can be kept; whether that is another answer.

        What is read for it is stored, so that the snapshot itself is quick.
        """
        if facts.only_reads or facts.tool is None or facts.tool.name == "undo" or stopped():
            return False
        snapshots = self._snapshots()
        gone = threading.Event()
        try:
            await asyncio.to_thread(snapshots.prepare, lambda: gone.is_set() or stopped())
        except asyncio.CancelledError:
            gone.set()  # no cancellation reaches a thread
            raise
        except Exception as error:  # the note of it is what counts; what cannot even be noted fails when it is kept
            self._warn(f"it could not be determined whether the workspace can be kept: {error}")
        return snapshots.fault(None) != facts.irreversible

    async def keep(self, action: Action, touches: Touches, facts: Facts, stopped: Callable[[], bool]) -> Kept:
        """Keep what a call would write, unless everything is stopped already. An undo keeps for itself."""
        paths = _written(facts)
        if touches.restores is not None or (facts.only_reads and not paths) or stopped():
            return Kept()
        try:
            snapshots = self._snapshots()
            if not facts.only_reads:
                note = f"{action.call.tool} {touches.command or ''}"
                taken = await asyncio.to_thread(snapshots.take, note, stopped, action.turn_id)
                return Kept(snapshot=taken, fault=snapshots.fault(None))
            note = f"{action.call.tool} {paths[0]}"
            return Kept(snapshot=await asyncio.to_thread(snapshots.keep, paths, note, action.turn_id))
        except Exception as error:  # the call is claimed by now: nothing here may keep it from its end
            return Kept(fault=str(error))

    # After

    async def settle(self, kept: Kept, facts: Facts) -> list[str] | None:
        """Note what the call left; what it touched, or None when that cannot be told."""
        if not kept.snapshot:
            return None
        try:
            return await asyncio.to_thread(self._snapshots().settle, kept.snapshot, _written(facts))
        except (CoilclawError, OSError) as error:
            self._warn(f"the files changed by a call cannot be determined: {error}")
            return None

    def touched_since(self, begun_at: str) -> list[str] | None:
        """What changed since the last moment before a time, for a call whose process died; None when nobody knows."""
        kept = self._snapshots().recent(1000)
        before = next((each.id for each in kept if each.whole and each.time <= begun_at), "")
        try:
            return self._snapshots().touched(before) if before else None
        except (CoilclawError, OSError) as error:
            self._warn(f"the files changed by a command cannot be determined: {error}")
            return None

    # Going back

    def may_restore(self, wanted: Restore, *, tainted: bool) -> Callable[[str], bool]:
        """Tells which files an undo brings back: those that it is for, and of these what commands can reach."""
        places = self._places()
        may = places.may_restore_tainted if tainted else places.may_restore
        return lambda path: wanted.covers(path) and may(path)

    def plan(self, wanted: Restore, *, tainted: bool) -> "Plan | None":
        """What an undo would do now; None when there is no such snapshot."""
        try:
            return self._snapshots().plan(wanted.snapshot, self.may_restore(wanted, tainted=tainted))
        except (CoilclawError, OSError):
            return None

    def labels(self, wanted: Restore) -> tuple[Label, ...]:
        """Every untrusted source of what an undo would bring back or name."""
        plan = self.plan(wanted, tainted=False)
        if plan is None:
            return ()
        found = self.labels_of(plan)
        return tuple(sorted({label for labels in found.values() for label in labels}))

    def labels_of(self, plan: "Plan") -> dict[str, tuple[Label, ...]]:
        """The untrusted sources of each file an undo would change or name: of what it holds, and of its name."""
        changes: list[tuple[str, str, int]] = [_content(change) for change in plan.changes]
        changes += [(path, "", 0) for path in plan.stays]
        return self._labels().labels_of_kept(changes)


def _written(facts: Facts) -> tuple[str, ...]:
    """The workspace files a tool names as written."""
    return tuple(path.relative for path in facts.paths if path.write and not path.boxed and path.relative)


def _content(change: "Change") -> tuple[str, str, int]:
    entry = change.entry
    return (change.path, "", 0) if entry is None else (change.path, entry.content, entry.size)


def in_words(labels: tuple[Label, ...]) -> str:
    """Labels as they stand beside a name."""
    return f" [{join_labels(labels)}]" if labels else ""
