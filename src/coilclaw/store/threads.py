"""Threads and messages: what was said, by whom, where it came from."""

from typing import get_args

import msgspec

from coilclaw.packets.action import OWNER, Label
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ProposedCall, Role
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.store.tx import Tx

OWNER_ID = "owner"
MESSAGE_BYTES = 64 * 1024
ARTIFACT_BYTES = 2 * 1024 * 1024
RESULT_CHARACTERS = 12_000
"""A longer result of a call is an artifact too; a model with a small window is shown its head and its tail."""
GAP = "\n[… the middle is left out: artifact_get {artifact_id} offset {offset} reads on from here …]\n"
"""Stands between head and tail; what a tool itself left out is not in the artifact either."""


class ThreadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as listed."""

    thread_id: str
    channel: str
    title: str
    created_at: str
    updated_at: str
    messages: int


class MessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message as stored."""

    message_id: str
    thread_id: str
    turn_id: str
    role: Role
    content: str
    label: Label
    tool_calls: tuple[ProposedCall, ...] = ()
    tool_call_id: str = ""
    action_id: str | None = None
    artifact_id: str | None = None
    provider: str = ""
    model: str = ""
    metadata: dict[str, Json] = {}
    created_at: str = ""


MESSAGE_COLUMNS = (
    "message_id, thread_id, turn_id, role, content, tool_calls, tool_call_id, action_id, artifact_id, provider, model,"
    " label, metadata_json, created_at"
)


def ensure_owner(tx: Tx, clock: Clock) -> None:
    """The owner's row."""
    tx.execute(
        "INSERT INTO users (user_id, email, created_at) VALUES (?, '', ?) ON CONFLICT DO NOTHING",
        (OWNER_ID, stamp(clock())),
    )


def ensure_thread(
    tx: Tx, clock: Clock, thread_id: str, channel: str, title: str, *, project: str | None = None
) -> None:
    """Create the thread if it is new; an existing one keeps its project, or the workspace."""
    now = stamp(clock())
    ensure_owner(tx, clock)
    made = tx.execute(
        "INSERT INTO threads (thread_id, user_id, channel, title, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (thread_id, OWNER_ID, channel, title[:80], now, now),
    )
    if project is not None and made.rowcount == 1:
        tx.execute("INSERT OR IGNORE INTO thread_projects (thread_id, project_id) VALUES (?, ?)", (thread_id, project))


def name_thread(tx: Tx, thread_id: str, title: str) -> None:
    """Give a conversation a title unless it has one."""
    tx.execute("UPDATE threads SET title = ? WHERE thread_id = ? AND title = ''", (title[:80], thread_id))


def _clip(text: str, limit: int) -> str:
    """The longest prefix that fits in `limit` UTF-8 bytes."""
    data = text.encode("utf-8")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


NEWS = "news"
"""In a message's metadata: it reports a call's later outcome, and does not replace its answer."""
ANNOUNCED = "announces"
"""In a message's metadata: the artifact whose storing it reports."""


def _ends(text: str, artifact_id: str) -> str:
    """The head and the tail of a long result, and where the rest is; the end of it often matters most."""
    data = text.encode("utf-8")
    head = data[: MESSAGE_BYTES * 2 // 3].decode("utf-8", "ignore")
    tail = data[-(MESSAGE_BYTES // 4) :].decode("utf-8", "ignore")
    return head + GAP.format(artifact_id=artifact_id, offset=len(head.encode("utf-8"))) + tail


def add_message(tx: Tx, clock: Clock, message: MessageRow) -> None:
    """Store a message; a long result and any content over 64 KB are artifacts too, and the message keeps 64 KB."""
    now = message.created_at or stamp(clock())
    artifact_id = message.artifact_id
    content = _clip(message.content, MESSAGE_BYTES)
    result = message.role == "tool" or (message.role == "system" and message.action_id is not None)
    if content != message.content or (result and len(content) > RESULT_CHARACTERS):
        artifact_id = new_id("art", clock())
        if result and content != message.content:
            content = _ends(message.content, artifact_id)
        tx.execute(
            "INSERT INTO artifacts (artifact_id, thread_id, type, blob, label, created_at) VALUES (?, ?, ?, ?, ?, ?)",
            (
                artifact_id,
                message.thread_id,
                "message",
                _clip(message.content, ARTIFACT_BYTES).encode("utf-8"),
                message.label,
                now,
            ),
        )
    tx.execute(
        f"INSERT INTO messages ({MESSAGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            message.message_id,
            message.thread_id,
            message.turn_id,
            message.role,
            content,
            msgspec.json.encode(message.tool_calls).decode(),
            message.tool_call_id,
            message.action_id,
            artifact_id,
            message.provider,
            message.model,
            message.label,
            msgspec.json.encode(message.metadata).decode(),
            now,
        ),
    )
    tx.execute("UPDATE threads SET updated_at = ? WHERE thread_id = ?", (now, message.thread_id))


_ROLES: dict[str, Role] = {role: role for role in get_args(Role)}
_CALLS = msgspec.json.Decoder(tuple[ProposedCall, ...])
_METADATA = msgspec.json.Decoder(dict[str, Json])


def message_of(row: tuple[str, ...]) -> MessageRow:
    """A message from its row, as MESSAGE_COLUMNS select it."""
    return MessageRow(
        message_id=row[0],
        thread_id=row[1],
        turn_id=row[2],
        role=_ROLES.get(row[3]) or msgspec.convert(row[3], Role),
        content=row[4],
        tool_calls=() if row[5] == "[]" else _CALLS.decode(row[5]),
        tool_call_id=row[6],
        action_id=row[7],
        artifact_id=row[8],
        provider=row[9],
        model=row[10],
        label=row[11],
        metadata={} if row[12] == "{}" else _METADATA.decode(row[12]),
        created_at=row[13],
    )


def title_of(db: Tx, thread_id: str) -> str:
    """A conversation's title; empty if it has none or is gone."""
    row = db.execute("SELECT title FROM threads WHERE thread_id = ?", (thread_id,)).fetchone()
    return "" if row is None else row[0]


def channel_of(db: Tx, thread_id: str) -> str:
    """The channel a conversation came in by; empty when it is not there."""
    row = db.execute("SELECT channel FROM threads WHERE thread_id = ?", (thread_id,)).fetchone()
    return "" if row is None else str(row[0])


def message_exists(db: Tx, message_id: str) -> bool:
    """Whether there is such a message."""
    return db.execute("SELECT 1 FROM messages WHERE message_id = ?", (message_id,)).fetchone() is not None


def thread_exists(db: Tx, thread_id: str) -> bool:
    """Whether there is such a conversation."""
    return db.execute("SELECT 1 FROM threads WHERE thread_id = ?", (thread_id,)).fetchone() is not None


def recent_messages(db: Tx, thread_id: str, limit: int) -> list[MessageRow]:
    """The last messages of a thread, oldest first."""
    rows = db.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE thread_id = ? ORDER BY seq DESC LIMIT ?",  # noqa: S608
        (thread_id, limit),
    ).fetchall()
    return [message_of(row) for row in reversed(rows)]


def turn_messages(db: Tx, thread_id: str, turn_id: str, limit: int) -> list[MessageRow]:
    """The last messages of one turn, oldest first."""
    rows = db.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE thread_id = ? AND turn_id = ? ORDER BY seq DESC LIMIT ?",  # noqa: S608
        (thread_id, turn_id, limit),
    ).fetchall()
    return [message_of(row) for row in reversed(rows)]


def messages_before(db: Tx, thread_id: str, turn_id: str, limit: int) -> list[MessageRow]:
    """The last messages in a thread before a turn began, oldest first."""
    rows = db.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE thread_id = ? AND seq <"  # noqa: S608
        " (SELECT min(seq) FROM messages WHERE thread_id = ? AND turn_id = ?) ORDER BY seq DESC LIMIT ?",
        (thread_id, thread_id, turn_id, limit),
    ).fetchall()
    return [message_of(row) for row in reversed(rows)]


# Several messages may wait in one conversation. Each is answered as if later ones did not exist, and after
# the answers to earlier ones, although those were written later than the message itself.
_OWN = """
WITH own (began, answered) AS (
    SELECT min(seq), min(CASE WHEN role IN ('assistant', 'tool') THEN seq END) FROM messages
    WHERE thread_id = :thread AND turn_id = :turn
), later (turn_id) AS (
    SELECT DISTINCT m.turn_id FROM messages m, own
    WHERE m.thread_id = :thread AND m.seq > own.began AND m.role = 'user' AND m.turn_id <> :turn AND NOT EXISTS
    (SELECT 1 FROM messages e WHERE e.thread_id = :thread AND e.turn_id = m.turn_id AND e.seq < own.began)
)
"""
# Not joined: SQLite would have to sort all of a long conversation, which its index gives in order.
_BEGAN, _ANSWERED = "(SELECT began FROM own)", "(SELECT answered FROM own)"


def messages_until(db: Tx, thread_id: str, turn_id: str, limit: int) -> list[MessageRow]:
    """The last messages of earlier turns that came before this turn's first answer."""
    rows = db.execute(
        f"{_OWN} SELECT {MESSAGE_COLUMNS} FROM messages WHERE thread_id = :thread AND turn_id <> :turn"  # noqa: S608
        f" AND {_BEGAN} IS NOT NULL AND seq < coalesce({_ANSWERED}, seq + 1)"
        " AND turn_id NOT IN (SELECT turn_id FROM later) ORDER BY seq DESC LIMIT :most",
        {"thread": thread_id, "turn": turn_id, "most": limit},
    ).fetchall()
    return _as_answered([message_of(row) for row in reversed(rows)])


def _as_answered(rows: list[MessageRow]) -> list[MessageRow]:
    """The messages with each question right before its answer, however long it waited."""
    answers = {row.turn_id for row in rows if row.role == "assistant"}
    waiting: dict[str, list[MessageRow]] = {}
    ordered: list[MessageRow] = []
    for row in rows:
        if row.turn_id in answers and row.role != "assistant":
            waiting.setdefault(row.turn_id, []).append(row)
            continue
        answers.discard(row.turn_id)
        ordered += [*waiting.pop(row.turn_id, []), row]
    return ordered


def messages_and_since(
    db: Tx, thread_id: str, turn_id: str, limit: int, known: dict[str, MessageRow] | None = None
) -> list[MessageRow]:
    """The messages of a turn, and what earlier ones added since its first answer, oldest first.

    Of a turn that has no message in the thread it is told everything. `known` are messages that were read before, by
    id, and those read now join them: a stored message never changes.
    """
    known = {} if known is None else known
    rows = db.execute(
        f"{_OWN} SELECT {MESSAGE_COLUMNS} FROM messages WHERE thread_id = :thread"  # noqa: S608
        f" AND (turn_id = :turn OR {_BEGAN} IS NULL"
        f" OR (seq > {_ANSWERED} AND turn_id NOT IN (SELECT turn_id FROM later))) ORDER BY seq DESC LIMIT :most",
        {"thread": thread_id, "turn": turn_id, "most": limit},
    ).fetchall()
    for row in rows:
        if row[0] not in known:
            known[row[0]] = message_of(row)
    return [known[row[0]] for row in reversed(rows)]


def list_threads(db: Tx, limit: int) -> list[ThreadRow]:
    """Conversations, most recent first."""
    rows = db.execute(
        "SELECT t.thread_id, t.channel, t.title, t.created_at, t.updated_at,"
        " (SELECT count(*) FROM messages m WHERE m.thread_id = t.thread_id)"
        " FROM threads t ORDER BY t.updated_at DESC, t.rowid DESC LIMIT ?",
        (limit,),
    ).fetchall()
    return [
        ThreadRow(thread_id=r[0], channel=r[1], title=r[2], created_at=r[3], updated_at=r[4], messages=r[5])
        for r in rows
    ]


def near_thread_ids(db: Tx, limit: int = 200) -> list[str]:
    """Recent ids, for a did-you-mean."""
    return [row[0] for row in db.execute("SELECT thread_id FROM threads ORDER BY updated_at DESC LIMIT ?", (limit,))]


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """The result of clearing the memory."""

    messages: int
    spared: tuple[str, ...]
    """Conversations with unfinished work, or waiting for the owner."""


_GOING_ON = """
SELECT thread_id FROM proposed_actions WHERE status IN ('PENDING', 'APPROVED', 'UNKNOWN')
UNION SELECT thread_id FROM jobs WHERE state NOT IN ('DONE', 'DENIED', 'FAILED', 'CANCELLED', 'TIMED_OUT')
UNION SELECT thread_id FROM sop_runs WHERE state IN ('RUNNING', 'WAITING')
UNION SELECT thread_id FROM turns WHERE state IN ('QUEUED', 'RUNNING')
"""


def clear_memory(tx: Tx) -> Forgotten:
    """Delete every conversation that nothing depends on; actions, receipts and audit stay."""
    open_threads = f"SELECT thread_id FROM threads WHERE thread_id IN ({_GOING_ON})"  # noqa: S608
    spared = tuple(row[0] for row in tx.execute(f"{open_threads} ORDER BY thread_id"))
    gone = tx.execute(f"DELETE FROM messages WHERE thread_id NOT IN ({open_threads})").rowcount  # noqa: S608
    tx.execute(
        "DELETE FROM artifacts WHERE job_id IS NULL"  # noqa: S608
        f" AND (thread_id IS NULL OR thread_id NOT IN ({open_threads}))"
    )
    tx.execute(
        "DELETE FROM threads WHERE thread_id NOT IN (SELECT thread_id FROM jobs)"  # noqa: S608
        f" AND thread_id NOT IN ({_GOING_ON})"
    )
    return Forgotten(messages=gone, spared=spared)


def delete_thread(tx: Tx, thread_id: str) -> int | None:
    """Delete one conversation by the same rule; returns the number of messages, or None if something depends on it.

    One with jobs stays as an empty entry.
    """
    if tx.execute(f"SELECT 1 WHERE ? IN ({_GOING_ON})", (thread_id,)).fetchone() is not None:
        return None
    gone = tx.execute("DELETE FROM messages WHERE thread_id = ?", (thread_id,)).rowcount
    tx.execute("DELETE FROM artifacts WHERE job_id IS NULL AND thread_id = ?", (thread_id,))
    tx.execute("DELETE FROM turns WHERE thread_id = ?", (thread_id,))
    tx.execute(
        "DELETE FROM threads WHERE thread_id = ? AND thread_id NOT IN (SELECT thread_id FROM jobs)", (thread_id,)
    )
    return gone


def rename_thread(tx: Tx, thread_id: str, title: str) -> bool:
    """Rename a conversation; False if it does not exist."""
    return tx.execute("UPDATE threads SET title = ? WHERE thread_id = ?", (title, thread_id)).rowcount == 1


def thread_model(db: Tx, thread_id: str) -> str | None:
    """The provider chosen for a conversation, or None."""
    row = db.execute("SELECT model FROM threads WHERE thread_id = ?", (thread_id,)).fetchone()
    return None if row is None else row[0]


def set_thread_model(tx: Tx, thread_id: str, model: str | None) -> bool:
    """Choose the provider of a conversation, None for the default; False if it does not exist."""
    return tx.execute("UPDATE threads SET model = ? WHERE thread_id = ?", (model, thread_id)).rowcount == 1


def thread_labels(db: Tx, thread_id: str) -> tuple[Label, ...]:
    """Every label that content of this conversation ever had."""
    rows = db.execute("SELECT DISTINCT label FROM messages WHERE thread_id = ? ORDER BY label", (thread_id,))
    return tuple(row[0] for row in rows)


def owner_words(db: Tx, thread_id: str, turn_id: str) -> str:
    """The owner's message that started a turn; empty if there is none, or it is somebody else's."""
    found = db.execute(
        "SELECT content FROM messages WHERE thread_id = ? AND turn_id = ? AND role = 'user' AND label = ?"
        " ORDER BY seq LIMIT 1",
        (thread_id, turn_id, OWNER),
    ).fetchone()
    return "" if found is None else str(found[0])
