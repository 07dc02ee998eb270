# ruff: noqa: PTH116, PTH118 - kernel paths and descriptors; pathlib adds nothing here
"""Protected paths of a workspace: what each one is on disk, and how its name is kept from being swapped or created.

A mount needs an existing target. If a protected path does not exist yet, an empty directory with the
mode `_MARK` replaces it while boxes run, and the last box to end removes it.

Every box holds the workspace's shared lock from before the survey until it is dead; replacing a protected file
needs the exclusive one. Without the lock no box runs: a replaced file loses its mount in every running box.
An open box is no exception if it can write: it belongs in its own folder, or the owner's files
could not be written for hours. A read-only one releases the lock once it started, so it can hide nothing there.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.box import BoxSpec
from coilclaw.packets.errors import BoxUnavailable, ToolError

Rule: TypeAlias = Literal["read_only", "hidden"]
Found: TypeAlias = Literal["dir", "file", "missing"]

_MARK = stat.S_ISVTX
"""Mode of a placeholder: sticky, without permissions. Git does not see it, and no program creates such a directory."""
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_WALK = _PLACE | os.O_DIRECTORY
_LOCK_SECONDS = 3.0
_LOCK_EVERY = 0.005


def is_stand_in(mode: int) -> bool:
    """Whether a directory with that mode is a placeholder, in use or left by a killed box."""
    return stat.S_ISDIR(mode) and stat.S_IMODE(mode) == _MARK


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """One protected path, relative to the workspace; `missing` ones name the first part that does not exist."""

    parts: tuple[str, ...]
    rule: Rule
    found: Found


def inside(path: str, directory: str) -> bool:
    """Whether a normalised path is the directory or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _parts(workspace: str, path: str) -> tuple[str, ...]:
    whole = os.path.normpath(os.path.join(workspace, path))
    if "\0" in path or not inside(whole, workspace):
        raise ToolError(
            f"The protected path {path!r} is not inside the workspace {workspace}.",
            remedy="Name protected paths relative to the workspace.", code="BOX_BAD_PATH", begun=False,
        )  # fmt: skip
    return tuple(part for part in whole[len(workspace) :].split("/") if part)


def rules_of(spec: BoxSpec, hide: Iterable[str]) -> dict[tuple[str, ...], Rule]:
    """Every protected path of a spec, without those covered by another. Hidden wins over read-only."""
    workspace = os.path.normpath(spec.workspace)
    real = os.path.realpath(workspace)
    asked: dict[tuple[str, ...], Rule] = {_parts(workspace, path): "read_only" for path in spec.read_only}
    asked.update({_parts(workspace, path): "hidden" for path in spec.hidden})
    for path in hide:
        for spelling in {os.path.normpath(path), os.path.realpath(path)}:
            for root in {workspace, real}:
                if inside(spelling, root):
                    asked[_parts(root, spelling)] = "hidden"
    if asked.get(()) == "hidden":
        raise ToolError(
            f"The workspace {workspace} is a hidden path, so nothing can run in it.",
            remedy="Use a workspace outside the home of CoilClaw.", code="BOX_BAD_PATH", begun=False,
        )  # fmt: skip
    return {
        parts: rule
        for parts, rule in asked.items()
        if not any(asked.get(parts[:depth]) in {rule, "hidden"} for depth in range(len(parts)))
    }


def _unholdable(parts: tuple[str, ...], why: str) -> ToolError:
    return ToolError(
        f"The protected path {'/'.join(parts)!r} cannot be protected by a box: {why}.",
        remedy="Put a real file or directory there that its owner can open.", code="BOX_BAD_PATH", begun=False,
    )  # fmt: skip


def _look(workspace: int, parts: tuple[str, ...]) -> tuple[tuple[str, ...], Found]:
    """What is at a path, walking name by name without following links."""
    here = os.dup(workspace)
    try:
        for depth, name in enumerate(parts, start=1):
            try:
                there = os.open(name, _PLACE, dir_fd=here)
            except FileNotFoundError:
                return parts[:depth], "missing"
            except OSError as error:
                raise _unholdable(parts[:depth], error.strerror or "it cannot be opened") from error
            os.close(here)
            here = there
            found = os.fstat(here)
            if stat.S_ISLNK(found.st_mode) or not (stat.S_ISDIR(found.st_mode) or depth == len(parts)):
                raise _unholdable(parts[:depth], "it is a symbolic link, or not a directory")
            if is_stand_in(found.st_mode):
                return parts[:depth], "missing"  # a placeholder that another box left or still uses
        return parts, "dir" if stat.S_ISDIR(os.fstat(here).st_mode) else "file"
    finally:
        os.close(here)


def _busy(why: str) -> ToolError:
    return ToolError(why, remedy="Try again in a moment.", code="WORKSPACE_BUSY", begun=False)


async def hold(spec: BoxSpec, hide: Iterable[str], *, lasting: bool = False) -> "Guard":
    """Lock the workspace and pin its protected paths; refuses if others keep the lock."""
    brief = lasting and not spec.workspace_writable
    if brief and "hidden" in rules_of(spec, hide).values():
        raise ToolError(
            "A box that stays open cannot hide anything in a workspace it only reads: what comes later would show.",
            remedy="Give it its own folder.", code="BOX_CANNOT_HOLD", begun=False,
        )  # fmt: skip
    guard = Guard(spec, brief=brief)
    try:
        await guard.lock()
        guard.survey(spec, hide)
    except BaseException:
        guard.close()
        raise
    return guard


class Guard:
    """Holds the protected paths of one run; `close` removes the placeholders if no other box uses the workspace."""

    def __init__(self, spec: BoxSpec, *, brief: bool = False) -> None:
        """`brief`: the lock is released as soon as the command may start."""
        self._brief = brief
        self.guarded: tuple[Guarded, ...] = ()
        self._stand_ins: list[tuple[str, ...]] = []
        self._pinned: dict[tuple[str, ...], int] = {}
        """A descriptor of each protected path and its parents: while it is open, its inode is not reused."""
        self._changed: dict[tuple[str, ...], int] = {}
        self._locked = False
        self._path = os.path.normpath(spec.workspace)
        try:
            self._workspace = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(
                f"The workspace {spec.workspace} cannot be opened: {error.strerror}.",
                remedy="Create it with `coilclaw init`.", code="WORKSPACE_MISSING", begun=False,
            ) from error  # fmt: skip
        self._mode = stat.S_IMODE(os.fstat(self._workspace).st_mode)

    async def lock(self) -> None:
        """Wait for the shared lock; refused if somebody keeps the exclusive one for longer than a write takes."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _LOCK_SECONDS
        while not _lock(self._workspace, fcntl.LOCK_SH):
            if loop.time() > deadline:
                raise _busy("One of the owner's files in the workspace is being written, so no command can start.")
            await asyncio.sleep(_LOCK_EVERY)
        self._locked = True
        self._mode = stat.S_IMODE(os.fstat(self._workspace).st_mode)

    @property
    def owner(self) -> os.stat_result:
        """The workspace's owner."""
        return os.fstat(self._workspace)

    def survey(self, spec: BoxSpec, hide: Iterable[str]) -> None:
        """Record what is at every protected path, and create placeholders."""
        seen: dict[tuple[str, ...], Guarded] = {}
        for parts, rule in sorted(rules_of(spec, hide).items()):
            place, found = _look(self._workspace, parts)
            if found == "missing":
                if not spec.workspace_writable:
                    continue
                self._stand_ins.append(place)
                self._stand_in(place)
                seen[place] = Guarded(parts=place, rule="hidden", found="missing")
            elif rule == "hidden" or spec.workspace_writable:
                seen.setdefault(place, Guarded(parts=place, rule=rule, found=found))
        self.guarded = tuple(sorted(seen.values(), key=lambda one: (len(one.parts), one.parts)))
        for one in self.guarded:
            self._pin(one.parts)

    def _pin(self, parts: tuple[str, ...]) -> None:
        above = self._workspace
        for depth, name in enumerate(parts, start=1):
            here = parts[:depth]
            if here not in self._pinned:
                try:
                    self._pinned[here] = os.open(name, _PLACE, dir_fd=above)
                except FileNotFoundError:
                    return  # no placeholder on a read-only file system
                except OSError as error:
                    raise _unholdable(here, error.strerror or "it cannot be opened") from error
                self._changed[here] = _change(os.fstat(self._pinned[here]))
            above = self._pinned[here]

    def check(self) -> None:
        """Refuse if a protected path, or a parent, changed since the survey: it would be unprotected."""
        try:
            same = _same(os.stat(self._path), os.fstat(self._workspace))
            for parts, pinned in self._pinned.items():
                above = self._pinned.get(parts[:-1], self._workspace)
                there = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
                same = same and _same(there, os.fstat(pinned)) and self._changed[parts] == _change(there)
        except OSError:
            same = False
        if not same:
            raise _busy("A protected path in the workspace was replaced while the command was starting.")
        self._unpin()
        if self._brief:
            fcntl.flock(self._workspace, fcntl.LOCK_UN)
            self._locked = False

    def _unpin(self) -> None:
        while self._pinned:
            os.close(self._pinned.popitem()[1])

    def _stand_in(self, place: tuple[str, ...]) -> None:
        with _directory(self._workspace, place[:-1]) as parent:
            try:
                os.mkdir(place[-1], _MARK, dir_fd=parent)
            except FileExistsError:
                return
            except OSError as error:
                if error.errno == errno.EROFS:
                    return  # then no box can create it either
                raise BoxUnavailable(
                    f"The protected path {'/'.join(place)!r} does not exist and cannot be protected: {error.strerror}.",
                    remedy="Create it, or make its directory writable for the owner of the workspace.",
                ) from error
            owner = self.owner
            if os.geteuid() == 0:
                os.chown(place[-1], owner.st_uid, owner.st_gid, dir_fd=parent, follow_symlinks=False)

    def close(self) -> None:
        """Remove placeholders if they are still ours and no other box needs them; never fails."""
        self._unpin()
        try:
            with contextlib.suppress(OSError):  # restore the owner's permissions
                if stat.S_IMODE(os.fstat(self._workspace).st_mode) != self._mode:
                    os.fchmod(self._workspace, self._mode)
            if self._stand_ins and self._locked and _lock(self._workspace, fcntl.LOCK_EX):
                for place in self._stand_ins:
                    with contextlib.suppress(OSError), _directory(self._workspace, place[:-1]) as parent:
                        _remove_stand_in(place[-1], parent)
        finally:
            os.close(self._workspace)


def clear_stand_in(workspace: int, parts: tuple[str, ...]) -> None:
    """Remove a killed box's placeholders at a path or above it. Requires the exclusive lock."""
    place, found = _look(workspace, parts)
    if found == "missing":
        with contextlib.suppress(OSError), _directory(workspace, place[:-1]) as parent:
            _remove_stand_in(place[-1], parent)


def _remove_stand_in(name: str, parent: int) -> None:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if is_stand_in(found.st_mode):
        os.rmdir(name, dir_fd=parent)


@contextlib.contextmanager
def _directory(workspace: int, parts: tuple[str, ...]) -> Iterator[int]:
    here = os.dup(workspace)
    try:
        for name in parts:
            there = os.open(name, _WALK, dir_fd=here)
            os.close(here)
            here = there
        yield here
    finally:
        os.close(here)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _change(found: os.stat_result) -> int:
    """A file's change time. A file that was unlinked and linked again is the same, but its mounts are gone."""
    return 0 if stat.S_ISDIR(found.st_mode) else found.st_ctime_ns
