"""The facts about one command. The parser itself is imported only when there is a command."""

import msgspec

from coilclaw.packets.decision import Reason


class CommandFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the policy knows about one command."""

    programs: tuple[str, ...]
    """Basename of every program that would run, wrappers included."""
    own: tuple[str, ...] = ()
    """Of these, the ones that are code of the folder: files given by a path, and shells, which are what they run."""
    verbs: tuple[str, ...] = ()
    """Every subcommand of git that would run, as `git log`; `git tag (list)` where it only lists."""
    told: tuple[str, ...] = ()
    """Of the programs, those of the system that only tell their version or how they are used."""
    executes: tuple[str, ...] = ()
    """Files, by path or fixed name, whose content would be run as code; as written."""
    unsure: bool = False
    """Some program gets an argument that is known only at run time."""
    blocked: tuple[Reason, ...]
    """Destructive patterns."""
    opaque: tuple[Reason, ...]
    """What could not be analysed completely, runs code, or may not end."""
    reads: tuple[str, ...]
    """Paths that would be read, as written; a pattern includes all its matches."""
    writes: tuple[str, ...]
    """Paths that would be written, removed or created, as written."""
    text: str
