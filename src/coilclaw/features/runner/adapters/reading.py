"""Reading what hooks are told, the same for every program."""

import hashlib
import json
from typing import cast

UNLOADED = tuple(
    (name, "")
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONPATH")
)
"""Variables that put foreign code into a hook. They are set, to nothing, because a repository's own files of variables
do not replace what is set."""

LONGEST_KEY = 200


def text_of(told: "dict[str, object]", name: str, default: str | None = None) -> str:
    """A text; raises where it is missing, unless there is a default."""
    value = told.get(name, default)
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a text")
    return value


def words_of(told: "dict[str, object]", name: str) -> str:
    """Whatever is there, as text."""
    value = told.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def call_key(told: "dict[str, object]") -> str:
    """What a call and its result have in common: its number, or else everything that was given."""
    number = told.get("tool_use_id")
    if isinstance(number, str) and number:
        # a program chooses it, and the desk keeps it: a long one must not fill the server
        return number if len(number) <= LONGEST_KEY else hashlib.sha256(number.encode("utf-8", "replace")).hexdigest()
    given = f"{told.get('tool_name')} {words_of(told, 'tool_input')}"
    return hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()


def object_of(told: "dict[str, object]", name: str) -> "dict[str, object]":
    """An object; an empty one where it is missing."""
    value = told.get(name)
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def paths_of(arguments: "dict[str, object]", *names: str) -> tuple[str, ...]:
    """Every path or pattern that is named: a text, or a list of them."""
    found = [arguments.get(name) for name in names]
    lists = (cast("list[object]", each) if isinstance(each, list) else [each] for each in found)
    return tuple(each for several in lists for each in several if isinstance(each, str) and each)
