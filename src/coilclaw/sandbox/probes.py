# ruff: noqa: PTH106, PTH110 - kernel paths and descriptors; pathlib adds nothing here
"""Tests each wall by its behaviour: for the doctor, and one quick probe before a process's first command."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from coilclaw.packets.box import BoxLimits, BoxResult, BoxSpec, Probe
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ports import Box
from coilclaw.sandbox.guard import inside
from coilclaw.sandbox.layout import holds_something_shown

T = TypeVar("T")

_PREFIX = "coilclaw-probe-"
_ABANDONED_AFTER_SECONDS = 3600.0

_QUICK = r"""
while read -r name value rest; do
  case $name in Uid:|CapEff:|NoNewPrivs:|Seccomp:) echo "$name $value";; esac
done < /proc/self/status
while read -r name rest; do
  case $name in *:*) echo "interface $name";; esac
done < /proc/net/dev
[ -w /usr ] && echo "writable /usr"
[ -w /proc/sys/kernel/core_pattern ] && echo "writable /proc/sys"
for path; do
  [ -f "$path" ] && echo "visible $path"
  for entry in "$path"/* "$path"/.[!.]*; do [ -e "$entry" ] && echo "visible $entry"; done
done
echo done
"""
"""Shell built-ins only, so that nothing but the shell itself is started."""

_PLAIN_QUICK = r"""
(: > /var/tmp/coilclaw-probe) 2> /dev/null && echo "writable /var/tmp"
for path; do (: < "$path") 2> /dev/null && echo "visible $path"; done
echo done
"""
"""Landlock denies opening a file, not `test`."""

_DEEP = r"""
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def refused(name, act):
    try:
        result = act()
    except OSError as error:
        print(name, "refused", errno.errorcode.get(error.errno, error.errno))
    else:
        print(name, "refused" if result == -1 else "REACHED", errno.errorcode.get(ctypes.get_errno(), ""))
def dial(family, kind, address):
    with socket.socket(family, kind) as made:
        made.settimeout(2)
        made.connect(address)
refused("tcp", lambda: dial(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)))
refused("udp", lambda: dial(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53)))
refused("unix sockets", lambda: socket.socket(socket.AF_UNIX))
refused("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
refused("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
refused("memory files", lambda: os.memfd_create("x"))
refused("namespaces", lambda: libc.unshare(0x10000000))
refused("ptrace", lambda: libc.ptrace(0, 0, 0, 0))
refused("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
refused("set-id files", lambda: os.open("/tmp/set-id", os.O_CREAT | os.O_WRONLY, 0o4755))
"""


def in_own_loop(act: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine from synchronous code, whether or not a loop runs in this thread."""
    results: list[T] = []
    errors: list[BaseException] = []

    async def whole() -> T:
        return await act()

    def body() -> None:
        try:
            results.append(asyncio.run(whole()))
        except BaseException as error:  # re-raised in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=body, name="box-probe")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _spec(workspace: str, script: str, *arguments: str, program: str = "/bin/sh") -> BoxSpec:
    return BoxSpec(
        command=(program, "-c", script, "probe", *arguments), workspace=workspace, cwd=workspace,
        workspace_writable=False, limits=BoxLimits(wall_seconds=10.0),
    )  # fmt: skip


async def quick_faults(box: Box, workspace: str, hide: tuple[str, ...], *, namespaces: bool) -> list[str]:
    """What gets through, seen from inside; an empty list is a pass. Raises if no box can be built."""
    outside = [path for path in hide if not inside(path, workspace) and not holds_something_shown(path, workspace)]
    result = await box.run(_spec(workspace, _QUICK if namespaces else _PLAIN_QUICK, *outside))
    lines = result.stdout.decode(errors="replace").splitlines()
    if result.end != "exited" or not lines or lines[-1] != "done":
        return [f"the probe {result.end} with {result.exit_code} {result.reason}".strip()]
    expected = {"CapEff: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2", "interface lo:", "done"}
    faults = [] if not namespaces else [f"missing: {line}" for line in sorted(expected - set(lines))]
    faults += [line for line in lines if line.startswith(("visible", "writable"))]
    faults += [line for line in lines if line.startswith("interface") and line != "interface lo:"]
    return faults + [line for line in lines if line.startswith("Uid: 0")]


@contextlib.contextmanager
def probe_directory() -> Iterator[str]:
    """A directory for one probe, not on /tmp, which may be a tmpfs. Leftovers of killed processes are removed later."""
    import tempfile  # slow to import, and only the doctor needs it

    parent = "/var/tmp"  # noqa: S108 - only its writability is used
    if not os.access(parent, os.W_OK):
        parent = tempfile.gettempdir()
    _clear_abandoned(parent)
    directory = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent)
    try:
        yield directory
    finally:
        os.rmdir(directory)


def _clear_abandoned(parent: str) -> None:
    before = time.time() - _ABANDONED_AFTER_SECONDS
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):  # another user's, not empty or already gone
                    if entry.stat(follow_symlinks=False).st_mtime < before:
                        os.rmdir(entry.path)


def probe_box(box: Box, hide: tuple[str, ...], *, namespaces: bool = True) -> list[Probe]:
    """Every wall of one box."""
    name = f"tier {box.tier}"
    try:
        with probe_directory() as workspace:
            return _probe_walls(box, name, workspace, hide, namespaces=namespaces)
    except CoilclawError as error:
        return [Probe(name=name, state="fail", detail=error.message, remedy=error.remedy)]


def _probe_walls(box: Box, name: str, workspace: str, hide: tuple[str, ...], *, namespaces: bool) -> list[Probe]:
    faults = in_own_loop(lambda: quick_faults(box, workspace, hide, namespaces=namespaces))
    if faults:
        return [Probe(name=name, state="fail", detail="; ".join(faults), remedy="Nothing runs in this tier.")]
    detail = "a command ran as an unprivileged uid, without capabilities, system read-only, hidden paths absent"
    probes = [Probe(name=name, state="ok", detail=detail)]
    if not os.path.exists("/usr/bin/python3"):
        return [*probes, Probe(name=f"{name} calls", state="info", detail="not tried: no /usr/bin/python3 inside")]
    result = in_own_loop(lambda: box.run(_spec(workspace, _DEEP, program="/usr/bin/python3")))
    return [*probes, _calls(name, result)]


def _calls(name: str, result: BoxResult) -> Probe:
    lines = result.stdout.decode(errors="replace").splitlines()
    reached = [line for line in lines if "refused" not in line]
    if reached or result.exit_code:
        detail = "; ".join(reached) or result.stderr.decode(errors="replace")[-200:]
        return Probe(name=f"{name} calls", state="fail", detail=detail, remedy="Nothing runs in this tier.")
    refused = ", ".join(line.split(" refused")[0] for line in lines)
    return Probe(name=f"{name} calls", state="ok", detail=f"refused: {refused}")
