"""Labels that last: which workspace files hold untrusted content, and what a conversation took in from whom."""

import sqlite3
from collections.abc import Iterable

import msgspec

from coilclaw.packets.action import OWNER, Label
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.labels import is_untrusted
from coilclaw.store.tx import Tx

TEXT_CHARACTERS = 4_000_000
"""How much of each side of a conversation is read back; the newest first."""

MOST_MESSAGES = 20_000

HELD = "/"
"""What the path of a hold begins with, so that it is never a path inside the workspace."""


class LabelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One label of one file, folder or link, and what it held when it was labelled."""

    path: str
    """Below the workspace, empty for the workspace itself; `/ACTION_ID` while an action may be writing anywhere."""
    label: Label
    content_hash: str
    """SHA-256 of a file; `dir`, `name`, `link:…`, `stat:…`, `unread` or `held` where there is none."""
    size: int
    mtime_ns: int
    created_at: str


def label_rows(db: Tx, limit: int) -> list[LabelRow]:
    """Every labelled file, by path and label, at most `limit`."""
    return _rows(
        db.execute(
            "SELECT path, label, content_hash, size, mtime_ns, created_at FROM file_labels"
            " ORDER BY path, label LIMIT ?",
            (limit,),
        )
    )


def path_rows(db: Tx, path: str) -> list[LabelRow]:
    """Every label of one path."""
    return _rows(
        db.execute(
            "SELECT path, label, content_hash, size, mtime_ns, created_at FROM file_labels WHERE path = ?", (path,)
        )
    )


def rows_of_size(db: Tx, size: int) -> list[LabelRow]:
    """Every label of what had this size."""
    return _rows(
        db.execute(
            "SELECT path, label, content_hash, size, mtime_ns, created_at FROM file_labels WHERE size = ?", (size,)
        )
    )


def newest_labelled(db: Tx, folder: str, limit: int) -> list[tuple[str, Label]]:
    """Paths below a folder with their labels, the newest label first; holds are left out."""
    if not folder:
        return db.execute(_NEWEST, (limit,)).fetchall()
    return db.execute(_NEWEST_BELOW, (f"{folder}/", f"{folder}0", limit)).fetchall()


# '0' is what comes after '/': everything between begins with a slash, as the paths of holds do.
_NEWEST = """
SELECT path, label FROM file_labels WHERE NOT (path >= '/' AND path < '0') ORDER BY created_at DESC, path LIMIT ?
"""
_NEWEST_BELOW = """
SELECT path, label FROM file_labels WHERE path >= ? AND path < ? ORDER BY created_at DESC, path LIMIT ?
"""


def labelled_contents(db: Tx, limit: int) -> list[tuple[str, Label, str, int]]:
    """Path, label, content and size of every label but holds, at most `limit`: what a search through files needs."""
    return db.execute(
        "SELECT path, label, content_hash, size FROM file_labels WHERE NOT (path >= '/' AND path < '0') LIMIT ?",
        (limit,),
    ).fetchall()


def labelled_when(db: Tx, limit: int) -> list[tuple[str, Label, str]]:
    """Path, label and time of every label but holds, the oldest first, at most `limit`."""
    return db.execute(
        "SELECT path, label, created_at FROM file_labels WHERE NOT (path >= '/' AND path < '0')"
        " ORDER BY created_at, path LIMIT ?",
        (limit,),
    ).fetchall()


def held_labels(db: Tx) -> set[Label]:
    """The labels of everything, while actions may be writing anywhere."""
    return {row[0] for row in db.execute("SELECT label FROM file_labels WHERE path >= '/' AND path < '0'").fetchall()}


def all_labels(db: Tx) -> set[Label]:
    """Every label there is."""
    return {row[0] for row in db.execute("SELECT DISTINCT label FROM file_labels").fetchall()}


def _rows(cursor: sqlite3.Cursor) -> list[LabelRow]:
    return [
        LabelRow(path=r[0], label=r[1], content_hash=r[2], size=r[3], mtime_ns=r[4], created_at=r[5])
        for r in cursor.fetchall()
    ]


def any_labels(db: Tx) -> bool:
    """Whether anything is labelled at all."""
    return db.execute("SELECT 1 FROM file_labels LIMIT 1").fetchone() is not None


def put_label(tx: Tx, clock: Clock, *, path: str, label: Label, content_hash: str, size: int, mtime_ns: int) -> None:
    """Label a file with what it holds now."""
    tx.execute(
        "INSERT OR REPLACE INTO file_labels (path, label, content_hash, size, mtime_ns, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (path, label, content_hash, size, mtime_ns, stamp(clock())),
    )


def drop_labels(tx: Tx, rows: Iterable[LabelRow]) -> None:
    """Take away exactly these labels; one that was written anew since stays."""
    tx.executemany(
        "DELETE FROM file_labels WHERE path = ? AND label = ? AND content_hash = ? AND created_at = ?",
        [(row.path, row.label, row.content_hash, row.created_at) for row in rows],
    )


def drop_path_labels(tx: Tx, path: str) -> None:
    """Take away every label of one path."""
    tx.execute("DELETE FROM file_labels WHERE path = ?", (path,))


class ConversationTexts(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation took in, by who wrote it; the newest first."""

    untrusted: tuple[str, ...]
    owner: tuple[str, ...]
    complete: bool
    """False when there was more untrusted content than is read back."""


_TEXTS = """
SELECT m.role, m.label, m.turn_id, m.content, a.blob, p.tool
FROM messages m
LEFT JOIN artifacts a ON a.artifact_id = m.artifact_id
LEFT JOIN proposed_actions p ON p.action_id = m.action_id
WHERE m.thread_id = ? ORDER BY m.seq DESC LIMIT ?
"""


def conversation_texts(db: Tx, thread_id: str, *, turn_id: str = "", most: int = TEXT_CHARACTERS) -> ConversationTexts:
    """What untrusted content and what the owner said in a conversation, at most `most` characters of each.

    The owner's words are the owner's messages and answers to questions, not files that merely count as the owner's.
    What the model wrote in turn `turn_id` is left out: it repeats what it proposes.
    """
    untrusted: list[str] = []
    owner: list[str] = []
    left, owner_left, read, complete = most, most, 0, True
    for role, label, turn, content, blob, tool in db.execute(_TEXTS, (thread_id, MOST_MESSAGES)):
        read += 1
        text = content if blob is None else bytes(blob).decode("utf-8", "replace")
        if is_untrusted(label):
            if role == "assistant" and turn == turn_id:
                continue
            complete = complete and len(text) <= left
            untrusted.append(text[:left])
            left -= len(untrusted[-1])
        elif label == OWNER and (role == "user" or tool == "ask_user"):
            owner.append(text[:owner_left])
            owner_left -= len(owner[-1])
    return ConversationTexts(
        untrusted=tuple(text for text in untrusted if text),
        owner=tuple(text for text in owner if text),
        complete=complete and read < MOST_MESSAGES,
    )
