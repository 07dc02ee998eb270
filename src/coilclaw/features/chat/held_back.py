"""What a turn may not send or ask for because it read untrusted content: the owner can have it shown and answer it.

It is offered by the action's code alone, never by words of the model, and never pushed.
"""

from typing import TYPE_CHECKING

from coilclaw.cli.output import counted
from coilclaw.cli.phrases import result_words, waits_for
from coilclaw.packets.errors import UsageError
from coilclaw.store.actions import load_action, result_of
from coilclaw.store.held_back import held_back

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime


def held_words(app: "Runtime", turn_id: str) -> str:
    """That something was held back in this turn; empty when nothing was, or the owner has had it shown."""
    held = held_back(app.db.reader, turn_id)
    if not held:
        return ""
    were = "was" if len(held) == 1 else "were"
    return f"{counted(len(held), 'action')} {were} held back because this conversation read untrusted content."


def how_to_show(app: "Runtime", turn_id: str) -> str:
    """The same with the command that shows each of them, for an owner who is not asked here."""
    commands = [f"  coilclaw actions repropose {action_id}" for action_id in held_back(app.db.reader, turn_id)]
    return "\n".join([f"{held_words(app, turn_id)} To see it and decide, run:", *commands]) if commands else ""


async def show_held(app: "Runtime", conveyor: "Conveyor", turn_id: str) -> list[str]:
    """Put everything that was held back up for approval, one card after the other; what came of each."""
    told: list[str] = []
    for action_id in held_back(app.db.reader, turn_id):
        action = load_action(app.db.reader, action_id)
        if action is None:
            continue
        try:
            new = await app.approvals(conveyor).repropose(action)
        except UsageError as error:
            told.append(str(error))
            continue
        result = result_of(app.db.reader, new.action_id)
        ended = new.status not in ("PENDING", "APPROVED") and result is not None
        told.append(f"{new.call.tool}: {result_words(result)}" if ended and result else waits_for(app, new))
    return told
