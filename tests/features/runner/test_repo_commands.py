"""coilclaw repo, with the real executable: adding one is a change of config.toml that the owner approves."""

import json

import pytest

from tests.features.projects.test_commands import run
from tests.features.projects.world import add as add_project
from tests.features.runner.repo_world import git

pytestmark = pytest.mark.slow


def repository(home, name="site"):
    folder = home.folder / name
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("a\n")
    git(folder, "add", "a")
    git(folder, "commit", "-qm", "a")
    return folder


async def answered(home):
    (action,) = home.app.db.reader.execute("SELECT action_id FROM proposed_actions WHERE status = 'PENDING'").fetchone()
    assert (await home.approve(action)).result.success


async def test_a_folder_is_added_after_the_owner_said_yes(sample):
    home = sample()
    folder = repository(home)
    waits = run(home, "repo", "add", "site", "--copy", ".env", "--setup", "make")
    assert waits.returncode == 4, waits.stderr
    assert json.loads(run(home, "repo", "list", "--json").stdout) == []
    lanes = home.app.db.reader.execute("SELECT tool, status FROM proposed_actions").fetchall()
    assert [*map(tuple, lanes)] == [("settings_change", "PENDING")]
    await answered(home)
    (listed,) = json.loads(run(home, "repo", "list", "--json").stdout)
    assert (listed["name"], listed["provider"], listed["place"]) == ("site", "local", str(folder))
    assert (listed["checkouts"], listed["fault"]) == (0, "")
    assert f'[repos.site]\npath = "{folder}"\nsetup = "make"\ncopy = [".env"]\n' in home.home.config_file.read_text()
    again = run(home, "repo", "add", str(folder))
    assert (again.returncode, "already" in again.stderr) == (2, True)


async def test_a_repository_on_github_is_added_by_its_name(sample):
    home = sample()
    assert run(home, "repo", "add", "owner/tool.js", "--token", "GH_TOKEN", "--name", "tool").returncode == 4
    await answered(home)
    (listed,) = json.loads(run(home, "repo", "list", "--json").stdout)
    assert (listed["name"], listed["provider"], listed["place"]) == ("tool", "github", "owner/tool.js")
    assert listed["fault"] == "GH_TOKEN is not set"


async def test_projects_are_listed_without_an_entry(sample):
    home = sample()
    add_project(home, repository(home, "code"))
    (listed,) = json.loads(run(home, "repo", "list", "--json").stdout)
    assert (listed["name"], listed["provider"], listed["fault"]) == ("code", "project", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere",), "not a git repository"),
        (("plain",), "not a git repository"),
        (("https://github.com/o/n",), "not a git repository"),
        (("-o/n",), "No such option"),
        (("site", "--name", "a/b"), "name is letters"),
        (("site", "--token", "T"), "GitHub only"),
        (("site", "--copy", "../x"), "not the path of a file"),
    ],
)
def test_what_cannot_be_added_is_refused_with_a_reason(sample, words, told):
    home = sample()
    repository(home)
    (home.folder / "plain").mkdir()
    done = run(home, "repo", "add", *words)
    assert done.returncode in (1, 2), done
    assert told in done.stderr
    assert not home.app.db.reader.execute("SELECT 1 FROM proposed_actions").fetchone()


def test_prune_without_anything_to_do_says_so(sample):
    done = run(sample(), "repo", "prune")
    assert (done.returncode, done.stdout) == (0, "Removed 0 cached repositories, 0 MiB.\n")
