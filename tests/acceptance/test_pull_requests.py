"""Seed 1 §7.1 and §7.4 with the real executable: from a request to a merged, deployed and audited change."""

import json
import os
import subprocess

import pytest

from tests.acceptance.conftest import HomeAt

pytestmark = pytest.mark.slow

NOTE = {"tool_calls": [{"tool": "file_write", "args": {"path": "notes/a.md", "content": "by the job\n"}}]}
INTEL = {"tool_calls": [{"tool": "file_write", "args": {"path": "intel/2026-11/a.md", "content": "news\n"}}]}
DONE = {"text": "I wrote it."}


def state(home: HomeAt, job_id: str) -> str:
    return home.rows("SELECT state FROM jobs WHERE job_id = ?", job_id)[0][0]


def make(home: HomeAt, goal: str) -> str:
    return home.ok("job", "create", goal, "--json").json()["job_id"]


def git(folder: object, *args: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", "-C", str(folder), *args], env=environ, capture_output=True, text=True, check=True)
    return done.stdout


def question(home: HomeAt) -> str:
    ((action_id,),) = home.rows("SELECT action_id FROM proposed_actions WHERE tool = 'pr_merge' AND status = 'PENDING'")
    return action_id


def test_a_request_becomes_a_pull_request_and_the_owners_yes_puts_it_in_force(home: HomeAt) -> None:
    job_id = make(home, "write a note")
    home.ok("worker", "--once", env=home.script(NOTE, DONE))
    assert state(home, job_id) == "WAITING_APPROVAL"
    assert not (home.workspace / "notes/a.md").exists()
    # Nothing but the terminal says yes, and not before everything was shown.
    home.run("approvals", "approve", question(home), "--yes")
    assert state(home, job_id) == "WAITING_APPROVAL"
    sitting = home.sit("approvals", "approve", question(home))
    assert sitting.wait_for("Approve? [").type("y\r").end().rc == 0
    home.ok("worker", "--once")
    assert state(home, job_id) == "DONE"
    assert (home.workspace / "notes/a.md").read_text() == "by the job\n"
    assert git(home.workspace, "status", "--porcelain") == ""
    home.intact()
    evidence = json.loads(git(home.workspace, "show", f"main:audit/evidence/{job_id}.json"))
    assert [each["path"] for each in evidence["files"]] == ["notes/a.md"]
    assert {each["status"] for each in evidence["receipts"]} == {"allowed"}
    merge = git(home.workspace, "log", "-1", "--format=%B")
    assert f"Job: {job_id}" in merge
    assert "Approved-By: terminal" in merge


def test_strict_asks_for_logs_too_and_the_whitelist_merges_them(home: HomeAt) -> None:
    job_id = make(home, "write intel")
    home.ok("worker", "--once", env=home.script(INTEL, DONE))
    assert state(home, job_id) == "WAITING_APPROVAL"
    home.configure('[forge]\nmerge_mode = "whitelist"\n')
    other = make(home, "write intel again")
    again = {"tool_calls": [{"tool": "file_write", "args": {"path": "intel/2026-11/b.md", "content": "more\n"}}]}
    home.ok("worker", "--once", env=home.script(again, DONE))
    assert state(home, other) == "DONE"
    assert (home.workspace / "intel/2026-11/b.md").read_text() == "more\n"
    beyond = make(home, "write a note")
    home.ok("worker", "--once", env=home.script(NOTE, DONE))
    assert state(home, beyond) == "WAITING_APPROVAL", "what is not listed waits"
    home.intact()
