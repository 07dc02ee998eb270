"""Tool and approval steps: each try is one action with a key of its own, looked up before it is proposed again."""

import sqlite3
from typing import Literal, TypeAlias

from coilclaw.agent.context import take_in_shown
from coilclaw.features.sops.approval_context import question
from coilclaw.features.sops.await_action import Follower
from coilclaw.features.sops.record import At, Ended, RunRecord, ended_by, source_of
from coilclaw.features.sops.step_timeout import OutOfTime, Stopwatch
from coilclaw.packets.action import INTERNAL, Label, ToolCall, ToolResult
from coilclaw.packets.canonical import Json, digest_of
from coilclaw.store.database import Database
from coilclaw.store.sops import action_stand, steps_of_run, whole_output
from coilclaw.store.tx import Tx

Stage: TypeAlias = Literal["settled", "waiting", "held"]
"""The try has its end on record; it waits for the owner or the worker; ESTOP holds it."""

APPROVAL_TOOL = "sop_approval"


def step_key(run_id: str, step_id: str, attempt: int) -> str:
    """The idempotency key of a try: the same after a crash."""
    return digest_of(b"sop", run_id.encode(), step_id.encode(), str(attempt).encode())


class StepCalls:
    """Carries the calls of steps."""

    def __init__(self, *, db: Database, follower: Follower, record: RunRecord, watch: Stopwatch) -> None:
        self._db = db
        self._follower = follower
        self._conveyor = follower.conveyor
        self._record = record
        self._watch = watch

    async def go(self, at: At) -> Stage:
        """Take a try of a step as far as it goes now."""
        call, labels = self._call(at)
        if call is None:
            text = f"{at.step.args.get('content_from')} left no usable content."
            await self._settle(at, Ended(state="FAILED", code="CONTENT_MISSING", output=text))
            return "settled"
        take_in_shown(at.turn, labels)
        asked = self._asked_already(at)
        if asked is not None:
            return await self._follow(at, asked, cut=False)
        key = step_key(at.run.run_id, at.step.id, at.attempt)
        known = await self._conveyor.intake.known(call, key)
        cut = False
        if known is None:
            action_id, cut = await self._carry(at, call, key)
        else:
            action_id = known.action_id
        return await self._follow(at, action_id, cut=cut)

    def _asked_already(self, at: At) -> str | None:
        """The question of an approval step, once it was put: it stands, also if we would put it otherwise now."""
        row = steps_of_run(self._db.reader, at.run.run_id).get(at.step.id)
        return row.action_id if row is not None and at.step.kind == "approval" and row.attempt == at.attempt else None

    def _call(self, at: At) -> tuple[ToolCall | None, tuple[Label, ...]]:
        """The call of a step with the content it asks for; None when that content does not exist."""
        step = at.step
        why = f"procedure {at.sop.name}, step {step.id}"
        if step.kind == "approval":
            before = source_of(at, steps_of_run(self._db.reader, at.run.run_id))
            message = question(at.sop, at.position, before, self._conveyor.redact)
            args: dict[str, Json] = {"sop": at.sop.name, "step": step.id, "message": message}
            labels = () if before is None else (before.label,)
            return ToolCall.of(APPROVAL_TOOL, args, call_id=step.id, justification=why), labels
        args, labels = dict(step.args), (INTERNAL,)
        source = args.pop("content_from", None)
        if isinstance(source, str):
            row = steps_of_run(self._db.reader, at.run.run_id).get(source)
            content = whole_output(self._db.reader, row) if row is not None and row.state == "SUCCEEDED" else None
            if row is None or content is None:
                return None, ()
            args["content"], labels = content, (row.label,)
        return ToolCall.of(step.tool, args, call_id=step.id, justification=why), labels

    async def _carry(self, at: At, call: ToolCall, key: str) -> tuple[str, bool]:
        """Propose and carry. The end of the action and the end of the step are one transaction."""
        action = await self._conveyor.intake.proposed(call, at.turn, key)
        was_cut: list[bool] = []

        def record(tx: Tx, _: ToolResult) -> None:
            stand = action_stand(tx, action.action_id)
            if stand is not None:
                self._record.settle(tx, at, ended_by(stand, cut=bool(was_cut)))

        try:
            carrying = self._conveyor.carry(action, at.turn, stored=False, record=record)
            await self._watch.bound(carrying, at.step.timeout, lambda: was_cut.append(True))
        except OutOfTime:
            pass
        except sqlite3.IntegrityError:  # somebody proposed it in this very moment
            known = await self._conveyor.intake.known(call, key)
            if known is None:
                raise
            return known.action_id, False
        return action.action_id, bool(was_cut)

    async def _follow(self, at: At, action_id: str, *, cut: bool) -> Stage:
        followed = await self._follower.end_of(action_id)
        if followed == "held":
            return "held"
        stand = action_stand(self._db.reader, action_id)
        if stand is None:  # its time was over before anything was stored: nothing happened
            text = f"It took longer than {at.step.timeout or 0:g} seconds."
            await self._settle(at, Ended(state="FAILED", code="TIMED_OUT", output=text, retriable=True))
            return "settled"
        ended = ended_by(stand, cut=cut)
        take_in_shown(at.turn, (ended.label,))
        await self._settle(at, ended)
        return "waiting" if ended.state == "WAITING" else "settled"

    async def _settle(self, at: At, ended: Ended) -> None:
        await self._db.write(lambda tx: self._record.settle(tx, at, ended))
