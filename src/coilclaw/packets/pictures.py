"""Pictures that a tool's result refers to, by path and hash, so that the same bytes are shown later."""

from collections.abc import Mapping

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.kinds import FileKind

MAX_PICTURE = 3_750_000
"""Bytes: in base64 no more than the 5 MB that model servers accept."""
PICTURE_TOKENS = 2000
"""About what a picture takes of a model's window, whatever its bytes: servers scale large ones down."""
_MEDIA_TYPES: dict[FileKind, str] = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}


class PictureRef(msgspec.Struct, frozen=True, kw_only=True):
    """The `picture` in the metadata of a tool's result, and one of the `pictures` in the metadata of a message."""

    path: str
    """Relative to the root."""
    sha256: str
    media_type: str
    size: int


def media_type_of(kind: FileKind) -> str:
    """The media type of a picture; empty for anything else."""
    return _MEDIA_TYPES.get(kind, "")


def pictures_of_result(metadata: Mapping[str, Json]) -> dict[str, Json]:
    """What the message of a result keeps of its metadata, so that its picture can be shown with it."""
    return {"pictures": [metadata["picture"]]} if "picture" in metadata else {}


def pictures_in(metadata: Mapping[str, Json]) -> tuple[PictureRef, ...]:
    """The pictures that go with a message."""
    found = metadata.get("pictures")
    if not found:
        return ()
    try:
        return msgspec.convert(found, tuple[PictureRef, ...])
    except msgspec.ValidationError:  # redaction may have replaced a path
        return ()
