"""The gateway's way to talk: one request, one answer, for scripts that want no events."""

import asyncio
from typing import Annotated

import msgspec
from litestar import Controller, Response, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from coilclaw.features.chat.routes.lookups import found_thread, id_of, shown_text
from coilclaw.features.chat.routes.memory import Hits, Most, Query, found
from coilclaw.features.chat.store.turns import OVER, TurnRow, TurnState, answer_of
from coilclaw.features.chat.turns import Turns
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.token_recheck import must_stay
from coilclaw.server.problems import Trouble, problems

STATUSES = {"PROVIDER_FAILED": 502, "FAILED_MODEL_OUTPUT": 502, "BUDGET_SPENT": 429, "STORAGE_FAILED": 503}
"""What a turn that failed is over HTTP; any other is a conflict with how things stand."""


class Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the owner says."""

    message: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000, description="The owner's words.")]
    conversation_id: Annotated[
        str | None, msgspec.Meta(description="Continue this conversation; leave it out for a new one.")
    ] = None
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=60, description="How long to wait for the answer.")] = 30.0


class ChatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, or where it will be."""

    conversation_id: str
    turn_id: str
    state: TurnState
    ending: str
    """`pending` when calls wait for the owner; the same turn goes on once they are answered."""
    text: str | None
    """Null while it is being worked on: see GET /v1/chat/turns/{turn_id}."""


class GatewayChat(Controller):
    """Talking and remembering, the short way."""

    tags = ("gateway",)

    @post(
        "/chat",
        operation_id="chat",
        summary="Send a message and wait for the answer",
        status_code=200,
        responses={
            202: ResponseSpec(data_container=ChatAnswer, generate_examples=False, description="Not answered yet."),
            **problems(404, 409, 502),
        },
    )
    async def chat(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        turns: NamedDependency[Turns],
        data: JSONBody[Said],
        request_key: NamedDependency[str | None],
    ) -> Response[ChatAnswer]:
        """Send a message and wait for the answer: 200 with the answer, 202 when it takes longer; work continues."""
        thread_id = None if data.conversation_id is None else found_thread(core, data.conversation_id)
        turn = await turns.post(
            thread_id or id_of("conv", request_key) or None,
            data.message,
            id_of("msg", request_key),
            id_of("turn", request_key),
        )
        turn = await turns.ended(turn.turn_id, data.wait_seconds)
        try:
            return await _answered(core, turn)
        finally:
            must_stay(
                core, caller
            )  # a device that was revoked meanwhile hears neither the answer nor why there is none

    @get("/memory/search", operation_id="gatewaySearchMemory", summary="Search messages", sync_to_thread=False)
    def search(self, core: NamedDependency[Core], q: Query, limit: Most = 10) -> Hits:
        """Messages of all conversations that hold the words, best first."""
        return found(core, q, limit)


async def _answered(core: Core, turn: TurnRow) -> Response[ChatAnswer]:
    if turn.state in OVER and turn.state != "ANSWERED":
        raise Trouble(
            STATUSES.get(turn.code, 409),
            turn.code or turn.state,
            turn.reason or f"the answer is {turn.state}.",
            remedy=f"The message is stored in {turn.thread_id}; send it again to retry.",
        )
    text = answer_of(core.db.reader, turn.thread_id, turn.turn_id) if turn.state == "ANSWERED" else None
    answer = ChatAnswer(
        conversation_id=turn.thread_id,
        turn_id=turn.turn_id,
        state=turn.state,
        ending=turn.ending,
        text=None if text is None else await asyncio.to_thread(shown_text, core, text),
    )
    return Response(answer, status_code=200 if turn.state in OVER else 202)
