"""JSON-RPC 2.0 as MCP uses it: one message at a time, read strictly; ids are returned byte for byte."""

import json
import re
from typing import TypeAlias, TypeVar

import msgspec

from coilclaw.packets.canonical import Json

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
BUSY = -32000
CANCELLED = -32800

ID_BYTES = 256
_ID = re.compile(rb'"|-?[0-9]')
_ABSENT = msgspec.Raw(b"")
NULL = msgspec.Raw(b"null")

T = TypeVar("T")
Key: TypeAlias = tuple[type, str | float]


class RpcError(Exception):
    """A refusal on the level of the protocol, with the id it belongs to once that is known."""

    def __init__(self, code: int, message: str, *, data: dict[str, Json] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.id = NULL


class RpcMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A request, a notification (no id) or a response (no method)."""

    id: msgspec.Raw | None
    method: str
    params: msgspec.Raw

    @property
    def key(self) -> Key:
        """The id as a value, to find a request by: 1 and 1.0 are the same, 1 and "1" are not."""
        return key_of(self.id or NULL)


class _Envelope(msgspec.Struct, frozen=True):
    jsonrpc: str = ""
    id: msgspec.Raw = _ABSENT
    method: str | None = None
    params: msgspec.Raw = _ABSENT
    result: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT


_DECODER = msgspec.json.Decoder(_Envelope)


def read_message(data: bytes) -> RpcMessage:
    """The message in these bytes; RpcError if there is none."""
    try:
        data.decode("utf-8")
        if data.lstrip()[:1] == b"[":
            raise RpcError(INVALID_REQUEST, "Batches are not part of this protocol. Send one message at a time.")
        found = _DECODER.decode(data)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_REQUEST, f"This is not a JSON-RPC message: {_short(error)}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, "This is not JSON.") from error
    own = _id_of(found.id)
    try:
        return _checked(found, own)
    except RpcError as error:
        error.id = own or NULL
        raise


def _checked(found: _Envelope, own: msgspec.Raw | None) -> RpcMessage:
    if found.jsonrpc != "2.0":
        raise RpcError(INVALID_REQUEST, 'The message lacks "jsonrpc": "2.0".')
    if found.method is None:
        if own is None or (bytes(found.result) == bytes(found.error) == b""):
            raise RpcError(INVALID_REQUEST, "The message names no method.")
        return RpcMessage(id=own, method="", params=_ABSENT)
    if bytes(found.params)[:1] not in (b"", b"{"):
        raise RpcError(INVALID_PARAMS, "params must be an object.")
    return RpcMessage(id=own, method=found.method, params=found.params)


def _id_of(raw: msgspec.Raw) -> msgspec.Raw | None:
    text = bytes(raw)
    if not text:
        return None
    if len(text) > ID_BYTES or _ID.match(text) is None:
        raise RpcError(INVALID_REQUEST, f"The id must be a string or a number of at most {ID_BYTES} bytes.")
    return msgspec.Raw(text)  # a copy of its own: it outlives the message


def key_of(raw: msgspec.Raw) -> Key:
    """An id as a value; RpcError if it cannot be one."""
    try:
        value = json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        raise RpcError(INVALID_REQUEST, "This is not an id.") from error
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RpcError(INVALID_REQUEST, "This is not an id.")
    return (str if isinstance(value, str) else float, value)


def read_params(params: msgspec.Raw, kind: type[T]) -> T:
    """The typed parameters of a method; RpcError if they do not fit."""
    try:
        return msgspec.json.decode(bytes(params) or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"The parameters do not fit: {_short(error)}.") from error


def result_of(own: msgspec.Raw, result: dict[str, Json]) -> bytes:
    """A response, as one line without its end."""
    return b'{"jsonrpc":"2.0","id":' + bytes(own) + b',"result":' + msgspec.json.encode(result) + b"}"


def error_of(error: RpcError, own: msgspec.Raw | None = None) -> bytes:
    """A response that says what is wrong."""
    told: dict[str, Json] = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    return b'{"jsonrpc":"2.0","id":' + bytes(own or error.id) + b',"error":' + msgspec.json.encode(told) + b"}"


def _short(error: Exception) -> str:
    """Our own words about it, without what was sent."""
    return str(error).partition(" - at ")[0][:200].rstrip(".")
