"""What the owner does with pull requests besides merging them, at the terminal and over HTTP."""

import asyncio
import shlex
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.deployment import put_in_place, undoing
from coilclaw.features.forge.forge import EXPORT, LocalForge
from coilclaw.features.forge.inert import TITLE_CHARACTERS, shortened
from coilclaw.features.forge.job_work import JobWork
from coilclaw.features.forge.questions import MergeQuestions
from coilclaw.features.forge.session_pulls import SessionForge, forge_of
from coilclaw.features.forge.store import PullChange, change_pull, plain_pulls, pull_on
from coilclaw.features.runner.questions import tell_answer
from coilclaw.packets.action import Action
from coilclaw.packets.errors import CoilclawError, Conflict, ToolError, UsageError
from coilclaw.packets.forge import PullRequest
from coilclaw.packets.ids import from_stamp
from coilclaw.packets.job import ENDED
from coilclaw.store.actions import load_action, result_of
from coilclaw.store.jobs import JobRow, load_job, wake_job
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

LONGEST_WISH = 10_000
ASK_AFTER = timedelta(minutes=10)
"""When one that was opened without its question is asked about: whoever opened it was killed, most likely."""
WITHDRAWN = "The owner {did} pull request #{number}."


class Pulls:
    """The owner's side of pull requests. The merge itself is answered where every question is: see Approvals."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor") -> None:
        self._app = app
        self._conveyor = conveyor
        self._work = JobWork(app, conveyor)

    @property
    def forge(self) -> LocalForge:
        """The pull requests themselves."""
        return self._work.forge

    def forge_of(self, pull: PullRequest) -> LocalForge:
        """What this one is looked at by."""
        return self.forge if pull.session_id is None else forge_of(self._app, pull)

    def question(self, pull: PullRequest) -> Action | None:
        """Its merge question, if that waits for an answer or to be carried out."""
        action = load_action(self._app.db.reader, pull.action_id) if pull.action_id else None
        return action if action is not None and action.status in ("PENDING", "APPROVED") else None

    async def ask(self, number: int) -> PullRequest:
        """Ask about the merge again, unless the question is open; while checks fail there is none."""
        pull = self._open(number)
        await asyncio.to_thread(self._must_be_whole, pull)
        if self.question(pull) is not None:
            return pull
        job = self._job(pull)
        if job is None:
            return await self._ask_plain(await self.ready(number) if pull.draft else pull)
        self._must_wait(job, pull)
        if await self._work.ask(job):
            await self._app.db.write(lambda tx: wake_job(tx, self._app.clock, job.job_id))
        return self.forge.find(number)

    async def want(self, number: int, words: str) -> PullRequest:
        """Have its job go on with the owner's words; the question is withdrawn until it comes back with its work."""
        words = words.strip()
        if not words or len(words) > LONGEST_WISH:
            raise UsageError(f"say what to change, in at most {LONGEST_WISH} characters.")
        pull = self._open(number)
        job = self._job(pull)
        if job is None:
            raise UsageError(f"no job made #{number}, so nobody can change it.", remedy=_instead(pull))
        self._must_wait(job, pull)
        asked = self.question(pull)
        if asked is not None and asked.status == "APPROVED":
            raise Conflict(f"the merge of #{number} is approved already.", remedy="Ask for changes in a new job.")
        wanted = self._app.redact(words)
        changed = await self._change(number, lambda now: msgspec.structs.replace(now, wanted=wanted, dormant=False))
        await self._withdraw(asked, WITHDRAWN.format(did="asked for changes of", number=number))
        await self._app.db.write(lambda tx: wake_job(tx, self._app.clock, job.job_id))
        return changed

    async def ready(self, number: int) -> PullRequest:
        """A draft is one no more: its merge can be asked about."""
        pull = self._open(number)
        if not pull.draft:
            return pull

        def write(tx: Tx) -> PullRequest:
            kept = change_pull(
                tx, self._app.clock, number, lambda now: msgspec.structs.replace(now, draft=False, dormant=False)
            )
            self.forge.note(tx, "pr_updated", kept, draft=False)
            return kept

        return await self._app.db.write(write)

    async def close(self, number: int, reason: str) -> PullRequest:
        """Close it without merging; its job ends."""
        pull = self._open(number)
        asked = self.question(pull)
        words = self._app.redact(reason.strip())[:LONGEST_WISH] or f"You closed #{number}."
        pull = await self._close(pull, words)
        await self._withdraw(asked, WITHDRAWN.format(did="closed", number=number))
        if pull.job_id is not None:
            job_id = pull.job_id
            await self._app.db.write(lambda tx: wake_job(tx, self._app.clock, job_id))
        return pull

    async def reopen(self, number: int) -> PullRequest:
        """Open a closed one again and put its question, while its branch is there and its job is not over."""
        pull = self.forge.find(number)
        if pull.state != "CLOSED":
            raise UsageError(f"#{number} is {pull.state}.", remedy="Only a closed pull request can be opened again.")
        job = self._job(pull)
        if pull.job_id is not None and (job is None or job.state in ENDED):
            state = "gone" if job is None else job.state
            take = f"git -C {shlex.quote(str(self._app.workspace))} checkout {pull.branch} -- PATH"
            raise UsageError(
                f"its job is {state} and cannot go on, so #{number} stays closed.",
                remedy=f"Create the job again with `coilclaw job create`, or take a file of it yourself: {take}",
            )
        name = f"refs/heads/{pull.branch}" if pull.session_id is None else pull.head_sha
        if await asyncio.to_thread(self.forge_of(pull).repository.resolve, name) != pull.head_sha:
            raise UsageError(f"the branch {pull.branch} of #{number} is gone or has moved.", remedy="Create a job.")
        if pull_on(self._app.db.reader, pull.branch) is not None:
            raise UsageError(f"another pull request of {pull.branch} is open.", remedy="See `coilclaw pr list`.")

        def write(tx: Tx) -> PullRequest:
            def opened(now: PullRequest) -> PullRequest:
                return msgspec.structs.replace(now, state="OPEN", reason="", dormant=True)

            kept = change_pull(tx, self._app.clock, number, opened)
            self.forge.note(tx, "pr_updated", kept, reopened=True)
            return kept

        await self._app.db.write(write)
        return await self.ask(number)

    # Taking a merge back

    async def revert(self, number: int) -> PullRequest:
        """A new pull request that takes a merged one back. What the runtime wrote about the job stays on record."""
        pull = self.forge.find(number)
        if pull.state != "MERGED":
            raise UsageError(f"#{number} is {pull.state}.", remedy="Only a merged pull request can be reverted.")
        if pull.session_id is not None:
            raise UsageError(
                f"#{number} was merged into {pull.repository}, which is your own repository.",
                remedy=f"Revert it there: git revert -m 1 {pull.merged_sha[:12]}",
            )
        if pull.branch == EXPORT and pull.job_id is None:
            raise UsageError(f"#{number} is the runtime's own record, which only grows.")
        there = pull_on(self._app.db.reader, _revert_branch(number))
        return there or await self._ask_plain(await asyncio.to_thread(self._open_revert, pull))

    def _open_revert(self, pull: PullRequest) -> PullRequest:
        """Its branch begins at the merge, so that merging it undoes that merge alone, whatever came after."""
        nothing = f"#{pull.number} changed nothing that could be taken back."
        written = undoing(self.forge.repository, pull)
        if not written:
            raise UsageError(nothing)
        title = shortened(f"Revert #{pull.number}: {pull.title}", TITLE_CHARACTERS)
        about = f"Takes back #{pull.number}, which was merged as {pull.merged_sha}."
        made_by = f"\n\nIts job: {pull.job_id}" if pull.job_id is not None else ""
        branch = _revert_branch(pull.number)
        made = self.forge.open_plain(branch, written, title, about + made_by, ("intent:REVERT",), base=pull.merged_sha)
        if made is None:
            raise UsageError(nothing)
        return made

    # Those that no job made

    async def _ask_plain(self, pull: PullRequest) -> PullRequest:
        forge = self.forge_of(pull)
        pull = await forge.check(pull)
        if all(check.passed for check in pull.checks):
            await MergeQuestions(self._app, self._conveyor, forge).put(pull)
            return self.forge.find(pull.number)
        return await self._change(pull.number, lambda now: msgspec.structs.replace(now, action_id=None, dormant=True))

    async def settle_plain(self) -> int:
        """Go on with those that no job takes along: deploy what was merged, close what was refused or is too old."""
        settled = 0
        for pull in plain_pulls(self._app.db.reader):
            if pull.session_id is None and not self._app.config.forge.enabled:
                continue
            if pull.state == "MERGED":
                fault = await put_in_place(self._app, self.forge, pull)
                if fault:
                    self._app.warn(fault)
                settled += 1
            elif self.question(pull) is None:
                settled += await self._settle_open(pull)
        return settled

    async def _settle_open(self, pull: PullRequest) -> bool:
        if pull.session_id is not None:
            await self._app.db.write(lambda tx: tell_answer(tx, self._app, pull.session_id, pull.action_id))
        result = result_of(self._app.db.reader, pull.action_id) if pull.action_id else None
        days = timedelta(days=self._app.config.forge.pr_days)
        if result is not None and result.code == "OWNER_REFUSED":
            await self._close(pull, f"You rejected #{pull.number}.")
        elif self._app.clock() >= from_stamp(pull.opened_at) + days:
            await self._close(pull, "Nobody answered it in time.")
        elif pull.dormant or pull.draft:
            return False
        elif pull.session_id is not None and result is None:
            await self._ask_for_session(pull)
        elif result is None and self._app.clock() >= from_stamp(pull.updated_at) + ASK_AFTER:
            await self._ask_plain(pull)
        elif result is not None:
            await self._change(pull.number, lambda now: msgspec.structs.replace(now, action_id=None, dormant=True))
        else:
            return False
        return True

    async def _ask_for_session(self, pull: PullRequest) -> None:
        try:
            await self._ask_plain(pull)
        except CoilclawError as error:  # its repository is gone, say: whoever asks again is told
            reason = self._app.redact(str(error))[:LONGEST_WISH]
            change = msgspec.structs.replace(pull, dormant=True, reason=reason)
            await self._change(pull.number, lambda _: change)

    async def withdraw_question(self, pull: PullRequest) -> None:
        """Take back the question about commits that are no longer the newest."""
        await self._withdraw(self.question(pull), f"#{pull.number} has other commits now.")
        await self._app.db.write(lambda tx: tell_answer(tx, self._app, pull.session_id, pull.action_id))

    # Parts

    async def _close(self, pull: PullRequest, reason: str) -> PullRequest:
        if pull.session_id is not None:
            with suppress(ToolError):  # its repository is gone or cannot be read, so nothing is merged there either
                return await SessionForge(self._app, pull).close_unmerged(pull, reason)
        return await asyncio.to_thread(self.forge.close, pull.number, reason)

    def _open(self, number: int) -> PullRequest:
        pull = self.forge.find(number)
        if pull.state != "OPEN":
            raise UsageError(f"#{number} is {pull.state}.", remedy="See `coilclaw pr list`.")
        return pull

    def _must_be_whole(self, pull: PullRequest) -> None:
        """Its commits must be there to be shown and merged: somebody may have removed or damaged them."""
        try:
            self.forge_of(pull).changes(pull)
        except ToolError as error:
            raise Conflict(
                f"#{pull.number} cannot be read: {error.message}",
                remedy="Restore the workspace's `.git` from a clone or a backup, or close it with"
                f" `coilclaw pr close {pull.number}`.",
            ) from error

    def _job(self, pull: PullRequest) -> JobRow | None:
        return None if pull.job_id is None else load_job(self._app.db.reader, pull.job_id)

    def _must_wait(self, job: JobRow, pull: PullRequest) -> None:
        """Its job must be at the merge, not at work."""
        if not self._work.waits_for_merge(job):
            raise UsageError(
                f"{job.job_id} is still working on #{pull.number} ({job.state}).", remedy="Wait until it has finished."
            )

    async def _change(self, number: int, change: PullChange) -> PullRequest:
        return await self._app.db.write(lambda tx: change_pull(tx, self._app.clock, number, change))

    async def _withdraw(self, asked: Action | None, reason: str) -> None:
        if asked is None or asked.status != "PENDING":
            return
        try:
            await self._app.approvals(self._conveyor).withdraw(asked, reason=reason)
        except CoilclawError as error:  # answered in this very moment: that answer finds another state
            self._app.observe("withdraw_failed", {"action_id": asked.action_id, "message": str(error)})


def _instead(pull: PullRequest) -> str:
    if pull.session_id is None:
        return "Close it, or create a job for what you want."
    return f"Tell its session: coilclaw session send {pull.session_id} 'WORDS'"


def _revert_branch(number: int) -> str:
    return f"revert/{number}"
