"""Pull requests of coding sessions: checked and merged in the cached copy, then given to the owner's own repository."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.forge import CONFLICT, MERGE, LocalForge, TooManyPulls
from coilclaw.features.forge.store import change_pull, keep_session_pull, load_pull, suggested_since
from coilclaw.features.runner.giving import cache_repository, give
from coilclaw.features.runner.leaving import MERGE_ASKS, is_workflow
from coilclaw.features.runner.questions import tell_answer
from coilclaw.features.runner.repo_choice import repo_ref
from coilclaw.features.runner.sessions import sessions_of
from coilclaw.features.runner.sources import RepoSource, source_called, sources_of
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.forge import Check, FileChange, MergeFacts, PullRequest
from coilclaw.packets.ids import stamp
from coilclaw.packets.text import one_line
from coilclaw.sandbox.fast_import import BOT, ForgeRefused
from coilclaw.sandbox.owner_branch import LINK, change_fault
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.sandbox.bot_repository import BotRepository

FILES = "coilclaw/files"
"""The check of what would be written into the owner's folder."""


def forge_of(app: "Runtime", pull: PullRequest) -> LocalForge:
    """What a pull request is looked at and merged by: the bot's repository, or that of its session."""
    return LocalForge(app) if pull.session_id is None else SessionForge(app, pull)


async def put_session_pull(app: "Runtime", conveyor: "Conveyor", pull: PullRequest) -> int:
    """Open the pull request of a session, or bring the open one of its branch up to date; its number.

    A question about what it was before is withdrawn: a yes to it would merge nothing.
    """
    from coilclaw.features.forge.pulls import Pulls

    def write(tx: Tx) -> tuple[PullRequest | None, PullRequest]:
        before, kept = keep_session_pull(tx, app.clock, pull)
        if before is None and "suggested" in kept.labels:
            _must_have_room(app, tx, kept)
        if before != kept:
            more = {"session_id": kept.session_id, "repository": kept.repository, "draft": kept.draft}
            LocalForge(app).note(tx, "pr_opened" if before is None else "pr_updated", kept, **more)
        return before, kept

    before, kept = await app.db.write(write)
    app.reached("session_pull_kept")
    if before is not None and before.head_sha != kept.head_sha:
        await Pulls(app, conveyor).withdraw_question(before)
    return kept.number


def _must_have_room(app: "Runtime", tx: Tx, pull: PullRequest) -> None:
    """Refuse one more suggestion than a repository may have in a day, where the row is added."""
    settings = app.config.repos.get(_source_of(app, pull).name)
    most = 0 if settings is None else settings.suggestions_per_day
    if suggested_since(tx, pull.repository, stamp(app.clock() - timedelta(days=1))) > most:
        raise TooManyPulls(f"{pull.repository} had {most} suggestions within a day, which is the limit.")


class SessionForge(LocalForge):
    """The same over the cached copy of one session's repository. The owner's own repository is written last."""

    def __init__(self, app: "Runtime", pull: PullRequest) -> None:
        super().__init__(app)
        self._source = _source_of(app, pull)
        self._checkouts = sessions_of(app).checkouts
        self._cache = self._checkouts.cache_of(self._source)
        self.repository: BotRepository = cache_repository(self._cache)

    def merge_outcome(self, pull: PullRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What merging it would touch, and what of that a forge runs on its own."""
        tip = pull.checked_sha or pull.base_sha
        merged = self.repository.merge(tip, pull.head_sha).tree
        paths = tuple(each.path for each in self.repository.changes(tip, merged))
        return paths, tuple(path for path in paths if is_workflow(path))

    def merge_facts(self, pull: PullRequest, paths: tuple[str, ...], governs: tuple[str, ...]) -> MergeFacts:
        """What the gate must know. Merge modes are for jobs; here the owner's word for the repository counts."""
        settings = self._app.config.repos.get(self._source.name)
        held = pull.draft or not {"deps_add", MERGE_ASKS}.isdisjoint(pull.labels)
        auto = settings is not None and settings.auto_merge and not held
        facts = super().merge_facts(pull, paths, governs)
        return msgspec.structs.replace(facts, of_job=False, auto=auto, risk=pull.risk)  # its names mean nothing there

    # Checking

    async def check(self, pull: PullRequest) -> PullRequest:
        """See whether it merges into its branch as that is now, and can be put into the owner's folder."""
        tip, checks = await self._checked(pull)
        kept = await self._app.db.write(lambda tx: self._keep_checks(tx, pull, checks, tip))
        self._app.reached("pr_checked")
        return kept

    async def _checked(self, pull: PullRequest) -> tuple[str, tuple[Check, ...]]:
        try:
            async with self._checkouts.locked(self._cache):
                tip = await self._checkouts.current(self._cache, self._source, pull.target)
            return tip, await asyncio.to_thread(self._judged, pull, tip)
        except CoilclawError as error:  # the branch is gone, or the repository cannot be read
            return "", (_check(MERGE, [self._app.redact(str(error))], ""),)

    def _judged(self, pull: PullRequest, tip: str) -> tuple[Check, ...]:
        target = one_line(pull.target)
        if self._source.provider == "github":
            return (_check(MERGE, [f"{pull.repository} is on GitHub, where nothing is merged from here"], ""),)
        if not self.repository.leads_to(pull.base_sha, tip):
            return (_check(MERGE, [f"{target} does not hold the commit that the session began from"], ""),)
        merged = self.repository.merge(tip, pull.head_sha)
        if merged.conflicts:
            names = ", ".join(one_line(each) for each in merged.conflicts[:10])
            return (_check(MERGE, [f"conflicts with {target} in {names}"], ""),)
        faults = self._faults(self.repository.changes(tip, merged.tree))
        return _check(MERGE, [], f"merges into {target}"), _check(FILES, faults, "can be put into your folder")

    def _faults(self, changes: Sequence[FileChange]) -> list[str]:
        links = self.repository.blobs(each.new_blob for each in changes if each.new_mode == LINK)
        found = (change_fault(each, links.get(each.new_blob)) for each in changes)
        return [fault for fault in found if fault]

    # Merging

    async def try_merge(self, pull: PullRequest) -> PullRequest | None:
        """Merge it if the branch stands where the checks found it; None when they must be run again."""
        app = self._app
        async with self._checkouts.locked(self._cache):
            tip = await self._checkouts.current(self._cache, self._source, pull.target)
            done = await asyncio.to_thread(self.repository.merged_as, pull.head_sha, tip)
            if not done:
                merged = await asyncio.to_thread(self.repository.merge, tip, pull.head_sha)
                if merged.conflicts:
                    names = ", ".join(one_line(each) for each in merged.conflicts[:10])
                    text = f"#{pull.number} conflicts with {one_line(pull.target)} in {names}."
                    raise ForgeRefused(text, code=CONFLICT, begun=False)
                if tip != pull.checked_sha:
                    return None
                message = self.merge_message(pull)
                done = await asyncio.to_thread(
                    self.repository.commit_tree, merged.tree, [tip, pull.head_sha], message, BOT, self._now()
                )
                app.reached("pr_merging")
                self.must_be_wanted(pull)
                await give(app, self._cache, self._source, pull.target, tip, done)
                app.reached("pr_merged")
        return await app.db.write(lambda tx: self._kept_merged(tx, pull, done))

    async def close_unmerged(self, pull: PullRequest, reason: str) -> PullRequest:
        """Close it, unless it was merged: it waits for a merge that is under way, and finds one whose row was lost."""
        async with self._checkouts.locked(self._cache):
            tip = await self._checkouts.current(self._cache, self._source, pull.target)
            done = await asyncio.to_thread(self.repository.merged_as, pull.head_sha, tip)
            if done:
                await self._app.db.write(lambda tx: self._kept_merged(tx, pull, done))
            return await asyncio.to_thread(self.close, pull.number, reason)

    def _kept_merged(self, tx: Tx, pull: PullRequest, commit: str) -> PullRequest:
        """It is merged, and in place with that: nothing else has to be deployed."""
        now = load_pull(tx, pull.number)
        if now is not None and now.state == "MERGED":
            return now

        def merged(now: PullRequest) -> PullRequest:
            return msgspec.structs.replace(
                now, state="MERGED", merged_sha=commit, draft=False, reason="", deployed_at=stamp(self._app.clock())
            )

        kept = change_pull(tx, self._app.clock, pull.number, merged)
        self.note(tx, "pr_merged", kept, commit=commit, session_id=pull.session_id, repository=pull.repository)
        tell_answer(tx, self._app, pull.session_id, pull.action_id)
        return kept


def _source_of(app: "Runtime", pull: PullRequest) -> RepoSource:
    """The repository of a pull request, as it is configured now; a ToolError if it is none any more."""
    found = next((each for each in sources_of(app).values() if repo_ref(each).text == pull.repository), None)
    return found or source_called(app, pull.repository)


def _check(name: str, faults: Sequence[str], fine: str) -> Check:
    more = "" if len(faults) < 2 else f" and {len(faults) - 1} more"
    summary = f"{faults[0]}{more}" if faults else fine
    return Check(name=name, passed=not faults, summary=summary, details=tuple(faults[:100]))
