"""Schedules as they are shown, at the terminal and over HTTP: the list, one whole, what is wrong with the file."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.packets.canonical import Json

if TYPE_CHECKING:
    from coilclaw.features.schedules.store.schedules import ScheduleRow
    from coilclaw.runtime.runtime import Runtime

RUNS = 20


def find(app: "Runtime", schedule_id: str) -> "ScheduleRow":
    """The schedule of that id, or a UsageError that names the nearest ones."""
    from coilclaw.features.schedules.store.schedules import load_schedule, schedule_ids
    from coilclaw.packets.errors import UsageError
    from coilclaw.packets.names import did_you_mean

    row = load_schedule(app.db.reader, schedule_id)
    if row is None:
        known = schedule_ids(app.db.reader)
        if schedule_id in declared_ids(app):
            raise UsageError(
                f"{schedule_id} is in the file but has not been loaded yet.",
                remedy="`coilclaw worker` or `coilclaw worker --once` loads it.",
            )
        raise UsageError(f"there is no schedule {schedule_id!r}.", remedy=did_you_mean(schedule_id, known))
    return row


def declared_ids(app: "Runtime") -> list[str]:
    """The ids in the file as it lies there; none when it is broken."""
    from coilclaw.features.schedules.registry import RegistryBroken, read_registry
    from coilclaw.features.schedules.scheduler import Scheduler
    from coilclaw.features.schedules.store.schedules import declared_hashes

    source = Scheduler(app).source()
    data = source.read()
    if data is None:
        return []
    try:
        read = read_registry(data, declared_hashes(app.db.reader), source.redact)
        return [each.schedule_id for each in read.declared]
    except RegistryBroken:
        return []


def file_trouble(app: "Runtime") -> tuple[str, bool]:
    """What is wrong with the file, and whether it says something else than what runs."""
    from coilclaw.features.schedules.registry_edit import broken_now
    from coilclaw.features.schedules.scheduler import Scheduler
    from coilclaw.features.schedules.store.schedules import declared_hashes, get_mark
    from coilclaw.packets.canonical import sha256_hex

    source = Scheduler(app).source()
    broken = broken_now(source, declared_hashes(app.db.reader))
    data = source.read()
    taken = get_mark(app.db.reader, "taken")
    if data is None and broken is None and taken:
        return "cron/jobs.json is missing. The last valid schedules keep running.", True
    behind = data is not None and sha256_hex(data) != taken
    if behind and broken is None and not taken and not declared_ids(app):
        behind = False  # an empty registry that nobody took over yet
    return ("" if broken is None else str(broken)), behind


def state_of(row: "ScheduleRow") -> str:
    """In a word, whether it runs."""
    if row.paused_reason is not None:
        return "paused"
    if not row.enabled:
        return "disabled"
    return "waits" if row.next_run_utc else "over"


def summary(app: "Runtime", row: "ScheduleRow") -> dict[str, Json]:
    """A schedule in a listing."""
    from coilclaw.features.schedules.store.schedule_runs import last_started
    from coilclaw.features.schedules.store.schedules import project_name

    told = in_words(app, row, 1)
    last = last_started(app.db.reader, row.schedule_id)
    return {
        "schedule_id": row.schedule_id,
        "state": state_of(row),
        "enabled": row.enabled,
        "paused_reason": row.paused_reason,
        "trigger": row.trigger_type,
        "timezone": row.timezone,
        "cron_summary": told["cron_summary"],
        "cron_notes": told["cron_notes"],
        "next_run_utc": row.next_run_utc,
        "next_run_local": local_time(row),
        "failures": row.failures,
        "last_run": None if last is None else {"at": last.at, "status": last.status},
        "goal": _goal(row),
        "project": project_name(row.payload),
    }


def _goal(row: "ScheduleRow") -> str:
    from coilclaw.features.schedules.store.schedules import JobPayload

    return row.payload.intent if isinstance(row.payload, JobPayload) else f"Procedure {row.payload.sop}"


def in_words(app: "Runtime", row: "ScheduleRow", count: int) -> dict[str, Json]:
    """What its trigger means, and its next runs; none when it does not run."""
    from coilclaw.features.schedules.timetable import tell, trigger_of_row
    from coilclaw.packets.errors import UsageError

    try:
        told: dict[str, Json] = msgspec.to_builtins(tell(trigger_of_row(row), app.clock(), count))
    except UsageError as error:  # a zone that the rules in force do not know any more
        return {
            "cron_summary": str(error),
            "cron_notes": None,
            "plain_summary": str(error),
            "plain_notes": [],
            "next_runs_utc": [],
            "next_runs_local": [],
        }
    if not row.live or row.next_run_utc is None:
        told["next_runs_utc"] = told["next_runs_local"] = []
    return told


def local_time(row: "ScheduleRow") -> str | None:
    """When it runs next, by the clocks of its zone."""
    from coilclaw.features.schedules.timetable import slot_of
    from coilclaw.lib.cron.time_format import written_local
    from coilclaw.lib.cron.zones import zones
    from coilclaw.packets.errors import UsageError

    if row.next_run_utc is None:
        return None
    try:
        return written_local(slot_of(row.next_run_utc), zones().get(row.timezone), row.timezone)
    except UsageError:
        return row.next_run_utc


def list_all(app: "Runtime") -> dict[str, Json]:
    """Every schedule, the follow-ups apart, and what is wrong with the file."""
    from coilclaw.features.schedules.store.schedules import list_schedules

    broken, behind = file_trouble(app)
    schedules, unreadable = list_schedules(app.db.reader, "registry")
    followups, others = list_schedules(app.db.reader, "followup")
    return {
        "schedules": [summary(app, row) for row in schedules],
        "followups": [{**summary(app, row), "labels": list(row.labels)} for row in followups if row.next_run_utc],
        "unreadable": [{"schedule_id": e.schedule_id, "message": str(e)} for e in (*unreadable, *others)],
        "registry_broken": broken or None,
        "registry_changed": behind,
    }


def story(app: "Runtime", row: "ScheduleRow") -> dict[str, Json]:
    """Everything there is to say about a schedule."""
    from coilclaw.features.schedules.store.schedule_runs import recent_runs

    runs = recent_runs(app.db.reader, row.schedule_id, RUNS)
    return {
        **summary(app, row),
        **in_words(app, row, 5),
        "origin": row.origin,
        "trigger_config": row.trigger_config,
        "payload": msgspec.to_builtins(row.payload),
        "options": msgspec.to_builtins(row.options),
        "tzdata_version": row.tzdata_version,
        "due_at": row.due_at,
        "labels": list(row.labels),
        "runs": [msgspec.to_builtins(run) for run in runs],
    }
