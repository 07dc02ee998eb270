"""Pull requests with the real executable: from a job to a merged change and back, at a real terminal."""

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import HomeAt, one_sentence
from tests.acceptance.test_jobs import calls
from tests.acceptance.test_owner_proof import register
from tests.acceptance.test_repl import PROMPT

pytestmark = pytest.mark.slow

HIDDEN = "notes\u202e\x1b[2J\n"
WRITES = calls(("file_write", {"path": "notes/a.md", "content": HIDDEN}))


def git(folder: Path, *args: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *args], check=True, capture_output=True, text=True).stdout


def with_pull(home: HomeAt, *replies: dict[str, object], goal: str = "write \x1b[31ma\u202e note") -> str:
    """A job that ended in pull request 1; its id."""
    env = home.script(*(replies or (WRITES, {"text": "done"})))
    made = home.ok("job", "create", goal, "--json").json()["job_id"]
    home.ok("worker", "--once", env=env)
    return str(made)


def test_from_a_job_to_a_merged_change_and_back(home: HomeAt) -> None:
    job = with_pull(home)
    (listed,) = home.ok("pr", "list", "--json").json()
    assert (listed["number"], listed["state"], listed["risk"], listed["checks"]) == (1, "OPEN", "R2", "passed")
    assert listed["job_id"] == job
    for command in (("list",), ("show", "1"), ("diff", "1"), ("checks", "1")):
        told = home.ok("pr", *command).out
        assert "\x1b" not in told, command
        assert "\u202e" not in told, command
    assert "⟨U+202E⟩" in home.ok("pr", "diff", "1", "notes/a.md").out
    files = [line.split(" b/")[1] for line in home.ok("pr", "diff", "1").out.splitlines() if line.startswith("diff --")]
    assert [path.split("/")[0] for path in files][-3:] == ["audit", "audit", "jobs"]
    assert files[0].startswith("notes/")
    assert "notes/a.md" in home.ok("pr", "show", "1").out
    for command in ("show", "diff", "checks"):
        assert home.ok("pr", command, "last").out == home.ok("pr", command, "1").out
    named = home.ok("job", "show", "last", "--json").json()["pull"]
    assert named == {"number": 1, "state": "OPEN"}
    assert "#1, open" in home.ok("job", "show", job).out
    assert not (home.workspace / "notes/a.md").exists()

    sitting = home.sit("pr", "merge", "1", size=(160, 60))
    while sitting.wait_for_one("Enter: more", "Approve?") != "Approve?":
        sitting.type("\r")
    assert "+notes" in sitting.shown
    merged = sitting.type("y\r").end()
    assert merged.rc == 0, merged
    assert "and deployed" in merged.out
    assert (home.workspace / "notes/a.md").read_text() == HIDDEN
    assert home.rows("SELECT state FROM jobs") == [("DONE",)]
    (newest, *_) = home.ok("bot", "log", "--json").json()
    assert (newest["allowed_by"], newest["subject"].startswith("Merge #1: ")) == ("terminal", True)
    one_sentence(home.run("pr", "reopen", "1"), 2, "MERGED")
    assert "question:" not in home.ok("pr", "show", "1").out

    assert "#2 takes back #1" in home.ok("pr", "revert", "1").out
    back = home.sit("pr", "merge", "2", size=(160, 200)).wait_for("Approve?").type("y\r").end()
    assert back.rc == 0, back
    assert not (home.workspace / "notes/a.md").exists()
    assert (home.workspace / "audit/evidence" / f"{job}.json").exists()
    assert git(home.workspace, "status", "--porcelain") == ""
    found = home.run("bot", "verify", "--json").json()["findings"]
    assert [each for each in found if each["path"] != "heads.jsonl"] == []  # heads are signed and anchored elsewhere
    home.intact()


def test_a_merge_is_answered_by_the_owner_at_a_terminal_only(home: HomeAt) -> None:
    with_pull(home)
    ((action,),) = home.rows("SELECT action_id FROM pull_requests")
    for args in (("pr", "approve", "1"), ("pr", "merge", "1"), ("approvals", "approve", action)):
        one_sentence(home.run(*args), 2, "interactive terminal")
    for args in (("pr", "approve", "1", "--yes"), ("pr", "merge", "--yes", "1")):
        assert home.run(*args).rc == 2  # there is no such option
    ran = home.tool("pr_merge", {"number": 1}, "--yes")
    assert ran.rc == 3, ran
    assert home.rows("SELECT state FROM pull_requests") == [("OPEN",)]
    no = home.sit("pr", "approve", "1", size=(160, 200)).wait_for("Approve?").type("\r").end()
    assert no.rc == 4
    assert home.rows("SELECT state FROM pull_requests WHERE state = 'MERGED'") == []


def test_what_governs_needs_the_passkey_once_there_is_one(home: HomeAt) -> None:
    with_pull(home, calls(("file_write", {"path": "SYSTEM.md", "content": "be brief\n"})), {"text": "done"})
    register(home)
    ran = home.sit("pr", "merge", "1").end()
    assert ran.rc != 0
    assert "passkey" in ran.out
    assert home.rows("SELECT state FROM pull_requests") == [("OPEN",)]


def test_rejecting_closing_and_asking_for_changes(home: HomeAt) -> None:
    job = with_pull(home)
    assert "goes on" in home.ok("pr", "changes", "1", "make it shorter").out
    shorter = calls(("file_write", {"path": "notes/a.md", "content": "n\n"}))
    home.ok("worker", "--once", env=home.script(shorter, {"text": "shorter"}))
    assert "+n\n" in home.ok("pr", "diff", "1", "notes/a.md").out
    assert "#1 is closed" in home.ok("pr", "reject", "1", "--reason", "no more").out
    assert home.rows("SELECT state FROM jobs") == [("CANCELLED",)]
    one_sentence(home.run("pr", "reopen", "1"), 2, "CANCELLED", "coilclaw job create")
    one_sentence(home.run("pr", "approve", "9"), 2)
    with_pull(home)
    assert "#2 is closed" in home.ok("pr", "close", "2", "--reason", "not now").out
    assert [row["number"] for row in home.ok("pr", "list", "--state", "closed", "--json").json()] == [2, 1]
    assert home.ok("pr", "list", "--json").json() == []
    assert job in home.ok("pr", "show", "1").out


def test_the_modes_at_the_terminal(home: HomeAt) -> None:
    assert home.ok("bot", "mode").out == "strict\n"
    one_sentence(home.run("bot", "mode", "yolo"), 2, "--for")
    one_sentence(home.run("bot", "mode", "yolo", "--for", "25h"), 2, "24h")
    one_sentence(home.run("bot", "mode", "yolo", "--for", "8h"), 2, "interactive")
    assert home.sit("bot", "mode", "yolo", "--for", "8h").wait_for("Type yolo").type("y\r").end().rc == 4
    sitting = home.sit("bot", "mode", "yolo", "--for", "8h", size=(160, 60))
    sitting.wait_for("Type yolo").type("yolo\r")
    ended = sitting.wait_for("Approve?").type("y\r").end()
    assert (ended.rc, "set the merge mode to yolo for 8 hours" in ended.out) == (0, True), ended.out
    shown = home.sit("pr", "list").end().out
    assert "\x1b[31mYOLO" in shown
    for words in (("bot", "status"), ("approvals", "list"), ("job", "list"), ("worker", "--once")):
        assert "YOLO" in home.run(*words).err
    assert home.ok("bot", "status", "--json").json()["mode"] == "yolo"
    sitting = home.sit("agent")
    sitting.wait_for("YOLO").wait_for(PROMPT).type("\x04").end()
    home.ok("estop")
    assert home.sit("estop", "--clear").wait_for("Clear ESTOP").type("y\r").end().rc == 0
    assert home.ok("bot", "mode").out == "strict\n"


def test_tightening_needs_no_proof(home: HomeAt) -> None:
    home.configure('[forge]\nmerge_mode = "whitelist"\n')
    register(home)
    assert home.ok("bot", "mode").out == "whitelist\n"
    home.ok("bot", "mode", "strict")
    assert home.ok("bot", "mode").out == "strict\n"
    assert 'merge_mode = "strict"' in (home.root / "config.toml").read_text()
    assert home.run("bot", "mode", "whitelist").rc == 4  # it waits for the passkey
    assert home.ok("bot", "mode").out == "strict\n"


def test_tightening_works_while_everything_is_stopped(home: HomeAt) -> None:
    home.configure('[forge]\nmerge_mode = "whitelist"\n')
    home.ok("estop")
    home.ok("bot", "mode", "strict")
    assert home.ok("bot", "mode").out == "strict\n"


def test_setup_commit_and_intel(home: HomeAt) -> None:
    assert home.run("bot", "setup").rc == 4  # nobody to ask: it waits
    assert home.run("bot", "setup", "--owner", "a b").rc == 2
    done = home.sit("bot", "setup", "--owner", "@me", size=(160, 60)).wait_for("Approve?").type("y\r").end()
    assert done.rc == 0, done
    assert "/SYSTEM.md @me" in (home.workspace / ".github/CODEOWNERS").read_text()
    assert "as it should be" in home.ok("bot", "setup", "--owner", "@me").out
    (home.workspace / "intel").mkdir(exist_ok=True)
    (home.workspace / "intel/x\u202e.md").write_text("found \x1b[2J\n")
    before = home.ok("intel", "list", "--json").json()
    assert all("x" not in each["path"] for each in before)
    assert "Committed" in home.ok("bot", "commit").out
    assert "nothing had changed" in home.ok("bot", "commit").out
    assert "x⟨U+202E⟩.md" in home.ok("intel", "list").out
    assert home.ok("intel", "show", "x\u202e.md").out == "found ⟨U+001B⟩[2J\n"
    one_sentence(home.run("intel", "show", "../SYSTEM.md"), 2, "intel list")
    assert home.ok("bot", "log", "--json").json()[0]["allowed_by"]
