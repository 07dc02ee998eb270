# ruff: noqa: PTH100, PTH120 - kernel paths and descriptors; pathlib adds nothing here
"""The nursery: one small process for each home, from which the keepers of its sessions are forked.

Run as `python -I -S nursery.py FOLDER PACKAGES ESTOP...`; it exits once it listens, and goes on in its own process.
It imports once what every keeper needs, so that they share the memory. It watches ESTOP for all of them. Nothing
depends on it but new sessions: keepers that lose it go on, and watch ESTOP themselves.
"""

import fcntl
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from typing import NoReturn

if __name__ == "__main__":
    sys.path += [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), sys.argv[2]]

from coilclaw.sandbox.keeper import DONE, POLL_SECONDS, STOP, Inherited, keep, rehearse
from coilclaw.sandbox.keeper_wire import ACCEPTED, NURSERY, SocketFolder, engaged, frame, is_ours

_SHARED = ("concurrent.futures.thread", "coilclaw.sandbox.proxy_socket", "coilclaw.sandbox.syscalls")
"""What keepers import as they need it."""
_LOCK = "nursery.lock"
_IDLE_SECONDS = 300.0
_LOOK_SECONDS = 1.0
_STOP_SECONDS = 5.0
"""How long a keeper may take to end its box at ESTOP; then it is killed, and its box with it."""


class Born:
    """One keeper, as its nursery knows it."""

    def __init__(self, pid: int, wire: socket.socket) -> None:
        self.pid = pid
        self.wire = wire
        self.told = 0.0
        """When it was told of ESTOP."""
        self.done = False


class Nursery:
    """The loop; it never blocks on a client, and has no other state than its keepers."""

    def __init__(self, inherited: Inherited, opened: SocketFolder, listener: socket.socket, lock: int) -> None:
        self._inherited = inherited
        self._opened = opened
        self._listener = listener
        self._lock = lock
        self._place = self._stat()
        self._keepers: dict[int, Born] = {}
        """By the descriptor of the wire."""
        self._dying: list[int] = []
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._used = time.monotonic()

    def _stat(self) -> tuple[int, int]:
        found = os.stat(NURSERY, dir_fd=self._opened.descriptor)
        return found.st_dev, found.st_ino

    def run(self) -> None:
        """Until nobody has needed it for a while, or its place was taken away."""
        while self._keepers or self._is_needed():
            self._dying = [pid for pid in self._dying if not os.waitpid(pid, os.WNOHANG)[0]]
            seconds = POLL_SECONDS if self._keepers else _LOOK_SECONDS
            for descriptor, _ in self._poll.poll(seconds * 1000):
                if descriptor == self._listener.fileno():
                    self._accept()
                else:
                    self._hear(self._keepers[descriptor])
            if self._keepers and engaged(self._inherited.watched):
                self._stop_all()

    def _is_needed(self) -> bool:
        try:
            there = self._stat() == self._place
        except OSError:
            there = False
        return there and time.monotonic() - self._used < _IDLE_SECONDS

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection:
            if not is_ours(connection):
                return
            try:
                connection.sendall(frame(ACCEPTED))
            except OSError:
                return
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                ours.close()
                self._be_a_keeper(connection, theirs)
            theirs.close()
        ours.setblocking(False)
        self._keepers[ours.fileno()] = Born(pid, ours)
        self._poll.register(ours, select.POLLIN)
        self._used = time.monotonic()

    def _be_a_keeper(self, starter: socket.socket, nursery: socket.socket) -> NoReturn:
        code = 1
        try:
            os.close(self._lock)  # it would be held as long as we live
            self._listener.close()
            for other in self._keepers.values():
                other.wire.close()
            keep(starter, nursery, self._inherited)
            code = 0
        finally:
            os._exit(code)

    def _hear(self, born: Born) -> None:
        try:
            word = born.wire.recv(16)
        except BlockingIOError:
            return
        except OSError:
            word = b""
        if word == DONE:
            born.done = True
            return
        self._poll.unregister(born.wire)
        del self._keepers[born.wire.fileno()]
        born.wire.close()
        os.kill(born.pid, signal.SIGKILL)  # it has closed its end: it is dead, or about to be
        self._dying.append(born.pid)
        self._used = time.monotonic()

    def _stop_all(self) -> None:
        now = time.monotonic()
        for born in self._keepers.values():
            if not born.told:
                born.told = now
                try:
                    born.wire.send(STOP)
                except OSError:
                    continue
            elif not born.done and now - born.told > _STOP_SECONDS:
                os.kill(born.pid, signal.SIGKILL)


def main(folder: str, estop: tuple[str, ...]) -> None:
    """Become the nursery of this folder, unless there is one."""
    opened = SocketFolder(folder, make=True)
    lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=opened.descriptor)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    opened.remove(NURSERY)
    listener = opened.listen(NURSERY)
    listener.setblocking(False)
    if os.fork():
        return
    for name in _SHARED:
        importlib.import_module(name)
    os.chdir("/")
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
    inherited = rehearse(folder, estop, sys.executable)
    gc.collect()
    gc.freeze()
    try:
        Nursery(inherited, opened, listener, lock).run()
    finally:
        opened.remove(NURSERY)


if __name__ == "__main__":
    main(sys.argv[1], tuple(sys.argv[3:]))
    os._exit(0)
