"""Line numbers of values in a JSON text, to show faults next to them."""

import json
import re
from typing import TypeAlias

Step: TypeAlias = str | int
_SPACE = re.compile(r"[ \t\r\n]*")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_DECODER = json.JSONDecoder()


def steps_of(path: str) -> list[Step]:
    """The steps of a path such as `$.rules[2].when`; it ends at a step without a name."""
    steps: list[Step] = []
    place = 1
    while (found := _STEP.match(path, place)) is not None:
        steps.append(found[1] if found[2] is None else int(found[2]))
        place = found.end()
    return steps


def line_of(text: str, steps: list[Step]) -> int:
    """The line of a value, from 1; of the nearest enclosing value if it is missing.

    The text must be valid JSON.
    """
    place = _skip(text, 0)
    for step in steps:
        below = _below(text, place, step)
        if below is None:
            break
        place = below
    return text.count("\n", 0, place) + 1


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _below(text: str, place: int, step: Step) -> int | None:
    """The start of the member or item of a step."""
    opening = text[place : place + 1]
    here = _skip(text, place + 1)
    number = 0
    while opening in ("{", "[") and text[here : here + 1] not in ("}", "]", ""):
        name: Step = number
        if opening == "{":
            name, here = _DECODER.raw_decode(text, here)
            here = _skip(text, _skip(text, here) + 1)
        if name == step and isinstance(name, str) == isinstance(step, str):
            return here
        _, here = _DECODER.raw_decode(text, here)
        here = _skip(text, here)
        if text[here : here + 1] == ",":
            here = _skip(text, here + 1)
        number += 1
    return None
