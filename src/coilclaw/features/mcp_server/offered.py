"""The list of tools a client sees: what the configuration offers and the gate would not refuse for its name."""

import base64
import binascii
from typing import TYPE_CHECKING

from coilclaw.features.mcp_server.results import STATUS_TOOL
from coilclaw.features.mcp_server.rpc import INVALID_PARAMS, RpcError
from coilclaw.packets.canonical import Json

if TYPE_CHECKING:
    from coilclaw.packets.ports import Tool
    from coilclaw.runtime.runtime import Runtime

PAGE = 50

_STATUS: dict[str, Json] = {
    "name": STATUS_TOOL,
    "description": "Tell where an action of this session is: still waiting for the owner, or how it ended.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "action_id": {
                "type": "string",
                "description": "The id that the call was answered with, such as act_….",
                "maxLength": 64,
            }
        },
        "required": ["action_id"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


def offered_tools(app: "Runtime") -> "dict[str, Tool]":
    """The tools that clients may call now, by name, in alphabetical order."""
    app.live.refresh()
    may = app.offered_tools & app.allowed_tools
    return {name: tool for name, tool in sorted(app.tools.items()) if name in may}


def page(app: "Runtime", cursor: str | None) -> dict[str, Json]:
    """One page of the list. A cursor is the last name of the page before, so a changed list loses nothing."""
    described = [_described(tool) for tool in offered_tools(app).values() if not tool.withheld]
    listed = sorted((*described, _STATUS), key=_name)
    if cursor is not None:
        after = _read(cursor)
        listed = [each for each in listed if _name(each) > after]
    shown: dict[str, Json] = {"tools": listed[:PAGE]}
    if len(listed) > PAGE:
        shown["nextCursor"] = base64.urlsafe_b64encode(_name(listed[PAGE - 1]).encode()).decode()
    return shown


def _name(described: dict[str, Json]) -> str:
    return str(described["name"])


def _read(cursor: str) -> str:
    try:
        return base64.b64decode(cursor[:256], altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError) as error:
        raise RpcError(INVALID_PARAMS, "This cursor is not one of ours. List the tools from the beginning.") from error


def _described(tool: "Tool") -> dict[str, Json]:
    reads = tool.effect == "READ"
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.parameters,
        "annotations": {
            "readOnlyHint": reads,
            "idempotentHint": reads or tool.idempotent,
            "openWorldHint": tool.destination == "external",
        },
    }
