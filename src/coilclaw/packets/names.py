"""Names of tools, and suggestions for names that do not exist."""

from collections.abc import Iterable

LINE = 120
"""How many characters of names to list if none is close; callers with ids put the newest first."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A remedy that suggests the nearest valid names."""
    from difflib import get_close_matches

    known = list(names)
    begins = [each for each in known if name and each.startswith(name)]
    near = begins[:2] or get_close_matches(name[:80], known, n=2)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    if not known:
        return "There are none yet."
    told = [each for place, each in enumerate(known) if place == 0 or len(", ".join(known[: place + 1])) <= LINE]
    return f"There are{'' if len(told) == len(known) else ', among others'}: {', '.join(told)}."


WIRE_LENGTH = 64
"""The longest name of a tool that every provider takes."""


def guest_of(tool: str) -> str:
    """The guest that a tool belongs to, by its name `NAME.tool`; empty for our own tools."""
    return tool.partition(".")[0] if "." in tool else ""


def wire_name(tool: str) -> str:
    """A tool's name as providers take it: letters, digits, `_` and `-`, at most 64 of them."""
    if "." not in tool:
        return tool
    spelled = tool.replace(".", "__", 1)
    if len(spelled) < WIRE_LENGTH:  # what has the full length has a tail, so none can pass for another's short form
        return spelled
    from coilclaw.packets.canonical import sha256_hex

    return f"{spelled[: WIRE_LENGTH - 17]}_{sha256_hex(tool.encode())[:16]}"
