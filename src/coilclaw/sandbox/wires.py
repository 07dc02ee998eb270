"""The two pipes between us and the monitor of one box."""

import contextlib
import os


class Wires:
    """Reports come in on `status`; one byte on `release` lets the command start.

    The release pipe is open for writing at the box's end too, so our own death does not look like a release: a command
    that was never released never starts.
    """

    def __init__(self) -> None:
        self.status, self.report = os.pipe()
        read, write = os.pipe()
        self.release = os.open(f"/proc/self/fd/{read}", os.O_RDWR | os.O_CLOEXEC)
        os.close(read)
        os.close(write)
        os.set_blocking(self.status, False)
        self._ours = [self.status, self.release, self.report]

    def hand_over(self) -> None:
        """Close the monitor's end here, so that its death is the end of its reports."""
        if self.report in self._ours:
            self._ours.remove(self.report)
            os.close(self.report)

    def close(self) -> None:
        """Close what is left."""
        while self._ours:
            with contextlib.suppress(OSError):
                os.close(self._ours.pop())
