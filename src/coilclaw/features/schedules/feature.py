"""Schedules: their routes, and the chore that starts what is due."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature
from coilclaw.features.jobs.background import Background
from coilclaw.features.schedules.scheduler import Scheduler

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving
    from coilclaw.work.worker import Chore


def schedules_part(serving: "Serving") -> "Part":
    """The routes of schedules."""
    from coilclaw.features.schedules.owner_schedules import OwnerSchedules
    from coilclaw.features.schedules.routes import ScheduleRoutes
    from coilclaw.server.part import Part

    return Part(controllers=(ScheduleRoutes,), given={"schedules": OwnerSchedules(serving)})


def _chores(runtime: "Runtime", conveyor: "Conveyor") -> "tuple[Chore, ...]":
    return (Scheduler(runtime).chore(Background(runtime, conveyor)),)


FEATURE = Feature(part=schedules_part, chores=_chores)
