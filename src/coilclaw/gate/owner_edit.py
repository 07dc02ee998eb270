"""What the owner wrote instead of a proposal: a new action with the owner's bytes, beside the rejected one."""

import msgspec

from coilclaw.gate.conveyor import Conveyor, Outcome
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action, ToolCall, ToolResult
from coilclaw.store.tx import Tx


async def carry_edited(conveyor: Conveyor, turn: Turn, action: Action, args: bytes, key: str) -> Outcome:
    """Propose what the owner wrote instead: a call like any other, told to the model as the owner's own."""
    call = ToolCall(
        tool=action.call.tool,
        args=msgspec.Raw(args),
        identity=action.call.identity,
        justification=f"Edited by the owner, instead of {action.action_id}.",
    )
    new = await conveyor.intake.proposed(call, turn, key)
    post = conveyor.records.post(new)

    def record(tx: Tx, result: ToolResult) -> None:
        if post is not None and result.code != "APPROVAL_NEEDED":  # whoever carries it out later posts its outcome
            post(tx, result)

    return await conveyor.carry(new, turn, stored=False, record=record)
