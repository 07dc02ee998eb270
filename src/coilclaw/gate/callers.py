"""Who may call a tool: what its declaration says, and nobody where it says nothing."""

from typing import Protocol, runtime_checkable

from coilclaw.packets.action import Source
from coilclaw.packets.ports import Tool

MODELS: frozenset[Source] = frozenset({"chat", "job", "schedule", "cli", "session"})
"""Where models propose calls. A tool that is not called from all of these is the runtime's own."""


@runtime_checkable
class Declares(Protocol):
    """A tool that says where calls of it may come from."""

    callers: frozenset[Source]


def callers_of(tool: Tool) -> frozenset[Source]:
    """Where calls of this tool may come from."""
    return tool.callers if isinstance(tool, Declares) else frozenset()


def is_runtime_only(tool: Tool) -> bool:
    """Whether only the runtime itself calls it, never a model."""
    return not callers_of(tool) & MODELS
