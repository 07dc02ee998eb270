"""The system call filter of every box: a readable list of refused calls, assembled here into BPF bytes.

Everything else is allowed: namespaces and mounts isolate, and this list closes the calls that bypass them.
A call newer than the list returns ENOSYS, and a call from a foreign architecture (i386, x32) kills the process.
"""

import errno
import os
import struct
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

from coilclaw.packets.errors import BoxUnavailable

Machine: TypeAlias = Literal["x86_64", "aarch64"]
Sockets: TypeAlias = Literal["inet", "stream", "none"]
"""`inet`: IPv4 and IPv6 within an empty network namespace. `stream`: only TCP over IPv4, in one where our broker
listens. `none`: no socket at all, without a namespace."""

_AUDIT_ARCH: Final[dict[Machine, int]] = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32_BIT: Final = 0x4000_0000
_HIGHEST_KNOWN: Final = 469

ABSENT: Final = -1
DENIED: Final[dict[str, tuple[int, int]]] = {
    # inspecting or controlling other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    # mounts and roots
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458),
    "open_tree_attr": (467, 467),
    # namespaces (clone with such flags: see CHECKED)
    "setns": (308, 268), "unshare": (272, 97),
    # code that escapes mount flags: memory files, exec by descriptor, files by handle
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "execveat": (322, 281), "uselib": (134, ABSENT),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # wide kernel surface
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "modify_ldt": (154, ABSENT),
    "lookup_dcookie": (212, 18), "nfsservctl": (180, 42), "_sysctl": (156, ABSENT), "sysfs": (139, ABSENT),
    "ustat": (136, ABSENT),
    # the machine itself
    "reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "create_module": (174, ABSENT),
    "get_kernel_syms": (177, ABSENT), "query_module": (178, ABSENT), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116), "iopl": (172, ABSENT),
    "ioperm": (173, ABSENT), "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
}  # fmt: skip
"""Refused with EPERM whatever the arguments: name -> number on (x86_64, aarch64)."""

SHARED: Final[dict[str, tuple[int, int]]] = {
    "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
}  # fmt: skip
"""Refused too if no namespace isolates the machine's own queues and memory."""

UNKNOWN: Final[dict[str, tuple[int, int]]] = {"clone3": (435, 435), "openat2": (437, 437)}
"""Return ENOSYS, so that callers fall back to the older call, whose arguments the filter can read."""


class Condition(NamedTuple):
    """A test of the low 32 bits of one argument, after a mask."""

    argument: int
    mask: int
    test: Literal["is", "is not", "has any of"]
    value: int


class Checked(NamedTuple):
    """Refused with EPERM when every condition holds."""

    name: str
    numbers: tuple[int, int]
    conditions: tuple[Condition, ...]


_ALL: Final = 0xFFFF_FFFF
_NAMESPACES: Final = 0x7E02_0000
_SET_ID: Final = 0o6000
_CREATES: Final = os.O_CREAT | 0o20000000
_TYPE: Final = 0o170000
_UNIX, _INET, _INET6, _STREAM, _SEQPACKET = 1, 2, 10, 1, 5
_TCP: Final = 6


def _has(argument: int, bits: int) -> Condition:
    return Condition(argument, _ALL, "has any of", bits)


def _not(argument: int, value: int, mask: int = _ALL) -> Condition:
    return Condition(argument, mask, "is not", value)


CHECKED: Final = (
    Checked("clone", (56, 220), (_has(0, _NAMESPACES),)),
    # injecting input into a terminal
    Checked("ioctl", (16, 29), (Condition(1, _ALL, "is", 0x5412),)),  # TIOCSTI
    Checked("ioctl", (16, 29), (Condition(1, _ALL, "is", 0x541C),)),  # TIOCLINUX
    # 0 is the default personality and all ones queries it; the others weaken the address space
    Checked("personality", (135, 92), (_not(0, 0), _not(0, _ALL))),
    Checked("mknod", (133, ABSENT), (Condition(1, _TYPE, "is", 0o020000),)),
    Checked("mknod", (133, ABSENT), (Condition(1, _TYPE, "is", 0o060000),)),
    Checked("mknodat", (259, 33), (Condition(2, _TYPE, "is", 0o020000),)),
    Checked("mknodat", (259, 33), (Condition(2, _TYPE, "is", 0o060000),)),
    # a set-id file made in the workspace would be honoured outside the box, where the mount is not nosuid
    Checked("chmod", (90, ABSENT), (_has(1, _SET_ID),)),
    Checked("fchmod", (91, 52), (_has(1, _SET_ID),)),
    Checked("fchmodat", (268, 53), (_has(2, _SET_ID),)),
    Checked("fchmodat2", (452, 452), (_has(2, _SET_ID),)),
    Checked("mknod", (133, ABSENT), (_has(1, _SET_ID),)),
    Checked("mknodat", (259, 33), (_has(2, _SET_ID),)),
    Checked("creat", (85, ABSENT), (_has(1, _SET_ID),)),
    Checked("open", (2, ABSENT), (_has(1, _CREATES), _has(2, _SET_ID))),
    Checked("openat", (257, 56), (_has(2, _CREATES), _has(3, _SET_ID))),
    # a connected stream pair is a pipe; a datagram socket could still address a socket file in the workspace
    Checked("socketpair", (53, 199), (_not(0, _UNIX),)),
    Checked("socketpair", (53, 199), (_not(1, _STREAM, 0xF), _not(1, _SEQPACKET, 0xF))),
)
_SOCKET: Final = (41, 198)
_SOCKET_RULES: Final[dict[Sockets, tuple[Checked, ...]]] = {
    "inet": (Checked("socket", _SOCKET, (_not(0, _INET), _not(0, _INET6))),),
    "stream": (
        Checked("socket", _SOCKET, (_not(0, _INET),)),
        Checked("socket", _SOCKET, (_not(1, _STREAM, 0xF),)),
        Checked("socket", _SOCKET, (_not(2, 0), _not(2, _TCP))),
    ),
    "none": (Checked("socket", _SOCKET, ()),),
}

_LOCAL_RULES: Final[dict[Sockets, tuple[Checked, ...]]] = {
    "inet": (
        Checked("socket", _SOCKET, (_not(0, _INET), _not(0, _INET6), _not(0, _UNIX))),
        Checked("socket", _SOCKET, (Condition(0, _ALL, "is", _UNIX), _not(1, _STREAM, 0xF))),
    ),
    "stream": (Checked("socket", _SOCKET, (_not(0, _INET), _not(0, _UNIX))), *_SOCKET_RULES["stream"][1:]),
}
"""The same where processes inside may also have stream sockets between each other."""

_LOAD, _AND, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x35, 0x45, 0x06
_ALLOW: Final = 0x7FFF_0000
_KILL: Final = 0x8000_0000
_ERRNO: Final = 0x0005_0000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16


class _Instruction(NamedTuple):
    code: int
    operand: int
    when_true: int = 0
    when_false: int = 0


def _refuse_if(number: int, conditions: tuple[Condition, ...]) -> Iterator[_Instruction]:
    """Refuse this call if all conditions hold; otherwise continue after the block with the number reloaded."""
    sizes = [2 if condition.mask == _ALL else 3 for condition in conditions]
    yield _Instruction(_JUMP_EQUAL, number, 0, sum(sizes) + 2)
    for place, condition in enumerate(conditions):
        yield _Instruction(_LOAD, _ARGUMENTS_AT + 8 * condition.argument)
        if condition.mask != _ALL:
            yield _Instruction(_AND, condition.mask)
        away = sum(sizes[place + 1 :]) + 1  # skip the remaining conditions and the refusal, to the reload
        code = _JUMP_ANY_BIT if condition.test == "has any of" else _JUMP_EQUAL
        if condition.test == "is not":
            yield _Instruction(code, condition.value, away, 0)
        else:
            yield _Instruction(code, condition.value, 0, away)
    yield _Instruction(_RETURN, _ERRNO | errno.EPERM)
    yield _Instruction(_LOAD, _NUMBER_AT)


def _instructions(machine: Machine, sockets: Sockets, *, local: bool) -> Iterator[_Instruction]:
    column = 0 if machine == "x86_64" else 1
    yield _Instruction(_LOAD, _ARCH_AT)
    yield _Instruction(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0)
    yield _Instruction(_RETURN, _KILL)
    yield _Instruction(_LOAD, _NUMBER_AT)
    if machine == "x86_64":
        yield _Instruction(_JUMP_AT_LEAST, _X32_BIT, 0, 1)
        yield _Instruction(_RETURN, _KILL)
    yield _Instruction(_JUMP_ABOVE, _HIGHEST_KNOWN, 0, 1)
    yield _Instruction(_RETURN, _ERRNO | errno.ENOSYS)
    denied = {**DENIED, **SHARED} if sockets == "none" else DENIED
    for numbers, error in ((denied, errno.EPERM), (UNKNOWN, errno.ENOSYS)):
        for number in sorted(pair[column] for pair in numbers.values() if pair[column] != ABSENT):
            yield _Instruction(_JUMP_EQUAL, number, 0, 1)
            yield _Instruction(_RETURN, _ERRNO | error)
    for rule in (*CHECKED, *(_LOCAL_RULES if local else _SOCKET_RULES)[sockets]):
        if rule.numbers[column] != ABSENT:
            yield from _refuse_if(rule.numbers[column], rule.conditions)
    yield _Instruction(_RETURN, _ALLOW)


@cache
def filter_bytes(machine: Machine, sockets: Sockets, *, local: bool = False) -> bytes:
    """The assembled program for one architecture, ready for bubblewrap's --seccomp or for prctl.

    `local` allows sockets between processes inside, by name too. A name is a file: where a program outside listens on
    one that the box can see, it can be dialled.
    """
    return b"".join(
        struct.pack("=HBBI", one.code, one.when_true, one.when_false, one.operand)
        for one in _instructions(machine, sockets, local=local)
    )


def this_machine() -> Machine:
    """The current architecture, if the filter supports it."""
    machine = os.uname().machine
    if machine == "x86_64" or machine == "aarch64":  # noqa: PLR1714 - `in` does not narrow to the literal
        return machine
    raise BoxUnavailable(f"There is no system-call filter for {machine}.", remedy="Run CoilClaw on x86_64 or aarch64.")
