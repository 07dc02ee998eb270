"""Background work of an open home: where jobs are requested, and the worker that runs them."""

import time
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from coilclaw.config import RouterModel
from coilclaw.features.jobs.checkpoint import Checkpoint
from coilclaw.features.jobs.evidence import missing
from coilclaw.features.jobs.job_loop import Bounds, JobLoop, Order, Planner
from coilclaw.features.jobs.job_requests import JobRequests
from coilclaw.features.jobs.job_spec import Rules, rules_of
from coilclaw.features.jobs.planning import (
    PlanDraft,
    SpecDraft,
    may_plan,
    plan_task,
    read_plan,
    read_spec,
    spec_task,
    tools_of,
)
from coilclaw.features.jobs.record import evidence_at, evidence_due, words_of
from coilclaw.features.jobs.repositories import place_of
from coilclaw.features.jobs.store import calls_of_job
from coilclaw.packets.action import OWNER, Label
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import stamp
from coilclaw.packets.job import JobLimits, StepReport
from coilclaw.runtime.extensions import skills_of
from coilclaw.runtime.tool_specs import offered_tools
from coilclaw.store.actions import load_action
from coilclaw.store.claims import Claimant, is_gone
from coilclaw.store.job_history import job_artifacts
from coilclaw.store.jobs import (
    JobBudget,
    JobRow,
    any_due,
    claim_job,
    job_limits,
    waited_enough,
    wake_job,
)
from coilclaw.store.retention import any_expired, forget_expired
from coilclaw.work.worker import Chore, Claimed, Log, Worker

if TYPE_CHECKING:
    from coilclaw.agent.calls import Calls
    from coilclaw.agent.step import StepOrder, Stepper
    from coilclaw.config import Config
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.skill import SkillUse
    from coilclaw.runtime.extensions import JobKind
    from coilclaw.runtime.runtime import Runtime

HASHED_BYTES = 64 << 20
"""The largest file whose hash stands in a manifest."""

EXECUTED_AT_ONCE = 4
"""Rounds of carrying out what was approved: a command may run for half an hour, and the rest must not wait for it."""

NOBODY_THERE = frozenset({"ask_user"})
"""Tools that need the owner at the terminal."""

TASK = """
You work in the background on job {job_id}. Nobody is at the terminal: a call that needs the owner's approval waits, \
and you continue once it is answered. Work step by step with tool calls, at most {calls} in one answer. When {part} is \
done, answer in plain text without any call: that ends it.{evidence}
""".strip()


class Background:
    """The parts of background work over one App, for as long as a worker or a command needs them."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor | None" = None, say: Log | None = None) -> None:
        self._app = app
        self._say = say or app.observe
        self._conveyor = conveyor

    @property
    def conveyor(self) -> "Conveyor":
        """The gate, with nobody to ask."""
        if self._conveyor is None:
            self._conveyor = self._app.conveyor(nobody)
        return self._conveyor

    def rules(self) -> Rules:
        """What a job's constraints are held against."""
        return rules_of(self._app)

    def desk(self) -> JobRequests:
        """Where jobs are handed in."""
        config = self._app.config
        return JobRequests(
            db=self._app.db,
            clock=self._app.clock,
            rules=self.rules,
            budget=JobBudget(tokens=config.budgets.job_tokens, steps=config.jobs.max_steps),
            max_hours=config.jobs.max_hours,
            hash_file=self.hash_file,
            withdraw=self.withdraw,
            redact=self._app.redact,
            plans=self.plans,
            place_of=lambda repository: place_of(self._app, repository),
        )

    # Planning

    def plans(self, job: JobRow) -> bool:
        """Whether a model plans this job: there is a route for it, and the owner gave no steps."""
        model = self._app.config.providers.models.get(self._app.config.default_provider)
        routed = isinstance(model, RouterModel) and "plan" in model.routes
        return routed and kind_of(self._app, job) is None and may_plan(job)

    def _planner(self) -> Planner:
        from coilclaw.agent.drafts import Drafter, ModelDraft
        from coilclaw.gate.turn import Turn

        app = self._app

        def drafter() -> Drafter:  # each time anew: the configuration may have changed
            return Drafter(
                db=app.db, clock=app.clock, provider=app.provider(), model=app.config.default_model, estop=app.estop
            )

        def asked(job: JobRow) -> tuple[Turn, tuple[str, Label]]:
            limits = JobLimits(job_id=job.job_id, constraints=job.spec.constraints)
            label = job.checkpoint_label if job.spec.by_agent else OWNER
            return Turn(job.turn_id, job.thread_id, "job", job=limits), (job.goal, label)

        async def spec(job: JobRow) -> ModelDraft[SpecDraft]:
            (turn, goal), rules = asked(job), self.rules()
            return await drafter().draft(
                turn, "route", spec_task(job, rules), goal, lambda data: read_spec(data, rules)
            )

        async def plan(job: JobRow) -> ModelDraft[PlanDraft]:
            turn, goal = asked(job)
            return await drafter().draft(turn, "plan", plan_task(job, self.rules()), goal, read_plan)

        return Planner(wants=self.plans, spec=spec, plan=plan)

    def hash_file(self, job_id: str, path: str) -> str | None:
        """The hash of a file in the folder a job works in; None when it is gone or cannot be read."""
        from coilclaw.packets.canonical import sha256_hex
        from coilclaw.sandbox.files import read_existing
        from coilclaw.store.jobs import load_job

        job = load_job(self._app.db.reader, job_id)
        root = self._app.roots.of_job(job_id) or self._app.root_of("" if job is None else job.thread_id)
        data = None if root.fault() else read_existing(root.folder, path, HASHED_BYTES)
        return None if data is None else sha256_hex(data)

    async def withdraw(self, action_id: str, reason: str) -> None:
        """Refuse or end an action in the name of a job that is over; an answer that came first stands."""
        await self._app.background.end(action_id)
        action = load_action(self._app.db.reader, action_id)
        if action is None or action.status != "PENDING":
            return
        try:
            await self._app.approvals(self.conveyor).withdraw(action, reason=reason)
        except CoilclawError as error:
            self._app.observe("withdraw_failed", {"action_id": action_id, "message": str(error)})

    # Steps

    def runner(self) -> JobLoop:
        """What takes a job along."""
        made: list[tuple[Config, Stepper]] = [(self._app.config, self._stepper())]

        async def step(order: Order) -> StepReport:
            kind = kind_of(self._app, order.job)
            if kind is not None:
                return await self._kind_step(kind, order)
            if made[0][0] is not self._app.config:  # another model, other limits
                made[0] = self._app.config, self._stepper()
            return await made[0][1].step(self._step_order(order))

        def bounds() -> Bounds:
            config = self._app.config
            return Bounds(
                step_seconds=config.jobs.step_seconds,
                step_retries=config.jobs.step_retries,
                daily_tokens=config.budgets.daily_tokens,
                max_hours=config.jobs.max_hours,
                pause_seconds=config.executor.backoff_seconds,
            )

        return JobLoop(
            db=self._app.db,
            clock=self._app.clock,
            step=step,
            planner=self._planner(),
            consult=self._consult,
            forge=self._app.extensions.job_forge(self._app, self.conveyor),
            rules=self.rules,
            bounds=bounds,
            stopped=self._app.estop.engaged,
            commanding=self._app.commands.of_job,
            hash_file=self.hash_file,
            withdraw=self.withdraw,
            redact=self._app.redact,
            say=self._say,
        )

    async def _consult(self, job: JobRow) -> "tuple[SkillUse, ...]":
        """The skills a job works under. The run of a procedure looks for its own, by the words of its file."""
        look = self._app.extensions.job_skills
        if look is None or kind_of(self._app, job) is not None:
            return ()
        return await look(self._app, job.turn_id, job.goal, job.spec.intent)

    async def _kind_step(self, kind: "JobKind", order: Order) -> StepReport:
        limits = job_limits(self._app.db.reader, order.job.job_id)
        own = JobLimits(job_id=order.job.job_id, constraints=order.job.spec.constraints)
        done = await kind.step(self._app, self.conveyor, order.job, limits or own)
        # What the gate saw and no step has told yet: a step that waits tells its calls when it is over.
        seen = calls_of_job(self._app.db.reader, order.job.job_id)
        new = max(0, seen - order.checkpoint.calls) if done.stage == "called" else 0
        return msgspec.structs.replace(done, calls=new)

    def _step_order(self, order: Order) -> "StepOrder":
        from coilclaw.agent.step import StepOrder

        job, checkpoint = order.job, order.checkpoint
        limits = job_limits(self._app.db.reader, job.job_id)
        return StepOrder(
            thread_id=job.thread_id,
            turn_id=job.turn_id,
            number=checkpoint.step,
            words=words_of(job, checkpoint.position),
            task=self._task(job, checkpoint, self._app.config.jobs.step_calls),
            limits=limits or JobLimits(job_id=job.job_id, constraints=job.spec.constraints),
            inherited=checkpoint.inherited,
            fresh=checkpoint.fresh,
            position=checkpoint.position,
            hint=self._hint(job, checkpoint.position),
            evidence=evidence_at(job, checkpoint.position),
        )

    def _task(self, job: JobRow, checkpoint: Checkpoint, calls: int) -> str:
        """What the model is told about the job and where it stands."""
        position, steps = checkpoint.position, job.plan.steps if job.plan is not None else ()
        part = "the goal" if len(steps) <= 1 else f"step {position + 1} of {len(steps)} of the plan"
        evidence = ""
        if required := evidence_due(job, position):
            names = ", ".join(required)
            evidence = f" Before the end, leave each of these with artifact_put, under exactly this name: {names}."
        if checkpoint.reminded:
            lacking = missing(required, job_artifacts(self._app.db.reader, job.job_id))
            evidence += f" You answered without leaving {', '.join(lacking) or 'them'}; without that the job fails."
        return TASK.format(job_id=job.job_id, part=part, calls=calls, evidence=evidence)

    def _hint(self, job: JobRow, position: int) -> str:
        """What a step is, for a router: one that may write files is authoring."""
        limits, plan = job.spec.constraints, job.plan
        step = None if plan is None else plan.steps[min(position, len(plan.steps) - 1)]
        if limits.max_files_changed == 0 or (step is not None and step.writes is False):
            return "job"
        names = tools_of(job.spec, self.rules())
        tools = (self._app.tools[name] for name in names if name in self._app.tools)
        return "author" if any(tool.destination == "workspace" and tool.effect == "WRITE" for tool in tools) else "job"

    def _stepper(self) -> "Stepper":
        from coilclaw.agent.model import Model
        from coilclaw.agent.pictures import Pictures
        from coilclaw.agent.step import StepLimits, Stepper
        from coilclaw.providers.structured import read_structured
        from coilclaw.runtime.owner_prompt import owner_prompt
        from coilclaw.runtime.pictures import picture_reader

        app = self._app
        provider = app.provider()
        offered = app.allowed_tools - NOBODY_THERE
        return Stepper(
            db=app.db,
            model=Model(
                provider=provider,
                model=app.config.default_model,
                fallback_model=app.config.fallback_model,
                read_proposal=read_structured,
                estop=app.estop,
            ),
            calls=calls_through(app, self.conveyor),
            tools=offered_tools(app, offered),
            owner_prompt=partial(owner_prompt, app),
            estop=app.estop,
            clock=app.clock,
            skills=skills_of(app),
            pictures=Pictures(partial(picture_reader, app), sees=provider.capabilities.sees),
            limits=StepLimits(
                calls=app.config.jobs.step_calls,
                output_tokens=app.config.jobs.step_output_tokens,
                window=app.config.agent.context_tokens or provider.capabilities.context_window,
                earlier=app.config.memory.recent_messages,
            ),
        )

    # The worker

    def named(self) -> Claimant:
        """The name this process goes by while it works on jobs; its lock is held for as long."""
        return Claimant(self._app.home.locks_dir, "jobs", self._app.clock)

    def worker(
        self,
        name: str,
        *,
        slots: int = 0,
        only: Collection[str] | None = None,
        chores: tuple[Chore, ...] = (),
        grace_seconds: float = 10.0,
    ) -> Worker:
        """A worker of that name, with further chores; `only` are the jobs it works on, as they are then."""
        app = self._app
        executor = app.executor(self.conveyor)
        locks = app.home.locks_dir
        runner = self.runner()

        async def claim(running: Collection[str]) -> Claimed | None:
            if not any_due(app.db.reader, app.clock):
                return None
            job = await app.db.write(
                lambda tx: claim_job(
                    tx,
                    app.clock,
                    worker=name,
                    running=frozenset(running),
                    at_once=app.config.budgets.jobs_at_once,
                    gone=lambda other: is_gone(locks, other),
                    only=None if only is None else frozenset(only),
                )
            )
            if job is None:
                return None
            self._say("job_claimed", {"job_id": job.job_id, "state": job.state})
            return Claimed(id=job.job_id, run=lambda stopping: runner.work(job, stopping))

        async def wake() -> int:
            ready = waited_enough(app.db.reader)
            if not ready:
                return 0
            return await app.db.write(lambda tx: sum(wake_job(tx, app.clock, job_id) for job_id in ready))

        async def recover() -> int:
            return len(await self.conveyor.recover())

        async def forget() -> int:
            now = stamp(app.clock())
            return await app.db.write(lambda tx: forget_expired(tx, now)) if any_expired(app.db.reader, now) else 0

        return Worker(
            claim=claim,
            wake=wake,
            chores=(
                Chore(name="recover", every=30.0, run=recover, first=True),
                Chore(name="expire", every=5.0, run=executor.expire),
                Chore(name="forget_expired", every=60.0, run=forget),
                Chore(name="execute", every=0.5, run=executor.run_due, at_once=EXECUTED_AT_ONCE),
                *chores,
            ),
            held=app.estop.engaged,
            slots=lambda: slots or app.config.budgets.jobs_at_once,
            say=self._say,
            now=time.monotonic,
            grace_seconds=grace_seconds,
        )


def calls_through(app: "Runtime", conveyor: "Conveyor") -> "Calls":
    """The calls of background work, over its conveyor."""
    from coilclaw.agent.calls import Calls

    return Calls(db=app.db, conveyor=conveyor, clock=app.clock, redact=app.redact, seal=app.redactor.registered)


def kind_of(app: "Runtime", job: JobRow) -> "JobKind | None":
    """The kind of a job that follows something else than the model's own steps."""
    kinds = app.extensions.job_kinds()
    return next((kind for name, kind in kinds.items() if isinstance(at := job.spec.inputs.get(name), str) and at), None)
