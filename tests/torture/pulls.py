"""Kill processes at each boundary of a pull request, from tree to deployed file: one merge, and nothing lost."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from coilclaw.app import EXTENSIONS
from coilclaw.config import Home, load
from coilclaw.features.forge.heads import anchor_heads
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.job_requests import Request
from coilclaw.ledger.anchors import stored_lines
from coilclaw.packets.chat import ChatResponse, ProposedCall, ProviderCapabilities
from coilclaw.packets.job import ENDED
from coilclaw.runtime import Runtime
from coilclaw.store.jobs import list_jobs
from tests.torture.chamber import await_child, child

POINTS = (
    "swept", "main_moved", "tree_made", "pr_committing", "pr_branch", "pr_row", "pr_checked", "pr_asked", "pr_merging",
    "pr_merged", "deploying", "pr_deployed", "heads_written", "heads_moved",
)  # fmt: skip
"""A sweep is written and moves main; a tree is made; the branch, the row, the checks and the question; the merge and
its files; the signed heads."""
DEPLOYED = 5
"""Files that a pull request puts in place: two of its job, three about it. Each is killed at in turn."""


class Pulled(msgspec.Struct):
    """What came of killing at one boundary."""

    how: str
    kills: int = 0
    jobs: int = 0
    lost: int = 0
    twice: int = 0
    said: list[str] = []


class Writer:
    """A model that writes two files named after its goal, and then ends."""

    name = "writer"
    capabilities = ProviderCapabilities(tool_calls=True, streaming=False, local=True)

    async def chat(self, request: Any, on_text: Any = None) -> ChatResponse:
        asked = next(message.content for message in request.messages if "write n" in message.content)
        name = asked.partition("write ")[2].split()[0]
        if any(message.role == "tool" for message in request.messages):
            return ChatResponse(final_text=f"wrote {name}", provider="writer", model="writer")
        calls = tuple(
            ProposedCall(
                call_id="", tool="file_write", arguments=f'{{"path": "intel/{name}-{each}.md", "content": "{name}\\n"}}'
            )
            for each in "ab"
        )
        return ChatResponse(final_text="", tool_calls=calls, provider="writer", model="writer")


def opened_home(base: Path, reached: Callable[[str], None], more: Mapping[str, str] | None = None) -> Runtime:
    """A home whose jobs a script works on, with limits that are never in the way."""
    home, environ = Home(base / "home"), {"HOME": str(base / "user"), **(more or {})}
    config = load(home, environ).config
    budgets = msgspec.structs.replace(config.budgets, tool_calls_per_minute=100_000, prs_per_day=10_000)
    forge = msgspec.structs.replace(config.forge, merge_mode="whitelist")
    jobs = msgspec.structs.replace(config.jobs, step_retries=10)
    executor = msgspec.structs.replace(config.executor, backoff_seconds=0.01)
    receipts = msgspec.structs.replace(config.receipts, head_every=1)
    config = msgspec.structs.replace(
        config, budgets=budgets, forge=forge, jobs=jobs, executor=executor, receipts=receipts
    )
    app = Runtime(home, config, environ, lambda level, event, fields: None, reached=reached, extensions=EXTENSIONS)
    app.provider = lambda name="": Writer()
    return app


def _live(base: Path, name: str, point: str, times: int = 1) -> str:
    """A worker's life, killed when a boundary is reached that often."""
    left = [times]

    def reached(at: str) -> None:
        left[0] -= at == point
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    async def live() -> None:
        app = opened_home(base, reached)
        background = Background(app)
        if name:
            (app.workspace / f"{name}.txt").write_text("by the owner\n")
            await background.desk().create(Request(goal=f"write {name} now", thread_id=f"conv_{name}", channel="cli"))
        for _ in range(20):
            with background.named() as worker:
                await background.worker(worker).drain(asyncio.Event())
            if all(job.state in ENDED for job in list_jobs(app.db.reader, None, 1000)):
                break
            await asyncio.sleep(0.05)
        app.close()

    asyncio.run(live())
    return ""


def kill_pulls(base: Path, template: Path, point: str, kills: int) -> Pulled:
    """Kill that often at a boundary, each followed by a fresh process that brings everything to its end."""
    shutil.copytree(template, base, symlinks=True)
    tally = Pulled(point)
    names: list[str] = []
    while tally.kills < kills and len(names) < kills + 5:
        names.append(f"n{len(names)}")
        times = 1 + len(names) % DEPLOYED if point == "deploying" else 1
        tally.kills += await_child(*child(lambda times=times: _live(base, names[-1], point, times)))[0]
        await_child(*child(lambda: _live(base, "", "")))
    if tally.kills < kills:
        tally.said.append(f"{point} was reached only {tally.kills} times")
    app = opened_home(base, lambda _: None)
    _judge(tally, app, names)
    app.close()
    return tally


def _judge(tally: Pulled, app: Runtime, names: list[str]) -> None:
    db = app.db.reader
    for job in list_jobs(db, None, 1000):
        tally.jobs += 1
        if job.state != "DONE":
            wrong(tally, "lost", f"{job.job_id} is {job.state}: {job.reason}")
    for name in names:
        for path in (f"intel/{name}-a.md", f"intel/{name}-b.md", f"{name}.txt"):
            if not (app.workspace / path).exists() or not git_says(app, "ls-tree", "main", "--", path):
                wrong(tally, "lost", f"{path} is not in force")
    pulls = db.execute("SELECT job_id, state FROM pull_requests").fetchall()
    merges = git_says(app, "log", "--merges", "--format=%(trailers:key=Job,valueonly,separator=)", "main").split()
    receipts = db.execute(
        "SELECT a.job_id FROM receipts r JOIN proposed_actions a USING (action_id)"
        " WHERE a.tool = 'pr_merge' AND json_extract(r.line, '$.status') = 'allowed'"
    ).fetchall()
    for what, found in (
        ("pull requests", [job_id for job_id, _ in pulls]),
        ("merges", merges),
        ("receipts of merges", [job_id for (job_id,) in receipts]),
    ):
        if len(found) != len(set(found)):
            wrong(tally, "twice", f"{what} repeat")
        if len(set(found)) != len(names):
            wrong(tally, "lost", f"{len(set(found))} {what} for {len(names)} jobs")
    if git_says(app, "status", "--porcelain") or git_says(app, "for-each-ref", "refs/coilclaw"):
        wrong(tally, "lost", "the workspace is not what main says, or references were left")
    anchor_heads(app)
    if git_says(app, "show", "ledger:heads.jsonl").encode().split(b"\n") != stored_lines(db):
        wrong(tally, "lost", "the branch `ledger` holds other heads than the home")
    if any(Path(app.config.trees_dir).iterdir()):
        wrong(tally, "lost", "trees were left")


def git_says(app: Runtime, *args: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(app.workspace), *args], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def wrong(tally: Pulled, kind: str, what: str) -> None:
    setattr(tally, kind, getattr(tally, kind) + 1)
    tally.said.append(f"{tally.how}: {what}")


def table(tallies: list[Pulled]) -> str:
    """The tallies as a markdown table."""
    lines = ["| pull request killed at | kills | jobs | lost | twice |", "|---|---:|---:|---:|---:|"]
    lines += [f"| {each.how} | {each.kills} | {each.jobs} | {each.lost} | {each.twice} |" for each in tallies]
    return "\n".join(lines)
