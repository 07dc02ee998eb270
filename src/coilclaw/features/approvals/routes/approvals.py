"""Approvals: what waits for the owner, and the owner's answers."""

from contextlib import suppress
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from litestar import Controller, Request, Response, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody, QueryParameter

from coilclaw.features.approvals.prompt_execution import PromptExecution
from coilclaw.features.approvals.views import Answered, ApprovalCard, answered, approval_of, approvals_of, find_action
from coilclaw.gate.approvals import NotOffered
from coilclaw.gate.conveyor import Outcome
from coilclaw.packets.action import Action
from coilclaw.packets.card import Card, FromNowOn
from coilclaw.packets.decision import Lane
from coilclaw.packets.errors import Conflict
from coilclaw.packets.proof import Assertion
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.filters import OfJob, OfThread, actions_at
from coilclaw.server.pages import Cursor, Limit, Page, page_to, read_cursor
from coilclaw.server.problems import MEDIA_TYPE, Problem, Trouble, problem_of, problems
from coilclaw.server.redacting import Redacting
from coilclaw.store.action_pages import (
    Standing,
    WaitingOf,
    WaitingPlace,
    WantedActions,
    count_waiting,
    page_of_waiting,
)

Order: TypeAlias = Literal["newest", "expiring"]
InOrder: TypeAlias = Annotated[
    Order, QueryParameter(description="`expiring`: pending approvals only, soonest expiry first.")
]
OfLane: TypeAlias = Annotated[Lane | None, QueryParameter(description="Only approvals in this lane.")]


class Approve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A yes to exactly what was shown."""

    digest: Annotated[str, msgspec.Meta(max_length=128, description="`digest` of the card that was shown.")]
    seen: Annotated[str, msgspec.Meta(max_length=128, description="`seen` of the card that was shown.")]
    proof: Assertion | None = None
    """A passkey's assertion over this action, where the card says that one is needed."""
    from_now_on: FromNowOn | None = None
    """Makes a standing answer of the yes: one of the card's `offers`, and until when."""


class Reject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A no."""

    reason: Annotated[str, msgspec.Meta(max_length=2000, description="The reason; the agent sees it.")] = ""


NO_REASON = Reject()


class WaitingLanes(msgspec.Struct, frozen=True, kw_only=True):
    """How many wait, by lane."""

    A: int
    """They stay on this machine."""
    B: int
    """They leave it."""
    C: int
    """They govern the agent."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """How many actions wait for the owner's word."""

    total: int
    lanes: WaitingLanes


class ChangedProblem(Problem, frozen=True, kw_only=True, omit_defaults=True):
    """A conflict; where the card has changed since it was shown, what the new one says."""

    digest: str = ""
    seen: str = ""


class Changed(Trouble):
    """The card that was shown is not the card there is now."""

    def __init__(self, digest: str, seen: str) -> None:
        super().__init__(
            409,
            "CHANGED",
            "the card has changed since it was shown; nothing was done.",
            remedy="Review the card again, then answer.",
        )
        self.digest = digest
        self.seen = seen


def answer_changed(request: "Request[Any, Any, Any]", error: Changed) -> Response[ChangedProblem]:
    """The problem, with what the new card says."""
    told = ChangedProblem(**msgspec.structs.asdict(problem_of(error)), digest=error.digest, seen=error.seen)
    return Response(told, status_code=told.status, media_type=MEDIA_TYPE)


_CHANGED = {
    409: ResponseSpec(
        data_container=ChangedProblem,
        generate_examples=False,
        media_type=MEDIA_TYPE,
        description="It was already answered, has ended, or has changed since it was shown.",
    )
}


class ApprovalRoutes(Controller):
    """The queue of what needs the owner's word."""

    path = "/v1/approvals"
    tags = ("approvals",)

    @get("/", operation_id="listApprovals", summary="Approvals, pending and answered")
    async def list_all(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        redacting: NamedDependency[Redacting],
        status: Annotated[Standing, QueryParameter(description="Only approvals with this status.")] = "pending",
        order: InOrder = "newest",
        lane: OfLane = None,
        thread_id: OfThread = None,
        job_id: OfJob = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[ApprovalCard]:
        """Cards of actions that need the owner's word, newest first: those that wait, or those of another standing.

        A page may be short, or empty, and still have a next one. A cursor belongs to the order it was given for.
        """
        if order == "newest":
            wanted = WantedActions(standing=status, lane=lane, thread_id=thread_id, job_id=job_id)
            actions, place = actions_at(core, wanted, cursor, limit)
        elif status == "pending":
            of = WaitingOf(lane=lane, thread_id=thread_id, job_id=job_id)
            actions, place = page_of_waiting(core.db.reader, of, read_cursor(cursor, WaitingPlace), limit)
        else:
            raise Trouble(
                422, "UNFIT", "`order=expiring` applies to pending approvals only.", remedy="Ask for `status=pending`."
            )
        return page_to(await approvals_of(core, redacting, actions, caller.by), place)

    @get("/waiting", operation_id="countWaiting", summary="Number of pending approvals", sync_to_thread=False)
    def waiting(
        self,
        core: NamedDependency[Core],
        thread_id: OfThread = None,
        job_id: OfJob = None,
    ) -> Waiting:
        """How many actions wait for the owner's word at this moment: all of them, or those of a job or conversation."""
        lanes = count_waiting(core.db.reader, WaitingOf(thread_id=thread_id, job_id=job_id))
        return Waiting(total=sum(lanes.values()), lanes=WaitingLanes(**lanes))

    @get("/{action_id:str}", operation_id="getApproval", summary="One card", responses=problems(404))
    async def show(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        redacting: NamedDependency[Redacting],
        action_id: FromPath[str],
    ) -> ApprovalCard:
        """The card of an action as things stand now."""
        return await approval_of(core, redacting, find_action(core, action_id), caller.by)

    @post(
        "/{action_id:str}/approve",
        operation_id="approveAction",
        summary="Say yes",
        status_code=200,
        responses={**problems(404), **_CHANGED},
        exception_handlers={Changed: answer_changed},
    )
    async def approve(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        execution: NamedDependency[PromptExecution],
        redacting: NamedDependency[Redacting],
        action_id: FromPath[str],
        data: JSONBody[Approve],
    ) -> Answered:
        """Approve exactly what was shown, once. The answer comes as soon as the yes is durable; the action is then
        carried out, and its end is told by events, by its thread and by `getAction`.

        With `from_now_on` the yes also covers later calls: 422 NOT_OFFERED when the card does not offer that.
        Saying yes again changes nothing. 403 PROOF_NEEDED when the card asks for a passkey and `proof` is invalid.
        """
        action = find_action(core, action_id)
        if action.status != "PENDING":
            return await _said_yes(core, redacting, action, data.digest)
        card = await core.conveyor.intake.shown(action)
        if (data.digest, data.seen) != (card.digest, card.seen):
            raise Changed(card.digest, card.seen)
        try:
            said = await core.approvals.approve(
                action,
                by=caller.by,
                digest=data.digest,
                seen=data.seen,
                proof=data.proof,
                from_now_on=data.from_now_on,
            )
        except NotOffered as error:
            raise Trouble(422, "NOT_OFFERED", error.message, remedy="Choose one of the card's offers.") from error
        except Conflict:
            return await _said_yes(core, redacting, find_action(core, action_id), data.digest)
        if isinstance(said, Outcome):
            raise _over(said, card)
        execution.carry_out(said)
        return await answered(core, redacting, said)

    @post(
        "/{action_id:str}/reject",
        operation_id="rejectAction",
        summary="Say no",
        status_code=200,
        responses=problems(404, 409),
    )
    async def reject(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        redacting: NamedDependency[Redacting],
        action_id: FromPath[str],
        data: JSONBody[Reject] = NO_REASON,
    ) -> Answered:
        """Refuse an action, with a reason that the agent is told. Saying no again changes nothing."""
        action = find_action(core, action_id)
        if action.status != "PENDING":
            return await _said_no(core, redacting, action)
        with suppress(Conflict):  # somebody was faster; what they said is looked at below
            await core.approvals.reject(action, reason=data.reason, by=caller.by)
        return await _said_no(core, redacting, find_action(core, action_id))


async def _said_yes(core: Core, redacting: Redacting, action: Action, digest: str) -> Answered:
    """Somebody answered before; all is well if they said yes to the same."""
    if action.approved_by is None or action.status == "PENDING":
        raise _answered_otherwise(action)
    if digest != action.digest:
        raise Changed(action.digest, "")
    return await answered(core, redacting, action)


async def _said_no(core: Core, redacting: Redacting, action: Action) -> Answered:
    if action.approved_by is not None or action.status != "REJECTED":
        raise _answered_otherwise(action)
    return await answered(core, redacting, action)


def _answered_otherwise(action: Action) -> Trouble:
    if action.status == "PENDING":
        return Trouble(
            409, "IN_OTHER_HANDS", f"{action.action_id} is being answered elsewhere.", remedy="Answer it there."
        )
    why = f" ({action.rejection_reason})" if action.rejection_reason else ""
    return Trouble(
        409,
        "ANSWERED",
        f"{action.action_id} is {action.status}{why}; it is no longer waiting.",
        remedy="Nothing was done.",
    )


def _over(outcome: Outcome, card: Card) -> Trouble:
    """A yes that came too late: the action ended instead, and this is why."""
    code = outcome.result.code
    return Trouble(
        409,
        "CHANGED" if code == "DIGEST_CHANGED" else code,
        f"{card.action_id} could no longer be approved and has ended: {outcome.result.output}",
        remedy="Propose it again, then approve it.",
    )
