"""Re-check the token before a delayed response is sent."""

from coilclaw.packets.ids import stamp
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.tokens import caller_holds
from coilclaw.server.problems import Trouble


def may_stay(core: Core, caller: Caller) -> bool:
    """Whether an admitted caller still has access."""
    return caller_holds(core.db.reader, caller, stamp(core.clock()))


def must_stay(core: Core, caller: Caller) -> None:
    """Raise if the device was revoked while its request ran."""
    if not may_stay(core, caller):
        raise Trouble(
            401,
            "UNPAIRED",
            "this device was signed out while it waited.",
            remedy="Pair this device: `coilclaw pair` at the terminal shows a code.",
            headers={"WWW-Authenticate": 'Bearer realm="coilclaw"'},
        )
