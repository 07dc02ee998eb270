"""The runner of SOPs: one step after the other, each on record before the next begins."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec

from coilclaw.features.sops.agent_steps import StepTurns
from coilclaw.features.sops.record import At, RunRecord
from coilclaw.features.sops.sop import Go, Over, Skip, Sop, next_move, thaw
from coilclaw.features.sops.tool_steps import Stage, StepCalls
from coilclaw.gate.conveyor import Conveyor
from coilclaw.gate.estop import Estop
from coilclaw.gate.outcomes import too_late, withdrawn
from coilclaw.gate.records import Taken
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import OWNER, Label
from coilclaw.packets.errors import Conflict, UsageError
from coilclaw.packets.ids import Clock, new_id
from coilclaw.packets.job import JobLimits
from coilclaw.packets.labels import join_labels, untrusted_only
from coilclaw.store.actions import actions_of_turn
from coilclaw.store.database import Database
from coilclaw.store.job_history import brought_in
from coilclaw.store.sops import OVER, RunRow, StepRow, claim_run, load_run, release_run, run_of_job, steps_of_run
from coilclaw.store.tx import Tx

Stop: TypeAlias = Literal["over", "waiting", "held", "next"]
"""The run is over; it waits; ESTOP holds it; there is more to do."""

LONGEST_PAUSE = 30.0


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """What a new run begins with."""

    sop: Sop
    file_hash: str
    labels: tuple[Label, ...]
    """What the file carries; nothing when it is the owner's own."""
    thread_id: str
    channel: str
    turn_id: str = ""
    """The turn it belongs to, when it is a job's."""
    job_id: str | None = None


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run came."""

    stop: Stop
    run: RunRow
    waiting: tuple[str, ...] = ()
    """The actions it waits for."""
    unknown: bool = False
    """What it waits for is the owner's word on how one of them ended."""


Log: TypeAlias = Callable[[Sop, StepRow], None]
"""Is told of every step that begins, waits or ends."""


Consult: TypeAlias = Callable[[RunRow, Sop, JobLimits | None], Awaitable[str]]
"""Looks for the owner's skill that a run works under, before its first step; says which of its needs are not met."""


class SopRunner:
    """Starts runs and drives them forward. Only the process that holds a run's lock works on it."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        estop: Estop,
        conveyor: Conveyor,
        calls: StepCalls,
        turns: Callable[[], StepTurns],  # built when the first agent step needs a model
        record: RunRecord,
        gone: Callable[[str], bool],
        reached: Callable[[str], None],
        say: Log,
        pause_seconds: float,
        consult: Consult,
    ) -> None:
        self._db = db
        self._clock = clock
        self._estop = estop
        self._conveyor = conveyor
        self._calls = calls
        self._turns = turns
        self._record = record
        self._gone = gone
        self._reached = reached
        self._say = say
        self._pause_seconds = pause_seconds
        self._consult = consult

    async def start(self, beginning: Beginning) -> RunRow:
        """Store a new run; for a job, the run it has already, if it does."""
        run_id = new_id("sop", self._clock())
        run = RunRow(
            run_id=run_id,
            name=beginning.sop.name,
            file_hash=beginning.file_hash,
            sop_json="",
            state="RUNNING",
            reason="",
            position=0,
            thread_id=beginning.thread_id,
            turn_id=beginning.turn_id or f"turn_{run_id.removeprefix('sop_')}",
            job_id=beginning.job_id,
            file_label=join_labels(beginning.labels) if untrusted_only(beginning.labels) else OWNER,
            fresh=(),
            inherited=untrusted_only(beginning.labels),
            worker=None,
            created_at="",
            updated_at="",
        )

        def write(tx: Tx) -> RunRow:
            known = run_of_job(tx, beginning.job_id) if beginning.job_id is not None else None
            return known or self._record.start(tx, run, beginning.sop, beginning.channel)

        made = await self._db.write(write)
        self._reached("sop_started")
        return made

    async def go_on(self, run_id: str, worker: str, *, limits: JobLimits | None = None, once: bool = False) -> Moved:
        """Take a run along until it is over, waits or is held; with `once`, one step of it. `worker` holds its lock."""
        run = await self._db.write(lambda tx: claim_run(tx, self._clock, run_id, worker, self._gone))
        if run is None:
            return self._not_mine(run_id)
        turn = Turn(run.turn_id, run.thread_id, "sop", run.inherited, fresh=run.fresh, job=limits)
        for label, fresh in brought_in(self._db.reader, run.thread_id, run.turn_id):  # also by a step that was cut
            turn.take_in(label, kept=not fresh)
        sop = thaw(run.sop_json)
        try:
            stop: Stop = "next"
            if not steps_of_run(self._db.reader, run_id) and (lacks := await self._consult(run, sop, limits)):
                await self._end(run, turn, Over(done=False, reason=lacks))
                stop = "over"
            while stop == "next":
                stop = "held" if self._estop.engaged() else await self._move(run, sop, turn)
                if once:
                    break
        except asyncio.CancelledError:  # Ctrl-C at a question is a no, and a no may have been the end of it
            await asyncio.shield(self._end_if_over(run, sop, turn))
            raise
        finally:
            await asyncio.shield(self._db.write(lambda tx: release_run(tx, self._clock, run_id, worker)))
        return self._moved(run_id, stop)

    def _moved(self, run_id: str, stop: Stop) -> Moved:
        run = load_run(self._db.reader, run_id)
        if run is None:
            raise UsageError(f"there is no run {run_id!r}.")
        rows = [row for row in steps_of_run(self._db.reader, run_id).values() if row.state == "WAITING"]
        waiting = tuple(row.action_id for row in rows if row.action_id)
        return Moved(stop=stop, run=run, waiting=waiting, unknown=any(row.code == "UNKNOWN" for row in rows))

    def _not_mine(self, run_id: str) -> Moved:
        moved = self._moved(run_id, "over")
        if moved.run.state in OVER:
            return moved
        raise Conflict(f"{run_id} is being run by another process.", remedy="See `coilclaw sop status`.")

    async def _move(self, run: RunRow, sop: Sop, turn: Turn) -> Stop:
        """The next thing there is to do."""
        rows = steps_of_run(self._db.reader, run.run_id)
        move = next_move(sop, rows)
        if isinstance(move, Over):
            await self._end(run, turn, move)
            return "over"
        step = sop.steps[move.position]
        if isinstance(move, Skip):
            await self._db.write(lambda tx: self._record.skip(tx, run, move.position, step))
            self._told(run, sop, step.id)
            return "next"
        before = rows.get(step.id)
        if before is not None and before.state == "FAILED" and not await self._rest(before.failures):
            return "held"
        stage = await self._go(run, sop, turn, move)
        self._told(run, sop, step.id)
        if stage == "settled":
            return "next"
        if stage == "held":
            return "held"
        await self._wait(run, turn, step.id)
        return "waiting"

    async def _end(self, run: RunRow, turn: Turn, over: Over) -> None:
        await self._withdraw(run, "its procedure has ended")
        await self._db.write(
            lambda tx: self._record.move(tx, run, turn, "DONE" if over.done else "FAILED", over.reason)
        )
        self._reached("sop_over")

    async def _end_if_over(self, run: RunRow, sop: Sop, turn: Turn) -> None:
        move = next_move(sop, steps_of_run(self._db.reader, run.run_id))
        if isinstance(move, Over):
            await self._end(run, turn, move)

    async def _go(self, run: RunRow, sop: Sop, turn: Turn, move: Go) -> Stage:
        at = At(run=run, sop=sop, position=move.position, attempt=move.attempt, failures=move.failures, turn=turn)
        await self._db.write(lambda tx: self._record.begin(tx, at))
        self._reached("sop_step_begun")
        self._told(run, sop, at.step.id)
        stage = await (self._turns().go(at) if at.step.kind == "agent" else self._calls.go(at))
        self._reached("sop_step_ended")
        if stage == "settled" and at.step.kind == "agent":
            await self._withdraw(run, "its step of a procedure has ended")
        return stage

    async def _withdraw(self, run: RunRow, reason: str) -> None:
        """Nothing of what is over goes on waiting, for the owner or for its next try."""
        for action in actions_of_turn(self._db.reader, run.turn_id):
            if action.status in ("PENDING", "APPROVED") and not action.begun:
                end = withdrawn(reason)
                with suppress(Taken):  # an answer that came first stands
                    await self._conveyor.end(action, too_late(end) if action.uncertain else end)

    async def _rest(self, failures: int) -> bool:
        """The pause before another try; False when ESTOP came."""
        left = min(LONGEST_PAUSE, self._pause_seconds * 2 ** max(0, failures - 1))
        while left > 0 and not self._estop.engaged():
            await asyncio.sleep(min(left, 0.2))
            left -= 0.2
        return not self._estop.engaged()

    async def _wait(self, run: RunRow, turn: Turn, step_id: str) -> None:
        row = steps_of_run(self._db.reader, run.run_id)[step_id]
        if row.code == "UNKNOWN":
            reason = (
                f"Step {step_id}: it is unknown whether {row.action_id} took effect. Record it with"
                f" `coilclaw actions resolve {row.action_id}`, then resume."
            )
        elif row.code == "APPROVAL_NEEDED":
            reason = f"Step {step_id} is waiting for your answer ({row.action_id})."
        else:
            reason = f"Step {step_id} is waiting for its next attempt ({row.action_id})."
        await self._db.write(lambda tx: self._record.move(tx, run, turn, "WAITING", reason))

    def _told(self, run: RunRow, sop: Sop, step_id: str) -> None:
        self._say(sop, steps_of_run(self._db.reader, run.run_id)[step_id])
