"""A home with real boxes and a repository with a seeded bug."""

import asyncio

import msgspec

from coilclaw.config.runner import Repo
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.terminal import work_on
from coilclaw.features.patrols.patrol_job import start_patrol
from coilclaw.features.patrols.quests import Quests
from coilclaw.features.patrols.store import alerts_before, runs_before
from coilclaw.features.patrols.target import read_target
from coilclaw.features.patrols.views import buildings_of
from coilclaw.features.runner.sessions import sessions_of
from coilclaw.packets.card import nobody
from coilclaw.packets.job import ENDED
from coilclaw.sandbox.box import open_box
from coilclaw.store.jobs import load_job
from tests.features.runner.repo_world import git

BUG = "def add(a, b):\n    return a - b\n"
MENDED = "def add(a, b):\n    return a + b\n"
CHECK = '''\
"""Runs the tests and leaves JUnit, as test runners do."""

import os
import sys

from code_of_site import add

good = add(1, 2) == 3
failure = "" if good else "<failure message='add(1, 2) is wrong'/>"
with open(os.environ["PATROL_REPORT"], "w") as report:
    report.write(
        "<testsuite><testcase classname='site' name='test_add'>" + failure + "</testcase>"
        "<testcase classname='site' name='test_other'/></testsuite>"
    )
sys.exit(not good)
'''


class PatrolWorld:
    """One home with the repository `site`, whose test fails."""

    def __init__(self, sample, *, patrols=None, tier="B", **settings):
        self.sample = sample
        self.app = app = sample.app
        self.folder = sample.folder / "site"
        self.folder.mkdir(exist_ok=True)
        if not (self.folder / ".git").exists():
            git(self.folder, "init", "-q")
            self.commit({"code_of_site.py": BUG, "check.py": CHECK, "README.md": "hello\n"})
        self.configure(patrols={"test": "python3 check.py"} if patrols is None else patrols, **settings)
        hide, owned = app.box_walls()
        box = open_box(hide=hide, owned=owned, prefer=tier)
        app.open_box = lambda: box

    def configure(self, **settings):
        repo = Repo(path=self.folder, **settings)
        self.app.config = msgspec.structs.replace(self.app.config, repos={"site": repo})

    def commit(self, files):
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", "change")
        return git(self.folder, "rev-parse", "HEAD")

    async def patrol(self, text="site test", **more):
        """Run a patrol to its end, or to where it rests; its job."""
        job = await start_patrol(self.app, read_target(self.app, text), channel="cli", **more)
        return await self.work(job)

    async def work(self, job):
        return await work_on(self.app, Background(self.app), job, None)

    async def finish(self, job):
        """Let a worker go on with a job until it is over."""
        background, stop = Background(self.app), asyncio.Event()
        with background.named() as name:
            working = asyncio.ensure_future(background.worker(name, only={job.job_id}).run(stop))
            async with asyncio.timeout(120):
                while load_job(self.app.db.reader, job.job_id).state not in ENDED:
                    await asyncio.sleep(0.05)
            stop.set()
            await working
        return load_job(self.app.db.reader, job.job_id)

    def run(self):
        return runs_before(self.app.db.reader, None, 1)[0]

    def alerts(self, *, everything=True):
        return alerts_before(self.app.db.reader, None, 1000, everything=everything)

    def health(self):
        return {each.building: each.health for each in buildings_of(self.app)}

    def events(self, *kinds):
        places = ", ".join("?" * len(kinds))
        query = f"SELECT event_type, payload_json FROM audit_log WHERE event_type IN ({places}) ORDER BY seq"
        return [(row[0], msgspec.json.decode(row[1])) for row in self.app.db.reader.execute(query, kinds)]

    def quests(self):
        return Quests(self.app, self.app.conveyor(nobody))

    @property
    def checkouts(self):
        folder = self.app.config.sessions_dir
        return [each.name for each in folder.iterdir() if each.name != ".repos"] if folder.is_dir() else []

    async def close(self):
        await sessions_of(self.app).keepers.end_all()
