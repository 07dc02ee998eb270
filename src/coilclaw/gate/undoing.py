"""Undoing: what a call would write is kept before it, what it left is noted after it, and what an undo brings back."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
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
    from coilclaw.sandbox.manifests import Entry
    from coilclaw.sandbox.snapshot import Change, Plan, Snapshots
    from coilclaw.store.job_trees import Held

MOST_HELD = 1000
"""Of more files than this it is not told what they held."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept before a call."""

    snapshot: str = ""
    """Empty when there is nothing to keep, or nothing could be."""
    fault: str = ""
    """Why not everything the call would write could be kept."""
    held: Mapping[str, str | None] = {}
    """SHA-256 of what each file held that a file tool writes; empty where there was none, None where nobody knows."""


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
            return "" if facts.only_reads else self._obstacle_of_command(facts)
        written = [path for path in facts.paths if path.write and not path.fault]
        outside = next((path.asked for path in written if path.relative is None), None)
        if outside is not None:
            return f"{outside} is outside the workspace, so it is not kept for undo."
        return self._snapshots().fault([path.relative for path in written if path.relative]) if written else ""

    def _obstacle_of_command(self, facts: Facts) -> str:
        """Nothing says what a command will write; what its text shows to be in a folder that is not kept is known."""
        if fault := self._snapshots().fault(None):
            return fault
        written = [path.relative for path in facts.paths if path.write and path.relative]
        folder = next((each for path in written if (each := self._not_kept(path))), "")
        return f"{folder} is not kept for undo." if folder else ""

    def _not_kept(self, path: str) -> str:
        """The folder around a path, or itself, that is there and that no snapshot has; or empty."""
        from coilclaw.sandbox.scan import LEFT_OUT

        parts = path.split("/")
        depth = next((depth for depth, part in enumerate(parts, start=1) if part in LEFT_OUT), 0)
        folder = "/".join(parts[:depth])
        return folder if depth and os.path.lexists(os.path.join(self._places().workspace, folder)) else ""  # noqa: PTH118

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
        return self._obstacle_of_command(facts) != facts.irreversible

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
            held = await asyncio.to_thread(snapshots.held, paths)
            return Kept(snapshot=await asyncio.to_thread(snapshots.keep, paths, note, action.turn_id), held=held)
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

    def held(self, kept: Kept, paths: Sequence[str]) -> "dict[str, Held]":
        """What each of these files held before a call, and holds now, as far as that can be told. Blocking."""
        before, after = kept.held, dict[str, str | None]()
        try:
            snapshots = self._snapshots()
            if len(paths) <= MOST_HELD:
                after = snapshots.held(paths)
                before = before or snapshots.held_before(kept.snapshot)
        except (CoilclawError, OSError) as error:
            self._warn(f"what a call changed in its files cannot be determined: {error}")
        return {path: (before.get(path), after.get(path)) for path in paths}

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
        """Tells which files an undo brings back: those that it is for, and of these what commands can reach.

        What governs the agent comes back where the call names it, because that decides its lane.
        """
        places = self._places()
        may = places.may_restore_tainted if tainted else places.may_restore
        named = frozenset(filter(places.governs, wanted.paths))
        return lambda path: path in named or (wanted.covers(path) and may(path))

    def wanted(self, snapshot: str) -> Restore:
        """What taking back everything since a snapshot means; where only what governs the agent changed, that, by
        name."""
        everything = Restore(snapshot=snapshot)
        plan = self.plan(everything, tainted=False)
        if plan is None or plan.changes or not plan.governing:
            return everything
        return Restore(snapshot=snapshot, paths=plan.governing)

    def plan(self, wanted: Restore, *, tainted: bool) -> "Plan | None":
        """What an undo would do now; None when there is no such snapshot."""
        may, places = self.may_restore(wanted, tainted=tainted), self._places()
        try:
            plan = self._snapshots().plan(wanted.snapshot, may)
            others = self._snapshots().changes(
                wanted.snapshot,
                lambda path: wanted.covers(path) and places.classify(path) != "never" and not may(path),
            )
        except (CoilclawError, OSError):
            return None
        governing = tuple(filter(places.governs, others))
        left_out = {*plan.left_out, *others}.difference(governing)
        return msgspec.structs.replace(plan, left_out=tuple(sorted(left_out)), governing=governing)

    def content(self, entry: "Entry") -> bytes | None:
        """What a file would hold again; None if that is damaged."""
        return self._snapshots().manifests.contents.read(entry.content)

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
        changes += [(path, "", 0) for path in (*plan.stays, *plan.left_out, *plan.governing)]
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
