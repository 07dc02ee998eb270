"""Pictures are shown when any screen can hold them: told by their heads, whatever the rest of them says."""

import base64
import struct

import pytest

from coilclaw.features.owner_files.picture_size import MOST_PIXELS, is_drawable

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQCgwSExIQ"
    "Ew8QEBD/2wBDAQMDAwQDBAgEBAgQCwkLEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBD/wAARCAACAAMD"
    "AREAAhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAACP/EABQQAQAAAAAAAAAAAAAAAAAAAAD/xAAVAQEBAAAAAAAAAAAAAAAAAAAHCf/EABQRAQAA"
    "AAAAAAAAAAAAAAAAAAD/2gAMAwEAAhEDEQA/ADoDFU3/2Q=="
)
GIF = base64.b64decode("R0lGODlhAwACAPAAAP8AAAAAACH5BAAAAAAALAAAAAADAAIAAAIChF8AOw==")
LOSSY = base64.b64decode("UklGRjwAAABXRUJQVlA4IDAAAADQAQCdASoDAAIAAUAmJaACdLoB+AADsAD+8ut//NgVzXPv9//S4P0uD9Lg/9KQAAA=")
LOSSLESS = base64.b64decode("UklGRhwAAABXRUJQVlA4TA8AAAAvAkAAAAcQ/Y/+ByKi/wEA")
EXTENDED = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x02\0\0" + b"\x01\0\0"
SAMPLES = {"png": PNG, "jpeg": JPEG, "gif": GIF, "webp": LOSSY}


def with_size(sample, width, height):
    """The same picture with another size in its head."""
    if sample is PNG:
        return PNG[:16] + struct.pack(">II", width, height) + PNG[24:]
    if sample is JPEG:
        at = JPEG.index(b"\xff\xc0") + 5
        return JPEG[:at] + struct.pack(">HH", height, width) + JPEG[at + 4 :]
    if sample is GIF:
        return GIF[:6] + struct.pack("<HH", width, height) + GIF[10:]
    if sample is LOSSY:
        return LOSSY[:26] + struct.pack("<HH", width, height) + LOSSY[30:]
    if sample is LOSSLESS:
        return LOSSLESS[:21] + struct.pack("<I", (width - 1) | (height - 1) << 14) + LOSSLESS[25:]
    return EXTENDED[:24] + struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]


WHOLE = [("png", PNG), ("jpeg", JPEG), ("gif", GIF), ("webp", LOSSY), ("webp", LOSSLESS), ("webp", EXTENDED)]


@pytest.mark.parametrize(("kind", "sample"), WHOLE)
def test_a_picture_is_drawn_up_to_so_many_pixels(kind, sample):
    assert is_drawable(kind, sample)
    assert is_drawable(kind, with_size(sample, 4000, MOST_PIXELS // 4000))
    assert not is_drawable(kind, with_size(sample, 4000, MOST_PIXELS // 4000 + 1))
    assert not is_drawable(kind, with_size(sample, 16_000, 16_000))


@pytest.mark.parametrize(("kind", "sample"), WHOLE)
def test_a_picture_whose_size_cannot_be_told_is_not_drawn(kind, sample):
    heads = {"png": 24, "jpeg": sample.find(b"\xff\xc0") + 9, "gif": sample.find(b",") + 9, "webp": 25}
    for length in range(heads[kind]):
        assert not is_drawable(kind, sample[:length]), length


def test_a_picture_of_no_size_is_not_drawn():
    assert not is_drawable("png", with_size(PNG, 0, 5))
    assert not is_drawable("webp", with_size(LOSSY, 5, 0))


def test_the_first_picture_of_a_gif_counts_where_it_is_larger_than_the_screen():
    at = GIF.index(b",") + 5
    assert not is_drawable("gif", GIF[:at] + struct.pack("<HH", 60_000, 60_000) + GIF[at + 4 :])


def test_segments_without_end_are_not_walked_for_ever():
    assert not is_drawable("jpeg", b"\xff\xd8" + b"\xff\xe0\0\0" * 1000)
    assert not is_drawable("jpeg", b"\xff\xd8" + b"\xff" * 100_000)
    assert not is_drawable("gif", b"GIF89a\1\0\1\0\0\0\0" + b"\x21\xfe\1x\0" * 10_000)


@pytest.mark.parametrize("kind", ["text", "pdf", "zip", "other"])
def test_nothing_else_is_drawn(kind):
    assert not is_drawable(kind, PNG)
