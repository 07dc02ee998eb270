"""Which folder a command works in: the project that is named, the one it was started in, or the workspace."""

import os
from typing import TYPE_CHECKING

from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime
    from coilclaw.store.projects import Project


def project_called(app: "Runtime", name: str) -> "Project":
    """The project of that name, or an error that offers the nearest."""
    from coilclaw.store.projects import open_projects, project_named

    found = project_named(app.db.reader, name)
    if found is None:
        from coilclaw.packets.names import did_you_mean

        names = [each.name for each in open_projects(app.db.reader)]
        remedy = did_you_mean(name, names) or "See `coilclaw project list`."
        raise UsageError(f"there is no project {name!r}.", remedy=remedy)
    return found


def chosen_project(app: "Runtime", name: str | None, *, here: bool) -> "Project | None":
    """The project that is named; without a name (None) and with `here` the one the command was started in.

    An empty name is the workspace. A project whose folder is gone is an error: nothing else takes its place.
    """
    if name == "":
        return None
    found = project_called(app, name) if name is not None else _project_here(app) if here else None
    if found is not None:
        must_be_there(app, found.project_id)
    return found


def must_be_there(app: "Runtime", project_id: str) -> None:
    """Refuse a project whose folder vanished, became a link or was replaced."""
    if fault := app.project_root(project_id).fault():
        raise UsageError(
            f"PROJECT_GONE: {fault}", remedy="Put the folder back, or add it again with `coilclaw project add`."
        )


def _project_here(app: "Runtime") -> "Project | None":
    from coilclaw.store.projects import open_projects

    try:
        cwd = os.path.realpath(os.getcwd())  # noqa: PTH109 - text in, text out
    except OSError:
        return None
    around = (each for each in open_projects(app.db.reader) if f"{cwd}/".startswith(f"{each.path}/"))
    return next(around, None)


def begin_thread(app: "Runtime", thread_id: str, project: "Project | None") -> None:
    """Make a conversation that works in a project before anything is said in it; the workspace needs nothing."""
    if project is None:
        return
    from coilclaw.store.threads import ensure_thread

    project_id = project.project_id
    app.db.write_now(lambda tx: ensure_thread(tx, app.clock, thread_id, "cli", "", project=project_id))
