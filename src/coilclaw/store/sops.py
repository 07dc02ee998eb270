"""Rows of SOP runs: state, worker, and the output of each step."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.action import INTERNAL, Label, Status, ToolResult
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import RowDamaged
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.store.threads import ARTIFACT_BYTES, MESSAGE_BYTES
from coilclaw.store.tx import Tx

RunState: TypeAlias = Literal["RUNNING", "WAITING", "DONE", "FAILED"]
StepState: TypeAlias = Literal["RUNNING", "WAITING", "HELD", "SUCCEEDED", "FAILED", "SKIPPED"]
"""HELD: it was stopped from outside without an effect; it runs again, which does not count as a retry."""

OVER: frozenset[RunState] = frozenset({"DONE", "FAILED"})
SETTLED: frozenset[StepState] = frozenset({"SUCCEEDED", "FAILED", "SKIPPED", "HELD"})


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as stored."""

    run_id: str
    name: str
    file_hash: str
    sop_json: str
    """The steps when the run started."""
    state: RunState
    reason: str
    position: int
    thread_id: str
    turn_id: str
    job_id: str | None
    file_label: Label
    """The label of the steps: the owner's, unless the file contains untrusted content."""
    fresh: tuple[Label, ...]
    inherited: tuple[Label, ...]
    worker: str | None
    created_at: str
    updated_at: str


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a run that was started, skipped or finished."""

    run_id: str
    step_id: str
    position: int
    state: StepState
    attempt: int
    failures: int = 0
    retriable: bool = False
    action_id: str | None = None
    code: str = ""
    output: str = ""
    """Its beginning, at most 64 KB; the artifact, if there is one, has all of it."""
    output_hash: str = ""
    artifact_id: str | None = None
    label: Label = INTERNAL
    started_at: str = ""
    ended_at: str | None = None


_RUN = (
    "run_id, name, file_hash, sop_json, state, reason, position, thread_id, turn_id, job_id, file_label, fresh_json,"
    " inherited_json, worker, created_at, updated_at"
)
_STEP = (
    "run_id, step_id, position, state, attempt, failures, retriable, action_id, code, output, output_hash, artifact_id,"
    " label, started_at, ended_at"
)
_LABELS = msgspec.json.Decoder(tuple[str, ...])
_RESULT = msgspec.json.Decoder(ToolResult)


class RunBroken(RowDamaged):
    """A row of a run that cannot be read."""

    def __init__(self, message: str) -> None:
        super().__init__(message, remedy="Restore the database from a backup, or start a new run.")


def _run(row: tuple[object, ...]) -> RunRow:
    fields = dict(zip(_RUN.replace(" ", "").split(","), row, strict=True))
    try:
        fresh = _LABELS.decode(str(fields.pop("fresh_json")))
        inherited = _LABELS.decode(str(fields.pop("inherited_json")))
        return msgspec.convert({**fields, "fresh": fresh, "inherited": inherited}, RunRow)
    except msgspec.DecodeError as error:
        raise RunBroken(f"the row of run {fields['run_id']} cannot be read: {error}.") from error


def _step(row: tuple[object, ...]) -> StepRow:
    fields = dict(zip(_STEP.replace(" ", "").split(","), row, strict=True))
    try:
        return msgspec.convert({**fields, "retriable": bool(fields["retriable"])}, StepRow)
    except msgspec.ValidationError as error:
        name = f"step {fields['step_id']} of run {fields['run_id']}"
        raise RunBroken(f"the row of {name} cannot be read: {error}.") from error


def _text(labels: tuple[Label, ...]) -> str:
    return msgspec.json.encode(labels).decode()


# Runs


def add_run(tx: Tx, clock: Clock, run: RunRow) -> RunRow:
    """Store a new run."""
    now = stamp(clock())
    run = msgspec.structs.replace(run, created_at=now, updated_at=now)
    tx.execute(
        f"INSERT INTO sop_runs ({_RUN}) VALUES ({', '.join('?' * 16)})",  # noqa: S608
        (
            run.run_id, run.name, run.file_hash, run.sop_json, run.state, run.reason, run.position, run.thread_id,
            run.turn_id, run.job_id, run.file_label, _text(run.fresh), _text(run.inherited), run.worker,
            run.created_at, run.updated_at,
        ),
    )  # fmt: skip
    return run


def load_run(db: Tx, run_id: str) -> RunRow | None:
    """One run by id."""
    row = db.execute(f"SELECT {_RUN} FROM sop_runs WHERE run_id = ?", (run_id,)).fetchone()  # noqa: S608
    return None if row is None else _run(row)


def run_of_job(db: Tx, job_id: str) -> RunRow | None:
    """The run a job works on."""
    row = db.execute(f"SELECT {_RUN} FROM sop_runs WHERE job_id = ?", (job_id,)).fetchone()  # noqa: S608
    return None if row is None else _run(row)


def turn_is_over(db: Tx, turn_id: str) -> bool:
    """Whether the run of a turn has ended."""
    row = db.execute("SELECT state FROM sop_runs WHERE turn_id = ?", (turn_id,)).fetchone()
    return row is not None and row[0] in ("DONE", "FAILED")


def near_run_ids(db: Tx) -> list[str]:
    """Ids of the newest runs, for a did-you-mean."""
    rows = db.execute("SELECT run_id FROM sop_runs ORDER BY created_at DESC, run_id DESC LIMIT 200")
    return [row[0] for row in rows]


def list_runs(db: Tx, limit: int) -> tuple[list[RunRow], list[RunBroken]]:
    """Runs, newest first; unreadable ones separately."""
    rows = db.execute(
        f"SELECT {_RUN} FROM sop_runs ORDER BY created_at DESC, run_id DESC LIMIT ?",  # noqa: S608
        (limit,),
    ).fetchall()
    found: list[RunRow] = []
    broken: list[RunBroken] = []
    for row in rows:
        try:
            found.append(_run(row))
        except RunBroken as error:
            broken.append(error)
    return found, broken


def claim_run(tx: Tx, clock: Clock, run_id: str, worker: str, gone: Callable[[str], bool]) -> RunRow | None:
    """Claim an unfinished run without a live worker; None if that is impossible.

    `gone` says whether the worker of that name is gone: ownership is a held lock, not a clock.
    """
    run = load_run(tx, run_id)
    if run is None or run.state in OVER or (run.worker is not None and not gone(run.worker)):
        return None
    tx.execute("UPDATE sop_runs SET worker = ?, updated_at = ? WHERE run_id = ?", (worker, stamp(clock()), run_id))
    return msgspec.structs.replace(run, worker=worker)


def release_run(tx: Tx, clock: Clock, run_id: str, worker: str) -> None:
    """Release a run, for the next worker to continue."""
    tx.execute(
        "UPDATE sop_runs SET worker = NULL, updated_at = ? WHERE run_id = ? AND worker = ?",
        (stamp(clock()), run_id, worker),
    )


def move_run(
    tx: Tx, clock: Clock, run_id: str, *, state: RunState, reason: str = "", position: int | None = None
) -> None:
    """Set a run's state; a finished one is unclaimed."""
    tx.execute(
        "UPDATE sop_runs SET state = ?, reason = ?, position = coalesce(?, position),"
        " worker = CASE WHEN ? THEN NULL ELSE worker END, updated_at = ? WHERE run_id = ?",
        (state, reason, position, state in OVER, stamp(clock()), run_id),
    )


def taint_run(tx: Tx, run_id: str, fresh: tuple[Label, ...], inherited: tuple[Label, ...]) -> None:
    """Record the untrusted content that a run has met."""
    tx.execute(
        "UPDATE sop_runs SET fresh_json = ?, inherited_json = ? WHERE run_id = ?",
        (_text(fresh), _text(inherited), run_id),
    )


# Steps


def steps_of_run(db: Tx, run_id: str) -> dict[str, StepRow]:
    """Every recorded step, by id, in order."""
    rows = db.execute(
        f"SELECT {_STEP} FROM sop_steps WHERE run_id = ? ORDER BY position",  # noqa: S608
        (run_id,),
    ).fetchall()
    return {row[1]: _step(row) for row in rows}


def put_step(tx: Tx, clock: Clock, step: StepRow, thread_id: str = "") -> StepRow:
    """Write a step; of output over 64 KB the row has the beginning and an artifact all of it."""
    now = stamp(clock())
    data = step.output.encode("utf-8", "replace")
    artifact_id = None
    if len(data) > MESSAGE_BYTES:
        artifact_id = new_id("art", clock())
        kept = _clipped(data, ARTIFACT_BYTES)
        tx.execute(
            "INSERT INTO artifacts (artifact_id, thread_id, type, name, content_hash, blob, label, created_at)"
            " VALUES (?, ?, 'sop_output', ?, ?, ?, ?, ?)",
            (artifact_id, thread_id or None, step.step_id, sha256_hex(kept), kept, step.label, now),
        )
    step = msgspec.structs.replace(
        step,
        output=_clipped(data, MESSAGE_BYTES).decode("utf-8"),
        output_hash=sha256_hex(data) if step.state in SETTLED else "",
        artifact_id=artifact_id,
        started_at=step.started_at or now,
        ended_at=now if step.state in SETTLED else None,
    )
    tx.execute(
        f"INSERT OR REPLACE INTO sop_steps ({_STEP}) VALUES ({', '.join('?' * 15)})",  # noqa: S608
        (
            step.run_id, step.step_id, step.position, step.state, step.attempt, step.failures, int(step.retriable),
            step.action_id, step.code, step.output, step.output_hash, step.artifact_id, step.label, step.started_at,
            step.ended_at,
        ),
    )  # fmt: skip
    return step


def _clipped(data: bytes, limit: int) -> bytes:
    """The longest prefix that fits and is valid text."""
    return data if len(data) <= limit else data[:limit].decode("utf-8", "ignore").encode("utf-8")


def whole_output(db: Tx, step: StepRow) -> str | None:
    """A step's whole output; None if its artifact is gone or was too large to store."""
    if step.artifact_id is None:
        return step.output
    row = db.execute("SELECT blob FROM artifacts WHERE artifact_id = ?", (step.artifact_id,)).fetchone()
    data = None if row is None else bytes(row[0])
    return data.decode("utf-8") if data is not None and sha256_hex(data) == step.output_hash else None


# Actions of steps


class ActionStand(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an action, as its waiting step needs to know it."""

    action_id: str
    status: Status
    worker: str | None
    """Who has claimed it."""
    next_attempt_at: str | None
    result: ToolResult | None
    reason: str

    @property
    def ended(self) -> bool:
        """Nothing more will happen to it automatically."""
        return self.status not in ("PENDING", "APPROVED")


def action_stand(db: Tx, action_id: str) -> ActionStand | None:
    """An action's current state."""
    row = db.execute(
        "SELECT action_id, status, worker, next_attempt_at, result_json, rejection_reason FROM proposed_actions"
        " WHERE action_id = ?",
        (action_id,),
    ).fetchone()
    if row is None:
        return None
    return ActionStand(
        action_id=row[0],
        status=msgspec.convert(row[1], Status),
        worker=row[2],
        next_attempt_at=row[3],
        result=None if row[4] is None else _RESULT.decode(row[4]),
        reason=row[5] or "",
    )


def action_is_told(db: Tx, thread_id: str, action_id: str) -> bool:
    """Whether the outcome of an action was posted to its thread."""
    row = db.execute(
        "SELECT 1 FROM messages WHERE thread_id = ? AND action_id = ? LIMIT 1", (thread_id, action_id)
    ).fetchone()
    return row is not None
