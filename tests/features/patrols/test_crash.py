"""kill -9 between the steps of a patrol: nothing is lost, nothing is told twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coilclaw.features.runner.store import usage_of
from coilclaw.store.jobs import list_jobs
from tests.features.patrols.patrol_world import PatrolWorld
from tests.home import Sample

pytestmark = pytest.mark.slow

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.features.patrols.patrol_world import PatrolWorld
from tests.home import Sample

world = PatrolWorld(Sample(Path(sys.argv[1])))
here = world.app.reached
def reached(point):
    if point == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    here(point)
world.app.reached = reached
asyncio.run(world.patrol())
"""
POINTS = ["checkout_made", "patrol_begun", "patrol_ran", "patrol_recorded", "never"]


@pytest.mark.parametrize("point", POINTS)
async def test_no_alert_is_lost_or_doubled_by_a_kill(tmp_path, point):
    Sample(tmp_path).close()
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), point], cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
        check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == (0 if point == "never" else -signal.SIGKILL)
    sample = Sample(tmp_path)
    world = PatrolWorld(sample)
    (job,) = list_jobs(world.app.db.reader, None, 10)
    job = await world.finish(job)
    await world.quests().upkeep()
    assert job.state == "DONE"
    (alert,) = world.alerts()
    assert (alert.state, alert.count) == ("open", 1)
    assert [kind for kind, _ in world.events("alert_raised", "test_run_finished")] == [
        "test_run_finished",
        "alert_raised",
    ]
    assert world.run().state == "failed"
    assert len(usage_of(world.app.db.reader)) == 1
    assert [each.tool for each in sample.receipts() if each.status == "allowed"] == ["patrol_run"]
    assert world.checkouts == []
    await world.patrol()
    assert world.alerts()[0].count == 2
    await world.close()
    sample.close()
