"""Jobs: their routes. The worker claims them; see `background.py`."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def jobs_part(serving: "Serving") -> "Part":
    """The routes of jobs."""
    from coilclaw.features.jobs.jobs import Jobs
    from coilclaw.features.jobs.routes import JobRoutes
    from coilclaw.server.part import Part

    return Part(controllers=(JobRoutes,), given={"jobs": Jobs(serving)})


FEATURE = Feature(part=jobs_part)
