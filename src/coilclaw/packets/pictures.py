"""Pictures that a tool's result refers to, by path and hash, so that the same bytes are shown later."""

import msgspec

from coilclaw.packets.kinds import FileKind

MAX_PICTURE = 4 << 20
"""Bytes; model servers accept little more."""
_MEDIA_TYPES: dict[FileKind, str] = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}


class PictureRef(msgspec.Struct, frozen=True, kw_only=True):
    """The `picture` in the metadata of a tool's result."""

    path: str
    """Relative to the workspace."""
    sha256: str
    media_type: str
    size: int


def media_type_of(kind: FileKind) -> str:
    """The media type of a picture; empty for anything else."""
    return _MEDIA_TYPES.get(kind, "")
