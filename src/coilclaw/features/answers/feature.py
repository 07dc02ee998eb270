"""Standing answers: their routes."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def answers_part(_: "Serving") -> "Part":
    """The routes of standing answers."""
    from coilclaw.features.answers.routes import AnswerRoutes
    from coilclaw.server.part import Part

    return Part(controllers=(AnswerRoutes,), given={})


FEATURE = Feature(part=answers_part)
