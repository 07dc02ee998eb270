"""Projects: their routes."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def projects_part(serving: "Serving") -> "Part":
    """The routes of projects."""
    from coilclaw.features.projects.owner_projects import OwnerProjects
    from coilclaw.features.projects.routes import ProjectRoutes
    from coilclaw.server.part import Part

    projects = OwnerProjects(serving.runtime, serving.core.conveyor)
    return Part(controllers=(ProjectRoutes,), given={"projects": projects})


FEATURE = Feature(part=projects_part)
