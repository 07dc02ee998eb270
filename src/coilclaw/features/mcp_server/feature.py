"""CoilClaw as an MCP server: `/mcp`."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def mcp_server_part(serving: "Serving") -> "Part":
    """The address of the protocol."""
    from coilclaw.features.mcp_server.routes import McpController
    from coilclaw.features.mcp_server.sessions import McpSessions
    from coilclaw.server.part import Part

    sessions = McpSessions(serving.runtime, serving.core.conveyor, serving.tokens.holds)
    serving.on_revoked(sessions.revoked)
    return Part(controllers=(McpController,), given={"mcp_sessions": sessions}, beside=(sessions.watch,))


FEATURE = Feature(part=mcp_server_part)
