"""What the product does: a feature is a folder that holds one whole idea. `app.py` lists them; none is discovered."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.serving import MakePart
    from coilclaw.work.worker import Chore


def _no_chores(_runtime: "Runtime", _conveyor: "Conveyor") -> "tuple[Chore, ...]":
    return ()


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """What a feature gives to the server and to the worker. Its commands are named in the table of `cli/group.py`."""

    part: "MakePart"
    """Its routes, and what they need."""
    chores: "Callable[[Runtime, Conveyor], tuple[Chore, ...]]" = _no_chores
    """What a worker does for it now and then."""
