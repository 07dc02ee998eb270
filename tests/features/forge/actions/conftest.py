"""A repository on the fake GitHub with the shipped workflows, and a runner for them."""

import json

import pytest

from coilclaw.config.forge import Forge, GitHubForge
from coilclaw.features.forge.actions.ci_dispatch import dispatch
from coilclaw.features.forge.actions.shipped import shipped_workflows
from coilclaw.features.forge.github import api
from coilclaw.sandbox.fake_github import OWNER_ID
from coilclaw.sandbox.fake_github_actions import FakeActions
from tests.features.forge.actions.runner import WorkflowRunner
from tests.features.forge.github.conftest import PEM, PUBLIC
from tests.features.projects.world import git

SETTINGS = """\
[security]
autonomy = "full"
{security}
[forge.github]
repository = "owner/bot"
owner_id = {owner}
app_id = 17
installation_id = 4242
private_key_env = "CI_APP_KEY"
execute = "actions"
{more}
"""


class Bot:
    """The bot's repository on GitHub, as the owner set it up."""

    def __init__(self, fake, folder):
        self.fake, self.folder = fake, folder
        self.seed = folder / "seed"
        self.seed.mkdir()
        git(self.seed, "init", "-q", "-b", "main")
        self.put("README.md", "a bot\n")
        self.put(".github/coilclaw/requirements.lock", "")
        self.settings()
        self.workflows = {path.rpartition("/")[2]: text for path, text in shipped_workflows(OWNER_ID).items()}
        for name, text in self.workflows.items():
            self.put(f".github/workflows/{name}", text)
        self.push()
        self.runner = WorkflowRunner(
            fake, folder, secrets={"COILCLAW_APP_KEY": PEM, "COILCLAW_MODEL_KEY": "model-canary-0123456789abcdef"},
            variables=fake.variables,
        )  # fmt: skip

    def settings(self, more="", security=""):
        text = SETTINGS.format(owner=OWNER_ID, more=more, security=security)
        self.put(".github/coilclaw/config.toml", text)

    def put(self, path, text):
        file = self.seed / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def push(self):
        git(self.seed, "add", "-A")
        git(self.seed, "commit", "-q", "--allow-empty", "-m", "by the owner")
        git(self.seed, "push", "-q", str(self.fake.hosted.folder), "main")
        return self.fake.hosted.ref("heads/main")

    def script(self, *answers):
        file = self.folder / "script.json"
        file.write_text(json.dumps(list(answers)))
        self.runner.environ["COILCLAW_MOCK_SCRIPT"] = str(file)

    def file(self, commit, path):
        return self.fake.hosted.git("cat-file", "blob", f"{commit}:{path}")

    def run(self, name, **more):
        return self.runner.run(self.workflows[name], **more)


@pytest.fixture
def bot(tmp_path):
    with FakeActions(tmp_path / "hosted.git", public_key=PUBLIC) as fake:
        yield Bot(fake, tmp_path)


DAILY = {
    "version": 1,
    "jobs": [
        {"job_id": "daily", "trigger": "cron", "cron": "0 9 * * *", "timezone": "UTC", "job_spec": {"intent": "Look."}}
    ],
}


class Desk:
    def __init__(self, app, fake):
        self.app, self.fake = app, fake

    async def tick(self, now):
        return await dispatch(self.app, now)

    def started(self):
        return len(self.fake.dispatched)


@pytest.fixture
def desk(office, tmp_path, monkeypatch):
    monkeypatch.setattr(api, "BETWEEN_WRITES", 0.0)
    with FakeActions(tmp_path / "hosted.git", public_key=PUBLIC) as fake:
        settings = GitHubForge(
            repository=fake.name, owner_id=OWNER_ID, app_id=fake.app_id, installation_id=fake.installation_id,
            private_key_env="BOT_KEY", api_url=fake.base_url, execute="actions",
        )  # fmt: skip

        def make(clock=None):
            forge = Forge(enabled=True, kind="github", github=settings)
            here = office(*([clock] if clock else []), forge=forge, environ={"BOT_KEY": PEM})
            (here.app.workspace / "cron").mkdir(exist_ok=True)
            (here.app.workspace / "cron/jobs.json").write_text(json.dumps(DAILY))
            git(here.app.workspace, "push", "-q", str(fake.hosted.folder), "main")
            desk = Desk(here.app, fake)
            desk.here = here
            return desk

        yield make
