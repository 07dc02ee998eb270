"""Turns that outlive the request they came with: accepted, answered one at a time in each conversation, ended once."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.running import IS_RUNNING
from coilclaw.store.tx import Tx

TurnState: TypeAlias = Literal["QUEUED", "RUNNING", "WAITING", "ANSWERED", "FAILED", "STOPPED", "INTERRUPTED"]
OVER: frozenset[TurnState] = frozenset({"ANSWERED", "FAILED", "STOPPED", "INTERRUPTED"})
"""The states a turn never leaves."""
RESTS: frozenset[TurnState] = frozenset({"WAITING", *OVER})
"""The states in which nobody works on it; one that waits goes on when its calls have their outcomes."""


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as it stands."""

    turn_id: str
    thread_id: str
    message_id: str
    """The owner's message it answers."""
    state: TurnState
    ending: str = ""
    """How the answer came to its end: answered, pending, max_rounds, budget or stuck."""
    code: str = ""
    """Why it failed, in a word."""
    reason: str = ""
    worker: str | None = None
    """Whoever has it in hand; its lock is held for as long."""
    created_at: str = ""
    started_at: str | None = None
    ended_at: str | None = None


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn is over."""

    state: TurnState
    ending: str = ""
    code: str = ""
    reason: str = ""


_COLUMNS = "turn_id, thread_id, message_id, state, ending, code, reason, worker, created_at, started_at, ended_at"
_OPEN = "state IN ('QUEUED', 'RUNNING')"
_ANSWERED = (  # what goes on in the background has its answer
    "NOT EXISTS (SELECT 1 FROM proposed_actions a WHERE a.turn_id = turns.turn_id"  # noqa: S608
    f" AND a.status IN ('PENDING', 'APPROVED') AND NOT {IS_RUNNING})"
)
Gone: TypeAlias = Callable[[str], bool]
"""Whether the process of that name lives no more."""


def _row(row: tuple[str, ...]) -> TurnRow:
    return TurnRow(
        turn_id=row[0],
        thread_id=row[1],
        message_id=row[2],
        state=msgspec.convert(row[3], TurnState),
        ending=row[4],
        code=row[5],
        reason=row[6],
        worker=row[7],
        created_at=row[8],
        started_at=row[9],
        ended_at=row[10],
    )


def add_turn(tx: Tx, clock: Clock, turn: TurnRow) -> None:
    """Keep a turn that waits; its conversation must be there."""
    tx.execute(
        f"INSERT INTO turns ({_COLUMNS}) VALUES (?, ?, ?, 'QUEUED', '', '', '', ?, ?, NULL, NULL)",  # noqa: S608
        (turn.turn_id, turn.thread_id, turn.message_id, turn.worker, stamp(clock())),
    )


def add_running_turn(tx: Tx, clock: Clock, turn: TurnRow) -> None:
    """Keep a turn that whoever accepted it answers at once."""
    now = stamp(clock())
    tx.execute(
        f"INSERT INTO turns ({_COLUMNS}) VALUES (?, ?, ?, 'RUNNING', '', '', '', ?, ?, ?, NULL)",  # noqa: S608
        (turn.turn_id, turn.thread_id, turn.message_id, turn.worker, now, now),
    )


def load_turn(db: Tx, turn_id: str) -> TurnRow | None:
    """One turn by its id."""
    row = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE turn_id = ?", (turn_id,)).fetchone()  # noqa: S608
    return None if row is None else _row(row)


def open_turns(db: Tx) -> list[TurnRow]:
    """Every turn that waits or runs, in the order they were accepted."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE {_OPEN} ORDER BY rowid")  # noqa: S608
    return [_row(row) for row in rows.fetchall()]


def count_open(db: Tx, thread_id: str) -> tuple[int, int]:
    """How many turns wait or run: in one conversation, and in all."""
    row = db.execute(
        f"SELECT coalesce(sum(thread_id = ?), 0), count(*) FROM turns WHERE {_OPEN}",  # noqa: S608
        (thread_id,),
    ).fetchone()
    return int(row[0]), int(row[1])


def next_turn(db: Tx, worker: str, gone: Gone) -> TurnRow | None:
    """The turn that a worker may take up: its own or of a dead process, and the first of its conversation."""
    busy: set[str] = set()
    for turn in open_turns(db):
        mine = turn.worker is None or turn.worker == worker or gone(turn.worker)
        if turn.thread_id not in busy and turn.state == "QUEUED" and mine:
            return turn
        busy.add(turn.thread_id)
    return None


def begin_turn(tx: Tx, clock: Clock, turn: TurnRow, worker: str) -> bool:
    """Take a waiting turn in hand; False when somebody else did, or it was stopped."""
    return (
        tx.execute(
            "UPDATE turns SET state = 'RUNNING', worker = ?, started_at = ?"
            " WHERE turn_id = ? AND state = 'QUEUED' AND worker IS ?",
            (worker, stamp(clock()), turn.turn_id, turn.worker),
        ).rowcount
        == 1
    )


def wait_turn(tx: Tx, turn: TurnRow) -> bool:
    """Have a running turn wait for the outcomes of its calls, in nobody's hands."""
    return (
        tx.execute(
            "UPDATE turns SET state = 'WAITING', ending = 'pending', worker = NULL"
            " WHERE turn_id = ? AND state = 'RUNNING' AND worker IS ?",
            (turn.turn_id, turn.worker),
        ).rowcount
        == 1
    )


def is_outdated(db: Tx, turn: TurnRow) -> bool:
    """Whether the owner has said something newer in the same conversation."""
    return (
        db.execute(
            "SELECT 1 FROM turns WHERE thread_id = ? AND rowid > (SELECT rowid FROM turns WHERE turn_id = ?) LIMIT 1",
            (turn.thread_id, turn.turn_id),
        ).fetchone()
        is not None
    )


def waiting_turns(db: Tx, thread_id: str | None = None) -> list[TurnRow]:
    """Turns that wait for the outcomes of their calls, the oldest first."""
    among, values = ("", ()) if thread_id is None else (" AND thread_id = ?", (thread_id,))
    rows = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE state = 'WAITING'{among} ORDER BY rowid", values)  # noqa: S608
    return [_row(row) for row in rows.fetchall()]


def resumable_turns(db: Tx) -> list[TurnRow]:
    """Turns that wait and whose every call has its outcome, the oldest first."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE state = 'WAITING' AND {_ANSWERED} ORDER BY rowid")  # noqa: S608
    return [_row(row) for row in rows.fetchall()]


def resume_turn(tx: Tx, clock: Clock, turn: TurnRow, worker: str) -> bool:
    """Take a waiting turn in hand again, once; False when somebody was faster or a call still waits."""
    statement = (
        "UPDATE turns SET state = 'RUNNING', ending = '', worker = ?, started_at = ?"  # noqa: S608
        f" WHERE turn_id = ? AND state = 'WAITING' AND {_ANSWERED}"
    )
    return tx.execute(statement, (worker, stamp(clock()), turn.turn_id)).rowcount == 1


def expired_calls(db: Tx, turn: TurnRow) -> list[str]:
    """The tools of a turn's calls that nobody answered in time."""
    rows = db.execute(
        "SELECT tool FROM proposed_actions WHERE turn_id = ? AND status = 'REJECTED' AND rejection_reason = 'expired'"
        " ORDER BY rowid",
        (turn.turn_id,),
    )
    return [str(row[0]) for row in rows]


def end_turn(tx: Tx, clock: Clock, turn: TurnRow, end: TurnEnd) -> bool:
    """Write how a turn ended; False when it no longer stands as the caller saw it."""
    return (
        tx.execute(
            "UPDATE turns SET state = ?, ending = ?, code = ?, reason = ?, ended_at = ?"
            " WHERE turn_id = ? AND state = ? AND worker IS ?",
            (
                end.state,
                end.ending,
                end.code,
                end.reason,
                stamp(clock()),
                turn.turn_id,
                turn.state,
                turn.worker,
            ),
        ).rowcount
        == 1
    )


def queue_again(tx: Tx, turn: TurnRow, worker: str) -> bool:
    """Have a turn wait again that a dead process had in hand."""
    return (
        tx.execute(
            "UPDATE turns SET state = 'QUEUED', worker = ?, started_at = NULL"
            " WHERE turn_id = ? AND state = 'RUNNING' AND worker IS ?",
            (worker, turn.turn_id, turn.worker),
        ).rowcount
        == 1
    )


def asked_together(db: Tx, action_id: str) -> tuple[int, int]:
    """Which of how many calls of one answer this is, counting those that need the owner's word."""
    rows = db.execute(
        "SELECT b.action_id FROM proposed_actions a JOIN messages m ON m.thread_id = a.thread_id"
        " AND m.turn_id = a.turn_id AND m.role = 'assistant' AND json_valid(m.metadata_json)"
        " AND EXISTS (SELECT 1 FROM json_each(m.metadata_json, '$.actions') WHERE value = a.action_id)"
        " JOIN json_each(m.metadata_json, '$.actions') named JOIN proposed_actions b ON b.action_id = named.value"
        " WHERE a.action_id = ? AND json_valid(b.decision_json)"
        " AND json_extract(b.decision_json, '$.verdict') = 'ask' ORDER BY b.rowid",
        (action_id,),
    ).fetchall()
    ids = [str(row[0]) for row in rows]
    return (ids.index(action_id) + 1, len(ids)) if action_id in ids else (1, 1)


def answer_of(db: Tx, thread_id: str, turn_id: str) -> str | None:
    """The last word of a turn; only it proposes no call."""
    row = db.execute(
        "SELECT content FROM messages WHERE thread_id = ? AND turn_id = ? AND role = 'assistant'"
        " AND tool_calls = '[]' ORDER BY seq DESC LIMIT 1",
        (thread_id, turn_id),
    ).fetchone()
    return None if row is None else str(row[0])


def notice_of(db: Tx, thread_id: str, turn_id: str) -> str | None:
    """What its conversation is told of a turn that ended without an answer."""
    row = db.execute(
        "SELECT content FROM messages WHERE thread_id = ? AND turn_id = ? AND role = 'system'"
        " AND json_extract(metadata_json, '$.turn_state') IS NOT NULL ORDER BY seq DESC LIMIT 1",
        (thread_id, turn_id),
    ).fetchone()
    return None if row is None else str(row[0])


def times_started(db: Tx, turn: TurnRow) -> int:
    """How often a turn was taken in hand since it last left something in its conversation."""
    row = db.execute(
        "SELECT count(*) FROM audit_log WHERE entity_id = ? AND event_type = 'turn_started' AND created_at >= coalesce("
        "(SELECT max(created_at) FROM messages WHERE thread_id = ? AND turn_id = ? AND role IN ('assistant', 'tool')),"
        " '')",
        (turn.turn_id, turn.thread_id, turn.turn_id),
    ).fetchone()
    return int(row[0])


def unknown_calls(db: Tx, turn: TurnRow) -> list[tuple[str, str]]:
    """Calls of a turn that were cut off, so that nobody knows whether they had their effect: action and tool."""
    rows = db.execute(
        "SELECT a.action_id, a.tool FROM proposed_actions a WHERE a.turn_id = ? AND a.status = 'UNKNOWN' AND NOT EXISTS"
        " (SELECT 1 FROM messages m WHERE m.thread_id = ? AND m.turn_id = ? AND m.role = 'tool'"
        " AND m.action_id = a.action_id) ORDER BY a.rowid",
        (turn.turn_id, turn.thread_id, turn.turn_id),
    )
    return [(str(action_id), str(tool)) for action_id, tool in rows]


def claim_turn(tx: Tx, clock: Clock, turn: TurnRow, worker: str) -> bool:
    """Take in hand what a dead process left, waiting or begun; False when somebody else was faster."""
    return (
        tx.execute(
            "UPDATE turns SET state = 'RUNNING', worker = ?, started_at = ?"
            " WHERE turn_id = ? AND state = ? AND worker IS ?",
            (worker, stamp(clock()), turn.turn_id, turn.state, turn.worker),
        ).rowcount
        == 1
    )
