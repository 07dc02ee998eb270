"""kill -9 on the way of a session's commits into the owner's repository: nothing is lost, nothing is merged twice."""

import signal

import pytest

from tests import forked
from tests.features.forge.session_pull_world import SessionPullWorld
from tests.features.runner.repo_world import git
from tests.home import Sample

pytestmark = pytest.mark.slow

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.features.forge.session_pull_world import SessionPullWorld
from tests.home import Sample

async def main(point):
    world = SessionPullWorld(lambda: Sample(Path(sys.argv[1])))
    session = await world.session()
    world.work(session, {"made.txt": "made\\n", "src/a.py": None, "README.md": "more\\n"})
    def reached(at):
        if at == point:
            os.kill(os.getpid(), signal.SIGKILL)
    world.app.reached = reached
    await world.pushed(session.session_id)
    await world.pulls.settle_plain()
    assert (await world.approved(world.pulls.question(world.pull()))).success

asyncio.run(main(sys.argv[2]))
"""
POINTS = (
    "repo_packed", "repo_taken", "session_pull_kept", "pr_checked", "pr_asked", "pr_merging", "merge_packed",
    "merge_given", "owner_file_written", "owner_index_written", "branch_moving", "pr_merged", "never",
)  # fmt: skip
"""The commits are packed and in the cache, their row is there; checks, question; the merge is committed, its objects
are packed and with the owner; a file, the index, the branch; the branch has moved."""


async def go_on(world):
    """What a worker and the owner do after a restart, as often as that takes."""
    app = world.app
    for _ in range(6):
        conveyor = world.conveyor
        await conveyor.recover()
        await app.executor(conveyor).run_due()
        pull = world.pull()
        if pull is None:  # the yes was lost with the process, or the commits had not left
            await world.pushed(world.newest())
            continue
        if pull.state == "MERGED":
            return
        await world.pulls.settle_plain()
        asked = world.pulls.question(world.pull())
        if asked is not None and asked.status == "PENDING":
            await world.approved(asked)


@pytest.mark.parametrize("point", POINTS)
async def test_merge_is_completed_once_after_a_kill(tmp_path, point):
    Sample(tmp_path).close()
    done = forked.script(CHILD, str(tmp_path), point)
    assert done.returncode == (0 if point == "never" else -signal.SIGKILL), done.stderr
    sample = Sample(tmp_path)
    world = SessionPullWorld.again(sample)
    if point not in ("pr_merged", "never"):
        assert git(world.folder, "rev-list", "--count", "main") == "1", "the branch moves last"
    await go_on(world)
    pull = world.pull()
    assert (pull.state, pull.merged_sha) == ("MERGED", world.head())
    assert git(world.folder, "rev-list", "--count", "--merges", "main") == "1"
    assert world.status() == ""
    assert sorted(path.name for path in world.folder.iterdir() if path.name != ".git") == ["README.md", "made.txt"]
    assert not (world.folder / ".git/index.lock").exists()
    git(world.folder, "fsck", "--strict", "--no-dangling")
    merges = [each.status for each in sample.receipts() if each.tool == "pr_merge"]
    assert merges.count("allowed") == 1, merges
    await world.close()
    sample.close()
