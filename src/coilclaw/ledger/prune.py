"""Pruning: what was kept long enough goes, audit rows only once they are safe elsewhere.

That is a commit on main, which the daily export makes; where there are no pull requests, a file in the workspace that
is written here first.
"""

import fcntl
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import msgspec

from coilclaw.ledger.audit_chain import forget_events
from coilclaw.ledger.export import AuditExport, Reached
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, from_stamp, stamp
from coilclaw.store.database import Database
from coilclaw.store.lock import open_lock_file
from coilclaw.store.read_connection import reading_apart
from coilclaw.store.retention import (
    Cutoffs,
    Days,
    Gone,
    count_rows,
    cutoffs,
    delete_audit,
    delete_rows,
    old_audit,
    pruned_at,
    set_pruned_at,
)
from coilclaw.store.tx import Tx

EVERY = timedelta(days=1)


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted, or would be."""

    gone: Gone
    files: tuple[str, ...]
    """Files with exported audit rows, relative to the workspace."""
    dry_run: bool
    waiting: int = 0
    """Audit rows that are old enough and stay, because they are not on main yet."""


class Busy(UsageError):
    """Another process is pruning."""


class Pruner:
    """Prunes one home. Blocking: a worker calls it in a thread."""

    def __init__(
        self,
        db: Database,
        workspace: Path,
        locks: Path,
        days: Days,
        *,
        clock: Clock,
        redact: Callable[[Json], Json],
        exported: Callable[[str], int | None] = lambda _: None,
        reached: Reached = lambda _: None,
    ) -> None:
        """`exported` says up to which number the audit from before a time is on main; None: it must be exported."""
        self._db = db
        self._workspace = workspace
        self._locks = locks
        self._days = days
        self._clock = clock
        self._redact = redact
        self._exported = exported
        self._reached = reached

    def due(self) -> bool:
        """Whether a day has passed since the last time. A time in the future came from a fast clock."""
        with reading_apart(self._db.path) as db:
            last = pruned_at(db)
        if last is None:
            return True
        passed = self._clock() - from_stamp(last)
        return passed >= EVERY or passed < -timedelta(minutes=1)

    def prune_if_due(self) -> Pruned | None:
        """Prune if it is due; None if it is not, or another process is pruning."""
        if not self.due():
            return None
        try:
            with self._alone():
                return self._prune() if self.due() else None
        except Busy:
            return None

    def prune(self) -> Pruned:
        """Prune now."""
        with self._alone():
            return self._prune()

    def dry_run(self) -> Pruned:
        """What would be deleted now; changes nothing."""
        cut = cutoffs(self._days, self._clock())
        safe = self._exported(cut.audit) if cut.audit else None
        with reading_apart(self._db.path) as db:
            gone = count_rows(db, cut)
            if safe is not None:
                numbers, waiting = _parted(db, cut.audit, safe)
                gone = msgspec.structs.replace(gone, audit=len(numbers))
                return Pruned(gone=gone, files=(), dry_run=True, waiting=waiting)
            days = dict.fromkeys(row[5][:10] for row in old_audit(db, cut.audit))
            files = tuple(f"audit/{day.replace('-', '/')}.jsonl" for day in days)
            return Pruned(gone=gone, files=files, dry_run=True)

    def _prune(self) -> Pruned:
        cut = cutoffs(self._days, self._clock())
        safe = self._exported(cut.audit) if cut.audit else None
        files, waiting = tuple[str, ...](), 0
        if safe is None:
            numbers, files = self._export(cut)
        else:
            with reading_apart(self._db.path) as db:
                numbers, waiting = _parted(db, cut.audit, safe)
        self._reached("deleting")
        audit = delete_audit(self._db, numbers, forget_events)
        rest = delete_rows(self._db, cut)
        self._db.write_now(lambda tx: set_pruned_at(tx, stamp(self._clock())))
        gone = msgspec.structs.replace(rest, audit=audit)
        return Pruned(gone=gone, files=files, dry_run=False, waiting=waiting)

    def _export(self, cut: Cutoffs) -> "tuple[array[int], tuple[str, ...]]":
        """Export every old audit row, durably; only then may any be deleted."""
        export = AuditExport(self._workspace, self._redact, self._reached)
        numbers = array("q")
        try:
            with reading_apart(self._db.path) as db:
                for row in old_audit(db, cut.audit):
                    export.add(row)
                    numbers.append(row[0])
            export.close()
        finally:
            export.give_up()
        return numbers, tuple(export.files)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        fd = open_lock_file(self._locks / "prune.lock")
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Busy("another process is already pruning.", remedy="Wait until it has finished.") from error
            yield
        finally:
            os.close(fd)


def _parted(db: Tx, before: str | None, safe: int) -> "tuple[array[int], int]":
    """Old audit rows that may go, and how many stay because they are not safe yet."""
    numbers, waiting = array("q"), 0
    for row in old_audit(db, before):
        if row[0] <= safe:
            numbers.append(row[0])
        else:
            waiting += 1
    return numbers, waiting
