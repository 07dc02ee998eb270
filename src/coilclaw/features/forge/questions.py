"""The merge question: one action on the owner's queue for each state of a pull request."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.store import change_pull
from coilclaw.features.runner.questions import tell_question
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action, ToolCall, ToolResult
from coilclaw.packets.forge import PullRequest
from coilclaw.packets.job import JobLimits
from coilclaw.store.actions import actions_of_turn, load_action
from coilclaw.store.jobs import JobRow
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime


class MergeQuestions:
    """Puts merge questions. Nobody else calls `pr_merge`."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor", forge: LocalForge) -> None:
        self._app = app
        self._conveyor = conveyor
        self._forge = forge

    async def put(self, pull: PullRequest, job: JobRow | None = None) -> Action:
        """The merge question of a pull request: the same one while it is open. The merge mode may answer it at once."""
        turn = turn_of_pull(pull, job)
        call = ToolCall.of("pr_merge", await asyncio.to_thread(self._forge.merge_args, pull))
        asked = [each for each in actions_of_turn(self._app.db.reader, turn.turn_id) if each.call.tool == call.tool]
        over = sum(each.status not in ("PENDING", "APPROVED") for each in asked)
        key = f"merge:{pull.number}:{pull.head_sha}:{over}"
        intake = self._conveyor.intake
        action = await intake.known(call, key) or await intake.proposed(call, turn, key)
        await self._app.db.write(lambda tx: self._asked(tx, pull, action.action_id))
        self._app.reached("pr_asked")
        if load_action(self._app.db.reader, action.action_id) is None:
            record = None if pull.session_id is None else self._told_to_session(pull.session_id, pull, action)
            await self._conveyor.carry(action, turn, stored=False, record=record)
        return load_action(self._app.db.reader, action.action_id) or action

    def _told_to_session(self, session_id: str, pull: PullRequest, action: Action) -> Callable[[Tx, ToolResult], None]:
        summary = f"Merge #{pull.number} into {pull.target} of {pull.repository}: {pull.title}"

        def record(tx: Tx, result: ToolResult) -> None:
            if result.code == "APPROVAL_NEEDED":
                tell_question(tx, self._app, session_id, action, "merge", summary)

        return record

    def _asked(self, tx: Tx, pull: PullRequest, action_id: str) -> None:
        change_pull(
            tx,
            self._app.clock,
            pull.number,
            lambda now: msgspec.structs.replace(now, action_id=action_id, dormant=False, reason=""),
        )


def turn_of_pull(pull: PullRequest, job: JobRow | None) -> Turn:
    """The turn that a merge question belongs to: its job's, or one of its own."""
    if job is None:
        return Turn(f"turn_pr{pull.number}", "", "gateway", pull.taint)
    limits = JobLimits(job_id=job.job_id, constraints=job.spec.constraints)
    return Turn(job.turn_id, job.thread_id, "gateway", pull.taint, job=limits)
