"""A served home with real boxes and keepers, and a repository to work on."""

import asyncio

import msgspec

from coilclaw.config.runner import Repo
from coilclaw.features.runner.feature import runner_part
from coilclaw.features.runner.sessions import sessions_of
from coilclaw.features.runner.store import events_after, load_session, sessions_before
from coilclaw.sandbox.box import open_box
from tests.features.runner.repo_world import git
from tests.server.site import served

REPO = {"provider": "local", "name": "site"}


async def until(what, seconds=120.0):
    """The first true value of a look, however long that takes on a busy machine."""
    async with asyncio.timeout(seconds):
        while True:
            found = what()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)


class SessionWorld:
    """One home with the repository `site`."""

    def __init__(self, sample, tier="B", **overrides):
        self.sample = sample(**overrides)
        self.app = app = self.sample.app
        self.folder = self.sample.folder / "site"
        self.folder.mkdir()
        git(self.folder, "init", "-q")
        (self.folder / "README.md").write_text("hello\n")
        (self.folder / "src").mkdir()
        (self.folder / "src" / "a.py").write_text("a = 1\n")
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-qm", "one")
        app.config = msgspec.structs.replace(app.config, repos={**app.config.repos, "site": Repo(path=self.folder)})
        hide, owned = app.box_walls()
        box = open_box(hide=hide, owned=owned, prefer=tier)
        app.open_box = lambda: box
        self.sessions = sessions_of(app)

    def allow(self, *domains):
        """List hosts that boxes may reach."""
        security = msgspec.structs.replace(self.app.config.security, allowed_domains=domains)
        self.app.config = msgspec.structs.replace(self.app.config, security=security)

    def serving(self):
        """The server with its follower."""
        return served(self.sample, runner_part)

    async def start(self, site, **body):
        answer = await site.http.post("/runner/v1/sessions", json={"repo": REPO, **body})
        assert answer.status_code == 201, answer.text
        return answer.json()["session_id"]

    def newest(self):
        return sessions_before(self.app.db.reader, None, 1)[0].session_id

    def row(self, session_id):
        return load_session(self.app.db.reader, session_id)

    def events(self, session_id, kind=None):
        found = events_after(self.app.db.reader, self.row(session_id), 0, 1000)
        return [each for each in found if kind is None or each.type == kind]

    async def text(self, site, session_id):
        return (await site.http.get(f"/runner/v1/sessions/{session_id}/terminal")).text

    async def written(self, session_id):
        """How much its terminal has written, as its keeper knows it."""
        async with self.sessions.attached(session_id) as keeper:
            return keeper.next

    async def close(self):
        await self.sessions.keepers.end_all()
