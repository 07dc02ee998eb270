"""Landlock: a process gives up file rights, signals and abstract sockets beyond what is listed. Standard library only.

Rules only ever add to what is allowed, so nothing below an allowed directory can be masked; `stat` and UDP stay open.
"""

import ctypes
import os
import stat
from typing import Final

from coilclaw.sandbox.syscalls import raw

_CREATE, _ADD, _RESTRICT = 444, 445, 446

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
_MAKE_CHAR: Final = 1 << 6
_MAKE_BLOCK: Final = 1 << 11
_TRUNCATE: Final = 1 << 14
_IOCTL_DEV: Final = 1 << 15
_ON_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEV
READS: Final = READ_FILE | READ_DIR
_RIGHTS_SINCE: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""The number of file rights in each version of the interface."""
_TCP_SINCE, _SCOPES_SINCE = 4, 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The kernel's Landlock version; 0 if there is none."""
    try:
        return raw(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1), what="landlock version")
    except OSError:
        return 0


def writes(known: int) -> int:
    """Every right that changes files, as far as this version knows them; device nodes are never granted."""
    rights = (1 << _RIGHTS_SINCE[min(known, 5)]) - 1
    return rights & ~(READS | EXECUTE | _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)


def restrict(rules: list[tuple[str, int]], *, handled: int, network: bool) -> None:
    """Keep only the listed rights among the handled ones; `network` gives up TCP as well. Needs no_new_privs."""
    known = version()
    files = handled & ((1 << _RIGHTS_SINCE[min(known, 5)]) - 1)
    wanted = _Ruleset(files, 3 if network and known >= _TCP_SINCE else 0, 3 if known >= _SCOPES_SINCE else 0)
    size = 8 if known < _TCP_SINCE else 16 if known < _SCOPES_SINCE else 24
    ruleset = raw(_CREATE, ctypes.byref(wanted), ctypes.c_size_t(size), ctypes.c_uint(0), what="landlock ruleset")
    try:
        for path, rights in rules:
            _allow(ruleset, path, rights & files)
        raw(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint(0), what="landlock restrict")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _ON_FILES
        rule = _Beneath(rights, place)
        if rights:
            what = f"landlock rule for {path}"
            raw(_ADD, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint(0), what=what)
    finally:
        os.close(place)
