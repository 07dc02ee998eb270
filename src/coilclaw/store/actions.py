"""Action rows: proposed once, claimed once, finished once."""

import sqlite3
from datetime import timedelta

import msgspec

from coilclaw.packets.action import Action, Identity, Source, Status, ToolCall, ToolResult
from coilclaw.packets.decision import Decision
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.threads import OWNER_ID

_COLUMNS = (
    "action_id, thread_id, turn_id, source, source_id, tool, identity, args_json, call_id, justification,"
    " idempotency_key, digest, taint_json, decision_json, status, attempt, expires_at, created_at, rejection_reason"
)
_DECISION = msgspec.json.Decoder(Decision)
_LABELS = msgspec.json.Decoder(tuple[str, ...])


def add_action(tx: sqlite3.Connection, clock: Clock, action: Action, worker: str) -> None:
    """Store a new action as it stands, in the hands of the worker that will carry it."""
    tx.execute(
        f"INSERT INTO proposed_actions ({_COLUMNS}, user_id, args_hash, risk_class, lane, updated_at, worker)"  # noqa: S608
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            action.action_id,
            action.thread_id,
            action.turn_id,
            action.source,
            action.source_id,
            action.call.tool,
            action.call.identity,
            action.call.args_bytes.decode("utf-8"),
            action.call.call_id,
            action.call.justification,
            action.idempotency_key,
            action.digest,
            msgspec.json.encode(action.taint).decode(),
            msgspec.json.encode(action.decision).decode(),
            action.status,
            action.attempt,
            action.expires_at,
            action.created_at,
            action.rejection_reason,
            OWNER_ID,
            action.call.args_hash,
            action.decision.risk_class,
            action.decision.lane,
            stamp(clock()),
            worker,
        ),
    )


def _action(row: tuple[str, ...]) -> Action:
    call = ToolCall(
        tool=row[5],
        identity=msgspec.convert(row[6], Identity | None),
        args=msgspec.Raw(row[7].encode("utf-8")),
        call_id=row[8],
        justification=row[9] or "",
    )
    return Action(
        action_id=row[0],
        thread_id=row[1],
        turn_id=row[2],
        source=msgspec.convert(row[3], Source),
        source_id=row[4],
        call=call,
        idempotency_key=row[10],
        digest=row[11],
        taint=_LABELS.decode(row[12]),
        decision=_DECISION.decode(row[13]),
        status=msgspec.convert(row[14], Status),
        attempt=int(row[15]),
        expires_at=row[16],
        created_at=row[17],
        rejection_reason=row[18],
    )


def load_action(db: sqlite3.Connection, action_id: str) -> Action | None:
    """One action by id."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM proposed_actions WHERE action_id = ?",  # noqa: S608
        (action_id,),
    ).fetchone()
    return None if row is None else _action(row)


def action_with_key(db: sqlite3.Connection, tool: str, key: str) -> Action | None:
    """The action that already carries this idempotency key, if any."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM proposed_actions WHERE user_id = ? AND tool = ? AND idempotency_key = ?",  # noqa: S608
        (OWNER_ID, tool, key),
    ).fetchone()
    return None if row is None else _action(row)


def list_actions(db: sqlite3.Connection, status: Status | None, limit: int) -> list[Action]:
    """Actions, newest first, of one status or all."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM proposed_actions WHERE ? IS NULL OR status = ?"  # noqa: S608
        " ORDER BY created_at DESC, rowid DESC LIMIT ?",
        (status, status, limit),
    ).fetchall()
    return [_action(row) for row in rows]


def count_actions(db: sqlite3.Connection, clock: Clock, before: str) -> tuple[int, int]:
    """How many actions stored before this one were made in the last minute, and how many wait for the owner."""
    since = stamp(clock() - timedelta(seconds=60))
    older = "rowid < coalesce((SELECT rowid FROM proposed_actions WHERE action_id = ?), 1 << 62)"
    recent = db.execute(
        f"SELECT count(*) FROM proposed_actions WHERE created_at > ? AND {older}",  # noqa: S608
        (since, before),
    ).fetchone()[0]
    waiting = db.execute(
        f"SELECT count(*) FROM proposed_actions WHERE status = 'PENDING' AND worker IS NULL AND {older}",  # noqa: S608
        (before,),
    ).fetchone()[0]
    return int(recent), int(waiting)


def held_actions(db: sqlite3.Connection) -> list[tuple[str, bool, Action]]:
    """Actions in the hands of a worker that have no end on record: the worker, whether they had begun, the action."""
    rows = db.execute(
        f"SELECT {_COLUMNS}, worker, begun_at FROM proposed_actions"  # noqa: S608
        " WHERE status IN ('PENDING', 'APPROVED') AND worker IS NOT NULL"
    ).fetchall()
    return [(str(row[-2]), row[-1] is not None, _action(row[:-2])) for row in rows]


def waiting_actions(db: sqlite3.Connection, limit: int) -> list[Action]:
    """Actions that wait for the owner and are in nobody's hands, newest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM proposed_actions WHERE status = 'PENDING' AND worker IS NULL"  # noqa: S608
        " ORDER BY created_at DESC, rowid DESC LIMIT ?",
        (limit,),
    ).fetchall()
    return [_action(row) for row in rows]


def let_go(tx: sqlite3.Connection, action_id: str) -> None:
    """Put an action in nobody's hands: it waits for the owner."""
    tx.execute("UPDATE proposed_actions SET worker = NULL WHERE action_id = ?", (action_id,))


def begin_action(tx: sqlite3.Connection, clock: Clock, action: Action, worker: str) -> bool:
    """Claim the action for one attempt; False when somebody else has it or it is over."""
    now = stamp(clock())
    changed = tx.execute(
        "UPDATE proposed_actions SET status = 'APPROVED', attempt = attempt + 1, worker = ?, begun_at = ?,"
        " decision_json = ?, taint_json = ?, updated_at = ?"
        " WHERE action_id = ? AND attempt = ? AND status IN ('PENDING', 'APPROVED') AND begun_at IS NULL",
        (
            worker,
            now,
            msgspec.json.encode(action.decision).decode(),
            msgspec.json.encode(action.taint).decode(),
            now,
            action.action_id,
            action.attempt,
        ),
    )
    return changed.rowcount == 1


def finish_action(
    tx: sqlite3.Connection, clock: Clock, action: Action, status: Status, result: ToolResult, *, reason: str | None
) -> bool:
    """Write the end of an action; False when an end is already on record."""
    changed = tx.execute(
        "UPDATE proposed_actions SET status = ?, result_json = ?, rejection_reason = ?, decision_json = ?,"
        " taint_json = ?, updated_at = ?"
        " WHERE action_id = ? AND status IN ('PENDING', 'APPROVED')",
        (
            status,
            msgspec.json.encode(result).decode(),
            reason,
            msgspec.json.encode(action.decision).decode(),
            msgspec.json.encode(action.taint).decode(),
            stamp(clock()),
            action.action_id,
        ),
    )
    return changed.rowcount == 1
