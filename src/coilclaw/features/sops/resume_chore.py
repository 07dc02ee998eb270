"""What a worker does for runs begun at a terminal: it goes on with those whose answer came elsewhere."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.packets.errors import CoilclawError, Conflict
from coilclaw.store.claims import is_gone
from coilclaw.store.tx import Tx
from coilclaw.work.worker import Chore

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

LOOK_SECONDS = 1.0
"""How often it looks; a look at nothing is one query."""


def answered_runs(app: "Runtime", conveyor: "Conveyor") -> Chore:
    """Continues runs that were answered, except those that a process holds; each step passes the gate."""
    given_up: set[str] = set()  # what could not go on is tried once by each worker; the owner was told

    async def run() -> int:
        from coilclaw.features.sops.store import to_go_on_with

        done = 0
        for run_id, holder in to_go_on_with(app.db.reader):
            if app.estop.engaged():
                break
            if run_id not in given_up and is_gone(app.home.locks_dir, holder):
                done += await _go_on(app, conveyor, run_id, given_up)
        return done

    return Chore(name="sops", every=LOOK_SECONDS, run=run)


async def _go_on(app: "Runtime", conveyor: "Conveyor", run_id: str, given_up: set[str]) -> int:
    from coilclaw.features.sops.procedures import Procedures
    from coilclaw.features.sops.store import WORKER_NAME

    reason = "The worker was stopped; the next one continues it."
    try:
        moved = await Procedures(app, conveyor=conveyor, patient=False).go_on(run_id, name=WORKER_NAME)
        reason = "ESTOP held it; a worker continues it once ESTOP is cleared."
        app.observe("sop_went_on", {"run_id": run_id, "state": moved.run.state, "stopped": moved.stop})
    except Conflict:  # somebody else was faster
        return 0
    except Exception as error:  # whatever it is, it is told once and not tried for ever
        given_up.add(run_id)
        words = str(error) if isinstance(error, CoilclawError) else f"an unexpected {type(error).__name__}."
        reason = app.redact(f"It could not continue: {words}")
        app.warn(
            f"the run {run_id} of a procedure could not continue: {words} Continue with `coilclaw sop resume {run_id}`."
        )
    finally:
        await asyncio.shield(app.db.write(lambda tx: _put_back(app, tx, run_id, reason)))
    return 1


def _put_back(app: "Runtime", tx: Tx, run_id: str, reason: str) -> None:
    """A run that stopped in the middle, and that nobody holds, waits: so a worker finds it again."""
    from coilclaw.ledger.audit import add_event
    from coilclaw.store.sops import load_run, move_run

    run = load_run(tx, run_id)
    if run is not None and run.state == "RUNNING" and run.worker is None:
        move_run(tx, app.clock, run_id, state="WAITING", reason=reason)
        add_event(tx, app.clock, "sop_state", run_id, {"state": "WAITING", "reason": reason})
