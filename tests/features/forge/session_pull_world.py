"""A home with real boxes, a repository of the owner's, and sessions that committed something for it."""

import os
import subprocess
from pathlib import Path

import msgspec

from coilclaw.config.runner import Repo
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import load_pull
from coilclaw.features.runner.leaving import open_pull, push_call, read_leaving
from coilclaw.features.runner.sessions import sessions_of
from coilclaw.features.runner.sources import source_called
from coilclaw.features.runner.store import load_session, put_session
from coilclaw.packets.card import nobody
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.sandbox.box import open_box
from tests.features.runner.repo_world import git
from tests.features.runner.session_world import SessionWorld
from tests.features.runner.test_desk import row_of


class SessionPullWorld(SessionWorld):
    """The repository is `site`."""

    @classmethod
    def again(cls, sample):
        """The same in a home that was left by another process."""
        world = cls.__new__(cls)
        world.sample, world.app, world.folder = sample, sample.app, sample.folder / "site"
        world.configure()
        hide, owned = sample.app.box_walls()
        box = open_box(hide=hide, owned=owned, prefer="B")
        sample.app.open_box = lambda: box
        world.sessions = sessions_of(sample.app)
        return world

    def configure(self, **settings):
        repos = {"site": Repo(path=self.folder, **settings)}
        self.app.config = msgspec.structs.replace(self.app.config, repos=repos)

    @property
    def conveyor(self):
        return self.app.conveyor(nobody)

    @property
    def pulls(self):
        return Pulls(self.app, self.conveyor)

    def pull(self, number=1):
        return load_pull(self.app.db.reader, number)

    async def session(self, **body):
        """A session with a checkout, which nothing runs in."""
        row = row_of(self, **body)
        wanted = row.spec.checkout
        source = source_called(self.app, "site")
        checkout = await self.sessions.checkouts.prepare(row.session_id, source, wanted.ref, wanted.type, "write")
        row = msgspec.structs.replace(row, checkout=checkout)
        self.app.db.write_now(lambda tx: put_session(tx, row))
        return load_session(self.app.db.reader, row.session_id)

    def work(self, session, files):
        """Commit files in the checkout of a session; None removes one."""
        folder = Path(session.checkout.path)
        for name, text in files.items():
            place = folder / name
            if text is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        environ = {
            "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": session.checkout.cache,
        }  # fmt: skip
        for words in (("add", "-A"), ("commit", "-qm", "work")):
            subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True)

    async def opened(self, files=None, *, draft=False, session=None, **body):
        """The pull request of a session that committed files."""
        session = session or await self.session(**body)
        self.work(session, files or {"made.txt": "made\n"})
        leaving = await read_leaving(self.app, self.sessions, session)
        return self.pull(await open_pull(self.app, session, leaving, "A change", draft=draft))

    async def pushed(self, session_id):
        """Take the commits of a session out by the owner's word."""
        call = await push_call(self.app, self.sessions, session_id, "A change")
        action = await OwnerCalls(self.app, self.conveyor).make(call, by="test", key=None)
        return await self.approved(action)

    async def asked(self, pull):
        """The merge question of a pull request."""
        return self.pulls.question(await self.pulls.ask(pull.number))

    async def approved(self, action):
        """What comes of the owner's yes."""
        yes = await self.app.approvals(self.conveyor).approve(action, by="terminal", digest=action.digest)
        outcome = await self.conveyor.execute(yes)
        return outcome.result

    def head(self, branch="main"):
        return git(self.folder, "rev-parse", branch)

    def status(self):
        return git(self.folder, "status", "--porcelain")
