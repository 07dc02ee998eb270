"""Who may call a tool: a model, or only the runtime."""

from coilclaw.packets.action import Source
from coilclaw.packets.ports import Tool

MODELS: frozenset[Source] = frozenset({"chat", "job", "schedule", "cli", "mcp"})
"""Where models of ours propose calls. A tool that is not called from any of these is the runtime's own: the questions
of a coding session, too, are put by the runtime, in the words of its program."""


def is_runtime_only(tool: Tool) -> bool:
    """Whether only the runtime itself calls it, never a model."""
    return not tool.callers & MODELS
