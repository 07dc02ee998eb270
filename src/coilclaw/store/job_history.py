"""What jobs did: their actions and states, receipts, artifacts, messages."""

import msgspec

from coilclaw.packets.action import RUNNING, Label, Status, ToolResult
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import StorageError
from coilclaw.packets.forge import PullState
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.store.jobs import JobRow
from coilclaw.store.threads import ARTIFACT_BYTES, turn_messages
from coilclaw.store.tx import Tx

_RESULT = msgspec.json.Decoder(ToolResult)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an action, as its job needs to know it."""

    action_id: str
    tool: str
    status: Status
    begun: bool
    """Its effect may have started."""
    held: bool
    """It is claimed."""
    result: ToolResult | None
    rejection_reason: str | None

    @property
    def running(self) -> bool:
        """It runs in the background, and its caller has continued."""
        known = self.begun and self.held and not self.ended and self.result is not None
        return known and self.result is not None and self.result.code == RUNNING

    @property
    def ended(self) -> bool:
        """Nothing more will happen to it automatically."""
        return self.status not in ("PENDING", "APPROVED")


def standing_of(db: Tx, turn_id: str) -> dict[str, Standing]:
    """Every action of a turn by its id, in the order they were proposed."""
    rows = db.execute(
        "SELECT action_id, tool, status, begun_at, worker, result_json, rejection_reason FROM proposed_actions"
        " WHERE turn_id = ? ORDER BY rowid",
        (turn_id,),
    ).fetchall()
    return {
        row[0]: Standing(
            action_id=row[0],
            tool=row[1],
            status=msgspec.convert(row[2], Status),
            begun=row[3] is not None,
            held=row[4] is not None,
            result=_result(row[5]),
            rejection_reason=row[6],
        )
        for row in rows
    }


def _result(text: str | None) -> ToolResult | None:
    """An unreadable result is ignored; the action's state is known without it."""
    try:
        return None if text is None else _RESULT.decode(text)
    except msgspec.DecodeError:
        return None


_FRESH = "CASE WHEN json_valid({0}) THEN json_extract({0}, '$.fresh') END"


def brought_in(db: Tx, thread_id: str, turn_id: str) -> list[tuple[Label, bool]]:
    """The labels that a turn's calls brought in, and whether each is fresh in that turn.

    If that is not recorded, it is: an unreadable row, or one of an earlier version.
    """
    rows = db.execute(
        f"SELECT label, {_FRESH.format('metadata_json')} FROM messages"  # noqa: S608
        " WHERE thread_id = ? AND turn_id = ? AND role = 'tool'"
        " UNION SELECT CASE WHEN json_valid(result_json) THEN json_extract(result_json, '$.label') END,"
        f" {_FRESH.format('result_json')} FROM proposed_actions WHERE turn_id = ? AND result_json IS NOT NULL",
        (thread_id, turn_id, turn_id),
    ).fetchall()
    return [("" if label is None else str(label), fresh is None or bool(fresh)) for label, fresh in rows]


def told_actions(db: Tx, thread_id: str, turn_id: str) -> set[str]:
    """Actions of a turn whose outcome was posted to its thread after waiting."""
    rows = db.execute(
        "SELECT action_id FROM messages WHERE thread_id = ? AND turn_id = ? AND role = 'system'"
        " AND action_id IS NOT NULL",
        (thread_id, turn_id),
    )
    return {row[0] for row in rows}


# Results


class JobArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact of a job, without its bytes."""

    artifact_id: str
    name: str
    kind: str
    sha256: str
    size: int
    label: Label
    created_at: str


def job_artifacts(db: Tx, job_id: str) -> list[JobArtifact]:
    """The artifacts of a job, oldest first."""
    rows = db.execute(
        "SELECT artifact_id, name, type, content_hash, length(blob), label, created_at FROM artifacts WHERE job_id = ?"
        " ORDER BY created_at, artifact_id",
        (job_id,),
    ).fetchall()
    return [
        JobArtifact(
            artifact_id=row[0],
            name=row[1],
            kind=row[2],
            sha256=row[3] or _hash_of(db, row[0]),
            size=int(row[4]),
            label=row[5],
            created_at=row[6],
        )
        for row in rows
    ]


def _hash_of(db: Tx, artifact_id: str) -> str:
    row = db.execute("SELECT blob FROM artifacts WHERE artifact_id = ?", (artifact_id,)).fetchone()
    return sha256_hex(row[0])


def add_job_artifact(tx: Tx, clock: Clock, job: JobRow, *, kind: str, name: str, content: bytes, label: Label) -> str:
    """Store an artifact of a job; returns its id."""
    if len(content) > ARTIFACT_BYTES:
        raise StorageError(f"an artifact of {len(content)} bytes; at most {ARTIFACT_BYTES} are allowed.")
    now = clock()
    artifact_id = new_id("art", now)
    tx.execute(
        "INSERT INTO artifacts (artifact_id, job_id, thread_id, type, name, content_hash, blob, label, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (artifact_id, job.job_id, job.thread_id, kind, name, sha256_hex(content), content, label, stamp(now)),
    )
    return artifact_id


def artifact_bytes(db: Tx, artifact_id: str) -> bytes | None:
    """An artifact's bytes."""
    row = db.execute("SELECT blob FROM artifacts WHERE artifact_id = ?", (artifact_id,)).fetchone()
    return None if row is None else bytes(row[0])


class ActionReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt of one of a turn's actions, as in a manifest."""

    id: str
    receipt_hash: str
    tool: str
    status: str


def turn_receipts(db: Tx, turn_id: str, limit: int) -> list[ActionReceipt]:
    """The receipts of a turn's actions, in the ledger's order."""
    rows = db.execute(
        "SELECT r.line FROM proposed_actions a JOIN receipts r ON r.action_id = a.action_id WHERE a.turn_id = ?"
        " ORDER BY r.seq LIMIT ?",
        (turn_id, limit),
    ).fetchall()
    return [_RECEIPT.decode(row[0]) for row in rows]


_RECEIPT = msgspec.json.Decoder(ActionReceipt)


def count_messages(db: Tx, thread_id: str, turn_id: str) -> int:
    """The number of messages of a turn in its thread."""
    row = db.execute(
        "SELECT count(*) FROM messages WHERE thread_id = ? AND turn_id = ?", (thread_id, turn_id)
    ).fetchone()
    return int(row[0])


def last_answer(db: Tx, job: JobRow) -> str:
    """The model's last message in a job without a call."""
    for message in reversed(turn_messages(db, job.thread_id, job.turn_id, 50)):
        if message.role == "assistant" and not message.tool_calls and not message.metadata.get("told"):
            return message.content
    return ""


def ended_jobs(db: Tx) -> list[tuple[str, str, str]]:
    """Every job that is over, the oldest first: its id, how it ended, and when it was made."""
    rows = db.execute(
        "SELECT job_id, state, created_at FROM jobs"
        " WHERE state IN ('DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT') ORDER BY created_at, job_id"
    )
    return [(str(job_id), str(state), str(created)) for job_id, state, created in rows]


class JobPull(msgspec.Struct, frozen=True, kw_only=True):
    """The pull request that a job ended in."""

    number: int
    state: PullState


def pull_named(db: Tx, job_id: str) -> JobPull | None:
    """The pull request of a job; None when it has none."""
    row = db.execute("SELECT number, state FROM pull_requests WHERE job_id = ?", (job_id,)).fetchone()
    return None if row is None else JobPull(number=row[0], state=row[1])


def sessions_named(db: Tx, *, thread_id: str = "", job_id: str = "") -> list[tuple[str, str]]:
    """The newest coding sessions of a conversation or a job: their ids and states."""
    rows = db.execute(
        "SELECT session_id, state FROM coding_sessions WHERE (? <> '' AND json_extract(spec_json, '$.thread_id') = ?)"
        " OR (? <> '' AND json_extract(spec_json, '$.job_id') = ?) ORDER BY session_id DESC LIMIT 20",
        (thread_id, thread_id, job_id, job_id),
    )
    return [(row[0], row[1]) for row in rows]
