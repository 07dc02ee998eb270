"""The last part of a run: what was written is checked again, in a home of its own, and proposed as a pull request."""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from coilclaw.features.forge.actions.ci_work import RunDenied
from coilclaw.features.forge.actions.handover import Handed
from coilclaw.features.forge.actions.remote_jobs import RemoteJobs
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.github.api import GitHubApi
from coilclaw.features.forge.github.main_branch import commit_of
from coilclaw.features.forge.github.pulls_there import GitHubPulls
from coilclaw.features.forge.paths import run_path
from coilclaw.features.forge.store import add_pull
from coilclaw.ledger.run_evidence import RunChain, RunEvidence, chain_fault
from coilclaw.packets.canonical import as_object
from coilclaw.packets.errors import UsageError
from coilclaw.packets.forge import PullRequest
from coilclaw.sandbox.bot_repository import BOT, Written
from coilclaw.store.jobs import JobRow, add_job
from coilclaw.store.threads import ensure_thread
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


class ProposedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a change; an empty blob removes it."""

    path: str
    mode: str
    blob: str


class ProposedChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of the repository, as it was handed over."""

    base: str
    files: tuple[ProposedFile, ...]
    message: str
    when: int


async def propose(app: "Runtime", handed: Handed, run_id: str) -> str:
    """Open or update the pull request of a job, if every check passes; in words, what became of it."""
    if "nothing.json" in handed.names():
        return "The job changed no file, so there is nothing to propose."
    job = msgspec.json.decode(handed.read("job.json"), type=JobRow)
    pull = msgspec.json.decode(handed.read("pull.json"), type=PullRequest)
    chains = tuple(msgspec.json.decode(handed.read(name), type=RunChain) for name in handed.names("chain-"))
    for chain in chains:
        if fault := chain_fault(chain):
            raise RunDenied(f"the chain of {chain.part} is broken: {fault}.")
    if pull.job_id != job.job_id or pull.branch != f"job/{job.job_id}":
        raise UsageError("the pull request is not of this job.")
    there = await _there(app, pull.branch)
    if there and "open" not in there:
        return "Its pull request was merged or closed before; nothing is proposed again."
    evidence = RunEvidence(version=1, job_id=job.job_id, run_id=run_id, chains=chains)
    forge = LocalForge(app)
    made = await asyncio.to_thread(_rebuilt, app, forge, job, pull, handed, msgspec.json.encode(evidence))
    checked = await forge.check(made)
    if failed := [check for check in checked.checks if not check.passed]:
        words = "; ".join(f"{check.name}: {'; '.join((check.summary, *check.details[:5]))}" for check in failed)
        raise RunDenied(f"its checks do not pass, so nothing was sent: {words}")
    pulls = GitHubPulls(app, forge)
    shown = await pulls.show(checked, replaces=await _of_an_earlier_run(pulls, forge, checked))
    return f"Pull request #{shown.remote} stands at {shown.head[:12]}."


async def _there(app: "Runtime", branch: str) -> list[str]:
    """The states of the pull requests of a branch."""
    owner = app.config.forge.github.repository.partition("/")[0]
    rows = await GitHubApi(app).read_all(f"/pulls?head={quote(f'{owner}:{branch}')}&state=all")
    return [str(each.get("state")) for each in rows]


async def _of_an_earlier_run(pulls: GitHubPulls, forge: LocalForge, pull: PullRequest) -> str:
    """The head of the job's branch there, if a run of this job made it: one commit of the bot's own on main's."""
    head = commit_of((await pulls.api.read(f"/git/ref/heads/{quote(pull.branch)}")).fields)
    if not head:
        return ""
    told = (await pulls.api.read(f"/git/commits/{head}")).fields
    parents = told.get("parents")
    onto = [str(as_object(each).get("sha")) for each in parents] if isinstance(parents, list) else []
    by_bot = as_object(told.get("author")).get("email") == BOT.address
    of_job = f"\nJob: {pull.job_id}\n" in f"{told.get('message')}\n"
    on_main = len(onto) == 1 and await asyncio.to_thread(forge.repository.has, onto[0])
    return head if by_bot and of_job and on_main else ""


def _rebuilt(
    app: "Runtime", forge: LocalForge, job: JobRow, pull: PullRequest, handed: Handed, evidence: bytes
) -> PullRequest:
    """The commit made anew from the files that were handed over, with the run's chains beside them."""
    change = msgspec.json.decode(handed.read("change.json"), type=ProposedChange)
    if change.base != forge.bot.main() or change.base != pull.base_sha:
        raise UsageError("main is not where the change was made.", remedy="Run the job again.")
    written = [
        Written(each.path, handed.read(f"blobs/{each.blob}") if each.blob else None, each.mode or "100644")
        for each in change.files
    ]
    written.append(Written(run_path(job.job_id), evidence))
    onto = (f"refs/heads/{pull.branch}",)
    head = forge.repository.commit(change.base, written, change.message, BOT, change.when, onto=onto)

    def keep(tx: Tx) -> PullRequest:
        ensure_thread(tx, app.clock, job.thread_id, "actions", job.goal.strip().splitlines()[0])
        add_job(tx, app.clock, job)
        fresh = msgspec.structs.replace(pull, head_sha=head, checks=(), checked_sha="", action_id=None)
        return add_pull(tx, app.clock, fresh)

    return app.db.write_now(keep)


async def propose_revert(app: "Runtime", commit: str) -> str:
    """Propose to take a commit back that could not be deployed; in words, what became of it."""
    api, branch = GitHubApi(app), f"revert-{commit[:12]}"
    if await _there(app, branch):
        return "Its revert is proposed already."
    main = as_object((await api.read("/git/ref/heads/main")).fields.get("object")).get("sha")
    told = (await api.read(f"/git/commits/{commit}")).fields
    parents = told.get("parents")
    before = as_object(parents[0]).get("sha") if isinstance(parents, list) and parents else None
    if main != commit or before is None:
        return "main has moved on since, so nothing is proposed: take it back yourself."
    tree = as_object((await api.read(f"/git/commits/{before}")).fields.get("tree")).get("sha")
    message = f"Revert {commit[:12]}\n\nIt could not be deployed."
    made = await RemoteJobs(app, api).commit_tree(str(tree), message, (commit,))
    if (await api.read(f"/git/ref/heads/{branch}")).status == 404:
        await api.write("POST", "/git/refs", {"ref": f"refs/heads/{branch}", "sha": made})
    words = f"{commit} could not be deployed: its tests or its smoke test failed. This brings the files back."
    opened = await api.write(
        "POST", "/pulls", {"title": f"Revert {commit[:12]}", "body": words, "head": branch, "base": "main"}
    )
    return f"Pull request #{opened.get('number')} takes {commit[:12]} back."
