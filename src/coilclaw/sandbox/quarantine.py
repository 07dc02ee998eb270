"""Quarantine: files of a run that must not stay in the workspace are moved into the home and kept there for the owner.

Before a run the workspace is surveyed and the result stored; the file is locked for as long as the run
lasts. Afterwards the workspace is surveyed again. An unlocked file belongs to a run whose process died: it
is inspected by the next process, before anything else runs.
"""

import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec

from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import Clock, stamp
from coilclaw.sandbox.blob_store import Adding, BlobStore, make_folder
from coilclaw.sandbox.executed import GIT_FILES, GIT_PARTS, Kind, executed_part, folded
from coilclaw.sandbox.files import put_durably, read_existing
from coilclaw.sandbox.moving import folder_of, move_in, move_out
from coilclaw.sandbox.survey import LONGEST, MOST_REPOSITORIES, Facts, Survey, kind_of, part_of, survey

KEPT_BYTES = 32 << 20
"""The earlier content of larger files is not stored. An interpreter that was copied into an environment is smaller."""
KEPT_RUNS = 100
KEPT_DAYS = 30
"""Younger ones are kept however many there are: the owner may be asked about them, or want to look at them."""
SHOWN_BYTES = 64 << 10
"""The largest held file whose content is shown."""
ROUNDS = 20

Reason: TypeAlias = Literal["repository", "name", "deep"]
"""repository: git would treat it as one · name: other programs execute it · deep: too deep to inspect."""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A name's content and its fingerprint."""

    facts: Facts
    content: str
    """SHA-256; empty if it was not stored."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One moved entry."""

    path: str
    """Its path in the workspace."""
    place: str
    """Its name in the run's quarantine."""
    reason: Reason
    before: str = ""
    """SHA-256 of the earlier content, which was restored; empty if there was none."""
    lost: bool = False
    """There was something before, and it could not be restored."""
    placed: bool = False
    """The owner released it."""


class HeldFile(msgspec.Struct, frozen=True, kw_only=True):
    """One held file, for the owner to look at."""

    path: str
    place: str
    """Where it is now."""
    content: str
    """SHA-256, or a link's target."""
    size: int
    data: bytes | None
    """None if it is too large to be shown, or no regular file."""
    before: bytes | None
    """The earlier content, which was restored; None if there was none or it is too large."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace before a run, and what the run may leave there."""

    action_id: str
    tainted: bool
    names: bool
    """Whether names that other programs execute are inspected."""
    allowed: tuple[str, ...]
    """Such names that the owner approved."""
    before: Survey
    kept: dict[str, Kept]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was moved after a run."""

    action_id: str
    time: str
    tainted: bool
    items: tuple[Item, ...]

    def of(self, *reasons: Reason) -> tuple[Item, ...]:
        """Those moved for one of these reasons."""
        return tuple(item for item in self.items if item.reason in reasons)


def _written(value: object) -> bytes:
    """As JSON; the standard library's, because a name need not be text."""
    return json.dumps(msgspec.to_builtins(value)).encode()


_T = TypeVar("_T")


def _read_as(data: bytes, kind: type[_T]) -> _T:
    return msgspec.convert(json.loads(data), kind)


class Quarantine:
    """The quarantine of one home and its workspace."""

    def __init__(self, workspace: Path, folder: Path, clock: Clock) -> None:
        self.workspace = workspace
        self.folder = folder
        self._runs = folder / "runs"
        self._contents = BlobStore(folder / "kept")
        self._clock = clock
        self._open: dict[str, tuple[int, Run]] = {}

    # Before a run

    def repositories(self, action_id: str) -> tuple[str, ...]:
        """The repositories there were when a run began."""
        _, run = self._open.get(action_id, (-1, None))
        return tuple(run.before.repositories) if run is not None else ()

    def begin(self, action_id: str, *, tainted: bool, names: bool, allowed: tuple[str, ...], links: bool) -> Survey:
        """Store a survey of the workspace. With `links`, files that are linked outside it are found too."""
        self.settle_left()
        found = survey(self.workspace, links=links)
        if len(found.repositories) > MOST_REPOSITORIES:
            raise ToolError(
                f"the workspace contains more than {MOST_REPOSITORIES} repositories, too many to protect in a box.",
                remedy="Move some of them elsewhere, then try again.",
                code="WORKSPACE_TOO_LARGE",
                begun=False,
            )
        before = msgspec.structs.replace(found, linked=[])
        kept = self._keep(before) if names else {}
        run = Run(action_id=action_id, tainted=tainted, names=names, allowed=allowed, before=before, kept=kept)
        make_folder(self._runs)
        fd = os.open(self._runs / f"{action_id}.json", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.ftruncate(fd, 0)
            os.write(fd, _written(run))
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        self._open[action_id] = (fd, run)
        return found

    def _keep(self, before: Survey) -> dict[str, Kept]:
        """The content of every such name; only what changed since it was last stored is read."""
        index = self.folder / "kept.json"
        try:
            known = _read_as(index.read_bytes(), dict[str, Kept])
        except (OSError, ValueError):
            known = {}
        kept: dict[str, Kept] = {}
        with Adding(self._contents) as adding:
            for path, facts in before.names.items():
                old = known.get(path)
                is_large = facts.size > KEPT_BYTES
                if old is not None and old.facts == facts and (is_large or self._seems_kept(old)):
                    kept[path] = old
                    continue
                data = self._read(path, facts)
                kept[path] = Kept(facts, "" if data is None else adding.add(data))
            adding.settle()
        if kept != known:
            make_folder(self.folder)
            self._put("kept.json", _written(kept))
            self._forget({each.content for each in known.values()} - {each.content for each in kept.values()})
        return kept

    def _seems_kept(self, kept: Kept) -> bool:
        return bool(kept.content) and self._contents.seems_there(kept.content)

    def _forget(self, contents: set[str]) -> None:
        """Delete contents that no name has any more, unless another run may need them."""
        if not self._open and not any(self._runs.glob("*.json")):
            for content in contents - {""}:
                self._contents.place(content).unlink(missing_ok=True)

    def _read(self, path: str, facts: Facts) -> bytes | None:
        """The content of a name; for a link, its target."""
        if stat.S_ISLNK(facts.mode):
            with suppress(OSError), folder_of(self.workspace, path) as (parent, name):
                return b"link:" + os.fsencode(os.readlink(name, dir_fd=parent))
            return None
        return read_existing(self.workspace, path, KEPT_BYTES) if stat.S_ISREG(facts.mode) else None

    # After a run

    @property
    def under_way(self) -> frozenset[str]:
        """The runs of this process that have begun and not ended."""
        return frozenset(self._open)

    def end(self, action_id: str) -> Found | None:
        """Inspect the results of a run, move what must not stay, and return it. None if there was nothing.

        Failures are raised, and the survey stays: the next run tries again.
        """
        fd, run = self._open.pop(action_id, (-1, None))
        if run is None:  # of a dead process: another process may have handled it already
            self.settle_left()
            return self.found(action_id)
        try:
            self._settle(run)
            (self._runs / f"{action_id}.json").unlink(missing_ok=True)
        finally:
            os.close(fd)
        return self.found(action_id)

    def forget(self, action_id: str) -> None:
        """Remove the survey of a run that never started."""
        (self._runs / f"{action_id}.json").unlink(missing_ok=True)

    def settle_left(self) -> None:
        """Inspect the runs of dead processes."""
        if not self._runs.is_dir():
            return
        for path in sorted(self._runs.glob("*.json")):
            if path.stem in self._open:
                continue
            with suppress(FileNotFoundError):
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._settle_file(path)
                except BlockingIOError:
                    continue  # it is running
                finally:
                    os.close(fd)

    def _settle_file(self, path: Path) -> None:
        data = path.read_bytes()
        try:
            run = _read_as(data, Run)
        except ValueError:  # incomplete: then the run never started
            path.unlink(missing_ok=True)
            return
        self._settle(run)
        path.unlink(missing_ok=True)

    def _settle(self, run: Run) -> None:
        self._contents.look_anew()  # another process may have stored the content to restore
        for _ in range(ROUNDS):
            after = survey(self.workspace, closed=frozenset(run.before.unseen))
            finds = list(dict.fromkeys(self._finds(run, after)))
            if not finds:
                return
            self._take(run, finds)
        raise ToolError(
            "what it created in the workspace could not be moved away.",
            remedy=f"Look at the workspace, then at {self.folder}; nothing runs until that succeeds.",
            code="NOT_INSPECTED",
        )

    def _finds(self, run: Run, after: Survey) -> Iterator[tuple[str, Reason]]:
        for path, identity in after.repositories.items():
            if run.before.repositories.get(path) != identity:
                for each in self._git_paths(path, run.before, after):
                    yield each, "repository"
        for path in set(after.unseen) - set(run.before.unseen):
            yield _short_of(path), "deep"
        for path in self._changed_names(run, after) if run.names else ():
            yield path, "name"

    def _git_paths(self, path: str, before: Survey, after: Survey) -> Iterator[str]:
        """What to move so that git sees no repository there; earlier files stay."""
        if path not in after.parts:  # a .git
            yield path
            return
        had = before.parts.get(path, [])
        with os.scandir(self.workspace / path) as found:
            names: dict[str, tuple[str, Kind]] = {entry.name: (folded(entry.name), kind_of(entry)) for entry in found}
        below = f"{path}/" if path else ""
        parts = {name: each for name, each in names.items() if each[0] in GIT_PARTS}
        if had:
            new = [name for name, each in parts.items() if part_of(*each) not in had]
            yield from (f"{below}{name}" for name in new or [name for name in parts if folded(name) == "head"])
        elif path and all(plain in GIT_FILES for plain, _ in names.values()):
            yield path
        else:
            yield from (f"{below}{name}" for name, (plain, _) in names.items() if plain in GIT_FILES)

    def _changed_names(self, run: Run, after: Survey) -> Iterator[str]:
        """Names that are new or changed, unless the owner approved them; an entirely new folder moves as a whole."""
        for path, facts in after.names.items():
            if any(path == each or path.startswith(f"{each}/") for each in run.allowed):
                continue
            was = run.kept.get(path)
            if was is None:
                top = executed_part(path, link=stat.S_ISLNK(facts.mode))
                yield path if any(each.startswith(f"{top}/") for each in run.kept) else top
            elif was.facts != facts and not self._is_same(path, was, facts):
                yield path

    def _is_same(self, path: str, was: Kept, now: Facts) -> bool:
        if was.facts.mode != now.mode or not was.content:  # size and time can be set to what they were
            return False
        data = self._read(path, now)
        return data is not None and sha256_hex(data) == was.content

    def _take(self, run: Run, finds: list[tuple[str, Reason]]) -> None:
        """Move these away: recorded first, so that a crash loses track of nothing."""
        folder = self.folder / run.action_id
        make_folder(folder)
        known = self.found(run.action_id)
        items = list(known.items) if known is not None else []
        fresh: list[Item] = []
        for path, reason in finds:
            was = run.kept.get(path) if reason == "name" else None
            place = str(len(items) + len(fresh))
            before = was.content if was is not None and self._seems_kept(was) else ""
            fresh.append(
                Item(path=path, place=place, reason=reason, before=before, lost=was is not None and not before)
            )
        self._write(
            Found(action_id=run.action_id, time=stamp(self._clock()), tainted=run.tainted, items=(*items, *fresh))
        )
        for item in fresh:
            with suppress(FileNotFoundError):  # moved with a parent
                move_out(self.workspace, item.path, folder / item.place)
                _defuse(folder / item.place)
                if item.before:
                    self._put_back(item.path, run.kept.get(item.path))
                for path, was in run.kept.items() if run.tainted else ():
                    if path.startswith(f"{item.path}/"):  # a folder that it took the place of
                        self._put_back(path, was)
        self._prune(keep=run.action_id)

    def _put_back(self, path: str, was: Kept | None) -> None:
        data = self._contents.read(was.content) if was is not None and was.content else None
        if data is None or was is None:
            return
        with folder_of(self.workspace, path, make=True) as (parent, name):
            if stat.S_ISLNK(was.facts.mode):
                os.symlink(os.fsdecode(data.removeprefix(b"link:")), name, dir_fd=parent)
            else:
                put_durably(parent, name, data, stat.S_IMODE(was.facts.mode))

    # Findings

    def found(self, action_id: str) -> Found | None:
        """What was moved after a run, if anything was."""
        try:
            return _read_as((self.folder / action_id / "found.json").read_bytes(), Found)
        except (OSError, ValueError):
            return None

    def held(self, action_id: str) -> dict[str, str]:
        """Every held file of a run that may be released, with its content: a hash, or a link's target."""
        found = self.found(action_id)
        held: dict[str, str] = {}
        for item in found.of("name") if found is not None else ():
            place = self.folder / action_id / item.place
            if place.is_dir() and not place.is_symlink():
                below = sorted(each for each in place.rglob("*") if each.is_symlink() or not each.is_dir())
                held.update({f"{item.path}/{each.relative_to(place)}": _content_of(each) for each in below})
            elif os.path.lexists(place):
                held[item.path] = _content_of(place)
        return held

    def shown(self, action_id: str) -> list[HeldFile]:
        """The held files of a run with their content, as far as that can be shown."""
        found = self.found(action_id)
        earlier = {item.path: item.before for item in found.of("name")} if found is not None else {}
        shown: list[HeldFile] = []
        for path, content in self.held(action_id).items():
            place = self._place_of(action_id, path)
            info = place.lstat()
            plain = stat.S_ISREG(info.st_mode) and info.st_size <= SHOWN_BYTES
            before = self._contents.read(earlier[path]) if earlier.get(path) else None
            shown.append(
                HeldFile(
                    path=path,
                    place=str(place),
                    content=content,
                    size=info.st_size,
                    data=place.read_bytes() if plain else None,
                    before=before if before is not None and len(before) <= SHOWN_BYTES else None,
                )
            )
        return shown

    def _place_of(self, action_id: str, path: str) -> Path:
        found = self.found(action_id)
        items = found.of("name") if found is not None else ()
        top = next(item for item in items if path == item.path or path.startswith(f"{item.path}/"))
        return self.folder / action_id / top.place / path.removeprefix(top.path).lstrip("/")

    def release(self, action_id: str, files: dict[str, str]) -> list[str]:
        """Release a run's held files at the owner's request, if they are still what the owner was shown."""
        found = self.found(action_id)
        held = self.held(action_id)
        if found is None or not all(files.get(path) == content for path, content in held.items()):
            raise ToolError("the held files are not the ones that were shown.", code="NOTHING_HELD", begun=False)
        for number, item in enumerate(found.items):
            source = self.folder / action_id / item.place
            if item.reason != "name" or not os.path.lexists(source):
                continue  # an earlier attempt did it
            try:
                move_in(source, self.workspace, item.path, replace=self._holds_before(item))
            except OSError as error:
                raise ToolError(
                    f"{item.path} cannot be put in place: {error.strerror}.",
                    remedy="Check what is there now; the held files are kept.", code="FILE_ERROR",
                ) from error  # fmt: skip
            found = msgspec.structs.replace(
                found,
                items=(*found.items[:number], msgspec.structs.replace(item, placed=True), *found.items[number + 1 :]),
            )
            self._write(found)
        return sorted(files)

    def _holds_before(self, item: Item) -> bool:
        """Whether the present content is still what was restored when the item was moved."""
        try:
            facts = Facts.of(os.lstat(self.workspace / item.path))
        except OSError:
            return False
        data = self._read(item.path, facts)
        return bool(item.before) and data is not None and sha256_hex(data) == item.before

    def _write(self, found: Found) -> None:
        self._put(f"{found.action_id}/found.json", _written(found))

    def _put(self, relative: str, data: bytes) -> None:
        with folder_of(self.folder, relative) as (parent, name):
            put_durably(parent, name, data, 0o600)

    def _prune(self, keep: str) -> None:
        """Delete the oldest beyond the limit, but none that is young."""
        runs = sorted(path for path in self.folder.iterdir() if path.name.startswith("act_") and path.name != keep)
        since = stamp(self._clock() - timedelta(days=KEPT_DAYS))
        for path in runs[: max(0, len(runs) - KEPT_RUNS + 1)]:
            found = self.found(path.name)
            if found is None or found.time < since:
                shutil.rmtree(path, ignore_errors=True)


def _content_of(path: Path) -> str:
    if path.is_symlink():
        return f"link:{path.readlink()}"
    if not path.is_file():
        return "special"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _short_of(path: str) -> str:
    """The parent of a path that is too deep, high enough to be moved."""
    while len(path) > LONGEST:
        path = path.rpartition("/")[0]
    return path


def _defuse(place: Path) -> None:
    """A name under which git does not treat it as a repository in the home either."""
    with suppress(OSError):
        if place.is_dir() and not place.is_symlink():
            heads = [entry.path for entry in os.scandir(place) if folded(entry.name) == "head"]
            for number, path in enumerate(sorted(heads)):
                Path(path).rename(place / f"HEAD.held{number or ''}")
