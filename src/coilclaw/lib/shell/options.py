"""Sorts arguments into options and operands, as programs do."""

from collections.abc import Iterable, Sequence

import msgspec

from coilclaw.lib.shell.words import UNKNOWN, Word


class Options(msgspec.Struct, frozen=True):
    """Arguments sorted into options and operands."""

    flags: tuple[tuple[str, Word | None], ...]
    operands: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        """True when one of the options is given; long ones may be abbreviated."""
        return any(matches(flag, names) for flag, _ in self.flags)

    def values(self, *names: str) -> tuple[Word, ...]:
        """The values given to any of the options."""
        return tuple(value for flag, value in self.flags if value is not None and matches(flag, names))


def matches(flag: str, names: Iterable[str]) -> bool:
    """True when a flag is one of the names, or a long flag abbreviates one."""
    if flag in names:
        return True
    return flag.startswith("--") and len(flag) > 3 and any(name.startswith(flag) for name in names)


NO_OPTIONS: frozenset[str] = frozenset()


def sort_options(
    args: Sequence[Word], valued: frozenset[str] = NO_OPTIONS, *, permute: bool = True, words: bool = False
) -> Options:
    """Sort arguments the way getopt does; without permuting, the first operand ends the options."""
    flags: list[tuple[str, Word | None]] = []
    operands: list[Word] = []
    index = 0
    while index < len(args):
        word = args[index]
        index += 1
        text = word.text
        if text == "--" and not word.glob:
            operands += args[index:]
            break
        if len(text) < 2 or text[0] != "-":
            operands.append(word)
            if not permute:
                operands += args[index:]
                break
        elif words:
            index += _single_dash(word, args[index : index + 1], valued, flags)
        elif text[1] == "-":
            index += _long(word, args[index : index + 1], valued, flags)
        else:
            index += _cluster(word, args[index : index + 1], valued, flags)
    return Options(tuple(flags), tuple(operands))


def _long(word: Word, after: Sequence[Word], valued: frozenset[str], flags: list[tuple[str, Word | None]]) -> int:
    name, equals, value = word.text.partition("=")
    if equals:
        flags.append((name, word.part(value)))
        return 0
    takes = bool(after) and matches(name, valued)
    flags.append((name, after[0] if takes else None))
    return int(takes)


def _single_dash(
    word: Word, after: Sequence[Word], valued: frozenset[str], flags: list[tuple[str, Word | None]]
) -> int:
    """`-out FILE`, `-out=FILE`, `-agentpath:FILE`, `-oFILE`: a whole word is the option's name."""
    text = word.text
    name, equals, value = text.partition("=")
    if text in valued:
        flags.append((text, after[0] if after else None))
        return len(after)
    if not (equals and (name in valued or name.startswith("--"))) and text[:2] in valued:
        name, value = text[:2], text[2:].removeprefix("=")
    elif after and len(text) < 5 and "-" + text[-1] in valued:  # letters in a row, the last with a value
        flags.append(("-" + text[-1], after[0]))
        return 1
    flags.append((name, word.part(value) if value else None))
    return 0


def _cluster(word: Word, after: Sequence[Word], valued: frozenset[str], flags: list[tuple[str, Word | None]]) -> int:
    text = word.text
    for at in range(1, len(text)):
        name = "-" + text[at]
        if name in valued:
            glued = text[at + 1 :]
            flags.append((name, word.part(glued) if glued else (after[0] if after else None)))
            return int(not glued and bool(after))
        flags.append((name, None))
        if text[at] == UNKNOWN:
            break
    return 0
