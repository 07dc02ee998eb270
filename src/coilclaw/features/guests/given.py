"""What a guest is given besides its program: its own folder, an environment, named secrets, the owner's folders."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.guests.program import GuestProgram, find_program, folder_mounts, must_be_apart
from coilclaw.packets.box import BoxMount
from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    from coilclaw.config.mcp import McpServer
    from coilclaw.features.guests.offer import GuestGrant
    from coilclaw.runtime.runtime import Runtime


def guest_folder(app: "Runtime", name: str) -> Path:
    """The guest's own folder, outside the home, which no box sees, and outside the workspace."""
    from coilclaw.config.mcp import guests_dir

    folder = guests_dir(app.config.workspace_dir) / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def own_environment(folder: Path) -> tuple[tuple[str, str], ...]:
    """What every guest finds. Compiled code beside a program is not part of its hash, so Python must not look there."""
    return (("LANG", "C.UTF-8"), ("HOME", str(folder)), ("PYTHONPYCACHEPREFIX", str(folder / ".pycache")))


def worked_in(app: "Runtime") -> list[Path]:
    """The folders that calls of the agent, or of guests, can change."""
    from coilclaw.config.mcp import guests_dir
    from coilclaw.store.projects import open_projects

    projects = [Path(project.path) for project in open_projects(app.db.reader)]
    ours = [app.config.workspace_dir, app.config.trees_dir, app.config.sessions_dir]
    return [*ours, guests_dir(app.config.workspace_dir), *projects]


def program_of(app: "Runtime", server: "McpServer | GuestGrant") -> GuestProgram:
    """The program of a stdio server as it is now. Reads every file of it, so call it in a thread."""
    given = granted_folders(app, server.read, server.write)
    program = find_program(server.command, app.environ.get("PATH", "/usr/bin:/bin"), given)
    must_be_apart(program.mounts, worked_in(app))
    return msgspec.structs.replace(program, mounts=(*program.mounts, *given))


def granted_folders(app: "Runtime", read: tuple[str, ...], write: tuple[str, ...]) -> tuple[BoxMount, ...]:
    """The owner's folders that a guest is given; a UsageError if it cannot be given one of them."""
    mounts = folder_mounts(read, write, app.user_home)
    must_be_apart(mounts, worked_in(app) if mounts else ())
    return mounts


def secrets_of(app: "Runtime", names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Named secrets as environment variables; one that is missing is an error with the remedy."""
    found: list[tuple[str, str]] = []
    for name in names:
        value = app.keyring.get(name, "")
        if not value:
            raise ToolError(
                f"the secret {name} is not set.",
                remedy=f"Store it with `coilclaw secret set {name}`.",
                code="SECRET_MISSING",
                begun=False,
            )
        found.append((name, value))
    return tuple(found)
