"""Schedules as they are said over HTTP, and what the App must give for them."""

from typing import Annotated, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import UNSET, Meta, UnsetType

from coilclaw.packets.canonical import Json
from coilclaw.packets.job import JobState
from coilclaw.server.views.work import Name, Words, WorkLimits
from coilclaw.store.schedule_runs import Cause, RunRow, RunState
from coilclaw.store.schedules import Misfire, Origin, Overlap, ScheduleRow, TriggerType

Cron: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Time: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Zone: TypeAlias = Annotated[str, Meta(min_length=1, max_length=80)]
Goal: TypeAlias = Annotated[str, Meta(min_length=1, max_length=65_536)]
SopName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Failures: TypeAlias = Annotated[int, Meta(ge=0, le=1000)]
Steps: TypeAlias = Annotated[list[Words], Meta(max_length=100)]
Names: TypeAlias = Annotated[list[Name], Meta(max_length=200)]
Hash: TypeAlias = Annotated[str, Meta(min_length=1, max_length=80)]
ScheduleState: TypeAlias = Literal["waits", "paused", "disabled", "over"]


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to be made. One of `cron`, `every` and `at` says when; `goal` or `sop` says what."""

    schedule_id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    """Its name; made from the goal otherwise."""
    trigger: TriggerType | None = None
    """Which of the three says when; may be left out."""
    cron: Cron | None = None
    """Five fields: minute, hour, day of the month, month, day of the week."""
    every: Time | None = None
    """Time from one run to the next, such as 90m or 24h."""
    at: Time | None = None
    """The one time it runs: local in its zone, or with an offset."""
    timezone: Zone | None = None
    """The IANA zone, such as Europe/Berlin; an interval needs none."""
    goal: Goal | None = None
    """What each run is to do."""
    sop: SopName | None = None
    """The procedure that each run follows."""
    steps: Steps = []
    """The steps of each run's plan, in order."""
    constraints: WorkLimits = WorkLimits()
    evidence: Names = []
    """Names of artifacts each run must leave."""
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
    cron: Cron | UnsetType = UNSET
    every: Time | UnsetType = UNSET
    at: Time | UnsetType = UNSET
    timezone: Zone | UnsetType = UNSET
    goal: Goal | UnsetType = UNSET
    """What each run is to do, in place of a goal or a procedure."""
    sop: SopName | UnsetType = UNSET
    """The procedure each run follows, in place of a goal or another procedure."""
    steps: Steps | UnsetType = UNSET
    constraints: WorkLimits | UnsetType = UNSET
    """All limits anew."""
    evidence: Names | UnsetType = UNSET
    misfire: Misfire | UnsetType | None = UNSET
    """Null for what is usual; so for the four below."""
    catch_up_window: Time | UnsetType | None = UNSET
    overlap: Overlap | UnsetType | None = UNSET
    stagger: Time | UnsetType | None = UNSET
    max_failures: Failures | UnsetType | None = UNSET


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
    every: str | None
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


@runtime_checkable
class ScheduleDesk(Protocol):
    """Schedules as the App has them. Unknown ids, states that do not fit, and what the gate denies are Troubles.

    Every change of what is declared is an action of the owner's, with a receipt.
    """

    def listed(self, row: ScheduleRow) -> Schedule:
        """A schedule for a list."""
        ...

    def shown(self, row: ScheduleRow) -> ScheduleShown:
        """A schedule with everything."""
        ...

    async def trouble(self) -> tuple[str, bool]:
        """What is wrong with the registry, and whether it says something else than what runs."""
        ...

    async def create(self, asked: NewSchedule, by: str, key: str | None) -> ScheduleRow:
        """Declare one; the same request again gives the one it made."""
        ...

    async def change(self, schedule_id: str, asked: EditSchedule, if_hash: str | None, by: str) -> ScheduleRow:
        """Declare it otherwise, if it still is as it was read."""
        ...

    async def remove(self, schedule_id: str, if_hash: str | None, by: str) -> None:
        """Take one away, or a follow-up; what runs goes on."""
        ...

    async def run_now(self, schedule_id: str, key: str | None) -> RunRow:
        """Start a run at once; the same request again gives the one it started."""
        ...
