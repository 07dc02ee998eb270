"""From the registry to the table: what the file declares becomes rows. A file that cannot be taken over changes
nothing, and that is said."""

import sqlite3
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from coilclaw.jobs.registry import REGISTRY, Declared, Fault, Registry, RegistryBroken, read_registry
from coilclaw.jobs.registry_places import Place
from coilclaw.jobs.timetable import counted
from coilclaw.jobs.triggers import GRACE
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import Label
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.ids import Clock
from coilclaw.store.database import Database
from coilclaw.store.schedules import (
    ScheduleRow,
    declared_hashes,
    delete_schedule,
    get_mark,
    load_schedule,
    put_schedule,
    set_mark,
)

By: TypeAlias = Literal["cli", "file"]
Change: TypeAlias = Literal[
    "schedule_added", "schedule_edited", "schedule_removed", "schedule_enabled", "schedule_disabled"
]  # fmt: skip
EMPTY = b'{"version": 1, "jobs": []}\n'


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the registry lies; handed in, because this room opens no files."""

    read: Callable[[], bytes | None]
    """Its bytes; None when there is no plain file of that name."""
    stamp: Callable[[], tuple[int, ...] | None]
    """Something that changes when the file does; None when it is not there."""
    labels: Callable[[], tuple[Label, ...]]
    """Untrusted sources that had a hand in it."""


class Sync:
    """Keeps the table as the registry says."""

    def __init__(
        self, *, db: Database, clock: Clock, source: Source, say: Callable[[str, dict[str, Json]], None]
    ) -> None:
        self._db = db
        self._clock = clock
        self._source = source
        self._say = say
        self._seen: tuple[int, ...] | None = None
        self._looked = False

    async def take_over(self) -> int:
        """Take the file over if it is another than last time; how many schedules changed."""
        now = self._source.stamp()
        if self._looked and now == self._seen:
            return 0
        data = self._source.read()
        changed = 0
        if data is None and now is None:
            if get_mark(self._db.reader, "taken"):  # it was there and is gone: a slip, not a wish to stop everything
                changed = await self._broken(b"", _gone())
        else:
            changed = await self._take(data, now)
        self._seen, self._looked = now, True
        return changed

    async def _take(self, data: bytes | None, seen: tuple[int, ...] | None) -> int:
        if data is None:
            return await self._broken(b"", RegistryBroken((_fault("this is no plain file of at most 64 MB"),)))
        digest = sha256_hex(data)
        if digest == get_mark(self._db.reader, "taken") and not get_mark(self._db.reader, "broken"):
            return 0
        labels = self._source.labels()
        if labels:
            return await self._broken(data, untrusted_registry(labels))
        try:
            registry = read_registry(data, declared_hashes(self._db.reader))
        except RegistryBroken as error:
            return await self._broken(data, error)
        for hint in registry.hints:
            self._say("schedule_hint", {"message": hint})

        def take(tx: sqlite3.Connection) -> int:
            # Whoever edits the file does so in a transaction of its own: in this one it stays as it is, and if it is
            # another by now, the next look takes that one over.
            same = self._source.stamp() == seen
            return apply(tx, self._clock, registry, digest, by="file") if same else 0

        return await self._db.write(take)

    async def _broken(self, data: bytes, error: RegistryBroken) -> int:
        """Say it every time it is looked at, and note it once."""
        self._say("schedule_registry_broken", {"message": str(error)})
        digest = sha256_hex(data)

        def write(tx: sqlite3.Connection) -> None:
            if get_mark(tx, "broken") == digest:
                return
            set_mark(tx, "broken", digest)
            found = [str(fault) for fault in error.faults]
            add_event(tx, self._clock, "schedule_registry_broken", REGISTRY, {"sha256": digest, "faults": list(found)})

        if get_mark(self._db.reader, "broken") != digest:
            await self._db.write(write)
        return 0


def _fault(text: str) -> Fault:
    return Fault(place=Place(1, 1), text=text)


def _gone() -> RegistryBroken:
    return RegistryBroken((_fault('the file is gone; an empty registry is {"version": 1, "jobs": []}'),))


def untrusted_registry(labels: Iterable[Label]) -> RegistryBroken:
    """The refusal of a file that others had a hand in: only the owner's own text starts work."""
    text = (
        f"it holds content from {', '.join(labels)}, and only your own text may start work. Read it, then vouch for it"
        f" with `coilclaw labels forget {REGISTRY}`"
    )
    return RegistryBroken((_fault(text),))


def apply(tx: sqlite3.Connection, clock: Clock, registry: Registry, digest: str, *, by: By) -> int:
    """Make the table what a sound registry declares; every change leaves an audit event. How many there were."""
    now = clock()
    before = declared_hashes(tx)
    changed = 0
    for declared in registry.declared:
        fresh = declared.declared_hash()
        if before.pop(declared.schedule_id, "") != fresh:
            _put(tx, clock, declared, fresh, now, by)
            changed += 1
    for schedule_id, old in before.items():
        delete_schedule(tx, schedule_id)
        _event(tx, clock, "schedule_removed", schedule_id, old, None, by)
        changed += 1
    set_mark(tx, "taken", digest)
    if get_mark(tx, "broken"):
        set_mark(tx, "broken", "")
        add_event(tx, clock, "schedule_registry_mended", REGISTRY, {"sha256": digest})
    return changed


def _put(tx: sqlite3.Connection, clock: Clock, declared: Declared, fresh: str, now: datetime, by: By) -> None:
    old = load_schedule(tx, declared.schedule_id)
    timing = declared.timing_hash()
    row = ScheduleRow(
        schedule_id=declared.schedule_id,
        origin="registry",
        trigger_type=declared.trigger_type,
        trigger_config=declared.trigger_config,
        payload=declared.payload,
        timezone=declared.timezone,
        enabled=declared.enabled,
        options=declared.options,
        declared_hash=fresh,
        timing_hash=timing,
        created_at="" if old is None else old.created_at,
    )
    if old is not None and old.timing_hash == timing:
        row = msgspec.structs.replace(row, failures=old.failures, paused_reason=old.paused_reason)
        row = _standing_still(row, old)
    else:
        row = counted(row, now - GRACE if row.trigger_type == "at" else now)
    put_schedule(tx, clock, row)
    _event(tx, clock, _change(old, row), row.schedule_id, old.declared_hash if old else None, fresh, by)


def _standing_still(row: ScheduleRow, old: ScheduleRow) -> ScheduleRow:
    """Something else than its timing changed: it goes on from where it stood, shifted as it now says."""
    from coilclaw.jobs.timetable import slot_of, standing

    to = standing(row, slot_of(old.counted_from), None if old.next_run_utc is None else slot_of(old.next_run_utc))
    return msgspec.structs.replace(
        row,
        counted_from=old.counted_from,
        next_run_utc=old.next_run_utc,
        due_at=to.due_at,
        tzdata_version=old.tzdata_version,
    )


def _change(old: ScheduleRow | None, row: ScheduleRow) -> Change:
    if old is None:
        return "schedule_added"
    if old.enabled != row.enabled and _apart_from_enabled(old) == _apart_from_enabled(row):
        return "schedule_enabled" if row.enabled else "schedule_disabled"
    return "schedule_edited"


def _apart_from_enabled(row: ScheduleRow) -> tuple[object, ...]:
    return row.trigger_type, row.trigger_config, row.payload, row.timezone, row.options


def _event(
    tx: sqlite3.Connection,
    clock: Clock,
    change: Change,
    schedule_id: str,
    before: str | None,
    after: str | None,
    by: By,
) -> None:
    add_event(tx, clock, change, schedule_id, {"before": before, "after": after, "by": by})
