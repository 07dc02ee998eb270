"""Action rows: proposed once, claimed once, finished once."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import msgspec

from coilclaw.packets.action import Action, Identity, Source, Status, ToolCall, ToolResult
from coilclaw.packets.decision import Decision
from coilclaw.packets.errors import RowDamaged
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.threads import OWNER_ID
from coilclaw.store.tx import Tx

_COLUMNS = (
    "action_id, thread_id, turn_id, source, source_id, tool, identity, args_json, call_id, justification,"
    " idempotency_key, digest, taint_json, decision_json, status, attempt, expires_at, created_at, rejection_reason,"
    " job_id, approved_by, uncertain, expected_json"
)
_SELECTED = f"{_COLUMNS}, begun_at"
_INSERT = (
    f"INSERT INTO proposed_actions ({_COLUMNS}, user_id, args_hash, risk_class, lane, updated_at, worker)"  # noqa: S608
    f" VALUES ({', '.join('?' * 29)})"
)
TOO_MUCH = ("RATE_LIMITED", "TOO_MANY_PROPOSALS")
AHEAD = timedelta(minutes=5)
"""How far in the future a row's time may be and still count: clocks are corrected, rows are not."""
_DECISION = msgspec.json.Decoder(Decision)
_NAMES = msgspec.json.Decoder(tuple[str, ...])
_RESULT = msgspec.json.Decoder(ToolResult)


def add_action(tx: Tx, clock: Clock, action: Action, worker: str) -> None:
    """Store a new action, claimed by the worker that will execute it."""
    tx.execute(
        _INSERT,
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
            action.job_id,
            action.approved_by,
            int(action.uncertain),
            msgspec.json.encode(action.call.expected_outputs).decode() if action.call.expected_outputs else None,
            OWNER_ID,
            action.call.args_hash,
            action.decision.risk_class,
            action.decision.lane,
            stamp(clock()),
            worker,
        ),
    )


def _action(row: tuple[str, ...]) -> Action:
    try:
        return _decoded(row)
    except (msgspec.DecodeError, ValueError, TypeError, AttributeError) as error:
        raise RowDamaged(
            f"the row of action {row[0]} cannot be read ({type(error).__name__}).",
            remedy="It was damaged, or written by another version; other actions are not affected.",
        ) from error


def _readable(rows: list[tuple[str, ...]]) -> list[Action]:
    """The actions of these rows; an unreadable one must not stop the others."""
    found: list[Action] = []
    for row in rows:
        with suppress(RowDamaged):
            found.append(_action(row))
    return found


def _decoded(row: tuple[str, ...]) -> Action:
    call = ToolCall(
        tool=row[5],
        identity=msgspec.convert(row[6], Identity | None),
        args=msgspec.Raw(row[7].encode("utf-8")),
        call_id=row[8],
        justification=row[9] or "",
        expected_outputs=_NAMES.decode(row[22]) if row[22] else (),
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
        taint=_NAMES.decode(row[12]),
        decision=_DECISION.decode(row[13]),
        status=msgspec.convert(row[14], Status),
        attempt=int(row[15]),
        expires_at=row[16],
        created_at=row[17],
        rejection_reason=row[18],
        job_id=row[19],
        approved_by=row[20],
        uncertain=bool(row[21]),
        begun=bool(row[23]),
    )


def load_action(db: Tx, action_id: str) -> Action | None:
    """One action by id."""
    row = db.execute(
        f"SELECT {_SELECTED} FROM proposed_actions WHERE action_id = ?",  # noqa: S608
        (action_id,),
    ).fetchone()
    return None if row is None else _action(row)


def action_with_key(db: Tx, tool: str, key: str) -> Action | None:
    """The action that already carries this idempotency key, if any."""
    row = db.execute(
        f"SELECT {_SELECTED} FROM proposed_actions WHERE user_id = ? AND tool = ? AND idempotency_key = ?",  # noqa: S608
        (OWNER_ID, tool, key),
    ).fetchone()
    return None if row is None else _action(row)


def list_actions(db: Tx, status: Status | None, limit: int) -> list[Action]:
    """Actions, newest first, of one status or all."""
    rows = db.execute(
        f"SELECT {_SELECTED} FROM proposed_actions WHERE ? IS NULL OR status = ?"  # noqa: S608
        " ORDER BY created_at DESC, rowid DESC LIMIT ?",
        (status, status, limit),
    ).fetchall()
    return _readable(rows)


_COUNTED = """
WITH place (number) AS (
  SELECT coalesce(
    (SELECT rowid FROM proposed_actions WHERE action_id = ?),
    (SELECT coalesce(max(rowid), 0) + 1 FROM proposed_actions)
  )
)
SELECT
  number,
  (SELECT rowid FROM proposed_actions WHERE created_at > ? ORDER BY created_at LIMIT 1),
  (SELECT count(*) FROM proposed_actions WHERE status = 'PENDING' AND worker IS NULL AND rowid < number)
FROM place
"""


def count_actions(db: Tx, clock: Clock, before: str, limit: int, local: Sequence[str]) -> tuple[int, int]:
    """How many earlier actions were proposed in the last minute, and how many are pending.

    Rate-limited refusals are not counted, or a persistent model would block everyone for ever; nor
    are the owner's own actions, reads by `local` tools in a conversation, what coding sessions ask, and those stored
    under a fast clock. Rows are numbered in order, so the first number of the last minute gives an upper bound; rows
    are examined only if it reaches `limit`.
    """
    now = clock()
    since = stamp(now - timedelta(seconds=60))
    place, first, waiting = db.execute(_COUNTED, (before, since)).fetchone()
    recent = max(0, int(place) - int(first)) if first is not None else 0
    if recent >= limit:
        recent = db.execute(
            "SELECT count(*) FROM proposed_actions INDEXED BY actions_created WHERE created_at > ? AND created_at <= ?"
            " AND rowid < ? AND source != 'gateway' AND NOT (source = 'session' AND tool GLOB 'session_*')"
            " AND coalesce(rejection_reason, '') NOT IN (?, ?)"
            " AND NOT (source = 'chat' AND json_extract(decision_json, '$.risk') = 'R0'"
            " AND tool IN (SELECT value FROM json_each(?)))",
            (since, stamp(now + AHEAD), place, *TOO_MUCH, msgspec.json.encode(local).decode()),
        ).fetchone()[0]
    return int(recent), int(waiting)


def count_asked_reads(db: Tx, turn_id: str, before: str) -> int:
    """How many earlier actions of a turn asked to read in an account."""
    rows = db.execute(
        "SELECT count(*) FROM proposed_actions WHERE turn_id = ? AND action_id < ? AND identity IS NOT NULL"
        " AND CASE WHEN json_valid(decision_json) THEN json_extract(decision_json, '$.verdict') = 'ask'"
        " AND json_extract(decision_json, '$.risk_class') = 'READ' END",
        (turn_id, before),
    )
    return int(rows.fetchone()[0])


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """An action claimed by a worker, without a recorded outcome."""

    action: Action
    worker: str
    begun_at: str | None
    """When its effect may have started; None if it cannot have."""


def held_actions(db: Tx) -> list[Held]:
    """Every claimed action."""
    rows = db.execute(
        f"SELECT {_SELECTED}, worker FROM proposed_actions"  # noqa: S608
        " WHERE status IN ('PENDING', 'APPROVED') AND worker IS NOT NULL"
    ).fetchall()
    found: list[Held] = []
    for row in rows:
        with suppress(RowDamaged):  # an unreadable one must not stop the others
            found.append(Held(action=_action(row[:-1]), worker=row[-1], begun_at=row[-2]))
    return found


def waiting_actions(db: Tx, limit: int, *, expired_at: str | None = None) -> list[Action]:
    """Pending, unclaimed actions, newest first; or only those expired by then."""
    rows = db.execute(
        f"SELECT {_SELECTED} FROM proposed_actions WHERE status = 'PENDING' AND worker IS NULL"  # noqa: S608
        " AND (? IS NULL OR expires_at <= ?) ORDER BY created_at DESC, rowid DESC LIMIT ?",
        (expired_at, expired_at, limit),
    ).fetchall()
    return _readable(rows)


def due_actions(db: Tx, now: str, never_after: str, limit: int) -> list[Action]:
    """Approved, unclaimed actions that are due, oldest first.

    A time after `never_after` can only come from a fast clock, and counts as due.
    """
    rows = db.execute(
        f"SELECT {_SELECTED} FROM proposed_actions WHERE status = 'APPROVED' AND worker IS NULL"  # noqa: S608
        " AND (next_attempt_at IS NULL OR next_attempt_at <= ? OR next_attempt_at > ?)"
        " ORDER BY created_at, rowid LIMIT ?",
        (now, never_after, limit),
    ).fetchall()
    return _readable(rows)


def let_go(tx: Tx, action_id: str, digest: str) -> bool:
    """Release an action to wait for the owner, as it will be shown. False if it was answered."""
    changed = tx.execute(
        "UPDATE proposed_actions SET worker = NULL, digest = ? WHERE action_id = ? AND status = 'PENDING'",
        (digest, action_id),
    )
    return changed.rowcount == 1


def approve_action(tx: Tx, clock: Clock, action: Action, by: str) -> bool:
    """Record the owner's approval of exactly this digest; False if it was answered, has ended or is claimed."""
    now = stamp(clock())
    changed = tx.execute(
        "UPDATE proposed_actions SET status = 'APPROVED', approved_at = ?, approved_by = ?, updated_at = ?"
        " WHERE action_id = ? AND digest = ? AND status = 'PENDING' AND worker IS NULL AND expires_at > ?",
        (now, by, now, action.action_id, action.digest, now),
    )
    return changed.rowcount == 1


def begin_action(tx: Tx, clock: Clock, action: Action, worker: str) -> bool:
    """Claim the action for one attempt; False if it is already claimed or has ended."""
    now = stamp(clock())
    changed = tx.execute(
        "UPDATE proposed_actions SET status = 'APPROVED', attempt = attempt + 1, worker = ?, begun_at = ?,"
        " approved_at = coalesce(approved_at, CASE WHEN ? IS NULL THEN NULL ELSE ? END),"
        " approved_by = ?, digest = ?, decision_json = ?, taint_json = ?, updated_at = ?"
        " WHERE action_id = ? AND attempt = ? AND status = ? AND begun_at IS NULL"
        " AND (worker IS NULL OR status = 'PENDING')",
        (
            worker,
            now,
            action.approved_by,
            now,
            action.approved_by,
            action.digest,
            msgspec.json.encode(action.decision).decode(),
            msgspec.json.encode(action.taint).decode(),
            now,
            action.action_id,
            action.attempt,
            action.status,
        ),
    )
    return changed.rowcount == 1


def keep_running(tx: Tx, action: Action, result: ToolResult) -> None:
    """Store the interim result of a background action, until its outcome replaces it."""
    tx.execute(
        "UPDATE proposed_actions SET result_json = ? WHERE action_id = ?",
        (msgspec.json.encode(result).decode(), action.action_id),
    )


def put_off_action(
    tx: Tx, clock: Clock, action: Action, result: ToolResult, *, seconds: float, uncertain: bool
) -> bool:
    """Abandon an attempt for now: the action stays approved and is retried later."""
    now = clock()
    changed = tx.execute(
        "UPDATE proposed_actions SET status = 'APPROVED', worker = NULL, begun_at = NULL, next_attempt_at = ?,"
        " uncertain = ?, result_json = ?, updated_at = ? WHERE action_id = ? AND attempt = ? AND status = 'APPROVED'"
        " AND begun_at IS NOT NULL",
        (
            stamp(now + timedelta(seconds=seconds)),
            int(uncertain),
            msgspec.json.encode(result).decode(),
            stamp(now),
            action.action_id,
            action.attempt,
        ),
    )
    return changed.rowcount == 1


def reopen_action(tx: Tx, clock: Clock, action: Action, by: str, expires_at: str) -> bool:
    """Reopen an action with an unknown outcome, at the owner's request."""
    now = stamp(clock())
    changed = tx.execute(
        "UPDATE proposed_actions SET status = 'APPROVED', worker = NULL, begun_at = NULL, next_attempt_at = NULL,"
        " uncertain = 1, attempt = 0, approved_at = ?, approved_by = ?, expires_at = ?, updated_at = ?"
        " WHERE action_id = ? AND status = 'UNKNOWN'",
        (now, by, expires_at, now, action.action_id),
    )
    return changed.rowcount == 1


def finish_action(
    tx: Tx, clock: Clock, action: Action, status: Status, result: ToolResult, *, reason: str | None
) -> bool:
    """Write the outcome of an action; False if it changed since the caller read it."""
    changed = tx.execute(
        "UPDATE proposed_actions SET status = ?, result_json = ?, rejection_reason = ?, digest = ?, decision_json = ?,"
        " taint_json = ?, worker = NULL, updated_at = ? WHERE action_id = ? AND attempt = ? AND status = ?"
        " AND (status = 'UNKNOWN' OR (begun_at IS NOT NULL) = ?)",
        (
            status,
            msgspec.json.encode(result).decode(),
            reason,
            action.digest,
            msgspec.json.encode(action.decision).decode(),
            msgspec.json.encode(action.taint).decode(),
            stamp(clock()),
            action.action_id,
            action.attempt,
            action.status,
            int(action.begun),
        ),
    )
    return changed.rowcount == 1


def result_of(db: Tx, action_id: str) -> ToolResult | None:
    """The result of an action, or of its last attempt."""
    row = db.execute("SELECT result_json FROM proposed_actions WHERE action_id = ?", (action_id,)).fetchone()
    return None if row is None or row[0] is None else _RESULT.decode(row[0])


def end_codes(db: Tx, action_ids: Sequence[str]) -> dict[str, str]:
    """The codes these actions ended with, if readable."""
    marks = ", ".join("?" * len(action_ids))
    found: dict[str, str] = {}
    for action_id, text in db.execute(
        f"SELECT action_id, result_json FROM proposed_actions WHERE action_id IN ({marks})"  # noqa: S608
        " AND result_json IS NOT NULL AND status = 'REJECTED'",
        tuple(action_ids),
    ):
        with suppress(msgspec.DecodeError):
            found[action_id] = _RESULT.decode(text).code
    return found


def actions_of_turn(db: Tx, turn_id: str) -> list[Action]:
    """Everything a turn or job proposed, in order."""
    rows = db.execute(
        f"SELECT {_SELECTED} FROM proposed_actions WHERE turn_id = ? ORDER BY rowid",  # noqa: S608
        (turn_id,),
    ).fetchall()
    return _readable(rows)


def keep_key(tx: Tx, clock: Clock, action: Action) -> bool:
    """Bind an idempotency key to its arguments at the first execution; False if it is bound to others."""
    tx.execute(
        "INSERT INTO idempotency (owner_id, tool_name, key, args_hash, result_hash, created_at)"
        " VALUES (?, ?, ?, ?, '', ?) ON CONFLICT DO NOTHING",
        (OWNER_ID, action.call.tool, action.idempotency_key, action.call.args_hash, stamp(clock())),
    )
    return key_hash(tx, action.call.tool, action.idempotency_key) == action.call.args_hash


def key_hash(db: Tx, tool: str, key: str) -> str | None:
    """The hash of the arguments a key is bound to, if any."""
    row = db.execute(
        "SELECT args_hash FROM idempotency WHERE owner_id = ? AND tool_name = ? AND key = ?", (OWNER_ID, tool, key)
    ).fetchone()
    return None if row is None else str(row[0])


def keep_result_hash(tx: Tx, action: Action, result_hash: str) -> None:
    """Record the outcome of a key."""
    tx.execute(
        "UPDATE idempotency SET result_hash = ? WHERE owner_id = ? AND tool_name = ? AND key = ?",
        (result_hash, OWNER_ID, action.call.tool, action.idempotency_key),
    )


def keep_seen(tx: Tx, action_id: str, seen: str) -> None:
    """Record the content that an action would replace when it started to wait."""
    tx.execute("UPDATE proposed_actions SET seen_hash = ? WHERE action_id = ?", (seen, action_id))


def seen_hash(db: Tx, action_id: str) -> str:
    """The recorded content; empty if there is none."""
    row = db.execute("SELECT seen_hash FROM proposed_actions WHERE action_id = ?", (action_id,)).fetchone()
    return str(row[0]) if row is not None and row[0] else ""


STATE = (
    "action_id, user_id, thread_id, turn_id, source, source_id, tool, identity, args_json, args_hash, call_id,"
    " risk_class, lane, justification, idempotency_key, digest, taint_json, decision_json, status, rejection_reason,"
    " attempt, worker, begun_at, result_json, expires_at, created_at, updated_at, job_id, approved_at, approved_by,"
    " next_attempt_at, uncertain, seen_hash, expected_json"
)
"""The columns that make up an action's state, in order. A new column is added at the end and must be null in
earlier rows, where it does not count, so that recorded states stay valid."""
_FIRST = 33
"""How many columns count even if they are null."""


def state_of(row: Sequence[object]) -> bytes:
    """The hash of an action's row over the columns in STATE: it changes if any of them does."""
    told: list[bytes] = []
    for place, value in enumerate(row):
        if value is None:
            if place < _FIRST:
                told.append(b"n0:")
        elif isinstance(value, str):
            data = value.encode("utf-8", "surrogateescape")
            told.append(b"t%d:%b" % (len(data), data))
        elif isinstance(value, bytes):
            told.append(b"b%d:%b" % (len(value), value))
        else:
            data = repr(value).encode()
            told.append(b"i%d:%b" % (len(data), data))
    return hashlib.sha256(b"".join(told)).digest()


def action_state(db: Tx, action_id: str) -> bytes | None:
    """The current state of an action's row; None if there is none."""
    row = db.execute(f"SELECT {STATE} FROM proposed_actions WHERE action_id = ?", (action_id,)).fetchone()  # noqa: S608
    return None if row is None else state_of(row)


def recent_ids(db: Tx, limit: int) -> list[str]:
    """Ids of the newest actions, readable or not."""
    rows = db.execute("SELECT action_id FROM proposed_actions ORDER BY created_at DESC LIMIT ?", (limit,))
    return [row[0] for row in rows]


def keep_seal(tx: Tx, action_id: str, seal: bytes) -> None:
    """Store the seal that proves a finished action unchanged since its last event."""
    tx.execute("UPDATE proposed_actions SET seal = ? WHERE action_id = ?", (seal, action_id))


def select_actions(
    db: Tx, where: str, values: tuple[str | int, ...], limit: int
) -> list[tuple[Action | None, str, int]]:
    """Actions that match a trusted condition, newest first, each with its time and row; None if it is unreadable."""
    rows = db.execute(
        f"SELECT {_SELECTED}, rowid FROM proposed_actions WHERE {where}"  # noqa: S608
        " ORDER BY created_at DESC, rowid DESC LIMIT ?",
        (*values, limit),
    ).fetchall()
    return [(next(iter(_readable([row[:-1]])), None), row[17], row[-1]) for row in rows]
