"""docs/github.md as somebody new follows it, with the real executable and a fake GitHub."""

import base64
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from coilclaw.sandbox.fake_github import OWNER_ID, Account, FakeGitHub
from tests.acceptance.conftest import HomeAt
from tests.acceptance.test_jobs import calls
from tests.features.forge.github.conftest import PEM, PUBLIC

pytestmark = pytest.mark.slow
TOKEN = "github_pat_11ABCDEFG0aBcDeFgHiJkL_canary0123456789"
SETTINGS = """\
[forge]
kind = "github"
[forge.github]
repository = "owner/bot"
owner_id = {owner}
app_id = {app}
installation_id = {installation}
private_key_env = "BOT_KEY"
api_url = "{api}"
"""


@pytest.fixture
def there(tmp_path: Path) -> Iterator[FakeGitHub]:
    with FakeGitHub(tmp_path / "hosted.git", public_key=PUBLIC) as fake:
        fake.accounts[TOKEN] = Account(login="owner", id=OWNER_ID)
        yield fake


def push(home: HomeAt, there: FakeGitHub) -> None:
    """The owner pushes main, as the steps say."""
    subprocess.run(["git", "-C", home.workspace, "push", "-q", there.hosted.folder, "main"], check=True)


def approve(address: str, number: int) -> None:
    """The owner's review, sent as docs/github.md says: without a header that names JSON."""
    where, who = f"{address}/repos/owner/bot/pulls/{number}/reviews", {"Authorization": "Bearer owner-token"}
    asked = urllib.request.Request(where, data=b'{"event": "APPROVE"}', headers=who)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
        assert answer.status == 200


def test_the_fake_runs_as_a_program_with_the_key_of_an_app(home: HomeAt, tmp_path: Path) -> None:
    (tmp_path / "KEY.pem").write_text(PEM)
    program = [sys.executable, "-m", "coilclaw.sandbox.fake_github", tmp_path / "HUB", tmp_path / "KEY.pem", "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as fake:
        try:
            assert fake.stdout is not None
            address = fake.stdout.readline().strip()
            home.ok("secret", "set", "BOT_KEY", stdin=base64.b64encode(PEM.encode()).decode())
            home.configure(SETTINGS.format(owner=OWNER_ID, app=17, installation=4242, api=address))
            subprocess.run(["git", "-C", home.workspace, "push", "-q", tmp_path / "HUB", "main"], check=True)
            assert "Connected." in home.ok("bot", "connect").out
        finally:
            fake.terminate()


def test_from_an_empty_repository_to_the_first_merged_pull_request(home: HomeAt, there: FakeGitHub) -> None:
    steps = home.run("bot", "connect")
    assert (steps.rc, "Make a GitHub App" in steps.out) == (1, True)
    home.ok("secret", "set", "BOT_KEY", stdin=PEM.replace("\n", "\\n"))
    numbers = {"owner": OWNER_ID, "app": there.app_id, "installation": there.installation_id, "api": there.base_url}
    home.configure(SETTINGS.format(**numbers))
    assert "Push it once" in home.run("bot", "connect").out  # each step is tried: main is not there yet
    push(home, there)
    connected = home.ok("bot", "connect").out
    assert ("Connected." in connected, "bot setup --token" in connected) == (True, True)

    # The wall there: CODEOWNERS is asked about, the token is typed and not shown, main is protected.
    done = home.sit("bot", "setup", "--owner", "@owner", "--token", size=(160, 60))
    done = done.wait_for("Approve?").type("y\r").wait_for("Your token").type(f"{TOKEN}\r").end()
    assert (done.rc, TOKEN in done.out) == (0, False), done
    assert there.protection["main"].owners
    assert b"@owner" in there.hosted.git("show", "refs/heads/main:.github/CODEOWNERS")  # it got there before the wall
    listed = home.ok("bot", "setup", "--owner", "@owner").out
    assert "protect `main`" in listed

    # A job, its pull request there, the owner's review, and the merge.
    writes = calls(("file_write", {"path": "notes/a.md", "content": "by the job\n"}))
    home.ok("job", "create", "write a note")
    home.ok("worker", "--once", env=home.script(writes, {"text": "Done."}))
    home.ok("bot", "sync")
    (pull,) = there.pulls.values()
    assert f"{there.base_url}/owner/bot/pull/1" in home.ok("pr", "show", "1").out
    approve(there.base_url, pull.number)
    home.ok("bot", "sync")
    home.ok("worker", "--once")
    assert pull.merged_by is not None
    assert (home.workspace / "notes/a.md").read_text() == "by the job\n"
    status = home.ok("bot", "status").out
    assert ("in order:" in status, "requests left this hour" in status) == (True, True)
    kept = [file for file in home.root.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()]
    assert kept == []


@pytest.mark.parametrize("token", ["", "x", "stranger-token-0123456789abcdefghijklmnop"])
def test_a_token_that_is_none_or_somebody_else_s_sets_nothing_up(home: HomeAt, there: FakeGitHub, token: str) -> None:
    there.accounts["stranger-token-0123456789abcdefghijklmnop"] = there.accounts["stranger-token"]
    assert home.run("bot", "setup", "--token", stdin=token).rc == 2  # there is no GitHub yet
    numbers = {"owner": OWNER_ID, "app": there.app_id, "installation": there.installation_id, "api": there.base_url}
    home.configure(SETTINGS.format(**numbers))
    (home.workspace / ".github").mkdir(exist_ok=True)
    home.sit("bot", "setup", "--owner", "@owner", size=(160, 60)).wait_for("Approve?").type("y\r").end()
    assert home.run("bot", "setup", "--owner", "@owner", "--token", stdin=token).rc == 2
    assert there.writes() == []
