"""Both sides brought together, now and then: pull requests shown on GitHub, and what the owner did with them there."""

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.github.accepting import ACCEPT
from coilclaw.features.forge.github.api import GitHubBusy, GitHubRefused
from coilclaw.features.forge.github.main_branch import GitHubHeld
from coilclaw.features.forge.github.publishing import publish_key
from coilclaw.features.forge.github.pulls_there import GitHubPulls, NotPublished, not_ours
from coilclaw.features.forge.github.store import (
    GitHubPull,
    GitHubState,
    closed_here_alone,
    forget_there,
    github_pull,
    github_state,
    set_github_state,
    woken_at,
)
from coilclaw.features.forge.pulls import WITHDRAWN, Pulls
from coilclaw.features.forge.questions import turn_of_pull
from coilclaw.features.forge.store import pulls_before
from coilclaw.gate.proof import FORGE
from coilclaw.packets.action import ToolCall
from coilclaw.packets.canonical import JsonObject, as_object, parse_object
from coilclaw.packets.errors import CoilclawError, ProofNeeded, UsageError
from coilclaw.packets.forge import PullRequest
from coilclaw.packets.ids import stamp
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.store.actions import list_actions
from coilclaw.store.jobs import load_job, wake_job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.gate.turn import Turn
    from coilclaw.runtime.runtime import Runtime

POLL = timedelta(seconds=60)
MOST_OPEN = 200


class GitHubMirror:
    """One look after the other; keep it, so that limits and tokens are kept."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor") -> None:
        self._app = app
        self._conveyor = conveyor
        self._pulls = Pulls(app, conveyor)
        self.there = GitHubPulls(app, self._pulls.forge)
        self._next: datetime | None = None
        self._woken = woken_at(app.db.reader)

    async def upkeep(self) -> int:
        """Look if it is time, if a webhook woke us, or if something here is not shown there yet."""
        now, woken = self._app.clock(), woken_at(self._app.db.reader)
        early = self._next is not None and now < self._next
        asked = woken != self._woken and not self.there.api.is_paused
        if early and not asked and (github_state(self._app.db.reader).fault or not self._unshown()):
            return 0
        self._next, self._woken = now + POLL, woken
        return int(await self.sync())

    def _unshown(self) -> bool:
        return any(self.there.is_new(pull) and not self.there.is_withheld(pull) for pull in self._open())

    def _open(self) -> list[PullRequest]:
        found = pulls_before(self._app.db.reader, ("OPEN",), None, MOST_OPEN)
        return [pull for pull in found if not pull.repository and pull.checks]

    async def sync(self) -> bool:
        """Bring both sides together; whether everything is in order. What is not stands in the state, with a remedy."""
        fault, held = "", ""
        try:
            for step in self._steps():
                await step()
        except GitHubHeld as error:
            await self._ask_about_public()
            fault, held = f"{error.message} {error.remedy}", error.commit
        except GitHubBusy as error:
            self._next = self._app.clock() + timedelta(seconds=error.seconds)
            fault = error.message
        except CoilclawError as error:
            fault = f"{error.message} {error.remedy}".strip()
        await self._app.db.write(lambda tx: set_github_state(tx, self._told(github_state(tx), fault, held)))
        await self._ask_to_accept(held)
        return not fault

    def _steps(self) -> "tuple[Callable[[], Awaitable[object]], ...]":
        steps = (
            self._may_go, self._level, self._close_all, self._show_all, self._look_at_all, self.there.main.push_ledger,
        )  # fmt: skip
        if self._app.config.forge.github.execute != "actions":
            return steps
        return (self._heed_stop, *steps, self._take_in_runs)

    async def _heed_stop(self) -> None:
        from coilclaw.features.forge.actions.kill_switch import agree_on_stop

        await agree_on_stop(self._app, self.there.api)

    async def _take_in_runs(self) -> None:
        from coilclaw.features.forge.actions.taken_runs import take_in_runs

        await take_in_runs(self._app, self._pulls.forge)

    def _told(self, state: GitHubState, fault: str, held: str) -> GitHubState:
        now = stamp(self._app.clock())
        synced = state.synced_at if fault else now
        words, left = self._app.redact(fault), self.there.api.left
        return msgspec.structs.replace(state, synced_at=synced, fault=words, held=held, left=left)

    async def _may_go(self) -> None:
        if self._app.estop.engaged():
            raise GitHubHeld("ESTOP is engaged.", remedy="Clear it first: nothing is sent until then.")
        repository = self._app.config.forge.github.repository.lower()
        known = github_state(self._app.db.reader).repository
        if not known:
            await self._app.db.write(
                lambda tx: set_github_state(tx, msgspec.structs.replace(github_state(tx), repository=repository))
            )
        elif known != repository:
            await self._app.db.write(lambda tx: forget_there(tx, repository))

    async def _level(self) -> None:
        try:
            merged = await self.there.main.level()
        except GitHubHeld:
            await self._show_all()  # what waits here is shown all the same
            raise
        for pull in merged:
            await self._withdraw(pull, "merged")

    async def _close_all(self) -> None:
        for row in closed_here_alone(self._app.db.reader, MOST_OPEN):
            await self.there.close(row)

    async def _show_all(self) -> None:
        for pull in self._open():
            try:
                await self.there.show(pull)
            except NotPublished:
                await self._ask_to_publish(pull)

    async def _ask_to_accept(self, held: str) -> None:
        """Ask once about a commit that nobody we trust put on main; a question about any other is out of date."""
        for action in list_actions(self._app.db.reader, "PENDING", MOST_OPEN):
            if action.call.tool == ACCEPT and parse_object(action.call.args_bytes).get("commit") != held:
                reason = "Main on GitHub has moved on."
                await self._app.approvals(self._conveyor).withdraw(action, reason=reason)
        if held:
            await self._ask(ToolCall.of(ACCEPT, {"commit": held}), f"accept:{held}", None)

    # Questions about a public repository

    async def _ask_to_publish(self, pull: PullRequest) -> None:
        job = None if pull.job_id is None else load_job(self._app.db.reader, pull.job_id)
        call = ToolCall.of("pr_publish", {"number": pull.number, "head": pull.head_sha})
        await self._ask(call, publish_key(pull.number, pull.head_sha), turn_of_pull(pull, job))

    async def _ask_about_public(self) -> None:
        """Ask once for each time that the repository turned public."""
        state, repository = github_state(self._app.db.reader), self._app.config.forge.github.repository
        if state.public_since and state.public_allowed != state.public_since:
            call = ToolCall.of("bot_public", {"repository": repository, "since": state.public_since})
            await self._ask(call, f"public:{repository}:{state.public_since}", None)

    async def _ask(self, call: ToolCall, key: str, turn: "Turn | None") -> None:
        calls = OwnerCalls(self._app, self._conveyor)
        if await calls.known(call, key) is None:
            await calls.make(call, by="", key=key, at_once=False, turn=turn)

    # Looking

    async def _look_at_all(self) -> None:
        faults: list[CoilclawError] = []
        for pull in self._open():
            row = github_pull(self._app.db.reader, pull.number)
            try:
                if row is not None:
                    await self._look(pull, row)
            except (GitHubRefused, UsageError) as error:  # the others are looked at all the same
                faults.append(error)
        if faults:
            raise faults[0]

    async def _look(self, pull: PullRequest, row: GitHubPull) -> None:
        answer = await self.there.api.read(f"/pulls/{row.remote}", etag=row.etag)
        if answer.status == 404:
            raise GitHubRefused(404, f"#{row.remote} is gone", remedy=f"Close it here: coilclaw pr close {pull.number}")
        if answer.status == 200:
            if answer.fields.get("state") == "closed" and answer.fields.get("merged") is not True:
                await self._pulls.close(pull.number, "You closed it on GitHub.")
                return
            if answer.fields.get("merged") is True:
                await self._make_up(pull, str(answer.fields.get("merge_commit_sha")))
                return
            if (base := as_object(answer.fields.get("base")).get("ref")) != "main":
                remedy = "Make main its base again, and see its difference before you review it."
                raise GitHubRefused(409, f"#{row.remote} would be merged into {str(base)[:100]} there", remedy=remedy)
            if as_object(answer.fields.get("head")).get("sha") not in (row.head, pull.head_sha):
                raise not_ours(f"#{row.remote}", pull.number)
            await self.there.keep(msgspec.structs.replace(row, etag=answer.etag))
        await self._heed_review(pull, msgspec.structs.replace(row, etag=answer.etag or row.etag))

    async def _make_up(self, pull: PullRequest, commit: str) -> None:
        """Main was taken in, and a kill came before that was written down; or the owner merged it in another way."""
        merged = await asyncio.to_thread(self.there.main.already_merged, pull.number, commit)
        if merged is None and await asyncio.to_thread(self.there.main.holds, commit):
            await self._pulls.close(pull.number, f"You merged it on GitHub in another way, as {commit[:12]}.")
        elif merged is not None:
            await self._withdraw(merged, "merged")

    async def _heed_review(self, pull: PullRequest, row: GitHubPull) -> None:
        """The owner's newest review, if it saw exactly this head; anybody else's is nothing."""
        owner = self._app.config.forge.github.owner_id
        own = [each for each in await self.there.api.read_all(f"/pulls/{row.remote}/reviews") if _by(each) == owner]
        said = [each for each in own if each.get("state") in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")]
        if not said or said[-1].get("commit_id") != pull.head_sha or str(said[-1].get("id")) == row.review:
            return
        newest = said[-1]
        if newest.get("state") == "APPROVED" and not await self._approve(pull, owner):
            return
        if newest.get("state") == "CHANGES_REQUESTED" and (words := str(newest.get("body") or "").strip()):
            await self._pulls.want(pull.number, words)
        await self.there.keep(msgspec.structs.replace(row, review=str(newest.get("id"))))

    async def _approve(self, pull: PullRequest, owner: int) -> bool:
        """Answer the merge question with the owner's review; what governs the agent is merged by the owner alone."""
        question = self._pulls.question(await self._pulls.ask(pull.number))
        if question is None or parse_object(question.call.args_bytes).get("head") != pull.head_sha:
            return False  # it has another head since the reviews were read
        if question.status != "PENDING":
            return True
        approvals = self._app.approvals(self._conveyor)
        try:
            await approvals.approve(question, by=f"{FORGE}{owner}", digest=question.digest)
        except ProofNeeded:
            self._app.warn(f"#{pull.number} changes what controls the agent: merge it on GitHub yourself.")
        return True

    async def _withdraw(self, pull: PullRequest, did: str) -> None:
        question = self._pulls.question(pull)
        if question is not None and question.status == "PENDING":
            reason = WITHDRAWN.format(did=f"{did} on GitHub", number=pull.number)
            await self._app.approvals(self._conveyor).withdraw(question, reason=reason)
        if pull.job_id is not None:
            job_id = pull.job_id
            await self._app.db.write(lambda tx: wake_job(tx, self._app.clock, job_id))


def _by(told: JsonObject) -> int | None:
    number = as_object(told.get("user")).get("id")
    return number if isinstance(number, int) else None
