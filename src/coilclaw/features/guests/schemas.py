"""A guest's JSON Schemas: refused at pinning unless they are small, complete and quick, then calls are held to them.

`jsonschema_rs` validates; it is told to fetch nothing and to run patterns in linear time, so a schema can neither
reach out nor stall the gate (docs/decisions/0035).
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.text import visible

DEPTH = 16
BYTES = 64 << 10
WEIGHT = 5000
"""Subschemas that one value may be compared with: references can make a small schema exponential."""
WORK = 200_000_000
"""Bytes of a value times the weight of its schema: more would take seconds, and nothing else goes on meanwhile."""
TOLD_WORK = 500_000
"""With more than this, no fault is searched for its words: finding one collects a fault for each comparison."""


def schema_fault(schema: Json) -> str:
    """Why a schema cannot be used; empty when it can."""
    if not isinstance(schema, dict):
        return "its schema is not an object"
    text = msgspec.json.encode(schema)
    if visible(shown := text.decode()) != shown:
        return "its schema holds characters that do not show"  # the model would read what the owner cannot see
    if len(text) > BYTES:
        return f"its schema has more than {BYTES // 1024} KB"
    if _depth(schema) > DEPTH:
        return f"its schema is nested more than {DEPTH} levels deep"
    if foreign := _foreign(schema, ("$id", "id") if b"draft-04" in text else ("$id",)):
        return f"its schema refers to something outside itself: {foreign}"
    weight = _weight(schema)
    if not weight:
        return "its schema refers to itself, or to nothing"
    if weight > WEIGHT:
        return f"checking a value would mean more than {WEIGHT} comparisons"
    if schema.get("type", "object") != "object":
        return "its schema does not describe an object"
    try:
        _compiled(text)
    except ValueError as error:
        return f"its schema cannot be used: {str(error).splitlines()[0][:200]}"
    return ""


def check(schema: dict[str, Json], value: Json) -> str:
    """Why a value does not fit a schema; empty when it does."""
    from jsonschema_rs import ValidationError

    text = msgspec.json.encode(schema)
    if fault := _known_fault(text):  # an earlier version may have pinned it
        return fault
    validator, work = _compiled(text), _known_weight(text) * len(msgspec.json.encode(value))
    if work > WORK:
        return "it is too large to be compared with its schema"
    if validator.is_valid(value):
        return ""
    if work > TOLD_WORK:
        return "it does not fit its schema"
    try:
        validator.validate(value)
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


@lru_cache(maxsize=256)
def _known_fault(schema: bytes) -> str:
    return schema_fault(msgspec.json.decode(schema))


@lru_cache(maxsize=256)
def _known_weight(schema: bytes) -> int:
    return _weight(msgspec.json.decode(schema)) or WEIGHT


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
    `WEIGHT` is not counted to the end. None if the schema refers to itself, which has no bound, or to nothing."""
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
    except (RecursionError, LookupError):
        return None


def _at(schema: Json, reference: str) -> Json:
    """What a reference into the same document leads to; LookupError if it leads nowhere."""
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict):
            schema = schema[name]
        elif isinstance(schema, list) and re.fullmatch("[0-9]{1,6}", name):
            schema = schema[int(name)]
        else:
            raise LookupError
    return schema


def _foreign(value: Json, naming: tuple[str, ...], *, root: bool = True) -> str:
    """A reference that leads out of the document, or somewhere else in it than where `_at` looks: one that only
    running the schema resolves, one with `%`, and every one in a part with an address of its own."""
    if isinstance(value, list):
        return next((found for found in (_foreign(each, naming, root=False) for each in value) if found), "")
    if not isinstance(value, dict):
        return ""
    if "$dynamicRef" in value or "$recursiveRef" in value:
        return "a dynamic reference"
    if not root and any(isinstance(value.get(key), str) for key in naming):
        return "a part with an address of its own"
    target = value.get("$ref")
    if "$ref" in value and not (isinstance(target, str) and re.fullmatch("#(/[!-$&-~]*)?", target)):
        return f"{str(target)[:80]!r}"
    return next((found for found in (_foreign(each, naming, root=False) for each in value.values()) if found), "")
