"""Redaction of JSON values: a key announces its value just as a name does in text."""

from collections.abc import Callable, Mapping, Sequence

from coilclaw.packets.canonical import Json
from coilclaw.secrets.fields import field_of
from coilclaw.secrets.labels import MARK

_NAMING = ("name", "key", "header", "Name", "Key")


def fielded(value: Json, text: Callable[[str], str], key: str = "") -> Json:
    """The value with every string redacted; `key` is its name."""
    if isinstance(value, str):
        return _under(key, value, text) if key else text(value)
    if isinstance(value, Mapping):
        named = _named(value)
        return {
            text(name): fielded(item, text, named if named and name.lower() == "value" else name)
            for name, item in value.items()
        }
    if isinstance(value, Sequence):
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str) and field_of(value[0]):
            return [text(value[0]), _under(value[0], value[1], text)]
        return [fielded(item, text, key) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and key:
        shown = _under(key, str(value), text)
        return value if shown == str(value) else shown
    return value


def _named(value: Mapping[str, Json]) -> str:
    """The name in {"name": "API_KEY", "value": "…"}."""
    if "value" not in value and "Value" not in value:
        return ""
    return next((name for field in _NAMING if isinstance(name := value.get(field), str)), "")


def _under(key: str, value: str, text: Callable[[str], str]) -> str:
    """A value under a key: redacted like the same pair in text, then on its own."""
    shown = text(value)
    if field_of(key) is None:
        return shown
    quoted = shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    pair = text(f'"{key}": "{quoted}"')
    head, tail = f'"{key}": "', '"'
    if pair == f"{head}{quoted}{tail}" or not (pair.startswith(head) and pair.endswith(tail)):
        return shown
    inner = pair[len(head) : -len(tail)]
    return inner if MARK.search(inner) else shown
