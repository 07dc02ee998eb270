"""The owner's schedules over HTTP: every change is one edit of the registry, through the gate."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.job_spec import steps_of
from coilclaw.features.jobs.views import WorkLimits
from coilclaw.features.schedules.durations import write_duration
from coilclaw.features.schedules.edits import GatedEdits, awake, forget_followup, is_followup
from coilclaw.features.schedules.preview import KINDS
from coilclaw.features.schedules.registry import RegistryBroken, read_registry
from coilclaw.features.schedules.registry_edit import Edit, Fields, changing, removing
from coilclaw.features.schedules.schedule_entry import changes, new_entry
from coilclaw.features.schedules.schedule_views import file_trouble, in_words, local_time, state_of
from coilclaw.features.schedules.scheduler import Scheduler
from coilclaw.features.schedules.store.schedule_runs import RunRow, last_started, open_runs, recent_runs
from coilclaw.features.schedules.store.schedules import (
    JobPayload,
    ScheduleRow,
    get_mark,
    load_schedule,
    project_name,
)
from coilclaw.features.schedules.views import (
    MOST_SCHEDULES,
    EditSchedule,
    NewSchedule,
    Schedule,
    ScheduleLast,
    ScheduleOptions,
    ScheduleRun,
    ScheduleShown,
    ScheduleState,
    in_one_spelling,
)
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import ENDED, JobSpec
from coilclaw.server.core import Core
from coilclaw.server.problems import NotThere, Trouble
from coilclaw.server.serving import Serving
from coilclaw.store.job_history import last_answer
from coilclaw.store.jobs import load_job
from coilclaw.store.request_keys import keep_made, made_by
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.features.schedules.store.schedules import TriggerType

ANSWER = 300
"""Characters of what a run said that go with it in a list."""
LONG = 20_000
"""Of a longer answer nothing is told in a list: it would have to be redacted whole."""
RUNS = 20
NEXT = 5
_EMPTIED = frozenset({*WorkLimits.__struct_fields__, "steps", "evidence_required"})
_OPTIONS = ("misfire", "catch_up_window", "overlap", "stagger", "max_failures")


class OwnerSchedules:
    """The schedules of one home."""

    def __init__(self, serving: Serving) -> None:
        self._app = serving.runtime
        self._core = serving.core
        self._background = Background(serving.runtime, serving.core.conveyor)
        self._clockwork = Scheduler(serving.runtime)
        self._edits = GatedEdits(serving, self._clockwork)

    # Showing

    def listed(self, row: ScheduleRow) -> Schedule:
        """A schedule for a list."""
        words, config, payload = in_words(self._app, row, 1), row.trigger_config, row.payload
        last = last_started(self._app.db.reader, row.schedule_id)
        every = config.get("every_seconds")
        is_job = isinstance(payload, JobPayload)
        return Schedule(
            schedule_id=row.schedule_id,
            origin=row.origin,
            state=msgspec.convert(state_of(row), ScheduleState),
            enabled=row.enabled,
            paused_reason=row.paused_reason,
            trigger=row.trigger_type,
            cron=_text(config.get("cron")),
            interval=write_duration(every) if isinstance(every, int) else None,
            at=_text(config.get("at")),
            timezone=row.timezone,
            cron_summary=str(words["cron_summary"]),
            cron_notes=_text(words["cron_notes"]),
            plain_summary=str(words["plain_summary"]),
            plain_notes=msgspec.convert(words["plain_notes"], list[str]),
            next_run_utc=row.next_run_utc,
            next_run_local=local_time(row),
            failures=row.failures,
            last_run=None if last is None else ScheduleLast(at=last.at, status=last.status),
            goal=payload.intent if is_job else f"Procedure {payload.sop}",
            sop=None if is_job else payload.sop,
            project=project_name(payload),
            labels=list(row.labels),
            hash=row.declared_hash,
        )

    def shown(self, row: ScheduleRow) -> ScheduleShown:
        """A schedule with everything."""
        db, words, payload = self._app.db.reader, in_words(self._app, row, NEXT), row.payload
        options = row.options
        return ScheduleShown(
            **msgspec.structs.asdict(self.listed(row)),
            steps=_steps(row),
            constraints=msgspec.convert(msgspec.to_builtins(payload.constraints), WorkLimits),
            evidence=list(payload.outputs.evidence_required),
            inputs={name: value for name, value in payload.inputs.items() if name != "steps"},
            options=ScheduleOptions(
                misfire=options.misfire,
                catch_up_window=None if options.catch_up_seconds is None else write_duration(options.catch_up_seconds),
                overlap=options.overlap,
                stagger=write_duration(options.stagger_seconds),
                max_failures=options.max_failures,
            ),
            next_runs_utc=msgspec.convert(words["next_runs_utc"], list[str]),
            next_runs_local=msgspec.convert(words["next_runs_local"], list[str]),
            due_at=row.due_at,
            tzdata_version=row.tzdata_version,
            running=[run_shown(self._core, run) for run in open_runs(db, row.schedule_id)[:RUNS]],
            runs=[run_shown(self._core, run) for run in recent_runs(db, row.schedule_id, RUNS)],
        )

    async def trouble(self) -> tuple[str, bool]:
        """What is wrong with the registry, and whether it says something else than what runs."""
        source, db = self._clockwork.source(), self._app.db.reader
        data = await asyncio.to_thread(source.read)
        as_taken = data is not None and sha256_hex(data) == get_mark(db, "taken") and not get_mark(db, "broken")
        return ("", False) if as_taken and not source.labels() else file_trouble(self._app)

    # Changing

    async def create(self, asked: NewSchedule, by: str, key: str | None) -> ScheduleRow:
        """Declare a schedule; the same request again gives the one it made."""
        made = None if key is None else made_by(self._app.db.reader, "schedule", key)
        if made is not None and (there := load_schedule(self._app.db.reader, made)) is not None:
            return there
        earlier = await self._edits.added_by(by, key)
        if earlier is not None:
            return self._found(earlier)
        asked = in_one_spelling(asked)
        given = _given(asked)
        _must_say_all(asked, given)
        now, named = self._app.clock(), list[str]()

        def edit(jobs: list[Fields]) -> None:
            _must_have_room(jobs)
            taken = [str(job.get("job_id")) for job in jobs]
            entry = new_entry(asked.schedule_id, given, now, taken, enabled=asked.enabled)
            if entry["job_id"] in taken:
                raise Trouble(
                    409,
                    "SCHEDULE_EXISTS",
                    f"there is a schedule {asked.schedule_id!r} already.",
                    remedy="Choose another schedule_id, or change that one.",
                )
            named[:] = [str(entry["job_id"])]
            jobs.append(entry)

        def in_transaction(tx: Tx) -> None:
            if key is not None:
                keep_made(tx, self._app.clock, "schedule", key, named[0])

        await self._edit(edit, by, in_transaction, key)
        return self._found(named[0])

    async def change(self, schedule_id: str, asked: EditSchedule, if_hash: str | None, by: str) -> ScheduleRow:
        """Declare a schedule otherwise, if it still is as it was read."""
        self._must_be_declared(schedule_id)
        asked = in_one_spelling(asked)
        changed = _changes(asked, self._app.clock)
        if not changed:
            raise UsageError("nothing to change.", remedy="Name at least one field.")

        def edit(jobs: list[Fields]) -> None:
            job = self._expected(jobs, schedule_id, if_hash)
            spec, more = changed.get("job_spec"), dict[str, Json]()
            if isinstance(spec, Mapping) and "intent" not in spec and "job_spec" not in job:
                more["job_spec"] = {"intent": str(changed.get("sop") or job.get("sop")), **spec}  # an SOP needs none
            changing(schedule_id, {**changed, **more})(jobs)
            _drop_empty(job)

        await self._edit(edit, by, awake(self._app, schedule_id, on=asked.enabled is True, by=by))
        return self._found(schedule_id)

    async def remove(self, schedule_id: str, if_hash: str | None, by: str) -> None:
        """Take a schedule away, or a follow-up; what runs goes on."""
        if is_followup(self._app, schedule_id):
            await forget_followup(self._app, schedule_id, by=by)
            return

        def edit(jobs: list[Fields]) -> None:
            self._expected(jobs, schedule_id, if_hash)
            removing(schedule_id)(jobs)

        await self._edit(edit, by)

    async def run_now(self, schedule_id: str, key: str | None) -> RunRow:
        """Start a run at once; the same request again gives the one it started."""
        self._must_be_declared(schedule_id)
        if self._app.estop.engaged():
            raise Trouble(409, "ESTOP", "ESTOP is engaged: no run begins.", remedy="Clear ESTOP, then start it.")
        try:
            return await self._clockwork.dispatcher(self._background).run_now(schedule_id, key or "")
        except UsageError as error:
            if load_schedule(self._app.db.reader, schedule_id) is None:
                raise NotThere("such schedule") from error
            raise

    async def _edit(
        self,
        edit: Edit,
        by: str,
        in_transaction: Callable[[Tx], None] | None = None,
        key: str | None = None,
    ) -> None:
        try:
            await self._edits.make(edit, by=by, in_transaction=in_transaction, key=key)
        except RegistryBroken as error:
            raise Trouble(
                409,
                "REGISTRY_BROKEN",
                error.message,
                remedy="Fix cron/jobs.json; until then the last valid schedules stay in force.",
            ) from error

    def _must_be_declared(self, schedule_id: str) -> None:
        if is_followup(self._app, schedule_id):
            raise Trouble(
                409,
                "IS_FOLLOWUP",
                f"{schedule_id} is a follow-up of the agent's own.",
                remedy="It runs by itself; it can only be removed.",
            )

    def _expected(self, jobs: list[Fields], schedule_id: str, if_hash: str | None) -> Fields:
        """The entry in the file, which must be what was read."""
        job = next((each for each in jobs if each.get("job_id") == schedule_id), None)
        if job is None:
            raise NotThere("such schedule", "It was removed meanwhile; see GET /v1/schedules.")
        if if_hash is not None and if_hash != _hash_of(job):
            raise Trouble(
                412,
                "CHANGED_MEANWHILE",
                f"{schedule_id} has changed since you read it.",
                remedy="Read it again, then change it.",
            )
        return job

    def _found(self, schedule_id: str) -> ScheduleRow:
        row = load_schedule(self._app.db.reader, schedule_id)
        if row is None:
            raise NotThere("such schedule", "It was removed at the same time.")
        return row


def run_shown(core: Core, run: RunRow) -> ScheduleRun:
    """A run as it is shown, with the outcome of its job."""
    shown = msgspec.convert(run, ScheduleRun, from_attributes=True)
    job = load_job(core.db.reader, run.job_id) if run.job_id is not None else None
    if job is None or job.state not in ENDED:
        return shown
    answer = last_answer(core.db.reader, job) if job.state == "DONE" else job.reason
    said = core.said(answer) if len(answer) <= LONG else ""  # before it is cut: half a secret would not be seen as one
    first = next((line for line in said.splitlines() if line.strip()), "")
    return msgspec.structs.replace(shown, ended_at=job.updated_at, said=first[:ANSWER])


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _must_have_room(jobs: list[Fields]) -> None:
    if len(jobs) >= MOST_SCHEDULES:
        raise Trouble(
            422,
            "TOO_MANY_SCHEDULES",
            f"there are {len(jobs)} schedules, and over HTTP none is added beyond {MOST_SCHEDULES}.",
            remedy="Remove some, or add it with `coilclaw schedule add`.",
        )


def _hash_of(job: Fields) -> str:
    """The hash of what an entry declares, as its row has it."""
    (declared,) = read_registry(msgspec.json.encode({"version": 1, "jobs": [job]})).declared
    return declared.declared_hash


def _drop_empty(job: Fields) -> None:
    """Limits that were taken away leave nothing behind."""
    spec = job.get("job_spec")
    if not isinstance(spec, Mapping):
        return
    made = dict(spec)
    for name in ("constraints", "outputs", "inputs"):
        part = made.get(name)
        if isinstance(part, Mapping):
            made[name] = {key: value for key, value in part.items() if value is not None or key not in _EMPTIED}
    job["job_spec"] = made


def _steps(row: ScheduleRow) -> list[str]:
    try:
        return list(steps_of(JobSpec(job_id="", intent="", inputs=row.payload.inputs)))
    except UsageError:
        return []


# From what was asked to an entry of the registry


def _given(asked: NewSchedule) -> dict[str, Any]:
    """As the command line would have it."""
    limits = asked.constraints
    return {
        **_when(asked.trigger, {"cron": asked.cron, "interval": asked.interval, "at": asked.at}),
        "timezone": asked.timezone,
        "goal": asked.goal,
        "sop": asked.sop,
        "tools": limits.allowed_tools,
        "domains": limits.allowed_domains,
        "max_files": limits.max_files_changed,
        "max_prs": limits.max_prs,
        "inputs": asked.inputs,
        "steps": asked.steps,
        "evidence": asked.evidence,
        "project": asked.project,
        **{name: getattr(asked, name) for name in _OPTIONS},
    }


def _when(trigger: "TriggerType | None", given: Mapping[str, str | None]) -> dict[str, str]:
    """The one thing that says when."""
    said = [kind for kind in KINDS if given[kind]]
    if len(said) > 1:
        raise UsageError("cron, interval and at exclude each other.", remedy="Give one of them.")
    if trigger is not None and said != [trigger]:
        raise UsageError(f"the trigger is {trigger}, so {trigger} says when.", remedy=f"Give {trigger}.")
    return {kind: str(given[kind]) for kind in said}


def _must_say_all(asked: NewSchedule, given: Mapping[str, Any]) -> None:
    kind = next((name for name in KINDS if given.get(name)), None)
    if kind is None:
        raise UsageError("it does not say when.", remedy="Give cron, interval or at.")
    if asked.timezone is None and kind != "interval":
        raise UsageError("it does not say in which time zone.", remedy="Give timezone, such as Europe/Berlin or UTC.")
    if (asked.goal is None) == (asked.sop is None):
        raise UsageError("a run follows either a goal or a procedure.", remedy="Give goal or sop, one of them.")


def _changes(asked: EditSchedule, clock: Callable[[], Any]) -> dict[str, Json]:
    """The fields of the entry that change; None takes one away."""
    if asked.goal is not UNSET and asked.sop is not UNSET:
        raise UsageError("a run follows either a goal or a procedure.", remedy="Give goal or sop, one of them.")
    when = _when(_set(asked.trigger), {name: _set(getattr(asked, name)) for name in KINDS})
    given = {**when, "timezone": _set(asked.timezone), "goal": _set(asked.goal), "sop": _set(asked.sop)}
    made = changes(given, clock())
    if asked.enabled is not UNSET:
        made["enabled"] = asked.enabled
    if asked.project is not UNSET:
        made["project"] = asked.project
    made.update({name: cast("Json", getattr(asked, name)) for name in _OPTIONS if getattr(asked, name) is not UNSET})
    spec: dict[str, Json] = dict(cast("Mapping[str, Json]", made.get("job_spec", {})))
    told: dict[str, Json] = dict(asked.inputs) if isinstance(asked.inputs, dict) else {}
    if isinstance(asked.steps, list):
        told["steps"] = list(asked.steps) or None
    if told:
        spec["inputs"] = told
    if isinstance(asked.constraints, WorkLimits):
        spec["constraints"] = msgspec.to_builtins(asked.constraints)
    if isinstance(asked.evidence, list):
        spec["outputs"] = {"evidence_required": list(asked.evidence) or None}
    if spec:
        made["job_spec"] = spec
    return made


def _set(value: Any) -> Any:
    return None if value is UNSET else value
