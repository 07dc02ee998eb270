"""A patrol from its job to its alerts, beside the command that it runs."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.home import BenchHome
from bench.rounds import Case, timings
from bench.row import Plan, Row, beside
from coilclaw.app import EXTENSIONS
from coilclaw.config.runner import Repo
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.terminal import work_on
from coilclaw.features.patrols.patrol_job import start_patrol
from coilclaw.features.patrols.store import runs_before
from coilclaw.features.patrols.target import read_target

_WORK = "import hashlib\nfor number in range({}): hashlib.sha256(b'x' * 4096).digest()\n"
_REPORT = """\
import os
text = '<testsuite>' + "<testcase name='a'/>" * 200 + '</testsuite>'
open(os.environ['PATROL_REPORT'], 'w').write(text)
"""


def measure(plan: Plan) -> Iterator[Row]:
    """A repository with a test command that takes some seconds."""
    home = BenchHome(plan.folder / "home", extensions=EXTENSIONS)
    folder = plan.folder / "site"
    make_repo(folder, plan.size(1_600_000, 20_000))
    repo = Repo(path=folder, patrols={"test": "python3 check.py"})
    home.app.real_boxes = True
    home.app.config = msgspec.structs.replace(home.app.config, repos={"site": repo})
    try:
        with asyncio.Runner() as loop:
            cases: dict[str, Case] = {"ours": lambda: loop.run(_patrol(home)), "bare": lambda: _command(folder)}
            found = timings(cases, min(plan.rounds, 3))
        last = runs_before(home.app.db.reader, None, 1)[0]
        assert (last.state, last.passed) == ("passed", 200), last.reason
    finally:
        home.close()
    ours, bare = found["ours"].scaled(1e3), found["bare"].scaled(1e3)
    yield beside("patrols", "a patrol that runs tests", "ms", ours, "its command, without a box", bare, at_most=1.2)


def make_repo(folder: Path, work: int) -> None:
    """A repository whose check takes a while and reports 200 tests."""
    folder.mkdir(parents=True)
    (folder / "check.py").write_text(_WORK.format(work) + _REPORT)
    author = ("-c", "user.name=Bench", "-c", "user.email=bench@example.com")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "one")):
        subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


async def _patrol(home: BenchHome) -> float:
    began = time.perf_counter()
    job = await start_patrol(home.app, read_target(home.app, "site test"), channel="cli")
    done = await work_on(home.app, Background(home.app), job, None)
    assert done.state == "DONE", done.reason
    return time.perf_counter() - began


def _command(folder: Path) -> float:
    began = time.perf_counter()
    environment = {"PATH": "/usr/bin:/bin", "PATROL_REPORT": str(folder.with_name("report"))}
    subprocess.run(["/bin/sh", "-c", "python3 check.py"], cwd=folder, env=environment, check=True)
    return time.perf_counter() - began
