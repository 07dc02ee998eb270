# ruff: noqa: PTH118, PTH120 - kernel paths and descriptors; pathlib adds nothing here
"""Receives the listening sockets from a box that waits to be released, and checks each."""

import asyncio
import contextlib
import fcntl
import os
import socket
import subprocess

from coilclaw.sandbox.accepting import Accepting, HeldListeners
from coilclaw.sandbox.box_listener import HOST

LISTENER = os.path.join(os.path.dirname(__file__), "box_listener.py")
_SIOCGSKNS = 0x894C


class ProxySocket:
    """Access to one box's network namespace, for one run.

    `python` runs the helper that enters bubblewrap's boxes; None if the launcher inside passes the sockets out.
    """

    def __init__(self, accepting: Accepting | HeldListeners, *, what: str, python: str | None) -> None:
        self.what = what
        """What it is for, for the refusal."""
        self._accepting = accepting
        self._python = python
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._helper: subprocess.Popen[bytes] | None = None

    @property
    def channel(self) -> int:
        """The sending end, for the creator of the sockets."""
        return self._theirs.fileno()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports to listen on inside."""
        return self._accepting.ports

    async def open(self, pid: int, namespace: int) -> None:
        """Create the listeners in the waiting process's namespace, and serve them; raises OSError."""
        if self._python is not None:
            self._helper = self._enter(self._python, pid, namespace)
        self._theirs.close()  # so that the sender's death is noticed
        listeners = await self._received()
        try:
            for listener, port in zip(listeners, self.ports, strict=True):
                _check(listener, port, namespace)
        except BaseException:
            for listener in listeners:
                listener.close()
            raise
        self._accepting.start(listeners)

    def _enter(self, python: str, pid: int, namespace: int) -> "subprocess.Popen[bytes]":
        none = subprocess.DEVNULL
        entrance = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(entrance).st_ino != namespace:
                raise OSError(1, "the box's network namespace is not the one it reported")
            return subprocess.Popen(
                [python, "-I", "-S", LISTENER, str(entrance), str(self.channel), *map(str, self.ports)],
                stdin=none, stdout=none, stderr=none, env={}, cwd="/", close_fds=True,
                pass_fds=(entrance, self.channel),
            )  # fmt: skip
        finally:
            os.close(entrance)

    async def _received(self) -> list[socket.socket]:
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._ours, lambda: readable.done() or readable.set_result(None))
        try:
            await readable
        finally:
            loop.remove_reader(self._ours)
        data, descriptors, _, _ = socket.recv_fds(self._ours, 1024, len(self.ports))
        if data == b"l" and len(descriptors) == len(self.ports):
            return [socket.socket(fileno=each) for each in descriptors]
        for each in descriptors:
            os.close(each)
        said = data[1:].decode(errors="replace") or "its creator is gone"
        raise OSError(1, f"the listener in the network namespace cannot be created: {said}")

    def close(self) -> None:
        """End the helper and close both ends."""
        if self._helper is not None:
            with contextlib.suppress(ProcessLookupError):
                self._helper.kill()
            self._helper.wait()
            self._helper = None
        self._ours.close()
        self._theirs.close()


def _check(listener: socket.socket, port: int, namespace: int) -> None:
    """Belt and braces: a listening TCP socket at its address, in the box's own namespace and not in ours."""
    listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    stream = (listener.family, listener.type) == (socket.AF_INET, socket.SOCK_STREAM)
    if not listening or not stream or listener.getsockname() != (HOST, port):
        raise OSError(1, "the box passed out a different socket than its listener")
    place: int = fcntl.ioctl(listener.fileno(), _SIOCGSKNS)
    try:
        if os.fstat(place).st_ino != namespace:
            raise OSError(1, "the listener is in a different network namespace than the box")
    finally:
        os.close(place)
