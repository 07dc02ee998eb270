"""Watches one box from its start to the death of the last process inside.

The monitor we start (bubblewrap or our launcher) reports the pid of the box's first process and waits. Only once
that process is limited is it released; until then the command has not started, so any failure is a refusal. Its
death is the death of everything inside, and it is the first thing we make sure of, however the run ends.

A command that exits while something it started still runs has failed, so nothing may be killed before we check: our
launcher reaps the last process before it reports, and bubblewrap, which would not, is held back by its full pipe.
On a terminal it is otherwise: what a shell leaves running ends with it, as with a closed window.
"""

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from coilclaw.packets.box import BoxEnd, BoxLimits, BoxResult
from coilclaw.packets.errors import BoxTooSlow, BoxUnavailable, ToolError
from coilclaw.sandbox.capture import Capture
from coilclaw.sandbox.leftover_processes import LeftoverProcesses, is_over
from coilclaw.sandbox.limits import Group, bound_process
from coilclaw.sandbox.monitor import Launch, Reports, Status, Walls, status_field
from coilclaw.sandbox.outcome import (
    NOT_STARTED,
    complains_of_processes,
    end_of,
    last_line,
    left_behind,
    like_a_shell,
    remedy_for,
    signal_reason,
)
from coilclaw.sandbox.pipes import Pipes
from coilclaw.sandbox.process_tree import descendants, is_childless
from coilclaw.sandbox.root_thread import RootThread, Streams, start
from coilclaw.sandbox.terminal import BoxTerminal
from coilclaw.sandbox.usage import Usage

if TYPE_CHECKING:
    from coilclaw.sandbox.proxy_socket import ProxySocket

_KILLED = 128 + signal.SIGKILL
_DEATH_WAIT = 5.0
_SWEEP_WAIT = 0.2
_SETUP_SECONDS = 10
_TERMINAL_SECONDS = 60
"""Many terminals may come up at once, and nobody waits for one as for a command."""


class StillAlive(BoxUnavailable):
    """A box that does not die after being killed."""


class Supervision:
    """One run."""

    def __init__(
        self, launch: Launch, *, limits: BoxLimits, streams: Capture | Pipes | BoxTerminal, seat: RootThread | None,
        group: Group | None, check: Callable[[], None], released: Callable[[], None] | None,
        prepare: Callable[[], None] | None = None, door: "ProxySocket | None" = None,
    ) -> None:  # fmt: skip
        """`released` is called right before the command may start, then `check`, which may raise ToolError."""
        self._launch = launch
        self._check = check
        self._tell = released
        self._refused: ToolError | BoxTooSlow | None = None
        self._door = door
        self._opening: asyncio.Task[None] | None = None
        self._way_stands = door is None
        self._wires = launch.wires
        self._limits = limits
        self._seat = seat
        self._group = group
        self._prepare = prepare
        self._loop = asyncio.get_running_loop()
        self._walls = Walls()
        self._reports = Reports(launch.wires.status)
        self._streams = streams
        self._on_terminal = isinstance(streams, BoxTerminal)
        if isinstance(streams, BoxTerminal):
            streams.stirred = self._stirred
        self._setup_seconds = _TERMINAL_SECONDS if self._on_terminal else _SETUP_SECONDS
        self._process: subprocess.Popen[bytes] | None = None
        self._first = -1  # pidfd of the box's first process
        self._first_pid = 0
        self._stragglers: LeftoverProcesses | None = None
        self._usage: Usage | None = None
        self._stopping = False
        self._released = False
        self._end: BoxEnd | None = None
        self._reason = ""
        self._error = ""
        self._code: int | None = None
        self._status: Status | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._looking: asyncio.TimerHandle | None = None

    async def run(self) -> BoxResult:
        """Run to the end and return how it ended. Cancelling kills everything inside first."""
        began = time.monotonic()
        self._timers.append(self._loop.call_later(self._setup_seconds, self._never_came_up))
        starting = None
        try:
            ends = self._streams.open(self._stop)
            if self._seat is None:
                self._start(ends)
            else:
                starting = asyncio.ensure_future(self._seat.call(partial(self._start_apart, ends)))
                await asyncio.shield(starting)
                self._open_door()
                self._release()
            self._streams.hand_over()
            self._watch_clock()
            self._watch_status()
            await self._monitor_gone()
        finally:
            await self._bury(starting)
            stdout, stderr = self._streams.close()
        return self._result(stdout, stderr, time.monotonic() - began)

    def _start(self, ends: Streams) -> None:
        """Everything the parent of the box must do itself, in its thread."""
        if self._prepare is not None:
            self._prepare()
        if self._stopping:
            return
        self._process = start(self._launch.argv, ends, self._launch.descriptors)
        self._wires.hand_over()
        if self._stopping:
            self._kill()

    def _start_apart(self, ends: Streams) -> None:
        """In root's thread: only that thread may set the limits, so it waits for the pid."""
        self._start(ends)
        if self._launch.becomes >= 0:
            from coilclaw.sandbox.syscalls import thread_becomes

            thread_becomes(self._launch.becomes, self._launch.becomes)
        if self._process is None:
            return
        monitor = os.pidfd_open(self._process.pid)
        waiting = select.poll()
        waiting.register(self._wires.status, select.POLLIN)
        waiting.register(monitor, select.POLLIN)
        try:
            while not self._first_pid and not self._error:  # a report may arrive in pieces
                waiting.poll(self._setup_seconds * 1000)
                if not self._read_status():
                    return
        finally:
            os.close(monitor)

    # -- the monitor's reports

    def _watch_status(self) -> None:
        if not self._first_pid:
            self._loop.add_reader(self._wires.status, self._first_report)

    def _first_report(self) -> None:
        """Read once; later reports are read when the box ends."""
        self._loop.remove_reader(self._wires.status)
        self._read_status()
        self._open_door()
        self._release()
        self._watch_clock()
        if not self._first_pid and not self._error and self._process is not None and self._process.returncode is None:
            self._watch_status()

    def _read_status(self) -> bool:
        """Handle the monitor's output; returns whether there was any."""
        reports = self._reports.read()
        for report in reports or ():
            self._take(report)
        return reports is not None

    def _take(self, report: bytes) -> None:
        try:
            status = msgspec.json.decode(report, type=Status)
        except msgspec.DecodeError:
            self._fail("its monitor's report is invalid")
            return
        if status.error:
            self._fail(status.error)
        elif status.exit_code is not None:
            self._code = status.exit_code
            if not self._released:
                self._fail("its monitor ended before the command began")
        elif status.child_pid and not self._first_pid:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                self._meet(status)

    def _meet(self, status: Status) -> None:
        """Open the first process, after checking that it is our monitor's child."""
        first = os.pidfd_open(status.child_pid)
        if self._process is None or status_field(status.child_pid, "PPid:") != [str(self._process.pid)]:
            os.close(first)
            self._fail("its monitor names a process that is not its own")
            return
        self._first, self._first_pid, self._status = first, status.child_pid, status
        self._bound()

    def _bound(self) -> None:
        """Set the limits of the first process; only a thread with its uid can."""
        namespaced = self._launch.walls == "namespaces"
        try:
            bound_process(self._first_pid, self._limits, grouped=self._group is not None, namespaced=namespaced)
        except (ProcessLookupError, FileNotFoundError):
            return  # it is already gone, and its monitor will report why
        except OSError as error:
            self._fail(f"its limits cannot be set: {error}")

    def _open_door(self) -> None:
        """A box with domains or listeners waits until its ports are served."""
        if self._door is not None and self._status is not None and self._opening is None and not self._stopping:
            self._opening = self._loop.create_task(self._open(self._door, self._status))

    async def _open(self, door: "ProxySocket", status: Status) -> None:
        try:
            await door.open(status.child_pid, status.net_namespace)
        except OSError as error:
            self._fail(f"it cannot be given its {door.what}: {error}")
            return
        self._way_stands = True
        self._release()
        self._watch_clock()

    def _release(self) -> None:
        """Let the command start, if everything is as requested."""
        if self._status is None or self._stopping or self._released or not self._way_stands:
            return
        try:
            self._walls.check(self._status, self._launch)
            if self._group is not None:
                self._group.add(self._first_pid)
            self._wires.hold_back()
            if self._tell is not None:
                self._tell()
            self._check()
        except (ProcessLookupError, FileNotFoundError):
            return
        except ToolError as error:
            self._refused = error
            self._kill()
            return
        except OSError as error:
            self._fail(str(error))
            return
        self._released = True
        self._streams.begun()
        with contextlib.suppress(BrokenPipeError):  # it died meanwhile, and its monitor will report why
            self._wires.release(self._launch.word)

    def _watch_clock(self) -> None:
        """Start the command's timer and the wait for its end."""
        if self._released and self._usage is None and self._process is not None:
            if self._wires.holding:
                self._loop.add_reader(self._wires.ended, self._first_ended)
            plain = self._launch.walls == "none"
            self._stragglers = None if self._on_terminal else LeftoverProcesses(
                self._process.pid if plain else self._first_pid, command=self._first if plain else None,
                left=lambda count: self._stop("left_behind", left_behind(count)),
            )  # fmt: skip
            if self._limits.wall_seconds is not None:
                self._timers.append(self._loop.call_later(self._limits.wall_seconds, self._out_of_time))
            self._usage = Usage(
                self._first_pid, self._limits, self._group, self._launch.workspace, rests=self._on_terminal
            )
            self._looking = self._loop.call_later(self._usage.every, self._look_at_usage)

    def _first_ended(self) -> None:
        """The first process exits once nothing is left inside: now its monitor may report, and exit."""
        self._loop.remove_reader(self._wires.ended)
        self._loop.remove_reader(self._first)
        if not self._empty():  # it was killed, so what is inside still has to die
            self._loop.add_reader(self._first, self._first_ended)
            return
        while self._read_status():
            pass

    # -- reasons to end it

    def _fail(self, error: str) -> None:
        self._error = self._error or error
        self._kill()

    def _stop(self, end: BoxEnd, reason: str) -> None:
        if self._end is None:
            self._end, self._reason = end, reason
        self._kill()

    def _never_came_up(self) -> None:
        if not self._released:
            if not self._error:  # otherwise that says more
                self._refused = self._refused or BoxTooSlow(self._setup_seconds)
            self._kill()

    def _out_of_time(self) -> None:
        self._stop("timeout", f"It was stopped after {self._limits.wall_seconds:g} seconds.")

    def _look_at_usage(self) -> None:
        if self._usage is None:
            return
        over = self._usage.over()
        if over is not None:
            self._stop(*over)
        elif self._end is None:  # one handle, reused: a box may be open for hours
            self._looking = self._loop.call_later(self._usage.every, self._look_at_usage)

    def _stirred(self) -> None:
        """Somebody typed, or something was written."""
        if self._usage is not None and self._usage.stir() and self._looking is not None:
            self._looking.cancel()
            self._looking = self._loop.call_later(self._usage.every, self._look_at_usage)

    # -- the end

    def _kill(self) -> None:
        self._stopping = True
        if self._process is None:
            return
        if not self._first_pid and not self._error and self._seat is None:
            self._read_status()  # its pid may be written and not read yet
        if self._launch.walls == "none":
            self._signal_monitor(signal.SIGTERM)
            self._timers.append(self._loop.call_later(_SWEEP_WAIT, self._sweep))
            return
        if self._first >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        self._kill_group()

    def _kill_group(self) -> None:
        """Kill the monitor, and a first process that was not reported yet. Never after the monitor was reaped."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _sweep(self) -> None:
        """Kill what the monitor started and did not end."""
        if self._process is not None:
            for pid in descendants(self._process.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        self._signal_monitor(signal.SIGKILL)

    def _signal_monitor(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _monitor_gone(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        await self._gone(os.pidfd_open(self._process.pid), None)
        self._kill_group()
        self._process.wait()

    async def _gone(self, pidfd: int, seconds: float | None) -> None:
        """Wait for a process by its descriptor, then close it; with a timeout if seconds are given."""
        gone: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(pidfd, lambda: gone.done() or gone.set_result(None))
        try:
            await asyncio.wait_for(gone, seconds)
        except TimeoutError:
            raise StillAlive(
                "A box did not die when it was killed.", remedy="Look for a process stuck in the kernel (state D)."
            ) from None
        finally:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

    async def _bury(self, starting: "asyncio.Future[None] | None") -> None:
        """Kill whatever is left, wait until it is gone, read the rest of the output. Must not be interrupted."""
        self._cancel_timers()
        self._kill()
        self._loop.remove_reader(self._wires.status)
        if self._stragglers is not None:
            self._stragglers.close()
        burial = asyncio.ensure_future(self._bury_now(starting))
        cancelled = False
        while not burial.done():
            try:
                await asyncio.shield(burial)
            except asyncio.CancelledError:
                cancelled = True
        self._cancel_timers()
        if self._wires.holding:
            self._loop.remove_reader(self._wires.ended)
        if self._first >= 0:
            self._loop.remove_reader(self._first)
            os.close(self._first)
        burial.result()
        if cancelled:
            raise asyncio.CancelledError

    def _cancel_timers(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        while self._timers:
            self._timers.pop().cancel()

    async def _bury_now(self, starting: "asyncio.Future[None] | None") -> None:
        if starting is not None and not starting.done():
            await asyncio.wait([starting])
            self._kill()
        if starting is not None:
            starting.exception()  # already raised, or the cancellation takes precedence
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        self._streams.hand_over()
        await self._monitor_gone()
        if self._first >= 0 and self._launch.walls == "namespaces" and not self._empty():
            await self._gone(os.dup(self._first), _DEATH_WAIT)
        if self._process is not None:
            await self._streams.drain(_DEATH_WAIT)
            while self._read_status():
                pass

    def _empty(self) -> bool:
        """Whether nothing is left inside: the first process is dead, or childless and already killed.

        Everything inside descends from it, so without a child it is the last. It is inert by then, but taking its
        mounts apart can keep the kernel busy for longer than the whole command took.
        """
        return is_over(self._first) or is_childless(self._first_pid)

    def _result(self, stdout: bytes, stderr: bytes, seconds: float) -> BoxResult:
        if self._refused is not None:
            raise self._refused
        code = self._code
        if code is None and not self._error and stderr.startswith(NOT_STARTED):
            code, stderr = like_a_shell(stderr)
        shot = self._released and self._process is not None and (self._process.returncode or 0) < 0
        ended = code is not None or self._end is not None or self._died_of_memory() or shot
        if self._error or not self._released or not ended:
            raise BoxUnavailable(
                f"The box could not be set up: {self._error or last_line(stderr) or 'its monitor ended'}.",
                remedy=remedy_for(self._error or last_line(stderr)),
            )
        end, reason = self._end, self._reason
        if end is None and self._died_of_memory():
            end, reason = "memory_limit", f"It ran out of its {self._limits.memory_bytes} bytes of memory."
        if end is None and code is None and shot:  # the command may have started, so this is not a refusal
            end, reason = "signalled", "Something on this machine killed the box."
            if self._on_terminal and self._process is not None:  # perhaps a key, pressed before the shell took over
                reason = signal_reason(-self._process.returncode, self._limits)
        group = self._group
        crowded = group.ran_out_of_processes if group is not None else complains_of_processes(stderr)
        crowded = crowded and not self._on_terminal  # hours ago, perhaps; whoever types there has seen it
        end, reason = end_of(end, reason, code=code or 0, limits=self._limits, crowded=crowded)
        killed = self._end is not None or code is None
        return BoxResult(
            end=end, exit_code=_KILLED if killed else code or 0, stdout=stdout, stderr=stderr,
            seconds=seconds, tier=self._launch.tier, reason=reason,
        )  # fmt: skip

    def _died_of_memory(self) -> bool:
        return bool(self._group is not None and self._code != 0 and self._group.ran_out_of_memory)
