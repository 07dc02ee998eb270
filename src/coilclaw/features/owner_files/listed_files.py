"""A folder of the workspace as the owner looks at it: names, kinds and sizes; no file is opened, no link followed."""

from typing import TYPE_CHECKING, Literal, cast

import msgspec

from coilclaw.gate.paths import look_at
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.files import FileGrant, WorkspaceFiles
from coilclaw.store.labels import label_rows

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

MOST_ENTRIES = 1000
_MOST_LABELS = 100_000


class FileListed(msgspec.Struct, frozen=True, kw_only=True):
    """One name in a folder."""

    name: str
    kind: Literal["file", "dir", "link", "other"]
    """A link is named, and never followed."""
    size: int
    """In bytes; 0 for what is no file."""
    labelled: bool
    """Something there was labelled as untrusted; showing the file tells whether that still counts."""


class FolderListing(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of the workspace."""

    path: str
    """Below the workspace; empty for the workspace itself."""
    items: list[FileListed]
    """Folders first, then by name; at most 1000."""
    cut: bool
    """There are more."""


def listed_folder(app: "Runtime", path: str) -> FolderListing | None:
    """What is in a folder, without what no tool may see; None when there is no such folder, or only a link to it."""
    places = app.root.places
    parts = path.split("/") if path else []
    if any(part in ("", ".", "..") for part in parts) or "\0" in path or not _may_see(app, path):
        return None
    grant = FileGrant(asked=path, root=places.workspace, relative=path, writable=False)
    try:
        found = WorkspaceFiles((grant,)).list(path, limit=10 * MOST_ENTRIES)
    except ToolError:
        return None
    found.sort(key=lambda entry: (entry.kind != "dir", entry.name))
    top = f"{path}/" if path else ""
    seen = [entry for entry in found[: MOST_ENTRIES + 1] if _may_see(app, top + entry.name)]
    rows = label_rows(app.db.reader, "", _MOST_LABELS)
    labelled = {row.path[len(top) :].split("/", 1)[0] for row in rows if row.path.startswith(top)}
    items = [
        FileListed(
            name=entry.name,
            kind=cast("Literal['file', 'dir', 'link', 'other']", entry.kind),
            size=entry.size,
            labelled=entry.name in labelled,
        )
        for entry in seen[:MOST_ENTRIES]
    ]
    return FolderListing(path=path, items=items, cut=len(found) > MOST_ENTRIES)


def _may_see(app: "Runtime", path: str) -> bool:
    """Nothing that is forbidden; CoilClaw's home lies apart from every workspace (config/checks.py)."""
    fact = look_at(path or ".", app.root.places, write=False, follow=False)
    return fact.relative is not None and not fact.forbidden_by
