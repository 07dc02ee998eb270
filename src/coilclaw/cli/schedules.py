"""Showing schedules: the list, one of them whole, and what is wrong with the file."""

from typing import TYPE_CHECKING

import click
import msgspec

from coilclaw.cli.output import print_line, print_rows
from coilclaw.packets.canonical import Json, JsonObject
from coilclaw.packets.text import one_line, visible

if TYPE_CHECKING:
    from coilclaw.app import App
    from coilclaw.store.schedules import ScheduleRow

RUNS = 20


def find(app: "App", schedule_id: str) -> "ScheduleRow":
    """The schedule of that id, or a UsageError that names the nearest ones."""
    from coilclaw.packets.errors import UsageError
    from coilclaw.packets.names import did_you_mean
    from coilclaw.store.schedules import load_schedule, schedule_ids

    row = load_schedule(app.db.reader, schedule_id)
    if row is None:
        known = schedule_ids(app.db.reader)
        if schedule_id in declared_ids(app):
            raise UsageError(
                f"{schedule_id} stands in the file and was not taken over yet.",
                remedy="`coilclaw worker` takes it over, or `coilclaw worker --once`.",
            )
        raise UsageError(f"there is no schedule {schedule_id!r}.", remedy=did_you_mean(schedule_id, known))
    return row


def declared_ids(app: "App") -> list[str]:
    """The ids in the file as it lies there; none when it is broken."""
    from coilclaw.app.clockwork import Clockwork
    from coilclaw.jobs.registry import RegistryBroken, read_registry
    from coilclaw.store.schedules import declared_hashes

    source = Clockwork(app).source()
    data = source.read()
    if data is None:
        return []
    try:
        read = read_registry(data, declared_hashes(app.db.reader), source.redact)
        return [each.schedule_id for each in read.declared]
    except RegistryBroken:
        return []


def file_trouble(app: "App") -> tuple[str, bool]:
    """What is wrong with the file, and whether it says something else than what runs."""
    from coilclaw.app.clockwork import Clockwork
    from coilclaw.jobs.registry_edit import broken_now
    from coilclaw.packets.canonical import sha256_hex
    from coilclaw.store.schedules import declared_hashes, get_mark

    source = Clockwork(app).source()
    broken = broken_now(source, declared_hashes(app.db.reader))
    data = source.read()
    taken = get_mark(app.db.reader, "taken")
    if data is None and broken is None and taken:
        return "cron/jobs.json is gone. The schedules that were last good go on.", True
    behind = data is not None and sha256_hex(data) != taken
    if behind and broken is None and not taken and not declared_ids(app):
        behind = False  # an empty registry that nobody took over yet
    return ("" if broken is None else str(broken)), behind


def warn_of_file(app: "App") -> None:
    """Say loudly when the file is broken, and plainly when it was changed since."""
    broken, behind = file_trouble(app)
    if broken:
        app.warn(broken)
    elif behind:
        click.echo("cron/jobs.json was changed; a running `coilclaw worker` takes it over within a second.", err=True)


def state_of(row: "ScheduleRow") -> str:
    """In a word, whether it runs."""
    if row.paused_reason is not None:
        return "paused"
    if not row.enabled:
        return "disabled"
    return "waits" if row.next_run_utc else "over"


def summary(app: "App", row: "ScheduleRow") -> dict[str, Json]:
    """A schedule in a listing."""
    from coilclaw.store.schedule_runs import last_started

    told = _told(app, row, 1)
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
        "next_run_local": _local(row),
        "failures": row.failures,
        "last_run": None if last is None else {"at": last.at, "status": last.status},
        "goal": _goal(row),
    }


def _goal(row: "ScheduleRow") -> str:
    from coilclaw.store.schedules import JobPayload

    return row.payload.intent if isinstance(row.payload, JobPayload) else f"SOP {row.payload.sop}"


def _told(app: "App", row: "ScheduleRow", count: int) -> dict[str, Json]:
    from coilclaw.jobs.timetable import tell, trigger_of_row
    from coilclaw.packets.errors import UsageError

    try:
        told: dict[str, Json] = msgspec.to_builtins(tell(trigger_of_row(row), app.clock(), count))
    except UsageError as error:  # a zone that the rules in force do not know any more
        return {"cron_summary": str(error), "cron_notes": None, "next_runs_utc": [], "next_runs_local": []}
    if not row.live or row.next_run_utc is None:
        told["next_runs_utc"] = told["next_runs_local"] = []
    return told


def _local(row: "ScheduleRow") -> str | None:
    from coilclaw.jobs.moments import written_local
    from coilclaw.jobs.timetable import slot_of
    from coilclaw.jobs.zones import zones
    from coilclaw.packets.errors import UsageError

    if row.next_run_utc is None:
        return None
    try:
        return written_local(slot_of(row.next_run_utc), zones().get(row.timezone), row.timezone)
    except UsageError:
        return row.next_run_utc


def list_all(app: "App") -> dict[str, Json]:
    """Every schedule, the follow-ups apart, and what is wrong with the file."""
    from coilclaw.store.schedules import list_schedules

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


def show_list(app: "App", told: dict[str, Json]) -> None:
    """The same for people."""
    from coilclaw.gate.executor import worker_is_running

    warn_of_file(app)
    for each in msgspec.convert(told["unreadable"], list[dict[str, str]]):
        app.warn(each["message"])
    schedules = msgspec.convert(told["schedules"], list[dict[str, Json]])
    followups = msgspec.convert(told["followups"], list[dict[str, Json]])
    print_rows(
        [_line(each) for each in schedules],
        ("schedule", "state", "next run", "when", "last run", "goal"),
        empty="There are no schedules.",
    )
    for each in schedules:
        if each["paused_reason"]:
            click.echo(
                f"{each['schedule_id']} is paused: {one_line(str(each['paused_reason']))}."
                f" `coilclaw schedule enable {each['schedule_id']}` lets it run again.",
                err=True,
            )
    if followups:
        print_line("\nFollow-ups that the agent planned for itself:")
        rows = [(str(e["schedule_id"]), str(e["next_run_local"]), one_line(str(e["goal"]))) for e in followups]
        print_rows(rows, ("follow-up", "at", "goal"), empty="")
    if (schedules or followups) and not worker_is_running(app.home.locks_dir):
        click.echo("No worker is running: start `coilclaw worker`, and they run.", err=True)


def _line(each: JsonObject) -> tuple[str, ...]:
    last = each["last_run"]
    was = f"{last.get('status')} {last.get('at')}" if isinstance(last, dict) else "-"
    return (
        str(each["schedule_id"]),
        str(each["state"]),
        str(each["next_run_local"] or "-"),
        str(each["cron_summary"]),
        was,
        one_line(str(each["goal"]))[:80],
    )


def story(app: "App", row: "ScheduleRow") -> dict[str, Json]:
    """Everything there is to say about a schedule."""
    from coilclaw.store.schedule_runs import recent_runs

    runs = recent_runs(app.db.reader, row.schedule_id, RUNS)
    return {
        **summary(app, row),
        **_told(app, row, 5),
        "origin": row.origin,
        "trigger_config": row.trigger_config,
        "payload": msgspec.to_builtins(row.payload),
        "options": msgspec.to_builtins(row.options),
        "tzdata_version": row.tzdata_version,
        "due_at": row.due_at,
        "labels": list(row.labels),
        "runs": [msgspec.to_builtins(run) for run in runs],
    }


def lines(told: JsonObject) -> list[str]:
    """The same for people."""
    options = msgspec.convert(told["options"], dict[str, Json])
    late = options["catch_up_seconds"]
    shown = [
        f"schedule:   {told['schedule_id']}",
        f"state:      {told['state']}{': ' + one_line(str(told['paused_reason'])) if told['paused_reason'] else ''}",
        f"when:       {told['cron_summary']}",
    ]
    if told["cron_notes"]:
        shown.append(f"note:       {told['cron_notes']}")
    shown += [
        f"next runs:  {', '.join(msgspec.convert(told['next_runs_local'], list[str])) or '-'}",
        f"missed:     {options['misfire']}, {'at any time' if late is None else f'within {_span(late)}'}",
        f"overlap:    {options['overlap']}",
        f"failures:   {told['failures']} in a row; pauses at {options['max_failures'] or 'none'}",
    ]
    if options["stagger_seconds"]:
        shown.append(f"stagger:    within {_span(options['stagger_seconds'])}; starts at {told['due_at']}")
    shown += ["goal:", *(f"  {line}" for line in visible(str(told["goal"])).splitlines())]
    runs = msgspec.convert(told["runs"], list[dict[str, Json]])
    if runs:
        shown += ["runs:", *(_run_line(run) for run in runs)]
    return shown


def _span(seconds: Json) -> str:
    from coilclaw.jobs.durations import write_duration

    return write_duration(seconds) if isinstance(seconds, int) else "-"


def _run_line(run: JsonObject) -> str:
    words = f"  {run['scheduled_at']}  {run['outcome'] or run['state']}"
    if run["job_id"]:
        words += f"  {run['job_id']}"
    late = run["lateness_seconds"]
    if run["cause"] == "manual":
        words += "  by hand"
    elif isinstance(late, int) and late >= 60:
        words += f"  {_span(late)} late"
    if isinstance(run["slots"], int) and run["slots"] > 1:
        words += f"  {run['slots']} slots from {run['first_slot']}"
    return words + (f"  ({one_line(str(run['reason']))})" if run["reason"] else "")


def say_row(app: "App", row: "ScheduleRow", done: str) -> None:
    """What a change came to."""
    told = _told(app, row, 1)
    print_line(f"{row.schedule_id} is {done}. {told['cron_summary']}")
    if told["cron_notes"]:
        print_line(f"Note: {told['cron_notes']}")
    print_line(f"Next run: {_local(row) or 'none'}.")
