"""Whose a tool is: a model's, or the runtime's own."""

from coilclaw.packets.action import Source
from coilclaw.packets.ports import Tool

MODELS: frozenset[Source] = frozenset({"chat", "job", "schedule", "cli", "session", "mcp"})
"""Where models propose calls. A tool that is not called from any of these is the runtime's own."""


def is_runtime_only(tool: Tool) -> bool:
    """Whether only the runtime itself calls it, never a model."""
    return not tool.callers & MODELS
