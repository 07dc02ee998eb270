"""Job rows: goal, state and worker. Every write names the version it read."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from coilclaw.packets.action import INTERNAL, Label
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import RowDamaged, StorageError
from coilclaw.packets.ids import Clock, from_stamp, new_id, stamp
from coilclaw.packets.job import JobLimits, JobSpec, JobState, Plan
from coilclaw.store.running import IS_RUNNING
from coilclaw.store.threads import OWNER_ID
from coilclaw.store.tx import Tx

CHECKPOINT_BYTES = 512 * 1024


class JobMoved(StorageError):
    """The job changed since it was read; nothing was written."""


class JobUnreadable(RowDamaged):
    """The row of a job is damaged, or was written by another version; other jobs continue."""

    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(f"the row of job {job_id} cannot be read: {why}.", remedy="Restore it from a backup.")
        self.job_id = job_id


class CheckpointTooLarge(StorageError):
    """A checkpoint over its limit; nothing was written."""


class JobBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A job's budget, fixed when it was created."""

    tokens: int
    steps: int


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as stored."""

    job_id: str
    thread_id: str
    goal: str
    state: JobState
    spec: JobSpec
    budget: JobBudget
    plan: Plan | None = None
    checkpoint: bytes | None = None
    checkpoint_label: Label = INTERNAL
    next_wakeup_at: str | None = None
    reason: str = ""
    paused_from: JobState | None = None
    deadline_at: str | None = None
    worker: str | None = None
    attempt: int = 0
    version: int = 0
    created_at: str = ""
    updated_at: str = ""

    @property
    def turn_id(self) -> str:
        """A job is one turn: everything it proposes carries this id."""
        return turn_of(self.job_id)


def turn_of(job_id: str) -> str:
    """The turn of a job."""
    return f"turn_{job_id.removeprefix('job_')}"


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a job."""

    event_id: str
    type: str
    payload: dict[str, Json]
    created_at: str


_COLUMNS = (
    "job_id, thread_id, goal, state, spec_json, plan_json, checkpoint_blob, checkpoint_label, next_wakeup_at,"
    " budget_json, reason, paused_from, deadline_at, worker, attempt, version, created_at, updated_at"
)
_SPEC = msgspec.json.Decoder(JobSpec)
_PLAN = msgspec.json.Decoder(Plan)
_BUDGET = msgspec.json.Decoder(JobBudget)
_PAYLOAD = msgspec.json.Decoder(dict[str, Json])


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _job(row: tuple[object, ...]) -> JobRow:
    fields = dict(zip(_COLUMNS.replace(" ", "").split(","), row, strict=True))
    try:
        return JobRow(
            job_id=str(fields["job_id"]),
            thread_id=str(fields["thread_id"]),
            goal=str(fields["goal"]),
            state=msgspec.convert(fields["state"], JobState),
            spec=_SPEC.decode(str(fields["spec_json"])),
            plan=None if fields["plan_json"] == "{}" else _PLAN.decode(str(fields["plan_json"])),
            checkpoint=msgspec.convert(fields["checkpoint_blob"], bytes | None),
            checkpoint_label=str(fields["checkpoint_label"]),
            next_wakeup_at=msgspec.convert(fields["next_wakeup_at"], str | None),
            budget=_BUDGET.decode(str(fields["budget_json"])),
            reason=str(fields["reason"]),
            paused_from=msgspec.convert(fields["paused_from"], JobState | None),
            deadline_at=msgspec.convert(fields["deadline_at"], str | None),
            worker=msgspec.convert(fields["worker"], str | None),
            attempt=msgspec.convert(fields["attempt"], int),
            version=msgspec.convert(fields["version"], int),
            created_at=str(fields["created_at"]),
            updated_at=str(fields["updated_at"]),
        )
    except (msgspec.DecodeError, ValueError) as error:
        raise JobUnreadable(str(fields["job_id"]), str(error)) from error


def add_job(tx: Tx, clock: Clock, job: JobRow) -> JobRow:
    """Store a new job; its thread must exist."""
    now = stamp(clock())
    job = msgspec.structs.replace(job, created_at=job.created_at or now, updated_at=now)
    names = f"{_COLUMNS}, user_id"
    tx.execute(
        f"INSERT INTO jobs ({names}) VALUES ({', '.join('?' * len(names.split(',')))})",  # noqa: S608
        (
            job.job_id,
            job.thread_id,
            job.goal,
            job.state,
            _text(job.spec),
            "{}" if job.plan is None else _text(job.plan),
            _fitting(job.checkpoint),
            job.checkpoint_label,
            job.next_wakeup_at,
            _text(job.budget),
            job.reason,
            job.paused_from,
            job.deadline_at,
            job.worker,
            job.attempt,
            job.version,
            job.created_at,
            job.updated_at,
            OWNER_ID,
        ),
    )
    return job


def _fitting(checkpoint: bytes | None) -> bytes | None:
    if checkpoint is not None and len(checkpoint) > CHECKPOINT_BYTES:
        raise CheckpointTooLarge(f"the checkpoint is {len(checkpoint)} bytes; at most {CHECKPOINT_BYTES} are allowed.")
    return checkpoint


def save(tx: Tx, clock: Clock, job: JobRow, expected_version: int) -> JobRow:
    """Write a job if nobody else did since `expected_version`; returns the stored row."""
    job = msgspec.structs.replace(job, version=expected_version + 1, updated_at=stamp(clock()))
    changed = tx.execute(
        "UPDATE jobs SET state = ?, spec_json = ?, plan_json = ?, checkpoint_blob = ?, checkpoint_label = ?,"
        " next_wakeup_at = ?, reason = ?, paused_from = ?, deadline_at = ?, worker = ?, attempt = ?, version = ?,"
        " updated_at = ? WHERE job_id = ? AND version = ?",
        (
            job.state,
            _text(job.spec),
            "{}" if job.plan is None else _text(job.plan),
            _fitting(job.checkpoint),
            job.checkpoint_label,
            job.next_wakeup_at,
            job.reason,
            job.paused_from,
            job.deadline_at,
            job.worker,
            job.attempt,
            job.version,
            job.updated_at,
            job.job_id,
            expected_version,
        ),
    )
    if changed.rowcount != 1:
        raise JobMoved(
            f"job {job.job_id} was changed by another process.", remedy="Look at it again: `coilclaw job show`."
        )
    return job


def load_job(db: Tx, job_id: str) -> JobRow | None:
    """One job by id."""
    row = db.execute(f"SELECT {_COLUMNS} FROM jobs WHERE job_id = ?", (job_id,)).fetchone()  # noqa: S608
    return None if row is None else _job(row)


def job_version(db: Tx, job_id: str) -> int | None:
    """The version of a job, which is all that its worker has to watch."""
    row = db.execute("SELECT version FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    return None if row is None else int(row[0])


def list_jobs(
    db: Tx,
    states: Iterable[JobState] | None,
    limit: int,
    skipped: Callable[[JobUnreadable], None] | None = None,
) -> list[JobRow]:
    """Jobs in these states, or in any, newest first; `skipped` is called for unreadable ones."""
    chosen = None if states is None else list(states)
    among = "" if chosen is None else f"WHERE state IN ({', '.join('?' * len(chosen))})"
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM jobs {among} ORDER BY created_at DESC, job_id DESC LIMIT ?",  # noqa: S608
        (*(chosen or ()), limit),
    ).fetchall()
    found: list[JobRow] = []
    for row in rows:
        try:
            found.append(_job(row))
        except JobUnreadable as error:
            if skipped is not None:
                skipped(error)
    return found


class JobsWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for jobs; None matches anything."""

    states: tuple[JobState, ...] | None = None
    thread_id: str | None = None
    since: str | None = None
    """Created at this time or later."""


def jobs_before(db: Tx, wanted: JobsWanted, before: str | None, limit: int) -> tuple[list[JobRow], list[str]]:
    """Jobs below an id, newest first, at most so many rows; and the ids of all those rows, including
    unreadable ones. Ids sort by creation, so their own index gives the order."""
    terms, values = ["job_id < ?"], ["job_~" if before is None else before]
    if wanted.states is not None:
        # Few jobs are open, so these are found by state; finished ones are many.
        plus = "" if set(wanted.states) <= set(OPEN) else "+"
        terms.append(f"{plus}state IN ({', '.join('?' * len(wanted.states))})")
        values += wanted.states
    for column, comparison, value in (("thread_id", "=", wanted.thread_id), ("created_at", ">=", wanted.since)):
        if value is not None:
            terms.append(f"{column} {comparison} ?")
            values.append(value)
    if wanted.since is not None:  # a day of leeway for ids made under a wrong clock
        terms.append("job_id >= ?")
        values.append(_id_at(from_stamp(wanted.since) - timedelta(days=1)))
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM jobs WHERE {' AND '.join(terms)} ORDER BY job_id DESC LIMIT ?",  # noqa: S608
        (*values, limit),
    ).fetchall()
    found: list[JobRow] = []
    for row in rows:
        with suppress(JobUnreadable):
            found.append(_job(row))
    return found, [row[0] for row in rows]


def _id_at(moment: datetime) -> str:
    """The prefix of ids of jobs created at a time."""
    return new_id("job", moment)[:13] if moment.timestamp() > 0 else "job_"


def near_job_ids(db: Tx, limit: int = 200) -> list[str]:
    """Recent ids, for a did-you-mean."""
    return [row[0] for row in db.execute("SELECT job_id FROM jobs ORDER BY created_at DESC LIMIT ?", (limit,))]


# Claiming

OPEN: tuple[JobState, ...] = (
    "RECEIVED", "PARSED", "POLICY_CHECKED", "PLANNED", "EXECUTING", "WAITING_APPROVAL", "PR_OPENED", "MERGED",
    "DEPLOYED", "PAUSED_BUDGET",
)  # fmt: skip
"""States in which a job may still continue."""

_OPEN = ", ".join(f"'{state}'" for state in OPEN)

FARTHEST = timedelta(hours=25)
"""The longest pause; a later time came from a fast clock, and counts as due. Waiting has no such limit."""


def claim_job(
    tx: Tx,
    clock: Clock,
    *,
    worker: str,
    running: Collection[str],
    at_once: int,
    gone: Callable[[str], bool],
    only: Collection[str] | None = None,
) -> JobRow | None:
    """Claim the job that has been due longest and has no live worker; None if none is due or enough are running.

    `gone` says whether the worker of that name is gone: ownership is a held lock, not a clock. `running` are the jobs
    this worker actually works on; another one under its name is left over from a failed write. `only` limits the
    claim to these jobs. An unreadable job blocks no other: JobUnreadable is raised only if nothing else is due.
    """
    mine = tx.execute(f"SELECT job_id FROM jobs WHERE state IN ({_OPEN}) AND worker = ?", (worker,))  # noqa: S608
    for row in mine.fetchall():
        if row[0] not in running:
            release_job(tx, clock, row[0], worker)
    held = tx.execute(
        f"SELECT worker, count(*) FROM jobs WHERE state IN ({_OPEN}) AND worker IS NOT NULL GROUP BY worker"  # noqa: S608
    ).fetchall()
    dead = sorted(str(row[0]) for row in held if row[0] != worker and gone(str(row[0])))
    if sum(int(row[1]) for row in held if row[0] not in dead) >= at_once:
        return None
    now = clock()
    broken: list[JobUnreadable] = []
    due = [job for state in OPEN for job in _due(tx, state, stamp(now), stamp(now + FARTHEST), dead, only, broken)]
    if not due:
        if broken:
            raise broken[0]
        return None
    job = min(due, key=lambda each: (each.next_wakeup_at or "", each.job_id))
    return save(tx, clock, msgspec.structs.replace(job, worker=worker), job.version)


def any_due(db: Tx, clock: Clock) -> bool:
    """Whether a claim could find anything; a read that blocks nobody."""
    now = clock()
    return any(
        db.execute(
            "SELECT 1 FROM jobs WHERE state = ? AND (next_wakeup_at <= ? OR (next_wakeup_at > ? AND state <>"
            " 'WAITING_APPROVAL')) LIMIT 1",
            (state, stamp(now), stamp(now + FARTHEST)),
        ).fetchone()
        for state in OPEN
    )


def _due(
    tx: Tx,
    state: JobState,
    now: str,
    never_after: str,
    dead: list[str],
    only: Collection[str] | None,
    broken: list[JobUnreadable],
) -> list[JobRow]:
    """The next due jobs of one state; unreadable ones are added to `broken` and skipped."""
    free = f"(worker IS NULL OR worker IN ({', '.join('?' * len(dead))}))" if dead else "worker IS NULL"
    wanted = () if only is None else tuple(sorted(only))
    among = "" if only is None else f" AND job_id IN ({', '.join('?' * len(wanted))})"
    asked = [("next_wakeup_at <= ?", now)]
    if state != "WAITING_APPROVAL":
        asked.append(("next_wakeup_at > ?", never_after))
    found: list[JobRow] = []
    for condition, moment in asked:
        passed: list[str] = []
        while True:
            row = tx.execute(
                f"SELECT {_COLUMNS} FROM jobs WHERE state = ? AND {condition} AND {free}{among}"  # noqa: S608
                f" AND job_id NOT IN ({', '.join('?' * len(passed))}) ORDER BY next_wakeup_at, job_id LIMIT 1",
                (state, moment, *dead, *wanted, *passed),
            ).fetchone()
            if row is None:
                break
            try:
                found.append(_job(row))
                break
            except JobUnreadable as error:
                broken.append(error)
                passed.append(error.job_id)
    return found


def waited_enough(db: Tx) -> list[str]:
    """Jobs whose actions have all ended or run in the background; a procedure also waits for unknown outcomes, and
    one with an open pull request without a question waits for the owner to ask again."""
    rows = db.execute(
        "SELECT job_id FROM jobs WHERE state = 'WAITING_APPROVAL' AND NOT EXISTS (SELECT 1 FROM proposed_actions"  # noqa: S608
        " WHERE turn_id = 'turn_' || substr(jobs.job_id, 5)"
        f" AND ((status IN ('PENDING', 'APPROVED') AND NOT {IS_RUNNING}) OR"
        " (status = 'UNKNOWN' AND EXISTS (SELECT 1 FROM sop_runs WHERE sop_runs.job_id = jobs.job_id))))"
        " AND NOT EXISTS (SELECT 1 FROM pull_requests WHERE pull_requests.job_id = jobs.job_id AND state = 'OPEN'"
        " AND dormant = 1)"
    )
    return [row[0] for row in rows]


def wake_job(tx: Tx, clock: Clock, job_id: str) -> bool:
    """Make a sleeping, unclaimed job due; returns whether that changed anything."""
    now = stamp(clock())
    changed = tx.execute(
        "UPDATE jobs SET next_wakeup_at = ?, version = version + 1, updated_at = ?"
        " WHERE job_id = ? AND worker IS NULL AND next_wakeup_at > ?",
        (now, now, job_id, now),
    )
    return changed.rowcount == 1


def release_job(tx: Tx, clock: Clock, job_id: str, worker: str) -> bool:
    """Release a job that a worker holds, for the next worker to continue."""
    changed = tx.execute(
        "UPDATE jobs SET worker = NULL, version = version + 1, updated_at = ? WHERE job_id = ? AND worker = ?",
        (stamp(clock()), job_id, worker),
    )
    return changed.rowcount == 1


# Events


def add_job_event(tx: Tx, clock: Clock, job_id: str, kind: str, payload: dict[str, Json]) -> None:
    """Write one event of a job. Its id is a counter, so that events stay in order whatever the clock does."""
    number = tx.execute("SELECT count(*) FROM job_events WHERE job_id = ?", (job_id,)).fetchone()[0] + 1
    tx.execute(
        "INSERT INTO job_events (event_id, job_id, type, payload_json, created_at) VALUES (?, ?, ?, ?, ?)",
        (f"{job_id}.{number:06d}", job_id, kind, _text(payload), stamp(clock())),
    )


def job_events(db: Tx, job_id: str, limit: int) -> list[JobEvent]:
    """The last events of a job, oldest first."""
    rows = db.execute(
        "SELECT event_id, type, payload_json, created_at FROM job_events WHERE job_id = ?"
        " ORDER BY event_id DESC LIMIT ?",
        (job_id, limit),
    ).fetchall()
    return [
        JobEvent(event_id=row[0], type=row[1], payload=_PAYLOAD.decode(row[2]), created_at=row[3])
        for row in reversed(rows)
    ]


def add_job_files(tx: Tx, job_id: str, paths: Iterable[str]) -> None:
    """Record workspace files that a job changed, each once."""
    tx.executemany(
        "INSERT INTO job_files (job_id, path) VALUES (?, ?) ON CONFLICT DO NOTHING", [(job_id, path) for path in paths]
    )


def job_files(db: Tx, job_id: str) -> list[str]:
    """Workspace files that a job changed, in order."""
    rows = db.execute("SELECT path FROM job_files WHERE job_id = ? ORDER BY path", (job_id,))
    return [row[0] for row in rows]


def job_limits(db: Tx, job_id: str) -> JobLimits | None:
    """A job's constraints, and how much of them is used up."""
    row = db.execute("SELECT spec_json FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    if row is None:
        return None
    try:
        spec = _SPEC.decode(row[0])
    except msgspec.DecodeError as error:
        raise JobUnreadable(job_id, str(error)) from error
    return JobLimits(
        job_id=job_id,
        constraints=spec.constraints,
        files_changed=frozenset(job_files(db, job_id)),
        generation=spec.generation,
    )
