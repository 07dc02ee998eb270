"""A bot whose pull requests stand on GitHub, in the panel: links, and how both sides stand."""

import contextlib

import pytest

from coilclaw.sandbox.fake_github import OWNER_ID, FakeGitHub
from tests.features.forge.github.conftest import PEM, PUBLIC
from tests.features.projects.world import git
from tests.panel.acts import new_job, settle_in
from tests.panel.house import House
from tests.panel.window import Look

pytestmark = pytest.mark.slow
GOVERNS = {"match": "change yourself", "text": "I write it.", "tool_calls": [
    {"tool": "file_write", "args": {"path": "SYSTEM.md", "content": "Be brief.\n"}, "justification": "Asked."},
]}  # fmt: skip


@pytest.fixture
def there(tmp_path):
    with FakeGitHub(tmp_path / "hosted.git", public_key=PUBLIC) as fake:
        yield fake


@pytest.fixture
def house(tmp_path, there):
    environ = {
        "COILCLAW_FORGE_ENABLED": "true", "COILCLAW_FORGE_KIND": "github",
        "COILCLAW_FORGE_GITHUB_REPOSITORY": there.name, "COILCLAW_FORGE_GITHUB_OWNER_ID": str(OWNER_ID),
        "COILCLAW_FORGE_GITHUB_APP_ID": str(there.app_id), "COILCLAW_FORGE_GITHUB_API_URL": there.base_url,
        "COILCLAW_FORGE_GITHUB_INSTALLATION_ID": str(there.installation_id),
        "COILCLAW_FORGE_GITHUB_PRIVATE_KEY_ENV": "BOT_KEY", "BOT_KEY": PEM,
    }  # fmt: skip
    script = [GOVERNS, {"match": "change yourself", "text": "Done."}]
    with contextlib.closing(House(tmp_path, script=script, environ=environ)) as made:
        yield made


@pytest.mark.parametrize("look", [Look("phone", "light"), Look("desktop", "dark")], ids=str)
def test_a_pull_request_leads_to_its_page_and_the_list_tells_how_both_sides_stand(house, there, window, look):
    w = window(look)
    settle_in(w)
    git(house.workspace, "push", "-q", str(there.hosted.folder), "main")
    new_job(w, "change yourself")
    w.click("Pull request #1", role="link")
    w.arrives("/work/pulls/1")
    link = w.page.get_by_role("link", name="Merge on GitHub")
    for _ in range(200):  # it stands there after the next look, of which the page hears when it is read again
        if there.pulls and link.count():
            break
        w.page.wait_for_timeout(1500)  # a device has 1200 requests a minute, and each reading takes some twenty
        w.page.reload()
        w.sees("It is merged when you approve it, and not before.")
    assert link.get_attribute("href") == f"{there.base_url}/owner/bot/pull/1"
    assert link.get_attribute("rel") == "noopener noreferrer"
    w.scene("pull-github")
    w.go("#/work/pulls")
    w.sees("requests left this hour")
    assert w.page.get_by_role("link", name="On GitHub").get_attribute("href") == f"{there.base_url}/owner/bot"
    w.scene("pulls-github")
