# ruff: noqa: PTH118 - kernel paths and descriptors; pathlib adds nothing here
"""Protected paths of a workspace: what each one is on disk, and how its name is kept from being swapped or made.

A mount can only stand on something that exists. Where a protected path does not exist yet, an empty directory with the
mark `_MARK` as its mode stands in for it while boxes run, and the last box to end takes it away again.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.box import BoxSpec
from coilclaw.packets.errors import BoxUnavailable, ToolError

Rule: TypeAlias = Literal["read_only", "hidden"]
Found: TypeAlias = Literal["dir", "file", "missing"]

_MARK = stat.S_ISVTX
"""Mode of a stand-in: sticky, and open to nobody. Git does not see it, and no program makes such a directory."""
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_WALK = _PLACE | os.O_DIRECTORY


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """One protected path, relative to the workspace; `missing` ones name the first part that does not exist."""

    parts: tuple[str, ...]
    rule: Rule
    found: Found


def inside(path: str, directory: str) -> bool:
    """Whether a normal path is the directory or lies below it."""
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
    """Every protected path of a spec, without those another one already covers. Hidden wins over read-only."""
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
            f"The workspace {workspace} is itself to be hidden, so nothing can run in it.",
            remedy="Use a workspace outside the home of CoilClaw.", code="BOX_BAD_PATH", begun=False,
        )  # fmt: skip
    return {
        parts: rule
        for parts, rule in asked.items()
        if not any(asked.get(parts[:depth]) in {rule, "hidden"} for depth in range(len(parts)))
    }


def _unholdable(parts: tuple[str, ...], why: str) -> ToolError:
    return ToolError(
        f"The protected path {'/'.join(parts)!r} cannot be held by a box: {why}.",
        remedy="Put a real file or directory there that its owner can open.", code="BOX_BAD_PATH", begun=False,
    )  # fmt: skip


def _look(workspace: int, parts: tuple[str, ...]) -> tuple[tuple[str, ...], Found]:
    """What stands at a path, walking name by name and following no link."""
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
            if stat.S_IMODE(found.st_mode) == _MARK and stat.S_ISDIR(found.st_mode):
                return parts[:depth], "missing"  # a stand-in that another box left or still uses
        return parts, "dir" if stat.S_ISDIR(os.fstat(here).st_mode) else "file"
    finally:
        os.close(here)


class Guard:
    """Holds the protected paths of one run; `close` takes the stand-ins away when no other box uses the workspace."""

    def __init__(self, spec: BoxSpec, hide: Iterable[str]) -> None:
        self.guarded: tuple[Guarded, ...] = ()
        self._stand_ins: list[tuple[str, ...]] = []
        try:
            self._workspace = os.open(os.path.normpath(spec.workspace), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(
                f"The workspace {spec.workspace} cannot be opened: {error.strerror}.",
                remedy="Create it with `coilclaw init`.", code="WORKSPACE_MISSING", begun=False,
            ) from error  # fmt: skip
        try:
            self._shared = _lock(self._workspace, fcntl.LOCK_SH)
            self._mode = stat.S_IMODE(os.fstat(self._workspace).st_mode)
            self.guarded = self._survey(spec, hide)
        except BaseException:
            self.close()
            raise

    @property
    def owner(self) -> os.stat_result:
        """Whose workspace it is."""
        return os.fstat(self._workspace)

    def _survey(self, spec: BoxSpec, hide: Iterable[str]) -> tuple[Guarded, ...]:
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
        return tuple(sorted(seen.values(), key=lambda one: (len(one.parts), one.parts)))

    def _stand_in(self, place: tuple[str, ...]) -> None:
        with self._directory(place[:-1]) as parent:
            try:
                os.mkdir(place[-1], _MARK, dir_fd=parent)
            except FileExistsError:
                return
            except OSError as error:
                if error.errno == errno.EROFS:
                    return  # then no box can make it either
                raise BoxUnavailable(
                    f"The protected path {'/'.join(place)!r} does not exist and cannot be held: {error.strerror}.",
                    remedy="Create it, or make its directory writable for the owner of the workspace.",
                ) from error
            owner = self.owner
            if os.geteuid() == 0:
                os.chown(place[-1], owner.st_uid, owner.st_gid, dir_fd=parent, follow_symlinks=False)

    @contextlib.contextmanager
    def _directory(self, parts: tuple[str, ...]) -> Iterator[int]:
        here = os.dup(self._workspace)
        try:
            for name in parts:
                there = os.open(name, _WALK, dir_fd=here)
                os.close(here)
                here = there
            yield here
        finally:
            os.close(here)

    def close(self) -> None:
        """Take stand-ins away if they are still ours and no other box needs them; never fails."""
        try:
            with contextlib.suppress(OSError):  # who may enter the workspace is the owner's to say
                if stat.S_IMODE(os.fstat(self._workspace).st_mode) != self._mode:
                    os.fchmod(self._workspace, self._mode)
            if self._stand_ins and self._shared and _lock(self._workspace, fcntl.LOCK_EX):
                for place in self._stand_ins:
                    with contextlib.suppress(OSError), self._directory(place[:-1]) as parent:
                        found = os.stat(place[-1], dir_fd=parent, follow_symlinks=False)
                        if stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == _MARK:
                            os.rmdir(place[-1], dir_fd=parent)
        finally:
            os.close(self._workspace)


def _lock(descriptor: int, kind: int) -> bool:
    """Try for a few milliseconds: the exclusive lock is only held while stand-ins are taken away."""
    for _ in range(10 if kind == fcntl.LOCK_SH else 1):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.001)
        else:
            return True
    return False
