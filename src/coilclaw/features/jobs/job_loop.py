"""The runner: takes a claimed job as far as it goes now. One step at a time, each ending in a checkpoint."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from coilclaw.agent.model import Halted
from coilclaw.features.jobs.changed_files import ChangedFiles
from coilclaw.features.jobs.checkpoint import Checkpoint, CheckpointRefused, read_checkpoint, write_checkpoint
from coilclaw.features.jobs.evidence import missing, put_manifest
from coilclaw.features.jobs.job_pulls import JobEnding, JobPulls
from coilclaw.features.jobs.job_spec import Rules, unmet, with_evidence, with_programs
from coilclaw.features.jobs.planning import PlanDraft, SpecDraft, narrowed_spec, planned
from coilclaw.features.jobs.record import (
    end,
    evidence_due,
    keep,
    prepare,
    say_reminder,
    say_step,
    to_state,
    told_outcomes,
)
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import (
    CoilclawError,
    ModelOutputError,
    ProviderUnavailable,
    StepOverrun,
    StorageError,
)
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.job import ENDED, JobState, StepReport
from coilclaw.packets.labels import join_labels, untrusted_only
from coilclaw.packets.skill import SkillUse
from coilclaw.runtime.job_forge import JobForge
from coilclaw.store.database import Database
from coilclaw.store.job_history import brought_in, job_artifacts, standing_of
from coilclaw.store.jobs import (
    CheckpointTooLarge,
    JobMoved,
    JobRow,
    add_job_event,
    job_version,
    load_job,
    release_job,
    save,
)
from coilclaw.store.tx import Tx
from coilclaw.store.usage import day_began, tokens_of_job, tokens_since

if TYPE_CHECKING:
    from coilclaw.agent.drafts import ModelDraft

T = TypeVar("T")
Log: TypeAlias = Callable[[str, dict[str, Json]], None]
WATCH_SECONDS = 0.2
LONGEST_PAUSE = 3600.0


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the work on jobs."""

    step_seconds: float
    step_retries: int
    daily_tokens: int
    max_hours: int = 72
    """Within which a job that goes on must be done."""
    pause_seconds: float = 5.0
    """Before the second try of a step; it doubles with each further one."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A step to be done."""

    job: JobRow
    checkpoint: Checkpoint


class Planner(msgspec.Struct, frozen=True, kw_only=True):
    """How a model has its say about a job before it begins."""

    wants: Callable[[JobRow], bool]
    spec: "Callable[[JobRow], Awaitable[ModelDraft[SpecDraft]]]"
    plan: "Callable[[JobRow], Awaitable[ModelDraft[PlanDraft]]]"


class Overrun(CoilclawError):
    """A step took longer than it may."""


class JobLoop:
    """Works on one job at a time for each call; any number of calls may run."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        step: Callable[[Order], Awaitable[StepReport]],
        planner: Planner | None,
        consult: Callable[[JobRow], Awaitable[tuple[SkillUse, ...]]],
        forge: JobForge | None,
        rules: Callable[[], Rules],
        bounds: Callable[[], Bounds],
        stopped: Callable[[], bool],
        commanding: Callable[[str], bool],
        hash_file: Callable[[str, str], str | None],
        withdraw: Callable[[str, str], Awaitable[None]],
        redact: Callable[[str], str],
        say: Log,
    ) -> None:
        self._db = db
        self._clock = clock
        self._step = step
        self._planner = planner
        self._consult = consult
        self._pulls = JobPulls(db=db, clock=clock, forge=forge, max_hours=lambda: bounds().max_hours, redact=redact)
        self._rules = rules
        self._bounds = bounds
        self._stopped = stopped
        self._commanding = commanding
        """Whether a command of a job runs now: it has a time limit of its own."""
        self._files = ChangedFiles(db, hash_file)
        self._withdraw = withdraw
        self._redact = redact
        self._say = say

    async def work(self, job: JobRow, stopping: Callable[[], bool]) -> None:
        """Go on with a claimed job until it ends, waits, pauses, is taken away, or work stops."""
        try:
            while job.worker is not None and not (stopping() or self._stopped()):
                job = await self._onward(job)
        except JobMoved:
            await self._moved(job)
        finally:
            if job.worker is not None:
                await asyncio.shield(self._give_back(job))

    async def _onward(self, job: JobRow) -> JobRow:
        """The next thing there is to do. What breaks on the way must not run for ever, nor take other jobs down."""
        try:
            return await self._advance(job)
        except sqlite3.IntegrityError as error:
            return await self._again(job, "FAILED", f"The step's result is too large or invalid: {error}.", 0.0)
        except (CheckpointRefused, CheckpointTooLarge) as error:  # no repeat makes it another one
            return await self._end(job, "FAILED", str(error))
        except (StorageError, sqlite3.Error):
            raise  # the disk, not the job
        except CoilclawError as error:
            return await self._again(job, "FAILED", str(error), 0.0)
        except Exception as error:
            return await self._again(job, "FAILED", f"The step crashed: {type(error).__name__}: {error}.", 0.0)

    async def _give_back(self, job: JobRow) -> None:
        await self._db.write(lambda tx: release_job(tx, self._clock, job.job_id, job.worker or ""))

    async def _moved(self, job: JobRow) -> None:
        """Somebody else changed the job, most likely its owner. If it is over, the step that was cut is added to it."""
        now = load_job(self._db.reader, job.job_id)
        if now is None or now.state not in ENDED:
            return
        await self._after_end(now)
        await self._end_commands(now, f"its job is {now.state}")
        files = await self._files.of_job(job.job_id)

        def amend(tx: Tx) -> None:
            manifest = put_manifest(tx, self._clock, now, files)
            add_job_event(tx, self._clock, job.job_id, "evidence", {"evidence": [manifest]})

        await self._db.write(amend)

    async def _advance(self, job: JobRow) -> JobRow:
        """The next thing there is to do. A job that comes back without a worker is left alone."""
        now = self._clock()
        if job.deadline_at is not None and job.deadline_at <= stamp(now):
            return await self._ended(job, self._pulls.overdue(job))
        match job.state:
            case "RECEIVED" | "POLICY_CHECKED" if self._planner is not None and self._planner.wants(job):
                return await self._plan(job, now, self._planner)
            case "RECEIVED" | "PARSED" | "POLICY_CHECKED" | "PLANNED":
                return await self._write(lambda tx: prepare(tx, self._clock, job, self._rules()))
            case "PAUSED_BUDGET":
                return await self._unpause(job, now)
            case "WAITING_APPROVAL":
                return await self._wake(job)
            case "EXECUTING":
                return await self._execute(job, now)
            case "PR_OPENED" | "MERGED" | "DEPLOYED":
                return await self._ended(job, await self._pulls.advance(job))
            case _:
                return await self._sleep(job, job.deadline_at)

    async def _write(self, work: Callable[[Tx], JobRow]) -> JobRow:
        return await self._db.write(work)

    async def _sleep(self, job: JobRow, until: str | None) -> JobRow:
        resting = msgspec.structs.replace(job, worker=None, next_wakeup_at=until)
        return await self._write(lambda tx: keep(tx, self._clock, resting, "sleep", {"until": until}))

    # The day's budget

    def _day_is_spent(self, now: datetime) -> bool:
        return tokens_since(self._db.reader, day_began(now)) >= self._bounds().daily_tokens

    async def _pause(self, job: JobRow, now: datetime) -> JobRow:
        until = _within(stamp(_midnight_after(now)), job.deadline_at)
        paused = msgspec.structs.replace(job, worker=None, next_wakeup_at=until)
        reason = f"Today's budget of {self._bounds().daily_tokens} tokens is used up; it continues at {until}."
        self._say("job_paused", {"job_id": job.job_id, "until": until})
        return await self._write(lambda tx: to_state(tx, self._clock, paused, "PAUSED_BUDGET", reason=reason))

    async def _unpause(self, job: JobRow, now: datetime) -> JobRow:
        if self._day_is_spent(now):
            return await self._sleep(job, _within(stamp(_midnight_after(now)), job.deadline_at))
        back = job.paused_from or "EXECUTING"
        awake = msgspec.structs.replace(job, next_wakeup_at=stamp(now))
        return await self._write(lambda tx: to_state(tx, self._clock, awake, back))

    # Planning

    async def _plan(self, job: JobRow, now: datetime, planner: Planner) -> JobRow:
        """Have a model read the goal, then plan it. A draft that cannot be used leaves the plain goal, for good."""
        if self._day_is_spent(now):
            return await self._pause(job, now)
        if tokens_of_job(self._db.reader, job.job_id) >= job.budget.tokens:
            return await self._write(lambda tx: prepare(tx, self._clock, job, self._rules()))
        if (consulted := await self._under_skills(job)) is not job:
            return consulted
        asked = planner.spec if job.state == "RECEIVED" else planner.plan
        try:
            draft = await self._cut_short(job, asked(job))
        except Halted:
            return await self._write(lambda tx: _given_back(tx, self._clock, job))
        except Overrun as error:
            reason = str(error)
            return await self._write(lambda tx: self._drafted(tx, job, None, reason))
        return await self._write(lambda tx: self._drafted(tx, job, draft, draft.fault))

    def _drafted(
        self, tx: Tx, job: JobRow, draft: "ModelDraft[SpecDraft] | ModelDraft[PlanDraft] | None", fault: str
    ) -> JobRow:
        """One transaction: what it cost, what became of it, and where the job stands now."""
        rules, value = self._rules(), None if draft is None else draft.value
        what = "spec" if job.state == "RECEIVED" else "plan"
        story: dict[str, Json] = {"what": what, "used": value is not None, "reason": self._redact(fault)[:500]}
        if draft is not None:
            draft.pay(tx)
            story |= {"provider": draft.provider, "model": draft.model}
        add_job_event(tx, self._clock, job.job_id, "draft", story)
        if isinstance(value, SpecDraft):
            spec = narrowed_spec(with_programs(job.spec, rules), value, rules)
            job = msgspec.structs.replace(job, spec=spec)
            return prepare(tx, self._clock, job, rules, ("POLICY_CHECKED",))
        if isinstance(value, PlanDraft):
            plan = planned(job.spec, value, rules)
            steps = tuple(msgspec.structs.replace(s, description=self._redact(s.description)) for s in plan.steps)
            job = msgspec.structs.replace(job, plan=msgspec.structs.replace(plan, steps=steps))
        return prepare(tx, self._clock, job, rules)

    # Skills

    async def _under_skills(self, job: JobRow) -> JobRow:
        """The same job when it may begin. Otherwise it has ended, or must now leave what its skill asks for."""
        uses = await self._consult(job)
        if wrong := unmet(job.spec, uses, self._rules()):
            return await self._end(job, "FAILED", f"SKILL_PRECONDITION: {'; '.join(wrong)}.")
        spec = with_evidence(job.spec, uses)
        if spec == job.spec:
            return job
        grown = msgspec.structs.replace(job, spec=spec)
        story: dict[str, Json] = {"skills": [use.told for use in uses]}
        return await self._write(lambda tx: keep(tx, self._clock, grown, "skill", story))

    # Waiting

    async def _wake(self, job: JobRow) -> JobRow:
        """Go on when every action that was waited for has its end; what became of each stands in the thread."""
        standing = standing_of(self._db.reader, job.turn_id).values()
        follows = "sop" in job.spec.inputs  # a procedure does not go on over an end that nobody knows
        if any(not (action.ended or action.running) or (follows and action.status == "UNKNOWN") for action in standing):
            return await self._sleep(job, job.deadline_at)
        if self._pulls.waits(job):
            return await self._ended(job, await self._pulls.answered(job))
        checkpoint = _checkpoint_of(job)
        awake = _with(
            msgspec.structs.replace(job, next_wakeup_at=stamp(self._clock())),
            msgspec.structs.replace(checkpoint, waiting=()),
        )

        def go_on(tx: Tx) -> JobRow:
            told_outcomes(tx, self._clock, job, checkpoint.waiting)
            return to_state(tx, self._clock, awake, "EXECUTING")

        return await self._write(go_on)

    # A step

    async def _execute(self, job: JobRow, now: datetime) -> JobRow:
        checkpoint = _checkpoint_of(job)
        if checkpoint.finished:
            return await self._ended(job, await self._pulls.publish(job))
        if self._day_is_spent(now):
            return await self._pause(job, now)
        spent = self._spent(job, checkpoint)
        if spent:
            return await self._end(job, "FAILED", spent)
        if checkpoint.step == 0 and (consulted := await self._under_skills(job)) is not job:
            return consulted
        await self._pulls.prepare(job)
        self._say("job_step", {"job_id": job.job_id, "step": checkpoint.step})
        try:
            report = await self._cut_short(job, self._step(Order(job=job, checkpoint=checkpoint)))
        except StepOverrun as error:
            return await self._again(job, "FAILED", str(error), 0.0)
        except ModelOutputError as error:
            return await self._end(job, "FAILED", f"FAILED_MODEL_OUTPUT: {error}")
        except Overrun as error:
            return await self._again(job, "TIMED_OUT", str(error), 0.0)
        except ProviderUnavailable as error:
            return await self._again(job, "FAILED", str(error), error.retry_after or 0.0)
        return await self._after_step(job, checkpoint, report)

    def _spent(self, job: JobRow, checkpoint: Checkpoint) -> str:
        """Which bound of its own the job has reached, in words."""
        tokens = tokens_of_job(self._db.reader, job.job_id)
        if tokens >= job.budget.tokens:
            return f"It used up its budget of {job.budget.tokens} tokens ({tokens})."
        if checkpoint.step >= job.budget.steps:
            return f"It was not finished after {job.budget.steps} steps."
        return ""

    async def _cut_short(self, job: JobRow, step: Awaitable[T]) -> T:
        """Do a step, unless it takes too long or the job is changed by somebody else meanwhile."""
        work = asyncio.ensure_future(step)
        watch = asyncio.ensure_future(self._watch(job))
        try:
            await self._until_spent(job, {work, watch})
            if work.done():
                return work.result()
            if watch.done():
                raise JobMoved(f"job {job.job_id} was changed by another process.")
            raise Overrun(f"The step took longer than {self._bounds().step_seconds:g} seconds.")
        finally:
            watch.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})  # whatever ran has its receipt before anything goes on
                if not work.cancelled():
                    work.exception()

    async def _until_spent(self, job: JobRow, either: "set[asyncio.Future[Any]]") -> None:
        """Wait until one of them is over, or the step has used up its time; that of its commands does not count."""
        now = asyncio.get_running_loop().time
        left = self._bounds().step_seconds
        while left > 0 and not any(each.done() for each in either):
            began, commanding = now(), self._commanding(job.job_id)
            await asyncio.wait(either, timeout=min(left, WATCH_SECONDS), return_when=asyncio.FIRST_COMPLETED)
            if not (commanding and self._commanding(job.job_id)):
                left -= now() - began

    async def _watch(self, job: JobRow) -> None:
        while job_version(self._db.reader, job.job_id) == job.version:
            await asyncio.sleep(WATCH_SECONDS)

    async def _after_step(self, job: JobRow, before: Checkpoint, report: StepReport) -> JobRow:
        if report.stage == "held":
            return await self._write(lambda tx: _given_back(tx, self._clock, job))
        if report.stage == "failed":
            return await self._end(job, "FAILED", report.reason)
        after = msgspec.structs.replace(
            before,
            step=before.step + 1,
            tokens=tokens_of_job(self._db.reader, job.job_id),
            calls=before.calls + report.calls,
            fresh=report.fresh,
            inherited=report.inherited,
            waiting=report.waiting,
        )
        story: dict[str, Json] = {"step": before.step, "stage": report.stage, "calls": report.calls}
        job = msgspec.structs.replace(job, attempt=0)
        if report.stage == "waiting":
            return await self._wait(_with(job, after), report.waiting)
        if report.stage == "called":
            return await self._write(lambda tx: keep(tx, self._clock, _with(job, after), "step", story))
        lacking = missing(evidence_due(job, before.position), job_artifacts(self._db.reader, job.job_id))
        if lacking:
            return await self._lacks(job, after, lacking, story)
        position = before.position + 1
        if job.plan is None or position >= len(job.plan.steps):
            finished = _with(job, msgspec.structs.replace(after, finished=True))  # no step is paid for twice
            return await self._write(lambda tx: save(tx, self._clock, finished, finished.version))
        further = _with(job, msgspec.structs.replace(after, position=position, reminded=False))

        def next_part(tx: Tx) -> JobRow:
            kept = keep(tx, self._clock, further, "step", story)
            say_step(tx, self._clock, kept, position)
            return kept

        return await self._write(next_part)

    async def _lacks(self, job: JobRow, after: Checkpoint, lacking: list[str], story: dict[str, Json]) -> JobRow:
        """A step was answered without its evidence: the model is told once, then the job has failed."""
        if after.reminded or "sop" in job.spec.inputs:  # a procedure has no model to tell
            of = len(job.plan.steps) if job.plan is not None else 1
            step = f"step {after.position + 1} of {of}: " if of > 1 else ""
            return await self._end(_with(job, after), "FAILED", f"{step}evidence missing: {', '.join(lacking)}.")
        reminded = _with(job, msgspec.structs.replace(after, reminded=True))

        def remind(tx: Tx) -> JobRow:
            kept = keep(tx, self._clock, reminded, "step", {**story, "evidence_missing": [*lacking]})
            say_reminder(tx, self._clock, kept, after.position)
            return kept

        return await self._write(remind)

    async def _wait(self, job: JobRow, waiting: tuple[str, ...]) -> JobRow:
        self._say("job_waits", {"job_id": job.job_id, "actions": list(waiting)})
        resting = msgspec.structs.replace(job, worker=None, next_wakeup_at=job.deadline_at)
        reason = f"It is waiting for {', '.join(waiting)}."
        return await self._write(lambda tx: to_state(tx, self._clock, resting, "WAITING_APPROVAL", reason=reason))

    async def _again(self, job: JobRow, last: JobState, reason: str, at_least: float) -> JobRow:
        """Try the step again after a pause, or give the job up when that was the last try."""
        job = self._marked(job)
        attempt = job.attempt + 1
        if attempt > self._bounds().step_retries:
            return await self._end(job, last, f"{reason} It was attempted {attempt} times.")
        pause = min(LONGEST_PAUSE, max(at_least, self._bounds().pause_seconds * 2 ** (attempt - 1)))
        until = _within(stamp(self._clock() + timedelta(seconds=pause)), job.deadline_at)
        story: dict[str, Json] = {"attempt": attempt, "until": until, "reason": self._redact(reason)}
        self._say("job_retry", {"job_id": job.job_id, **story})
        resting = msgspec.structs.replace(job, attempt=attempt, worker=None, next_wakeup_at=until)
        return await self._write(lambda tx: keep(tx, self._clock, resting, "retry", story))

    # Ends

    async def _ended(self, job: JobRow, came: JobRow | JobEnding) -> JobRow:
        return await self._end(job, came.state, came.reason) if isinstance(came, JobEnding) else came

    async def _end(self, job: JobRow, to: JobState, reason: str) -> JobRow:
        await self._end_commands(job, "its job ends")  # before the manifest, which names every receipt
        job = self._marked(job)
        files = await self._files.of_job(job.job_id)
        text = self._redact(reason)
        ended = await self._write(lambda tx: end(tx, self._clock, job, to, text, files))
        self._say("job_ended", {"job_id": job.job_id, "state": to, "reason": text})
        await self._after_end(ended)
        return ended

    def _marked(self, job: JobRow) -> JobRow:
        """The job with the label of everything it took in, also in a step that left no checkpoint."""
        brought = (label for label, _ in brought_in(self._db.reader, job.thread_id, job.turn_id))
        labels = untrusted_only((job.checkpoint_label, *brought))
        return msgspec.structs.replace(job, checkpoint_label=join_labels(labels)) if labels else job

    async def _end_commands(self, job: JobRow, why: str) -> None:
        """What a job has running in the background ends with it."""
        for action in standing_of(self._db.reader, job.turn_id).values():
            if action.running:
                await self._withdraw(action.action_id, why)

    async def _after_end(self, job: JobRow) -> None:
        """Nothing of a job that is over goes on waiting for the owner."""
        await self._pulls.close(job)
        for action in standing_of(self._db.reader, job.turn_id).values():
            if action.status == "PENDING":
                try:
                    await self._withdraw(action.action_id, f"its job is {job.state}")
                except CoilclawError as error:  # the others are withdrawn all the same
                    self._say("withdraw_failed", {"action_id": action.action_id, "message": str(error)})


def _given_back(tx: Tx, clock: Clock, job: JobRow) -> JobRow:
    release_job(tx, clock, job.job_id, job.worker or "")
    return msgspec.structs.replace(job, worker=None)


def _checkpoint_of(job: JobRow) -> Checkpoint:
    return Checkpoint() if job.checkpoint is None else read_checkpoint(job.checkpoint)


def _with(job: JobRow, checkpoint: Checkpoint) -> JobRow:
    return msgspec.structs.replace(job, checkpoint=write_checkpoint(checkpoint), checkpoint_label=checkpoint.label)


def _midnight_after(now: datetime) -> datetime:
    return (now.astimezone(UTC) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)


def _within(moment: str, deadline: str | None) -> str:
    return moment if deadline is None else min(moment, deadline)
