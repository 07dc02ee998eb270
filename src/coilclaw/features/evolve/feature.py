"""The agent that works on itself: its routes."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def evolve_part(serving: "Serving") -> "Part":
    """The routes of the agent."""
    from coilclaw.features.evolve.owner_evolve import OwnerEvolve
    from coilclaw.features.evolve.routes import EvolveRoutes
    from coilclaw.server.part import Part

    owner = OwnerEvolve(serving.runtime, serving.core.conveyor)
    return Part(controllers=(EvolveRoutes,), given={"owner_evolve": owner})


FEATURE = Feature(part=evolve_part)
