"""The local forge: pull requests of the bot's own repository, opened, updated, checked, merged and closed."""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.features.forge.checks import checks_hash, run_checks
from coilclaw.features.forge.deployment import files_to_label
from coilclaw.features.forge.job_file import (
    change_proposal,
    commit_message,
    ledger_head,
    left_out,
    manifest_hash,
    pull_text,
    runtime_files,
)
from coilclaw.features.forge.job_record import JobRecords
from coilclaw.features.forge.paths import governed, highest, is_runtime_file
from coilclaw.features.forge.store import (
    add_pull,
    change_pull,
    load_pull,
    new_pull,
    next_number,
    opened_by,
    opened_since,
    pull_of_job,
    pull_on,
    pulls_before,
)
from coilclaw.features.forge.trees import TreeChanges, Trees, is_there
from coilclaw.features.forge.workspace import BotWorkspace
from coilclaw.gate.labels import Looked
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.errors import CoilclawError, TryLater, UsageError
from coilclaw.packets.forge import MAIN, Check, FileChange, MergeFacts, MergeMode, PullRequest
from coilclaw.packets.ids import stamp
from coilclaw.packets.job import ENDED
from coilclaw.packets.labels import untrusted_only
from coilclaw.packets.text import one_line
from coilclaw.sandbox.bot_repository import Merged
from coilclaw.sandbox.fast_import import BOT, ForgeRefused, Written
from coilclaw.store.actions import load_action
from coilclaw.store.job_trees import JobTree, load_tree
from coilclaw.store.jobs import JobRow, add_job_event, load_job
from coilclaw.store.tx import Tx
from coilclaw.store.yolo import yolo_now

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

BRANCH = "job/{job_id}"
_REF = "refs/pull/{number}/head"
_INTENT = re.compile(r"[A-Z][A-Z0-9_]{1,63}")
"""A goal that is one such word, as a schedule's is, is a label; other goals are sentences."""
EXPORT = "ledger-export"
"""The branch of the daily export, whose files are all the runtime's own."""
MERGE_TRIES = 5
"""How often checks are run anew because main moved while they ran."""
MERGE = "coilclaw/merge"
"""Stands for the other checks where the branch does not even merge."""
Join: TypeAlias = Callable[[PullRequest, str, str], str]
"""Makes the commit that joins a pull request and main with this tree. Blocking."""
Keep: TypeAlias = Callable[[Tx, PullRequest], PullRequest]
"""Adds the row of a pull request, or brings it up to date."""
CONFLICT, CHECKS_FAILED, CHANGED = "MERGE_CONFLICT", "CHECKS_FAILED", "CHANGED_MEANWHILE"


class TooManyPulls(TryLater):
    """The day's pull requests are used up; it can be opened later."""

    code = "TOO_MANY_PRS"


class LocalForge:
    """Pull requests of the bot's own repository. Methods that are not async block: call them in a thread."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self.bot = BotWorkspace(app)
        self.trees = Trees(app, self.bot)
        self.repository = self.bot.repository
        self.join: Join = self._join

    # Opening

    def publish(self, job: JobRow) -> PullRequest | None:
        """Open the pull request of a job, or bring it up to date; None when the job changed no file."""
        tree = load_tree(self._app.db.reader, job.job_id)
        if tree is None:
            return None
        changes = self.trees.changes(tree)
        if not changes.written:
            if changes.left_out:
                why = "; ".join(map(one_line, changes.left_out[:5]))
                raise UsageError(f"none of the job's files can be committed: {why}.", remedy="Create it again.")
            return None
        with self.bot.alone():  # a worker that lost the job may still be at it: branch and row must name one commit
            return self._put(job, tree, changes, pull_of_job(self._app.db.reader, job.job_id))

    def _must_have_room(self, tx: Tx, job: JobRow) -> None:
        """The one place that limits how many there are: where the row is added, so that none slips by."""
        above: JobRow | None = job
        while above is not None:  # a job's own count holds for all that it started
            most = above.spec.constraints.max_prs
            if most is not None and opened_by(tx, above.job_id) >= most:
                whose = "it" if above is job else f"{above.job_id}, which started it,"
                text = f"the job changed files, but {whose} may open no further pull request (max_prs is {most})."
                raise UsageError(text, remedy="Create a job that may open more.")
            above = load_job(tx, above.spec.parent_id) if above.spec.parent_id else None
        most = self._app.config.budgets.prs_per_day
        if opened_since(tx, stamp(self._app.clock() - timedelta(days=1))) >= most:
            raise TooManyPulls(f"jobs opened {most} pull requests within a day, which is the limit.")

    def _put(self, job: JobRow, tree: JobTree, changes: TreeChanges, before: PullRequest | None) -> PullRequest:
        app, branch = self._app, BRANCH.format(job_id=job.job_id)
        paths = tuple(change.path for change in changes.written)
        risk = highest(paths)
        number = next_number(app.db.reader) if before is None else before.number
        facts = JobRecords(app, self).facts(
            job,
            branch=branch,
            base=tree.base_sha,
            pr=number,
            risk=risk,
            files={each.path: None if each.data is None else sha256_hex(each.data) for each in changes.written},
            stands="proposed",
        )
        own = runtime_files(app.db.reader, app.clock, job, facts)
        summary = facts.summary + left_out(changes.left_out)
        proposal = change_proposal(job, paths, job.goal, summary, "R0", risk)
        title, body = pull_text(job, proposal, facts)
        message = commit_message(title, job.job_id, manifest_hash(own), app.policy().hash, ledger_head(app.db.reader))
        taint = untrusted_only((job.checkpoint_label, *self._labels(job.job_id, changes.written)))
        made = new_pull(
            branch=branch,
            base_sha=tree.base_sha,
            head_sha="",
            title=title,
            body=body,
            risk=risk,
            labels=self._tags(job, risk, taint),
            job_id=job.job_id,
            taint=taint,
        )
        app.reached("pr_committing")
        pull = self._commit(made, (*changes.written, *own), message, before, lambda tx, it: self._keep(tx, job, it))
        # Its file names its number: one that a session took first is put right by a further commit.
        return pull if pull.number == number else self._put(job, tree, changes, pull)

    def _commit(
        self, made: PullRequest, written: Sequence[Written], message: str, before: PullRequest | None, keep: Keep
    ) -> PullRequest:
        """Write the commit of a pull request, have its branch and number lead to it, and keep its row."""
        # The number is foreseen, so that git starts once; a session's, in another repository, may take it first.
        number = next_number(self._app.db.reader) if before is None else before.number
        refs = f"refs/heads/{made.branch}", _REF.format(number=number)
        head = self.repository.commit(made.base_sha, written, message, BOT, self._now(), onto=refs)
        self._app.reached("pr_branch")
        made = msgspec.structs.replace(made, head_sha=head)
        try:
            pull = self._app.db.write_now(lambda tx: keep(tx, made))
        except CoilclawError:
            if before is None:
                self.repository.remove(refs[1])
            raise
        self._app.reached("pr_row")
        if pull.number != number:
            self.repository.put(_REF.format(number=pull.number), head)
            self.repository.remove(refs[1])
        return pull

    def _keep(self, tx: Tx, job: JobRow, made: PullRequest) -> PullRequest:
        before = pull_of_job(tx, job.job_id)
        if before is None:
            self._must_have_room(tx, job)
            pull = add_pull(tx, self._app.clock, made)
            add_job_event(tx, self._app.clock, job.job_id, "pr_opened", {"number": pull.number, "head": pull.head_sha})
        else:
            pull = change_pull(
                tx,
                self._app.clock,
                before.number,
                lambda now: msgspec.structs.replace(
                    made, number=now.number, rounds=now.rounds, opened_at=now.opened_at, wanted=""
                ),
            )
        self.note(tx, "pr_opened" if before is None else "pr_updated", pull)
        return pull

    def open_plain(
        self,
        branch: str,
        written: Sequence[Written],
        title: str,
        body: str,
        tags: tuple[str, ...] = (),
        *,
        base: str = "",
    ) -> PullRequest | None:
        """Open a pull request that no job made, from main or an older commit, or update it; None if nothing changes."""
        with self.bot.alone():  # of two workers, the later one changes what the earlier one opened
            base = base or self.bot.settle_alone(f"before {branch} was made")
            entries = self.repository.entries(base)
            changed = [each for each in written if not is_there(entries.get(each.path), each, base)]
            if not changed:
                return None
            risk = highest(each.path for each in changed)
            db, rules = self._app.db.reader, self._app.policy().hash
            message = f"{title}\n\nPolicy-Hash: {rules}\nLedger-Head: {ledger_head(db)}"
            made = new_pull(
                branch=branch,
                base_sha=base,
                head_sha="",
                title=title,
                body=body,
                risk=risk,
                labels=("coilclaw", f"risk:{risk}", *tags, f"mode:{self.mode()}"),
            )
            return self._commit(made, changed, message, pull_on(db, branch), self._keep_plain)

    def _keep_plain(self, tx: Tx, made: PullRequest) -> PullRequest:
        before = pull_on(tx, made.branch)
        if before is None:
            pull = add_pull(tx, self._app.clock, made)
        else:
            kept = msgspec.structs.replace(made, number=before.number, opened_at=before.opened_at)
            pull = change_pull(tx, self._app.clock, before.number, lambda _: kept)
        self.note(tx, "pr_opened" if before is None else "pr_updated", pull)
        return pull

    def _labels(self, job_id: str, written: Sequence[Written]) -> tuple[str, ...]:
        root = self._app.roots.of_job(job_id)
        if root is None:
            return ()
        return tuple(label for each in written for label in root.labels.labels_of(each.path))

    def _tags(self, job: JobRow, risk: str, taint: tuple[str, ...]) -> tuple[str, ...]:
        named = self._app.redact(job.spec.intent)
        intent = named if _INTENT.fullmatch(named) else "GENERAL"
        untrusted = ("untrusted",) if taint else ()
        return ("coilclaw", f"risk:{risk}", f"intent:{intent}", *untrusted, f"mode:{self.mode()}")

    # Looking

    def find(self, number: int) -> PullRequest:
        """The pull request of that number, or a UsageError."""
        pull = load_pull(self._app.db.reader, number)
        if pull is None:
            raise UsageError(f"there is no pull request #{number}.", remedy="See `coilclaw pr list`.")
        return pull

    def changes(self, pull: PullRequest) -> list[FileChange]:
        """What it would change, by path."""
        return self.repository.changes(pull.base_sha, pull.head_sha)

    def patch(self, pull: PullRequest, paths: Sequence[str] = (), most: int = 0) -> bytes:
        """The difference as text; files of more than `most` bytes are named alone."""
        return self.repository.patch(pull.base_sha, pull.head_sha, paths, most)

    def mode(self) -> MergeMode:
        """The merge mode in force: strict while everything is stopped, yolo only while its time lasts."""
        if self._app.estop.engaged():
            return "strict"
        return "yolo" if yolo_now(self._app.db.reader, self._app.clock()) else self._app.config.forge.merge_mode

    def merge_outcome(self, pull: PullRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What merging it would touch, and what of that only the owner merges. Both follow from the commits alone."""
        main = pull.checked_sha or pull.base_sha
        merged = self.repository.merge(main, pull.head_sha).tree  # with conflicts it is not merged at all
        changes = self.repository.changes(main, merged)
        read = self.repository.read
        governs = governed(changes, lambda path: read(main, path), lambda path: read(merged, path))
        return tuple(each.path for each in changes), governs

    def merge_facts(self, pull: PullRequest, paths: tuple[str, ...], governs: tuple[str, ...]) -> MergeFacts:
        """What the gate must know about merging it, as things stand now."""
        return MergeFacts(
            mode=self.mode(),
            allow=self._app.config.forge.merge_allow,
            paths=tuple(path for path in paths if not self._is_own(pull, path)),
            governs=governs,
            risk=max(pull.risk, highest(paths)),  # the owner may have moved a file that it changes
            tainted=bool(pull.taint),
            checks_passed=bool(pull.checks) and all(check.passed for check in pull.checks),
            of_job=pull.session_id is None,
        )

    def _is_own(self, pull: PullRequest, path: str) -> bool:
        """Whether the runtime itself wrote a file of a pull request."""
        exported = _exported(pull)
        if exported is not None:
            return exported(path)
        return pull.job_id is not None and is_runtime_file(path, pull.job_id)

    # Checking

    async def check(self, pull: PullRequest) -> PullRequest:
        """Run the required checks on what the merge would give now, and keep their results."""
        main, merged = await asyncio.to_thread(self._merge_result, pull)
        if merged.conflicts:
            summary = f"conflicts with main in {', '.join(merged.conflicts[:10])}"
            checks: tuple[Check, ...] = (
                Check(name=MERGE, passed=False, summary=summary, details=merged.conflicts[:100]),
            )
        else:
            checks = await run_checks(self._app, pull, main, merged.tree, is_runtime=_exported(pull))
        kept = await self._app.db.write(lambda tx: self._keep_checks(tx, pull, checks, main))
        self._app.reached("pr_checked")
        return kept

    def _merge_result(self, pull: PullRequest) -> tuple[str, Merged]:
        main = self.bot.settle(f"before #{pull.number} was checked")
        return main, self.repository.merge(main, pull.head_sha)

    def _keep_checks(self, tx: Tx, pull: PullRequest, checks: tuple[Check, ...], main: str) -> PullRequest:
        kept = change_pull(
            tx,
            self._app.clock,
            pull.number,
            lambda now: (
                msgspec.structs.replace(now, checks=checks, checked_sha=main) if now.head_sha == pull.head_sha else now
            ),
        )
        self.note(tx, "pr_checked", kept, passed=all(check.passed for check in checks))
        return kept

    # Merging

    def merge_args(self, pull: PullRequest) -> dict[str, Json]:
        """The arguments of the merge question: what a yes to it binds."""
        return {
            "number": pull.number,
            "title": pull.title,
            "risk": pull.risk,
            "head": pull.head_sha,
            "diff": self.repository.patch_hash(pull.base_sha, pull.head_sha),
            "checks": checks_hash(pull.checks),
        }

    async def merge(self, number: int, head: str, diff: str, checks: str) -> PullRequest:
        """Merge what was approved: exactly this head and difference, with these checks passed on what it gives now."""
        for _ in range(MERGE_TRIES):
            pull = self.find(number)
            if pull.state == "MERGED" and pull.head_sha == head:
                return pull
            now = self.repository.patch_hash(pull.base_sha, pull.head_sha)
            if pull.state != "OPEN" or pull.head_sha != head or now != diff:
                raise ForgeRefused(f"#{number} has changed since.", code=CHANGED, begun=False)
            done = await self.try_merge(pull) if self._is_checked(pull, checks) else None
            if done is not None:
                return done
            paths, governs = await asyncio.to_thread(self.merge_outcome, pull)
            pull = await self.check(pull)  # main has moved, the owner requires another check, or one failed since
            if not all(check.passed for check in pull.checks) or checks_hash(pull.checks) != checks:
                wrong = ", ".join(check.name for check in pull.checks if not check.passed) or "they are other checks"
                raise ForgeRefused(f"the checks of #{number} do not pass: {wrong}.", code=CHECKS_FAILED, begun=False)
            now_paths, now_governs = await asyncio.to_thread(self.merge_outcome, pull)
            if more := ({*now_paths} - {*paths}) | ({*now_governs} - {*governs}):  # files were moved on main
                where = f"main has moved, and #{number} would change {one_line(min(more))} now."
                raise ForgeRefused(where, code=CHANGED, begun=False)
        raise ForgeRefused("main keeps moving; try again later.", begun=False)

    def _is_checked(self, pull: PullRequest, approved: str) -> bool:
        """Whether the checks stand as they were approved, passed, and are all that the owner requires by now."""
        passed = {each.name: each.passed for each in pull.checks}
        required = () if pull.session_id else self._app.config.forge.checks
        return all(passed.values()) and {*required} <= {*passed} and checks_hash(pull.checks) == approved

    async def try_merge(self, pull: PullRequest) -> PullRequest | None:
        """Merge it if the checks were run against main as it is; None when they must be run again."""
        return await asyncio.to_thread(self._merge, pull)

    def _merge(self, pull: PullRequest) -> PullRequest | None:
        with self.bot.alone():
            main = self.repository.main_in_force()
            moved = main != pull.checked_sha  # where the checks found it, nobody merged since
            done = self.repository.merged_as(pull.head_sha, main or self.bot.main()) if moved else ""
            if done:  # a process that was killed came this far
                return self.record_merge(pull, done)
            main = self.bot.settle_alone(f"before #{pull.number} was merged", main)
            merged = self.repository.merge(main, pull.head_sha)
            if merged.conflicts:
                names = ", ".join(merged.conflicts[:10])
                raise ForgeRefused(f"#{pull.number} conflicts with main in {names}.", code=CONFLICT, begun=False)
            if main != pull.checked_sha:
                return None
            self.must_be_wanted(pull)
            commit = self.join(pull, main, merged.tree)
            self._app.reached("pr_merging")
            self.repository.move(MAIN, commit, main)
            self._app.reached("pr_merged")
            return self.record_merge(pull, commit)

    def must_be_wanted(self, pull: PullRequest) -> None:
        """Refuse to merge what was closed or changed since, or anything while everything is stopped.

        A call that was given up leaves its thread behind: this is the last look before main moves.
        """
        if self._app.estop.engaged():
            raise ForgeRefused(f"ESTOP is engaged, so #{pull.number} was not merged.", code="ESTOP", begun=False)
        now = self.find(pull.number)
        if now.state != "OPEN" or now.head_sha != pull.head_sha:
            raise ForgeRefused(f"#{pull.number} has changed since.", code=CHANGED, begun=False)

    def _join(self, pull: PullRequest, main: str, tree: str) -> str:
        return self.repository.commit_tree(tree, [main, pull.head_sha], self.merge_message(pull), BOT, self._now())

    def record_merge(self, pull: PullRequest, commit: str) -> PullRequest:
        """Write down that a commit which is on main already merged it."""
        # Read before the transaction, which keeps everybody else from writing.
        brought = files_to_label(self._app, self.repository, pull) if pull.taint else []
        return self._app.db.write_now(lambda tx: self._merged(tx, pull, commit, brought))

    def _merged(self, tx: Tx, pull: PullRequest, commit: str, brought: Sequence[Looked]) -> PullRequest:
        """The pull request is merged; files of a tainted job keep its labels wherever they are put."""
        done = {"state": "MERGED", "merged_sha": commit, "head_sha": pull.head_sha}
        merged = change_pull(tx, self._app.clock, pull.number, lambda now: msgspec.structs.replace(now, **done))
        for each in brought:
            self._app.root.labels.mark(tx, each, pull.taint)
        about: dict[str, Json] = {"commit": commit, "action": pull.action_id, "session_id": pull.session_id}
        self.note(tx, "pr_merged", merged, **about)
        return merged

    def merge_message(self, pull: PullRequest) -> str:
        """What a merge says of itself: one line, and the trailers."""
        action = load_action(self._app.db.reader, pull.action_id) if pull.action_id else None
        by = (action.approved_by if action else None) or f"merge mode {self.mode()}"
        lines = [f"Merge #{pull.number}: {pull.title}", "", f"Pull-Request: {pull.number}"]
        lines += [f"Job: {pull.job_id}"] if pull.job_id else []
        lines += [f"Session: {pull.session_id}"] if pull.session_id else []
        lines += [f"Action: {pull.action_id}"] if pull.action_id else []
        lines += [f"Approved-By: {by}", f"Policy-Hash: {self._app.policy().hash}"]
        return "\n".join((*lines, f"Ledger-Head: {ledger_head(self._app.db.reader)}"))

    # Afterwards

    def deployed(self, pull: PullRequest, fault: str) -> None:
        """Record that what was merged is in place, or why it was taken back."""

        def write(tx: Tx) -> None:
            at = stamp(self._app.clock())
            kept = change_pull(
                tx, self._app.clock, pull.number, lambda old: msgspec.structs.replace(old, deployed_at=at, reason=fault)
            )
            self.note(tx, "pr_deployed", kept, taken_back=bool(fault))

        self._app.db.write_now(write)

    def close(self, number: int, reason: str) -> PullRequest:
        """Close an open pull request without merging it; its branch stays. It waits for a merge that is under way."""

        def write(tx: Tx) -> PullRequest:
            def closed(now: PullRequest) -> PullRequest:
                if now.state != "OPEN":
                    raise UsageError(f"#{number} is {now.state}.", remedy="Only an open pull request can be closed.")
                return msgspec.structs.replace(now, state="CLOSED", reason=reason, action_id=None)

            pull = change_pull(tx, self._app.clock, number, closed)
            self.note(tx, "pr_closed", pull)
            return pull

        with self.bot.alone():
            pull, main = self.find(number), self.bot.main()
            done = self.repository.merged_as(pull.head_sha, main) if main and pull.state == "OPEN" else ""
            if done:  # whoever merged it was killed before the row said so
                self.record_merge(pull, done)
            return self._app.db.write_now(write)

    def tidy(self) -> int:
        """Close what jobs that are over left open, and remove their trees; how many there were."""
        open_ones = pulls_before(self._app.db.reader, ("OPEN",), None, 1000)
        jobs = ((pull, load_job(self._app.db.reader, pull.job_id)) for pull in open_ones if pull.job_id)
        over = [(pull, job) for pull, job in jobs if job is not None and job.state in ENDED]
        for pull, job in over:
            with suppress(UsageError):  # it was merged after all
                self.close(pull.number, job.reason or f"Its job is {job.state}.")
        return len(over) + self.trees.tidy()

    def note(self, tx: Tx, event: str, pull: PullRequest, **more: Json) -> None:
        """Write the audit event of what happened to a pull request."""
        about: dict[str, Json] = {"number": pull.number, "job_id": pull.job_id, "head": pull.head_sha, **more}
        add_event(tx, self._app.clock, event, f"pr_{pull.number}", about)

    def _now(self) -> int:
        return int(self._app.clock().timestamp())


def _exported(pull: PullRequest) -> Callable[[str], bool] | None:
    """Which paths of the daily export the runtime writes; None for other pull requests."""
    if pull.branch != EXPORT or pull.job_id is not None or pull.session_id is not None:
        return None
    return lambda path: path.startswith(("audit/", "jobs/"))
