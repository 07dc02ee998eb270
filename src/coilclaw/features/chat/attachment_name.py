"""The name of an uploaded file: whatever a client sends, what comes out is one plain, visible name."""

from unicodedata import normalize

from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

NAME_BYTES = 120
FOLDERS = 4
_LONGEST = 1000
_UNNAMED = "file"


def plain_name(raw: str) -> str:
    """The last part of a name without what could hide, move or mislead: at most 120 bytes, its ending kept."""
    last = raw[-_LONGEST:].replace("\\", "/").rpartition("/")[2]
    shown = "".join(c for c in normalize("NFC", last) if one_line(c) == c)
    name = normalize("NFC", " ".join(shown.split())).lstrip(". ").rstrip(". ")
    return fitted(name or _UNNAMED, "")


def fitted(name: str, mark: str) -> str:
    """The name with a mark before its ending, cut so that it fits."""
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending.encode()) > 20:
        stem, dot, ending = name, "", ""
    room = NAME_BYTES - len(f"{mark}{dot}{ending}".encode())
    return f"{_cut(stem, room).rstrip('. ') or _UNNAMED}{mark}{dot}{ending}"


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode("utf-8", "ignore")


def plain_folder(raw: str) -> str:
    """The requested folder below attachments/; anything but a plain name is refused, not repaired."""
    if not raw:
        return ""
    parts = raw.split("/")
    if len(parts) > FOLDERS or any(part == "" or plain_name(part) != part for part in parts):
        raise UsageError(
            "files cannot be put in this folder.",
            remedy=f"Use plain names without leading dots, at most {FOLDERS} deep, such as `reports/2026`.",
        )
    return "/".join(parts)
