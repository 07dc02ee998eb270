# ruff: noqa: PTH110, PTH112, PTH114, PTH115 - kernel paths and descriptors; pathlib adds nothing here
"""The inside of a box, as steps that bubblewrap's arguments or our own launcher execute in order.

Nothing is inherited: the root starts empty, and a path exists inside only because a step here put it there.
"""

import os
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.box import BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.binaries import PATH, Programs
from coilclaw.sandbox.guard import Guarded, inside

Kind: TypeAlias = Literal["bind", "again", "tmpfs", "null", "symlink", "file", "dir", "proc", "dev", "seal"]

INSIDE_ID = 1000
"""uid and gid of a boxed process as it sees itself."""
HOME = "/tmp/.home"  # noqa: S108 - inside the box, on its own throw-away tmpfs
_TMP = "/tmp"  # noqa: S108 - inside the box
TMP_BYTES = 128 << 20
_SHM_BYTES = 32 << 20
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
_ETC = (
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
    "/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs",
)  # fmt: skip
SYSTEM_PLACES = (*_SYSTEM, "/etc", "/proc", "/sys", "/dev", "/boot")
"""System paths, which are never a workspace or a mount."""
_FILES = {
    "/etc/passwd": (
        "root:x:0:0:root:/:/usr/sbin/nologin\n"
        f"box:x:{INSIDE_ID}:{INSIDE_ID}:box:{HOME}:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
    ),
    "/etc/group": f"root:x:0:\nbox:x:{INSIDE_ID}:\nnogroup:x:65534:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/hosts": "127.0.0.1 localhost box\n::1 localhost\n",
}
OWN_PLACES = (*_SYSTEM, *_ETC, *_FILES, "/proc", "/sys", "/dev", "/boot", _TMP, "/var/tmp")  # noqa: S108 - inside the box
"""Paths that every box has, or must not have: no mount overlaps them."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of building the inside."""

    kind: Kind
    at: str
    source: str = ""
    """For `bind`: the path on this machine. For `symlink`: where it points."""
    writable: bool = False
    noexec: bool = False
    size: int = 0
    mode: int = 0o755
    text: str = ""


_CONTAINER = (
    Step(kind="tmpfs", at="/sys", size=1 << 16),
    Step(kind="dir", at="/sys/fs/cgroup"),
    Step(kind="file", at="/etc/hostname", text="box\n", mode=0o444),
    Step(kind="dir", at="/run"),
)
"""What Podman looks for, and mounts its own files on."""


def environment(spec: BoxSpec) -> dict[str, str]:
    """The whole environment of the command; what the spec grants wins."""
    start = {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
    return {**start, **dict(spec.environment)}


def command_line(spec: BoxSpec) -> list[str]:
    """The argv of a spec: text is run by the shell, an argv is used as it is."""
    return ["/bin/sh", "-c", spec.command] if isinstance(spec.command, str) else list(spec.command)


def check_workspace(spec: BoxSpec) -> None:
    """Refuse a workspace that would cover, or be inside, the system part of the box."""
    for path in (os.path.normpath(spec.workspace), os.path.realpath(spec.workspace)):
        if any(inside(path, system) or inside(system, path) for system in SYSTEM_PLACES):
            raise ToolError(
                f"{path} cannot be a workspace: it contains, or is inside, a system directory.",
                remedy="Use a separate directory, such as ~/coilclaw-workspace.", code="BOX_BAD_PATH", begun=False,
            )  # fmt: skip


def steps_for(
    spec: BoxSpec,
    *,
    guarded: tuple[Guarded, ...],
    hide: tuple[str, ...],
    programs: Programs,
    source: str,
    mounts: tuple[str, ...] = (),
    container: bool = False,
) -> tuple[Step, ...]:
    """The steps of one box; `source` is the path of the workspace while it is built,
    and `mounts` those of the spec's mounts. What builds a `container` within it looks for control groups in /sys."""
    noexec = spec.workspace_noexec
    return (
        *_system(os.path.normpath(spec.workspace)),
        *_programs(programs),
        Step(kind="proc", at="/proc", writable=container),  # a container gets its own, which a covered one forbids
        *(_CONTAINER if container else ()),
        Step(kind="dev", at="/dev"),
        Step(kind="tmpfs", at="/dev/shm", size=_SHM_BYTES, mode=0o1777, noexec=noexec),  # noqa: S108 - inside the box
        Step(kind="seal", at="/dev"),
        Step(kind="tmpfs", at=_TMP, size=TMP_BYTES, mode=0o1777, noexec=noexec),
        Step(kind="dir", at=HOME, mode=0o700),
        *(step for path in hide for step in _hidden_in_system(path)),
        *_workspace(spec, guarded, source),
        *_mounts(spec, mounts),
        Step(kind="seal", at="/"),
    )


def _system(workspace: str) -> Iterator[Step]:
    for path in _SYSTEM:
        if os.path.islink(path):
            yield Step(kind="symlink", at=path, source=os.readlink(path))
        elif os.path.isdir(path):
            yield Step(kind="bind", at=path, source=path)
    for path in _ETC:
        if os.path.exists(path):
            yield Step(kind="bind", at=path, source=path)
    for path, text in _FILES.items():
        yield Step(kind="file", at=path, text=text, mode=0o444)
    if not inside(workspace, "/var/tmp"):  # noqa: S108 - inside the box
        yield Step(kind="symlink", at="/var/tmp", source=_TMP)  # noqa: S108 - inside the box


def holds_something_shown(path: str, workspace: str) -> bool:
    """Whether a path contains something every box has: hiding /etc leaves its few public files."""
    return any(inside(shown, path) for shown in (*_SYSTEM, *_ETC, *_FILES, "/proc", "/dev", HOME, workspace))


def _visible(path: str) -> bool:
    return any(inside(path, shown) for shown in (*_SYSTEM, *_ETC))


def _masked(at: str, *, directory: bool) -> Iterator[Step]:
    """A directory appears empty; a file can be neither read nor run, because its mount is nodev."""
    if directory:
        yield Step(kind="tmpfs", at=at, size=4096, mode=0o555)
        yield Step(kind="seal", at=at)
    else:
        yield Step(kind="null", at=at)


def _hidden_in_system(path: str) -> Iterator[Step]:
    for spelling in dict.fromkeys((os.path.normpath(path), os.path.realpath(path))):
        if _visible(spelling) and os.path.lexists(spelling) and not os.path.islink(spelling):
            yield from _masked(spelling, directory=os.path.isdir(spelling))


def _programs(programs: Programs) -> Iterator[Step]:
    for path in programs.masked:
        if _visible(path):
            yield Step(kind="null", at=path)
    for path in programs.emptied:
        yield Step(kind="tmpfs", at=path, size=1 << 20)
    for file, at in programs.offered:
        yield Step(kind="bind", at=at, source=file)
    for path in programs.emptied:
        yield Step(kind="seal", at=path)


def _mounts(spec: BoxSpec, sources: tuple[str, ...]) -> Iterator[Step]:
    """Outer mounts before inner; if the workspace is noexec, everything writable is."""
    for mount, source in sorted(zip(spec.mounts, sources, strict=True), key=lambda one: len(one[0].at)):
        noexec = spec.workspace_noexec and mount.writable
        yield Step(kind="bind", at=mount.at, source=source, writable=mount.writable, noexec=noexec)


def _workspace(spec: BoxSpec, guarded: tuple[Guarded, ...], source: str) -> Iterator[Step]:
    root = os.path.normpath(spec.workspace)
    noexec = spec.workspace_noexec
    whole = any(not one.parts for one in guarded)  # the workspace itself is on the read-only list
    writable = spec.workspace_writable and not whole
    yield Step(kind="bind", at=root, source=source, writable=writable, noexec=noexec)
    pinned: set[tuple[str, ...]] = {one.parts for one in guarded}
    frozen = {one.parts for one in guarded if one.rule == "read_only"}
    for one in guarded:
        if not one.parts or (one.rule == "read_only" and not writable):
            continue
        # A name can only be swapped by renaming it or a parent directory: each of those becomes a mount.
        above = [one.parts[:depth] for depth in range(1, len(one.parts))]
        held = not writable or not frozen.isdisjoint(above)  # nothing below a read-only directory can be renamed
        for parts in () if held else (parts for parts in above if parts not in pinned):
            pinned.add(parts)
            yield Step(kind="again", at="/".join((root, *parts)), writable=True, noexec=noexec)
        at = "/".join((root, *one.parts))
        if one.rule == "read_only":
            yield Step(kind="again", at=at, noexec=noexec)
        else:
            yield from _masked(at, directory=one.found != "file")
