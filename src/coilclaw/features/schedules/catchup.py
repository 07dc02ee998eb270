"""Catching up: which of the slots that have come due are run, which are skipped and why, and where it goes on. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from coilclaw.features.schedules.store.schedules import Options
from coilclaw.features.schedules.triggers import Trigger, count_due, latest_until, next_after
from coilclaw.packets.errors import CoilclawError

TICK = timedelta(minutes=10)
"""How often something looks at least."""

ON_TIME = 2 * TICK
"""A slot at most this late counts as on time, so a slightly late check misses nothing."""

FARTHEST_MOVE = timedelta(hours=26)
"""How far new rules move a zone at most: over the date line."""

MOST_RUNS = 20
"""How many missed slots `run_all` runs at most, the newest of them."""


class EngineStuck(CoilclawError):
    """The next run does not lie after the one before it: an error of the engine, and never a loop."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring slots that are not run."""

    first: datetime
    last: datetime
    slots: int
    reason: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about a schedule whose time has come."""

    runs: tuple[datetime, ...]
    """Slots to be run, oldest first."""
    skipped: tuple[Skipped, ...]
    counted_from: datetime
    """The newest slot that was considered."""
    next_run: datetime | None


def plan(trigger: Trigger, first: datetime, now: datetime, options: Options, shift: timedelta) -> Plan:
    """Everything that is due from the slot `first` on; each start is shifted by the stagger."""
    until = max(first, now - shift)
    before = first - timedelta(microseconds=1)
    newest, following = first, next_after(trigger, first)
    if following is not None and first < following <= until:  # more than one is due
        newest = latest_until(trigger, before, until) or first
        following = next_after(trigger, newest)
    if following is not None and following <= newest:
        raise EngineStuck(f"the run after {newest.isoformat()} would be {following.isoformat()}.")
    runs = _chosen(trigger, before, newest, now - shift, options)
    return Plan(
        runs=runs,
        skipped=() if runs and runs[0] == first else tuple(_rest(trigger, before, newest, runs, options)),
        counted_from=newest,
        next_run=following,
    )


def slot_now(trigger: Trigger, slot: datetime) -> datetime:
    """Where a slot that was seen to lies by other rules about its zone: the same wall time, if it comes later now, is
    not another slot. The wall time itself is not known any more, so it is the slot that lies nearest."""
    before = latest_until(trigger, slot - FARTHEST_MOVE, slot)
    following = next_after(trigger, slot)
    if before == slot or following is None or following - slot > FARTHEST_MOVE:
        return slot
    return following if before is None or following - slot < slot - before else slot


def _chosen(
    trigger: Trigger, before: datetime, newest: datetime, now: datetime, options: Options
) -> tuple[datetime, ...]:
    late = now - newest
    window = options.catch_up_seconds
    reach = None if window is None else max(ON_TIME, timedelta(seconds=window))
    if options.misfire == "skip":
        reach = ON_TIME
    if reach is not None and late > reach:
        return ()
    if options.misfire != "run_all":
        return (newest,)
    oldest = before if reach is None else max(before, now - reach - timedelta(microseconds=1))
    found: list[datetime] = []
    slot: datetime | None = newest
    while slot is not None and len(found) < MOST_RUNS:
        found.append(slot)
        slot = latest_until(trigger, oldest, slot - timedelta(microseconds=1))
    return tuple(reversed(found))


def _rest(
    trigger: Trigger, before: datetime, newest: datetime, runs: tuple[datetime, ...], options: Options
) -> Iterator[Skipped]:
    """What is due and not run: always the oldest, so one stretch of slots."""
    last = latest_until(trigger, before, runs[0] - timedelta(microseconds=1)) if runs else newest
    if last is None:
        return
    first = next_after(trigger, before)
    if first is None or first > last:
        raise EngineStuck(f"no run found up to {last.isoformat()}, although there was one.")
    yield Skipped(first=first, last=last, slots=count_due(trigger, before, last), reason=_reason(runs, options))


def _reason(runs: tuple[datetime, ...], options: Options) -> str:
    if options.misfire == "skip":
        return "missed, and missed slots are skipped"
    if not runs:
        return "missed for longer than the catch-up window"
    if options.misfire == "run_once":
        return "missed, and only the newest missed slot is run"
    return f"missed, and at most {MOST_RUNS} within the catch-up window are run"
