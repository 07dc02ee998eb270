"""Names of guests and their tools: `NAME.tool`, so that nothing can pass for a built-in tool or for another guest's."""

import re
from collections.abc import Iterable

from coilclaw.packets.errors import UsageError

_GUEST = re.compile(r"[a-z0-9]([a-z0-9-]|_(?!_))*(?<![_-])")
_TOOL = re.compile(r"[a-z0-9_-]{1,64}")
_TAKEN = "plugins"
"""Beside the guests' own folders lies one with the approved copies of plugins."""
_ALIKE = str.maketrans({"i": "1", "l": "1", "o": "0", "-": "_"})


def check_guest_name(name: str) -> None:
    """Raise unless a guest may have this name. Without `__`, a provider's spelling of a tool is unambiguous."""
    if len(name) > 32 or not _GUEST.fullmatch(name) or name == _TAKEN:
        raise UsageError(
            f"{name[:80]!r} is not a valid name for a guest.",
            remedy="Use at most 32 lower-case letters, digits, '-' and '_'; begin and end with a letter or digit."
            f" {_TAKEN} is taken.",
        )


def tool_fault(original: str) -> str:
    """Why a guest's tool cannot be called by the name the guest gives it; empty when it can."""
    if _TOOL.fullmatch(original.lower()):
        return ""
    return "its name has characters other than letters, digits, '_' and '-', or more than 64"


def tool_name(guest: str, original: str) -> str:
    """The name under which a guest's tool is decided, shown and recorded."""
    return f"{guest}.{original.lower()}"


def skeleton(name: str) -> str:
    """Names with the same skeleton look alike."""
    return name.lower().translate(_ALIKE)


def alike(names: Iterable[str]) -> set[str]:
    """Those of the names that look like another one of them."""
    seen: dict[str, list[str]] = {}
    for name in names:
        seen.setdefault(skeleton(name), []).append(name)
    return {name for same in seen.values() if len(same) > 1 for name in same}
