# ruff: noqa: PTH116, PTH123 - kernel paths and descriptors; pathlib adds nothing here
"""Watches one box from its start to the death of the last process inside.

The monitor we start (bubblewrap or our launcher) tells the process id of the box's first process and waits. Only once
that process is bounded is it released; until then nothing of the command has run, so any failure is a refusal. Its
death is the death of everything inside, and it is the first thing we make sure of, however the run ends.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from typing import Literal

import msgspec

from coilclaw.packets.box import BoxEnd, BoxLimits, BoxResult, Tier
from coilclaw.packets.errors import BoxUnavailable
from coilclaw.sandbox.capture import Capture
from coilclaw.sandbox.kin import descendants
from coilclaw.sandbox.limits import Group, bound_process, memory_of
from coilclaw.sandbox.seat import Seat, start

_KILLED = 128 + signal.SIGKILL
_MEMORY_EVERY = 0.05
_DEATH_WAIT = 5.0
_SWEEP_WAIT = 0.2
_NAMESPACES = ("ipc", "mnt", "net", "pid", "uts")


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What to start and how to talk to it; the descriptors belong to whoever made them."""

    argv: list[str]
    descriptors: tuple[int, ...]
    status: int
    """Our end of the pipe on which the monitor reports, one JSON object a line."""
    release: int
    """Takes one byte when the command may start."""
    tier: Tier
    walls: Literal["namespaces", "none"]
    """`none`: no process namespace, so the monitor is asked to end everything before it is killed."""
    uid: int = -1
    """The uid the box must have when root started it."""
    becomes: int = -1
    """The uid that root's seat takes on after the start, where the started program gives up root by itself."""


class _Status(msgspec.Struct, rename="kebab"):
    child_pid: int = 0
    exit_code: int | None = None
    error: str = ""
    ipc_namespace: int = 0
    mnt_namespace: int = 0
    net_namespace: int = 0
    pid_namespace: int = 0
    uts_namespace: int = 0


class Supervision:
    """One run."""

    def __init__(self, launch: Launch, *, limits: BoxLimits, stdin: bytes, seat: Seat, group: Group | None) -> None:
        self._launch = launch
        self._limits = limits
        self._seat = seat
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._capture = Capture(stdin, limits.output_bytes, self._full)
        self._process: subprocess.Popen[bytes] | None = None
        self._first = -1  # pidfd of the box's first process
        self._first_pid = 0
        self._stopping = False
        self._end: BoxEnd | None = None
        self._reason = ""
        self._error = ""
        self._code: int | None = None
        self._pending = b""
        self._timers: list[asyncio.TimerHandle] = []
        self._releasing: asyncio.Task[None] | None = None

    async def run(self) -> BoxResult:
        """Run to the end and say how it ended. Cancelling kills everything inside first."""
        began = time.monotonic()
        try:
            await self._seat.call(self._start)
            self._capture.hand_over()
            self._watch_status()
            self._timers.append(self._loop.call_later(self._limits.wall_seconds, self._out_of_time))
            if self._group is None:
                self._timers.append(self._loop.call_later(_MEMORY_EVERY, self._look_at_memory))
            await self._monitor_gone()
        finally:
            await self._bury()
            stdout, stderr = self._capture.close()
        return self._result(stdout, stderr, time.monotonic() - began)

    def _start(self) -> None:
        self._process = start(self._launch.argv, self._capture.streams, self._launch.descriptors)
        if self._launch.becomes >= 0:
            from coilclaw.sandbox.syscalls import thread_becomes

            thread_becomes(self._launch.becomes, self._launch.becomes)

    # -- the monitor's reports

    def _watch_status(self) -> None:
        os.set_blocking(self._launch.status, False)
        self._loop.add_reader(self._launch.status, self._read_status)

    def _read_status(self) -> None:
        try:
            data = os.read(self._launch.status, 4096)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._launch.status)
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            status = msgspec.json.decode(line, type=_Status)
        except msgspec.DecodeError:
            self._fail("its monitor speaks another language")
            return
        if status.error:
            self._fail(status.error)
        elif status.exit_code is not None:
            self._code = status.exit_code
        elif status.child_pid and not self._first_pid and not self._error:
            self._first_pid = status.child_pid
            with contextlib.suppress(ProcessLookupError):
                self._first = os.pidfd_open(status.child_pid)
                if not self._stopping:
                    self._releasing = self._loop.create_task(self._bound_and_release(status))

    async def _bound_and_release(self, status: _Status) -> None:
        try:
            self._check_walls(status)
            if self._group is not None:
                self._group.add(self._first_pid)
            await self._seat.call(
                bound_process, self._first_pid, self._limits,
                grouped=self._group is not None, namespaced=self._launch.walls == "namespaces",
            )  # fmt: skip
        except (ProcessLookupError, FileNotFoundError):
            return  # it is gone already, and its monitor will say why
        except OSError as error:
            self._fail(f"its limits cannot be set: {error}")
            return
        if not self._stopping:
            os.write(self._launch.release, b"g")

    def _check_walls(self, status: _Status) -> None:
        """The namespaces must be others than ours, and the uid the one that was asked for."""
        if self._launch.walls == "namespaces":
            for name in _NAMESPACES:
                theirs: int = getattr(status, f"{name}_namespace")
                if theirs in {0, os.stat(f"/proc/self/ns/{name}").st_ino}:
                    raise OSError(1, f"the box shares the {name} namespace of this machine")
        if self._launch.uid >= 0:
            with open(f"/proc/{self._first_pid}/status") as lines:
                ids = next(line.split()[1:] for line in lines if line.startswith("Uid:"))
            if set(ids) != {str(self._launch.uid)}:
                raise OSError(1, f"the box runs as uid {ids[0]} instead of {self._launch.uid}")

    # -- causes to end it

    def _fail(self, error: str) -> None:
        self._error = self._error or error
        self._kill()

    def _stop(self, end: BoxEnd, reason: str) -> None:
        if self._end is None:
            self._end, self._reason = end, reason
        self._kill()

    def _full(self) -> None:
        self._stop("output_limit", f"It was stopped after {self._limits.output_bytes} bytes of output.")

    def _out_of_time(self) -> None:
        self._stop("timeout", f"It was stopped after {self._limits.wall_seconds:g} seconds.")

    def _look_at_memory(self) -> None:
        most = self._limits.memory_bytes
        if self._first_pid and memory_of([self._first_pid, *descendants(self._first_pid)], most) > most:
            self._stop("memory_limit", f"It was stopped for using more than {most} bytes of memory.")
        elif self._end is None:
            self._timers.append(self._loop.call_later(_MEMORY_EVERY, self._look_at_memory))

    # -- the end

    def _kill(self) -> None:
        self._stopping = True
        process = self._process
        if process is None:
            return
        if self._first < 0 and not self._error:
            with contextlib.suppress(OSError):  # a report that is written but not read yet
                self._read_status()
        if self._launch.walls == "none":
            self._signal_monitor(signal.SIGTERM)
            self._timers.append(self._loop.call_later(_SWEEP_WAIT, self._signal_monitor, signal.SIGKILL))
            return
        if self._first >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # the group also holds a first process that did not report yet
            os.killpg(process.pid, signal.SIGKILL)

    def _signal_monitor(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _monitor_gone(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        await self._gone(os.pidfd_open(self._process.pid), None)
        self._process.wait()

    async def _gone(self, pidfd: int, seconds: float | None) -> None:
        """Wait for a process by its descriptor, which is closed; it must not take long where seconds are given."""
        gone: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(pidfd, lambda: gone.done() or gone.set_result(None))
        try:
            await asyncio.wait_for(gone, seconds)
        except TimeoutError:
            raise BoxUnavailable(
                "A box did not die when it was killed.", remedy="Look for a process stuck in the kernel (state D)."
            ) from None
        finally:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

    async def _bury(self) -> None:
        """Kill whatever is left, wait until it is gone, read the rest of the output. Not to be interrupted."""
        cancelled = 0
        burial = asyncio.ensure_future(self._bury_now())
        while not burial.done():
            try:
                await asyncio.shield(burial)
            except asyncio.CancelledError:
                if burial.cancelled():
                    raise
                cancelled += 1
        for timer in self._timers:
            timer.cancel()
        burial.result()
        if cancelled:
            raise asyncio.CancelledError

    async def _bury_now(self) -> None:
        if self._releasing is not None:
            await asyncio.wait([self._releasing])
        self._kill()
        await self._monitor_gone()
        if self._first >= 0 and self._launch.walls == "namespaces":
            await self._gone(os.dup(self._first), _DEATH_WAIT)
        await self._capture.drain(_DEATH_WAIT if self._process is not None else 0)
        with contextlib.suppress(OSError):
            while self._process is not None and (data := os.read(self._launch.status, 4096)):
                self._pending += data
            for line in self._pending.split(b"\n"):
                if line:
                    self._take(line)
        self._loop.remove_reader(self._launch.status)
        if self._first >= 0:
            os.close(self._first)
            self._first = -1

    def _result(self, stdout: bytes, stderr: bytes, seconds: float) -> BoxResult:
        code = self._code
        if self._error or (code is None and self._end is None and not self._died_of_memory()):
            raise BoxUnavailable(
                f"The box could not be set up: {self._error or _last_line(stderr) or 'its monitor ended'}.",
                remedy=_remedy(self._error or _last_line(stderr)),
            )
        end, reason = self._end, self._reason
        if end is None and self._died_of_memory():
            end, reason = "memory_limit", f"It ran out of its {self._limits.memory_bytes} bytes of memory."
        if end is None and code is not None and 128 < code <= 128 + 64:
            end, reason = "signalled", _signal_reason(code - 128, self._limits)
        if end not in {None, "exited"} and self._group is not None and self._group.ran_out_of_processes:
            reason += f" It had also reached its limit of {self._limits.processes} processes."
        killed = self._end is not None or code is None
        return BoxResult(
            end=end or "exited", exit_code=_KILLED if killed else code or 0, stdout=stdout, stderr=stderr,
            seconds=seconds, tier=self._launch.tier, reason=reason,
        )  # fmt: skip

    def _died_of_memory(self) -> bool:
        return bool(self._group is not None and self._code != 0 and self._group.ran_out_of_memory)


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def _signal_reason(number: int, limits: BoxLimits) -> str:
    with contextlib.suppress(ValueError):
        name = signal.Signals(number).name
        if name == "SIGXCPU":
            return f"It was ended by SIGXCPU: {limits.cpu_seconds} seconds of CPU were used up."
        if name == "SIGXFSZ":
            return f"It was ended by SIGXFSZ: a file grew beyond {limits.file_bytes} bytes."
        return f"It was ended by {name}."
    return f"It was ended by signal {number}."


def _remedy(said: str) -> str:
    said = said.lower()
    if "uid map" in said or "namespace" in said or "unshare" in said:
        return (
            "Allow unprivileged user namespaces: sysctl user.max_user_namespaces, and on Ubuntu an AppArmor profile"
            " for the program or kernel.apparmor_restrict_unprivileged_userns=0."
        )
    if "proc" in said:
        return "This container masks parts of /proc; start it with an unmasked /proc or run CoilClaw outside it."
    if "mount_setattr" in said:
        return (
            "Put the workspace on a file system with identity-mapped mounts (ext4, xfs, btrfs), or do not run as root."
        )
    return "Run `coilclaw doctor` to see which wall is missing."
