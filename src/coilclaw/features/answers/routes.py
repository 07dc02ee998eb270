"""Standing answers over HTTP: listed and revoked. None can be made here."""

from typing import Annotated

import msgspec
from litestar import Controller, delete, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from coilclaw.features.answers.views import AnswerView, view_of
from coilclaw.ledger.standing import revoke_answer
from coilclaw.packets.ids import stamp
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import NotThere, problems
from coilclaw.store.standing_answers import list_answers, load_answer


class AnswerList(msgspec.Struct, frozen=True, kw_only=True):
    """Standing answers, the newest first."""

    items: list[AnswerView]


class AnswerRoutes(Controller):
    """What the owner said yes to from now on."""

    path = "/v1/answers"
    tags = ("approvals",)

    @get("/", operation_id="listAnswers", summary="Standing answers", sync_to_thread=False)
    def list_all(
        self,
        core: NamedDependency[Core],
        ended: Annotated[bool, QueryParameter(description="Also those that were revoked or expired.")] = False,
    ) -> AnswerList:
        """The yeses that hold from now on, the newest first, with how often each was used."""
        now = stamp(core.clock())
        found = list_answers(core.db.reader, core.clock, ended=ended)
        return AnswerList(items=[view_of(answer, now, core.said) for answer in found])

    @delete(
        "/{answer_id:str}",
        operation_id="revokeAnswer",
        summary="Revoke a standing answer",
        status_code=200,
        responses=problems(404),
    )
    async def revoke(
        self, core: NamedDependency[Core], caller: NamedDependency[Caller], answer_id: FromPath[str]
    ) -> AnswerView:
        """From now on such calls ask again. Revoking one that has ended changes nothing."""
        await core.db.write(lambda tx: revoke_answer(tx, core.clock, answer_id, caller.by))
        answer = load_answer(core.db.reader, answer_id)
        if answer is None:
            raise NotThere("such standing answer")
        return view_of(answer, stamp(core.clock()), core.said)
