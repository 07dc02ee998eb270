"""An upload as the server sees it: what came, and what became of it."""

from typing import Protocol, runtime_checkable

import msgspec

from coilclaw.packets.action import Label


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a device sent, its names already plain."""

    name: str
    folder: str
    """Below attachments/; empty for attachments/ itself."""
    data: bytes


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is in the workspace now."""

    path: str
    """Where it lies in the workspace; the name may carry a number when it was taken."""
    size: int
    sha256: str
    label: Label
    """Whose words it counts as: what it says is not the owner's."""
    action_id: str
    receipt_id: str


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The gate did not let it in, or it could not be written."""

    code: str
    reasons: tuple[str, ...]
    changes: tuple[str, ...]
    """What would change its mind."""
    action_id: str
    denied: bool
    """It was not let in; else it was, and failed."""
    under_way: bool
    """It was let in and is not there yet: another process carries it out."""


@runtime_checkable
class Uploading(Protocol):
    """Brings uploaded files through the gate."""

    async def save(self, upload: Upload, *, by: str, key: str | None) -> Saved | Refused:
        """Save a file under a free name; the same key again saves it once."""
        ...
