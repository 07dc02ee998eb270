"""A guest's JSON Schemas: refused at pinning unless they are small, complete and quick, then calls are held to them.

`jsonschema_rs` validates; it is told to fetch nothing and to run patterns in linear time, so a schema can neither
reach out nor stall the gate (docs/decisions/0035).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import msgspec

from coilclaw.packets.canonical import Json

DEPTH = 16
BYTES = 64 << 10
WEIGHT = 5000
"""Subschemas that one value may be compared with: references can make a small schema exponential."""


def schema_fault(schema: Json) -> str:
    """Why a schema cannot be used; empty when it can."""
    if not isinstance(schema, dict):
        return "its schema is not an object"
    if len(msgspec.json.encode(schema)) > BYTES:
        return f"its schema has more than {BYTES // 1024} KB"
    if _depth(schema) > DEPTH:
        return f"its schema is nested more than {DEPTH} levels deep"
    if foreign := _foreign(schema):
        return f"its schema refers to something outside itself: {foreign}"
    weight = _weight(schema)
    if weight is None:
        return "its schema refers to itself"
    if weight > WEIGHT:
        return f"checking a value would mean more than {WEIGHT} comparisons"
    if schema.get("type", "object") != "object":
        return "its schema does not describe an object"
    try:
        _compiled(msgspec.json.encode(schema))
    except ValueError as error:
        return f"its schema cannot be used: {str(error).splitlines()[0][:200]}"
    return ""


def check(schema: dict[str, Json], value: Json) -> str:
    """Why a value does not fit a schema that has no fault; empty when it does."""
    from jsonschema_rs import ValidationError

    try:
        _compiled(msgspec.json.encode(schema)).validate(value)
    except ValidationError as error:
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        return f"{error.message[:300]}{f' (at {place[:100]})' if place else ''}"
    return ""


@lru_cache(maxsize=256)
def _compiled(schema: bytes) -> Any:
    import jsonschema_rs

    make = cast("Callable[..., Any]", jsonschema_rs.validator_for)
    return make(
        msgspec.json.decode(schema), offline=True, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions()
    )


def _depth(value: Json) -> int:
    """How deeply a value is nested, without recursion: it may be deeper than the interpreter allows."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, level = waiting.pop()
        deepest = max(deepest, level)
        if deepest > DEPTH:
            break
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        waiting += [(item, level + 1) for item in inside]
    return deepest


def _weight(schema: dict[str, Json]) -> int | None:
    """How many subschemas one value may be compared with, each counted as often as it is referred to; more than
    `WEIGHT` is not counted to the end. None if the schema refers to itself, which has no bound."""
    known: dict[str, int] = {}
    entered: set[str] = set()

    def weigh(node: Json) -> int:
        if isinstance(node, list):
            return sum(map(weigh, node))
        if not isinstance(node, dict):
            return 0
        target = node.get("$ref")
        return min(1 + sum(map(weigh, node.values())) + (follow(target) if isinstance(target, str) else 0), WEIGHT + 1)

    def follow(reference: str) -> int:
        if reference in entered:
            raise RecursionError
        if reference not in known:
            entered.add(reference)
            known[reference] = weigh(_at(schema, reference))
            entered.remove(reference)
        return known[reference]

    try:
        return weigh(schema)
    except RecursionError:
        return None


def _at(schema: Json, reference: str) -> Json:
    """What a reference into the same document leads to; nothing if it leads nowhere, which compiling refuses."""
    for part in reference.lstrip("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict):
            schema = schema.get(name) if name else schema
        elif isinstance(schema, list) and name.isdigit() and int(name) < len(schema):
            schema = schema[int(name)]
        else:
            return None
    return schema


def _foreign(value: Json) -> str:
    """A reference that leads out of the document, or that only running the schema resolves."""
    if isinstance(value, list):
        return next((found for found in (_foreign(each) for each in value) if found), "")
    if not isinstance(value, dict):
        return ""
    if "$dynamicRef" in value or "$recursiveRef" in value:
        return "a dynamic reference"
    target = value.get("$ref")
    if "$ref" in value and not (isinstance(target, str) and (target == "#" or target.startswith("#/"))):
        return f"{str(target)[:80]!r}"
    return next((found for found in (_foreign(each) for each in value.values()) if found), "")
