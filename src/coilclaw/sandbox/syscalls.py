# ruff: noqa: PTH123 - kernel paths and descriptors; pathlib adds nothing here
"""Kernel calls that Python does not wrap, for x86-64 and aarch64. Standard library only: the launcher imports it."""

import ctypes
import os
from functools import cache
from typing import Final

CLONE_FS: Final = 0x0000_0200
CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWCGROUP: Final = 0x0200_0000
CLONE_NEWUTS: Final = 0x0400_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000
CLONE_NEWNET: Final = 0x4000_0000

MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2

ATTR_RDONLY: Final = 0x1
ATTR_NOSUID: Final = 0x2
ATTR_NODEV: Final = 0x4
ATTR_NOEXEC: Final = 0x8
ATTR_IDMAP: Final = 0x0010_0000

_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_OPEN_TREE_CLOEXEC: Final = os.O_CLOEXEC
_MOVE_FROM_FD: Final = 0x04
_MOVE_ONTO_FD: Final = 0x40
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38

# The calls added since 2019 have one number on every architecture; the older ones do not.
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_OLD_NUMBERS: Final = {
    "x86_64": {"pivot_root": 155, "setresuid": 117, "setresgid": 119, "setgroups": 116},
    "aarch64": {"pivot_root": 41, "setresuid": 147, "setresgid": 149, "setgroups": 159},
}


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def raw(number: int, *args: object, what: str) -> int:
    """Any call by number; raises an OSError that names the call."""
    return _checked(int(_libc().syscall(ctypes.c_long(number), *args)), what)


def _old(name: str) -> int:
    machine = os.uname().machine
    if machine not in _OLD_NUMBERS:
        raise OSError(38, f"boxes know x86_64 and aarch64, this machine is {machine}")
    return _OLD_NUMBERS[machine][name]


def unshare(flags: int) -> None:
    """Move to new namespaces, as named by the flags."""
    _checked(_libc().unshare(ctypes.c_int(flags)), "unshare")


def setns(namespace: int, kind: int) -> None:
    """Enter the namespace of this kind by descriptor."""
    _checked(_libc().setns(ctypes.c_int(namespace), ctypes.c_int(kind)), "setns")


def mount(kind: str, at: str, flags: int, options: str) -> None:
    """Mount a new file system."""
    _checked(
        _libc().mount(kind.encode(), os.fsencode(at), kind.encode(), ctypes.c_ulong(flags), options.encode()),
        f"mount {kind} at {at}",
    )


def make_mounts_private() -> None:
    """Make mounts private to this mount namespace."""
    _checked(_libc().mount(None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), "make mounts private")


def unmount(at: str) -> None:
    """Detach what is mounted there."""
    _checked(_libc().umount2(os.fsencode(at), ctypes.c_int(MNT_DETACH)), f"unmount {at}")


def pivot_root(new: str, old: str) -> None:
    """Swap the root; both may be the same directory."""
    raw(_old("pivot_root"), os.fsencode(new), os.fsencode(old), what="pivot_root")


def clone_tree(path: str, *, recursive: bool = True, fd: int = _AT_FDCWD) -> int:
    """A detached copy of the mount at a path, or of an open descriptor when the path is empty."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | (_AT_RECURSIVE if recursive else 0)
    flags |= 0 if path else _AT_EMPTY_PATH
    return raw(_OPEN_TREE, ctypes.c_int(fd), os.fsencode(path), ctypes.c_uint(flags), what=f"open_tree {path or fd}")


def set_tree(tree: int, attributes: int, *, userns: int = -1, recursive: bool = True) -> None:
    """Give a detached tree attributes such as read-only, or an identity map."""
    wanted = _MountAttr(attributes, 0, 0, max(userns, 0))
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    raw(
        _MOUNT_SETATTR, ctypes.c_int(tree), b"", ctypes.c_uint(flags), ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)), what="mount_setattr",
    )  # fmt: skip


def attach_tree(tree: int, onto: int) -> None:
    """Mount a detached tree onto an open descriptor, so that no path is resolved again."""
    raw(
        _MOVE_MOUNT, ctypes.c_int(tree), b"", ctypes.c_int(onto), b"",
        ctypes.c_uint(_MOVE_FROM_FD | _MOVE_ONTO_FD), what="move_mount",
    )  # fmt: skip


def open_beneath(directory: int, path: str) -> int:
    """Open a path below a directory as a location, without following symbolic links."""
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)
    return raw(
        _OPENAT2, ctypes.c_int(directory), os.fsencode(path), ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)), what=f"openat2 {path}",
    )  # fmt: skip


def prctl(option: int, first: int = 0, what: str = "prctl") -> None:
    """A prctl that takes one number."""
    zero = ctypes.c_ulong(0)
    _checked(_libc().prctl(ctypes.c_int(option), ctypes.c_ulong(first), zero, zero, zero), what)


def signal_on_parent_death(signal: int) -> None:
    """Have the kernel send this signal when our parent thread dies."""
    prctl(_PR_SET_PDEATHSIG, signal, "set the parent-death signal")


def set_dumpable(*, dumpable: bool) -> None:
    """Set whether processes with the same uid may inspect this one."""
    prctl(_PR_SET_DUMPABLE, int(dumpable), "set dumpable")


def become_subreaper() -> None:
    """Adopt orphans of everything started from here."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1, "become subreaper")


def no_new_privileges() -> None:
    """No exec gains privileges from here on."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1, "set no_new_privs")


def drop_capabilities() -> None:
    """Empty the bounding set and every capability held."""
    with open("/proc/sys/kernel/cap_last_cap") as source:
        last = int(source.read())
    for capability in range(last + 1):
        prctl(_PR_CAPBSET_DROP, capability, "drop a capability from the bounding set")
    header = (ctypes.c_uint32 * 2)(0x2008_0522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc().capset(header, nothing), "capset")


def load_filter(program: bytes) -> None:
    """Put this process under a seccomp filter."""
    held = ctypes.create_string_buffer(program, len(program))
    wanted = _Program(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    zero = ctypes.c_ulong(0)
    mode = ctypes.c_ulong(2)
    _checked(_libc().prctl(ctypes.c_int(_PR_SET_SECCOMP), mode, ctypes.byref(wanted), zero, zero), "load seccomp")


def set_hostname(name: str) -> None:
    """Name this UTS namespace."""
    _checked(_libc().sethostname(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def thread_becomes(uid: int, gid: int) -> None:
    """Drop only the calling thread to an unprivileged identity; libc's own calls would change every thread."""
    raw(_old("setgroups"), ctypes.c_size_t(0), None, what="setgroups")
    raw(_old("setresgid"), ctypes.c_uint(gid), ctypes.c_uint(gid), ctypes.c_uint(gid), what="setresgid")
    raw(_old("setresuid"), ctypes.c_uint(uid), ctypes.c_uint(uid), ctypes.c_uint(uid), what="setresuid")
