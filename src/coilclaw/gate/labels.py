"""Which workspace files hold untrusted content: by path and by what they hold.

A label holds as long as the file holds what it held when it was labelled, and for every other file that holds the same;
anything else in the workspace counts as the owner's. Labels of what is not there now are kept: it may come back, by an
undo or from git. Everything here is read anew on every call: nothing is remembered between calls but the rows.

How a call uses it:
- before an effect that may write untrusted content, in the transaction that records it as begun: `mark` with `expected`
  when the content is known (a file is written), else `hold` (a command may write anywhere); commands that run by then
  hold the same labels from now on, because they may read it;
- after it, in the transaction that records its end: `look` at what was touched, then `mark` and `release`;
- what is read carries `labels_of`, asked before the reading and after it; a command's output, `labels_for_command`.
A crash in between leaves the hold, which labels the whole workspace until recovery marks what was touched.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from coilclaw.gate.label_lookup import (
    CLOSED,
    FOLDER,
    HOLD,
    LIMITS,
    NAME,
    UNREAD,
    WORKSPACE,
    Limits,
    Question,
    Reading,
    Seen,
    inside,
    is_text,
    sign_of,
)
from coilclaw.gate.paths import UPLOADS
from coilclaw.lib.shell.facts import CommandFacts
from coilclaw.packets.action import Label
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.ids import Clock
from coilclaw.packets.labels import untrusted_only
from coilclaw.packets.workspace import GIT_ONLY, RUNTIME_ONLY
from coilclaw.store.database import Database
from coilclaw.store.labels import (
    HELD,
    LabelRow,
    all_labels,
    any_labels,
    drop_labels,
    drop_path_labels,
    held_labels,
    label_rows,
    labelled_when,
    path_rows,
    put_label,
    rows_of_size,
)
from coilclaw.store.running import running_commands
from coilclaw.store.tx import Tx

MOST_PATHS = 4000
"""When more files than this change at once, the workspace is labelled as a whole."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """Paths as they were when examined."""

    seen: tuple[Seen, ...]

    def at(self, path: str) -> "Looked":
        """The same, as it will stand at another path."""
        return Looked(seen=tuple(msgspec.structs.replace(each, path=path) for each in self.seen))


class FileLabels:
    """The labels of one root's files: the workspace's, or a project's."""

    def __init__(
        self,
        db: Database,
        workspace: Path,
        clock: Clock,
        limits: Limits = LIMITS,
        *,
        root: str = "",
        everything: Callable[[], tuple[Label, ...]] | None = None,
    ) -> None:
        self._db = db
        self._workspace = Path(os.path.realpath(workspace))
        self._clock = clock
        self._limits = limits
        self._root = root
        """The project whose rows these are; empty for the workspace."""
        self._everything = everything
        """What every file of a project carries, whatever the rows say; None for the workspace."""

    @property
    def _base(self) -> tuple[Label, ...]:
        return () if self._everything is None else self._everything()

    @property
    def _runtime_only(self) -> tuple[str, ...]:
        """Folders that only the runtime writes, so that they need no labels."""
        return RUNTIME_ONLY if self._everything is None else GIT_ONLY

    # Asking

    def labels_of(self, relative_path: str) -> tuple[Label, ...]:
        """The untrusted labels of a file, link or folder (all below it), each source by itself; () is the owner's.

        Files outside the workspace bear no labels. What was uploaded counts for its own folder, not for the workspace
        as a whole: a listing of that shows the folder, whose name is ours, and nothing in it.
        """
        real = os.path.realpath(os.path.join(self._workspace, relative_path))  # noqa: PTH118 - text in, text out
        if inside(self._workspace, real) is None:
            return ()
        if not any_labels(self._db.reader, self._root):
            return self._base
        whole = real == str(self._workspace) and self._everything is None
        found = {*self._base, *self._question(besides=UPLOADS if whole else "").of([relative_path])}
        if _in_repository(relative_path) or _in_repository(real):
            found |= self._kept_by_git()
        return tuple(sorted(found))

    def labels_of_kept(self, kept: Sequence[tuple[str, str, int]]) -> dict[str, tuple[Label, ...]]:
        """The untrusted labels of contents kept for an undo, by the path each would be put back to.

        Each is a path, what it held (empty when only the name counts) and its size. A name that was ever labelled is:
        whoever made it chose it.
        """
        return self._labels_by_content(kept, ever=True)

    def labels_of_found(self, found: Sequence[tuple[str, str, int]]) -> tuple[Label, ...]:
        """The untrusted labels of what a search found: of each file's name, and of the content that was searched.

        Each is a path, the SHA-256 of what was read (empty when only the name was) and its size; whatever stands
        there by now does not matter.
        """
        named = [(_nearest_text(path), content, size) for path, content, size in found]
        labels = self._labels_by_content(named, ever=False)
        return tuple(sorted({label for each in labels.values() for label in each}))

    def _labels_by_content(self, kept: Sequence[tuple[str, str, int]], *, ever: bool) -> dict[str, tuple[Label, ...]]:
        db, root, base = self._db.reader, self._root, self._base
        if not kept or not any_labels(db, root):
            return {path: base for path, _, _ in kept} if base else {}
        if len(kept) > MOST_PATHS:
            everything = tuple(sorted({*base, *all_labels(db, root)}))
            return {path: everything for path, _, _ in kept}
        held = held_labels(db, root) | {*base}
        by_size: dict[int, list[LabelRow]] = {}
        found: dict[str, tuple[Label, ...]] = {}
        for path, content, size in kept:
            around = [row for place in _folders(path) for row in path_rows(db, root, place)]
            own = [row for row in path_rows(db, root, path) if ever or _may_be(row, content, size)]
            rows = [*own, *(row for row in around if row.content_hash in (FOLDER, NAME))]
            if content:
                sign = sign_of(_as_labelled(content), size)
                alike = by_size.setdefault(size, rows_of_size(db, root, size)) if sign else []
                rows += [row for row in alike if sign_of(row.content_hash, row.size) in (sign, f"size:{size}")]
            labels = {row.label for row in rows} | held
            if labels:
                found[path] = tuple(sorted(labels))
        return found

    def labels_for_command(self, facts: CommandFacts, *, without_uploads: bool) -> tuple[Label, ...]:
        """The labels of everything a boxed command could have read.

        A plain command is told by the paths it names; any other by every labelled file that still stands, and by
        whatever git may have kept of those that do not.
        A plain `ls` shows nothing of what was uploaded, like a listing, and a box that is without that folder
        shows nothing of it to any command.
        """
        base = self._base
        labelled = any_labels(self._db.reader, self._root)
        if not base and not labelled:
            return ()
        from coilclaw.gate.command_reads import lists_here, named_paths

        named = named_paths(facts)
        found = {*base} if named is None or named else set[Label]()
        if labelled:
            unseen = without_uploads or (named is not None and lists_here(facts))
            besides = UPLOADS if self._everything is None and unseen else ""
            found.update(self._question(besides=besides).of([""] if named is None else named))
            if named is None or any(_in_repository(path) for path in named):
                found |= self._kept_by_git()
        return tuple(sorted(found))

    def _kept_by_git(self) -> set[Label]:
        """The labels of everything that was labelled before somebody last wrote into the history around it."""
        from coilclaw.gate.history import History

        history = History(self._workspace)
        rows = labelled_when(self._db.reader, self._root, self._limits.rows + 1)
        found: set[Label] = {WORKSPACE} if len(rows) > self._limits.rows else set()
        for path, label, since in rows:
            if label not in found and history.may_hold(path, since):
                found.add(label)
        return found

    def standing(self, limit: int) -> list[tuple[LabelRow, str | None]]:
        """Every label with where it counts, for showing: its own path, else another that holds the same, or None."""
        question = self._question()
        rows = [(row, question.holds(row)) for row in label_rows(self._db.reader, self._root, limit)]
        elsewhere = {} if all(holds for _, holds in rows) else question.bearing("")
        return [(row, row.path if holds else elsewhere.get(sign_of(row.content_hash, row.size))) for row, holds in rows]

    def _question(self, besides: str = "") -> Question:
        return Question(self._workspace, self._db.reader, self._limits, root=self._root, besides=besides)

    # Writing

    def look(self, paths: Iterable[str]) -> Looked:
        """What these paths hold now, read outside any transaction; what is gone or the runtime's alone is left out.

        A path that ends with a slash is a folder whose name alone is meant, not what is in it.
        """
        wanted: dict[str, tuple[int, bool]] = {}
        """Path to its size and whether its name alone is meant."""
        for path in paths:
            place = inside(self._workspace, path)
            if place is None or place.split("/")[0] in self._runtime_only:
                continue
            size = self._size(place)
            if size is None:
                continue
            text = _nearest_text(place)
            name_alone = path.endswith("/") and text == place and wanted.get(text, (0, True))[1]
            wanted[text] = (size, name_alone)
        if len(wanted) > MOST_PATHS:
            wanted = {"": (0, False)}
        reading = Reading(self._workspace, self._limits.bytes)
        seen: list[Seen] = []
        for path in sorted(wanted, key=lambda path: (wanted[path][0], path)):  # what is left unread then is large
            each = reading.see(path)
            if each is not None:
                seen.append(_settled(each, name_alone=wanted[path][1]))
        return Looked(seen=tuple(sorted(seen, key=lambda each: each.path)))

    def _size(self, path: str) -> int | None:
        """The size of what a path is; None when it is gone."""
        try:
            return os.lstat(self._workspace / path).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):
            return 0

    def expected(self, relative_path: str, data: bytes) -> Looked:
        """What the path will hold once `data` is written there."""
        path = inside(self._workspace, relative_path)
        if not path:
            return Looked(seen=())
        if not is_text(path):
            return Looked(seen=(Seen(path=_nearest_text(path), content_hash=FOLDER, size=0, mtime_ns=0),))
        return Looked(seen=(Seen(path=path, content_hash=sha256_hex(data), size=len(data), mtime_ns=0),))

    def names(self, paths: Iterable[str]) -> Looked:
        """The names of these files, whatever they hold: who lists their folder reads them. For files that were made."""
        places = dict.fromkeys(inside(self._workspace, path) for path in paths if not path.endswith("/"))
        seen = [
            Seen(path=place, content_hash=NAME, size=0, mtime_ns=0)
            for place in places
            if place and is_text(place) and place.split("/")[0] not in self._runtime_only
        ]
        return Looked(seen=tuple(seen) if len(seen) <= MOST_PATHS else ())

    def mark(self, tx: Tx, looked: Looked, labels: Iterable[Label]) -> None:
        """Label what was looked at with every untrusted source among `labels`; with none, nothing changes."""
        sources = untrusted_only(labels)
        if not sources:
            return
        for each in looked.seen:
            for label in sources:
                put_label(
                    tx,
                    self._clock,
                    root=self._root,
                    path=each.path,
                    label=label,
                    content_hash=each.content_hash,
                    size=each.size,
                    mtime_ns=each.mtime_ns,
                )
        if looked.seen:
            self._hold_running(tx, sources)

    def hold(self, tx: Tx, action_id: str, labels: Iterable[Label]) -> None:
        """Label the whole workspace while an action may be writing anywhere in it."""
        sources = untrusted_only(labels)
        self._hold(tx, action_id, sources)
        if sources:
            self._hold_running(tx, sources)

    def _hold_running(self, tx: Tx, sources: Iterable[Label]) -> None:
        """Commands that run now can read what comes in, write it elsewhere and remove it before they end."""
        for action_id in running_commands(tx, self._root):
            self._hold(tx, action_id, sources)

    def _hold(self, tx: Tx, action_id: str, sources: Iterable[Label]) -> None:
        for label in sources:
            put_label(
                tx,
                self._clock,
                root=self._root,
                path=HELD + action_id,
                label=label,
                content_hash=HOLD,
                size=0,
                mtime_ns=0,
            )

    def held(self, action_id: str) -> tuple[Label, ...]:
        """The labels an action holds the workspace with, for recovery after a crash."""
        path = HELD + action_id
        return tuple(sorted({row.label for row in path_rows(self._db.reader, self._root, path)}))

    def release(self, tx: Tx, action_id: str) -> None:
        """The action has ended and what it touched is marked."""
        drop_path_labels(tx, self._root, HELD + action_id)

    def vouched(self, path: str) -> list[LabelRow]:
        """The labels that go when the owner vouches for a path: its own, those below it, and those of the same bytes.

        A few bytes vouch for nothing but themselves. `/ACTION_ID` names what an action holds.
        """
        rows = label_rows(self._db.reader, self._root, self._limits.rows)
        place = inside(self._workspace, path)
        if place is None:
            return [row for row in rows if row.path == path]
        own = {row for row in rows if not row.path.startswith(HELD) and _below(row.path, place)}
        contents = {row.content_hash for row in own}
        now = Reading(self._workspace).see(place)
        if now is not None:
            contents.add(now.content_hash)
            if now.content_hash == FOLDER:
                contents |= self._question().bearing(place).keys()
        contents.discard(UNREAD)  # which says nothing of what it holds
        return [
            row for row in rows if row in own or (row.content_hash in contents and sign_of(row.content_hash, row.size))
        ]

    def forget(self, tx: Tx, rows: Sequence[LabelRow]) -> None:
        """The owner vouches: delete these labels."""
        drop_labels(tx, self._root, rows)


def _in_repository(path: str) -> bool:
    """Whether a path leads into what git keeps."""
    return any(part.casefold() == ".git" for part in path.split("/"))


def _folders(path: str) -> list[str]:
    """The folders a path lies in, the workspace first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts))]


def _may_be(row: LabelRow, content: str, size: int) -> bool:
    """Whether a row speaks of the name, or of a content that is or may be this one."""
    if row.content_hash in (FOLDER, NAME):
        return True
    unknown = row.content_hash == UNREAD or (row.content_hash.startswith("stat:") and row.size == size)
    return bool(content) and (row.content_hash == content or unknown)


def _as_labelled(content: str) -> str:
    """What a snapshot calls a content, as labels call it: of a link only a hash."""
    target = content.removeprefix("link:")
    return f"link:{sha256_hex(os.fsencode(target))}" if target != content else content


def _below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _nearest_text(path: str) -> str:
    """The path, or the nearest folder around it that a row can name."""
    while not is_text(path):
        path = path.rpartition("/")[0]
    return path


def _settled(seen: Seen, *, name_alone: bool) -> Seen:
    """What to keep of it: what cannot be looked at counts until the owner says otherwise, like a folder."""
    if seen.content_hash == CLOSED:
        return msgspec.structs.replace(seen, content_hash=FOLDER)
    if seen.content_hash == FOLDER and name_alone:
        return msgspec.structs.replace(seen, content_hash=NAME)
    return seen
