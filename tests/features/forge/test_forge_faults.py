"""Two workers at once, and a disk that is full at each boundary: one merge of each, and nothing lost."""

import asyncio
import errno
from contextlib import contextmanager

import pytest

from coilclaw.app import EXTENSIONS
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import pull_of_job
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import CoilclawError, Conflict
from coilclaw.runtime import Runtime
from coilclaw.store.actions import load_action
from tests.conftest import TestClock
from tests.features.conftest import calls
from tests.features.projects.world import git
from tests.torture.pulls import POINTS

WRITES = calls(("file_write", {"path": "intel/2026-11/a.md", "content": "news\n"}))


def merges(here):
    return git(
        here.app.workspace, "log", "--merges", "--format=%(trailers:key=Job,valueonly,separator=)", "main"
    ).split()


@contextmanager
def another(here):
    """A second process's view of the same home."""
    app = Runtime(here.home.home, here.app.config, here.home.environ, lambda *_: None, extensions=EXTENSIONS)
    try:
        yield app
    finally:
        app.close()


async def execute(app, action_id):
    async def nobody(_):
        return Answer(approved=None)

    try:
        await app.conveyor(nobody).execute(load_action(app.db.reader, action_id))
    except CoilclawError:
        return


@pytest.mark.slow
async def test_two_workers_merge_two_pull_requests_once_each(office):
    here = office(forge__enabled=True)
    questions = []
    for name in "ab":
        here.home.script(calls(("file_write", {"path": f"notes/{name}.md", "content": name})), {"text": "done"})
        job = await here.create(f"write {name}", thread=f"conv_{name}")
        await here.drain()
        pull = pull_of_job(here.app.db.reader, job.job_id)
        questions.append(pull.action_id)
        action = load_action(here.app.db.reader, pull.action_id)
        await here.app.approvals(here.background.conveyor).approve(action, by="terminal", digest=action.digest)
    with another(here) as first, another(here) as second:
        await asyncio.gather(*(execute(app, action) for app in (first, second) for action in questions))
    await here.drain()
    states = here.app.db.reader.execute("SELECT state, deployed_at IS NOT NULL FROM pull_requests").fetchall()
    assert states == [("MERGED", 1), ("MERGED", 1)]
    assert len(merges(here)) == len(set(merges(here))) == 2
    assert [(here.app.workspace / f"notes/{name}.md").read_text() for name in "ab"] == ["a", "b"]
    receipts = [each for each in here.home.receipts() if each.tool == "pr_merge" and each.status == "allowed"]
    assert len(receipts) == 2
    assert git(here.app.workspace, "status", "--porcelain") == ""


@pytest.mark.slow
@pytest.mark.parametrize("point", [point for point in POINTS if point != "pr_asked"])
async def test_a_disk_that_is_full_at_a_boundary_loses_nothing(office, point):
    clock = TestClock()
    here = office(clock, forge__enabled=True, forge__merge_mode="whitelist", receipts__head_every=1)
    here.home.script(WRITES, {"text": "done"})
    (here.app.workspace / "mine.md").write_text("by the owner\n")
    left = [1]

    def full(at):
        if at == point and left:
            left.pop()
            raise OSError(errno.ENOSPC, "No space left on device")

    here.app.reached = full
    job = await here.create("write intel")
    for _ in range(6):
        await here.drain()
        if here.job(job).state == "DONE":
            break
        clock.advance(minutes=30)
    assert left == [], "the boundary was never reached"
    assert here.job(job).state == "DONE", here.job(job).reason
    assert (here.app.workspace / "intel/2026-11/a.md").read_text() == "news\n"
    assert (here.app.workspace / "mine.md").read_text() == "by the owner\n"
    assert merges(here) == [job.job_id]
    assert git(here.app.workspace, "status", "--porcelain") == ""
    assert git(here.app.workspace, "for-each-ref", "refs/coilclaw") == ""


async def test_a_pull_request_whose_commit_is_gone_says_so_and_can_be_closed(office):
    here = office(forge__enabled=True)
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write intel")
    await here.drain()
    pull = pull_of_job(here.app.db.reader, job.job_id)
    for name in (f"refs/heads/{pull.branch}", f"refs/pull/{pull.number}/head"):
        git(here.app.workspace, "update-ref", "-d", name)
    git(here.app.workspace, "gc", "--quiet", "--prune=now")
    pulls = Pulls(here.app, here.background.conveyor)
    with pytest.raises(Conflict, match=pull.head_sha):
        await pulls.ask(pull.number)
    await pulls.close(pull.number, "it is broken")
    await here.drain()
    assert here.job(job).state == "CANCELLED"
