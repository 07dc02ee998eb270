"""From what a model wrote to typed calls: arguments are parsed here, once, strictly."""

from coilclaw.packets.action import ToolCall
from coilclaw.packets.canonical import NotCanonical, parse_object, sha256_hex
from coilclaw.packets.chat import ProposedCall

SHOWN = 500


def typed_call(proposed: ProposedCall) -> ToolCall:
    """The call with canonical arguments. Text that is no JSON object is kept as evidence; no schema accepts it."""
    name = proposed.tool[:128]
    try:
        args = parse_object(proposed.arguments or "{}")
    except NotCanonical as error:
        text = proposed.arguments[:SHOWN].encode("utf-8", "replace").decode("utf-8")
        return ToolCall.of(
            name,
            {"not_an_argument_object": text, "fault": str(error)[:SHOWN]},
            call_id=proposed.call_id,
            identity=proposed.identity,
            justification=proposed.justification,
        )
    return ToolCall.of(
        name, args, call_id=proposed.call_id, identity=proposed.identity, justification=proposed.justification
    )


def call_key(turn_id: str, round_number: int, index: int) -> str:
    """The idempotency key of a proposed call: the same after a crash."""
    return sha256_hex(f"{turn_id}:{round_number}:{index}".encode())
