"""Kinds of files, detected by their first bytes and never by name."""

from typing import Literal, TypeAlias

FileKind: TypeAlias = Literal["text", "png", "jpeg", "gif", "webp", "pdf", "zip", "other"]

LOOKED_AT = 128 << 10
"""How many bytes to inspect to tell whether something is text."""
_MAGIC: tuple[tuple[bytes, FileKind], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"%PDF-", "pdf"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)


def kind_of(data: bytes) -> FileKind:
    """What these bytes are."""
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    start = data[:LOOKED_AT]
    return "other" if b"\0" in start or text_of(start, whole=len(start) == len(data)) is None else "text"


def text_of(data: bytes, *, whole: bool) -> str | None:
    """Bytes as text, or None if they are not; if they are only a beginning, the last character may be cut."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        cut = not whole and error.end == len(data) and error.start > len(data) - 4
        return data[: error.start].decode() if cut else None
