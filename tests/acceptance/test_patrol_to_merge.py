"""The whole loop with the real executable: from a seeded bug that a patrol finds to a merge in the owner's folder."""

from pathlib import Path

import pytest

from tests.acceptance.conftest import HomeAt, until
from tests.features.patrols.patrol_world import BUG, CHECK
from tests.features.runner.repo_world import git

pytestmark = pytest.mark.slow
INSTRUCTIONS = "write code_of_site.py def add(a, b): return a + b\nrun git commit -qam mend\n"


@pytest.fixture
def site(home: HomeAt):
    folder = home.workspace.parent / "site"
    folder.mkdir()
    git(folder, "init", "-q")
    for name, text in {"code_of_site.py": BUG, "check.py": CHECK, "FAKE.md": INSTRUCTIONS}.items():
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    yield folder
    for each in home.run("session", "list", "--json").json():
        home.run("session", "stop", each["session_id"])


def configure(home: HomeAt, folder: Path, more: str = "") -> None:
    home.configure(
        f'[runner]\nfake_provider = true\n[repos.site]\npath = "{folder}"\nopens_pr = true\n{more}'
        '[repos.site.patrols]\ntest = "python3 check.py"\nsuggest = "fake"\n'
    )


def serve(home: HomeAt) -> None:
    home.sit("up", "--addr", "127.0.0.1:0").wait_for("Press Ctrl-C")


def pulls(home: HomeAt) -> list[dict[str, object]]:
    return list(home.ok("pr", "list", "--state", "all", "--json").json())


def asked(home: HomeAt) -> bool:
    return any(each["action_id"] for each in pulls(home))


def executed(home: HomeAt) -> set[str]:
    return {receipt["tool"] for receipt in home.receipts() if receipt["status"] == "allowed"}


def test_patrol_alert_quest_session_draft_approval_merge(home: HomeAt, site: Path) -> None:
    configure(home, site)
    before = git(site, "rev-parse", "main")
    assert home.run("patrol", "run", "site", "test").rc == 1
    (alert,) = home.ok("alert", "list", "--json").json()
    assert alert["severity"] == "error"
    (quest,) = home.ok("quest", "list", "--json").json()
    serve(home)
    assert "is taken" in home.ok("quest", "take", quest["quest_id"], "--provider", "fake").out
    until(lambda: pulls(home), "the draft")
    until(lambda: asked(home), "the merge question")
    until(lambda: home.ok("quest", "list", "--all", "--json").json()[0]["state"] == "done", "the quest")
    (pull,) = pulls(home)
    assert (pull["repository"], pull["target"], pull["draft"], pull["state"]) == ("site", "main", False, "OPEN")
    assert "+def add(a, b): return a + b" in home.ok("pr", "diff", "1").out
    assert "main of site" in home.ok("pr", "show", "1").out
    assert git(site, "rev-parse", "main") == before, "nothing reached the repository before the owner's yes"

    merged = home.sit("pr", "merge", "1", size=(160, 200)).wait_for("Approve?").type("y\r").end()
    assert merged.rc == 0, merged
    assert "into main of site" in merged.out
    assert git(site, "rev-parse", "main^1") == before
    assert (site / "code_of_site.py").read_text() == "def add(a, b): return a + b"
    assert git(site, "status", "--porcelain") == ""
    assert home.run("patrol", "run", "site", "test").rc == 0
    assert home.ok("alert", "list", "--json").json() == []
    wanted = {"patrol_run", "session_start", "session_write", "session_command", "session_draft", "pr_merge"}
    assert wanted <= executed(home)
    home.intact()


def test_suggest_and_auto_merge_close_the_loop_by_the_owners_configuration(home: HomeAt, site: Path) -> None:
    configure(home, site, "auto_merge = true\n")
    assert home.run("patrol", "run", "site", "test").rc == 1
    serve(home)
    assert home.run("patrol", "run", "site", "suggest").rc == 0
    ((action,),) = home.rows("SELECT action_id FROM coding_sessions")
    assert pulls(home) == []
    started = home.sit("approvals", "approve", action, size=(160, 200)).wait_for("Approve?").type("y\r").end()
    assert started.rc == 0, started
    until(lambda: any(each["state"] == "MERGED" for each in pulls(home)), "the merge")
    assert (site / "code_of_site.py").read_text().strip() == "def add(a, b): return a + b"
    assert home.run("patrol", "run", "site", "test").rc == 0
    home.intact()
