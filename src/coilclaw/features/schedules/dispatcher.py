"""The dispatcher: when a schedule's time has come, its slot is claimed, the schedule moved on and the job made, all in
one transaction. Any number of dispatchers may run; a crash can neither lose a run nor double it."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from coilclaw.features.jobs.changed_files import ChangedFiles, Known
from coilclaw.features.jobs.record import end
from coilclaw.features.schedules.catchup import ON_TIME, EngineStuck, Plan, Skipped, plan, slot_now
from coilclaw.features.schedules.launch import Terms, launch
from coilclaw.features.schedules.outcomes import note_ends, pause_loudly
from coilclaw.features.schedules.run_log import drop, run_of, settle, skip, story
from coilclaw.features.schedules.store.schedule_runs import (
    RunRow,
    add_wakeup,
    busy_schedules,
    claim_run,
    ended_runs,
    last_started,
    lease_wakeup,
    load_run,
    open_runs,
    queued_schedules,
    slot_is_taken,
    start_run,
)
from coilclaw.features.schedules.store.schedules import (
    Advance,
    RowBroken,
    ScheduleRow,
    Sifted,
    advance,
    counted_ahead,
    due_schedules,
    load_schedule,
    other_tzdata,
    set_next,
)
from coilclaw.features.schedules.sync import Sync
from coilclaw.features.schedules.timetable import (
    Told,
    counted,
    shift_of,
    slot_of,
    slot_text,
    standing,
    tell,
    trigger_of_row,
    tzdata_version,
)
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.packets.job import ENDED
from coilclaw.store.database import Database
from coilclaw.store.jobs import load_job
from coilclaw.store.request_keys import keep_made, made_by
from coilclaw.store.tx import Tx

Log: TypeAlias = Callable[[str, dict[str, Json]], None]
BATCH = 1000
"""Schedules in one transaction, so that others get to write in between."""

AHEAD = timedelta(minutes=1)
ELSEWHERE = "GitHub Actions starts it"
MOST_AT_ONCE = 1000


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that is due, and what is to be done about it."""

    row: ScheduleRow
    plan: Plan
    told: Told
    to: Advance


class MakingWay(msgspec.Struct, kw_only=True):
    """Jobs that are called off for a newer run of their schedule."""

    known: Known
    """What the files they changed held before the transaction began."""
    cancelled: list[str] = msgspec.field(default_factory=list[str])


class Dispatcher:
    """Looks what is due and makes jobs of it."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        sync: Sync,
        terms: Callable[[], Terms],
        stopped: Callable[[], bool],
        hash_file: Callable[[str, str], str | None],
        withdraw: Callable[[str], Awaitable[None]],
        say: Log,
        elsewhere: Callable[[], bool] = lambda: False,
    ) -> None:
        self._elsewhere = elsewhere
        """Whether another dispatcher starts the owner's schedules; follow-ups are always started here."""
        self._db = db
        self._clock = clock
        self._sync = sync
        self._terms = terms
        self._stopped = stopped
        self._files = ChangedFiles(db, hash_file)
        self._withdraw = withdraw
        self._say = say
        self._last_look: datetime | None = None

    async def tick(self) -> int:
        """Do what is due now; how many runs were started, queued or skipped. While ESTOP holds, nothing."""
        if self._stopped():
            return 0
        await self._sync.take_over()
        await self._set_right()
        done = await self._note_ends() + await self._start_queued()
        while not self._stopped():
            now = self._clock()
            rows, broken = due_schedules(self._db.reader, stamp(now), BATCH)
            for error in broken:
                await self._pause(error.schedule_id, str(error))
            if rows:
                done += await self._dispatch(rows, now)
            if len(rows) + len(broken) < BATCH:
                break
        return done

    # What is due

    async def _dispatch(self, rows: Sequence[ScheduleRow], now: datetime) -> int:
        works: list[Work] = []
        for row in rows:
            try:
                work = _work(row, now)
                works.append(_left_to_others(work) if self._elsewhere() and row.origin != "followup" else work)
            except (EngineStuck, UsageError) as error:
                await self._pause(row.schedule_id, f"its next run cannot be computed: {error}")
        making_way = MakingWay(known=await self._files.now(self._may_be_replaced(rows)))
        done = await self._db.write(lambda tx: self._claim_all(tx, works, now, making_way))
        for job_id in making_way.cancelled:
            await self._withdraw(job_id)
        if done:
            self._say("schedules_dispatched", {"schedules": len(works), "runs": done})
        return done

    def _may_be_replaced(self, rows: Sequence[ScheduleRow]) -> list[str]:
        """The jobs that a newer run of their schedule would call off."""
        replacing = [row.schedule_id for row in rows if row.options.overlap == "replace"]
        return [run.job_id for each in replacing for run in open_runs(self._db.reader, each) if run.job_id is not None]

    def _claim_all(self, tx: Tx, works: Sequence[Work], now: datetime, making_way: MakingWay) -> int:
        """How many slots were seen to."""
        making_way.cancelled.clear()  # a transaction may be tried again
        busy = busy_schedules(tx)
        return sum(self._claim(tx, work, now, busy, making_way) for work in works)

    def _claim(self, tx: Tx, work: Work, now: datetime, busy: Collection[str], making_way: MakingWay) -> int:
        """Advance the schedule if it has not moved since it was read, and record what happens to its slots."""
        row, told = work.row, work.told
        if not advance(tx, self._clock, row, work.to):
            return 0
        done, before = 0, row.counted_from
        for skipped in work.plan.skipped:
            last = slot_text(skipped.last)
            run = run_of(row.schedule_id, last, "late", int((now - skipped.last).total_seconds()), told)
            run = msgspec.structs.replace(run, slots=skipped.slots, first_slot=slot_text(skipped.first))
            done += skip(tx, self._clock, run, skipped.reason, after=before)
            before = last
        mine: set[str] = set()
        for slot in work.plan.runs:
            late = max(0, int((now - slot - shift_of(row)).total_seconds()))
            cause = "due" if late <= ON_TIME.total_seconds() else "late"
            run = run_of(row.schedule_id, slot_text(slot), cause, late, told)
            mine.add(run.run_instance_id)
            if row.options.overlap == "replace" and slot != work.plan.runs[-1]:
                done += skip(tx, self._clock, run, "replaced by a newer slot", after=before)
            elif row.schedule_id not in busy and len(mine) == 1:
                done += self._start(tx, row, run)
            else:
                reason = self._take(tx, row, run, mine, making_way)
                done += skip(tx, self._clock, run, reason, after=before) if isinstance(reason, str) else reason
            before = run.scheduled_at
        return done

    def _take(self, tx: Tx, row: ScheduleRow, run: RunRow, mine: Collection[str], making_way: MakingWay) -> int | str:
        """Start or queue a slot, as the schedule wants overlaps, or say why it is skipped. `mine` are slots that are
        caught up together."""
        overlap = row.options.overlap
        before = open_runs(tx, row.schedule_id)
        if not before or overlap == "allow":
            return self._start(tx, row, run)
        if overlap == "replace":
            return self._start(tx, row, run, lambda: self._make_way(tx, before, making_way))
        waiting = [each for each in before if each.state == "QUEUED"]
        together = any(each.run_instance_id in mine for each in before)
        if together or (overlap == "queue_one" and not waiting):
            return self._queue(tx, row, run)
        return "one is already queued" if overlap == "queue_one" else "the previous run has not finished"

    def _start(self, tx: Tx, row: ScheduleRow, run: RunRow, make_way: Callable[[], None] | None = None) -> int:
        """Claim the slot, and with it make its job, its wake-up and its story."""
        last = last_started(tx, row.schedule_id)
        run = msgspec.structs.replace(run, job_id=new_id("job", self._clock()))
        if not claim_run(tx, self._clock, run):
            return 0
        if make_way is not None:
            make_way()
        job = launch(tx, self._clock, row, run, last, self._terms())
        add_wakeup(tx, run, row.payload, status="LEASED", until=job.deadline_at)
        add_event(tx, self._clock, "schedule_run", row.schedule_id, {**story(run), "job_id": job.job_id})
        return 1

    def _queue(self, tx: Tx, row: ScheduleRow, run: RunRow) -> int:
        run = msgspec.structs.replace(run, state="QUEUED", reason="the previous run has not finished")
        if not claim_run(tx, self._clock, run):
            return 0
        add_wakeup(tx, run, row.payload, status="PENDING", until=None)
        add_event(tx, self._clock, "schedule_queued", row.schedule_id, story(run))
        return 1

    def _make_way(self, tx: Tx, before: Sequence[RunRow], making_way: MakingWay) -> None:
        """Call off what runs and drop what waits."""
        reason = "replaced by a newer run of its schedule"
        for run in before:
            if run.state == "QUEUED" or run.job_id is None:
                drop(tx, self._clock, run, reason)
                continue
            job = load_job(tx, run.job_id)
            if job is not None and job.state not in ENDED:
                files = self._files.of(tx, job.job_id, making_way.known)
                end(tx, self._clock, job, "CANCELLED", f"It was {reason}.", files)
                making_way.cancelled.append(job.job_id)
            settle(tx, self._clock, run, "CANCELLED")

    # By hand

    async def run_now(self, schedule_id: str, key: str = "") -> RunRow:
        """Start a run at once, beside whatever runs; the next run stays where it is. A request that comes again with
        its key finds the run it started."""

        def write(tx: Tx) -> RunRow:
            before = made_by(tx, "run", key) if key else None
            if before is not None and (there := load_run(tx, before)) is not None:
                return there
            row = load_schedule(tx, schedule_id)
            if row is None:
                raise UsageError(f"there is no schedule {schedule_id!r}.")
            if row.origin == "followup":
                raise UsageError(f"{schedule_id} is a follow-up and runs on its own at {row.next_run_utc}.")
            now = self._clock()
            told = tell(trigger_of_row(row), now)
            for late in range(MOST_AT_ONCE):  # others may have asked in the same millisecond
                run = run_of(row.schedule_id, stamp(now + timedelta(milliseconds=late)), "manual", 0, told)
                if self._start(tx, row, run):
                    if key:
                        keep_made(tx, self._clock, "run", key, run.run_instance_id)
                    return load_run(tx, run.run_instance_id) or run
            raise UsageError(f"{schedule_id} was started too many times at this moment.", remedy="Try again.")

        return await self._db.write(write)

    # Ends, queues, clocks

    async def _note_ends(self) -> int:
        ended = ended_runs(self._db.reader, 1000)
        if not ended:
            return 0
        return await self._db.write(lambda tx: note_ends(tx, self._clock, ended, self._say))

    async def _start_queued(self) -> int:
        waiting = queued_schedules(self._db.reader)
        if not waiting:
            return 0
        return await self._db.write(lambda tx: sum(self._start_next(tx, schedule_id) for schedule_id in waiting))

    def _start_next(self, tx: Tx, schedule_id: str) -> int:
        """Start the oldest queued run of a schedule when nothing of it runs any more."""
        try:
            row = load_schedule(tx, schedule_id)
        except RowBroken:  # nobody knows what it would do
            row = None
        before = open_runs(tx, schedule_id)
        queued = [run for run in before if run.state == "QUEUED"]
        if row is None or not row.live:
            for run in queued:
                drop(tx, self._clock, run, "its schedule no longer runs")
            return 0
        if not queued or len(queued) != len(before):
            return 0
        run = queued[0]
        late = max(0, int((self._clock() - slot_of(run.scheduled_at)).total_seconds()))
        job_id = new_id("job", self._clock())
        last = last_started(tx, schedule_id)
        run = msgspec.structs.replace(run, lateness_seconds=late, job_id=job_id)
        job = launch(tx, self._clock, row, run, last, self._terms())
        start_run(tx, run.run_instance_id, job.job_id)
        lease_wakeup(tx, run.run_instance_id, job.deadline_at)
        add_event(tx, self._clock, "schedule_run", schedule_id, {**story(run), "job_id": job.job_id})
        return 1

    async def _pause(self, schedule_id: str, reason: str) -> None:
        self._say("schedule_paused", {"schedule_id": schedule_id, "reason": reason})
        await self._db.write(lambda tx: pause_loudly(tx, self._clock, schedule_id, reason))

    async def _set_right(self) -> None:
        """Count anew what was counted with other zone rules, or by a clock that ran ahead; before anything is due."""
        now = self._clock()
        went_back = self._last_look is None or now < self._last_look - AHEAD
        first, self._last_look = self._last_look is None, now
        if went_back:
            await self._recount(lambda: counted_ahead(self._db.reader, slot_text(now + AHEAD), 1000), now, "clock")
        if first or went_back:
            await self._recount(lambda: other_tzdata(self._db.reader, tzdata_version(), 1000), None, "tzdata")

    async def _recount(self, find: Callable[[], Sifted], after: datetime | None, why: str) -> None:
        moved = 0
        seen: set[str] = set()
        while True:
            found, broken = find()
            troubles = {error.schedule_id: str(error) for error in broken}
            rows = [row for row in found if row.schedule_id not in seen]
            seen.update(row.schedule_id for row in rows)
            fresh: list[tuple[ScheduleRow, Advance]] = []
            for row in rows:
                try:
                    fresh.append((row, _again(row, after or self._seen_to(row))))
                except UsageError as error:
                    troubles[row.schedule_id] = f"its next run cannot be computed: {error}"
            for schedule_id, reason in troubles.items():
                await self._pause(schedule_id, reason)
            if fresh:
                moved += await self._db.write(lambda tx, fresh=fresh: sum(set_next(tx, row, to) for row, to in fresh))
            if not rows and not troubles:
                break
        if moved:
            version = tzdata_version()
            fields: dict[str, Json] = {"why": why, "schedules": moved, "tzdata_version": version}
            self._say("schedules_recounted", fields)
            await self._db.write(lambda tx: add_event(tx, self._clock, "schedules_recounted", "schedules", fields))

    def _seen_to(self, row: ScheduleRow) -> datetime:
        """What a schedule is counted from by other rules about its zone: its last slot, wherever that lies now."""
        last = slot_of(row.counted_from)
        ran = row.trigger_type == "cron" and slot_is_taken(self._db.reader, row.schedule_id, row.counted_from)
        return slot_now(trigger_of_row(row), last) if ran else last


def _left_to_others(work: Work) -> Work:
    """The same without a run: another process is responsible for starting each slot."""
    runs = work.plan.runs
    if not runs:
        return work
    passed = Skipped(first=runs[0], last=runs[-1], slots=len(runs), reason=ELSEWHERE)
    left = msgspec.structs.replace(work.plan, runs=(), skipped=(*work.plan.skipped, passed))
    return msgspec.structs.replace(work, plan=left)


def _work(row: ScheduleRow, now: datetime) -> Work:
    trigger = trigger_of_row(row)
    made = plan(trigger, slot_of(row.next_run_utc or ""), now, row.options, shift_of(row))
    return Work(
        row=row,
        plan=made,
        told=tell(trigger, made.counted_from),
        to=standing(row, made.counted_from, made.next_run),
    )


def _again(row: ScheduleRow, after: datetime) -> Advance:
    fresh = counted(row, after)
    return Advance(
        counted_from=fresh.counted_from,
        next_run_utc=fresh.next_run_utc,
        due_at=fresh.due_at,
        tzdata_version=fresh.tzdata_version,
    )
