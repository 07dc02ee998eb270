"""In whose name a call is made: taken out of its arguments once, at intake; tools with identities require it."""

from typing import cast, get_args

import msgspec

from coilclaw.packets.action import Identity, ToolCall
from coilclaw.packets.canonical import Json, NotCanonical, canonical_bytes, parse_object
from coilclaw.packets.decision import Reason
from coilclaw.packets.ports import Tool

FIELD = "identity"
REQUIRED = "IDENTITY_REQUIRED"
FORBIDDEN = "IDENTITY_FORBIDDEN"
NEVER_SENDS = "USER_NEVER_SENDS"


def takes(tool: Tool) -> str:
    """Which arguments a tool takes, by name."""
    shown = shown_parameters(tool)
    required = [str(name) for name in cast("list[Json]", shown.get("required", []))]
    others = [name for name in cast("dict[str, Json]", shown.get("properties", {})) if name not in required]
    parts = (", ".join(required), f"if wanted {', '.join(others)}" if others else "")
    return f"{tool.name} takes {' and '.join(filter(None, parts)) or 'no arguments'}"


def shown_parameters(tool: Tool) -> dict[str, Json]:
    """The schema of a tool as callers are shown it: one with identities requires `identity` beside its arguments."""
    if not tool.identities:
        return tool.parameters
    own = tool.parameters
    properties = cast("dict[str, Json]", own.get("properties", {}))
    required = cast("list[Json]", own.get("required", []))
    named: Json = {
        "type": "string",
        "enum": [*sorted(tool.identities, reverse=True)],
        "description": "In whose name: `user` is the owner's account, `bot` your own.",
    }
    return {**own, "properties": {FIELD: named, **properties}, "required": [FIELD, *required]}


def lifted(call: ToolCall, tool: Tool | None) -> ToolCall:
    """The call with the identity that its arguments name. An unknown or contradicting one stays there, as evidence."""
    named = _named(call) if tool is not None and tool.identities else None
    if named not in get_args(Identity) or call.identity not in (None, named):
        return call
    rest = {name: value for name, value in parse_object(call.args_bytes).items() if name != FIELD}
    args = msgspec.Raw(canonical_bytes(rest))
    return msgspec.structs.replace(call, identity=cast("Identity", named), args=args)


def bound(call: ToolCall, tool: Tool | None) -> Tool | None:
    """The tool in the name that a call gives; itself if it has none to act in."""
    if tool is None or identity_fault(call, tool) or call.identity is None:
        return tool
    return tool.acting_as(call.identity)


def identity_fault(call: ToolCall, tool: Tool | None) -> Reason | None:
    """Why the tool does not accept the identity of a call."""
    if tool is None:
        return None
    left = FIELD in cast("dict[str, Json]", tool.parameters.get("properties", {}))
    in_arguments = not left and _named(call) is not None
    if not tool.identities:
        if call.identity is None and not in_arguments:
            return None
        return Reason(
            rule="identity.forbidden",
            code=FORBIDDEN,
            text=f"{tool.name} acts in nobody's name, so it takes no identity.",
            change="Leave the identity out.",
        )
    names = " or ".join(sorted(tool.identities, reverse=True))
    if call.identity is None or in_arguments:
        return Reason(
            rule="identity.required",
            code=REQUIRED,
            text=f"{tool.name} needs one identity: {names}.",
            change="Say in whose name it is; there is no default.",
        )
    if call.identity not in tool.identities:
        return Reason(
            rule="identity.forbidden",
            code=FORBIDDEN,
            text=f"{tool.name} can only be called as {names}, not as {call.identity}.",
            change=f"Call it as {names}.",
        )
    return None


def _named(call: ToolCall) -> Json:
    if b'"identity"' not in call.args_bytes:
        return None
    try:
        args = parse_object(call.args_bytes)
    except NotCanonical:  # a damaged row; its arguments are refused anyway
        return None
    return args[FIELD] if args.get(FIELD) is not None else ("" if FIELD in args else None)
