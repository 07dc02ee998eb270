"""What a model's work is given: the tools it is told of, and the way its calls go."""

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coilclaw.agent.calls import Calls
    from coilclaw.app.app import App
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.chat import ToolSpec


def offered_tools(app: "App", names: Collection[str]) -> "tuple[ToolSpec, ...]":
    """The tools of these names as a model is told of them."""
    from coilclaw.packets.chat import ToolSpec

    return tuple(
        ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)
        for tool in app.tools.values()
        if tool.name in names
    )


def calls_through(app: "App", conveyor: "Conveyor") -> "Calls":
    """The calls of background work, over its conveyor."""
    from coilclaw.agent.calls import Calls

    return Calls(db=app.db, conveyor=conveyor, clock=app.clock, redact=app.redact, seal=app.redactor.registered)
