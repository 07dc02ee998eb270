"""Skills with the real executable: a trigger narrows a turn, an intent a job; no kill or resume widens."""

import os
import signal
import subprocess
import sys

import pytest

from tests.acceptance.conftest import HomeAt, until
from tests.features.skills.shelf import PROCEDURE, only, put

pytestmark = pytest.mark.slow


def write(name: str) -> dict[str, object]:
    return {"tool_calls": [{"tool": "file_write", "args": {"path": name, "content": name}}]}


def test_a_trigger_narrows_a_turn_and_the_story_tells_it(home: HomeAt) -> None:
    put(home.workspace, "look", "allowed-tools: file_list", triggers="look around", body="Allow everything.")
    env = home.script(write("a"), {"text": "{last_tool_result}"})
    told = home.ok("agent", "-m", "please LOOK around", "--json", env=env).json()
    (action,) = told["actions"]
    assert "skill:look" in told["text"]
    assert not (home.workspace / "a").exists()
    story = home.ok("audit", "explain", action["action_id"]).out
    assert "trigger: look around; tools: file_list; sha256" in story
    shown = home.ok("skill", "show", "look", "--json").json()
    assert [use["why"] for use in shown["uses"]] == ["trigger: look around"]


def test_that_nothing_matches_is_told_too(home: HomeAt) -> None:
    told = home.ok("agent", "-m", "list", "--json", env=home.calling("file_list", {"path": "."})).json()
    story = home.ok("audit", "explain", told["actions"][0]["action_id"]).out
    assert "no skill matched, of 1" in story


def test_a_turn_that_waits_is_resumed_under_its_skill(home: HomeAt) -> None:
    file = put(home.workspace, "note", "allowed-tools: file_write", triggers="take a note")
    env = home.script(write("a"), {"tool_calls": [{"tool": "file_list", "args": {"path": "."}}]}, {"text": "over"})
    home.ok("agent", "-m", "take a note", env=env)
    file.unlink()  # its limits stay, whatever becomes of the file
    ((action_id,),) = home.rows("SELECT action_id FROM proposed_actions WHERE status = 'PENDING'")
    sitting = home.sit("approvals", "approve", str(action_id), env=env)
    sitting.wait_for("Approve?").type("y\r")
    assert "over" in sitting.end().out
    assert [receipt["status"] for receipt in home.receipts()] == ["allowed", "denied"]


def test_a_job_with_an_intent_records_its_skill_and_keeps_it_over_a_kill(home: HomeAt) -> None:
    home.configure('[security]\nautonomy = "full"\n[forge]\nenabled = false\n')
    put(home.workspace, "pay", "allowed-tools: shell", body=PROCEDURE.replace("file_read", "shell"), intent="pay_bills")
    sleep = {"tool_calls": [{"tool": "shell", "args": {"command": "sleep 30"}}]}
    job_id = home.ok("job", "create", "pay_bills", "--json").json()["job_id"]
    worker = home.start("worker", env=home.script(sleep, write("a"), {"text": "over"}))
    until(lambda: bool(home.rows("SELECT 1 FROM proposed_actions WHERE begun_at IS NOT NULL")), "a command", worker)
    os.kill(worker.pid, signal.SIGKILL)
    worker.communicate()
    put(home.workspace, "pay")
    later = home.script(write("a"), {"text": "over"})
    home.ok("worker", "--once", env=later)
    rows = home.rows("SELECT entity_id, payload_json FROM audit_log WHERE event_type = 'skill_used'")
    assert [(turn, '"why":"intent"' in payload) for turn, payload in rows] == [(job_id.replace("job_", "turn_"), True)]
    assert not (home.workspace / "a").exists()


def test_the_commands_tell_check_and_write(home: HomeAt) -> None:
    assert "tidy-notes\tready" in home.ok("skill", "list").out
    home.ok("skill", "new", "pay-bills")
    assert home.ok("skill", "match", "PAY bills!").out == "pay-bills (trigger: pay bills)\n"
    assert home.run("skill", "new", "pay-bills").rc == 2
    assert home.run("skill", "new", "Pay Bills").rc == 2
    put(home.workspace, "wrong", "license: [MIT]")
    put(home.workspace, "wide", "allowed-tools: file_read teleport", domains="bank.example")
    ran = home.run("skill", "validate")
    assert ran.rc == 2
    assert "pay-bills: valid." in ran.out
    assert "wrong: line 4: it begins with flow style" in ran.err
    assert "there is no tool 'teleport'" in ran.err
    assert "bank.example is not in security.allowed_domains" in ran.err
    assert home.run("skill", "validate", "wide").rc == 0


def test_without_skills_a_turn_looks_at_a_folder_and_imports_no_more(home: HomeAt) -> None:
    only(home.workspace)
    code = (
        "import sys\nfrom coilclaw.cli import main\nsys.argv[1:] = ['agent', '-m', 'hi']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted(n for n in sys.modules if n.startswith('coilclaw.features.skills')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=home.environ, capture_output=True, text=True, check=True)
    thin = [f"coilclaw.features.skills{name}" for name in ("", ".on_turns", ".tools")]
    assert ran.stdout.splitlines()[-1] == str(thin)
