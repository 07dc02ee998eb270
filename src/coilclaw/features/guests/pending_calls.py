"""Calls of guests that wait for the owner: what became of their tool ends them."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from coilclaw.features.guests.names import tool_name
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import Conflict, UsageError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

MOST = 1000


async def withdraw_calls(app: "Runtime", guest: str, withheld: Mapping[str, str]) -> None:
    """End waiting calls of tools that are withheld, each with the reason: a yes to them could only fail."""
    from coilclaw.store.actions import list_actions

    reasons = {tool_name(guest, original): why for original, why in withheld.items()}
    waiting = [action for action in list_actions(app.db.reader, "PENDING", MOST) if action.call.tool in reasons]
    if not waiting:
        return
    approvals = app.approvals(app.conveyor(nobody))
    for action in waiting:
        with suppress(Conflict, UsageError):  # it was answered in this very moment
            await approvals.withdraw(action, reason=reasons[action.call.tool])
