"""Persistent labels: which files contain untrusted content, and what a conversation took in from whom.

File labels belong to one root: a project by its id, the workspace by the empty name. A query about one root is never
answered with a row of another.
"""

import sqlite3
from collections.abc import Iterable

import msgspec

from coilclaw.packets.action import OWNER, Label
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.labels import is_untrusted
from coilclaw.store.tx import Tx

TEXT_CHARACTERS = 4_000_000
"""How much of each side of a conversation is read, newest first."""

MOST_MESSAGES = 20_000

HELD = "/"
"""The prefix of a hold's path, so that it is never a path inside the workspace."""


class LabelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One label of one file, folder or link, and its content when it was labelled."""

    path: str
    """Relative to the root, empty for the root itself; `/ACTION_ID` while an action may be writing anywhere."""
    label: Label
    content_hash: str
    """SHA-256 of a file; otherwise `dir`, `name`, `link:…`, `stat:…`, `unread` or `held`."""
    size: int
    mtime_ns: int
    created_at: str


def label_rows(db: Tx, root: str, limit: int) -> list[LabelRow]:
    """Every labelled file of a root, by path and label, at most `limit`."""
    return _rows(db.execute(f"{_SELECT} ORDER BY path, label LIMIT ?", (root, limit)))


def path_rows(db: Tx, root: str, path: str) -> list[LabelRow]:
    """Every label of one path."""
    return _rows(db.execute(f"{_SELECT} AND path = ?", (root, path)))


def rows_of_size(db: Tx, root: str, size: int) -> list[LabelRow]:
    """Every label of content with this size."""
    return _rows(db.execute(f"{_SELECT} AND size = ?", (root, size)))


_SELECT = "SELECT path, label, content_hash, size, mtime_ns, created_at FROM file_labels WHERE root = ?"


def newest_labelled(db: Tx, root: str, folder: str, limit: int) -> list[tuple[str, Label]]:
    """Paths below a folder with their labels, newest first, without holds."""
    if not folder:
        return db.execute(_NEWEST, (root, limit)).fetchall()
    return db.execute(_NEWEST_BELOW, (root, f"{folder}/", f"{folder}0", limit)).fetchall()


# '0' follows '/' in ASCII: everything between starts with a slash, like the paths of holds.
_NEWEST = """
SELECT path, label FROM file_labels WHERE root = ? AND NOT (path >= '/' AND path < '0')
ORDER BY created_at DESC, path LIMIT ?
"""
_NEWEST_BELOW = """
SELECT path, label FROM file_labels WHERE root = ? AND path >= ? AND path < ? ORDER BY created_at DESC, path LIMIT ?
"""


def labelled_contents(db: Tx, root: str, limit: int) -> list[tuple[str, Label, str, int]]:
    """Path, label, content and size of every label but holds, at most `limit`, for a file search."""
    return db.execute(
        "SELECT path, label, content_hash, size FROM file_labels"
        " WHERE root = ? AND NOT (path >= '/' AND path < '0') LIMIT ?",
        (root, limit),
    ).fetchall()


def labelled_when(db: Tx, root: str, limit: int) -> list[tuple[str, Label, str]]:
    """Path, label and time of every label but holds, oldest first, at most `limit`."""
    return db.execute(
        "SELECT path, label, created_at FROM file_labels WHERE root = ? AND NOT (path >= '/' AND path < '0')"
        " ORDER BY created_at, path LIMIT ?",
        (root, limit),
    ).fetchall()


def held_labels(db: Tx, root: str) -> set[Label]:
    """Labels that apply to everything while actions may be writing anywhere."""
    held = db.execute("SELECT label FROM file_labels WHERE root = ? AND path >= '/' AND path < '0'", (root,))
    return {row[0] for row in held.fetchall()}


def all_labels(db: Tx, root: str) -> set[Label]:
    """Every label."""
    return {row[0] for row in db.execute("SELECT DISTINCT label FROM file_labels WHERE root = ?", (root,)).fetchall()}


def _rows(cursor: sqlite3.Cursor) -> list[LabelRow]:
    return [
        LabelRow(path=r[0], label=r[1], content_hash=r[2], size=r[3], mtime_ns=r[4], created_at=r[5])
        for r in cursor.fetchall()
    ]


def any_labels(db: Tx, root: str) -> bool:
    """Whether anything is labelled at all."""
    return db.execute("SELECT 1 FROM file_labels WHERE root = ? LIMIT 1", (root,)).fetchone() is not None


def put_label(
    tx: Tx, clock: Clock, *, root: str, path: str, label: Label, content_hash: str, size: int, mtime_ns: int
) -> None:
    """Label a file with its current content."""
    tx.execute(
        "INSERT OR REPLACE INTO file_labels (root, path, label, content_hash, size, mtime_ns, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (root, path, label, content_hash, size, mtime_ns, stamp(clock())),
    )


def drop_labels(tx: Tx, root: str, rows: Iterable[LabelRow]) -> None:
    """Remove exactly these labels; one that was rewritten since stays."""
    tx.executemany(
        "DELETE FROM file_labels WHERE root = ? AND path = ? AND label = ? AND content_hash = ? AND created_at = ?",
        [(root, row.path, row.label, row.content_hash, row.created_at) for row in rows],
    )


def drop_path_labels(tx: Tx, root: str, path: str) -> None:
    """Remove every label of one path."""
    tx.execute("DELETE FROM file_labels WHERE root = ? AND path = ?", (root, path))


def copy_labels(tx: Tx, source: str, target: str) -> None:
    """Label a copy of a root as the root is. What was told by its times there may be any content here, and what some
    action may be writing now holds for the copy as a whole."""
    tx.execute(
        "INSERT OR IGNORE INTO file_labels (root, path, label, content_hash, size, mtime_ns, created_at)"
        " SELECT ?, CASE WHEN path >= '/' AND path < '0' THEN '' ELSE path END, label,"
        " CASE WHEN content_hash = 'held' THEN 'dir' WHEN content_hash GLOB 'stat:*' THEN 'unread'"
        " ELSE content_hash END, size, mtime_ns, created_at FROM file_labels WHERE root = ?",
        (target, source),
    )


def drop_root(tx: Tx, root: str) -> None:
    """Delete every label of a root that no longer exists."""
    tx.execute("DELETE FROM file_labels WHERE root = ?", (root,))


class ConversationTexts(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation took in, by author, newest first."""

    untrusted: tuple[str, ...]
    owner: tuple[str, ...]
    complete: bool
    """False if there was more untrusted content than is read."""


_TEXTS = """
SELECT m.role, m.label, m.turn_id, m.content, a.blob, p.tool
FROM messages m
LEFT JOIN artifacts a ON a.artifact_id = m.artifact_id
LEFT JOIN proposed_actions p ON p.action_id = m.action_id
WHERE m.thread_id = ? ORDER BY m.seq DESC LIMIT ?
"""


def conversation_texts(db: Tx, thread_id: str, *, turn_id: str = "", most: int = TEXT_CHARACTERS) -> ConversationTexts:
    """The untrusted content and the owner's words in a conversation, at most `most` characters of each.

    The owner's words are the owner's messages and answers to questions, not files that merely count as the owner's.
    The model's text in turn `turn_id` is excluded: it repeats what it proposes.
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
