"""Background commands at the end of a command of ours: they live no longer than this process, so it waits for them."""

import asyncio
import signal
from typing import TYPE_CHECKING

from coilclaw.cli.output import counted, tell

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime


async def see_out(app: "Runtime") -> None:
    """Wait until nothing runs in the background of this process; Ctrl-C ends it. Each end is said on stderr.

    Guests that were started meanwhile end too.
    """
    running = app.background.here
    if not running:
        await app.leave()
        return
    names = ", ".join(action.action_id for action in running)
    loop = asyncio.get_running_loop()
    waiting = asyncio.ensure_future(app.background.wait())
    loop.add_signal_handler(signal.SIGINT, waiting.cancel)
    try:
        tell(f"Waiting for {counted(len(running), 'background command')} ({names}); Ctrl-C ends it.", err=True)
        await asyncio.wait({waiting})
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        waiting.cancel()
        await app.leave()
    for action in running:
        tell(f"{action.action_id}: {_end_words(app, action.action_id)}", err=True)


def _end_words(app: "Runtime", action_id: str) -> str:
    from coilclaw.store.actions import result_of

    result = result_of(app.db.reader, action_id)
    if result is None:
        return "its end could not be recorded yet"
    return "exit 0" if result.success else f"{result.code}{'' if result.exit is None else f', exit {result.exit}'}"
