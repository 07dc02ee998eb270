"""Runs that took place in Actions, once their pull request is merged: their chains are verified and written down here,
so that the owner's own ledger vouches for them."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.paths import RUNS
from coilclaw.ledger.audit import Wanted, add_event, last_events
from coilclaw.ledger.run_evidence import MOST_BYTES, chain_fault, read_run
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

VERIFIED = "run_verified"
BROKEN = "run_broken"


async def take_in_runs(app: "Runtime", forge: LocalForge) -> int:
    """Verify every run on main that was not looked at yet; how many there were. A broken one is told loudly."""
    return await asyncio.to_thread(_take_in, app, forge)


def _take_in(app: "Runtime", forge: LocalForge) -> int:
    entries = forge.repository.entries(forge.bot.main())
    count = 0
    for path, entry in sorted(entries.items()):
        if not path.startswith(RUNS) or _known(app.db.reader, f"{path}@{entry.blob}"):
            continue
        data = forge.repository.blobs([entry.blob])[entry.blob] if entry.size <= MOST_BYTES else b""
        subject, told = f"{path}@{entry.blob}", _judged(path, data)
        app.db.write_now(partial(_tell, app, subject, told))
        if "fault" in told:
            app.warn(f"{path} on main does not hold: {told['fault']}.")
        count += 1
    return count


def _known(db: Tx, subject: str) -> bool:
    return any(last_events(db, Wanted(event_type=event, entity_id=subject), 1) for event in (VERIFIED, BROKEN))


def _tell(app: "Runtime", subject: str, told: dict[str, Json], tx: Tx) -> None:
    add_event(tx, app.clock, BROKEN if "fault" in told else VERIFIED, subject, told)


def _judged(path: str, data: bytes) -> dict[str, Json]:
    """What is to be told about a run; with a `fault` if its chain does not hold."""
    told: dict[str, Json] = {"sha256": sha256_hex(data)}
    try:
        run = read_run(data)
    except ValueError as error:
        return {**told, "fault": str(error)[:200]}
    if path != f"{RUNS}{run.job_id}.json":
        return {**told, "fault": "it is of another job"}
    for chain in run.chains:
        if fault := chain_fault(chain):
            return {**told, "fault": f"{chain.part}: {fault}"}
    chains: list[Json] = [
        {"part": each.part, "key": each.key, "receipts": len(each.receipts), "head": each.head} for each in run.chains
    ]
    return {**told, "job_id": run.job_id, "run_id": run.run_id, "chains": chains}
