"""From raw tables to structs: each value is checked against its field's type, and every fault is recorded."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import msgspec

from coilclaw.config.faults import Faults, safe_text
from coilclaw.config.options import (
    allowed,
    bare_type,
    fields_of,
    is_section,
    nearest,
    options_of,
    table_options,
)
from coilclaw.config.tables import TABLES, KeyPath, Table, table_at

Shape = TypeVar("Shape", bound=msgspec.Struct)


def build(shape: type[Shape], raw: object, path: KeyPath, faults: Faults) -> Shape:
    """A struct from a table. A value that does not fit is recorded and replaced by its default."""
    if not isinstance(raw, dict):
        faults.note(path, f"needs a table, written [{'.'.join(path)}]")
        return shape()
    fields = fields_of(shape)
    made: dict[str, object] = {}
    for name, value in cast("dict[str, object]", raw).items():
        here = (*path, name)
        if name not in fields:
            _unknown(here, [*fields], faults)
        elif here in TABLES:
            made[name] = _named(TABLES[here], value, faults)
        elif is_section(fields[name].type):
            made[name] = build(fields[name].type, value, here, faults)
        else:
            _leaf(made, value, fields[name].type, here, faults)
    return shape(**{fields[name].name: value for name, value in made.items()})


def _leaf(made: dict[str, object], value: object, kind: Any, path: KeyPath, faults: Faults) -> None:
    """Store the checked value, or record why it does not fit."""
    try:
        fitting = cast("object", msgspec.convert(value, kind, dec_hook=_path))
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError):
        faults.note(path, f"needs {allowed(kind)}{_instead(value, kind)}")
        return
    if isinstance(fitting, float) and not math.isfinite(fitting):
        faults.note(path, f"needs {allowed(kind)}")
    elif any(_is_unfit(text) for text in _texts(value)):
        faults.note(path, "contains a control character or text that is not UTF-8; remove it")
    else:
        made[path[-1]] = fitting


def _path(kind: type, value: object) -> object:
    """msgspec's hook for types it does not know: paths."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return kind(value)


def _is_unfit(text: str) -> bool:
    return not text.isprintable() and re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", text) is not None


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in cast("list[object]", value) for text in _texts(item)]
    if isinstance(value, dict):
        return [text for pair in cast("dict[str, object]", value).items() for text in (pair[0], *_texts(pair[1]))]
    return []


def _instead(value: object, kind: Any) -> str:
    """The actual value, repeated only for literals and numbers: any other string may be a secret."""
    inner, _ = bare_type(kind)
    if isinstance(value, bool):
        return f", not {str(value).lower()}"
    if isinstance(value, int | float):
        return f", not {safe_text(repr(value))}" if abs(value) < 1e18 else ", not a number that large"
    if isinstance(value, str):
        if get_origin(inner) is Literal:
            close = nearest(value, get_args(inner))
            return f', not "{safe_text(value)}"' + (f'; did you mean "{close}"?' if close else "")
        return "" if inner in {str, Path} else ", not a string"
    if isinstance(value, list):
        return "" if get_origin(inner) is tuple else ", not a list"
    return ", not a table" if isinstance(value, dict) else ", not a date or time"


def _named(table: Table, raw: object, faults: Faults) -> dict[str, msgspec.Struct]:
    """The tables that the owner named, each as its struct."""
    if not isinstance(raw, dict):
        faults.note(table.path, f"needs tables, each written [{table.key}.NAME]")
        return dict(table.defaults())
    if not raw:
        return dict(table.defaults())
    made: dict[str, msgspec.Struct] = {}
    for name, inner in cast("dict[str, object]", raw).items():
        path = (*table.path, name)
        if not table.names(name):
            faults.note(path, table.naming())
        elif not isinstance(inner, dict):
            faults.note(path, f"needs a table, written [{'.'.join(path)}]")
        else:
            shape = _shape(table, cast("dict[str, object]", inner), path, faults)
            if shape is not None:
                made[name] = build(shape, cast("object", inner), path, faults)
    return made


def _shape(table: Table, inner: Mapping[str, object], path: KeyPath, faults: Faults) -> type[msgspec.Struct] | None:
    """The struct that a table's keys belong to; where there are kinds, the table must name one."""
    if not table.has_kinds:
        return table.shapes[""]
    kind = inner.get("kind")
    if isinstance(kind, str) and kind in table.shapes:
        return table.shapes[kind]
    words = ", ".join(f'"{word}"' for word in table.shapes)
    there = "is missing; " if kind is None else ""
    close = nearest(kind, table.shapes) if isinstance(kind, str) else ""
    hint = f'; did you mean "{close}"?' if close else ""
    faults.note((*path, "kind"), f"{there}needs one of {words}{hint}")
    return None


def _unknown(path: KeyPath, siblings: list[str], faults: Faults) -> None:
    """Report an unknown key and the one probably meant, here or in another section."""
    if faults.full:
        faults.note(path, "")
        return
    name = path[-1]
    table = table_at(path)
    if table is not None and table.has_kinds:
        kinds = [kind for kind in table.shapes if name in {option.path[-1] for option in table_options(table, kind)}]
        if kinds:
            faults.note(path, f"belongs to kind {', '.join(kinds)} only; this kind has {', '.join(siblings)}")
            return
    close = nearest(name, siblings)
    if not close and len(path) <= 2:
        close = next((option.key for option in options_of() if option.path[-1] == name), "")
    hint = f"did you mean {close}?" if close else f"allowed here: {', '.join(siblings)}"
    faults.note(path, f"no such key; {hint}")
