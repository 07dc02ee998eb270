"""What is told about one command. The reading itself is imported only when there is a command to read."""

import msgspec

from coilclaw.packets.decision import Reason


class CommandFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the policy is told about one command."""

    programs: tuple[str, ...]
    """Basename of every program that would run, wrappers included."""
    blocked: tuple[Reason, ...]
    """Destructive patterns."""
    opaque: tuple[Reason, ...]
    """What could not be followed to its end, runs code, or may not end."""
    reads: tuple[str, ...]
    """Paths that would be read, as written; a pattern stands for all it matches."""
    writes: tuple[str, ...]
    """Paths that would be written, removed or created, as written."""
    text: str
