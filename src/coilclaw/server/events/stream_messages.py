"""The messages of the event stream, and their schemas for the OpenAPI document."""

from typing import Any

import msgspec

from coilclaw.gate.running import CommandOutput
from coilclaw.packets.canonical import Json
from coilclaw.server.events.topics import TOPICS, Topic

MEDIA_TYPE = "text/event-stream"
_REFERENCES = "#/components/schemas/{name}"


class LiveEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event from the durable sequence; the name of the message is its first topic."""

    seq: int
    """Its number in the sequence of all events."""
    event: Topic
    topics: tuple[Topic, ...]
    """Every list that it makes stale."""
    type: str
    """What happened, such as `tool_completed`."""
    id: str
    """What it happened to: an action, a job, a conversation, a device."""
    at: str
    thread_id: str
    """The conversation it belongs to; empty when there is none."""
    data: Json
    """Ids, codes and hashes, never content."""


class TextDelta(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an answer that is being written; it has no number and is not stored."""

    thread_id: str
    turn_id: str
    offset: int
    """The number of characters before it."""
    text: str


class StreamHello(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of every stream."""

    seq: int
    """The number of the newest event."""
    version: str
    now: str
    """The server's clock."""


class StreamGap(msgspec.Struct, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}):
    """These numbers are missing. `from` beyond `to`: they never existed, and the stream continues at `to`."""

    first: int
    last: int


STREAMED: dict[str, type[msgspec.Struct]] = {
    "hello": StreamHello,
    "gap": StreamGap,
    "text": TextDelta,
    "command_output": CommandOutput,
}
"""By the name of the message; every other message is a LiveEvent under its topic."""


def structs() -> dict[str, type[msgspec.Struct]]:
    """Every message type, by the name of its schema."""
    return {struct.__name__: struct for struct in (*STREAMED.values(), LiveEvent)}


def schemas() -> dict[str, Any]:
    """The schemas of all messages, and StreamMessage, their union."""
    _, found = msgspec.json.schema_components(structs().values(), ref_template=_REFERENCES)
    topic = {"$ref": _REFERENCES.format(name="Topic")}
    found["LiveEvent"]["properties"] |= {"event": topic, "topics": {"type": "array", "items": topic, "minItems": 1}}
    messages = [_message({"const": name}, struct) for name, struct in STREAMED.items()]
    return {
        **found,
        "Topic": {"description": "What an event is about.", "type": "string", "enum": list(TOPICS)},
        "StreamMessage": {
            "description": "One message of the event stream; `data` is sent as one line of JSON.",
            "oneOf": [*messages, _message(topic, LiveEvent)],
        },
    }


def stream_schema() -> dict[str, Any]:
    """The schema of a whole stream: text with messages."""
    items = {"$ref": _REFERENCES.format(name="StreamMessage")}
    return {"type": "string", "contentMediaType": MEDIA_TYPE, "contentSchema": {"type": "array", "items": items}}


def _message(name: dict[str, Any], struct: type[msgspec.Struct]) -> dict[str, Any]:
    data = {"$ref": _REFERENCES.format(name=struct.__name__)}
    return {"type": "object", "properties": {"event": name, "data": data}, "required": ["event", "data"]}
