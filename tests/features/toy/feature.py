"""What the toy gives."""

from coilclaw.features import Feature
from tests.features.toy.knocks import Knocks

KNOCKS = Knocks()


def knocks_part(_):
    """The routes of knocks."""
    from coilclaw.server.part import Part
    from tests.features.toy.routes import KnocksController

    return Part(controllers=(KnocksController,), given={"knocks": KNOCKS})


def _chores(_runtime, _conveyor):
    from coilclaw.work.worker import Chore

    return (Chore(name="fade", every=1.0, run=KNOCKS.fade),)


FEATURE = Feature(part=knocks_part, chores=_chores)
