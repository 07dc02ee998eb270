"""Follow-ups: the agent's own wake-up calls. Few, near, and with the labels of the turn that made them."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from coilclaw.features.jobs.job_spec import under_skills
from coilclaw.features.schedules.registry import FOLLOWUP
from coilclaw.features.schedules.store.schedule_runs import ever_ran
from coilclaw.features.schedules.store.schedules import (
    JobPayload,
    Options,
    RowBroken,
    ScheduleRow,
    delete_schedule,
    load_schedule,
    open_followups,
    put_schedule,
)
from coilclaw.features.schedules.timetable import counted, slot_text
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import Label
from coilclaw.packets.canonical import Json, digest_of, sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import Constraints
from coilclaw.packets.labels import untrusted_only
from coilclaw.store.database import Database
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.grants import FollowUp
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import Action
    from coilclaw.runtime.runtime import Runtime

GOAL_BYTES = 8 * 1024
SOONEST = timedelta(minutes=1)


class FollowupLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many may wait, how far ahead, and how many may follow each other."""

    open: int = 20
    days: int = 30
    in_a_row: int = 30


class Maker(msgspec.Struct, frozen=True, kw_only=True):
    """Which call plans a follow-up: everything it leaves to the job that it will be."""

    thread_id: str
    labels: tuple[Label, ...]
    constraints: Constraints
    """Of the job that plans it; the follow-up may do no more."""
    generation: int = 0
    """Of the job that plans it; 0 in a conversation."""
    job_id: str | None = None
    """That job; None in a conversation."""
    idempotency_key: str


def followup_id(idempotency_key: str) -> str:
    """The id of the follow-up that a call with this key plans: the same call, the same id."""
    return f"{FOLLOWUP}{digest_of(b'followup', idempotency_key.encode('utf-8'))[:12]}"


class Followups:
    """Plans follow-ups for one call."""

    def __init__(self, *, db: Database, clock: Clock, limits: FollowupLimits, maker: Maker) -> None:
        self._db = db
        self._clock = clock
        self._limits = limits
        self._maker = maker

    async def plan(self, goal: str, at: datetime | None, minutes: float | None) -> tuple[str, str]:
        """Plan one, at a time or in so many minutes; its id and its time. The same call again plans it once."""
        now = self._clock()
        when = _whole(at if at is not None else now + timedelta(minutes=minutes or 0))
        self._check(goal, when, now)
        row = self._row(goal, when)

        def write(tx: Tx) -> tuple[str, str]:
            kept = load_schedule(tx, row.schedule_id)
            if kept is not None or ever_ran(tx, row.schedule_id):
                return _same(kept, row, relative=at is None)
            if open_followups(tx) >= self._limits.open:
                count = self._limits.open
                raise _refused(f"{count} follow-ups are already open.", "Wait until some have run.", "TOO_MANY")
            put_schedule(tx, self._clock, row)
            add_event(
                tx,
                self._clock,
                "followup_planned",
                row.schedule_id,
                {"at": row.next_run_utc, "goal_sha256": sha256_hex(goal.encode()), "labels": list(row.labels)},
            )
            return row.schedule_id, row.next_run_utc or ""

        return await self._db.write(write)

    def _check(self, goal: str, when: datetime, now: datetime) -> None:
        if self._maker.generation >= self._limits.in_a_row:
            raise _refused(
                f"{self._maker.generation} follow-ups followed one another without a message from the owner.",
                "Tell the owner what is left with reach_out; their next message resets the count.",
                "TOO_MANY_IN_A_ROW",
            )
        if not goal.strip() or "\0" in goal:
            raise _refused("the goal is empty or not text.", "Describe what should be done then.", "BAD_GOAL")
        if len(goal.encode("utf-8", "replace")) > GOAL_BYTES:
            raise _refused(
                f"the goal is longer than {GOAL_BYTES} bytes.", "Put the details in a note and refer to it.", "BAD_GOAL"
            )
        if when < now + SOONEST - timedelta(seconds=30):
            raise _refused(f"{slot_text(when)} is not in the future.", "Plan it at least a minute ahead.", "BAD_TIME")
        if when > now + timedelta(days=self._limits.days):
            raise _refused(
                f"{slot_text(when)} is too far away.", f"Plan it within {self._limits.days} days.", "BAD_TIME"
            )

    def _row(self, goal: str, when: datetime) -> ScheduleRow:
        row = ScheduleRow(
            schedule_id=followup_id(self._maker.idempotency_key),
            origin="followup",
            trigger_type="at",
            trigger_config={"at": slot_text(when)},
            payload=JobPayload(
                intent=goal,
                constraints=self._maker.constraints,
                generation=self._maker.generation + 1,
                parent_id=self._maker.job_id or UNSET,
            ),
            timezone="UTC",
            enabled=True,
            options=Options(catch_up_seconds=None),
            thread_id=self._maker.thread_id,
            labels=untrusted_only(self._maker.labels),
        )
        return counted(row, self._clock() - SOONEST)


def forget(tx: Tx, clock: Clock, schedule_id: str, by: str = "cli") -> None:
    """The owner takes a follow-up away, also one whose row cannot be read."""
    try:
        row = load_schedule(tx, schedule_id)
    except RowBroken:
        row = None
    if delete_schedule(tx, schedule_id):
        story: dict[str, Json] = {"before": None if row is None else row.next_run_utc, "after": None, "by": by}
        add_event(tx, clock, "schedule_removed", schedule_id, story)


def _whole(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def _same(kept: ScheduleRow | None, row: ScheduleRow, *, relative: bool) -> tuple[str, str]:
    if kept is None:
        return row.schedule_id, row.next_run_utc or ""
    if kept.payload != row.payload or (not relative and kept.trigger_config != row.trigger_config):
        raise _refused(
            f"another follow-up ({row.schedule_id}) was planned with this idempotency key.",
            "Use a new key.",
            "FOLLOWUP_CONFLICT",
        )
    return kept.schedule_id, kept.next_run_utc or ""


def _refused(message: str, remedy: str, code: str) -> ToolError:
    return ToolError(message, remedy=remedy, code=code, begun=False)


def follow_up_of(app: "Runtime", action: "Action", turn: "Turn") -> "FollowUp":
    """What one call plans follow-ups by."""
    limits = app.config.schedules
    return Followups(
        db=app.db,
        clock=app.clock,
        limits=FollowupLimits(
            open=limits.followups_open, days=limits.followup_days, in_a_row=limits.followups_in_a_row
        ),
        maker=Maker(
            thread_id=action.thread_id,
            labels=turn.taint,
            constraints=under_skills(turn.job.constraints if turn.job is not None else Constraints(), turn.skills),
            generation=turn.job.generation if turn.job is not None else 0,
            job_id=turn.job.job_id if turn.job is not None else None,
            idempotency_key=action.idempotency_key,
        ),
    ).plan
