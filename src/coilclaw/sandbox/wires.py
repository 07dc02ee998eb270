"""The wires between us and the monitor of one box."""

import contextlib
import fcntl
import os
import termios

_SMALLEST = 4096


class Wires:
    """Reports come in on `status`; one byte on `release` lets the command start.

    The release pipe is open for writing at the box's end too, so our own death does not look like a release: a command
    that was never released never starts.

    A monitor that would kill the box as soon as the command is over is held back (`holding`). Its next report finds the
    wire full and waits, so everything inside is still as the command left it. Meanwhile `ended` tells when the box's
    first process, which alone has the other end (`lifeline`), goes by itself. A socket, as nobody can open one anew.
    """

    def __init__(self, *, holding: bool = False) -> None:
        self.holding = holding
        self.status, self.report = os.pipe()
        read, write = os.pipe()
        self.release = os.open(f"/proc/self/fd/{read}", os.O_RDWR | os.O_CLOEXEC)
        os.close(read)
        os.close(write)
        os.set_blocking(self.status, False)
        self._ours = [self.status, self.release, self.report]
        self.ended = self.lifeline = -1
        if holding:
            import socket

            ours, theirs = socket.socketpair()
            self.ended, self.lifeline = ours.detach(), theirs.detach()
            self._ours += [self.ended, self.lifeline]

    @property
    def handed(self) -> tuple[int, ...]:
        """The ends that the monitor must be started with."""
        return (self.report, self.release, self.lifeline) if self.holding else (self.report, self.release)

    def hand_over(self) -> None:
        """Close the monitor's ends here, so that its death is their end; the full wire needs one a little longer."""
        for end in (self.lifeline,) if self.holding else (self.report,):
            self._close(end)

    def hold_back(self) -> None:
        """Fill the wire of reports, where that is asked for, with blanks that say nothing; raises OSError."""
        if not self.holding or self.report not in self._ours:
            return
        size = fcntl.fcntl(self.status, fcntl.F_SETPIPE_SZ, _SMALLEST)
        unread = int.from_bytes(fcntl.ioctl(self.status, termios.FIONREAD, bytes(4)), "little")
        if unread or os.write(self.report, b" " * size) != size:
            raise OSError(5, "its monitor reports more than it should")
        self._close(self.report)

    def _close(self, end: int) -> None:
        if end in self._ours:
            self._ours.remove(end)
            os.close(end)

    def close(self) -> None:
        """Close what is left."""
        while self._ours:
            with contextlib.suppress(OSError):
                os.close(self._ours.pop())
