"""The tools that a model is told of."""

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coilclaw.packets.chat import ToolSpec
    from coilclaw.runtime.runtime import Runtime


def offered_tools(app: "Runtime", names: Collection[str]) -> "tuple[ToolSpec, ...]":
    """The tools of these names as a model is told of them."""
    from coilclaw.packets.chat import ToolSpec

    return tuple(
        ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)
        for tool in app.tools.values()
        if tool.name in names
    )
