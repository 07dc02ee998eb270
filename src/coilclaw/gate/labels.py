"""Which workspace files hold untrusted content: by path and by what they hold.

A label holds as long as the file holds what it held when it was labelled; anything else in the workspace counts as the
owner's. Everything here is read anew on every call: nothing is remembered between calls but the rows in the database.

How a call uses it:
- before an effect that may write untrusted content, in the transaction that records it as begun: `mark` with `expected`
  when the content is known (a file is written), else `hold` (a command may write anywhere);
- after it, in the transaction that records its end: `look` at what was touched, then `mark` and `release`;
- what is read carries `labels_of`, asked before the reading and after it; a command's output, `labels_for_command`.
A crash in between leaves the hold, which labels the whole workspace until recovery marks what was touched.
"""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from coilclaw.gate.command_facts import CommandFacts
from coilclaw.gate.labelled import FOLDER, HOLD, MOST_PATHS, MOST_ROWS, Question, Reading, Seen, inside, is_content
from coilclaw.gate.paths import RUNTIME_ONLY
from coilclaw.packets.action import Label
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.ids import Clock
from coilclaw.packets.labels import untrusted_only
from coilclaw.store.database import Database
from coilclaw.store.labels import HELD, LabelRow, any_labels, drop_labels, drop_path_labels, label_rows, put_label

TIDY_ROWS = 2000
"""From here on, labels that nothing bears any more are taken away when new ones are written."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """Paths as they were looked at, and labels that nothing bears any more."""

    seen: tuple[Seen, ...]
    stale: tuple[LabelRow, ...] = ()


class FileLabels:
    """The labels of one workspace's files."""

    def __init__(self, db: Database, workspace: Path, clock: Clock) -> None:
        self._db = db
        self._workspace = Path(os.path.realpath(workspace))
        self._clock = clock

    # Asking

    def labels_of(self, relative_path: str) -> tuple[Label, ...]:
        """The untrusted labels of a file, link or folder (all below it), each source by itself; () is the owner's.

        Files outside the workspace bear no labels.
        """
        real = os.path.realpath(os.path.join(self._workspace, relative_path))  # noqa: PTH118 - text in, text out
        if not any_labels(self._db.reader) or inside(self._workspace, real) is None:
            return ()
        return self._question().of([relative_path])

    def labels_for_command(self, facts: CommandFacts) -> tuple[Label, ...]:
        """The labels of everything a boxed command could have read.

        A plain command is told by the paths it names; any other by every labelled file that still stands.
        """
        if not any_labels(self._db.reader):
            return ()
        from coilclaw.gate.reading import named_paths

        named = named_paths(facts)
        return self._question().of([""] if named is None else named)

    def standing(self, limit: int) -> list[tuple[LabelRow, bool]]:
        """Every label with whether it still holds, for showing."""
        question = self._question()
        return [(row, question.holds(row)) for row in label_rows(self._db.reader, limit)]

    def _question(self) -> Question:
        return Question(self._workspace, label_rows(self._db.reader, MOST_ROWS + 1))

    # Writing

    def look(self, paths: Iterable[str]) -> Looked:
        """What these paths hold now, read outside any transaction; what is gone or the runtime's alone is left out."""
        below = {inside(self._workspace, path) for path in paths}
        wanted = sorted(path for path in below if path is not None and path.split("/")[0] not in RUNTIME_ONLY)
        if len(wanted) > MOST_PATHS:
            wanted = [""]
        reading = Reading(self._workspace)
        seen = tuple(_settled(each) for path in wanted if (each := reading.see(path)) is not None)
        rows = label_rows(self._db.reader, MOST_ROWS + 1)
        if len(rows) <= TIDY_ROWS:
            return Looked(seen=seen)
        question = Question(self._workspace, rows)
        return Looked(seen=seen, stale=tuple(row for row in rows if not question.holds(row)))

    def expected(self, relative_path: str, data: bytes) -> Looked:
        """What the path will hold once `data` is written there."""
        path = inside(self._workspace, relative_path)
        if not path:
            return Looked(seen=())
        return Looked(seen=(Seen(path=path, content_hash=sha256_hex(data), size=len(data), mtime_ns=0),))

    def mark(self, tx: sqlite3.Connection, looked: Looked, labels: Iterable[Label]) -> None:
        """Label what was looked at with every untrusted source among `labels`; with none, nothing changes."""
        sources = untrusted_only(labels)
        if not sources:
            return
        drop_labels(tx, looked.stale)
        for each in looked.seen:
            for label in sources:
                put_label(
                    tx,
                    self._clock,
                    path=each.path,
                    label=label,
                    content_hash=each.content_hash,
                    size=each.size,
                    mtime_ns=each.mtime_ns,
                )

    def hold(self, tx: sqlite3.Connection, action_id: str, labels: Iterable[Label]) -> None:
        """Label the whole workspace while an action may be writing anywhere in it."""
        for label in untrusted_only(labels):
            put_label(tx, self._clock, path=HELD + action_id, label=label, content_hash=HOLD, size=0, mtime_ns=0)

    def held(self, action_id: str) -> tuple[Label, ...]:
        """The labels an action holds the workspace with, for recovery after a crash."""
        path = HELD + action_id
        rows = self._db.reader.execute("SELECT label FROM file_labels WHERE path = ? ORDER BY label", (path,))
        return tuple(row[0] for row in rows)

    def release(self, tx: sqlite3.Connection, action_id: str) -> None:
        """The action has ended and what it touched is marked."""
        drop_path_labels(tx, HELD + action_id)

    def vouched(self, path: str) -> list[LabelRow]:
        """The labels that go when the owner vouches for a path: its own, those below it, and those of the same bytes.

        `/ACTION_ID` names what an action holds.
        """
        rows = label_rows(self._db.reader, MOST_ROWS)
        place = inside(self._workspace, path)
        if place is None:
            return [row for row in rows if row.path == path]
        own = {row for row in rows if not row.path.startswith(HELD) and _below(row.path, place)}
        now = Reading(self._workspace).see(place)
        contents = {row.content_hash for row in own if is_content(row.content_hash)}
        if now is not None and is_content(now.content_hash):
            contents.add(now.content_hash)
        return [row for row in rows if row.content_hash in contents or row in own]

    def forget(self, tx: sqlite3.Connection, rows: Sequence[LabelRow]) -> None:
        """The owner vouches: these labels are no more."""
        drop_labels(tx, rows)


def _below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _settled(seen: Seen) -> Seen:
    """What could not be read any more for want of time counts until the owner says otherwise, like a folder."""
    return seen if seen.content_hash else msgspec.structs.replace(seen, content_hash=FOLDER)
