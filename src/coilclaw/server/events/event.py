"""An event for streams: encoded once, without secrets, for any number of readers."""

import re
from functools import lru_cache
from typing import cast

import msgspec

from coilclaw.ledger.audit import Told
from coilclaw.packets.canonical import Json
from coilclaw.secrets.fields import field_of
from coilclaw.secrets.redactor import Redactor
from coilclaw.server.events.stream_messages import LiveEvent
from coilclaw.server.events.topics import Topic, topics_of

LARGEST = 64 << 10
"""Maximum bytes of an event; of a larger one only the frame is sent, and `GET /v1/audit` has the rest."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event with the fields that streams filter by."""

    seq: int
    topics: tuple[Topic, ...]
    thread_id: str
    sse: bytes
    """The complete bytes to send."""


def frame(event: str, data: bytes, *, seq: int | None = None) -> bytes:
    """One Server-Sent Event. JSON has no line breaks, so one `data:` line is enough."""
    number = b"" if seq is None else b"id: %d\n" % seq
    return b"%sevent: %s\ndata: %s\n\n" % (number, event.encode(), data)


def payload_of(told: Told) -> Json:
    """The payload; one that is not JSON is passed on as text."""
    try:
        return msgspec.json.decode(told.payload)
    except msgspec.DecodeError:
        return told.payload


def thread_of(told: Told, payload: Json) -> str:
    """The conversation an event belongs to, if any."""
    if told.event_type.startswith(("message_", "thread_")):
        return told.entity_id
    named = payload.get("thread_id") if isinstance(payload, dict) else None
    return named if isinstance(named, str) and named else told.thread_id


def event_of(told: Told, payload: Json, thread_id: str, redactor: Redactor) -> Event:
    """The event to send; its payload is withheld if redaction fails."""
    topics = topics_of(told.event_type)
    shown = LiveEvent(
        seq=told.seq,
        event=topics[0],
        topics=topics,
        type=told.event_type,
        id=told.entity_id,
        at=told.created_at,
        thread_id=thread_id,
        data=payload,
    )
    data = _redacted(shown, redactor)
    if len(data) > LARGEST:
        data = msgspec.json.encode(msgspec.structs.replace(shown, id="", data={"withheld": "too large"}))
    return Event(seq=told.seq, topics=topics, thread_id=thread_id, sse=frame(topics[0], data, seq=told.seq))


def _redacted(shown: LiveEvent, redactor: Redactor) -> bytes:
    try:
        # Ids, hashes and single words have no secret-like shape or context, so only registered secrets
        # can occur in them: check them all together. They are most of what events contain, and most of the cost.
        data = msgspec.json.encode(shown)
        text = data.decode()
        if "\\" in text or redactor.registered(text) != text:
            told = {name: getattr(shown, name) for name in (*_FRAME, "data")}
            return _encoded(shown, cast("dict[str, Json]", redactor.value(told)))
        told = {name: getattr(shown, name) for name in _FRAME}
        if all(_is_plain(value) for value in told.values()) and _is_plain_payload(shown.data):
            return data
        return _encoded(shown, {**_rest_redacted(told, redactor), "data": _payload_redacted(shown.data, redactor)})
    except Exception:  # fail closed
        hidden = msgspec.structs.replace(shown, id="", thread_id="", data={"withheld": "redaction failed"})
        return msgspec.json.encode(hidden)


def _encoded(shown: LiveEvent, redacted: dict[str, Json]) -> bytes:
    return msgspec.json.encode({name: redacted.get(name, getattr(shown, name)) for name in LiveEvent.__struct_fields__})


_OWN = ("seq", "event", "topics")
"""Its number and our own words: streams depend on them, and nothing else gets in."""
_FRAME = tuple(name for name in LiveEvent.__struct_fields__ if name not in (*_OWN, "data"))
_PLAIN = re.compile(
    r"(?:act|art|asr|chl|conv|dev|evt|job|msg|note|ntf|sop|turn)_[0-9a-z]{19}"
    r"|[0-9a-f]{64}"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    r"|[a-z]{1,14}(?:_[a-z]{1,14}){0,3}|[A-Z]{1,14}(?:_[A-Z]{1,14}){0,3}|",
    re.ASCII,
)
_LARGEST_PLAIN = 10**10


def _is_plain(value: Json) -> bool:
    """Whether only a registered secret could occur in it."""
    if isinstance(value, str):
        return _PLAIN.fullmatch(value) is not None
    if isinstance(value, int):  # true and false too
        return abs(value) < _LARGEST_PLAIN
    return value is None


@lru_cache(maxsize=1024)
def _is_plain_name(name: str) -> bool:
    """Whether a name says nothing about its value."""
    return _is_plain(name) and name.lower() != "value" and field_of(name) is None


def _is_plain_payload(payload: Json) -> bool:
    return isinstance(payload, dict) and all(_is_plain_name(name) and _is_plain(payload[name]) for name in payload)


def _payload_redacted(payload: Json, redactor: Redactor) -> Json:
    if not isinstance(payload, dict) or any(name.lower() == "value" for name in payload):
        return redactor.value(payload)  # one of its values may be about another
    return _rest_redacted(payload, redactor)


def _rest_redacted(values: dict[str, Json], redactor: Redactor) -> dict[str, Json]:
    """Redact everything that is not plain."""
    shown: dict[str, Json] = {}
    for name, value in values.items():
        if _is_plain_name(name) and _is_plain(value):
            shown[name] = value
        else:
            shown.update(cast("dict[str, Json]", redactor.value({name: value})))
    return shown
