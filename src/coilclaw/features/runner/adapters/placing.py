"""Puts a coding program in place for a session: its files, what it cannot change, and where it finds its hook."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.runner.adapters.contract import (
    HOOK_FOLDER,
    HOOK_PORT,
    MCP_PORT,
    MODEL_PORT,
    PROGRAM_FOLDER,
    PYTHON,
    TALK_PORT,
    Adapter,
    CliLaunch,
    CliPlace,
    Provider,
)
from coilclaw.features.runner.adapters.known import PlacedProgram, adapter_of
from coilclaw.packets.box import BoxMount
from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    from coilclaw.features.runner.spec import Task
    from coilclaw.features.runner.store import Session
    from coilclaw.runtime.runtime import Runtime

MANAGED = ".managed"
"""Beside a session's checkout: what its program cannot change. No box can write it."""


def check_program(app: "Runtime", program: Provider) -> None:
    """Raise ToolError if a program is not installed, or has no model to ask."""
    from coilclaw.features.runner.adapters.versions import Versions
    from coilclaw.features.runner.model_proxy import provider_for

    adapter = adapter_of(program)
    if adapter is not None and adapter.package:
        Versions(app).in_use(adapter)
        provider_for(app, adapter.name)


def place_program(app: "Runtime", adapter: Adapter, session: "Session", home: Path, cwd: str) -> PlacedProgram:
    """What the box of a session needs for its program."""
    _check(app, adapter, session)
    from coilclaw.features.runner.adapters.canary import program_for

    place = place_of(app, adapter, session, cwd)
    programs = program_for(app, adapter, session) if adapter.package else None
    if not session.spec.structured:
        return put_in_place(adapter, place, home, programs)
    placed = put_with_relay(adapter, place, home, programs)
    return msgspec.structs.replace(placed, ports=(*placed.ports, MCP_PORT))


def put_with_relay(adapter: Adapter, place: CliPlace, home: Path, programs: Path | None) -> PlacedProgram:
    """Write what a program without a screen finds; its relay brings what it says to a port of its box."""
    from coilclaw.features.runner.structured.conversation import driver_of

    structured = Path(__file__).parent.with_name("structured")
    placed = _put(driver_of(adapter.name).launch(place), place, home, programs, (structured / "relay.py",))
    relay = (PYTHON, "-I", "-S", f"{HOOK_FOLDER}/relay.py")
    return msgspec.structs.replace(placed, argv=(*relay, *placed.argv), ports=(MODEL_PORT, TALK_PORT))


def place_of(app: "Runtime", adapter: Adapter, session: "Session", cwd: str) -> CliPlace:
    """Where the program of a session works, as it sees it."""
    from coilclaw.features.runner.box import HOME
    from coilclaw.features.runner.model_proxy import provider_for

    return CliPlace(
        home=HOME,
        cwd=cwd,
        checkout=cwd if session.checkout is None else session.checkout.path,
        program=PROGRAM_FOLDER,
        model=provider_for(app, adapter.name)[1].model if adapter.package else "",
        prompt=prompt_of(session.spec.task),
        wait_seconds=app.config.runner.approval_wait_seconds,
    )


def put_in_place(adapter: Adapter, place: CliPlace, home: Path, programs: Path | None) -> PlacedProgram:
    """Write what a program with hooks finds; returns how its box is to have it."""
    beside = [Path(__file__).with_name(name) for name in ("hook.py", "fake_cli.py")]
    return _put(adapter.launch(place), place, home, programs, tuple(beside[: 2 if adapter.name == "fake" else 1]))


def _put(
    launch: CliLaunch, place: CliPlace, home: Path, programs: Path | None, ours: tuple[Path, ...]
) -> PlacedProgram:
    """Its folders are made anew: a box of an interrupted start may have left links in them that lead outside."""
    managed, own = home.with_name(MANAGED), home.with_name(".program")
    for folder in (home, managed, own):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
    (home / "tmp").mkdir(mode=0o700)
    for path, text in launch.files:
        _write(home / path, text)
    for file in ours:
        _write(managed / "hook" / file.name, file.read_text(encoding="utf-8"))
    mounts = [BoxMount(source=str(managed / "hook"), at=HOOK_FOLDER, writable=False)]
    if launch.writable:
        mounts.append(BoxMount(source=str(own), at=launch.writable, writable=True))
    for at, text in launch.managed:
        folder, name = Path(at).parent, Path(at).name
        place_of = managed / str(folder).strip("/").replace("/", "_")
        _write(place_of / name, text)
        if str(folder) == launch.writable:  # over a file of the same name, which cannot be replaced then
            _write(own / name, "")
            mounts.append(BoxMount(source=str(place_of / name), at=at, writable=False))
        else:
            mounts.append(BoxMount(source=str(place_of), at=str(folder), writable=False))
    if programs is not None:
        mounts.append(BoxMount(source=str(programs), at=PROGRAM_FOLDER, writable=False))
    ports = (HOOK_PORT, MODEL_PORT)
    hidden = tuple(f"{place.cwd}/{each}" for each in launch.hidden)
    return PlacedProgram(
        argv=launch.argv,
        environment=launch.environment,
        mounts=tuple(dict.fromkeys(mounts)),
        ports=ports,
        hidden=hidden,
    )


def prompt_of(task: "Task") -> str:
    """The task as a first prompt."""
    parts = [task.title if task.title != task.goal else "", task.goal]
    for name, lines in (("Constraints", task.constraints), ("It is done when", task.acceptance)):
        if lines:
            parts.append("\n".join((f"{name}:", *(f"- {line}" for line in lines))))
    return "\n\n".join(part for part in parts if part)


def _check(app: "Runtime", adapter: Adapter, session: "Session") -> None:
    if adapter.name == "fake" and not app.config.runner.fake_provider:
        raise ToolError(
            "the fake coding program is switched off.",
            remedy="Set runner.fake_provider to true, or use another provider.",
            code="PROVIDER_OFF",
            begun=False,
        )
    absent = {each.rpartition("/")[2] for each in session.spec.policy.shell_denylist}
    if not os.access(PYTHON, os.X_OK) or absent & {"python3", os.path.basename(os.path.realpath(PYTHON))}:  # noqa: PTH119
        raise ToolError(
            f"a coding program needs {PYTHON} in its box: its hook is written for it.",
            remedy="Install it, and leave it out of the session's denylist.",
            code="NO_HOOK",
            begun=False,
        )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    path.write_text(text)
    path.chmod(0o644)
