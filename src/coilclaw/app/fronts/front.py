"""The front: an App as the server sees it. Holds what several parts of the server share."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from coilclaw.server.core import Core
from coilclaw.server.part import Part

if TYPE_CHECKING:
    from coilclaw.app.app import App
    from coilclaw.app.background import Background


class Front:
    """One App and its background work, given to the server."""

    def __init__(self, app: "App", background: "Background") -> None:
        self.app = app
        self.background = background
        self.core = Core(
            db=app.db,
            clock=app.clock,
            redactor=app.redactor,
            conveyor=background.conveyor,
            approvals=app.approvals(background.conveyor),
            estop=app.estop,
        )


MakePart: TypeAlias = Callable[[Front], Part]
