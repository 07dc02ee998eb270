# ruff: noqa: PTH117, PTH118, PTH120, PTH123 - kernel paths and descriptors; pathlib adds nothing here
"""Extra files and folders of this machine inside a box: which are refused, and that they did not change since.

A mount must not open a second way to hidden or protected paths. So nothing in it, around it or mounted below it may be
hidden, and it must not overlap the workspace, whose own rules would not apply in it.
"""

import os
import stat

from coilclaw.packets.box import BoxMount, BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.guard import inside
from coilclaw.sandbox.layout import OWN_PLACES, SYSTEM_PLACES

_MOST = 32
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_RUNTIME = ("/run", "/var/run")
"""Where other programs keep their sockets and keys."""


def _refusal(mount: BoxMount, why: str) -> ToolError:
    return ToolError(
        f"{mount.source} cannot be mounted at {mount.at} in a box: {why}.",
        remedy="Mount a separate folder, outside the home and the workspace.", code="BOX_BAD_PATH", begun=False,
    )  # fmt: skip


def _overlap(one: str, other: str) -> bool:
    return inside(one, other) or inside(other, one)


def admit_mounts(spec: BoxSpec, hide: tuple[str, ...]) -> None:
    """Refuse mounts that do not exist, cover something, or show hidden paths."""
    if len(spec.mounts) > _MOST:
        raise _refusal(spec.mounts[_MOST], f"a box has at most {_MOST} mounts")
    workspace = {os.path.normpath(spec.workspace), os.path.realpath(spec.workspace)}
    hidden = {spelling for path in hide for spelling in (os.path.normpath(path), os.path.realpath(path))}
    points = _mount_points() if spec.mounts else []
    for mount in spec.mounts:
        _admit_spelling(mount)
        _admit_source(mount, workspace, hidden, points)
        if any(_overlap(mount.at, place) for place in OWN_PLACES):
            raise _refusal(mount, "every box has its own directory there")
        if any(_overlap(mount.at, place) for place in workspace):
            raise _refusal(mount, "it overlaps the workspace")
    for number, mount in enumerate(spec.mounts):
        for other in spec.mounts[:number]:
            _admit_pair(*sorted((mount, other), key=lambda one: len(one.at)))
        _admit_depth(mount, spec.mounts)


def _admit_spelling(mount: BoxMount) -> None:
    for path in (mount.source, mount.at):
        if "\0" in path or not os.path.isabs(path) or os.path.normpath(path) != path or path.startswith("//"):
            raise _refusal(mount, f"{path!r} is not an absolute path in its plain spelling")


def _admit_source(mount: BoxMount, workspace: set[str], hidden: set[str], points: list[str]) -> None:
    source = mount.source
    if os.path.realpath(source) != source:
        raise _refusal(mount, "there is a symbolic link on the way to it")
    kind = _kind(source)
    if kind == "other":
        raise _refusal(mount, "it is neither a folder nor a regular file")
    if any(_overlap(source, place) for place in (*SYSTEM_PLACES, *_RUNTIME)):
        raise _refusal(mount, "it contains, or is inside, a system directory")
    if any(_overlap(source, path) for path in hidden):
        raise _refusal(mount, "it contains, or is inside, a path that boxes hide")
    if any(_overlap(source, path) for path in workspace):
        raise _refusal(mount, "it overlaps the workspace")
    if any(point != source and inside(point, source) for point in points):
        raise _refusal(mount, "another file system is mounted in it")


def _admit_pair(outer: BoxMount, inner: BoxMount) -> None:
    within = _overlap(outer.at, inner.at)
    below = os.path.relpath(inner.at, outer.at) if within else ""
    # Two views of one place would let the stricter one be written through the other. On its own place a mount covers
    # what the outer one shows there, so there is one view.
    on_its_place = within and below != "." and os.path.join(outer.source, below) == inner.source
    if _overlap(outer.source, inner.source) and (outer.writable or inner.writable) and not on_its_place:
        raise _refusal(inner, f"{outer.source} shows the same files, and one of them may be written")
    if not within:
        return
    place = os.path.join(outer.source, below)
    if os.path.realpath(place) != place or _kind(place) != _kind(inner.source):
        raise _refusal(inner, f"{place} must exist, be of the same kind, and not be a link")


def _admit_depth(inner: BoxMount, mounts: tuple[BoxMount, ...]) -> None:
    """Every folder on the way from a writable mount must be a mount itself: any other could be renamed and replaced."""
    around = [one for one in mounts if one is not inner and inside(inner.at, one.at)]
    outer = max(around, key=lambda one: len(one.at), default=None)
    if outer is not None and outer.writable and os.path.dirname(inner.at) != outer.at:
        raise _refusal(inner, f"it must stand directly in {outer.at}, or beside it")


def _kind(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "other"
    return "dir" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def _mount_points() -> list[str]:
    with open("/proc/self/mountinfo", "rb") as lines:
        points = [line.split()[4] for line in lines]
    return [os.fsdecode(_unescaped(point)) for point in points]


def _unescaped(point: bytes) -> bytes:
    for escape, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        point = point.replace(escape, byte)
    return point


class Pins:
    """Descriptors of every mount's source: while one is open, its inode is not reused."""

    def __init__(self, spec: BoxSpec, hide: tuple[str, ...]) -> None:
        admit_mounts(spec, hide)
        self._spec = spec
        self._hide = hide
        self._pinned: dict[str, int] = {}
        try:
            for mount in spec.mounts:
                self._pinned[mount.source] = os.open(mount.source, _PLACE)
        except OSError as error:
            self.close()
            raise ToolError(
                f"{error.filename} cannot be mounted in a box: {error.strerror}.",
                remedy="Name one that can be opened.", code="BOX_BAD_PATH", begun=False,
            ) from error  # fmt: skip

    def owner(self, source: str) -> os.stat_result:
        """The files' owners."""
        return os.fstat(self._pinned[source])

    def check(self) -> None:
        """Refuse if anything changed: the box is built by now, and the command has not started."""
        admit_mounts(self._spec, self._hide)
        for mount in self._spec.mounts:
            if not os.path.samestat(os.lstat(mount.source), self.owner(mount.source)):
                raise _refusal(mount, "it was replaced while the command was about to start")

    def close(self) -> None:
        """Close all of them."""
        while self._pinned:
            os.close(self._pinned.popitem()[1])
