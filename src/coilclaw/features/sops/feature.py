"""Procedures: the routes of SOPs and their runs, and the chore that goes on with runs that were answered."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature
from coilclaw.features.sops.resume_chore import answered_runs

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving
    from coilclaw.work.worker import Chore


def sops_part(serving: "Serving") -> "Part":
    """The routes of procedures; they make jobs, so they need the part of jobs."""
    from coilclaw.features.sops.routes import SopRoutes, SopRunRoutes
    from coilclaw.features.sops.sop_runs import SopRuns
    from coilclaw.server.part import Part

    return Part(controllers=(SopRoutes, SopRunRoutes), given={"sop_runs": SopRuns(serving)})


def _chores(runtime: "Runtime", conveyor: "Conveyor") -> "tuple[Chore, ...]":
    return (answered_runs(runtime, conveyor),)


FEATURE = Feature(part=sops_part, chores=_chores)
