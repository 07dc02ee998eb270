"""Retention: which rows are past their time, and their deletion in small transactions.

Rows that are still needed stay, however old: everything around an open action, an unfinished job, a message that
stays. Receipts, actions, jobs and usage are never touched.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from coilclaw.packets.ids import stamp
from coilclaw.store.database import Database
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.read_connection import reading_apart
from coilclaw.store.tx import Tx

BATCH = 500
"""How many rows to delete per transaction, so that nobody waits long for the writer."""


class Days(msgspec.Struct, frozen=True, kw_only=True):
    """How many days data is kept; 0 means for ever."""

    audit: int
    messages: int
    artifacts: int
    idempotency: int


class Cutoffs(msgspec.Struct, frozen=True, kw_only=True):
    """Older rows are deleted; None: none are."""

    now: str
    audit: str | None
    messages: str | None
    artifacts: str | None
    idempotency: str | None


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows were deleted, or would be."""

    audit: int = 0
    messages: int = 0
    threads: int = 0
    artifacts: int = 0
    idempotency: int = 0
    step_outputs: int = 0
    """Outputs of SOP steps; the steps themselves and the hashes of their outputs stay."""
    schedule_runs: int = 0
    auth_tokens: int = 0
    requests: int = 0
    """Stored responses of requests with an Idempotency-Key."""
    challenges: int = 0
    pairing_codes: int = 0


def cutoffs(days: Days, now: datetime) -> Cutoffs:
    """The cutoff of each kind."""

    def before(count: int) -> str | None:
        return stamp(now - timedelta(days=count)) if count else None

    return Cutoffs(
        now=stamp(now),
        audit=before(days.audit),
        messages=before(days.messages),
        artifacts=before(days.artifacts),
        idempotency=before(days.idempotency),
    )


# An UNKNOWN action waits for the owner to resolve it.
_OPEN_ACTION = "p.status IN ('PENDING', 'APPROVED', 'UNKNOWN')"
_OPEN_JOB = "j.state NOT IN ('DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT')"

_OPEN_THREADS = f"""
SELECT p.thread_id FROM proposed_actions p WHERE {_OPEN_ACTION}
UNION SELECT j.thread_id FROM jobs j WHERE {_OPEN_JOB}
UNION SELECT r.thread_id FROM sop_runs r WHERE r.state IN ('RUNNING', 'WAITING')
"""  # noqa: S608

# Audit


_AUDIT_GOES = f"""
    NOT EXISTS (SELECT 1 FROM proposed_actions p WHERE p.action_id = audit_log.entity_id AND {_OPEN_ACTION})
    AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = audit_log.entity_id AND {_OPEN_JOB})
    AND NOT (event_type IN ('skill_used', 'skill_none') AND (
        EXISTS (SELECT 1 FROM proposed_actions p WHERE p.turn_id = audit_log.entity_id AND {_OPEN_ACTION})
        OR EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = 'job_' || substr(audit_log.entity_id, 6) AND {_OPEN_JOB})
        OR EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = audit_log.entity_id
            AND t.state IN ('QUEUED', 'RUNNING', 'WAITING'))))
"""  # noqa: S608


def old_audit(db: Tx, before: str | None) -> Iterator[tuple[int, str, str, str, str, str]]:
    """Audit rows to delete, in order: number, id, type, entity, payload, time. Read a page at a time."""
    if before is None:
        return
    last = db.execute("SELECT max(seq) FROM audit_log WHERE created_at < ?", (before,)).fetchone()[0]
    seq = 0
    while last is not None:
        rows = db.execute(
            "SELECT seq, entry_id, event_type, entity_id, payload_json, created_at FROM audit_log"  # noqa: S608
            f" WHERE seq > ? AND seq <= ? AND +created_at < ? AND {_AUDIT_GOES} ORDER BY seq LIMIT ?",
            (seq, last, before, BATCH),
        ).fetchall()
        yield from rows
        if len(rows) < BATCH:
            return
        seq = rows[-1][0]


Taken = tuple[int, str, bytes | None, bytes | None]
"""A deleted audit row: its number, entity, state and link."""


def delete_audit(db: Database, numbers: Sequence[int], forget: Callable[[Tx, list[Taken]], None]) -> int:
    """Delete exactly these audit rows, unless one is needed again. Returns how many were deleted.

    Deleted rows are passed to `forget`, in the same transaction.
    """

    def delete(tx: Tx, chosen: list[int]) -> int:
        taken = tx.execute(
            f"DELETE FROM audit_log WHERE seq IN (SELECT value FROM json_each(?)) AND {_AUDIT_GOES}"  # noqa: S608
            " RETURNING seq, entity_id, state, link",
            (str(chosen),),
        ).fetchall()
        forget(tx, taken)
        return len(taken)

    gone = 0
    for start in range(0, len(numbers), BATCH):
        chosen = list(numbers[start : start + BATCH])
        gone += db.write_now(lambda tx, chosen=chosen: delete(tx, chosen))
    return gone


# Messages
#
# Later messages may depend on what others wrote earlier, so while a conversation is active, what is not the owner's
# or our own stays: its label is how the conversation is known to be tainted. A conversation that has been silent
# for the whole retention period is deleted as a whole.

_PRUNED_AT = "pruned_at"
_TRUSTED = "m.label IN ('owner', 'internal')"
_MESSAGE_GOES = f"""
    m.created_at < :before AND m.thread_id NOT IN ({_OPEN_THREADS})
    AND ({_TRUSTED} OR (SELECT t.updated_at FROM threads t WHERE t.thread_id = m.thread_id) < :before)
"""  # noqa: S608
_SILENT = f"t.updated_at < :before AND t.thread_id NOT IN ({_OPEN_THREADS})"
_EMPTY = """
    NOT EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = t.thread_id)
    AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.thread_id = t.thread_id)
"""


def _count_messages(db: Tx, before: str) -> tuple[int, int]:
    named = {"before": before}
    messages = db.execute(f"SELECT count(*) FROM messages m WHERE {_MESSAGE_GOES}", named)  # noqa: S608
    threads = db.execute(
        f"SELECT count(*) FROM threads t WHERE {_SILENT}"  # noqa: S608
        " AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.thread_id = t.thread_id)",
        named,
    )
    return int(messages.fetchone()[0]), int(threads.fetchone()[0])


def _delete_messages(db: Database, reader: Tx, before: str) -> tuple[int, int]:
    """The owner's and our own first, then the rest of silent conversations: never a message before its source."""
    gone, place = 0, ("", 0)
    while True:
        rows = reader.execute(
            f"SELECT m.created_at, m.seq FROM messages m WHERE {_MESSAGE_GOES} AND {_TRUSTED}"  # noqa: S608
            " AND m.created_at >= :when AND (m.created_at, m.seq) > (:when, :seq)"
            " ORDER BY m.created_at, m.seq LIMIT :most",
            {"before": before, "when": place[0], "seq": place[1], "most": BATCH},
        ).fetchall()
        if not rows:
            break
        place = rows[-1]
        gone += db.write_now(lambda tx, rows=rows: _delete_numbered(tx, [row[1] for row in rows], before))
    silent = reader.execute(f"SELECT t.thread_id FROM threads t WHERE {_SILENT}", {"before": before})  # noqa: S608
    threads = 0
    for (thread_id,) in silent.fetchall():
        while count := db.write_now(lambda tx, thread_id=thread_id: _delete_of_thread(tx, thread_id, before)):
            gone += count
        threads += db.write_now(
            lambda tx, thread_id=thread_id: (
                tx.execute(
                    f"DELETE FROM threads AS t WHERE t.thread_id = :thread AND {_SILENT} AND {_EMPTY}",  # noqa: S608
                    {"thread": thread_id, "before": before},
                ).rowcount
            )
        )
    return gone, threads


def _delete_numbered(tx: Tx, numbers: list[int], before: str) -> int:
    return tx.execute(
        "DELETE FROM messages AS m WHERE m.seq IN (SELECT value FROM json_each(:numbers))"  # noqa: S608
        f" AND {_MESSAGE_GOES}",
        {"numbers": str(numbers), "before": before},
    ).rowcount


def _delete_of_thread(tx: Tx, thread_id: str, before: str) -> int:
    """A batch of a silent conversation; nothing if it became active again."""
    return tx.execute(
        "DELETE FROM messages WHERE seq IN (SELECT m.seq FROM messages m JOIN threads t USING (thread_id)"  # noqa: S608
        f" WHERE m.thread_id = :thread AND {_SILENT} ORDER BY m.seq LIMIT :most)",
        {"thread": thread_id, "before": before, "most": BATCH},
    ).rowcount


# Artifacts


def _old_artifacts(db: Tx, before: str, messages_before: str | None) -> list[str]:
    """Artifacts to delete: old, not of a job (whose evidence names them), and not referenced by anything that stays."""
    kept = {
        row[0]
        for row in db.execute(
            "SELECT m.artifact_id FROM messages m WHERE m.artifact_id IS NOT NULL"  # noqa: S608
            f" AND NOT coalesce(({_MESSAGE_GOES}), 0)",
            {"before": messages_before or ""},
        )
    }
    found = db.execute(
        "SELECT artifact_id FROM artifacts WHERE created_at < ? AND job_id IS NULL"  # noqa: S608
        f" AND (thread_id IS NULL OR thread_id NOT IN ({_OPEN_THREADS})) ORDER BY created_at",
        (before,),
    )
    return [row[0] for row in found if row[0] not in kept]


def _delete_artifacts(db: Database, chosen: list[str]) -> int:
    gone = 0
    for start in range(0, len(chosen), BATCH // 10):  # each may be 2 MB
        ids = msgspec.json.encode(chosen[start : start + BATCH // 10]).decode()
        gone += db.write_now(
            lambda tx, ids=ids: (
                tx.execute(
                    "DELETE FROM artifacts WHERE job_id IS NULL AND artifact_id IN (SELECT value FROM json_each(?))",
                    (ids,),
                ).rowcount
            )
        )
    return gone


# Keys and tokens

_KEY_GOES = f"""
    i.created_at < ? AND NOT EXISTS (
        SELECT 1 FROM proposed_actions p
        WHERE p.user_id = i.owner_id AND p.tool = i.tool_name AND p.idempotency_key = i.key AND {_OPEN_ACTION}
    )
"""  # noqa: S608
_OUTPUT_GOES = """
    s.output <> '' AND coalesce(s.ended_at, s.started_at) < ?
    AND s.run_id IN (SELECT r.run_id FROM sop_runs r WHERE r.state IN ('DONE', 'FAILED'))
"""
_RUN_GOES = "state IN ('ENDED', 'SKIPPED') AND created_at < ?"
_TOKEN_GOES = "expires_at <= ?"  # noqa: S105 - a rule, not a token
_REQUEST_GOES = "created_at < ?"
_OVER = "expires_at <= ?"
"""Challenges and pairing codes last minutes; the audit has their outcomes."""


def _delete_repeatedly(db: Database, statement: str, before: str) -> int:
    gone = 0
    while count := db.write_now(lambda tx: tx.execute(statement, (before, BATCH)).rowcount):
        gone += count
    return gone


def count_rows(db: Tx, cut: Cutoffs) -> Gone:
    """How many rows would be deleted now."""
    messages, threads = _count_messages(db, cut.messages) if cut.messages else (0, 0)
    artifacts = len(_old_artifacts(db, cut.artifacts, cut.messages)) if cut.artifacts else 0
    audit = db.execute(
        f"SELECT count(*) FROM audit_log WHERE created_at < ? AND {_AUDIT_GOES}",  # noqa: S608
        (cut.audit or "",),
    )
    keys = db.execute(f"SELECT count(*) FROM idempotency i WHERE {_KEY_GOES}", (cut.idempotency or "",))  # noqa: S608
    tokens = db.execute(f"SELECT count(*) FROM auth_tokens WHERE {_TOKEN_GOES}", (cut.now,))  # noqa: S608
    outputs = db.execute(f"SELECT count(*) FROM sop_steps s WHERE {_OUTPUT_GOES}", (cut.messages or "",))  # noqa: S608
    runs = db.execute(f"SELECT count(*) FROM schedule_runs WHERE {_RUN_GOES}", (cut.audit or "",))  # noqa: S608
    requests = db.execute(f"SELECT count(*) FROM requests WHERE {_REQUEST_GOES}", (cut.idempotency or "",))  # noqa: S608
    challenges = db.execute(f"SELECT count(*) FROM challenges WHERE {_OVER}", (cut.now,))  # noqa: S608
    codes = db.execute(f"SELECT count(*) FROM pairing_codes WHERE {_OVER}", (cut.now,))  # noqa: S608
    return Gone(
        audit=int(audit.fetchone()[0]),
        messages=messages,
        threads=threads,
        artifacts=artifacts,
        idempotency=int(keys.fetchone()[0]),
        step_outputs=int(outputs.fetchone()[0]),
        schedule_runs=int(runs.fetchone()[0]),
        auth_tokens=int(tokens.fetchone()[0]),
        requests=int(requests.fetchone()[0]),
        challenges=int(challenges.fetchone()[0]),
        pairing_codes=int(codes.fetchone()[0]),
    )


def delete_rows(db: Database, cut: Cutoffs) -> Gone:
    """Delete everything but audit rows, which must be exported first."""
    with reading_apart(db.path) as reader:
        messages, threads = _delete_messages(db, reader, cut.messages) if cut.messages else (0, 0)
        chosen = _old_artifacts(reader, cut.artifacts, cut.messages) if cut.artifacts else []
    artifacts = _delete_artifacts(db, chosen)
    keys = (
        "DELETE FROM idempotency WHERE (owner_id, tool_name, key) IN"  # noqa: S608
        f" (SELECT i.owner_id, i.tool_name, i.key FROM idempotency i WHERE {_KEY_GOES} LIMIT ?)"
    )
    tokens = (
        "DELETE FROM auth_tokens WHERE token_id IN"  # noqa: S608
        f" (SELECT token_id FROM auth_tokens WHERE {_TOKEN_GOES} LIMIT ?)"
    )
    outputs = (
        "UPDATE sop_steps SET output = '' WHERE (run_id, step_id) IN"  # noqa: S608
        f" (SELECT s.run_id, s.step_id FROM sop_steps s WHERE {_OUTPUT_GOES} LIMIT ?)"
    )
    runs = (
        "DELETE FROM schedule_runs WHERE run_instance_id IN"  # noqa: S608
        f" (SELECT run_instance_id FROM schedule_runs WHERE {_RUN_GOES} LIMIT ?)"
    )
    return Gone(
        messages=messages,
        threads=threads,
        artifacts=artifacts,
        idempotency=_delete_repeatedly(db, keys, cut.idempotency) if cut.idempotency else 0,
        step_outputs=_delete_repeatedly(db, outputs, cut.messages) if cut.messages else 0,
        schedule_runs=_delete_repeatedly(db, runs, cut.audit) if cut.audit else 0,
        auth_tokens=_delete_repeatedly(db, tokens, cut.now),
        requests=_delete_requests(db, cut.idempotency) if cut.idempotency else 0,
        challenges=_delete_over(db, "challenges", "challenge_id", cut.now),
        pairing_codes=_delete_over(db, "pairing_codes", "code_id", cut.now),
    )


def _delete_requests(db: Database, before: str) -> int:
    statement = (
        "DELETE FROM requests WHERE (device_id, key) IN"  # noqa: S608
        f" (SELECT device_id, key FROM requests WHERE {_REQUEST_GOES} LIMIT ?)"
    )
    return _delete_repeatedly(db, statement, before)


_SHORT_LIVED = ("auth_tokens", "challenges", "pairing_codes")


def any_expired(db: Tx, now: str) -> bool:
    """Whether a token, a challenge or a pairing code has expired; read-only."""
    return any(
        db.execute(f"SELECT 1 FROM {table} WHERE {_OVER} LIMIT 1", (now,)).fetchone() is not None  # noqa: S608
        for table in _SHORT_LIVED
    )


def forget_expired(tx: Tx, now: str) -> int:
    """Delete every expired token, challenge and pairing code; returns how many."""
    return sum(tx.execute(f"DELETE FROM {table} WHERE {_OVER}", (now,)).rowcount for table in _SHORT_LIVED)  # noqa: S608


def _delete_over(db: Database, table: str, key: str, now: str) -> int:
    statement = f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {_OVER} LIMIT ?)"  # noqa: S608
    return _delete_repeatedly(db, statement, now)


# The last time


def pruned_at(db: Tx) -> str | None:
    """When pruning last completed."""
    return read_meta(db, _PRUNED_AT)


def set_pruned_at(tx: Tx, when: str) -> None:
    """Record when pruning completed."""
    write_meta(tx, _PRUNED_AT, when)
