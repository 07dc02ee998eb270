"""Messages of a conversation: reading them page by page, and saying something."""

import asyncio
from typing import Annotated, TypeAlias

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter, QueryParameter

from coilclaw.features.chat.routes.lookups import found_thread, id_of, shown_text
from coilclaw.features.chat.store.message_page import (
    CallStanding,
    Numbered,
    actions_proposed,
    artifact_sizes,
    calls_standing,
    message_by_id,
    messages_page,
    summarised,
    with_outcomes,
)
from coilclaw.features.chat.store.turns import TurnState
from coilclaw.features.chat.turns import Turns
from coilclaw.packets.action import Label, Status, ToolCall
from coilclaw.packets.canonical import Json, NotCanonical, parse_object
from coilclaw.packets.chat import ProposedCall, Role
from coilclaw.packets.decision import Lane, Risk, Verdict
from coilclaw.packets.labels import is_untrusted
from coilclaw.packets.settings import SettingChange
from coilclaw.server.core import Core
from coilclaw.server.naming import in_short
from coilclaw.server.pages import Limit, read_cursor, write_cursor
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.store.held_back import Reproposed, reproposed_actions
from coilclaw.store.threads import ANNOUNCED, MessageRow
from coilclaw.store.undos import Undo, undos_of

CONTENT_CHARACTERS = 16_000
ARGUMENTS_CHARACTERS = 4_000
MARGIN = 4_096
"""What is read beyond a cut, so that no secret is cut in two and no longer known."""
WHOLE = 1 << 24

ThreadId = Annotated[str, PathParameter(max_length=100, description="The conversation.")]
Before = Annotated[
    str | None, QueryParameter(max_length=100, description="`before` of a page: the messages before it.")
]
MessageId = Annotated[str, PathParameter(max_length=100, description="The message.")]
After = Annotated[str | None, QueryParameter(max_length=100, description="`after` of a page: the messages after it.")]


class _Place(msgspec.Struct, frozen=True):
    """A place in a conversation."""

    number: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model proposed, and how it stands now."""

    call_id: str
    tool: str
    summary: str
    """What it would do, in the sentence of its card; the tool's name where there is none."""
    arguments: str
    """JSON, as the model wrote it; in a page at most 4,000 characters of it."""
    justification: str
    action_id: str | None
    status: Status | None
    verdict: Verdict | None
    """What the gate said: allow, ask or deny."""
    code: str
    """Why, in a word."""
    reasons: list[str]
    allows: list[SettingChange]
    """What the owner could change so that such a call is no longer denied."""
    lane: Lane | None
    risk: Risk | None
    receipt_id: str | None
    reproposed_id: str | None
    """The action that the owner made of it, when it was refused and proposed again by hand."""
    reproposed_status: Status | None
    undo_id: str | None
    """The undo that took back what it wrote, or waits to."""
    undo_status: Status | None


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact: where the whole of a long message is kept, or what was kept in the conversation."""

    artifact_id: str
    size: int | None
    """Null when it is no longer kept."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was said in a conversation."""

    message_id: str
    turn_id: str
    role: Role
    content: str
    """In a page at most 16,000 characters of it."""
    cut: bool
    """There is more: a single message comes whole, up to 64 KiB, and `artifact` holds what is longer."""
    label: Label
    """Where it came from: `owner`, `internal`, or `untrusted:` and the sources."""
    untrusted: bool
    """Somebody else's words may be in it."""
    created_at: str
    provider: str
    model: str
    calls: list[Call]
    """What an answer of the model proposes."""
    call_id: str
    """For role `tool`: the call that this is the result of."""
    action_id: str | None
    """The action that this is the result or the outcome of."""
    success: bool | None
    """For role `tool`: whether it did what was asked. A call that had to wait tells what came of it."""
    code: str
    receipt_id: str | None
    artifact: Pointer | None
    """What the message tells of; when it is `cut`, where the whole of it is kept."""
    attachments: list[str]
    """Workspace paths that were sent along."""
    turn_state: str
    """For role `system`: how its turn ended, when the message tells that."""
    summarised: int
    """For code `SUMMARY`: how many earlier messages it sums up for the model; they all stay above."""


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a conversation, in the order it was said."""

    items: list[Message]
    before: str | None
    """Hand it back as `before` for what was said earlier; null at the beginning."""
    after: str | None
    """Hand it back as `after` for what is said later; null while the conversation is empty."""


Words: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)]


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the owner says."""

    content: Words | None = None
    """The owner's words."""
    text: Words | None = None
    """Another name for `content`; give one of the two."""
    attachments: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]],
        msgspec.Meta(max_length=10, description="Paths of workspace files to send along, as an upload gave them."),
    ] = []

    def words(self) -> str:
        """What was said, under whichever name."""
        given = [each for each in (self.content, self.text) if each is not None]
        if len(given) != 1:
            raise Trouble(422, "UNFIT", "a message has one text: `content` or `text`.", remedy="Give `content`.")
        return given[0]


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is kept and will be answered, whatever becomes of the client."""

    thread_id: str
    turn_id: str
    message_id: str
    state: TurnState


class ThreadMessages(Controller):
    """What was said in a conversation."""

    path = "/v1/chat/threads/{thread_id:str}/messages"
    tags = ("chat",)

    @get("/", operation_id="listMessages", summary="Messages of a conversation", responses=problems(404))
    async def page(
        self,
        core: NamedDependency[Core],
        thread_id: ThreadId,
        limit: Limit = 50,
        before: Before = None,
        after: After = None,
    ) -> Messages:
        """The last messages of a conversation, or those before or after a page that is there already."""
        if before is not None and after is not None:
            raise Trouble(422, "UNFIT", "before and after exclude each other.", remedy="Give one of them.")
        found_thread(core, thread_id)
        until, since = read_cursor(before, _Place), read_cursor(after, _Place)
        rows = messages_page(
            core.db.reader,
            thread_id,
            limit,
            before=None if until is None else until.number,
            after=None if since is None else since.number,
        )
        return Messages(
            items=await _shown(core, [each.message for each in rows], whole=False),
            before=_earlier(core, thread_id, rows),
            after=write_cursor(_Place(rows[-1].number)) if rows else after,
        )

    @get("/{message_id:str}", operation_id="getMessage", summary="One message", responses=problems(404))
    async def one(self, core: NamedDependency[Core], thread_id: ThreadId, message_id: MessageId) -> Message:
        """One message, uncut."""
        row = message_by_id(core.db.reader, thread_id, message_id)
        if row is None:
            raise NotThere("such message")
        return (await _shown(core, [row], whole=True))[0]

    @post("/", operation_id="postMessage", summary="Say something", status_code=202, responses=problems(404, 409))
    async def say(
        self,
        core: NamedDependency[Core],
        turns: NamedDependency[Turns],
        thread_id: ThreadId,
        data: JSONBody[NewMessage],
        request_key: NamedDependency[str | None],
    ) -> Posted:
        """Say something. The answer is worked on in the background: it comes as events, and stands in the conversation
        when it is done. Messages of one conversation are answered one after the other."""
        turn = await turns.post(
            found_thread(core, thread_id),
            data.words(),
            id_of("msg", request_key),
            id_of("turn", request_key),
            attachments=data.attachments,
        )
        return Posted(thread_id=turn.thread_id, turn_id=turn.turn_id, message_id=turn.message_id, state=turn.state)


def _earlier(core: Core, thread_id: str, rows: list[Numbered]) -> str | None:
    if not rows or not messages_page(core.db.reader, thread_id, 1, before=rows[0].number):
        return None
    return write_cursor(_Place(rows[0].number))


async def _shown(core: Core, rows: list[MessageRow], *, whole: bool) -> list[Message]:
    turns = {each.turn_id for each in rows if each.tool_calls}
    standing = calls_standing(core.db.reader, turns)
    again = reproposed_actions(core.db.reader, turns)
    undos = undos_of(core.db.reader, turns)
    rows = with_outcomes(core.db.reader, rows)
    sizes = artifact_sizes(core.db.reader, filter(None, map(_artifact_of, rows)))
    # Taking secrets out of a long page takes its time; nobody else waits for it.
    return await asyncio.to_thread(
        lambda: [_message(core, each, standing, again, undos, sizes, whole=whole) for each in rows]
    )


def _cut(core: Core, text: str, most: int) -> str:
    return shown_text(core, text[: most + MARGIN])[:most] if len(text) > most else shown_text(core, text)


def _message(
    core: Core,
    row: MessageRow,
    standing: list[CallStanding],
    again: dict[str, Reproposed],
    undos: dict[str, Undo],
    sizes: dict[str, int],
    *,
    whole: bool,
) -> Message:
    about = row.metadata
    content, arguments = (WHOLE, WHOLE) if whole else (CONTENT_CHARACTERS, ARGUMENTS_CHARACTERS)
    success = about.get("success")
    artifact_id = _artifact_of(row)
    return Message(
        message_id=row.message_id,
        turn_id=row.turn_id,
        role=row.role,
        content=_cut(core, row.content, content),
        cut=len(row.content) > content or row.artifact_id is not None,
        label=row.label,
        untrusted=is_untrusted(row.label),
        created_at=row.created_at,
        provider=row.provider,
        model=row.model,
        calls=[
            _call(core, call, stands, again, undos, arguments)
            for call, stands in zip(row.tool_calls, actions_proposed(row, standing), strict=True)
        ],
        call_id=shown_text(core, row.tool_call_id),
        action_id=row.action_id,
        success=success if isinstance(success, bool) else None,
        code=_word(about.get("code")),
        receipt_id=_word(about.get("receipt_id")) or None,
        artifact=None if artifact_id is None else Pointer(artifact_id=artifact_id, size=sizes.get(artifact_id)),
        attachments=[shown_text(core, path) for path in _words(about.get("attachments"))],
        turn_state=_word(about.get("turn_state")),
        summarised=summarised(row),
    )


def _call(
    core: Core,
    call: ProposedCall,
    stands: CallStanding | None,
    reproposed: dict[str, Reproposed],
    undos: dict[str, Undo],
    most: int,
) -> Call:
    again = reproposed.get(stands.action_id) if stands else None
    undo = undos.get(stands.action_id) if stands else None
    return Call(
        call_id=shown_text(core, call.call_id),
        tool=core.named(call.tool),
        summary=_sentence(core, call),
        arguments=_cut(core, call.arguments, most),
        justification=shown_text(core, call.justification),
        action_id=stands.action_id if stands else None,
        status=stands.status if stands else None,
        verdict=stands.verdict if stands else None,
        code=stands.code if stands else "",
        reasons=[shown_text(core, reason) for reason in stands.reasons] if stands else [],
        allows=list(stands.allows) if stands else [],
        lane=stands.lane if stands else None,
        risk=stands.risk if stands else None,
        receipt_id=stands.receipt_id if stands else None,
        reproposed_id=again.action_id if again else None,
        reproposed_status=again.status if again else None,
        undo_id=undo.action_id if undo else None,
        undo_status=undo.status if undo else None,
    )


def _sentence(core: Core, call: ProposedCall) -> str:
    """What a call would do, in words; a model may have written anything at all."""
    try:
        proposed = ToolCall.of(call.tool, parse_object(call.arguments), identity=call.identity)
    except NotCanonical:
        return core.named(call.tool)
    return in_short(core, core.conveyor.intake.in_short(proposed))


def _artifact_of(row: MessageRow) -> str | None:
    """The artifact that holds the whole of a message, or that it tells of."""
    return row.artifact_id or _word(row.metadata.get(ANNOUNCED)) or None


def _word(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _words(value: Json) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
