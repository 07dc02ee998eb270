"""What the doctor looks at: each wall around the agent, tried from inside its own box."""

import asyncio
import shutil
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.evolve.box import BOT, REMOTE, box_spec, evolve_box
from coilclaw.features.evolve.init import needed
from coilclaw.features.evolve.places import EvolvePlaces
from coilclaw.features.evolve.wheels import checked_wheels, pinned_wheels
from coilclaw.packets.box import BoxLimits, Probe
from coilclaw.packets.errors import CoilclawError, UsageError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

_TRIALS = {
    "its root is read-only": "! touch /usr/x /x",
    "the code that runs is read-only": f"! touch {BOT}/$0/coilclaw/x",
    "its volume is writable": f"touch {BOT}/.doctor && rm {BOT}/.doctor",
    "it cannot move main": f"! touch {REMOTE}/refs/heads/main",
    "it cannot change the settings of its side": f"! touch {REMOTE}/config {REMOTE}/objects/info/x",
    "it pushes its own branches": f"touch {REMOTE}/refs/heads/agent/.doctor && rm {REMOTE}/refs/heads/agent/.doctor",
    "there is no interface but its own": 'test "$(grep -c : /proc/net/dev)" = 1',
    "it has git and Python": "command -v git python3",
}
_BRANCH = "main"


def evolve_probes(app: "Runtime", *, prove: bool) -> list[Probe]:
    """Every wall, for a home that has an agent; none otherwise. Blocking."""
    try:
        places = needed(app)
    except UsageError:
        return []
    if shutil.which("git") is None:
        return [Probe(name="evolve", state="fail", detail="git is not installed", remedy="Install the package git.")]
    wheels = _wheels(places, prove=prove)
    if any(each.state == "fail" for each in wheels):
        return wheels  # nothing starts with them, so there is no box to try
    if not prove or app.estop.engaged() or not places.code(_BRANCH).is_dir():
        untried = Probe(name="evolve", state="info", detail="its walls are tried once it has run, without --short")
        return [untried, *wheels]
    return [asyncio.run(_tried(app)), *wheels]


def _wheels(places: EvolvePlaces, *, prove: bool) -> list[Probe]:
    try:
        given = checked_wheels(places) if prove else pinned_wheels(places)
    except UsageError as error:
        return [Probe(name="evolve wheels", state="fail", detail=error.message, remedy=error.remedy)]
    if given is None:
        return []
    detail = f"{given.wheels} of {given.bytes / 1e6:.1f} MB, sha256 {given.digest}"
    return [Probe(name="evolve wheels", state="ok" if prove else "info", detail=detail)]


async def _tried(app: "Runtime") -> Probe:
    script = "\n".join(
        f"if ( {trial} ) >/dev/null 2>&1; then echo held; else echo '{name}'; fi" for name, trial in _TRIALS.items()
    )
    spec = msgspec.structs.replace(
        box_spec(app, _BRANCH, 0),
        command=("/bin/sh", "-c", script, _BRANCH),
        listeners=(),
        domains=(),
        routed=False,  # its guard is tried at every start
        limits=BoxLimits(),
    )
    try:
        box = evolve_box(app)
        result = await box.run(spec)
    except CoilclawError as error:
        return Probe(name="evolve", state="fail", detail=error.message, remedy=error.remedy)
    lines = result.stdout.decode("utf-8", "replace").splitlines()
    broken = [line for line in lines if line != "held"]
    if broken or len(lines) != len(_TRIALS):
        return Probe(
            name="evolve",
            state="fail",
            detail=f"a wall does not hold: {'; '.join(broken) or result.reason or 'the probe did not end'}",
            remedy="Do not run `coilclaw evolve up` here; the other lines of the doctor say what is missing.",
        )
    return Probe(name="evolve", state="ok", detail=f"tier {result.tier}: {', '.join(_TRIALS)}")
