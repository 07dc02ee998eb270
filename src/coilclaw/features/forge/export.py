"""The daily export: audit events of complete days, and files of jobs that ended, for a pull request of the runtime's.

What stands on main may be pruned from the home, and nothing else: `exported_through` says how far that is.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.features.forge.paths import job_file_path
from coilclaw.features.forge.workspace import FILE_BYTES, BotWorkspace
from coilclaw.ledger.audit_chain import gaps_of
from coilclaw.ledger.audit_days import (
    PrunedNumbers,
    audit_days,
    day_file,
    day_of,
    day_path,
    day_rows,
    earlier_day_after,
    lines_by_number,
    rows_before,
    strayed,
)
from coilclaw.ledger.export import Row, export_line
from coilclaw.packets.errors import RowDamaged
from coilclaw.packets.forge import MAIN
from coilclaw.packets.ids import stamp
from coilclaw.sandbox.bot_repository import BotRepository, ForgeRefused, TreeEntry, Written
from coilclaw.sandbox.files import read_existing
from coilclaw.sandbox.git import blob_id
from coilclaw.store.job_history import ended_jobs
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.read_connection import reading_apart
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime

MOST_DAYS = 31
MOST_JOBS = 200
JobFiles: TypeAlias = Callable[[str], list[Written]]
"""The files of a job, by its id; none when it has none to show."""
_COMPARED = "forge_days"
_STATE = re.compile(rb'\nstate: "([A-Z_]+)"\n')
_FRONTMATTER = 64 << 10


def export_files(app: "Runtime", until_day: str, job_files: JobFiles) -> list[Written]:
    """What main lacks of days before `until_day` and of jobs that ended: a month and 200 jobs at most, oldest first.

    Today is never complete, whatever is asked for. Blocking: call it in a thread.
    """
    repository = BotRepository(app.workspace)
    main = repository.tip(MAIN)
    if not main:
        return []
    entries = repository.entries(main)
    until = min(until_day, stamp(app.clock())[:10])
    with reading_apart(app.config.memory.path) as db:
        export = _Export(app, repository, db, main, entries)
        files = [*export.days(until), *export.jobs(job_files)]
    export.remember()
    return files


class _Export:
    def __init__(
        self, app: "Runtime", repository: BotRepository, db: Tx, main: str, entries: Mapping[str, TreeEntry]
    ) -> None:
        self._app = app
        self._repository = repository
        self._db = db
        self._main = main
        self._entries = entries
        self._pruned = PrunedNumbers(gaps_of(db))
        self._before = _compared(db)
        self._same: dict[str, str] = {}
        """Days that are on main as they should be: the file, and the rows it was made from."""

    # Days

    def days(self, until: str) -> list[Written]:
        """The files of days that are not on main with the same bytes."""
        found: list[Written] = []
        strays = strayed(self._db, until)
        rows = {each.day: each.mark for each in audit_days(self._db, until)}
        earlier = {day for day in self._exported_before() if day < until and day_path(day) not in self._entries}
        for day in sorted({*rows, *earlier}):
            path = day_path(day)
            entry = self._entries.get(path)
            mark = f"{'' if entry is None else entry.blob} {rows.get(day, '')}"
            if self._before.get(day) == mark:
                self._same[day] = mark
                continue
            if len(found) == MOST_DAYS:
                continue
            data = self._day(day, path, entry, strays.get(day, []))
            if entry is not None and entry.blob == blob_id(data, self._main):
                self._same[day] = mark
            elif data:
                found.append(Written(path, data))
        return found

    def _day(self, day: str, path: str, entry: TreeEntry | None, strays: list[int]) -> bytes:
        on_main = self._repository.blobs([entry.blob])[entry.blob] if entry is not None else None
        here = read_existing(self._app.workspace, path, FILE_BYTES)
        earlier = (lines_by_number(here), lines_by_number(on_main))  # what stands in a commit counts more
        return day_file(day_rows(self._db, day, strays), earlier, self._pruned, self._app.redactor.value)

    def _exported_before(self) -> Iterator[str]:
        """Days whose events `prune` wrote into the workspace, before there were pull requests or without them."""
        root = self._app.workspace
        for folder, _, names in os.walk(root / "audit"):
            for name in names:
                day = day_of(os.path.relpath(os.path.join(folder, name), root))  # noqa: PTH118
                if day:
                    yield day

    def remember(self) -> None:
        """Days that were found to be on main need not be read again until a row or the file is another one."""
        if self._same != self._before:
            word = msgspec.json.encode(self._same).decode()
            self._app.db.write_now(lambda tx: write_meta(tx, _COMPARED, word))

    # Jobs

    def jobs(self, job_files: JobFiles) -> list[Written]:
        """Files of jobs whose end is not on main yet."""
        found: list[Written] = []
        for job_id in list(self._untold())[:MOST_JOBS]:
            try:
                files = job_files(job_id)
            except RowDamaged as error:
                self._app.warn(f"job {job_id} is left out of the export: {error}")
                continue
            for file in files:
                entry = self._entries.get(file.path)
                same = entry is not None and file.data is not None and entry.blob == blob_id(file.data, self._main)
                if not same:
                    found.append(file)
        return found

    def _untold(self) -> Iterator[str]:
        ended = ended_jobs(self._db)
        entries = {job_id: self._entries.get(job_file_path(job_id, created)) for job_id, _, created in ended}
        blobs: dict[str, bytes] = {}
        wanted = [entry.blob for entry in entries.values() if entry is not None and entry.size <= FILE_BYTES]
        for start in range(0, len(wanted), MOST_JOBS):
            read = self._repository.blobs(wanted[start : start + MOST_JOBS])
            blobs |= {blob: data[:_FRONTMATTER] for blob, data in read.items()}
        for job_id, state, _ in ended:
            entry = entries[job_id]
            said = _STATE.search(blobs.get(entry.blob, b"")) if entry is not None else None
            if said is None or said[1].decode() != state:
                yield job_id


def _compared(db: Tx) -> dict[str, str]:
    try:
        return msgspec.json.decode(read_meta(db, _COMPARED) or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        return {}


# What may be pruned


def exported_on_main(app: "Runtime", before: str) -> int | None:
    """How far the audit from before a time stands on main; None where there are no pull requests to wait for."""
    if not app.config.forge.enabled or BotWorkspace(app).fault():
        return None
    return exported_through(app, BotRepository(app.workspace).tip(MAIN), before)


def exported_through(app: "Runtime", commit: str, before: str = "~") -> int:
    """The number up to which every audit event in the home from before a time stands in a commit, byte for byte.

    Blocking: call it in a thread.
    """
    reached = 0
    with reading_apart(app.config.memory.path) as db:
        files = _DayFiles(BotRepository(app.workspace), commit)
        for row in rows_before(db, before):
            if not files.has(db, row, export_line(row, app.redactor.value)):
                break
            reached = row[0]
    return reached


class _DayFiles:
    """The day files of a commit; a few are kept, because rows come in their order."""

    def __init__(self, repository: BotRepository, commit: str) -> None:
        self._repository = repository
        self._entries = repository.entries(commit)
        self._read: dict[str, dict[int, bytes]] = {}

    def has(self, db: Tx, row: Row, line: bytes) -> bool:
        """Whether the event stands in the file of its day, or in that of the next event if its clock ran ahead."""
        number, day = row[0], row[5][:10]
        if self._lines(day).get(number) == line:
            return True
        after = earlier_day_after(db, number, day)
        return bool(after) and self._lines(after).get(number) == line

    def _lines(self, day: str) -> dict[int, bytes]:
        if day not in self._read:
            if len(self._read) > 3:
                self._read.clear()
            entry = self._entries.get(day_path(day))
            if entry is not None and entry.size > FILE_BYTES:
                raise ForgeRefused(f"{day_path(day)} on main is too large ({entry.size} bytes).")
            data = None if entry is None else self._repository.blobs([entry.blob])[entry.blob]
            self._read[day] = lines_by_number(data)
        return self._read[day]
