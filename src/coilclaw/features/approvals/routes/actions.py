"""Actions: every effect that was proposed, where it stands, and what the owner can still do about it."""

from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from coilclaw.features.approvals.prompt_execution import PromptExecution
from coilclaw.features.approvals.views import (
    ActionDetail,
    ActionSummary,
    Answered,
    answered,
    detail_of,
    find_action,
    refusal_now,
    refusals_of,
    result_on_record,
    summary_of,
)
from coilclaw.gate.conveyor import Outcome
from coilclaw.gate.records import Verdict
from coilclaw.packets.action import Action, Source, Status
from coilclaw.packets.decision import Lane
from coilclaw.packets.errors import Conflict, UsageError
from coilclaw.packets.proof import Assertion
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.filters import OfJob, OfSession, OfThread, OfTool, Refused, actions_at
from coilclaw.server.pages import Cursor, Limit, Page, page_to
from coilclaw.server.problems import Trouble, problems
from coilclaw.server.redacting import Redacting
from coilclaw.server.timestamps import Since, Until, moment_of
from coilclaw.store.action_pages import WantedActions


class Resolve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the owner knows of an end that is not on record."""

    verdict: Verdict
    """`executed`: it was done. `not-executed`: it was not. `retry`: do it again, the same bytes with the same key."""
    proof: Assertion | None = None
    """A passkey's assertion over this action and this verdict, for lane B and C."""


class ActionRoutes(Controller):
    """Every action there is."""

    path = "/v1/actions"
    tags = ("actions",)

    @get("/", operation_id="listActions", summary="Actions, newest first")
    async def list_all(
        self,
        core: NamedDependency[Core],
        redacting: NamedDependency[Redacting],
        status: Annotated[Status | None, QueryParameter(description="Only actions with this status.")] = None,
        refusal: Refused = None,
        tool: OfTool = None,
        lane: Annotated[Lane | None, QueryParameter(description="Only actions in this lane.")] = None,
        source: Annotated[Source | None, QueryParameter(description="Only actions from this source.")] = None,
        thread_id: OfThread = None,
        job_id: OfJob = None,
        session_id: OfSession = None,
        since: Since = None,
        until: Until = None,
        q: Annotated[
            str | None,
            QueryParameter(
                max_length=200, description="Text found in the tool, the arguments or the reason, or the action's id."
            ),
        ] = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[ActionSummary]:
        """Actions of every status, newest first. A page may be short, or empty, and still have a next one."""
        wanted = WantedActions(
            status=status,
            refusal=refusal,
            tool=tool,
            lane=lane,
            source=source,
            thread_id=thread_id,
            job_id=job_id,
            session_id=session_id,
            since=moment_of(since),
            until=moment_of(until),
            text=q,
        )
        actions, place = actions_at(core, wanted, cursor, limit)
        ends = refusals_of(core, actions)
        items = await redacting.aside(
            lambda: [summary_of(core, action, ends.get(action.action_id)) for action in actions]
        )
        return page_to(items, place)

    @get("/{action_id:str}", operation_id="getAction", summary="One action", responses=problems(404))
    async def show(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        redacting: NamedDependency[Redacting],
        action_id: FromPath[str],
    ) -> ActionDetail:
        """One action with its arguments, its decision, its card while it waits, its outcome and its whole story."""
        return await detail_of(core, redacting, find_action(core, action_id), caller.by)

    @post(
        "/{action_id:str}/resolve",
        operation_id="resolveAction",
        summary="Resolve an action with an unknown outcome",
        status_code=200,
        responses=problems(404, 409),
    )
    async def resolve(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        execution: NamedDependency[PromptExecution],
        redacting: NamedDependency[Redacting],
        action_id: FromPath[str],
        data: JSONBody[Resolve],
    ) -> Answered:
        """Say how an action whose end is UNKNOWN really ended, or have it done again. Look at the other end first.

        Saying the same again changes nothing. 403 PROOF_NEEDED when a passkey is needed and `proof` is invalid.
        """
        action = find_action(core, action_id)
        if action.status == "UNKNOWN":
            try:
                said = await core.approvals.resolve(action, data.verdict, by=caller.by, proof=data.proof)
            except Conflict:
                pass  # somebody was faster; what they said is looked at below
            else:
                if not isinstance(said, Outcome):
                    execution.carry_out(said)
                return await answered(core, redacting, find_action(core, action_id))
        action = find_action(core, action_id)
        if not _is_resolved(core, action, data.verdict):
            raise Trouble(
                409,
                "NOT_UNKNOWN",
                f"{action_id} is {action.status}; only an UNKNOWN action can be resolved.",
                remedy="See its story.",
            )
        return await answered(core, redacting, action)

    @post(
        "/{action_id:str}/repropose",
        operation_id="reproposeAction",
        summary="Propose a refused action again",
        status_code=201,
        responses=problems(404, 409),
    )
    async def repropose(
        self, core: NamedDependency[Core], request_key: NamedDependency[str | None], action_id: FromPath[str]
    ) -> ActionSummary:
        """Propose the stored bytes of a refused or failed action again, by the owner's own hand. The new action says
        where they came from, passes the gate like any other, and usually waits for a yes."""
        action = find_action(core, action_id)
        try:
            key = None if request_key is None else f"key_{request_key[:40]}"
            made = await core.approvals.repropose(action, key=key)
            return summary_of(core, made, refusal_now(core, made))
        except UsageError as error:
            raise Trouble(409, "NOT_REFUSED", error.message, remedy=error.remedy) from error


_RESOLVED: dict[Verdict, str] = {"executed": "RESOLVED_EXECUTED", "not-executed": "RESOLVED_NOT_EXECUTED"}


def _is_resolved(core: Core, action: Action, verdict: Verdict) -> bool:
    """Whether this was said before, and holds."""
    if verdict == "retry":
        return action.status == "APPROVED" and action.uncertain
    result = result_on_record(core, action)
    return result is not None and result.code == _RESOLVED[verdict]
