"""What the parts of a server are built from: an open home, and shared objects."""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from coilclaw.packets.card import nobody
from coilclaw.server.core import Core
from coilclaw.server.door.hosts import Hosts, Listening
from coilclaw.server.door.page_keys import PageKeys
from coilclaw.server.door.tokens import Tokens
from coilclaw.server.events.feed import Feed
from coilclaw.server.part import Part

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


class Serving:
    """An open home and its gate, given to the server."""

    def __init__(self, runtime: "Runtime") -> None:
        self.runtime = runtime
        conveyor = runtime.conveyor(nobody)
        self.core = Core(
            db=runtime.db,
            clock=runtime.clock,
            redactor=runtime.redactor,
            conveyor=conveyor,
            approvals=runtime.approvals(conveyor),
            estop=runtime.estop,
        )
        self.feed = Feed(runtime.db, runtime.clock, runtime.redactor)
        """One per process, shared by the streams and by producers of text."""
        self.feed.outputs = runtime.commands.so_far
        runtime.commands.watch(self.feed.say_output)
        config = runtime.config.server
        self.host, self.port = runtime.listen_address
        self.hosts = Hosts(
            Listening(
                host=self.host, tls=config.tls_cert is not None, public_url=config.public_url, proxy=config.tls_proxy
            )
        )
        self.tokens = Tokens(
            db=runtime.db, clock=runtime.clock, days=config.token_days, monotonic=time.monotonic, say=runtime.observe
        )
        self.page_keys = PageKeys(now=time.monotonic, random=os.urandom)
        self._hooks: list[Callable[[str], None]] = []

    def on_revoked(self, hook: Callable[[str], None]) -> None:
        """Call back with a device's id when this process revokes it, so that its connections can end at once."""
        self._hooks.append(hook)

    def revoked(self, device_id: str) -> None:
        """A device lost access."""
        for hook in self._hooks:
            hook(device_id)

    def listening(self, port: int) -> None:
        """Set the accepted names, now that the port is known."""
        self.hosts.listening(port)
        self.runtime.listening = port


MakePart: TypeAlias = Callable[[Serving], Part]
