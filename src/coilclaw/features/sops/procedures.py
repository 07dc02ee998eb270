"""SOPs of an open home: starting runs and continuing them."""

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.jobs.background import calls_through
from coilclaw.features.sops.sop_files import SopBroken, SopFile, SopFiles
from coilclaw.packets.canonical import Json
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import Conflict, ProofNeeded, UsageError
from coilclaw.packets.ids import new_id
from coilclaw.packets.job import Constraints, JobSpec
from coilclaw.packets.names import did_you_mean
from coilclaw.runtime.extensions import skills_of
from coilclaw.runtime.tool_specs import offered_tools
from coilclaw.store.claims import Claimant, is_gone
from coilclaw.store.tx import Tx
from coilclaw.tools.approval import RUNTIME_TOOLS

if TYPE_CHECKING:
    from coilclaw.cli.terminal import Terminal
    from coilclaw.config import Config
    from coilclaw.features.sops.agent_steps import StepTurns
    from coilclaw.features.sops.await_action import Answer as Ask
    from coilclaw.features.sops.await_action import Follower
    from coilclaw.features.sops.record import RunRecord
    from coilclaw.features.sops.run import Beginning, Log, Moved, SopRunner
    from coilclaw.features.sops.sop import Sop
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.action import Action
    from coilclaw.packets.job import JobLimits
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.sops import RunRow

AGENT_SECONDS = 600.0
"""How long an agent step may take that says nothing itself."""


class Procedures:
    """What runs SOPs over one App. With a terminal, the owner is asked in place; without, a run stops and waits."""

    def __init__(
        self,
        app: "Runtime",
        *,
        terminal: "Terminal | None" = None,
        conveyor: "Conveyor | None" = None,
        patient: bool = True,
        say: "Log | None" = None,
    ) -> None:
        from coilclaw.features.sops.step_timeout import Stopwatch

        self._app = app
        self._terminal = terminal if terminal is not None and terminal.interactive else None
        self._patient = patient
        self._say: Log = say or (lambda _sop, _row: None)
        self._watch = Stopwatch(time.monotonic)
        self._made = conveyor
        self._step_turns: tuple[Config, StepTurns] | None = None
        self.shelf = SopFiles(app)

    @property
    def conveyor(self) -> "Conveyor":
        """The gate, with the approver that is present, if any."""
        if self._made is None:
            if self._terminal is None:
                self._made = self._app.conveyor(nobody)
            else:
                approve, ask = self._watch.pausing(self._terminal.approve), self._watch.pausing(self._terminal.ask)
                self._made = self._app.conveyor(approve, ask)
        return self._made

    # Runs

    def load(self, name: str) -> SopFile:
        """A procedure that holds; otherwise an error that says what does not."""
        file = self.shelf.read(name)
        if file.read.sop is None:
            raise SopBroken(name, [str(fault) for fault in file.read.faults])
        return file

    async def start(self, name: str, thread_id: str = "", channel: str = "sop") -> "RunRow":
        """Begin a run of a procedure as its file has it now; the steps are kept with the run."""
        from coilclaw.features.sops.run import Beginning

        file = self.load(name)
        assert file.read.sop is not None  # noqa: S101 - load looked
        return await self.begin(
            Beginning(
                sop=file.read.sop,
                file_hash=file.file_hash,
                labels=file.labels,
                thread_id=thread_id or new_id("conv", self._app.clock()),
                channel=channel,
            )
        )

    async def begin(self, beginning: "Beginning") -> "RunRow":
        """Store a run."""
        return await self.runner().start(beginning)

    async def go_on(
        self, run_id: str, *, limits: "JobLimits | None" = None, once: bool = False, name: str = "sops"
    ) -> "Moved":
        """Work on a run here until it is over, waits or is held. The claim's name begins with `name`."""
        await self._app.approvals(self.conveyor).expire()
        with self._named(name) as worker:
            return await self.runner().go_on(run_id, worker, limits=limits, once=once)

    def find(self, run_id: str) -> "RunRow":
        """The run of that id, or an error that names the nearest ones."""
        from coilclaw.store.sops import near_run_ids

        run = self.standing(run_id)
        if run is None:
            near = near_run_ids(self._app.db.reader)
            raise UsageError(f"there is no run {run_id!r}.", remedy=did_you_mean(run_id, near))
        return run

    def standing(self, run_id: str) -> "RunRow | None":
        """The run of that id as it stands now; None when there is none."""
        from coilclaw.store.sops import load_run

        run = load_run(self._app.db.reader, run_id)
        return None if run is None else self._as_it_stands(run)

    def runs(self, limit: int) -> "list[RunRow]":
        """Runs, the newest first; of those that cannot be read the owner is warned."""
        from coilclaw.store.sops import list_runs

        runs, broken = list_runs(self._app.db.reader, limit)
        for error in broken:
            self._app.warn(str(error))
        return [self._as_it_stands(run) for run in runs]

    def _as_it_stands(self, run: "RunRow") -> "RunRow":
        """The run as it stands now: answered or not, and one whose job is over is over as well."""
        from coilclaw.packets.job import ENDED
        from coilclaw.store.jobs import load_job
        from coilclaw.store.sops import OVER

        job = load_job(self._app.db.reader, run.job_id) if run.job_id is not None and run.state not in OVER else None
        if run.job_id is None and self.answered(run):
            words = f"It has been answered. Continue: `coilclaw sop resume {run.run_id}`."
            return msgspec.structs.replace(run, reason=words)
        if job is None or job.state not in ENDED:
            return run
        return msgspec.structs.replace(run, state="FAILED", reason=f"Its job {job.job_id} is {job.state}.")

    def answered(self, run: "RunRow") -> bool:
        """Whether the owner has answered what a run waits for, and it has not gone on yet."""
        from coilclaw.features.sops.store import is_answered

        return is_answered(self._app.db.reader, run.run_id)

    def cut_off(self, run: "RunRow") -> bool:
        """Whether a run stopped in the middle and nobody works on it."""
        return run.state == "RUNNING" and run.job_id is None and not self.held(run)

    def held(self, run: "RunRow") -> bool:
        """Whether somebody who is still there works on a run."""
        return not is_gone(self._app.home.locks_dir, run.worker)

    def changed(self, run: "RunRow") -> bool:
        """Whether the file is another than the run was begun with."""
        with suppress(UsageError):
            return self.shelf.read(run.name).file_hash != run.file_hash
        return True

    def _named(self, name: str) -> Claimant:
        """The name this process goes by while it works on runs; its lock is held for as long."""
        return Claimant(self._app.home.locks_dir, name, self._app.clock)

    # Parts

    def runner(self) -> "SopRunner":
        """What takes runs along."""
        from coilclaw.features.sops.record import RunRecord
        from coilclaw.features.sops.run import SopRunner
        from coilclaw.features.sops.tool_steps import StepCalls
        from coilclaw.ledger.audit import add_event

        app = self._app

        def event(tx: Tx, kind: str, entity: str, payload: dict[str, Json]) -> None:
            add_event(tx, app.clock, kind, entity, payload)

        record = RunRecord(app.clock, event)
        follower = self._follower()
        return SopRunner(
            db=app.db,
            clock=app.clock,
            estop=app.estop,
            conveyor=self.conveyor,
            calls=StepCalls(db=app.db, follower=follower, record=record, watch=self._watch),
            turns=lambda: self._turns(follower, record),
            record=record,
            gone=lambda worker: is_gone(app.home.locks_dir, worker),
            reached=app.reached,
            say=self._say,
            pause_seconds=app.config.executor.backoff_seconds,
            consult=self._consult,
        )

    async def _consult(self, run: "RunRow", sop: "Sop", limits: "JobLimits | None") -> str:
        """Find the skill whose intent is the procedure's name, or that its name and description trigger."""
        look = self._app.extensions.job_skills
        if look is None:
            return ""
        uses = await look(self._app, run.turn_id, f"{sop.name.replace('-', ' ')} {sop.description}", sop.name)
        if not any(use.needs for use in uses):
            return ""
        from coilclaw.features.jobs.job_spec import rules_of, unmet
        from coilclaw.store.jobs import load_job

        job = None if run.job_id is None else load_job(self._app.db.reader, run.job_id)
        spec = JobSpec(
            job_id=run.job_id or "",
            intent=sop.name,
            inputs={} if job is None else job.spec.inputs,
            constraints=Constraints() if limits is None else limits.constraints,
        )
        wrong = unmet(spec, uses, rules_of(self._app))
        return f"SKILL_PRECONDITION: {'; '.join(wrong)}." if wrong else ""

    def _follower(self) -> "Follower":
        from coilclaw.features.sops.await_action import Follower
        from coilclaw.gate.executor import worker_is_running

        app = self._app
        return Follower(
            db=app.db,
            conveyor=self.conveyor,
            estop=app.estop,
            clock=app.clock,
            worker_runs=lambda: worker_is_running(app.home.locks_dir),
            answer=self._ask(),
            patient=self._patient,
        )

    def _ask(self) -> "Ask | None":
        """Puts an action that waits to the owner at the terminal."""
        terminal = self._terminal
        if terminal is None:
            return None
        approve = self._watch.pausing(terminal.approve)

        async def ask(action: "Action") -> bool:
            if self._app.owner_proof.needed(self._app.db.reader, action.decision.lane, "terminal"):
                return False  # a yes here would not do: it waits for the passkey
            card = await self.conveyor.intake.shown(action)
            answer = await approve(card)
            if answer.approved is None:
                return False
            approvals = self._app.approvals(self.conveyor)
            with suppress(Conflict, UsageError, ProofNeeded):  # answered elsewhere meanwhile, or only a passkey will do
                if answer.approved:
                    await approvals.approve(action, by="terminal", digest=card.digest)
                else:
                    await approvals.reject(action, reason=answer.reason)
            return True

        return ask

    def _turns(self, follower: "Follower", record: "RunRecord") -> "StepTurns":
        config = self._app.config
        if self._step_turns is None or self._step_turns[0] is not config:
            self._step_turns = config, self._make_turns(follower, record)
        return self._step_turns[1]

    def _make_turns(self, follower: "Follower", record: "RunRecord") -> "StepTurns":
        from coilclaw.agent.pictures import Pictures
        from coilclaw.agent.step import StepLimits
        from coilclaw.features.sops.agent_steps import SopStepper, StepModel, StepTurns, TurnLimits
        from coilclaw.providers.structured import read_structured
        from coilclaw.runtime.owner_prompt import owner_prompt
        from coilclaw.runtime.pictures import picture_reader

        app, config, provider = self._app, self._app.config, self._app.provider()
        without = RUNTIME_TOOLS if self._terminal is not None else RUNTIME_TOOLS | {"ask_user"}
        offered = app.allowed_tools - without
        model = StepModel(
            provider=provider,
            model=config.default_model,
            fallback_model=config.fallback_model,
            read_proposal=read_structured,
            estop=app.estop,
            runtime_tools=RUNTIME_TOOLS,
        )
        stepper = SopStepper(
            db=app.db,
            model=model,
            calls=calls_through(app, self.conveyor),
            tools=offered_tools(app, offered),
            owner_prompt=partial(owner_prompt, app),
            estop=app.estop,
            clock=app.clock,
            skills=skills_of(app),
            pictures=Pictures(partial(picture_reader, app), sees=provider.capabilities.sees),
            limits=StepLimits(
                calls=config.jobs.step_calls,
                output_tokens=config.jobs.step_output_tokens,
                window=config.agent.context_tokens or provider.capabilities.context_window,
            ),
        )
        return StepTurns(
            db=app.db,
            stepper=stepper,
            follower=follower,
            record=record,
            watch=self._watch,
            clock=app.clock,
            limits=TurnLimits(
                rounds=config.agent.max_tool_rounds,
                seconds=AGENT_SECONDS,
                daily_tokens=config.budgets.daily_tokens,
            ),
        )
