"""The options one by one: their names, allowed values in words, and the nearest name to a typo."""

import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

import msgspec

from coilclaw.config.schema import Config
from coilclaw.config.tables import TABLES, KeyPath, Table

Origin: TypeAlias = Literal["default", "file", "environment"]


class Option(msgspec.Struct, frozen=True):
    """One key of the file."""

    path: KeyPath
    owner: type[msgspec.Struct]
    """The struct that it is a field of."""
    type: Any
    default: object

    @property
    def key(self) -> str:
        """Its dotted name."""
        return ".".join(self.path)


@cache
def fields_of(shape: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a struct by their names in the file; never changed, and looked up once."""
    return {field.encode_name: field for field in msgspec.structs.fields(shape)}


def is_section(kind: object) -> bool:
    """Whether a field is a table."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def options_of(shape: type[msgspec.Struct] = Config, path: KeyPath = ()) -> Iterator[Option]:
    """Every option with a fixed name, sections in order; `table_options` lists those of named tables."""
    sections: list[tuple[Any, KeyPath]] = []
    for name, field in fields_of(shape).items():
        here = (*path, name)
        if is_section(field.type):
            sections.append((field.type, here))
        elif here not in TABLES:
            default = None if field.default is msgspec.NODEFAULT else field.default
            if field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory()
            yield Option(here, shape, field.type, default)
    for section, here in sections:
        yield from options_of(section, here)


def table_options(table: Table, kind: str = "", name: str = "NAME") -> Iterator[Option]:
    """The options of a named table of one kind."""
    return options_of(table.shapes[kind], (*table.path, name))


def table_keys(table: Table) -> dict[str, Any]:
    """Every key that some kind of a named table has, with its type."""
    types = {option.path[-1]: option.type for kind in table.shapes for option in table_options(table, kind)}
    if table.has_kinds:
        types["kind"] = str  # each kind has its own literal: the walk checks the word
    return types


def values_of(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Every value of a configuration with the path of its key."""
    if isinstance(value, msgspec.Struct):
        for key, field in fields_of(type(value)).items():
            yield from values_of(getattr(value, field.name), (*path, key))
    elif path in TABLES:
        for name, table in cast("Mapping[str, object]", value).items():
            yield from values_of(table, (*path, name))
    else:
        yield path, value


def bare_type(kind: Any) -> tuple[Any, msgspec.Meta | None]:
    """A type without its optional `None`, and its bounds."""
    if get_origin(kind) in {Union, types.UnionType}:
        kind = next(part for part in get_args(kind) if part is not types.NoneType)
    if get_origin(kind) is Annotated:
        inner, meta = get_args(kind)[:2]
        return inner, cast("msgspec.Meta", meta)
    return kind, None


def allowed(kind: Any) -> str:
    """What a type accepts, in words."""
    inner, meta = bare_type(kind)
    if meta is not None and meta.title:
        return meta.title
    if get_origin(inner) is Literal:
        words = [f'"{word}"' for word in get_args(inner)]
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    if get_origin(inner) is tuple:
        return f"a list, each item {allowed(get_args(inner)[0])}"
    if get_origin(inner) is dict:
        return "a table of strings"
    word = _WORDS[inner]
    if meta is None or meta.le is None:
        return word
    return f"{word} above {meta.gt}, at most {meta.le}" if meta.ge is None else f"{word} from {meta.ge} to {meta.le}"


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string", Path: "a path"}


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The most likely candidate for a typo, or nothing."""
    import difflib

    folded = {candidate.lower().replace("-", "_"): candidate for candidate in islice(candidates, 500)}
    found = difflib.get_close_matches(word[:100].lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else ""
