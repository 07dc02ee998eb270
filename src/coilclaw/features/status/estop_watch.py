"""The watch over ESTOP: whoever sets or clears the file, a running worker or server tells the audit of it."""

from typing import TYPE_CHECKING

from coilclaw.gate.estop import known_estop, note_estop
from coilclaw.work.worker import Chore

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

LOOK_SECONDS = 0.5


def estop_watch(app: "Runtime") -> Chore:
    """A chore that notices the file come and go. A look at nothing new is one lstat and one indexed read."""

    async def look() -> int:
        engaged = app.estop.engaged()
        if known_estop(app.db.reader) == engaged:
            return 0
        why = app.redact(app.estop.state().reason)
        return int(await app.db.write(lambda tx: note_estop(tx, app.clock, engaged=engaged, reason=why)))

    return Chore(name="estop_watch", every=LOOK_SECONDS, run=look)
