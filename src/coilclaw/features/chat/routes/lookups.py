"""What routes of chat share: conversations and turns by their ids, texts as they leave, ids of what requests make."""

from coilclaw.features.chat.store.turns import TurnRow, load_turn
from coilclaw.packets.text import visible
from coilclaw.server.core import Core
from coilclaw.server.problems import NotThere
from coilclaw.store.threads import thread_exists


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
