"""The pipes between us and the monitor of one box."""

import contextlib
import fcntl
import os
import termios

RELEASE = b"g"
"""The word our launcher waits for."""
_SMALLEST = 4096


class MonitorPipes:
    """Reports arrive on `status`; the box waits at its `gate` until it is released.

    Only we hold the other end of the gate, so our death closes it: a box that was never released reads nothing there,
    and exits. bubblewrap reads its system call filter there, without which it starts no command, and our launcher a
    word. Either is short enough to arrive whole or not at all.

    A monitor that would kill the box as soon as the command ends is held back (`holding`). Its next report finds the
    pipe full and blocks, so everything inside stays as the command left it. Meanwhile `ended` tells when the box's
    first process, which alone has the other end (`lifeline`), exits. A socket, because /proc cannot reopen one.
    """

    def __init__(self, *, holding: bool = False) -> None:
        self.holding = holding
        self.status, self.report = os.pipe()
        self.gate, self._release = os.pipe()
        os.set_blocking(self.status, False)
        self._ours = [self.status, self.report, self.gate, self._release]
        self.ended = self.lifeline = -1
        if holding:
            import socket

            ours, theirs = socket.socketpair()
            self.ended, self.lifeline = ours.detach(), theirs.detach()
            self._ours += [self.ended, self.lifeline]

    @property
    def handed(self) -> tuple[int, ...]:
        """The monitor's ends."""
        return (self.report, self.gate, self.lifeline) if self.holding else (self.report, self.gate)

    def hand_over(self) -> None:
        """Close our copies of the monitor's ends, so that its death closes them; the full pipe needs one longer."""
        for end in (self.gate, self.lifeline if self.holding else self.report):
            self._close(end)

    def hold_back(self) -> None:
        """Fill the report pipe with blanks, if requested; raises OSError."""
        if not self.holding or self.report not in self._ours:
            return
        size = fcntl.fcntl(self.status, fcntl.F_SETPIPE_SZ, _SMALLEST)
        unread = int.from_bytes(fcntl.ioctl(self.status, termios.FIONREAD, bytes(4)), "little")
        if unread or os.write(self.report, b" " * size) != size:
            raise OSError(5, "its monitor reports more than it should")
        self._close(self.report)

    def release(self, word: bytes) -> None:
        """Let the command start; raises OSError if nobody waits for it any more."""
        os.write(self._release, word)
        self._close(self._release)

    def _close(self, end: int) -> None:
        if end in self._ours:
            self._ours.remove(end)
            os.close(end)

    def close(self) -> None:
        """Close what is left."""
        while self._ours:
            with contextlib.suppress(OSError):
                os.close(self._ours.pop())
