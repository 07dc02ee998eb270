"""The listener: what is true of it by the time it says that it is ready."""

import asyncio
import socket

from coilclaw.server.door.slow_clients import Limits, patient
from coilclaw.server.listener import listen


class SlowTwin(asyncio.SelectorEventLoop):
    """Takes its time to bind the second loopback address."""

    async def create_server(self, *args, host=None, **kwargs):
        if host == "::1":
            await asyncio.sleep(0.1)
        return await super().create_server(*args, host=host, **kwargs)


async def nobody(scope, receive, send):
    """Answers nothing: these tests look at connections alone."""


def test_ready_means_that_both_addresses_are_taken_and_queue_many():
    """Whoever connects at once need not wait for the system to try again, and nobody can take the other address."""
    made, taken = [], []

    def ready(port):
        with socket.socket(socket.AF_INET6) as other:
            other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                other.bind(("::1", port))
            except OSError:
                taken.append(True)
        for _ in range(100):
            made.append(socket.create_connection(("127.0.0.1", port), timeout=5))

    async def serve():
        stop = asyncio.Event()

        def once(port):
            try:
                ready(port)
            finally:
                stop.set()

        await listen(nobody, "127.0.0.1", 0, stop, once, protocol=patient(Limits(connections=64)))

    with asyncio.Runner(loop_factory=SlowTwin) as runner:
        try:
            runner.run(serve())
        finally:
            for each in made:
                each.close()
    assert (len(made), taken) == (100, [True])
