"""Where a call that the owner made stands: done, refused, or waiting for a proof."""

import msgspec

from coilclaw.packets.action import Action, Status
from coilclaw.server.core import Core
from coilclaw.store.actions import result_of


class CallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Where a call of the owner's stands."""

    action_id: str
    status: Status
    needs: str
    """What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing."""
    code: str
    message: str


def call_answer(core: Core, by: str, action: Action) -> CallAnswer:
    """Where it stands, for the device that made it."""
    result = result_of(core.db.reader, action.action_id)
    waits = action.status == "PENDING"
    return CallAnswer(
        action_id=action.action_id,
        status=action.status,
        needs=core.approvals.owner.needed(core.db.reader, action.decision.lane, by) if waits else "",
        code="" if result is None else result.code,
        message="It waits for the owner." if waits or result is None else core.said(result.output),
    )
