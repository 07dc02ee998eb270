"""What a worker does for runs begun at a terminal: it goes on with those whose answer came elsewhere."""

import asyncio
import sqlite3
from typing import TYPE_CHECKING

from coilclaw.jobs.worker import Chore
from coilclaw.packets.errors import CoilclawError, Conflict

if TYPE_CHECKING:
    from coilclaw.app.app import App
    from coilclaw.gate.conveyor import Conveyor

LOOK_SECONDS = 1.0
"""How often it looks; a look at nothing is one query."""


def answered_runs(app: "App", conveyor: "Conveyor") -> Chore:
    """Goes on with runs that were answered; whoever holds a run is left alone, and each step passes the gate."""
    given_up: set[str] = set()  # what could not go on is tried once by each worker; the owner was told

    async def run() -> int:
        from coilclaw.agent.sops.answered import to_go_on_with
        from coilclaw.store.lock import holder_is_gone

        done = 0
        for run_id, holder in to_go_on_with(app.db.reader):
            if app.estop.engaged():
                break
            held = holder is not None and not holder_is_gone(app.home.locks_dir / f"{holder}.lock")
            if run_id not in given_up and not held:
                done += await _go_on(app, conveyor, run_id, given_up)
        return done

    return Chore(name="sops", every=LOOK_SECONDS, run=run)


async def _go_on(app: "App", conveyor: "Conveyor", run_id: str, given_up: set[str]) -> int:
    from coilclaw.agent.sops.answered import WORKER_NAME
    from coilclaw.app.sops.procedures import Procedures

    reason = "The worker was stopped; the next one goes on with it."
    try:
        moved = await Procedures(app, conveyor=conveyor, patient=False).go_on(run_id, name=WORKER_NAME)
        reason = "ESTOP held it; a worker goes on with it afterwards."
        app.observe("sop_went_on", {"run_id": run_id, "state": moved.run.state, "stopped": moved.stop})
    except Conflict:  # somebody else was faster
        return 0
    except Exception as error:  # whatever it is, it is told once and not tried for ever
        given_up.add(run_id)
        words = str(error) if isinstance(error, CoilclawError) else f"an unexpected {type(error).__name__}."
        reason = app.redact(f"It could not go on: {words}")
        app.warn(f"the SOP run {run_id} could not go on: {words} Go on with `coilclaw sop resume {run_id}`.")
    finally:
        await asyncio.shield(app.db.write(lambda tx: _put_back(app, tx, run_id, reason)))
    return 1


def _put_back(app: "App", tx: sqlite3.Connection, run_id: str, reason: str) -> None:
    """A run that stopped in the middle, and that nobody holds, waits: so a worker finds it again."""
    from coilclaw.ledger.audit import add_event
    from coilclaw.store.sops import load_run, move_run

    run = load_run(tx, run_id)
    if run is not None and run.state == "RUNNING" and run.worker is None:
        move_run(tx, app.clock, run_id, state="WAITING", reason=reason)
        add_event(tx, app.clock, "sop_state", run_id, {"state": "WAITING", "reason": reason})
