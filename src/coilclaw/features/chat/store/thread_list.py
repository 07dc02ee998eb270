"""Conversations as a list shows them: each with its last words and with what goes on in it."""

from typing import Annotated, TypeAlias

import msgspec

from coilclaw.packets.action import Label
from coilclaw.packets.chat import Role
from coilclaw.store.tx import Tx

MOST_COUNTED = 10_000
"""Messages of one conversation are counted up to here."""
EXCERPT_CHARACTERS = 2000
"""How much of the last message is read; what is shown of it is shorter."""


class LastWords(msgspec.Struct, frozen=True, kw_only=True):
    """The last thing that was said."""

    role: Role
    text: str
    """Its beginning."""
    label: Label
    created_at: str
    turn_id: str
    number: int
    """Its place in the conversation."""


class ThreadOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation at a glance."""

    thread_id: str
    title: str
    channel: str
    model: str | None
    project: str | None
    """The name of the project it works in, removed or not."""
    created_at: str
    updated_at: str
    messages: int
    last: LastWords | None
    ended_action_id: str | None
    """What ended last of the turn that the last words are of, once nothing of it is open any more."""
    running_turn_id: str | None
    waiting_turns: int
    waiting_approvals: int
    number: int
    """Tells apart conversations of the same moment."""


Place: TypeAlias = tuple[Annotated[str, msgspec.Meta(max_length=40)], Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]]
"""Where a list goes on: after the conversation that was touched then, with that number."""

_SELECT = f"""
SELECT t.thread_id, t.title, t.channel, t.created_at, t.updated_at, t.rowid, t.model,
    (SELECT count(*) FROM (SELECT 1 FROM messages m WHERE m.thread_id = t.thread_id LIMIT {MOST_COUNTED})),
    (SELECT p.name FROM thread_projects x JOIN projects p USING (project_id) WHERE x.thread_id = t.thread_id)
FROM threads t
"""  # noqa: S608
# A conversation that was deleted and that jobs still name is empty, and no conversation any more.
_SHOWN = """
(EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = t.thread_id)
 OR NOT EXISTS (SELECT 1 FROM jobs j WHERE j.thread_id = t.thread_id))
"""


# A job says the first words of a conversation it begins; schedules and procedures have channels of their own.
_TALK = """
(t.channel NOT IN ('schedule', 'sop', 'mcp') AND NOT EXISTS (
    SELECT 1 FROM jobs j WHERE j.thread_id = t.thread_id AND 'msg_' || j.job_id =
        (SELECT m.message_id FROM messages m WHERE m.thread_id = t.thread_id ORDER BY m.seq LIMIT 1)))
"""


def list_overviews(
    db: Tx, limit: int, *, after: Place | None, words: str = "", talks: bool = False
) -> list[ThreadOverview]:
    """Conversations, the most recently touched first; with `words` only those whose title holds them, with `talks` only
    those that somebody began, not a job, a schedule or a procedure."""
    when, number = after or ("~", 0)
    shown = f"{_SHOWN} AND {_TALK}" if talks else _SHOWN
    rows = db.execute(
        f"{_SELECT} WHERE t.updated_at <= ? AND (t.updated_at < ? OR t.rowid > ?)"
        # Titles are looked at first: whether there are messages costs more.
        f" AND CASE WHEN t.title LIKE ? ESCAPE '!' THEN {shown} END"
        " ORDER BY t.updated_at DESC, t.rowid LIMIT ?",
        (when, when, number, f"%{_literally(words)}%", limit),
    ).fetchall()
    return _overviews(db, rows)


def overview_of(db: Tx, thread_id: str) -> ThreadOverview | None:
    """One conversation."""
    rows = db.execute(f"{_SELECT} WHERE t.thread_id = ?", (thread_id,)).fetchall()
    return next(iter(_overviews(db, rows)), None)


def _literally(words: str) -> str:
    for sign in "!%_":
        words = words.replace(sign, f"!{sign}")
    return words


def _overviews(
    db: Tx, rows: list[tuple[str, str, str, str, str, int, str | None, int, str | None]]
) -> list[ThreadOverview]:
    approvals: dict[str, int] = dict(
        db.execute(
            "SELECT thread_id, count(*) FROM proposed_actions WHERE status = 'PENDING' AND worker IS NULL"
            " GROUP BY thread_id"
        ).fetchall()
    )
    running: dict[str, str] = {}
    waiting: dict[str, int] = {}
    # The words of the partial index: there are few open turns, and as many others as were ever taken.
    open_turns = "SELECT thread_id, turn_id, state FROM turns WHERE state IN ('QUEUED', 'RUNNING') ORDER BY created_at"
    for thread_id, turn_id, state in db.execute(open_turns):
        if state == "RUNNING":
            running[thread_id] = turn_id
        else:
            waiting[thread_id] = waiting.get(thread_id, 0) + 1
    words = {row[0]: _last_words(db, row[0]) for row in rows}
    return [
        ThreadOverview(
            thread_id=row[0],
            title=row[1],
            channel=row[2],
            created_at=row[3],
            updated_at=row[4],
            number=row[5],
            model=row[6],
            messages=row[7],
            project=row[8],
            last=(last := words[row[0]]),
            ended_action_id=None if last is None else _ended_since(db, row[0], last),
            running_turn_id=running.get(row[0]),
            waiting_turns=waiting.get(row[0], 0),
            waiting_approvals=approvals.get(row[0], 0),
        )
        for row in rows
    ]


def _last_words(db: Tx, thread_id: str) -> LastWords | None:
    row = db.execute(
        "SELECT role, substr(content, 1, ?), label, created_at, turn_id, seq FROM messages"
        " WHERE thread_id = ? AND role IN ('user', 'assistant') AND content <> '' ORDER BY seq DESC LIMIT 1",
        (EXCERPT_CHARACTERS, thread_id),
    ).fetchone()
    if row is None:
        return None
    return LastWords(
        role=msgspec.convert(row[0], Role), text=row[1], label=row[2], created_at=row[3], turn_id=row[4], number=row[5]
    )


def _ended_since(db: Tx, thread_id: str, last: LastWords) -> str | None:
    """The action whose end was posted after the agent's last words, the latest of several; None while one is open."""
    if last.role != "assistant":
        return None
    row = db.execute(
        "SELECT action_id FROM messages WHERE thread_id = ? AND seq > ? AND turn_id = ? AND role = 'system'"
        " AND action_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM proposed_actions a WHERE a.turn_id = ?"
        " AND a.status IN ('PENDING', 'APPROVED')) ORDER BY seq DESC LIMIT 1",
        (thread_id, last.number, last.turn_id, last.turn_id),
    ).fetchone()
    return None if row is None else row[0]
