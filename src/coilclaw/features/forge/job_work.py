"""Pull requests as the end of jobs: a tree before the first step, a question after the last, and its answer."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.deployment import kept_edits, put_in_place
from coilclaw.features.forge.forge import CHECKS_FAILED, CONFLICT, LocalForge
from coilclaw.features.forge.heads import anchor_heads
from coilclaw.features.forge.questions import MergeQuestions
from coilclaw.features.forge.store import change_pull, pull_of_job
from coilclaw.features.jobs.background import kind_of
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.packets.forge import Check, PullRequest
from coilclaw.packets.job import ENDED
from coilclaw.packets.text import one_line
from coilclaw.runtime.job_forge import JobForge, Opened, Settled
from coilclaw.store.job_history import standing_of
from coilclaw.store.jobs import JobRow
from coilclaw.store.projects import project_of

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

ROUNDS = 3
"""How often a job is woken to bring its branch up to date, or to mend what checks found."""

CONFLICTS = (
    "main has moved, and your changes conflict with it in {names}. The folder now holds both: resolve every conflict"
    " marker (<<<<<<<, =======, >>>>>>>) in these files, then say in one sentence what you did."
)
FAILING = "The checks of your pull request do not pass. Mend this, then say in one sentence what you did:\n{faults}"


def job_forge(app: "Runtime", conveyor: "Conveyor") -> JobForge | None:
    """How jobs get trees and pull requests; None where they write the workspace."""
    return JobWork(app, conveyor).hooks() if app.config.forge.enabled else None


class JobWork:
    """Does for jobs what the forge does for pull requests."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor") -> None:
        self._app = app
        self._conveyor = conveyor
        self._made: LocalForge | None = None

    def hooks(self) -> JobForge:
        """What a job's loop calls."""
        return JobForge(
            prepare=self.prepare,
            publish=self.publish,
            ask=self.ask,
            settled=self.settled,
            deploy=self.deploy,
            in_force=self.in_force,
            close=self.close,
            pr_days=lambda: self._app.config.forge.pr_days,
            waits_for_merge=self.waits_for_merge,
        )

    @property
    def forge(self) -> LocalForge:
        """Made when the first job needs it."""
        if self._made is None:
            self._made = LocalForge(self._app)
        return self._made

    @property
    def questions(self) -> MergeQuestions:
        """Puts merge questions to the owner."""
        return MergeQuestions(self._app, self._conveyor, self.forge)

    def _apart(self, job: JobRow) -> bool:
        """Whether a job works in a tree: those of a project work in the project, and some write no file of ours."""
        kind = kind_of(self._app, job)
        return (kind is None or kind.writes) and not project_of(self._app.db.reader, job.thread_id)

    async def prepare(self, job: JobRow) -> None:
        """Give a job its tree, once."""
        if self._apart(job):
            await asyncio.to_thread(self.forge.trees.make, job.job_id)

    async def publish(self, job: JobRow) -> Opened | None:
        """Open or update the pull request of a job that is done with its steps."""
        if not self._apart(job):
            return None
        pull = await asyncio.to_thread(self.forge.publish, job)
        if pull is None:
            if job.spec.outputs.pr_required:
                raise UsageError("the job must end in a pull request, but it changed no file.")
            return None
        return Opened(number=pull.number, title=pull.title)

    def waits_for_merge(self, job: JobRow) -> bool:
        """Whether its pull request is what a job waits for."""
        pull = pull_of_job(self._app.db.reader, job.job_id)
        if pull is None or job.state not in ("PR_OPENED", "WAITING_APPROVAL"):
            return False
        return pull.state != "OPEN" or bool(pull.checked_sha)  # while it is worked on, nothing was checked

    # Asking

    async def ask(self, job: JobRow) -> str:
        """Run the checks, then put the merge question; empty when there is none to put now."""
        pull = pull_of_job(self._app.db.reader, job.job_id)
        if pull is None:
            raise UsageError(f"{job.job_id} has no pull request.")
        pull = await self.forge.check(pull)
        if not all(check.passed for check in pull.checks):
            return ""
        return (await self.questions.put(pull, job)).action_id

    # The answer

    async def settled(self, job: JobRow) -> Settled:
        """What the answer to the merge question means for its job."""
        pull = pull_of_job(self._app.db.reader, job.job_id)
        if pull is None or pull.state == "CLOSED":
            return Settled(fate="closed", words="Its pull request was closed." if pull is None else pull.reason)
        if pull.state == "MERGED":
            return Settled(fate="merged")
        if pull.wanted:
            return await self._again(pull, pull.wanted, by_owner=True)
        code, reason = self._end_of(job, pull)
        if code == "OWNER_REFUSED":
            words = f"You rejected #{pull.number}{f': {reason}' if reason else '.'}"
            await asyncio.to_thread(self.forge.close, pull.number, words)
            return Settled(fate="closed", words=words)
        if not all(check.passed for check in pull.checks) or code in (CONFLICT, CHECKS_FAILED):
            return await self._mend(job, pull)
        if code in ("RULES_CHANGED", "DIGEST_CHANGED", "CHANGED_MEANWHILE") and await self.ask(job):
            return Settled(fate="waits")
        return await self._rest(pull)

    def _end_of(self, job: JobRow, pull: PullRequest) -> tuple[str, str]:
        """How the merge question ended: its code, and the reason that was given."""
        standing = standing_of(self._app.db.reader, job.turn_id).get(pull.action_id or "")
        if standing is None or standing.result is None:
            return "", ""
        return standing.result.code, standing.rejection_reason or ""

    async def _rest(self, pull: PullRequest) -> Settled:
        await self._app.db.write(
            lambda tx: change_pull(
                tx,
                self._app.clock,
                pull.number,
                lambda now: msgspec.structs.replace(now, action_id=None, dormant=True),
            )
        )
        return Settled(fate="waits")

    async def _mend(self, job: JobRow, pull: PullRequest) -> Settled:
        """Main moved or checks fail: the job is woken to put that right, some times at most."""
        if pull.rounds >= ROUNDS:
            return await self._rest(pull)
        names = await asyncio.to_thread(self._update, pull)
        if names:
            shown = ", ".join(one_line(name) for name in names[:20])
            return await self._again(pull, CONFLICTS.format(names=shown), by_owner=False)
        pull = await self.forge.check(pull)
        faults = [f"{each.name}: {'; '.join((each.summary, *each.details[:10]))}" for each in _failed(pull)]
        if faults:
            return await self._again(pull, FAILING.format(faults="\n".join(faults)), by_owner=False)
        await self.questions.put(pull, job)  # what stood in the way is gone
        return Settled(fate="waits")

    def _update(self, pull: PullRequest) -> tuple[str, ...]:
        """Give the job's tree the files of a merge with main, markers and all; the paths that conflict."""
        main = self.forge.bot.settle(f"before #{pull.number} was brought up to date")
        merged = self.forge.repository.merge(main, pull.head_sha)
        if merged.conflicts and pull.job_id is not None:
            self.forge.trees.put(pull.job_id, merged.tree, main)
        return merged.conflicts

    async def _again(self, pull: PullRequest, words: str, *, by_owner: bool) -> Settled:
        rounds = pull.rounds if by_owner else pull.rounds + 1
        await self._app.db.write(
            lambda tx: change_pull(
                tx,
                self._app.clock,
                pull.number,
                lambda now: msgspec.structs.replace(
                    now, action_id=None, dormant=False, wanted="", rounds=rounds, checked_sha=""
                ),
            )
        )
        return Settled(fate="again", words=words, by_owner=by_owner)

    # Afterwards

    async def deploy(self, job: JobRow) -> str:
        """Put what was merged in place; why that was taken back, or empty."""
        pull = pull_of_job(self._app.db.reader, job.job_id)
        return "" if pull is None else await put_in_place(self._app, self.forge, pull)

    def in_force(self, job: JobRow) -> str:
        """What there is to say of a job whose pull request was put in place."""
        pull = pull_of_job(self._app.db.reader, job.job_id)
        kept = "" if pull is None else kept_edits(self._app, pull)
        return f"Its pull request is merged, but {kept}." if kept else "Its pull request is merged and in force."

    async def close(self, job: JobRow, reason: str) -> None:
        """A job is over: nothing of it stays open, and its tree goes."""
        if job.state not in ENDED:
            return
        pull = pull_of_job(self._app.db.reader, job.job_id)
        try:
            if pull is not None and pull.state == "OPEN":
                with suppress(UsageError):  # it was merged meanwhile, or by whoever was killed before its row said so
                    await asyncio.to_thread(self.forge.close, pull.number, reason or f"Its job is {job.state}.")
            await asyncio.to_thread(self.forge.trees.remove, job.job_id)
            await self._app.ledger.seal_now()  # what leaves the home covers the merge of this job
            await asyncio.to_thread(anchor_heads, self._app)
        except CoilclawError as error:  # the job is over all the same; what is left is tidied up later
            self._app.warn(f"after the end of {job.job_id}: {error}")


def _failed(pull: PullRequest) -> list[Check]:
    return [check for check in pull.checks if not check.passed]
