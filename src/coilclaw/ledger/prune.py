"""Pruning: audit rows are exported and made durable first, then everything that was kept long enough goes."""

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

EVERY = timedelta(days=1)


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What went, or would go."""

    gone: Gone
    files: tuple[str, ...]
    """Where audit rows were exported to, below the workspace."""
    dry_run: bool


class Busy(UsageError):
    """Somebody else is pruning."""


class Pruner:
    """Prunes one home. Blocks while it works: a worker calls it in a thread."""

    def __init__(
        self,
        db: Database,
        workspace: Path,
        locks: Path,
        days: Days,
        *,
        clock: Clock,
        redact: Callable[[Json], Json],
        reached: Reached = lambda _: None,
    ) -> None:
        self._db = db
        self._workspace = workspace
        self._locks = locks
        self._days = days
        self._clock = clock
        self._redact = redact
        self._reached = reached

    def due(self) -> bool:
        """Whether a day has gone by since it was done last. A time in the future was set by a clock that ran ahead."""
        with reading_apart(self._db.path) as db:
            last = pruned_at(db)
        if last is None:
            return True
        passed = self._clock() - from_stamp(last)
        return passed >= EVERY or passed < -timedelta(minutes=1)

    def prune_if_due(self) -> Pruned | None:
        """Prune when it is time; None when it is not, or somebody else is at it."""
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
        """What would go now; nothing is changed."""
        cut = cutoffs(self._days, self._clock())
        with reading_apart(self._db.path) as db:
            days = dict.fromkeys(row[5][:10] for row in old_audit(db, cut.audit))
            files = tuple(f"audit/{day.replace('-', '/')}.jsonl" for day in days)
            return Pruned(gone=count_rows(db, cut), files=files, dry_run=True)

    def _prune(self) -> Pruned:
        cut = cutoffs(self._days, self._clock())
        numbers, files = self._export(cut)
        self._reached("deleting")
        audit = delete_audit(self._db, numbers, forget_events)
        rest = delete_rows(self._db, cut)
        self._db.write_now(lambda tx: set_pruned_at(tx, stamp(self._clock())))
        return Pruned(gone=msgspec.structs.replace(rest, audit=audit), files=files, dry_run=False)

    def _export(self, cut: Cutoffs) -> "tuple[array[int], tuple[str, ...]]":
        """Every old audit row into its file, all of it durable; only then may any of it go."""
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
