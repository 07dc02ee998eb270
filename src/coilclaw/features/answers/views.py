"""Standing answers as they are shown, without secrets."""

import re
from collections.abc import Callable

import msgspec

from coilclaw.packets.card import Until, What
from coilclaw.store.projects import KIND
from coilclaw.store.standing_answers import StandingAnswer


class AnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """A yes that holds from now on."""

    answer_id: str
    what: What
    """Exactly this command, its program with other arguments, or writes below a folder."""
    scope: str
    """What it covers, in words."""
    until: Until
    root: str
    """The folder its calls work in."""
    thread_id: str | None
    """The conversation it holds in; null for all."""
    action_id: str
    """The action whose card was answered."""
    holds: bool
    """It was neither revoked nor has it expired."""
    expires_at: str | None
    created_at: str
    created_by: str
    revoked_at: str | None
    uses: int
    """How many calls ran by it."""
    last_used_at: str | None


def folder_of(answer: AnswerView) -> str:
    """The folder it holds in, without the id of the project that it is."""
    return re.sub(rf" \({KIND}_\w+\)$", "", answer.root)


def view_of(answer: StandingAnswer, now: str, said: Callable[[str], str]) -> AnswerView:
    """An answer as it is shown."""
    until: Until = "conversation" if answer.thread_id else "today" if answer.expires_at else "revoked"
    return AnswerView(
        answer_id=answer.answer_id,
        what=answer.what,
        scope=said(answer.scope),
        until=until,
        root=answer.root,
        thread_id=answer.thread_id,
        action_id=answer.action_id,
        holds=answer.is_open(now),
        expires_at=answer.expires_at,
        created_at=answer.created_at,
        created_by=answer.created_by,
        revoked_at=answer.revoked_at,
        uses=answer.uses,
        last_used_at=answer.last_used_at,
    )
