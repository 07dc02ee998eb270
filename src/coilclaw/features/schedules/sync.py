"""From the registry to the table: what the file declares becomes rows. A file that cannot be taken over changes
nothing, and that is said."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from coilclaw.features.schedules.registry import (
    REGISTRY,
    Declared,
    Fault,
    Registry,
    RegistryBroken,
    as_it_is,
    read_registry,
)
from coilclaw.features.schedules.run_log import run_of, skip
from coilclaw.features.schedules.store.schedules import (
    RowBroken,
    ScheduleRow,
    declared_hashes,
    delete_schedule,
    get_mark,
    list_schedules,
    load_schedule,
    put_schedule,
    set_mark,
)
from coilclaw.features.schedules.timetable import counted, slot_of, slot_text, standing, tell, trigger_of_row
from coilclaw.features.schedules.triggers import GRACE, AtTrigger
from coilclaw.ledger.audit import add_event
from coilclaw.lib.json_position import Place
from coilclaw.packets.action import Label
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock
from coilclaw.store.database import Database
from coilclaw.store.tx import Tx

By: TypeAlias = str
"""Who made a change: `cli`, `file`, or a device."""
Change: TypeAlias = Literal[
    "schedule_added", "schedule_edited", "schedule_removed", "schedule_enabled", "schedule_disabled"
]  # fmt: skip
Objections: TypeAlias = Callable[[Declared], Sequence[str]]
"""Why a run of what is declared could not begin, as things are."""

EMPTY = b'{"version": 1, "jobs": []}\n'
UNSEEN = timedelta(days=1)
"""How long ago a single time may have passed before the file it stands in was first looked at."""

MOST_HINTS = 20


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the registry lies; handed in, because this room opens no files."""

    read: Callable[[], bytes | None]
    """Its bytes; None when there is no regular file of that name."""
    stamp: Callable[[], tuple[int, ...] | None]
    """Something that changes when the file does; None when it does not exist."""
    labels: Callable[[], tuple[Label, ...]]
    """Untrusted sources that had a hand in it."""
    held: Callable[[], bool] = lambda: False
    """Whether a command that may write untrusted content anywhere is under way."""
    written: Callable[[], datetime | None] = lambda: None
    """When it was last written; None when nobody knows."""
    redact: Callable[[str], str] = as_it_is
    """Takes secrets out of a text; the file may hold none."""


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What taking a registry over came to."""

    changed: int
    hints: tuple[str, ...] = ()
    """What the owner should hear about it."""


def nothing_against(_: Declared) -> tuple[str, ...]:
    """Where nobody knows what a run needs."""
    return ()


class Sync:
    """Keeps the table as the registry says."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        source: Source,
        say: Callable[[str, dict[str, Json]], None],
        objections: Objections = nothing_against,
    ) -> None:
        self._db = db
        self._clock = clock
        self._source = source
        self._say = say
        self._objections = objections
        self._seen: tuple[int, ...] | None = None
        self._looked = False
        self._labelled: tuple[Label, ...] = ()

    async def take_over(self) -> int:
        """Take the file over if it is another than last time; how many schedules changed."""
        now = self._source.stamp()
        vouched = bool(self._labelled) and self._source.labels() != self._labelled  # which leaves the file as it was
        if self._looked and now == self._seen and not vouched:
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
            return await self._broken(b"", no_plain_file())
        digest = sha256_hex(data)
        if digest == get_mark(self._db.reader, "taken") and not get_mark(self._db.reader, "broken"):
            return 0
        self._labelled = self._source.labels()
        if self._labelled:
            return await self._broken(data, untrusted_registry(self._labelled, held=self._source.held()))
        known = good_hashes(self._db.reader)
        try:
            registry = await asyncio.to_thread(read_registry, data, known, self._source.redact)
        except RegistryBroken as error:
            return await self._broken(data, error)
        written = self._source.written()
        fresh = [each for each in registry.declared if known.get(each.schedule_id) != each.declared_hash]

        def take(tx: Tx) -> Applied:
            # Whoever edits the file does so in a transaction of its own: in this one it stays as it is, and if it is
            # another by now, the next look takes that one over.
            same = self._source.stamp() == seen
            return apply(tx, self._clock, registry, digest, by="file", written=written) if same else Applied(changed=0)

        done = await self._db.write(take)
        for hint in (*registry.hints, *done.hints, *self._doubts(fresh))[:MOST_HINTS]:
            self._say("schedule_hint", {"message": hint})
        return done.changed

    def _doubts(self, fresh: Iterable[Declared]) -> list[str]:
        """What would keep runs from beginning: the file is the owner's, so it is taken over, and they are told."""
        found: list[str] = []
        for declared in fresh:
            if len(found) >= MOST_HINTS:
                break
            if declared.enabled:
                found += [f"{declared.schedule_id}: its runs cannot start. {why}" for why in self._objections(declared)]
        return found

    async def _broken(self, data: bytes, error: RegistryBroken) -> int:
        """Say it every time it is looked at, and note it once."""
        self._say("schedule_registry_broken", {"message": str(error)})
        digest = sha256_hex(data)

        def write(tx: Tx) -> None:
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


def no_plain_file() -> RegistryBroken:
    """Something lies in the file's place that is not read."""
    return RegistryBroken((_fault("this is not a regular file of at most 64 MB"),))


def _gone() -> RegistryBroken:
    return RegistryBroken((_fault('the file is missing; an empty registry is {"version": 1, "jobs": []}'),))


def untrusted_registry(labels: Iterable[Label], *, held: bool) -> RegistryBroken:
    """The refusal of a file that others had a hand in, or may have as long as a tainted command runs: only the owner's
    own text starts work."""
    if held:
        text = "a command that may write untrusted content is running; the file is checked again when it ends"
        return RegistryBroken((_fault(text),))
    text = (
        f"it contains content from {', '.join(labels)}, and only your own text may start work. Read it, then"
        " vouch for it"
        f" with `coilclaw labels forget {REGISTRY}`"
    )
    return RegistryBroken((_fault(text),))


def good_hashes(db: Tx) -> dict[str, str]:
    """What was declared of each schedule whose row can be read: of these, the same again needs no second look."""
    found = declared_hashes(db)
    for error in list_schedules(db, "registry")[1]:
        found.pop(error.schedule_id, None)
    return found


def apply(tx: Tx, clock: Clock, registry: Registry, digest: str, *, by: By, written: datetime | None) -> Applied:
    """Make the table what a sound registry declares; every change leaves an audit event. `written` is when the owner
    last wrote the file. A row that cannot be read is written anew."""
    before, good = declared_hashes(tx), good_hashes(tx)
    changed = 0
    hints: list[str] = []
    for declared in registry.declared:
        fresh = declared.declared_hash
        was = before.pop(declared.schedule_id, None)
        if good.get(declared.schedule_id) != fresh:
            row = _put(tx, clock, declared, was, written, by)
            hints += _passed(tx, clock, row)
            changed += 1
    for schedule_id, old in before.items():
        delete_schedule(tx, schedule_id)
        _event(tx, clock, "schedule_removed", schedule_id, old, None, by)
        changed += 1
    set_mark(tx, "taken", digest)
    if get_mark(tx, "broken"):
        set_mark(tx, "broken", "")
        add_event(tx, clock, "schedule_registry_mended", REGISTRY, {"sha256": digest})
    return Applied(changed=changed, hints=tuple(hints))


def _put(tx: Tx, clock: Clock, declared: Declared, was: str | None, written: datetime | None, by: By) -> ScheduleRow:
    old = _old(tx, declared.schedule_id)
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
        declared_hash=declared.declared_hash,
        timing_hash=timing,
        created_at="" if old is None else old.created_at,
    )
    if old is not None and old.timing_hash == timing:
        row = msgspec.structs.replace(row, failures=old.failures, paused_reason=old.paused_reason)
        row = _standing_still(row, old)
    else:
        row = counted(row, _begins(row, clock(), written))
    put_schedule(tx, clock, row)
    change = "schedule_added" if was is None else _change(old, row)
    _event(tx, clock, change, row.schedule_id, was, row.declared_hash, by)
    return row


def _old(tx: Tx, schedule_id: str) -> ScheduleRow | None:
    """What stands there; None also when it cannot be read: what is declared is written over it."""
    try:
        old = load_schedule(tx, schedule_id)
        if old is not None:
            slot_of(old.counted_from)
            slot_of(old.next_run_utc or old.counted_from)
    except (RowBroken, UsageError):
        return None
    return old


def _begins(row: ScheduleRow, now: datetime, written: datetime | None) -> datetime:
    """What a new timing is counted from. A single time that was still to come when it was written is not lost because
    nobody looked in time; but what lies longer back may have been run by a database that is gone."""
    if row.trigger_type != "at":
        return now
    return max(min(now, written or now), now - UNSEEN) - GRACE


def _passed(tx: Tx, clock: Clock, row: ScheduleRow) -> list[str]:
    """A single time that will not come any more leaves a row and a word, unless it was run before."""
    trigger = trigger_of_row(row) if row.trigger_type == "at" and row.live and row.next_run_utc is None else None
    if not isinstance(trigger, AtTrigger):
        return []
    at, now = slot_text(trigger.at), clock()
    late = max(0, int((now - trigger.at).total_seconds()))
    run = run_of(row.schedule_id, at, "late", late, tell(trigger, now))
    if not skip(tx, clock, run, "its time had already passed when it was first seen"):
        return []
    hint = (
        f"{row.schedule_id}: its time {at} had passed when it was first seen, so it does not run. Give it another time,"
        f" or start it with `coilclaw schedule run-now {row.schedule_id}`."
    )
    return [hint]


def _standing_still(row: ScheduleRow, old: ScheduleRow) -> ScheduleRow:
    """Something else than its timing changed: it goes on from where it stood, shifted as it now says."""
    to = standing(row, slot_of(old.counted_from), None if old.next_run_utc is None else slot_of(old.next_run_utc))
    return msgspec.structs.replace(
        row,
        counted_from=old.counted_from,
        next_run_utc=old.next_run_utc,
        due_at=to.due_at,
        tzdata_version=old.tzdata_version,
    )


def _change(old: ScheduleRow | None, row: ScheduleRow) -> Change:
    if old is not None and old.enabled != row.enabled and _apart_from_enabled(old) == _apart_from_enabled(row):
        return "schedule_enabled" if row.enabled else "schedule_disabled"
    return "schedule_edited"


def _apart_from_enabled(row: ScheduleRow) -> tuple[object, ...]:
    return row.trigger_type, row.trigger_config, row.payload, row.timezone, row.options


def _event(
    tx: Tx,
    clock: Clock,
    change: Change,
    schedule_id: str,
    before: str | None,
    after: str | None,
    by: By,
) -> None:
    add_event(tx, clock, change, schedule_id, {"before": before, "after": after, "by": by})
