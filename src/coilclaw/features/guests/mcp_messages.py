"""What an MCP server says, parsed strictly and within bounds. Everything in it is untrusted."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, canonical_bytes, parse_json
from coilclaw.packets.errors import ToolError

MAX_TOOLS = 200
MAX_LISTING = 1 << 20
"""Bytes of all pages of a listing together."""
MAX_SCHEMA = 64 << 10
MAX_SCHEMA_DEPTH = 32
"""Levels of JSON; each level of a JSON Schema takes about two."""
_SHOWN = 2000
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}\Z")


class GuestFault(ToolError):
    """A guest broke the protocol, ended, or did not answer. Its own words in here are untrusted and cut.

    `begun` is False if no call can have started. `answered` is True if the guest itself reported the failure.
    """

    code = "GUEST_PROTOCOL"

    def __init__(
        self, message: str, *, remedy: str = "", code: str = "", begun: bool = True, answered: bool = False
    ) -> None:
        super().__init__(message, remedy=remedy, code=code, begun=begun)
        self.answered = answered

    @property
    def uncertain(self) -> bool:
        """The call may have had its effect, and no answer said so."""
        return self.begun and not self.answered

    def repeated(self, *, begun: bool) -> "GuestFault":
        """The same fault, for another call."""
        return GuestFault(self.message, remedy=self.remedy, code=self.code, begun=begun)


class SessionLost(GuestFault):
    """The server no longer knows our session, so it did not take the request."""

    code = "GUEST_SESSION_LOST"


class GuestUnauthorized(GuestFault):
    """The server wants other credentials; `challenge` is its WWW-Authenticate header, for OAuth."""

    code = "GUEST_UNAUTHORIZED"

    def __init__(self, status: int, challenge: str) -> None:
        super().__init__(
            f"The server refused our credentials ({status}).",
            remedy="Check its secret header, or sign in again.",
            begun=False,
            answered=True,
        )
        self.status = status
        self.challenge = challenge


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the server lists it."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Json]
    output_schema: dict[str, Json] | None
    annotations: dict[str, Json]
    """The server's own claims about the tool."""


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """Binary content of a result."""

    kind: Literal["image", "audio", "blob"]
    mime_type: str
    data: bytes


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a call returned."""

    text: str
    is_error: bool
    """The tool says that it failed; the text says why."""
    structured: Json
    """`structuredContent`, not checked against the tool's schema; None if there is none."""
    blobs: tuple[Blob, ...]


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says about itself."""

    name: str
    version: str
    protocol: str
    instructions: str


def cut(value: Json, most: int = _SHOWN) -> str:
    """Its text, at most so many characters; empty if it is not text."""
    return value[:most] if isinstance(value, str) else ""


def parse_message(data: bytes) -> JsonObject:
    """One JSON-RPC message: a request, a notification or an answer, or GuestFault."""
    try:
        message = parse_json(data)
    except NotCanonical as error:
        shown = ascii(data[:80].decode("utf-8", "replace"))
        raise GuestFault(f"It sent {len(data)} bytes that are not strict JSON: {str(error)[:200]}: {shown}.") from error
    if not isinstance(message, Mapping):
        raise GuestFault("It sent a batch or a bare value where one JSON-RPC message is required.")
    if message.get("jsonrpc") != "2.0":
        raise GuestFault("It sent an object that is not a JSON-RPC 2.0 message.")
    if "method" in message:
        if not isinstance(message["method"], str) or not _request_id(message):
            raise GuestFault("It sent a request or notification that is malformed.")
    elif not _is_answer(message):
        raise GuestFault("It sent an answer that is malformed.")
    return message


def _request_id(message: JsonObject) -> bool:
    """Whether there is no id, or one that can be echoed."""
    if "id" not in message:
        return True
    number = message["id"]
    return len(number) <= 256 if isinstance(number, str) else isinstance(number, int) and not isinstance(number, bool)


def _is_answer(message: JsonObject) -> bool:
    if ("result" in message) == ("error" in message):
        return False
    if "result" in message:
        return isinstance(message["result"], Mapping)
    error = message["error"]
    return isinstance(error, Mapping) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)


def error_of(message: JsonObject) -> GuestFault:
    """The failure that an answer reports."""
    error = cast("JsonObject", message["error"])
    return GuestFault(
        f"It answered with error {error['code']}: {cut(error['message'])}", code="GUEST_ERROR", answered=True
    )


def read_tools(result: JsonObject) -> list[ListedTool]:
    """One page of a listing."""
    tools = result.get("tools")
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise _bad_listing("It has no list of tools")
    return [_tool(tool) for tool in tools]


def _tool(tool: Json) -> ListedTool:
    if not isinstance(tool, Mapping) or not isinstance(name := tool.get("name"), str) or not _NAME.match(name):
        raise _bad_listing("A tool has no name of 1 to 128 letters, digits and _ . / -")
    title, description = tool.get("title", ""), tool.get("description", "")
    if not isinstance(title, str) or not isinstance(description, str):
        raise _bad_listing(f"The title or description of {name} is not text")
    annotations = tool.get("annotations", {})
    if not isinstance(annotations, Mapping):
        raise _bad_listing(f"The annotations of {name} are not an object")
    return ListedTool(
        name=name,
        title=title,
        description=description,
        input_schema=_schema(name, tool.get("inputSchema")),
        output_schema=None if tool.get("outputSchema") is None else _schema(name, tool["outputSchema"]),
        annotations=dict(annotations),
    )


def _schema(name: str, schema: Json) -> dict[str, Json]:
    if not isinstance(schema, Mapping):
        raise _bad_listing(f"A schema of {name} is not an object")
    if len(canonical_bytes(schema)) > MAX_SCHEMA or _deeper(schema, MAX_SCHEMA_DEPTH):
        raise _bad_listing(
            f"A schema of {name} has more than {MAX_SCHEMA >> 10} KB or {MAX_SCHEMA_DEPTH} levels of nesting"
        )
    return dict(schema)


def _deeper(value: Json, levels: int) -> bool:
    if isinstance(value, Mapping):
        return levels == 0 or any(_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return levels == 0 or any(_deeper(item, levels - 1) for item in value)
    return False


def _bad_listing(what: str) -> GuestFault:
    return GuestFault(
        f"Its list of tools is refused. {what}.",
        remedy="Ask its maker, or remove it.",
        code="GUEST_LISTING",
        begun=False,
    )


def add_page(found: dict[str, ListedTool], result: JsonObject, size: int) -> int:
    """Add one page to the tools found so far, `size` bytes in all; returns the new size, or refuses the listing."""
    size += len(canonical_bytes(result))
    if size > MAX_LISTING:
        raise _bad_listing(f"It has more than {MAX_LISTING >> 10} KB")
    for tool in read_tools(result):
        if tool.name in found:
            raise _bad_listing(f"{tool.name} is listed twice")
        found[tool.name] = tool
    if len(found) > MAX_TOOLS:
        raise _bad_listing(f"It lists more than {MAX_TOOLS} tools")
    return size


def next_cursor(result: JsonObject, seen: set[str], pages: int) -> str | None:
    """Where the next page begins, or None after the last; endless listings are refused."""
    cursor = result.get("nextCursor")
    if cursor is None:
        return None
    if not isinstance(cursor, str) or cursor in seen or len(seen) + 1 >= pages:
        raise _bad_listing(f"It has more than {pages} pages, or its pages lead in a circle")
    seen.add(cursor)
    return cursor


def read_result(result: JsonObject) -> CallResult:
    """The result of tools/call."""
    content, is_error = result.get("content", []), result.get("isError", False)
    structured = result.get("structuredContent")
    if not isinstance(content, Sequence) or isinstance(content, str) or not isinstance(is_error, bool):
        raise _bad_result("it has no list of content")
    if structured is not None and not isinstance(structured, Mapping):
        raise _bad_result("its structured content is not an object")
    texts: list[str] = []
    blobs: list[Blob] = []
    for part in content:
        read = _part(part)
        if isinstance(read, Blob):
            blobs.append(read)
        else:
            texts.append(read)
    return CallResult(text="\n".join(texts), is_error=is_error, structured=structured, blobs=tuple(blobs))


def _part(part: Json) -> str | Blob:
    if not isinstance(part, Mapping):
        raise _bad_result("a part of its content is not an object")
    match part.get("type"):
        case "text":
            return _text(part, "text")
        case "image":
            return Blob(kind="image", mime_type=_mime(part), data=_bytes(part, "data"))
        case "audio":
            return Blob(kind="audio", mime_type=_mime(part), data=_bytes(part, "data"))
        case "resource_link":
            return f"[link: {cut(part.get('name'))} {_text(part, 'uri')}]"
        case "resource" if isinstance(resource := part.get("resource"), Mapping):
            if "blob" in resource:
                return Blob(kind="blob", mime_type=_mime(resource), data=_bytes(resource, "blob"))
            return f"[resource: {cut(resource.get('uri'))}]\n{_text(resource, 'text')}"
        case _:
            raise _bad_result("a part of its content has an unknown type")


def _text(part: JsonObject, name: str) -> str:
    if not isinstance(text := part.get(name), str):
        raise _bad_result(f"a part of its content has no {name}")
    return text


def _mime(part: JsonObject) -> str:
    """Its media type, as far as it is one."""
    mime = cut(part.get("mimeType"), 100).lower()
    return mime if re.fullmatch(r"[a-z0-9.+-]+/[a-z0-9.+-]+", mime) else "application/octet-stream"


def _bytes(part: JsonObject, name: str) -> bytes:
    try:
        return base64.b64decode(_text(part, name), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad_result(f"its {name} is not base64") from error


def _bad_result(what: str) -> GuestFault:
    return GuestFault(f"Its result cannot be read: {what}.", code="GUEST_RESULT")
