"""Talking to the agent, as the server sees it: messages are taken in and answered elsewhere."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from coilclaw.packets.text import visible
from coilclaw.server.core import Core
from coilclaw.server.problems import NotThere
from coilclaw.store.threads import thread_exists
from coilclaw.store.turns import TurnRow, load_turn


@runtime_checkable
class Talk(Protocol):
    """Takes messages in and answers them in the background."""

    async def post(
        self,
        thread_id: str | None,
        text: str,
        message_id: str = "",
        turn_id: str = "",
        *,
        attachments: Sequence[str] = (),
    ) -> TurnRow:
        """Keep a message and the turn that will answer it; the same turn again changes nothing."""
        ...

    async def stop(self, turn_id: str) -> TurnRow:
        """End a turn that waits or runs; one that is over stays as it is."""
        ...

    async def ended(self, turn_id: str, seconds: float) -> TurnRow:
        """The turn once it is over, or as it stands after so long."""
        ...

    def partial(self, turn_id: str) -> str:
        """What a running turn has said so far in its present round."""
        ...


def found_thread(core: Core, thread_id: str) -> str:
    """The id of a conversation that is there."""
    if not thread_exists(core.db.reader, thread_id):
        raise NotThere("such conversation")
    return thread_id


def found_turn(core: Core, turn_id: str) -> TurnRow:
    """A turn that is there."""
    turn = load_turn(core.db.reader, turn_id)
    if turn is None:
        raise NotThere("such turn")
    return turn


def shown_text(core: Core, text: str) -> str:
    """Text as it leaves: without secrets, and with every character shown that could hide others."""
    return visible(core.said(text))


def id_of(kind: str, request_key: str | None) -> str:
    """The id of what a request makes: the same whenever it comes again; empty when it has no key."""
    return f"{kind}_{request_key[:19]}" if request_key else ""
