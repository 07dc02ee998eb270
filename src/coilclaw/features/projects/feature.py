"""Projects: their routes."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def projects_part(_: "Serving") -> "Part":
    """The routes of projects."""
    from coilclaw.features.projects.routes import ProjectRoutes
    from coilclaw.server.part import Part

    return Part(controllers=(ProjectRoutes,), given={})


FEATURE = Feature(part=projects_part)
