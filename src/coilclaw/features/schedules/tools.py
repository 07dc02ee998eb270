"""schedule_add: a schedule that the agent proposes and the owner agrees to, written as `coilclaw schedule add` does."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.ids import utc_now
from coilclaw.packets.ports import Context, Files, ToolOutput, Touches
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import Declared

if TYPE_CHECKING:
    from coilclaw.features.schedules.preview import Preview
    from coilclaw.features.schedules.registry_edit import Fields
    from coilclaw.packets.ports import Tool
    from coilclaw.runtime.runtime import Runtime

RUNS = 3
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
"""Arguments hold at any time: whether the one time of an `at` has passed is for the card and the call to say."""

ADD = (
    "Add a schedule for the owner, who is asked: a job with this goal starts at these times from then on. To go on"
    " later by yourself, use schedule_followup."
)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=200)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]


class ScheduleAddArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of schedule_add."""

    goal: Annotated[
        str, msgspec.Meta(description="What each run should do, complete in itself.", min_length=1, max_length=8192)
    ]
    title: Annotated[
        str, msgspec.Meta(description="A few words its id is made of; the goal's by default.", max_length=60)
    ] = ""
    cron: Annotated[
        str | None, msgspec.Meta(description="When, as five cron fields: `0 9 * * 1-5` is every weekday at nine.")
    ] = None
    interval: Annotated[str | None, msgspec.Meta(description="Or the time between runs: 90m, 24h.")] = None
    at: Annotated[str | None, msgspec.Meta(description="Or once: 2026-12-01T09:00, in the zone's local time.")] = None
    timezone: Annotated[
        str | None, msgspec.Meta(description="The IANA zone, such as Europe/Berlin; an interval needs none.")
    ] = None
    steps: Annotated[
        tuple[Text, ...], msgspec.Meta(description="The steps of each run's plan, in order.", max_length=100)
    ] = ()
    tools: Annotated[Names, msgspec.Meta(description="The tools a run may use; every one available by default.")] = ()
    domains: Annotated[Names, msgspec.Meta(description="Hosts a run may reach; only hosts on the allowlist.")] = ()
    max_files: Annotated[int, msgspec.Meta(description="Workspace files a run may change.", ge=0)] | None = None
    max_prs: Annotated[int, msgspec.Meta(description="Pull requests a run may open.", ge=0)] | None = None
    evidence: Annotated[Names, msgspec.Meta(description="Artifacts each run must leave, or it fails.")] = ()

    def __post_init__(self) -> None:
        look = previewed(self, _LONG_AGO)
        if not look.valid:  # the owner is not asked about what cannot be
            raise ValueError(" ".join((look.fault, look.remedy)).strip())


def previewed(args: ScheduleAddArgs, now: datetime) -> "Preview":
    """What the trigger means, and the next runs."""
    from coilclaw.features.schedules.preview import PreviewAsk, preview

    asked = PreviewAsk(cron=args.cron, interval=args.interval, at=args.at, timezone=args.timezone, count=RUNS)
    return preview(asked, now)


def schedule_tools(runtime: "Runtime | None") -> "tuple[Tool, ...]":
    """schedule_add, over a home; without one it can only be described."""
    clock = utc_now if runtime is None else runtime.clock

    async def schedule_add(args: ScheduleAddArgs, context: Context) -> ToolOutput:
        if runtime is None or context.files is None:
            raise ToolError("schedules were not granted to this call.", code="NOT_GRANTED", begun=False)
        return await _add(runtime, args, context.files, context.thread_id)

    schedule_add.__doc__ = ADD
    return (
        Declared(
            schedule_add,
            ScheduleAddArgs,
            effect="WRITE",
            destination="workspace",
            idempotent=True,
            always_ask=True,
            # the path is what has it denied in a tainted turn, kept for an undo, and asked for in the background
            touches=lambda args: _touches(args, clock()),
            summary=lambda args: f"Add a schedule. {previewed(args, _LONG_AGO).plain_summary} {one_line(args.goal)}",
        ),
    )


def _touches(args: ScheduleAddArgs, now: datetime) -> Touches:
    from coilclaw.features.schedules.registry import REGISTRY

    return Touches(writes=(REGISTRY,), says=_card(args, now), in_workspace=True)


def _card(args: ScheduleAddArgs, now: datetime) -> str:
    """All of it in plain words."""
    look = previewed(args, now)
    if not look.valid:
        return f"It would add nothing: {look.fault} {look.remedy}".strip()
    limits = (
        ("Tools", ", ".join(args.tools)),
        ("Hosts", ", ".join(args.domains)),
        ("Files it may change", "" if args.max_files is None else str(args.max_files)),
        ("Pull requests it may open", "" if args.max_prs is None else str(args.max_prs)),
        ("Must leave", ", ".join(args.evidence)),
    )
    return "\n".join(
        [
            look.plain_summary,
            *look.plain_notes,
            "Next runs:",
            *(f"  {each}" for each in look.next_runs_local),
            f"Each run: {args.goal}",
            *(f"  {number}. {step}" for number, step in enumerate(args.steps, start=1)),
            *(f"{name}: {value}" for name, value in limits if value),
        ]
    )


async def _add(runtime: "Runtime", args: ScheduleAddArgs, files: Files, thread_id: str) -> ToolOutput:
    from coilclaw.features.schedules.registry import REGISTRY, RegistryBroken
    from coilclaw.features.schedules.schedule_entry import new_entry
    from coilclaw.features.schedules.scheduler import Scheduler
    from coilclaw.features.schedules.store.schedules import load_schedule

    made: list[str] = []
    given = _given(args) | {"project": _project(runtime, thread_id)}

    def edit(jobs: "list[Fields]") -> None:
        taken = [str(job.get("job_id")) for job in jobs]
        entry = new_entry(None, given, runtime.clock(), taken, enabled=True, named=args.title)
        there = next((job for job in jobs if _same(job, entry)), None)
        if there is None:
            jobs.append(entry)
        made[:] = [str((there or entry)["job_id"])]

    try:
        await Scheduler(runtime).edit(edit, by="agent", write=lambda data: files.write(REGISTRY, data))
    except (UsageError, RegistryBroken) as error:  # both before anything is written
        raise ToolError(error.message, remedy=error.remedy, code="SCHEDULE_REFUSED", begun=False) from error
    row = load_schedule(runtime.db.reader, made[0])
    following = "" if row is None or row.next_run_utc is None else f" Its next run is at {row.next_run_utc}."
    return ToolOutput(
        text=f"The schedule {made[0]} is in {REGISTRY}.{following}", label=INTERNAL, metadata={"schedule": made[0]}
    )


def _project(runtime: "Runtime", thread_id: str) -> str | None:
    """The project of the conversation: what it schedules works where it does."""
    from coilclaw.store.projects import load_project, project_of

    project = load_project(runtime.db.reader, project_of(runtime.db.reader, thread_id))
    return None if project is None else project.name


def _given(args: ScheduleAddArgs) -> dict[str, Any]:
    """As the command line would have it."""
    return msgspec.structs.asdict(args)


def _same(job: "Fields", entry: "Fields") -> bool:
    """Whether a schedule is there already: the call may come again after a crash, and twice is never meant."""
    apart = {"job_id", "anchor"}
    told: dict[str, Json] = {name: value for name, value in entry.items() if name not in apart}
    return {name: job.get(name) for name in told} == told and job.get("project") == entry.get("project")
