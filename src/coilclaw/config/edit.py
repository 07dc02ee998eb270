"""Edits of config.toml's text that keep comments, order and layout. Pure: other code writes the file.

tomlkit replaces existing values. A new key is inserted below the comment that shows its default.
Either way the result is parsed again and must be exactly what was requested: see docs/decisions/0027.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast, get_origin

import msgspec

from coilclaw.config.environment import decode
from coilclaw.config.options import bare_type, nearest, options_of, table_keys, table_options
from coilclaw.config.reference import toml_value
from coilclaw.config.tables import TABLES, KeyPath, Table
from coilclaw.packets.errors import UsageError
from coilclaw.packets.settings import SettingChange, Value

WIDTH = 100
_BOM = "\ufeff"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key as the caller named it, resolved to an option."""

    path: KeyPath
    type: Any
    """None for a whole named table, which can only be removed."""
    default: object

    @property
    def is_list(self) -> bool:
        """Whether it is a list, whose items can be added and removed."""
        return self.type is not None and get_origin(bare_type(self.type)[0]) is tuple


def find_key(text: str) -> Key:
    """The key with that dotted name; a table's name may contain dots, with or without quotes."""
    parts = text.split(".")
    for path, table in TABLES.items():
        if tuple(parts[: len(path)]) == path and len(parts) > len(path):
            return _in_table(table, parts[len(path) :], text)
    for option in options_of():
        if option.key == text:
            return Key(path=option.path, type=option.type, default=option.default)
    raise _unknown(text)


def _in_table(table: Table, rest: list[str], text: str) -> Key:
    types = table_keys(table)
    if len(rest) > 1 and rest[-1] in types and table.names(_bare(".".join(rest[:-1]))):
        default = next(
            (each.default for kind in table.shapes for each in table_options(table, kind) if each.path[-1] == rest[-1]),
            None,
        )
        return Key(path=(*table.path, _bare(".".join(rest[:-1])), rest[-1]), type=types[rest[-1]], default=default)
    name = _bare(".".join(rest))
    if len(rest) > 1 and not text.endswith(('"', "'")):
        close = nearest(rest[-1], types)
        raise UsageError(
            f"a {table.noun} has no key {rest[-1][:60]!r}.",
            remedy=f"Did you mean {table.key}.{'.'.join(rest[:-1])}.{close}?"
            if close
            else f"Keys: {', '.join(types)}.",
        )
    if not table.names(name):
        raise UsageError(f"{table.naming()}.")
    return Key(path=(*table.path, name), type=None, default=None)


def _bare(name: str) -> str:
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'" else name


def _unknown(text: str) -> UsageError:
    keys = key_names()
    close = nearest(text, keys) or next((key for key in keys if key.rpartition(".")[2] == text), "")
    hint = f"Did you mean {close}?" if close else "`coilclaw config show` lists the keys."
    return UsageError(f"there is no setting {text[:80]!r}.", remedy=hint)


def key_names() -> list[str]:
    """Every key; in named tables with NAME in place of the name."""
    fixed = [option.key for option in options_of()]
    named = [f"{table.key}.NAME.{key}" for table in TABLES.values() for key in table_keys(table)]
    return [*fixed, *named]


def typed_value(key: Key, text: str) -> Value:
    """The value of a command-line word."""
    kind = key.type if key.type is not None else str
    return cast("Value", decode(text, kind))


def edit_text(text: str, changes: Iterable[SettingChange]) -> str:
    """The file with the changes applied in order; a UsageError says which one is impossible, and why."""
    mark, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    for change in changes:
        text = _changed(text, change)
    return mark + text


def _changed(text: str, change: SettingChange) -> str:
    key = find_key(change.key)
    table = _parsed(text)
    wanted = _wanted(table, key, change)
    expected = _with(table, key.path, wanted)
    if expected == table:
        return text
    for made in _made(text, key.path, wanted, new=not _stands(table, key.path)):
        if _holds(made, expected):
            return made
    raise UsageError(
        f"the layout of config.toml does not allow changing {change.key} automatically.",
        remedy="Change it by hand; a running process notices.",
    )


def _wanted(table: Mapping[str, object], key: Key, change: SettingChange) -> object:
    """The new value; None to remove the key."""
    if change.op == "unset":
        return None
    if key.type is None:
        raise UsageError(f"{change.key} is a table.", remedy=f"Name one of its keys, such as {change.key}.KEY.")
    if change.value is None:
        raise UsageError(f"{change.key} needs a value.")
    if change.op == "set":
        # An action stores its arguments sorted, so only sorted names are written as they were shown.
        return dict(sorted(change.value.items())) if isinstance(change.value, dict) else change.value
    if not key.is_list:
        raise UsageError(f"{change.key} is not a list.", remedy="Set it without --add or --remove.")
    stands = _at(table, key.path)
    default = [str(item) if isinstance(item, Path) else item for item in cast("tuple[object, ...]", key.default or ())]
    items = cast("list[object]", stands) if isinstance(stands, list) else default
    if change.op == "add":
        return items if change.value in items else [*items, change.value]
    if change.value not in items:
        raise UsageError(f"{change.key} does not have {str(change.value)[:80]!r}.")
    return [item for item in items if item != change.value]


def _made(text: str, path: KeyPath, wanted: object, *, new: bool) -> Iterator[str]:
    """Candidate texts, the nicest first."""
    if wanted is not None and new:
        below = _below_its_comment(text, path, wanted)
        if below is not None:
            yield below
        if len(path) > 1 and not isinstance(_at(_parsed(text), path[:-1]), dict):
            yield _in_a_new_table(text, path, wanted)
    if wanted is None and path[:-1] in TABLES:
        yield _without_table(text, path)
    yield _by_tomlkit(text, path, wanted, whole=False)
    yield _by_tomlkit(text, path, wanted, whole=True)


def _in_a_new_table(text: str, path: KeyPath, wanted: object) -> str:
    """The text with the key's table appended."""
    header = ".".join(name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name) for name in path[:-1])
    before = f"{text.rstrip()}\n\n" if text.strip() else ""
    return f"{before}[{header}]\n{_line(path[-1], wanted)}\n"


def _without_table(text: str, path: KeyPath) -> str:
    """The text without a named table; comments between it and the next one stay."""
    lines = text.splitlines(keepends=True)
    header = re.compile(rf"\s*\[{re.escape('.'.join(path[:-1]))}\.[\"']?{re.escape(path[-1])}[\"']?\]")
    start = next((number for number, line in enumerate(lines) if header.match(line)), len(lines))
    end = start + 1
    for number in range(start + 1, len(lines)):
        if lines[number].lstrip().startswith("["):
            break
        if lines[number].strip() and not lines[number].lstrip().startswith("#"):
            end = number + 1
    while end < len(lines) and not lines[end].strip():
        end += 1
    return "".join([*lines[:start], *lines[end:]])


def _below_its_comment(text: str, path: KeyPath, wanted: object) -> str | None:
    """The text with the key below the comment that shows its default; None if there is no such comment."""
    lines = text.splitlines(keepends=True)
    section, name = ".".join(path[:-1]), re.escape(path[-1])
    here, place = "", None
    for number, line in enumerate(lines):
        header = re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line)
        if header:
            here = header[1].strip()
        elif here == section and re.match(rf"#\s?{name}\s*=", line):
            place = number + 1
            while place < len(lines) and re.match(r"#\s{2,}\S", lines[place]):
                place += 1  # a long list continues on indented lines
    if place is None:
        return None
    end = "\r\n" if lines[place - 1].endswith("\r\n") else "\n"
    if not lines[place - 1].endswith("\n"):
        lines[place - 1] += end
    return "".join([*lines[:place], _line(path[-1], wanted).replace("\n", end) + end, *lines[place:]])


def _line(name: str, wanted: object) -> str:
    """An assignment; a long list is wrapped."""
    line = f"{name} = {_toml(wanted)}"
    if len(line) <= WIDTH or not isinstance(wanted, list):
        return line
    import textwrap

    items = ", ".join(_toml(item) for item in cast("list[object]", wanted))
    body = textwrap.fill(items, WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip
    return f"{name} = [\n{body},\n]"


def _toml(value: object) -> str:
    text = toml_value(tuple(cast("list[object]", value)) if isinstance(value, list) else value)
    return text.replace("\x7f", "\\u007f")  # the one control character that JSON allows unescaped


def _by_tomlkit(text: str, path: KeyPath, wanted: object, *, whole: bool) -> str:
    """The text with the value replaced; in a list only the items that differ, unless `whole`."""
    import tomlkit

    document = tomlkit.parse(text)
    table = cast("MutableMapping[str, Any]", document)
    for place, name in enumerate(path[:-1]):
        if name not in table:
            if wanted is None:
                return text
            table[name] = tomlkit.table(is_super_table=place < len(path) - 2)
        table = cast("MutableMapping[str, Any]", table[name])
    if wanted is None:
        table.pop(path[-1], None)
    elif not whole and isinstance(wanted, list) and isinstance(table.get(path[-1]), list):
        _change_items(table[path[-1]], cast("list[object]", wanted))
    else:
        table[path[-1]] = tomlkit.value(_line("", wanted).removeprefix(" = "))  # pyright: ignore[reportUnknownArgumentType]
    return tomlkit.dumps(document)


def _change_items(array: Any, wanted: list[object]) -> None:
    """Item by item, so that unchanged items keep their lines and comments."""
    for item in [each for each in array if each not in wanted]:
        array.remove(item)
    for item in wanted:
        if item not in array:
            array.append(item)


def _parsed(text: str) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"config.toml is not valid TOML: {error}.", remedy="Fix it by hand first.") from error


def _holds(text: str, expected: dict[str, object]) -> bool:
    try:
        return _without_empty(_parsed(text)) == _without_empty(expected)
    except UsageError:
        return False


def _without_empty(table: dict[str, object]) -> dict[str, object]:
    """Without empty tables, which mean the same as no table."""
    inner = {name: _without_empty(cast("dict[str, object]", value)) if isinstance(value, dict) else value
             for name, value in table.items()}  # fmt: skip
    return {name: value for name, value in inner.items() if value != {}}


def _stands(table: Mapping[str, object], path: KeyPath) -> bool:
    return _at(table, path) is not None


def _at(table: Mapping[str, object], path: KeyPath) -> object:
    found: object = table
    for name in path:
        found = cast("Mapping[str, object]", found).get(name) if isinstance(found, dict) else None
    return found


def _with(table: dict[str, object], path: KeyPath, wanted: object) -> dict[str, object]:
    """The parsed file with the value replaced; a copy where it differs."""
    if len(path) == 1:
        rest = {name: value for name, value in table.items() if name != path[0]}
        return rest if wanted is None else {**table, path[0]: wanted}
    inner = table.get(path[0])
    if inner is None and wanted is None:
        return table
    if inner is not None and not isinstance(inner, dict):
        raise UsageError(f"{path[0]} is not a table in config.toml.", remedy="Fix it by hand first.")
    return {**table, path[0]: _with(cast("dict[str, object]", inner or {}), path[1:], wanted)}
