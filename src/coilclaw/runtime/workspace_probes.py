"""What the doctor finds inside the workspace: links that lead out of it, another home, things in quarantine."""

from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.packets.box import Probe
from coilclaw.packets.errors import CoilclawError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

NAMED = 3


def hard_links(workspace: Path) -> Probe:
    """Files of the workspace that have another name outside it."""
    from coilclaw.sandbox.survey import survey

    try:
        linked = survey(workspace, links=True).linked
    except (CoilclawError, OSError) as error:
        return Probe(name="hard links", state="warn", detail=str(error), remedy="Remove what is not needed there.")
    if not linked:
        return Probe(
            name="hard links", state="ok", detail="no file in the workspace is a hard link to a file outside it"
        )
    names = ", ".join(each.path for each in linked[:NAMED]) + (" …" if len(linked) > NAMED else "")
    count = "1 file is" if len(linked) == 1 else f"{len(linked)} files are"
    return Probe(
        name="hard links",
        state="warn",
        detail=f"{count} hard-linked outside the workspace ({names})",
        remedy="Before the next command that may write, they are replaced by private copies; copy them yourself"
        " to keep control.",
    )


def repository(app: "Runtime") -> list[Probe]:
    """The settings of the workspace's repository are put right; a workspace that is shared unasked is told."""
    from coilclaw.sandbox.repository import other_homes, settle

    try:
        others = other_homes(app.workspace, app.home.root)
        if not others:
            settle(app.workspace, app.home.root)
            return []
    except (CoilclawError, OSError) as error:
        return [Probe(name="repository", state="warn", detail=str(error), remedy="Run `coilclaw init`.")]
    return [
        Probe(
            name="repository",
            state="warn",
            detail=f"the workspace also belongs to another home ({', '.join(others)})",
            remedy="Set workspace_dir to a folder of its own, or run `coilclaw init --share-workspace`.",
        )
    ]


def quarantined(app: "Runtime") -> list[Probe]:
    """How many commands made something that was moved into the home."""
    folder = app.home.root / "quarantine"
    runs = sorted(folder.glob("act_*")) if folder.is_dir() else []
    if not runs:
        return []
    detail = (
        f"{len(runs)} command{'' if len(runs) == 1 else 's'} created files that may not stay in the workspace: {folder}"
    )
    return [Probe(name="quarantine", state="info", detail=detail)]
