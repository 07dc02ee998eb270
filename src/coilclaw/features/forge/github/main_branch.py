"""Main here and main on GitHub brought together: fast-forward only, and only what the owner or the gate merged."""

import asyncio
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.github.api import GitHubApi, GitHubRefused
from coilclaw.features.forge.github.links import page_of
from coilclaw.features.forge.github.objects import CommitDownloads, CommitUploads
from coilclaw.features.forge.github.store import github_pull, github_state, merged_there, set_github_state
from coilclaw.packets.canonical import JsonObject, as_object
from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import LEDGER, MAIN, PullRequest
from coilclaw.packets.ids import stamp
from coilclaw.sandbox.fast_import import BOT, object_id
from coilclaw.store.actions import load_action

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

MOST_COMMITS = 1000
PUBLIC = "the repository on GitHub is public, so nothing is sent there."


class GitHubHeld(ToolError):
    """The two do not fit together, and somebody must look first; nothing was changed."""

    code = "GITHUB_HELD"

    def __init__(self, message: str, *, remedy: str, commit: str = "", begun: bool = False) -> None:
        super().__init__(message, remedy=remedy, begun=begun)
        self.commit = commit


class MainBranch:
    """Keeps main, and the branch of signed heads, the same on both sides."""

    def __init__(self, app: "Runtime", forge: LocalForge, api: GitHubApi) -> None:
        self._app = app
        self._forge = forge
        self._api = api
        self._repository = forge.repository
        self._uploads = CommitUploads(api, forge.repository, app.redact)
        self._anchored = ""
        """The tip of the signed heads that was seen there: asked for again when it moves, and by the next process."""

    async def level(self) -> list[PullRequest]:
        """Bring both sides together; the pull requests that were merged there."""
        here = await asyncio.to_thread(self._forge.bot.settle, "before GitHub was looked at")
        there = await self.there()
        if there == here:
            await self._keep_common(here)
            return []
        if await asyncio.to_thread(self._repository.leads_to, there, here):
            await self._must_not_be_set_back(there)
            await self._push(here, there)
            await self._keep_common(here)
            return []
        await self.bring(there)
        merged = await self._judged(here, there)
        await asyncio.to_thread(self._take_in, there, merged)
        await self._keep_common(there)
        return [pull for pull, _ in merged]

    async def _keep_common(self, commit: str) -> None:
        if github_state(self._app.db.reader).common != commit:
            await self._app.db.write(
                lambda tx: set_github_state(tx, msgspec.structs.replace(github_state(tx), common=commit))
            )

    async def _must_not_be_set_back(self, there: str) -> None:
        """Whoever took commits back on GitHub had a reason; a push would undo that."""
        common = github_state(self._app.db.reader).common
        if there == common or not await asyncio.to_thread(self._repository.leads_to, there, common or there):
            return
        if common:
            raise GitHubHeld(
                f"main on GitHub was set back from {common[:12]} to {there[:12]}.",
                remedy=f"Undo here what you do not want (`git revert`), then push main: {push_line(self._app)}",
            )

    async def there(self) -> str:
        """Where main stands on GitHub."""
        state = github_state(self._app.db.reader)
        answer = await self._api.read("/git/ref/heads/main", etag=state.etag if state.main else "")
        if answer.status == 304:
            return state.main
        sha = commit_of(answer.fields)
        if not sha:
            remedy = f"Push it once, as yourself: {push_line(self._app)}"
            raise GitHubHeld("the repository on GitHub has no branch main.", remedy=remedy)
        await self._app.db.write(
            lambda tx: set_github_state(tx, msgspec.structs.replace(github_state(tx), main=sha, etag=answer.etag))
        )
        return sha

    async def may_send(self) -> None:
        """Stop at a repository that is public, until the owner has answered for it.

        What is sent to a repository that everybody can read has left for good.
        """
        private = (await self._api.read("")).fields.get("private") is True
        state = github_state(self._app.db.reader)
        since = "" if private else state.public_since or stamp(self._app.clock())
        if since != state.public_since:  # one that was private in between is asked about again
            await self._app.db.write(
                lambda tx: set_github_state(tx, msgspec.structs.replace(github_state(tx), public_since=since))
            )
        if not private and state.public_allowed != since:
            remedy = "Make it private, or answer the question about it: `coilclaw approvals`."
            raise GitHubHeld(PUBLIC, remedy=remedy)

    async def _push(self, here: str, there: str) -> None:
        await self.may_send()
        await self._uploads.send(here, [there])
        try:
            await self._api.write("PATCH", "/git/refs/heads/main", {"sha": here, "force": False})
        except GitHubRefused as error:
            raise GitHubHeld(
                f"GitHub does not take your own edits of the workspace on main. {error.message}",
                remedy=f"Push them yourself: {push_line(self._app)}",
            ) from error

    async def bring(self, commit: str) -> None:
        """Have a commit of GitHub here too; nothing leads to it yet."""
        await CommitDownloads(self._api, self._repository).bring(commit)

    def must_be_merge(self, commit: str, parents: tuple[str, str], tree: str) -> None:
        """Refuse a merge that joins anything else, or brings anything more."""
        made = self._repository.log(commit, 1)[0].parents
        if made != parents or self._repository.tree_of(commit) != tree:
            raise GitHubHeld(
                f"GitHub's merge {commit[:12]} is not the one that was approved.",
                remedy=f"Look at it: `coilclaw bot accept {commit}` shows the difference and asks you.",
                commit=commit, begun=True,
            )  # fmt: skip

    async def push_ledger(self) -> None:
        """Put the signed heads where this machine cannot take them back."""
        tip = await asyncio.to_thread(self._repository.tip, LEDGER)
        if not tip or tip == self._anchored:
            return
        there = commit_of((await self._api.read("/git/ref/heads/ledger")).fields)
        if there == tip:
            self._anchored = tip
            return
        await self.may_send()
        await self._uploads.send(tip, [there] if there else [])
        if there:
            await self._api.write("PATCH", "/git/refs/heads/ledger", {"sha": tip, "force": False})
        else:
            await self._api.write("POST", "/git/refs", {"ref": LEDGER, "sha": tip})

    # What came

    async def _judged(self, here: str, there: str) -> list[tuple[PullRequest, str]]:
        """Which pull requests the new commits on main merged; a commit that nobody we trust put there is held."""
        new = await asyncio.to_thread(
            self._repository.commits_since, there, [here], MOST_COMMITS + 1, first_parent=True
        )
        accepted = github_state(self._app.db.reader).accepted
        if accepted and not await asyncio.to_thread(self._repository.leads_to, accepted, there):
            accepted = ""  # main was set back to what the owner saw only together with what came after
        merged: list[tuple[PullRequest, str]] = []
        for commit in new:
            pull = await self._merged_as(commit) if len(new) <= MOST_COMMITS else None  # the oldest are not among them
            if pull is not None:
                merged.append((pull, commit))
            elif len(new) <= MOST_COMMITS and await self._is_owners_merge(commit):
                continue
            elif not accepted or not await asyncio.to_thread(self._repository.leads_to, commit, accepted):
                raise GitHubHeld(
                    f"main on GitHub has the commit {commit[:12]}, which is no merge of yours or of the gate.",
                    remedy=f"Look at it: `coilclaw bot accept {there}` shows the difference and asks you.",
                    commit=there,
                )
        return merged

    async def _merged_as(self, commit: str) -> PullRequest | None:
        """The pull request of ours that a commit merged, by the owner or because the gate allowed it."""
        parents = (await asyncio.to_thread(self._repository.log, commit, 1))[0].parents
        number = merged_there(self._app.db.reader, parents[1]) if len(parents) == 2 else None
        row = github_pull(self._app.db.reader, number) if number is not None else None
        if number is None or row is None:
            return None
        told = (await self._api.read(f"/pulls/{row.remote}")).fields
        if told.get("merge_commit_sha") != commit or told.get("merged") is not True:
            return None
        pull, by = self._forge.find(number), as_object(told.get("merged_by")).get("id")
        if not await self._brings_its_branch_alone(commit, parents):
            return None
        if by != self._app.config.forge.github.owner_id and not self._is_allowed(pull, parents[1], commit):
            return None
        return msgspec.structs.replace(pull, head_sha=parents[1])  # the job may have gone on since

    async def _is_owners_merge(self, commit: str) -> bool:
        """Whether the owner merged this there, out of a pull request that is not of this home, such as one of a run in
        Actions. GitHub says who did; names in the commit say nothing."""
        parents = (await asyncio.to_thread(self._repository.log, commit, 1))[0].parents
        if len(parents) != 2 or not await self._brings_its_branch_alone(commit, parents):
            return False
        for row in (await self._api.read(f"/commits/{commit}/pulls")).rows:
            told = (await self._api.read(f"/pulls/{number_of(row)}")).fields
            by, base = as_object(told.get("merged_by")).get("id"), as_object(told.get("base")).get("ref")
            made = told.get("merge_commit_sha") if told.get("merged") is True else None
            if (made, base, by) == (commit, "main", self._app.config.forge.github.owner_id):
                return True
        return False

    async def _brings_its_branch_alone(self, commit: str, parents: Sequence[str]) -> bool:
        joined = await asyncio.to_thread(self._repository.merge, parents[0], parents[1])
        return not joined.conflicts and joined.tree == await asyncio.to_thread(self._repository.tree_of, commit)

    def _is_allowed(self, pull: PullRequest, head: str, commit: str) -> bool:
        """Whether the merge question of this very head was answered with yes, so that the merge there is ours."""
        if pull.head_sha != head:
            return False
        action = load_action(self._app.db.reader, pull.action_id) if pull.action_id else None
        allowed = action is not None and action.status in ("APPROVED", "EXECUTED", "UNKNOWN")
        return pull.merged_sha == commit if pull.state == "MERGED" else allowed

    def _take_in(self, there: str, merged: list[tuple[PullRequest, str]]) -> None:
        """Move main. Edits made here meanwhile are joined, if they do not conflict."""
        with self._forge.bot.alone():
            here = self._forge.bot.settle_alone("before main of GitHub was taken in")
            new = there if self._repository.leads_to(here, there) else self._joined(here, there)
            self._app.reached("github_taking_in")
            self._repository.move(MAIN, new, here)
            self._app.reached("github_taken_in")
        for pull, commit in merged:
            if pull.state == "OPEN":
                self._forge.record_merge(pull, commit)

    def holds(self, commit: str) -> bool:
        """Whether main here holds a commit."""
        return self._repository.has(object_id(commit)) and self._repository.leads_to(commit, self._forge.bot.main())

    def already_merged(self, number: int, commit: str) -> PullRequest | None:
        """Write down that main here holds the merge of an open pull request; None if it does not. `commit` is what
        GitHub calls its merge: one that brings further commits of the branch is one too."""
        with self._forge.bot.alone():
            pull = self._forge.find(number)
            if pull.state != "OPEN":
                return None
            done = self._repository.merged_as(pull.head_sha, self._forge.bot.main())
            if not done and self.holds(commit):
                parents = self._repository.log(commit, 1)[0].parents
                if len(parents) == 2 and self._repository.leads_to(pull.head_sha, parents[1]):
                    done, pull = commit, msgspec.structs.replace(pull, head_sha=parents[1])
            if not done:
                return None
            self._forge.record_merge(pull, done)
            return pull

    def _joined(self, here: str, there: str) -> str:
        joined = self._repository.merge(here, there)
        if joined.conflicts:
            names = ", ".join(joined.conflicts[:10])
            raise GitHubHeld(f"main here and on GitHub conflict in {names}.", remedy="Merge them yourself with git.")
        when = int(self._app.clock().timestamp())
        return self._repository.commit_tree(joined.tree, [here, there], "Join main of GitHub", BOT, when)


def push_line(app: "Runtime") -> str:
    """The command by which the owner pushes main."""
    return f"git -C {shlex.quote(str(app.workspace))} push {page_of(app.config.forge.github, '.git')} main"


def commit_of(told: JsonObject) -> str:
    """The commit of a reference as the API shows it; empty when it is none."""
    sha = as_object(told.get("object")).get("sha")
    return sha if isinstance(sha, str) else ""


def number_of(told: JsonObject) -> int:
    """The number of a pull request as the API shows it."""
    number = told.get("number")
    if not isinstance(number, int):
        raise GitHubRefused(502, "it named no pull request")
    return number
