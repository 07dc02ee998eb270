"""The filter says what its list says: interpreted here instruction by instruction, for both architectures."""

import errno
import re
import struct
from pathlib import Path

import pytest

from coilclaw.sandbox.seccomp import ABSENT, CHECKED, DENIED, SHARED, UNKNOWN, filter_bytes
from tests.missing import lacks

ARCHITECTURES = {"x86_64": (0, 0xC000_003E), "aarch64": (1, 0xC000_00B7)}
ALLOW, KILL, ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
SOCKET = {"x86_64": 41, "aarch64": 198}


def judged(program, arch, number, *arguments):
    """Run the filter on one call the way the kernel does."""
    data = struct.pack("=iIQ6Q", number, arch, 0, *(arguments + (0,) * (6 - len(arguments))))
    instructions = [struct.unpack("=HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]
    at = accumulator = 0
    while True:
        code, when_true, when_false, operand = instructions[at]
        at += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, operand)[0]
        elif code == 0x54:
            accumulator &= operand
        else:
            tests = {
                0x15: accumulator == operand,
                0x25: accumulator > operand,
                0x35: accumulator >= operand,
                0x45: bool(accumulator & operand),
            }
            at += when_true if tests[code] else when_false


@pytest.fixture(params=ARCHITECTURES)
def machine(request):
    return request.param


@pytest.fixture(params=["inet", "stream", "none"])
def sockets(request):
    return request.param


def test_every_listed_call_is_refused_and_no_other(machine, sockets):
    column, arch = ARCHITECTURES[machine]
    program = filter_bytes(machine, sockets)
    denied = {**DENIED, **(SHARED if sockets == "none" else {})}
    refused = {pair[column] for pair in denied.values()} - {ABSENT}
    unknown = {pair[column] for pair in UNKNOWN.values()}
    argued = {rule.numbers[column] for rule in CHECKED} | {SOCKET[machine]}
    for number in range(470):
        if number in refused:
            assert judged(program, arch, number) == ERRNO | errno.EPERM
        elif number in unknown:
            assert judged(program, arch, number) == ERRNO | errno.ENOSYS
        elif number not in argued:
            assert judged(program, arch, number) == ALLOW
    for number in (470, 500, 1000, 0x3FFF_FFFF):
        assert judged(program, arch, number) == ERRNO | errno.ENOSYS


def test_foreign_architectures_are_killed(machine, sockets):
    program = filter_bytes(machine, sockets)
    for arch in (0x4000_0003, 0x4000_0028, *(other for _, other in ARCHITECTURES.values())):
        expected = ALLOW if arch == ARCHITECTURES[machine][1] else KILL
        assert judged(program, arch, 1 if machine == "x86_64" else 64) == expected
    if machine == "x86_64":
        assert judged(program, ARCHITECTURES[machine][1], 0x4000_0000 + 39) == KILL


def number_of(name, machine):
    return next(rule.numbers for rule in CHECKED if rule.name == name)[ARCHITECTURES[machine][0]]


@pytest.mark.parametrize(
    ("name", "arguments", "refused"),
    [
        ("clone", (0x11,), False),
        ("clone", (0x003D0F00,), False),
        ("clone", (0x1000_0011,), True),
        ("clone", (0x0002_0000,), True),
        ("clone", (0x4000_0000,), True),
        ("ioctl", (0, 0x5401), False),
        ("ioctl", (0, 0x5412), True),
        ("ioctl", (0, 0xFFFF_FFFF_0000_5412), True),
        ("ioctl", (0, 0x541C), True),
        ("personality", (0,), False),
        ("personality", (0xFFFF_FFFF,), False),
        ("personality", (0x0040000,), True),
        ("mknodat", (0, 0, 0o010644), False),
        ("mknodat", (0, 0, 0o100644), False),
        ("mknodat", (0, 0, 0o020644), True),
        ("mknodat", (0, 0, 0o060644), True),
        ("mknodat", (0, 0, 0o104755), True),
        ("fchmod", (0, 0o1777), False),
        ("fchmod", (0, 0o4755), True),
        ("fchmodat", (0, 0, 0o2755), True),
        ("fchmodat2", (0, 0, 0o6755), True),
        ("openat", (0, 0, 0o101, 0o644), False),
        ("openat", (0, 0, 0o0, 0o4755), False),
        ("openat", (0, 0, 0o101, 0o4755), True),
        ("openat", (0, 0, 0o20200002, 0o2755), True),
        ("socketpair", (1, 1), False),
        ("socketpair", (1, 0o2000000 | 1), False),
        ("socketpair", (1, 5), False),
        ("socketpair", (1, 2), True),
        ("socketpair", (1, 0o4000 | 2), True),
        ("socketpair", (2, 1), True),
    ],
)
def test_arguments_decide_where_they_must(machine, name, arguments, refused):
    verdict = judged(filter_bytes(machine, "inet"), ARCHITECTURES[machine][1], number_of(name, machine), *arguments)
    assert verdict == (ERRNO | errno.EPERM if refused else ALLOW)


def test_only_internet_families_and_none_without_a_network_namespace(machine):
    arch = ARCHITECTURES[machine][1]
    for family in range(64):
        inet = judged(filter_bytes(machine, "inet"), arch, SOCKET[machine], family, 1)
        none = judged(filter_bytes(machine, "none"), arch, SOCKET[machine], family, 1)
        assert inet == (ALLOW if family in {2, 10} else ERRNO | errno.EPERM)
        assert none == ERRNO | errno.EPERM


def test_beside_a_broker_only_tcp_sockets_can_be_made(machine):
    program, arch = filter_bytes(machine, "stream"), ARCHITECTURES[machine][1]
    flags = 0o2004000
    for family in range(64):
        for kind in range(16):
            for protocol in (0, 1, 6, 17, 132, 255, 262):
                allowed = family == 2 and kind == 1 and protocol in {0, 6}
                verdict = judged(program, arch, SOCKET[machine], family, kind | flags, protocol)
                assert verdict == (ALLOW if allowed else ERRNO | errno.EPERM)


@pytest.mark.parametrize("beside", ["inet", "stream"])
def test_processes_that_may_talk_to_each_other_get_stream_sockets_and_nothing_more(machine, beside):
    strict, arch = filter_bytes(machine, beside), ARCHITECTURES[machine][1]
    program = filter_bytes(machine, beside, local=True)
    for family in range(64):
        for kind in range(16):
            verdict = judged(program, arch, SOCKET[machine], family, kind, 0)
            if family == 1:
                assert verdict == (ALLOW if kind == 1 else ERRNO | errno.EPERM)
            else:
                assert verdict == judged(strict, arch, SOCKET[machine], family, kind, 0)


def test_the_numbers_are_the_kernels(machine):
    if not HEADERS[machine].exists():
        lacks("kernel headers", "Install the package linux-libc-dev.")
    text = HEADERS[machine].read_text()
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    column = ARCHITECTURES[machine][0]
    listed = {**DENIED, **SHARED, **UNKNOWN, **{rule.name: rule.numbers for rule in CHECKED}}
    compared = {name for name in listed if name in known}
    assert len(compared) > 50
    assert {name: listed[name][column] for name in compared} == {name: known[name] for name in compared}


def test_a_program_fits_the_kernel(machine, sockets):
    program = filter_bytes(machine, sockets)
    assert len(program) % 8 == 0
    assert len(program) // 8 <= 4096
