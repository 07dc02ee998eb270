"""The repository of a packet is worked in where the owner has it, and nowhere else."""

import pytest

from coilclaw.config.forge import GitHubForge
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.job_requests import Request
from coilclaw.packets.errors import UsageError
from coilclaw.store.projects import project_of
from tests.features.projects.world import add, folder, thread

HTTPS = '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://github.com/Owner/Repo.git\n'


def clone(home, config, name="code"):
    made = folder(home, name)
    (made / ".git").mkdir()
    (made / ".git" / "config").write_text(config)
    return add(home, made)


async def hand_in(home, repo="owner/repo", thread_id="conv_new"):
    return (
        await Background(home.app)
        .desk()
        .create(Request(goal="mend it", thread_id=thread_id, channel="cli", repo=repo, packet_id="job_1"))
    )


@pytest.mark.parametrize("config", [
    HTTPS,
    HTTPS.replace("https://", "https://x-access-token@"),
    '[remote "up"]\nurl = git@github.com:owner/repo.git\n',
    '[remote "up"]\n  url = "ssh://git@github.com/owner/repo"\n',
])  # fmt: skip
async def test_the_project_that_is_a_clone_of_it_is_where_the_job_works(sample, config):
    home = sample()
    project_id = clone(home, config)
    job = await hand_in(home)
    assert job.state != "DENIED"
    assert project_of(home.app.db.reader, job.thread_id) == project_id


@pytest.mark.parametrize("config", [
    "",
    HTTPS.replace("Owner/Repo", "owner/repository"),
    HTTPS.replace("github.com", "github.com.evil.example"),
    HTTPS.replace("https://github.com/", "https://evil.example/github.com/"),
    HTTPS.replace("remote", "submodule"),
    HTTPS.replace("url", "pushurl"),
])  # fmt: skip
async def test_a_repository_of_which_no_project_is_a_clone_is_denied(sample, config):
    home = sample()
    clone(home, config)
    job = await hand_in(home)
    assert job.state == "DENIED"
    assert "no project here is a clone" in job.reason


async def test_the_repository_of_the_agent_is_the_workspace(sample):
    github = GitHubForge(repository="Owner/Repo", owner_id=1, token_env="FORGE_TOKEN")
    home = sample(forge__enabled=True, forge__kind="github", forge__github=github)
    job = await hand_in(home)
    assert job.state != "DENIED"
    assert project_of(home.app.db.reader, job.thread_id) == ""


async def test_a_conversation_that_works_elsewhere_is_refused_and_nothing_is_stored(sample):
    home = sample()
    clone(home, HTTPS)
    other = thread(home, add(home, folder(home, "other")))
    with pytest.raises(UsageError, match="does not work in owner/repo"):
        await hand_in(home, thread_id=other)
    assert home.app.db.reader.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
