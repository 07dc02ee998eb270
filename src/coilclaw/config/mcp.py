"""The section `[mcp]`: what CoilClaw offers by the Model Context Protocol."""

from typing import Annotated

import msgspec
from msgspec import Meta

OfferedTool = Annotated[
    str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.:-]{0,127}$", title='the name of a tool such as "file_read"')
]

NEVER_OFFERED = frozenset(
    """
    attachment_save bot_yolo file_show file_vouch pr_merge project_add project_vouch quarantine_release settings_change
    sop_approval
    """.split()  # noqa: SIM905  ten quoted words are harder to read
)
"""What only the runtime calls, and what decides for the owner. The gate refuses these to clients in any case."""


class McpServe(msgspec.Struct, frozen=True, kw_only=True):
    """CoilClaw as an MCP server, for `coilclaw mcp serve` and `/mcp`."""

    tools: tuple[OfferedTool, ...] = (
        "time", "file_list", "file_read", "file_search", "memory_search", "notes_read", "notes_write",
    )  # fmt: skip
    """The tools that MCP clients may call, of those that `[channels.cli]` allows; any other is denied. What asks you
    still asks you. Tools that approve, govern or are the runtime's own cannot be listed."""


class Mcp(msgspec.Struct, frozen=True, kw_only=True):
    """The Model Context Protocol."""

    serve: McpServe = McpServe()
    """CoilClaw as a server."""
