"""Schedules as they are said over HTTP."""

from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from coilclaw.features.jobs.views import Name, Words, WorkLimits
from coilclaw.features.schedules.durations import write_duration
from coilclaw.features.schedules.store.schedule_runs import Cause, RunState
from coilclaw.features.schedules.store.schedules import Misfire, Origin, Overlap, TriggerType
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import JobState

Cron: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Time: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Zone: TypeAlias = Annotated[str, Meta(min_length=1, max_length=80)]
Goal: TypeAlias = Annotated[str, Meta(min_length=1, max_length=65_536)]
SopName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Failures: TypeAlias = Annotated[int, Meta(ge=0, le=1000)]
Steps: TypeAlias = Annotated[list[Words], Meta(max_length=100)]
Names: TypeAlias = Annotated[list[Name], Meta(max_length=200)]
ProjectName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Hash: TypeAlias = Annotated[str, Meta(min_length=1, max_length=80)]
ScheduleState: TypeAlias = Literal["waits", "paused", "disabled", "over"]


class TriggerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When it runs: one of `cron`, `interval` and `at`."""

    cron: Cron | None = None
    interval: Time | None = None
    every_seconds: Annotated[int, Meta(ge=60, le=3660 * 86_400)] | None = None
    """An interval in seconds."""
    at: Time | None = None


class SchedulePayload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each run does, by the names that stand beside it otherwise."""

    goal: Goal | None = None
    intent: Goal | None = None
    """Another name for `goal`."""
    sop: SopName | None = None
    inputs: dict[str, Json] | None = None
    steps: Steps | None = None
    constraints: WorkLimits | None = None
    evidence: Names | None = None


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to be made. One of `cron`, `interval` and `at` says when; `goal` or `sop` says what."""

    schedule_id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    """Its id; derived from the goal by default."""
    trigger: TriggerType | None = None
    """Which of the three says when; may be left out."""
    trigger_type: TriggerType | None = None
    """Another name for `trigger`."""
    cron: Cron | None = None
    """Five fields: minute, hour, day of the month, month, day of the week."""
    interval: Time | None = None
    """Time from one run to the next, such as 90m or 24h."""
    every: Time | None = None
    """Another name for `interval`."""
    at: Time | None = None
    """The one time it runs: local in its zone, or with an offset."""
    trigger_config: TriggerConfig | None = None
    """`cron`, `interval` or `at` may stand in here instead."""
    payload: SchedulePayload | None = None
    """What each run does may stand in here instead."""
    timezone: Zone | None = None
    """The IANA zone, such as Europe/Berlin; an interval needs none."""
    goal: Goal | None = None
    """What each run should do."""
    sop: SopName | None = None
    """The procedure that each run follows."""
    inputs: dict[str, Json] = {}
    """What is told to each run's job with its goal."""
    steps: Steps = []
    """The steps of each run's plan, in order."""
    constraints: WorkLimits = WorkLimits()
    evidence: Names = []
    """Names of artifacts each run must leave."""
    project: ProjectName | None = None
    """The project that runs work in; the workspace by default."""
    misfire: Misfire | None = None
    """Missed slots: the newest is run (`run_once`), all of them are (`run_all`, at most 20), or none (`skip`)."""
    catch_up_window: Time | None = None
    """How late a missed slot may still be run."""
    overlap: Overlap | None = None
    """When the last run is not over: skip the slot, queue one, run beside it, or replace it."""
    stagger: Time | None = None
    """Starts are spread over so much time."""
    max_failures: Failures | None = None
    """Failures in a row after which it pauses; 0 is never."""
    enabled: bool = True


class EditSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed; what is left out stays. A new time counts from now."""

    if_hash: Hash | UnsetType = UNSET
    """`hash` of the schedule as it was read: if it is another by now, nothing is changed (412)."""
    enabled: bool | UnsetType = UNSET
    """Whether it runs; true also ends a pause."""
    trigger: TriggerType | UnsetType = UNSET
    trigger_type: TriggerType | UnsetType = UNSET
    """Another name for `trigger`."""
    cron: Cron | UnsetType = UNSET
    interval: Time | UnsetType = UNSET
    every: Time | UnsetType = UNSET
    """Another name for `interval`."""
    at: Time | UnsetType = UNSET
    trigger_config: TriggerConfig | UnsetType = UNSET
    """`cron`, `interval` or `at` may stand in here instead."""
    payload: SchedulePayload | UnsetType = UNSET
    """What each run does may stand in here instead."""
    timezone: Zone | UnsetType = UNSET
    goal: Goal | UnsetType = UNSET
    """What each run is to do, in place of a goal or a procedure."""
    sop: SopName | UnsetType = UNSET
    """The procedure each run follows, in place of a goal or another procedure."""
    inputs: dict[str, Json] | UnsetType = UNSET
    """Inputs to be set; null takes one away."""
    steps: Steps | UnsetType = UNSET
    constraints: WorkLimits | UnsetType = UNSET
    """All limits anew."""
    evidence: Names | UnsetType = UNSET
    project: ProjectName | UnsetType | None = UNSET
    """The project that runs work in; null for the workspace."""
    misfire: Misfire | UnsetType | None = UNSET
    """Null for what is usual; so for the four below."""
    catch_up_window: Time | UnsetType | None = UNSET
    overlap: Overlap | UnsetType | None = UNSET
    stagger: Time | UnsetType | None = UNSET
    max_failures: Failures | UnsetType | None = UNSET


Asked = TypeVar("Asked", NewSchedule, EditSchedule)


def in_one_spelling(asked: Asked) -> Asked:
    """The same request with everything under its own name; UsageError when two names say different things."""
    config, payload = asked.trigger_config, asked.payload
    said: list[tuple[str, object]] = [("trigger", asked.trigger_type), ("interval", asked.every)]
    if isinstance(config, TriggerConfig):
        seconds = config.every_seconds
        said += [("cron", config.cron), ("interval", config.interval), ("at", config.at)]
        said += [("interval", None if seconds is None else write_duration(seconds))]
    if isinstance(payload, SchedulePayload):
        said += [("goal", payload.intent)]
        names = ("goal", "sop", "inputs", "steps", "constraints", "evidence")
        said += [(name, getattr(payload, name)) for name in names]
    given: dict[str, object] = {}
    empty = type(asked)()
    for name, value in said:
        if value is None or value is UNSET:
            continue
        own = given.get(name, getattr(asked, name))
        if own not in (value, getattr(empty, name)):
            raise UsageError(f"{name} is given twice with different values.", remedy=f"Give {name} once.")
        given[name] = value
    return msgspec.structs.replace(asked, **given)


MOST_SCHEDULES = 500
"""How many there may be before none is added over HTTP any more; the file itself may hold more."""


class ScheduleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What happens when a slot was missed, when runs would overlap, and when they fail."""

    misfire: Misfire
    catch_up_window: str | None
    """Null: any time."""
    overlap: Overlap
    stagger: str
    max_failures: int


class ScheduleLast(msgspec.Struct, frozen=True, kw_only=True):
    """The last run that made a job, and how it stands."""

    at: str
    status: str


class ScheduleRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, or neighbouring slots that were skipped together."""

    run_instance_id: str
    schedule_id: str
    scheduled_at: str
    cause: Cause
    """On time; caught up after it was missed; asked for by the owner."""
    state: RunState
    job_id: str | None
    outcome: JobState | None
    """How its job ended."""
    lateness_seconds: int
    slots: int
    first_slot: str
    reason: str
    """Why it was skipped or waits."""
    created_at: str
    ended_at: str | None = None
    """When its job was over."""
    said: str = ""
    """How its job's answer begins, or why it ended."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule in a list."""

    schedule_id: str
    origin: Origin
    """`registry`: the owner's; `followup`: the agent's own."""
    state: ScheduleState
    """It waits for its next run; it is paused after failures; it is switched off; it has no further run."""
    enabled: bool
    paused_reason: str | None
    trigger: TriggerType
    cron: str | None
    interval: str | None
    at: str | None
    timezone: str
    cron_summary: str
    """When it runs, in words."""
    cron_notes: str | None
    """What may surprise about that."""
    plain_summary: str
    """When it runs, as people say it."""
    plain_notes: list[str]
    """What may surprise about that, as people say it."""
    next_run_utc: str | None
    next_run_local: str | None
    """The same by the clocks of its zone."""
    failures: int
    """Runs that failed in a row."""
    last_run: ScheduleLast | None
    goal: str
    sop: str | None
    project: str | None
    """The project that runs work in; null for the workspace."""
    labels: list[str]
    """Where a follow-up's words came from."""
    hash: str
    """Stands for what is declared; hand it back as `if_hash`, or quoted as If-Match, when changing it."""


class ScheduleShown(Schedule, frozen=True, kw_only=True):
    """Everything there is to say about a schedule."""

    steps: list[str]
    constraints: WorkLimits
    evidence: list[str]
    inputs: dict[str, Json]
    """What is told to each run's job with its goal."""
    options: ScheduleOptions
    next_runs_utc: list[str]
    next_runs_local: list[str]
    due_at: str | None
    """When its next run starts, shifted by the stagger."""
    tzdata_version: str
    running: list[ScheduleRun]
    """Runs that are queued or not over."""
    runs: list[ScheduleRun]
    """The last runs, newest first."""


class ScheduleUnreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule whose row cannot be read."""

    schedule_id: str
    message: str


class Schedules(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules, and what is wrong with them."""

    items: list[Schedule]
    """The owner's, by name."""
    next_cursor: str | None
    """Hand it back as `cursor` for what follows; null at the end."""
    followups: list[Schedule]
    """What the agent planned for itself and is still to come; on the first page only."""
    unreadable: list[ScheduleUnreadable]
    registry_broken: str | None
    """What is wrong with cron/jobs.json; the schedules that were last good go on."""
    registry_changed: bool
    """The file says something else than what runs; a worker takes it over within a second."""


class RunStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was asked for."""

    run: ScheduleRun
    job_id: str | None
