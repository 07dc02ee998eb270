"""Turns: how an answer is coming along, and stopping it."""

from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import PathParameter

from coilclaw.features.chat.routes.lookups import found_turn, shown_text
from coilclaw.features.chat.store.turns import TurnRow, TurnState, answer_of
from coilclaw.features.chat.turns import Turns
from coilclaw.server.core import Core
from coilclaw.server.problems import problems

TurnId = Annotated[str, PathParameter(max_length=100, description="The turn.")]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the owner and its answer."""

    turn_id: str
    thread_id: str
    message_id: str
    """The owner's message."""
    state: TurnState
    """QUEUED and RUNNING go on, WAITING does once its calls are answered; the others are final."""
    ending: str
    """Once answered: `answered`, `pending` (calls wait for the owner), `max_rounds`, `budget` (it had to end) or
    `stuck` (the same call kept giving the same result)."""
    code: str
    """Why it failed, in a word."""
    reason: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    partial: str
    """What the model has said so far, while it runs. A text event replaces everything from its offset on."""
    answer: str | None
    """The last word, once it is answered."""


class TurnRoutes(Controller):
    """Answers on their way."""

    path = "/v1/chat/turns"
    tags = ("chat",)

    @get(
        "/{turn_id:str}",
        operation_id="getTurn",
        summary="State of a turn",
        responses=problems(404),
        sync_to_thread=False,
    )
    def one(self, core: NamedDependency[Core], turns: NamedDependency[Turns], turn_id: TurnId) -> Turn:
        """How a turn stands, with what was said so far."""
        return _shown(core, turns, found_turn(core, turn_id))

    @post(
        "/{turn_id:str}/stop",
        operation_id="stopTurn",
        summary="Stop a turn",
        status_code=200,
        responses=problems(404, 409),
    )
    async def stop(self, core: NamedDependency[Core], turns: NamedDependency[Turns], turn_id: TurnId) -> Turn:
        """Stop a turn: one that waits never begins, one that runs is cut off. What it did stays done and has its
        receipt. Stopping one that is over changes nothing."""
        found_turn(core, turn_id)
        return _shown(core, turns, await turns.stop(turn_id))


def _shown(core: Core, turns: Turns, turn: TurnRow) -> Turn:
    answer = answer_of(core.db.reader, turn.thread_id, turn.turn_id) if turn.state == "ANSWERED" else None
    return Turn(
        turn_id=turn.turn_id,
        thread_id=turn.thread_id,
        message_id=turn.message_id,
        state=turn.state,
        ending=turn.ending,
        code=turn.code,
        reason=shown_text(core, turn.reason),
        created_at=turn.created_at,
        started_at=turn.started_at,
        ended_at=turn.ended_at,
        partial=turns.partial(turn.turn_id) if turn.state == "RUNNING" else "",
        answer=None if answer is None else shown_text(core, answer),
    )
