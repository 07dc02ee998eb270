"""A pull request on GitHub: opened, brought up to date and merged. It can stop anywhere and go on: each write looks
first whether it was made before."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from coilclaw.features.forge.checks import checks_hash
from coilclaw.features.forge.forge import Join, LocalForge
from coilclaw.features.forge.github.api import GitHubApi, GitHubRefused
from coilclaw.features.forge.github.main_branch import MainBranch, commit_of, number_of
from coilclaw.features.forge.github.objects import CommitUploads
from coilclaw.features.forge.github.publishing import publish_key
from coilclaw.features.forge.github.store import (
    CLOSED,
    GitHubPull,
    github_pull,
    github_state,
    is_known_there,
    put_github_pull,
)
from coilclaw.features.forge.tools import JOIN_SECONDS
from coilclaw.packets.canonical import Json, JsonObject, as_object
from coilclaw.packets.errors import EffectUncertain, ToolError
from coilclaw.packets.forge import PullRequest
from coilclaw.store.actions import action_with_key

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

GATE = "coilclaw/gate"


class NotPublished(ToolError):
    """The repository is public, and the owner has not let everybody read this head; nothing was sent."""

    code = "NOT_PUBLISHED"

    def __init__(self, pull: PullRequest) -> None:
        remedy = "Answer the question about it: `coilclaw approvals`."
        super().__init__(f"#{pull.number} would be public on GitHub.", remedy=remedy, begun=False)


class GitHubPulls:
    """The pull requests there."""

    def __init__(self, app: "Runtime", forge: LocalForge) -> None:
        self._app = app
        self._forge = forge
        self.api = GitHubApi(app)
        self.main = MainBranch(app, forge, self.api)
        self._repository = forge.repository
        self._uploads = CommitUploads(self.api, forge.repository, app.redact)

    def is_new(self, pull: PullRequest) -> bool:
        """Whether it is not shown there as it stands here."""
        row = github_pull(self._app.db.reader, pull.number)
        return row is None or row.head != pull.head_sha or row.gate != gate_key(pull)

    async def show(self, pull: PullRequest, replaces: str = "") -> GitHubPull:
        """Open a pull request there, or bring it up to date; `replaces` is a head there that may be written over."""
        row = github_pull(self._app.db.reader, pull.number)
        if row is not None and not self.is_new(pull):
            return row
        await self.main.may_send()
        if self.is_withheld(pull):
            raise NotPublished(pull)
        await self._put_branch(pull, replaces)
        self._app.reached("github_branch")
        remote = row.remote if row is not None else await self._opened(pull)
        if row is not None and row.gate == CLOSED:
            await self.api.write("PATCH", f"/pulls/{remote}", {"state": "open"})
        kept = GitHubPull(number=pull.number, remote=remote, head=pull.head_sha, review=row.review if row else "")
        await self.keep(kept)
        self._app.reached("github_opened")
        await self._show_gate(pull)
        kept = msgspec.structs.replace(kept, gate=gate_key(pull))
        await self.keep(kept)
        return kept

    def is_withheld(self, pull: PullRequest) -> bool:
        """Whether the repository is public, and the owner has not let everybody read this very head."""
        if not github_state(self._app.db.reader).public_since:
            return False
        action = action_with_key(self._app.db.reader, "pr_publish", publish_key(pull.number, pull.head_sha))
        return action is None or action.status != "EXECUTED"

    async def _put_branch(self, pull: PullRequest, replaces: str) -> None:
        place = f"/git/ref/heads/{quote(pull.branch)}"
        there = commit_of((await self.api.read(place)).fields)
        if there == pull.head_sha:
            return
        if there and there != replaces and not await asyncio.to_thread(self._repository.has, there):
            raise not_ours(pull.branch, pull.number)  # the owner's own work, perhaps: it is not written over
        main = await self.main.there()
        await self._uploads.send(pull.head_sha, [each for each in (main, there) if each])
        if there:
            body: JsonObject = {"sha": pull.head_sha, "force": True}
            await self.api.write("PATCH", f"/git/refs/heads/{quote(pull.branch)}", body)
        else:
            await self.api.write("POST", "/git/refs", {"ref": f"refs/heads/{pull.branch}", "sha": pull.head_sha})

    async def _opened(self, pull: PullRequest) -> int:
        """Its number there; one that was opened before and not written down is found by its branch."""
        found = await self._find(pull)
        if found is None:
            title, words = self._app.redact(pull.title), self._app.redact(pull.body)
            body: JsonObject = {"title": title, "body": words, "head": pull.branch, "base": "main"}
            made = await self.api.write("POST", "/pulls", {**body, "draft": pull.draft})
            found = number_of(made)
        self._app.reached("github_made")
        await self.api.write("PUT", f"/issues/{found}/labels", {"labels": list(pull.labels)})
        return found

    async def _find(self, pull: PullRequest) -> int | None:
        owner = self._app.config.forge.github.repository.partition("/")[0]
        rows = await self.api.read_all(f"/pulls?head={quote(f'{owner}:{pull.branch}')}&state=all")
        ours = [each for each in rows if as_object(each.get("base")).get("ref") == "main"]
        opened = [number_of(each) for each in ours if each.get("state") == "open"]
        # Closed or merged before it was written down: what became of it is heeded, instead of opening it once more.
        missed = [number_of(each) for each in ours if as_object(each.get("head")).get("sha") == pull.head_sha]
        missed = [number for number in missed if not is_known_there(self._app.db.reader, number)]
        return next(iter((*opened, *missed)), None)

    async def close(self, row: GitHubPull) -> None:
        """Close it there as it is here."""
        told = (await self.api.read(f"/pulls/{row.remote}")).fields
        if told.get("state") == "open":
            await self.api.write("PATCH", f"/pulls/{row.remote}", {"state": "closed"})
        await self.keep(msgspec.structs.replace(row, gate=CLOSED, etag=""))

    async def _show_gate(self, pull: PullRequest) -> None:
        """One check that stands for all of ours: main's protection can require it."""
        key = gate_key(pull)
        there = (await self.api.read(f"/commits/{pull.head_sha}/check-runs")).fields.get("check_runs")
        if any(as_object(each).get("external_id") == key for each in (there if isinstance(there, Sequence) else ())):
            return
        passed = all(check.passed for check in pull.checks)
        lines = [f"{'ok' if each.passed else 'FAILED'}  {each.name}: {each.summary}" for each in pull.checks]
        output: JsonObject = {
            "title": "All checks pass" if passed else "Checks fail",
            "summary": self._app.redact("\n".join(lines))[:60_000],
        }
        body: dict[str, Json] = {"name": GATE, "head_sha": pull.head_sha, "status": "completed", "external_id": key}
        body |= {"conclusion": "success" if passed else "failure", "output": output}
        await self.api.write("POST", "/check-runs", body)

    # Merging

    async def join(self, pull: PullRequest, main: str, tree: str) -> str:
        """Have GitHub merge it, and bring what it made: exactly this merge, or nothing."""
        row = await self.show(pull)
        commit = await self._merged(row)
        if not commit and await self.main.there() != main:
            raise GitHubRefused(
                409, "main there is not what it is here", remedy="Run `coilclaw bot sync`, then ask again."
            )
        commit = commit or await self._merge(pull, row)
        self._app.reached("github_merged")
        try:
            await self.main.bring(commit)
        except ToolError as error:
            raise EffectUncertain(f"GitHub merged it as {commit[:12]}, which cannot be brought: {error}") from error
        await asyncio.to_thread(self.main.must_be_merge, commit, (main, pull.head_sha), tree)
        return commit

    async def _merged(self, row: GitHubPull) -> str:
        told = (await self.api.read(f"/pulls/{row.remote}")).fields
        return str(told.get("merge_commit_sha")) if told.get("merged") is True else ""

    async def _merge(self, pull: PullRequest, row: GitHubPull) -> str:
        title, _, trailers = self._forge.merge_message(pull).partition("\n\n")
        body: JsonObject = {
            "sha": pull.head_sha,
            "merge_method": "merge",
            "commit_title": self._app.redact(title),
            "commit_message": trailers,
        }
        try:
            made = await self.api.write("PUT", f"/pulls/{row.remote}/merge", body)
        except EffectUncertain:
            if done := await self._merged(row):
                return done
            raise
        return str(made.get("sha"))

    async def keep(self, row: GitHubPull) -> None:
        """Remember what stands there."""
        await self._app.db.write(lambda tx: put_github_pull(tx, self._app.clock, row))


def joining(app: "Runtime", forge: LocalForge) -> Join:
    """Has GitHub make the merge commit. For a thread: the requests go out from the loop that is running now."""
    pulls, loop = GitHubPulls(app, forge), asyncio.get_running_loop()

    def join(pull: PullRequest, main: str, tree: str) -> str:
        return asyncio.run_coroutine_threadsafe(pulls.join(pull, main, tree), loop).result(JOIN_SECONDS)

    return join


def not_ours(where: str, number: int) -> GitHubRefused:
    """Somebody pushed to a branch of the bot."""
    remedy = f"Merge it on GitHub yourself, or close it here: coilclaw pr close {number}"
    return GitHubRefused(409, f"{where} has commits that are not ours", remedy=remedy)


def gate_key(pull: PullRequest) -> str:
    """Stands for the checks of a head, so that the same are shown once."""
    return f"{pull.number}:{pull.head_sha}:{checks_hash(pull.checks)[:16]}"
