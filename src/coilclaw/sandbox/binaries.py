"""Which programs exist inside a box: everything the system has less the forbidden ones, or an exact list."""

import os

import msgspec

from coilclaw.packets.errors import ToolError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DIRECTORIES = (*PATH.split(":"), "/usr/games", "/usr/local/games")
_MULTI_CALL = ("busybox", "toybox")
"""One file that is many programs: where a forbidden one may be an applet, the whole file goes."""


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """How the program directories are changed: files made unusable, or directories emptied but for a list."""

    masked: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    offered: tuple[tuple[str, str], ...] = ()
    """(file on this machine, name inside) for every program of an exact list."""


def directories() -> tuple[str, ...]:
    """The real program directories of this machine, each once."""
    real = (os.path.realpath(directory) for directory in _DIRECTORIES)
    return tuple(dict.fromkeys(directory for directory in real if os.path.isdir(directory)))


def freshness() -> tuple[int, ...]:
    """Changes whenever a program is added, replaced or removed, so that a remembered answer can be trusted."""
    return tuple(os.stat(directory).st_mtime_ns for directory in directories())


def forbid(names: tuple[str, ...]) -> Programs:
    """Every file that is a forbidden program, under whatever further names it has."""
    if not names:
        return Programs()
    places = directories()
    shell = os.path.realpath("/bin/sh")
    files: dict[tuple[int, int], str] = {}
    for name in dict.fromkeys((*names, *_MULTI_CALL)):
        if "/" in name or name in {"", ".", ".."}:
            raise ToolError(
                f"The forbidden program {name!r} is not a plain name.", remedy="Name the program without its directory.",
                code="BOX_BAD_PATH", begun=False,
            )  # fmt: skip
        for directory in places:
            target = os.path.realpath(f"{directory}/{name}")
            if not os.path.exists(target) or (name in _MULTI_CALL and name not in names and target == shell):
                continue
            if target == shell and name != os.path.basename(shell) and os.path.basename(shell) in _MULTI_CALL:
                raise _applet(name, shell)
            found = os.stat(target)
            files[found.st_dev, found.st_ino] = target
    masked = set(files.values())
    for directory in places:  # hard links are the same program under another name
        device = os.stat(directory).st_dev
        with os.scandir(directory) as entries:
            masked.update(entry.path for entry in entries if (device, entry.inode()) in files)
    return Programs(masked=tuple(sorted(masked)))


def allow(names: tuple[str, ...], *, shell: bool) -> Programs:
    """Exactly these programs; `shell` adds /bin/sh, which a command given as text is read by."""
    offered: dict[str, str] = {}
    for name in (*names, *(("sh",) if shell else ())):
        for directory in PATH.split(":"):
            file = os.path.realpath(f"{directory}/{name}")
            if "/" not in name and os.path.isfile(file):
                offered.setdefault(f"{os.path.realpath(directory)}/{name}", file)
                break
    if shell:
        offered.setdefault(f"{os.path.realpath('/bin')}/sh", os.path.realpath("/bin/sh"))
    return Programs(emptied=directories(), offered=tuple((file, inside) for inside, file in sorted(offered.items())))


def _applet(name: str, shell: str) -> ToolError:
    return ToolError(
        f"{name!r} is an applet of {shell}, which is also the shell here, so it cannot be taken out of a box.",
        remedy="Install a stand-alone shell such as dash, or take the name off the forbidden list.",
        code="BOX_CANNOT_HOLD", begun=False,
    )  # fmt: skip
