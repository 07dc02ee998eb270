"""One way from text to value and one way from value to bytes: strict JSON in, RFC 8785 out.

Arguments are parsed once at the edge and encoded once; those bytes are stored, hashed, shown and executed.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
else:
    Json = Any  # msgspec has no recursive types; any JSON value is acceptable here
JsonObject: TypeAlias = Mapping[str, Json]

SAFE_INTEGER = 2**53
MAX_DEPTH = 64


class NotCanonical(ValueError):
    """The text or value has no single meaning: duplicate keys, non-finite or unsafe numbers, broken text."""


def _pairs(pairs: list[tuple[str, Json]]) -> JsonObject:
    made: dict[str, Json] = {}
    for key, value in pairs:
        if key in made:
            raise NotCanonical(f"the key {key!r} appears twice in one object")
        made[key] = value
    return made


def _constant(name: str) -> float:
    raise NotCanonical(f"{name} is not a JSON number")


def _integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > SAFE_INTEGER:
        raise NotCanonical(f"the integer {text[:24]} is beyond 2^53; send it as a string")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotCanonical(f"the number {text[:24]} is not finite")
    return value


def parse_json(text: str | bytes) -> Json:
    """Parse strict JSON: no duplicate keys, no non-finite numbers, no integer beyond 2^53, depth at most 64."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = cast(
            "Json",
            json.loads(
                text, object_pairs_hook=_pairs, parse_constant=_constant, parse_int=_integer, parse_float=_float
            ),
        )
    except NotCanonical:
        raise
    except RecursionError as error:
        raise NotCanonical("the JSON is nested too deeply") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise NotCanonical(f"this is not JSON: {error}") from error
    canonical_bytes(value)  # depth and text are checked when it is encoded
    return value


def parse_object(text: str | bytes) -> JsonObject:
    """Parse strict JSON that must be an object."""
    value = parse_json(text)
    if not isinstance(value, Mapping):
        raise NotCanonical('a JSON object is required here, such as {"path": "."}')
    return value


def as_object(value: Json) -> JsonObject:
    """The value, if it is an object; otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}


def _number(value: float) -> str:
    """ECMAScript's number to string, as RFC 8785 asks."""
    if not math.isfinite(value):
        raise NotCanonical("a non-finite number cannot be written as JSON")
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < 1e21:  # written without an exponent, so it reads back as an integer
        if abs(value) > SAFE_INTEGER:
            raise NotCanonical(f"the integer {value:.0f} is beyond 2^53; send it as a string")
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    digits = mantissa.replace("-", "").replace(".", "").lstrip("0").rstrip("0")
    sign = "-" if value < 0 else ""
    point = len(mantissa.replace("-", "").partition(".")[0]) + int(exponent or 0)
    if mantissa.replace("-", "").startswith("0."):  # repr writes 0.000123: count the zeros back
        fraction = mantissa.partition(".")[2]
        point = int(exponent or 0) - (len(fraction) - len(fraction.lstrip("0")))
    if 0 < point <= 21:
        whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
        return sign + whole + ("." + fraction if fraction else "")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = point - 1
    head, tail = digits[0], digits[1:]
    return f"{sign}{head}{'.' + tail if tail else ''}e{'+' if power >= 0 else '-'}{abs(power)}"


def _text(value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotCanonical("the text contains a lone surrogate and cannot be written as UTF-8") from error
    return encode_basestring(value)  # what json.dumps uses, without building an encoder for every string


def _utf16(item: tuple[str, Json]) -> bytes:
    return item[0].encode("utf-16-be", "surrogatepass")


def _encode(value: Json, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise NotCanonical("the JSON is nested too deeply")
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        if abs(value) > SAFE_INTEGER:
            raise NotCanonical("an integer beyond 2^53 cannot be written safely as JSON")
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        items = sorted(value.items(), key=_utf16)
        return "{" + ",".join(f"{_text(key)}:{_encode(item, depth + 1)}" for key, item in items) + "}"
    return "[" + ",".join(_encode(item, depth + 1) for item in value) + "]"


def canonical_bytes(value: Json) -> bytes:
    """RFC 8785 canonical JSON of a value, as UTF-8 bytes."""
    return _encode(value, 0).encode("utf-8")


def sha256_hex(data: bytes) -> str:
    """SHA-256 as lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_of(*parts: bytes) -> str:
    """SHA-256 over parts that cannot run into each other: each is preceded by its length."""
    return sha256_hex(b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)]))
