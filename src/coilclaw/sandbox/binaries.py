# ruff: noqa: PTH110, PTH112, PTH113, PTH116, PTH119 - kernel paths and descriptors; pathlib adds nothing here
"""Which programs exist inside a box: the system's without the forbidden ones, or an exact list."""

import os

import msgspec

from coilclaw.packets.errors import ToolError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DIRECTORIES = (*PATH.split(":"), "/usr/games", "/usr/local/games")
_MULTI_CALL = ("busybox", "toybox")
"""Multi-call binaries: as one of their programs may be forbidden, the whole file is removed."""
_INDISPENSABLE = ("coreutils",)
"""A multi-call binary that most commands need, so it cannot be removed."""


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to the program directories: files masked, or directories emptied except for a list."""

    masked: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    offered: tuple[tuple[str, str], ...] = ()
    """(file on this machine, name inside) for every program of an exact list."""


def directories() -> tuple[str, ...]:
    """The real program directories of this machine, each once."""
    real = (os.path.realpath(directory) for directory in _DIRECTORIES)
    return tuple(dict.fromkeys(directory for directory in real if os.path.isdir(directory)))


def freshness() -> tuple[int, ...]:
    """A fingerprint that changes whenever a program is added, replaced or removed, to validate cached answers."""
    return tuple(_changed(directory) for directory in _DIRECTORIES)


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


def forbid(names: tuple[str, ...]) -> Programs:
    """Every file that is a forbidden program, under all its names."""
    if not names:
        return Programs()
    places = directories()
    shell = os.path.realpath("/bin/sh")
    files: dict[tuple[int, int], str] = {}
    for name in dict.fromkeys((*names, *_MULTI_CALL)):
        if "/" in name or name in {"", ".", ".."}:
            raise ToolError(
                f"The forbidden program {name!r} is not a plain name.", remedy="Leave its directory out.",
                code="BOX_BAD_PATH", begun=False,
            )  # fmt: skip
        for directory in places:
            target = os.path.realpath(f"{directory}/{name}")
            if not os.path.exists(target) or (name in _MULTI_CALL and name not in names and target == shell):
                continue
            if name not in _MULTI_CALL and _indispensable(target, shell):
                raise _applet(name, target)
            found = os.stat(target)
            files[found.st_dev, found.st_ino] = target
    masked = set(files.values())
    for directory in places:  # hard links are the same program under another name
        device = os.stat(directory).st_dev
        with os.scandir(directory) as entries:
            masked.update(entry.path for entry in entries if (device, entry.inode()) in files)
    return Programs(masked=tuple(sorted(masked)))


def allow(names: tuple[str, ...], *, shell: bool) -> Programs:
    """Exactly these programs; `shell` adds /bin/sh, which runs commands given as text."""
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


def _indispensable(target: str, shell: str) -> bool:
    name = os.path.basename(target)
    return name in _INDISPENSABLE or (target == shell and name in _MULTI_CALL)


def _applet(name: str, target: str) -> ToolError:
    return ToolError(
        f"{name!r} is one of many programs in {target}, so it cannot be excluded from a box on its own.",
        remedy="Install the stand-alone programs (dash, coreutils), or remove the name from the forbidden list.",
        code="BOX_CANNOT_HOLD", begun=False,
    )  # fmt: skip
