"""How one program treats its arguments, parsed from its line in the table on first use."""

from functools import cache

import msgspec

from coilclaw.lib.shell import table

_NONE: frozenset[str] = frozenset()


class Program(msgspec.Struct, frozen=True):
    """How one program treats its arguments; the table says what each field means."""

    operands: str
    skip: int
    words: bool
    strict: bool
    valued: frozenset[str]
    """Every option that takes a value."""
    prefixes: tuple[str, ...]
    """Prefixes of arguments that make it execute something."""
    verbs: frozenset[str]
    """Subcommands that make it execute something."""
    runs: frozenset[str] = _NONE
    reads: frozenset[str] = _NONE
    data: frozenset[str] = _NONE
    writes: frozenset[str] = _NONE
    inside: frozenset[str] = _NONE
    edits: frozenset[str] = _NONE
    spares: frozenset[str] = _NONE
    instead: frozenset[str] = _NONE
    pairs: frozenset[str] = _NONE


@cache
def lines() -> dict[str, str]:
    """The lines of the table by name."""
    return _lines(table.LOOKERS + table.WRITERS + table.BUILDERS + table.WRAPPING + table.GIT)


def program(name: str) -> Program | None:
    """What is known about a program, or about `program/subcommand`."""
    line = lines().get(name)
    return None if line is None else _made(line, table.ANY_PROGRAM if line.startswith("guess") else "")


def any_program() -> Program:
    """The default for all others."""
    return _made(table.ANY_PROGRAM)


def git_options() -> Program:
    """git's options before its subcommand."""
    return _made(lines()["git"])


def git_verb(verb: str) -> Program:
    """The options of a git subcommand: its own line, and the common ones."""
    return _made(lines().get(f"git/{verb}", "text"), table.ANY_GIT)


@cache
def harmless() -> frozenset[str]:
    """Programs that only read and print, whatever their arguments, or would need an odd option to do more."""
    known = {name: _made(line) for name, line in _lines(table.LOOKERS).items()}
    plain = {
        name
        for name, each in known.items()
        if each.operands in {"read", "text"} and not (each.strict or each.valued & (each.runs | each.writes))
    }
    odd = "sort diff base64 tree strings nm size objdump shuf xmllint iconv pytest ruff"
    return frozenset((plain | set(odd.split())) - {"command", "yes", "systemctl", "service", "ip", "ifconfig"})


def _lines(text: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for entry in text.replace("\n  ", "; ").replace("\n ", " ").split("\n"):
        names, _, line = entry.partition(": ")
        made |= dict.fromkeys(names.split(), line)
    return made


@cache
def _made(line: str, shared: str = "") -> Program:
    """Parsed from a line and shared sections; cached by line, so that their number is limited."""
    head, *sections = (part.split() for part in (line + ";" + shared.partition(";")[2]).rstrip("; ").split(";"))
    words: dict[str, set[str]] = {}
    for section, *rest in sections:
        words.setdefault({"in": "inside"}.get(section, section), set()).update(rest)
    taken, runs = words.pop("takes", set()), words.pop("runs", set())
    options = {word.rstrip("*") for word in runs if word.startswith("-")}
    fields = {name: frozenset(each) for name, each in words.items()}
    flags = fields.get("edits", _NONE) | fields.get("spares", _NONE)
    valued = taken.union(options, *(each for name, each in fields.items() if name not in {"edits", "spares"}))
    return Program(
        operands=head[0],
        skip=("skip1" in head) + 2 * ("skip2" in head),
        words="words" in head,
        strict="strict" in head or (head[0] in {"write", "first", "last", "move"} and "loose" not in head),
        valued=frozenset(valued - flags),
        prefixes=tuple(sorted(word[:-1] for word in runs if word.endswith("*"))),
        verbs=frozenset(word for word in runs if not word.startswith("-") and not word.endswith("*")),
        runs=frozenset(options),
        **fields,
    )
