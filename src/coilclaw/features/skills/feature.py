"""Skills: their routes."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def skills_part(serving: "Serving") -> "Part":
    """The routes of skills."""
    from coilclaw.features.skills.routes import SkillsController
    from coilclaw.features.skills.views import SkillShelf
    from coilclaw.server.part import Part

    return Part(controllers=(SkillsController,), given={"skill_shelf": SkillShelf(serving.runtime)})


FEATURE = Feature(part=skills_part)
