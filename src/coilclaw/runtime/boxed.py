"""The runtime's own commands, run in a box; ESTOP ends them."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.packets.box import BoxResult, BoxSpec

if TYPE_CHECKING:
    from coilclaw.packets.ports import Box
    from coilclaw.runtime.runtime import Runtime


async def run_until_stopped(app: "Runtime", spec: BoxSpec, box: "Box | None" = None) -> BoxResult | None:
    """Run a command to its end; None when ESTOP ended it or kept it from starting."""
    if app.estop.engaged():
        return None
    run = asyncio.ensure_future((box or app.open_box()).run(spec))
    stop = asyncio.ensure_future(app.estop.wait())
    try:
        await asyncio.wait({run, stop}, return_when=asyncio.FIRST_COMPLETED)
        return run.result() if run.done() else None
    finally:
        run.cancel()
        stop.cancel()
        await asyncio.wait({run, stop})  # its folder may be removed only when nothing runs in it any more
