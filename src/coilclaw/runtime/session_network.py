"""What a coding session reaches while a server runs: its granted domains through the airlock, and what is served to it.

The keeper holds the listening sockets inside the box and lends them. Without a server connections wait, then fail.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from coilclaw.packets.box import BROKER_FOR_HOURS
from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    from coilclaw.packets.ports import Serve
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.sandbox.keepers import AttachedTerminal


@asynccontextmanager
async def listeners_served(
    app: "Runtime",
    keeper: "AttachedTerminal",
    domains: tuple[str, ...],
    served: "Mapping[int, tuple[Serve, int]]",
) -> AsyncIterator[None]:
    """Let a session reach these domains, and its own ports, for as long as this lasts.

    By port, in the order of its box: who serves a connection, and how many at a time.
    """
    if not domains and not served:
        yield
        return
    from coilclaw.airlock.broker.broker import Broker
    from coilclaw.sandbox.accepting import Accepting
    from coilclaw.sandbox.box_listener import PORT

    ports = dict(served)
    if domains:
        broker = Broker(app.airlock, domains, BROKER_FOR_HOURS)
        ports = {PORT: (broker.serve, BROKER_FOR_HOURS.connections), **ports}
    accepting = Accepting(ports)
    try:
        lent = await keeper.listeners()
    except ToolError as error:
        if error.code != "BOX_OVER":
            raise
        yield  # the box is over, and only its output is left
        return
    accepting.start(lent)
    try:
        yield
    finally:
        await accepting.close()
