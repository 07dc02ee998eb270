"""Who wrote what in a conversation, in order, for the gate to judge addresses in calls.

All of it comes from rows, so that a turn resumed by another process or after a crash is judged the same.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, cast

import msgspec

from coilclaw.packets.action import OWNER, Label
from coilclaw.packets.chat import ProposedCall
from coilclaw.store.tx import Tx

MOST_MESSAGES = 20_000
MODEL_CHARACTERS = 1_000_000
HEARD_CHARACTERS = 4_000_000
"""How much of each side is read, newest first."""

Writer: TypeAlias = Literal["owner", "model", "page", "search"]


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    writer: Writer
    text: str
    url: str = ""
    """Where a page came from."""
    links: tuple[str, ...] = ()
    """Search results."""


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """An address that this turn fetched without asking, and the rule that allowed it."""

    rule: str
    url: str


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation up to the proposal of a call, and what it has taken in so far."""

    said: tuple[Said, ...]
    """Oldest first. Later content cannot be what the call quotes."""
    complete: bool
    """False if the model wrote more than is read."""
    private: bool
    """It took in files, notes, memory, artifacts or the output of a command."""
    sent: bool
    """Words chosen by the model left this machine with the owner's approval; the receiver can repeat them."""
    followed: tuple[Followed, ...]
    """In the turn of the call, before it."""


NOTHING_SAID = Conversation(said=(), complete=True, private=False, sent=False, followed=())

# The content of other results is not needed, and may be long.
_ROWS = """
SELECT m.role, m.label, m.tool_calls, m.metadata_json, p.tool,
    CASE WHEN m.role IN ('user', 'assistant') OR p.tool = 'ask_user' OR instr(m.metadata_json, '"fetched":true') > 0
        OR (m.role = 'system' AND m.action_id IS NOT NULL) THEN coalesce(a.blob, m.content) END,
    CASE WHEN m.role = 'system' AND m.action_id IS NOT NULL AND json_valid(p.result_json) THEN p.result_json END,
    m.action_id
FROM messages m
LEFT JOIN artifacts a ON a.artifact_id = m.artifact_id
LEFT JOIN proposed_actions p ON p.action_id = m.action_id
WHERE m.thread_id = ? ORDER BY m.seq DESC LIMIT ?
"""

_SENT = """
SELECT 1 FROM proposed_actions WHERE thread_id = ? AND action_id <> ? AND approved_by IS NOT NULL
AND status IN ('APPROVED', 'EXECUTED', 'FAILED', 'UNKNOWN')
AND (lane = 'B' OR instr(decision_json, 'CONSTRUCTED_GET') > 0) LIMIT 1
"""

_FOLLOWED = """
SELECT json_extract(decision_json, '$.rule'), CASE WHEN json_valid(args_json) THEN json_extract(args_json, '$.url') END
FROM proposed_actions WHERE turn_id = ? AND status <> 'REJECTED' AND instr(decision_json, '"rule":"address.') > 0
AND rowid < coalesce((SELECT rowid FROM proposed_actions WHERE action_id = ?), 9223372036854775807) ORDER BY rowid
"""


class About(msgspec.Struct, frozen=True):
    """Stored metadata about the origin of a result."""

    fetched: bool = False
    private: bool | None = None
    """None in rows of earlier versions."""
    url: str = ""
    links: tuple[str, ...] = ()


class _Source(msgspec.Struct, frozen=True):
    url: str = ""
    links: tuple[str, ...] = ()


class _Result(msgspec.Struct, frozen=True):
    fetched: bool = False
    private: bool | None = None
    metadata: _Source = _Source()


class _Row(NamedTuple):
    role: str
    label: Label
    calls: str
    metadata: str
    tool: str | None
    content: str | bytes | None
    result: str | None
    action_id: str | None


_ABOUT = msgspec.json.Decoder(About)
_RESULT = msgspec.json.Decoder(_Result)
_CALLS = msgspec.json.Decoder(tuple[ProposedCall, ...])


def read_conversation(db: Tx, thread_id: str, turn_id: str, action_id: str) -> Conversation:
    """The conversation as it concerns one call, stored or not yet."""
    followed = tuple(
        Followed(rule=str(rule), url=str(url or "")) for rule, url in db.execute(_FOLLOWED, (turn_id, action_id))
    )
    if not thread_id:
        return msgspec.structs.replace(NOTHING_SAID, followed=followed)
    sent = db.execute(_SENT, (thread_id, action_id)).fetchone() is not None
    said: list[Said] = []
    private, count = False, 0
    room = {"model": MODEL_CHARACTERS, "other": HEARD_CHARACTERS}
    for values in db.execute(_ROWS, (thread_id, MOST_MESSAGES)):
        row, count = _Row(*values), count + 1
        about = _about(row)
        private = private or _is_private(row, about)
        if row.role == "assistant" and f'"{action_id}"' in row.metadata:
            said.clear()  # after the proposal
            room = {"model": MODEL_CHARACTERS, "other": HEARD_CHARACTERS}
        elif (each := _said(row, about)) is not None:
            side = "model" if each.writer == "model" else "other"
            room[side] -= len(each.text)
            if room[side] >= 0:
                said.append(each)
    complete = room["model"] >= 0 and count < MOST_MESSAGES
    return Conversation(said=tuple(reversed(said)), complete=complete, private=private, sent=sent, followed=followed)


def _about(row: _Row) -> About:
    """The recorded metadata of a message; an unreadable one quotes nothing and counts as private."""
    try:
        if row.role != "system" or row.action_id is None:
            return _ABOUT.decode(row.metadata)
        if row.result is None:
            return About()
        result = _RESULT.decode(row.result)
        return About(result.fetched, result.private, result.metadata.url, result.metadata.links)
    except msgspec.DecodeError:
        return About()


def _is_private(row: _Row, about: About) -> bool:
    if about.private is not None:
        return about.private
    result = row.role == "tool" or (row.role == "system" and row.action_id is not None)
    return result and not about.fetched


def _said(row: _Row, about: About) -> Said | None:
    text = row.content.decode("utf-8", "replace") if isinstance(row.content, bytes) else row.content or ""
    if row.role == "assistant":
        return Said(writer="model", text="\n".join((text, *_written(row.calls))))
    if row.label == OWNER and (row.role == "user" or row.tool == "ask_user"):
        return Said(writer="owner", text=text)
    if not about.fetched:
        return None
    if about.links:
        return Said(writer="search", text=text, links=about.links)
    return Said(writer="page", text=text, url=about.url)


def _written(calls: str) -> Iterator[str]:
    """Every string in the calls of an answer, without JSON escapes."""
    try:
        proposed = _CALLS.decode(calls)
    except msgspec.DecodeError:
        yield calls
        return
    for call in proposed:
        yield call.justification
        try:
            yield from _strings(msgspec.json.decode(call.arguments or "{}"))
        except msgspec.DecodeError:
            yield call.arguments


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            yield name
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _strings(inner)
