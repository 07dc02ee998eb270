"""Serves one box's connections to its ports: a limited number at a time, the rest wait, all end with the box."""

import asyncio
import errno
import socket

from coilclaw.lib.streams import READ, hang_up
from coilclaw.packets.ports import Serve


class Accepting:
    """Serves the listeners of one box, which are in its network namespace, until it is closed."""

    def __init__(self, served: dict[int, tuple[Serve, int]]) -> None:
        """By port: the handler of a connection, and how many may be open at a time."""
        self._served = served
        self._accepting: list[asyncio.Task[None]] = []
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports to listen on."""
        return tuple(self._served)

    def start(self, listeners: list[socket.socket]) -> None:
        """Serve these sockets, in the order of the ports; takes ownership of them."""
        for listener, (port, (serve, most)) in zip(listeners, self._served.items(), strict=True):
            task = asyncio.get_running_loop().create_task(self._accept(listener, port, serve, most))
            self._accepting.append(task)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        while tasks := [task for task in (*self._accepting, *self._serving) if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _accept(self, listener: socket.socket, port: int, serve: Serve, most: int) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        here: set[asyncio.Task[None]] = set()
        with listener:
            while True:
                try:
                    client, _ = await loop.sock_accept(listener)
                except OSError as error:
                    if error.errno not in {errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.EINTR}:
                        return
                    await asyncio.sleep(0.05)
                    continue
                task = loop.create_task(_answer(client, port, serve))
                for group in (here, self._serving):
                    group.add(task)
                    task.add_done_callback(group.discard)
                while len(here) >= most:
                    await asyncio.wait(here, return_when=asyncio.FIRST_COMPLETED)


class HeldListeners:
    """The listeners of one box that others accept from: kept open, so that the next process can borrow them."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self.ports = ports
        self.held: list[socket.socket] = []

    def start(self, listeners: list[socket.socket]) -> None:
        """Keep these sockets; takes ownership of them."""
        self.held = listeners

    async def close(self) -> None:
        """Stop listening."""
        while self.held:
            self.held.pop().close()


async def _answer(client: socket.socket, port: int, serve: Serve) -> None:
    with client:
        try:
            reader, writer = await asyncio.open_connection(sock=client, limit=READ)
        except OSError:
            return
        try:
            await serve(port, reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            return  # the client hung up, or would not stop
        finally:
            await hang_up(writer)
