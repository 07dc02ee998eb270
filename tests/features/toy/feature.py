"""What the toy gives."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature
from tests.features.toy.knocks import Knocks

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving
    from coilclaw.work.worker import Chore

KNOCKS = Knocks()


def knocks_part(_serving: "Serving") -> "Part":
    """The routes of knocks."""
    from coilclaw.server.part import Part
    from tests.features.toy.routes import KnocksController

    return Part(controllers=(KnocksController,), given={"knocks": KNOCKS})


def _chores(_runtime: "Runtime", _conveyor: "Conveyor") -> "tuple[Chore, ...]":
    from coilclaw.work.worker import Chore

    return (Chore(name="fade", every=1.0, run=KNOCKS.fade),)


FEATURE = Feature(part=knocks_part, chores=_chores)
