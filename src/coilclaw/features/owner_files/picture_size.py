"""How large a picture is once it is unpacked, by its head alone: a few kilobytes can be gigabytes on a screen."""

import struct
from collections.abc import Callable

from coilclaw.packets.kinds import FileKind

MOST_PIXELS = 16_000_000

_SIZE_MARKERS = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG segments that tell the size; the three others of their row are tables."""


def is_drawable(kind: FileKind, data: bytes) -> bool:
    """Whether it is a picture of a size that any screen can hold; not when its size cannot be told."""
    read = _SIZES.get(kind)
    try:
        width, height = read(data) if read is not None else (0, 0)
    except (struct.error, IndexError):  # it ends too soon
        return False
    return 0 < width * height <= MOST_PIXELS


def _png(data: bytes) -> tuple[int, int]:
    if data[12:16] != b"IHDR":
        return 0, 0
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    """The screen, or the first picture on it where that is larger: browsers make room for it."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + _colours(flags)
    while data[at] == 0x21:  # extensions: a label, then pieces until an empty one
        at += 2
        while data[at]:
            at += 1 + data[at]
        at += 1
    if data[at] != 0x2C:
        return 0, 0
    left, top, wide, high = struct.unpack_from("<HHHH", data, at + 1)
    return max(width, left + wide), max(height, top + high)


def _colours(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _SIZE_MARKERS:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        elif marker == 0xDA:  # the picture begins, and its size was not told
            break
        else:
            at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    form = data[12:16]
    if form == b"VP8X":
        return _uint24(data, 24) + 1, _uint24(data, 27) + 1
    if form == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def _uint24(data: bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16


_SIZES: dict[FileKind, Callable[[bytes], tuple[int, int]]] = {"png": _png, "gif": _gif, "jpeg": _jpeg, "webp": _webp}
