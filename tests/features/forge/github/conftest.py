"""A bot whose pull requests also stand on GitHub, or on the fake of it."""

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from coilclaw.config.forge import Forge, GitHubForge
from coilclaw.features.forge.github import api
from coilclaw.features.forge.github.mirror import GitHubMirror
from coilclaw.features.forge.github.store import github_pull, github_state
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import pull_of_job
from coilclaw.sandbox.fake_github import OWNER_ID, FakeGitHub
from coilclaw.sandbox.fake_github_actions import FakeActions
from tests.features.conftest import calls
from tests.features.forge.github import openapi
from tests.features.projects.world import git

KEY = rsa.generate_private_key(65537, 2048)
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
WRITES = calls(("file_write", {"path": "notes/a.md", "content": "by the job\n"}))


class Hub:
    """A bot, and its repository on GitHub."""

    def __init__(self, here, fake):
        self.here = here
        self.app = here.app
        self.fake = fake
        self.mirror = GitHubMirror(here.app, here.background.conveyor)

    async def job(self, *calls, text="Done."):
        """A job that waits for its merge."""
        self.here.home.script(*(calls or (WRITES,)), {"text": text})
        job = await self.here.create("write a note")
        await self.here.drain()
        return job

    async def changed(self, job):
        """The job goes on at the owner's wish, and its pull request has another head."""
        await Pulls(self.app, self.here.background.conveyor).want(self.pull(job).number, "make it shorter")
        self.here.home.script(calls(("file_write", {"path": "notes/a.md", "content": "short\n"})), {"text": "Done."})
        await self.here.drain()

    def pull(self, job):
        return pull_of_job(self.app.db.reader, job.job_id)

    def row(self, job):
        return github_pull(self.app.db.reader, self.pull(job).number)

    def fault(self):
        return github_state(self.app.db.reader).fault

    async def sync(self):
        await self.mirror.sync()
        return self.fault()

    def here_main(self):
        return git(self.app.workspace, "rev-parse", "refs/heads/main").strip()

    def there_main(self):
        return self.fake.hosted.ref("heads/main")


@pytest.fixture
def quick(monkeypatch):
    """No pause between writes."""
    monkeypatch.setattr(api, "BETWEEN_WRITES", 0.0)


class CheckedGitHub(FakeGitHub):
    """The fake, held to GitHub's own description of its API wherever a test does not script it."""

    def __init__(self, folder, **more):
        super().__init__(folder, **more)
        self.contract = openapi.found()
        self.faults = []

    def answer(self, method, path, body, headers):
        scripted = len(self.instead) + len(self.afterwards)
        reply = super().answer(method, path, body, headers)
        if self.contract and scripted == len(self.instead) + len(self.afterwards):
            self.faults += self.contract.faults(method, path, body, reply.status, reply.body)
        return reply


class CheckedActions(CheckedGitHub, FakeActions):
    """With Actions."""


def connected(fake, office):
    """Makes a bot that was connected: main was pushed once, by the owner."""

    def make(environ=(), github=(), **more):
        settings = GitHubForge(
            repository=fake.name, owner_id=OWNER_ID, app_id=fake.app_id, installation_id=fake.installation_id,
            private_key_env="BOT_KEY", api_url=fake.base_url, **dict(github),
        )  # fmt: skip
        forge = Forge(enabled=True, kind="github", github=settings)
        here = office(forge=forge, environ={"BOT_KEY": PEM, **dict(environ)}, **more)
        git(here.app.workspace, "push", "-q", str(fake.hosted.folder), "main")
        return Hub(here, fake)

    return make


@pytest.fixture
def hub(request, office, tmp_path, quick):
    """Makes a bot that was connected to a fake, of another kind where a test names one."""
    with getattr(request, "param", CheckedGitHub)(tmp_path / "hosted.git", public_key=PUBLIC) as fake:
        yield connected(fake, office)
        assert not fake.faults, "\n".join(dict.fromkeys(fake.faults))
