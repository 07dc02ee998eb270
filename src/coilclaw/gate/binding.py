"""What a yes binds: the bytes that would be carried out, and everything the owner was shown."""

from coilclaw.gate.facts import Inspected
from coilclaw.packets.action import Action, ToolCall
from coilclaw.packets.canonical import digest_of


def call_digest(call: ToolCall, inspected: Inspected) -> str:
    """What an approval binds: the tool as declared, in whose name, the exact arguments, and what inputs hold."""
    declaration = inspected.tool.declaration_hash if inspected.tool is not None else ""
    return digest_of(
        call.tool.encode(),
        declaration.encode(),
        (call.identity or "").encode(),
        call.args_bytes,
        *inspected.digest_parts,
    )


def is_as_shown(action: Action, inspected: Inspected, seen: Action, shown: Inspected) -> bool:
    """Whether an action looked at again is still what was on its card."""
    return (
        action.digest == seen.digest
        and action.decision.lane == seen.decision.lane
        and inspected.facts.paths == shown.facts.paths
        and bool(inspected.facts.irreversible) <= bool(shown.facts.irreversible)
    )
