"""The agent's box: its volume, its side of the repository, its model, and nothing else of this machine."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.features.evolve.places import CODE, EvolvePlaces, places_of
from coilclaw.features.evolve.watcher.record import is_branch
from coilclaw.features.evolve.wheels import AT, checked_wheels
from coilclaw.packets.box import BROKER_FOR_HOURS, BoxLimits, BoxMount, BoxSpec
from coilclaw.packets.errors import BoxUnavailable, UsageError
from coilclaw.sandbox.box import open_box, reaching
from coilclaw.sandbox.toolchains import lent

if TYPE_CHECKING:
    from coilclaw.packets.box import Tier
    from coilclaw.packets.ports import Box
    from coilclaw.runtime.runtime import Runtime

BOT, REMOTE, OBJECTS = "/bot", "/mnt/remote", "/mnt/bot.git/objects"
MODEL_PORT = 3130
_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
_RUN = 'cd "$1" && exec "$2" -u infra/runner.py 2>&1'
"""Both streams are one, so that a traceback stands where it happened."""
_FILE_BYTES = 1 << 30
_WRITE_BYTES = 64 << 30
"""It runs for days; the watcher measures what it occupies."""


def evolve_box(app: "Runtime", prefer: "Tier | None" = None) -> "Box":
    """The best box that holds here: of the home, it can be shown the agent's own folders alone."""
    places = places_of(app.home.root)
    _, owned = app.box_walls()
    forbidden = (str(path) for path in app.config.security.forbidden_paths)
    hidden = [path for path in forbidden if path not in ("/etc", "/sys", "/boot", "/proc")]
    hidden += _others(app.home.root, {places.root.name})
    shown = (places.record, places.remote, places.bot, places.box, places.wheels)
    hidden += _others(places.root, {each.name for each in shown})
    hidden += _others(places.record, {"objects"})
    evolve = app.config.evolve
    insists = evolve.container == "podman" or evolve.network == "routed"
    box = open_box(
        hide=tuple(hidden),
        owned=owned,
        prefer="C" if insists and prefer is None else prefer,
        container=evolve.container == "auto" and prefer is None,
    )
    return reaching(box, app.transport)


def _others(folder: Path, shown: set[str]) -> list[str]:
    return sorted(str(path) for path in folder.iterdir() if path.name not in shown)


def box_spec(app: "Runtime", branch: str, context_tokens: int) -> BoxSpec:
    """Everything the box is given for a start of this branch."""
    places, evolve = places_of(app.home.root), app.config.evolve
    code = f"{BOT}/{branch}/{CODE}"
    if not is_branch(branch) or not places.code(branch).is_dir():
        raise UsageError(f"{branch} has no folder {code}.", remedy="The agent clones a branch before it starts it.")
    check_route(app)
    toolchains, path = lent(app.config.security.toolchains)
    wheels, installs = _wheelhouse(places)
    environment = {
        "PATH": path,
        "EVOLVE_BRANCH": branch,
        "EVOLVE_MODEL": f"http://127.0.0.1:{MODEL_PORT}/v1/chat/completions",
        "EVOLVE_INTERVAL": str(evolve.look_seconds),
        "EVOLVE_CONTEXT_TOKENS": str(context_tokens),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        **installs,
        **{
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "agent"), ("EMAIL", "agent@evolve.invalid"))
        },
    }
    return BoxSpec(
        command=("/bin/sh", "-c", _RUN, "sh", code, _python()),
        workspace=str(places.box),
        cwd=str(places.box),
        workspace_writable=False,
        environment=tuple(environment.items()),
        domains=evolve.domains,
        routed=evolve.network == "routed",
        broker=BROKER_FOR_HOURS,
        mounts=(*_volume(places, branch), *_repository(places), *wheels, *toolchains),
        listeners=(MODEL_PORT,),
        limits=BoxLimits(
            wall_seconds=None,
            cpu_seconds=None,
            memory_bytes=evolve.memory_mb << 20,
            processes=evolve.processes,
            file_bytes=min(_FILE_BYTES, evolve.disk_mb << 20),
            write_bytes=_WRITE_BYTES,
            open_files=1024,
            address_space=False,
        ),
    )


def check_route(app: "Runtime") -> None:
    """Raise unless the configured network is one that the owner allowed."""
    if app.config.evolve.network == "routed" and not places_of(app.home.root).routed.is_file():
        raise UsageError(
            'evolve.network is "routed", and you have not allowed the agent a route yet.',
            remedy='Run `coilclaw evolve route`, which needs your proof; or set it to "broker".',
        )


def _volume(places: EvolvePlaces, branch: str) -> tuple[BoxMount, ...]:
    """The volume, and in it the code that runs, read-only: every folder on the way is a mount, so none can be moved."""
    parts = Path(branch).parts
    above = [BoxMount(source=str(places.bot), at=BOT, writable=True)]
    for depth in range(1, len(parts) + 1):
        name = "/".join(parts[:depth])
        above.append(BoxMount(source=str(places.bot / name), at=f"{BOT}/{name}", writable=True))
    code = BoxMount(source=str(places.code(branch)), at=f"{BOT}/{branch}/{CODE}", writable=False)
    return (*above, code)


def _repository(places: EvolvePlaces) -> tuple[BoxMount, ...]:
    """The agent's side, of which it writes objects and refs of its own branches; of the record, objects to read."""
    shown = (("", False), ("objects", True), ("objects/info", False), ("refs/heads/agent", True))
    return (
        BoxMount(source=str(places.record / "objects"), at=OBJECTS, writable=False),
        *(
            BoxMount(source=str(places.remote / name), at=f"{REMOTE}/{name}".rstrip("/"), writable=writable)
            for name, writable in shown
        ),
    )


def _wheelhouse(places: EvolvePlaces) -> tuple[tuple[BoxMount, ...], dict[str, str]]:
    """The wheels that the owner gave it, and that pip and uv install from them alone."""
    taken = checked_wheels(places)
    if taken is None:
        return (), {}
    mount = BoxMount(source=str(places.wheels / taken.folder), at=AT, writable=False)
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": AT}
    uv = {"UV_OFFLINE": "1", "UV_FIND_LINKS": AT, "UV_CACHE_DIR": f"{BOT}/.uv"}  # /tmp is too small to unpack them
    return (mount,), {**pip, **uv}


def _python() -> str:
    found = next((path for path in _PYTHONS if os.access(path, os.X_OK)), "")
    if not found:
        raise BoxUnavailable(
            "there is no Python at /usr/bin/python3, and the agent is a Python program.",
            remedy="Install your system's package `python3`.",
        )
    return found
