"""Showing schedules: the list, one of them whole, and what is wrong with the file."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.cli.output import moment, print_line, print_rows, tell
from coilclaw.cli.phrases import JOBS
from coilclaw.features.schedules.schedule_views import file_trouble, in_words, local_time
from coilclaw.packets.canonical import Json, JsonObject
from coilclaw.packets.text import one_line, visible

if TYPE_CHECKING:
    from coilclaw.features.schedules.store.schedules import ScheduleRow
    from coilclaw.runtime import Runtime


def warn_of_file(app: "Runtime") -> None:
    """Say loudly when the file is broken, and plainly when it was changed since."""
    broken, behind = file_trouble(app)
    if broken:
        app.warn(broken)
    elif behind:
        tell("cron/jobs.json has changed; a running `coilclaw worker` loads it within a second.", err=True)


def show_list(app: "Runtime", told: dict[str, Json]) -> None:
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
            tell(
                f"{each['schedule_id']} is paused: {one_line(str(each['paused_reason']))}."
                f" `coilclaw schedule enable {each['schedule_id']}` lets it run again.",
                err=True,
            )
    if followups:
        print_line("\nFollow-ups planned by the agent:")
        rows = [(str(e["schedule_id"]), str(e["next_run_local"]), one_line(str(e["goal"]))) for e in followups]
        print_rows(rows, ("follow-up", "at", "goal"), empty="")
    if (schedules or followups) and not worker_is_running(app.home.locks_dir):
        tell("No worker is running: start `coilclaw worker` to run them.", err=True)


def _line(each: JsonObject) -> tuple[str, ...]:
    last = each["last_run"]
    was = f"{_word(last.get('status'))} {moment(str(last.get('at')))}" if isinstance(last, dict) else "-"
    return (
        str(each["schedule_id"]),
        str(each["state"]),
        str(each["next_run_local"] or "-"),
        str(each["cron_summary"]),
        was,
        one_line(str(each["goal"]))[:80],
    )


def lines(told: JsonObject) -> list[str]:
    """The same for people."""
    options = msgspec.convert(told["options"], dict[str, Json])
    late = options["catch_up_seconds"]
    shown = [
        f"schedule:   {told['schedule_id']}",
        f"state:      {told['state']}{': ' + one_line(str(told['paused_reason'])) if told['paused_reason'] else ''}",
        f"when:       {told['plain_summary']}",
        *(f"note:       {note}" for note in msgspec.convert(told["plain_notes"], list[str])),
    ]
    shown += [
        f"next runs:  {', '.join(msgspec.convert(told['next_runs_local'], list[str])) or '-'}",
        f"missed:     {options['misfire']}, {'at any time' if late is None else f'within {_span(late)}'}",
        f"overlap:    {options['overlap']}",
        f"failures:   {told['failures']} in a row; pauses at {options['max_failures'] or 'none'}",
    ]
    if options["stagger_seconds"]:
        shown.append(f"stagger:    within {_span(options['stagger_seconds'])}; starts at {moment(str(told['due_at']))}")
    if told["project"]:
        shown.append(f"project:    {one_line(str(told['project']))}")
    shown += ["goal:", *(f"  {line}" for line in visible(str(told["goal"])).splitlines())]
    runs = msgspec.convert(told["runs"], list[dict[str, Json]])
    if runs:
        shown += ["runs:", *(_run_line(run) for run in runs)]
    return shown


def _word(state: Json) -> str:
    """How a run stands: as its job does, or where it has none, by its own state."""
    jobs: dict[str, str] = {**JOBS}
    return jobs.get(str(state), str(state).lower())


def _span(seconds: Json) -> str:
    from coilclaw.features.schedules.durations import write_duration

    return write_duration(seconds) if isinstance(seconds, int) else "-"


def _run_line(run: JsonObject) -> str:
    words = f"  {moment(str(run['scheduled_at']))}  {_word(run['outcome'] or run['state'])}"
    if run["job_id"]:
        words += f"  {run['job_id']}"
    late = run["lateness_seconds"]
    if run["cause"] == "manual":
        words += "  by hand"
    elif isinstance(late, int) and late >= 60:
        words += f"  {_span(late)} late"
    if isinstance(run["slots"], int) and run["slots"] > 1:
        words += f"  {run['slots']} slots from {moment(str(run['first_slot']))}"
    return words + (f"  ({one_line(str(run['reason']))})" if run["reason"] else "")


def say_row(app: "Runtime", row: "ScheduleRow", done: str) -> None:
    """What a change came to."""
    told = in_words(app, row, 1)
    print_line(f"{row.schedule_id} is {done}. {told['plain_summary']}")
    for note in msgspec.convert(told["plain_notes"], list[str]):
        print_line(f"Note: {note}")
    print_line(f"Next run: {local_time(row) or 'none'}.")
