"""Intake and dispatcher of Actions: what is asked for or due becomes a job once, however often they run."""

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.actions.due import DispatchTick, Left, due
from coilclaw.features.forge.actions.remote_jobs import RemoteJobs, job_id_of, run_claim
from coilclaw.features.forge.github.api import GitHubRefused
from coilclaw.features.jobs.job_spec import check_goal
from coilclaw.features.schedules.registry import REGISTRY, REGISTRY_BYTES, Declared, read_registry
from coilclaw.packets.canonical import Json, canonical_bytes
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import stamp
from coilclaw.packets.job import JobPacket
from coilclaw.sandbox.files import read_existing

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

TRAIL = "refs/coilclaw/dispatcher"
"""The dispatcher's own trail: a commit for each look that changed something."""
STATE, TICK = "state.json", "tick.json"


async def take_in(app: "Runtime", words: str, channel: str, key: str) -> str:
    """Make a job of what was handed in; in words, what became of it."""
    goal = check_goal(words)
    made = job_id_of(f"intake:{key}")
    packet = JobPacket(job_id=made, intent=goal, inputs={"channel": channel[:64]})
    started = await RemoteJobs(app).hand_in(packet)
    return f"{made} was started." if started else f"{made} was handed in before."


async def dispatch(app: "Runtime", now: datetime) -> str:
    """Start what is due; in words, what was started."""
    if app.config.forge.github.execute != "actions":
        return "forge.github.execute is local, so the schedules run there: nothing is started here."
    jobs = RemoteJobs(app)
    trail = await jobs.ref(TRAIL)
    before = await _left(jobs, trail)
    tick = due(_declared(app), before, now, job_id_of)
    started = [
        run.run_instance_id for run in tick.runs if await jobs.hand_in(run.packet, run_claim(run.run_instance_id))
    ]
    if tick.left != before or not trail:
        await _keep(jobs, trail, tick, started, now)
    return f"{len(started)} started, {len(tick.runs) - len(started)} already claimed."


def _declared(app: "Runtime") -> tuple[Declared, ...]:
    data = read_existing(app.workspace, REGISTRY, REGISTRY_BYTES)
    return () if data is None else read_registry(data, redact=app.redact).declared


async def _left(jobs: RemoteJobs, trail: str) -> dict[str, Left]:
    if not trail:
        return {}
    data = (await jobs.commit_files(trail)).get(STATE, b"{}")
    try:
        return msgspec.json.decode(data, type=dict[str, Left])
    except msgspec.DecodeError as error:
        raise UsageError(f"{TRAIL} cannot be read, so nothing is started: {error}.") from error


async def _keep(jobs: RemoteJobs, trail: str, tick: DispatchTick, started: list[str], now: datetime) -> None:
    """Write down where everything was left and why. Whoever was faster has written the same: what is started is claimed
    one by one, so nothing depends on who was."""
    told: dict[str, Json] = {"at": stamp(now), "started": [*started], "schedules": tick.told}
    left: Json = msgspec.to_builtins(tick.left)
    files = {STATE: canonical_bytes(left), TICK: canonical_bytes(told)}
    commit = await jobs.write_commit(files, f"Dispatcher at {stamp(now)}", (trail,) if trail else ())
    if not trail:
        await jobs.create_ref(TRAIL, commit)
        return
    try:
        body: dict[str, Json] = {"sha": commit, "force": False}
        await jobs.api.write("PATCH", f"/git/{TRAIL}", body)
    except GitHubRefused as error:
        if error.status != 422:
            raise
