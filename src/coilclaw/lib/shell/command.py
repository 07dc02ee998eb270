"""What a shell command would do, from its text: programs, destructive patterns, blind spots, paths.

Pure and never a decision. The box is the boundary; this explains, and refuses early.
"""

import re
from collections.abc import Sequence

from coilclaw.lib.shell.call import NOTHING, Feed, Findings, Scope
from coilclaw.lib.shell.facts import CommandFacts
from coilclaw.lib.shell.rules import RULES, reason
from coilclaw.lib.shell.words import Word
from coilclaw.packets.decision import Reason

__all__ = ["MAX_BYTES", "RULES", "CommandFacts", "read_command"]

MAX_BYTES = 64 * 1024
"""Longer text is not parsed."""

_ODD = re.compile(
    "[\x01-\x08\x0b-\x1f\x7f-\x9f\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ue000-\uf8ff]"
)


def read_command(text: str) -> CommandFacts:
    """Parse shell text. Never raises, never runs anything; reports what it cannot parse."""
    found = Findings()
    refusal = _unreadable(text)
    if refusal:
        found.opaque[refusal] = None
    else:
        _read(text, found)
    return CommandFacts(
        programs=tuple(found.programs),
        own=tuple(name for name in found.programs if _is_own(name, found)),
        verbs=tuple(found.verbs),
        told=tuple(name for name in found.told if name not in found.worked),
        executes=tuple(found.executes),
        unsure=found.unsure,
        blocked=tuple(found.blocked),
        opaque=tuple(found.opaque),
        reads=tuple(found.reads),
        writes=tuple(found.writes),
        text=text,
    )


def _is_own(name: str, found: Findings) -> bool:
    """A shell counts as what it runs: its text is read, and its script is a file of the folder or a path like any."""
    from coilclaw.lib.shell.shells import SHELLS, SOURCE

    return name in SHELLS or name in SOURCE or (name in found.by_path and name not in found.by_name)


def _unreadable(text: str) -> Reason | None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return reason("command.unparsed", "text that is not UTF-8")
    if size > MAX_BYTES:
        return reason("command.unparsed", f"{size} bytes of shell text")
    return reason("command.unparsed", "NUL byte") if "\0" in text else None


def _read(text: str, found: Findings) -> None:
    from coilclaw.lib.shell.judge import judge
    from coilclaw.lib.shell.tree import DEEPEST, walk

    def follow(inner: str, scope: Scope, feed: Feed) -> Feed:
        return walk(inner, scope, feed, found)

    def run(argv: Sequence[Word], scope: Scope, feed: Feed) -> Feed:
        if found.nesting >= DEEPEST:
            found.mark_opaque("opaque.depth")
            return NOTHING
        found.nesting += 1
        try:
            return judge(argv, scope, feed, found)
        finally:
            found.nesting -= 1

    found.follow, found.run = follow, run
    if not text.isascii() or not text.isprintable():
        _characters(text, found)
    try:
        walk(text, Scope(), NOTHING, found)
    except RecursionError:  # the caller's own stack was nearly used up
        found.mark_opaque("opaque.depth")
    if found.evaluates and found.smuggles:
        found.mark_opaque("opaque.index")


def _characters(text: str, found: Findings) -> None:
    odd = _ODD.search(text)
    if odd:
        found.mark_opaque("opaque.characters", f"U+{ord(odd[0]):04X}")
