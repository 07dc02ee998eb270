"""The timetable of one schedule: from what its row says to its trigger, its next run, and how both are told. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from coilclaw.features.schedules.durations import write_duration
from coilclaw.features.schedules.store.schedules import Advance, ScheduleRow, TriggerType
from coilclaw.features.schedules.triggers import CronTrigger, IntervalTrigger, Trigger, next_after, read_at, stagger
from coilclaw.features.schedules.triggers import check_trigger as check
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import stamp

EPOCH = "1970-01-01T00:00:00Z"
SHOWN_RUNS = 3
_LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule in words, and its next runs."""

    cron_summary: str
    cron_notes: str | None
    plain_summary: str
    plain_notes: tuple[str, ...]
    next_runs_utc: tuple[str, ...]
    next_runs_local: tuple[str, ...]


def slot_text(moment: datetime) -> str:
    """A slot's one spelling: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment.year >= 1000 else stamp(moment)


def slot_of(text: str) -> datetime:
    """The moment that spelling names; UsageError when it names none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(f"{text[:40]!r} is not a valid run time.")
    return moment


@lru_cache(maxsize=4096)
def _cron(text: str, timezone: str) -> CronTrigger:
    return CronTrigger(cron=text, timezone=timezone)


def trigger_of(kind: TriggerType, config: dict[str, Json], timezone: str) -> Trigger:
    """The trigger that a row or the registry describes; UsageError when it cannot be read."""
    if kind == "cron":
        return _cron(str(config.get("cron")), timezone)
    if kind == "at":
        return read_at(str(config.get("at")), timezone)
    from coilclaw.lib.cron.time_format import moment_of

    every = config.get("every_seconds")
    if not isinstance(every, int):
        raise UsageError("the interval has no period.", remedy="Write one such as 90m.")
    anchor = moment_of(str(config.get("anchor")), "the anchor").astimezone(UTC).replace(microsecond=0)
    return IntervalTrigger(every_seconds=every, anchor=anchor, timezone=timezone)


def check_trigger(kind: TriggerType, config: dict[str, Json], timezone: str, now: datetime | None = None) -> None:
    """UsageError if the engine cannot take it; with `now`, also if its only time has passed."""
    from coilclaw.lib.cron.zones import zones

    zones().get(timezone)
    check(trigger_of(kind, config, timezone), now or _LONG_AGO)


def tzdata_version() -> str:
    """The rules about time zones in force."""
    from coilclaw.lib.cron.zones import zones

    return zones().version


def trigger_of_row(row: ScheduleRow) -> Trigger:
    """A stored schedule's trigger."""
    return trigger_of(row.trigger_type, row.trigger_config, row.timezone)


def shift_of(row: ScheduleRow) -> timedelta:
    """How much later than due its runs start."""
    return stagger(row.schedule_id, row.options.stagger_seconds)


def standing(row: ScheduleRow, counted_from: datetime, next_run: datetime | None) -> Advance:
    """Where a schedule stands once its next run is known."""
    return Advance(
        counted_from=slot_text(counted_from),
        next_run_utc=None if next_run is None else slot_text(next_run),
        due_at=None if next_run is None else stamp(next_run + shift_of(row)),
        tzdata_version=tzdata_version(),
    )


def counted(row: ScheduleRow, after: datetime) -> ScheduleRow:
    """The row with its next run counted from an instant; none while it may not run."""
    after = after.replace(microsecond=0)
    found = next_after(trigger_of_row(row), after) if row.live else None
    at = standing(row, after, found)
    return msgspec.structs.replace(
        row,
        counted_from=at.counted_from,
        next_run_utc=at.next_run_utc,
        due_at=at.due_at,
        tzdata_version=at.tzdata_version,
    )


# In words


@lru_cache(maxsize=1024)
def tell(trigger: Trigger, after: datetime, count: int = SHOWN_RUNS) -> Told:
    """What a trigger means, and when it runs after an instant."""
    from coilclaw.lib.cron.time_format import spoken, written, written_local
    from coilclaw.lib.cron.zones import zones

    zone = zones().get(trigger.timezone)
    found = tuple(_runs(trigger, after, count))
    if isinstance(trigger, CronTrigger):
        day = after.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        summary, notes, plain, plain_notes = _words(trigger.cron, trigger.timezone, day)
    elif isinstance(trigger, IntervalTrigger):
        every, notes, plain_notes = write_duration(trigger.every_seconds), None, ()
        summary = f"Every {every}, counted from {written_local(trigger.anchor, zone, trigger.timezone)}."
        plain = f"Every {every}, counted from {spoken(trigger.anchor, zone, trigger.timezone)}."
    else:
        notes, plain_notes = None, ()
        summary = f"Once at {written_local(trigger.at, zone, trigger.timezone)}."
        plain = f"Once, on {spoken(trigger.at, zone, trigger.timezone)}."
    return Told(
        cron_summary=summary,
        cron_notes=notes,
        plain_summary=plain,
        plain_notes=plain_notes,
        next_runs_utc=tuple(written(run) for run in found),
        next_runs_local=tuple(written_local(run, zone, trigger.timezone) for run in found),
    )


def _runs(trigger: Trigger, after: datetime, count: int) -> Iterator[datetime]:
    found: datetime | None = after
    while count and (found := next_after(trigger, found)) is not None:
        yield found
        count -= 1


@lru_cache(maxsize=4096)
def _words(cron: str, timezone: str, day: datetime) -> tuple[str, str | None, str, tuple[str, ...]]:
    """They are the same all day: which clock changes are still to come is told from its beginning."""
    from coilclaw.features.schedules.forecast import forecast, plainly

    made, plain = forecast(cron, timezone, day, 0), plainly(cron, timezone, day)
    return made.cron_summary, made.cron_notes, plain.summary, plain.notes
