"""The tools that a model is offered."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from coilclaw.packets.canonical import Json

if TYPE_CHECKING:
    from coilclaw.packets.chat import ToolSpec
    from coilclaw.runtime.runtime import Runtime

_MANY = {"maxLength": 1000, "maxItems": 100, "maximum": 1 << 20}
"""Bounds from here on are met by no sensible call; the gate refuses what does, and says why."""


def offered_tools(app: "Runtime", names: Collection[str]) -> "tuple[ToolSpec, ...]":
    """The tools of these names as a model sees them, without those that are withheld."""
    from coilclaw.gate.identities import shown_parameters
    from coilclaw.packets.chat import ToolSpec

    return tuple(
        ToolSpec(name=tool.name, description=tool.description, parameters=in_short(shown_parameters(tool)))
        for tool in app.tools.values()
        if tool.name in names and not tool.withheld
    )


def in_short(schema: Mapping[str, Json]) -> dict[str, Json]:
    """A schema as a model needs it. It goes with every request, so what only repeats itself is left out; calls are
    held against the whole one."""
    told = {name: value for name, value in schema.items() if not _is_needless(name, value)}
    told.pop("title", None)
    either, optional = schema.get("anyOf"), "default" in schema and schema["default"] is None
    if optional and isinstance(either, list):  # it may be left out, which is how a model says null
        kinds = [each for each in either if isinstance(each, Mapping) and each.get("type") != "null"]
        if len(kinds) == 1:
            del told["anyOf"]
            told = {**in_short(kinds[0]), **told}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        told.pop("description", None)  # that of the call or its field says it
        told["properties"] = {name: in_short(each) for name, each in properties.items() if isinstance(each, Mapping)}
    items = schema.get("items")
    if isinstance(items, Mapping):
        told["items"] = in_short(items)
    return told


def _is_needless(name: str, value: Json) -> bool:
    match name:
        case "default":
            return not value and not (isinstance(value, int) and value is not False)  # a zero says something
        case "required":
            return not value
        case "minLength" | "minItems":
            return True
        case _:
            return name in _MANY and isinstance(value, int) and value >= _MANY[name]
