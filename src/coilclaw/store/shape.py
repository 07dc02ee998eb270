"""The shape of the database: the tables, columns, indexes and triggers that the migrations create.

Opening compares the shape and not a number, because the same number may have had another text when the file was
created. What is missing is added; other differences are named and refused.
"""

import re
from collections.abc import Iterable

import msgspec

Row = tuple[str, str, str]
"""A table, index, trigger or view in `sqlite_schema`: type, name, sql."""

AS_IT_SHOULD_BE = " as it should be"
_TOKENS = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<string>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\])"""
    r"""|(?P<word>\w+)|(?P<space>\s+)|(?P<mark>.)""",
    re.DOTALL,
)
_CONSTRAINTS = {"constraint", "primary", "unique", "check", "foreign"}
"""The words that start a table constraint, where a column starts with its name."""


class _Part(msgspec.Struct, frozen=True):
    """A table, index, trigger or view."""

    kind: str
    name: str
    sql: str

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


class _Table(msgspec.Struct, frozen=True):
    """A parsed CREATE TABLE: its columns as written, its constraints, and what follows the bracket."""

    columns: dict[str, str]
    constraints: frozenset[str]
    options: str


class Differences(msgspec.Struct, frozen=True):
    """How a file differs from the expected shape."""

    missing: tuple[str, ...]
    """Missing parts, in words."""
    repairs: tuple[str, ...]
    """The statements that add it, in order."""
    faults: tuple[str, ...]
    """Differences that adding cannot repair, in words."""


def compare(found: Iterable[Row], wanted: Iterable[Row]) -> Differences:
    """What one schema lacks of the other, and what prevents adding it."""
    have = {part.title: part for part in (_Part(*row) for row in found)}
    want = {part.title: part for part in (_Part(*row) for row in wanted)}
    missing: list[str] = []
    repairs: list[str] = []
    faults: list[str] = []
    for part in want.values():
        present = have.get(part.title)
        if present is None:
            missing.append(part.title)
            repairs.extend(_create(part))
        elif _normal(present.sql) == _normal(part.sql):
            continue
        elif part.kind in ("index", "trigger", "view"):  # they contain no data of their own
            missing.append(part.title + AS_IT_SHOULD_BE)
            repairs += [f"DROP {part.kind} {part.name}", part.sql]
        elif _is_virtual(part.sql):
            faults.append(f"{part.title} was declared differently")
        else:
            _compare_tables(part.name, present.sql, part.sql, missing, repairs, faults)
    faults.extend(_unwanted(part) for part in have.values() if part.title not in want and _gets_in_the_way(part))
    return Differences(missing=tuple(missing), repairs=tuple(repairs), faults=tuple(faults))


def _is_virtual(sql: str) -> bool:
    return sql[:14].upper() == "CREATE VIRTUAL"


def _create(part: _Part) -> list[str]:
    if part.kind == "table" and _is_virtual(part.sql):
        return [part.sql, f"INSERT INTO {part.name} ({part.name}) VALUES ('rebuild')"]  # noqa: S608 our own name
    return [part.sql]


def _compare_tables(
    name: str, present: str, wanted: str, missing: list[str], repairs: list[str], faults: list[str]
) -> None:
    have, want = _read(present), _read(wanted)
    for column, declared in want.columns.items():
        if column not in have.columns:
            missing.append(f"column {name}.{column}")
            repairs.append(f"ALTER TABLE {name} ADD COLUMN {declared}")
        elif _normal(have.columns[column]) != _normal(declared):
            faults.append(f"column {name}.{column} is declared `{have.columns[column]}` instead of `{declared}`")
    for column, declared in have.columns.items():
        said = _normal(declared)
        if column not in want.columns and ("unique" in said or ("not null" in said and "default" not in said)):
            faults.append(f"column {name}.{column} is unknown and must be filled")
    if (have.constraints, have.options) != (want.constraints, want.options):
        faults.append(f"table {name} has other constraints")


def _gets_in_the_way(part: _Part) -> bool:
    """Unknown tables, columns and plain indexes are harmless; triggers and unique indexes are not."""
    return part.kind == "trigger" or (part.kind == "index" and _normal(part.sql).startswith("create unique"))


def _unwanted(part: _Part) -> str:
    return f"{part.title} is unknown and may change or refuse what is written (remove it with DROP {part.kind.upper()})"


def _normal(sql: str) -> str:
    """The statement without comments, line ends and quoted names; words in lower case, strings unchanged."""
    said: list[str] = []
    for token in _TOKENS.finditer(sql):
        text = token.group()
        match token.lastgroup:
            case "comment" | "space":
                continue
            case "string":
                said.append(text)
            case "name":
                said.append(text[1:-1].lower())
            case _:
                said.append(text.lower())
    return " ".join(said)


def _read(sql: str) -> _Table:
    """Split a CREATE TABLE at the commas between its definitions."""
    definitions: list[str] = [""]
    options = ""
    depth = 0
    for token in _TOKENS.finditer(sql):
        text = " " if token.lastgroup in ("comment", "space") else token.group()
        depth -= text == ")"
        if depth == 0:
            options = "" if text == ")" else options + text
        elif depth == 1 and text == ",":
            definitions.append("")
        else:
            definitions[-1] += text
        depth += text == "("
    plain = [" ".join(each.split()) for each in definitions]
    named = [(_normal(each).split(" ", 1)[0], each) for each in plain if each]
    return _Table(
        columns={name: each for name, each in named if name not in _CONSTRAINTS},
        constraints=frozenset(_normal(each) for name, each in named if name in _CONSTRAINTS),
        options=_normal(options),
    )
