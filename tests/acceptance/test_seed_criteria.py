"""The five acceptance criteria of the approval backend, each through the real executable."""

import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from coilclaw.sandbox.fake_receiver import Receiver, serve
from tests.acceptance.conftest import HomeAt, one_sentence, until
from tests.acceptance.test_crash import kill

pytestmark = pytest.mark.slow

SEND = {"target": "door", "payload": {"text": "hello"}}


@pytest.fixture
def received(home: HomeAt, tmp_path: Path) -> Iterator[Receiver]:
    """A receiver that counts, configured as the webhook `door`."""
    receiver = Receiver(tmp_path / "received.jsonl", deduplicates=False, lookup=False)
    server = serve(receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home.configure(f'[webhooks.door]\nurl = "http://127.0.0.1:{server.server_port}/in"\n')
    yield receiver
    server.shutdown()
    server.server_close()


def the_action(home: HomeAt) -> str:
    return home.rows("SELECT action_id FROM proposed_actions WHERE tool = 'webhook_send' ORDER BY rowid DESC")[0][0]


def events_of(home: HomeAt, action: str) -> list[str]:
    return [row[0] for row in home.rows("SELECT event_type FROM audit_log WHERE entity_id = ? ORDER BY seq", action)]


def approve(home: HomeAt, action: str) -> None:
    sitting = home.sit("approvals", "approve", action)
    assert sitting.wait_for("Approve? [y").type("y\r").end().rc == 0, sitting.shown


def test_no_external_side_effect_can_execute_without_explicit_approval_and_audit_trail(
    home: HomeAt, received: Receiver
) -> None:
    # Whoever proposes it and however eagerly, it waits; nothing that runs by itself carries it out.
    home.ok("agent", "-m", "send it", "--yes", env=home.calling("webhook_send", SEND))
    assert home.tool("webhook_send", SEND, "--yes").rc == 4
    home.ok("worker", "--once")
    assert received.keys() == []
    assert home.rows("SELECT DISTINCT status, approved_by FROM proposed_actions") == [("PENDING", None)]
    action = the_action(home)
    assert home.run("approvals", "approve", action).rc == 2  # not by a program
    assert received.keys() == []
    approve(home, action)
    assert len(received.keys()) == 1
    told = [event for event in events_of(home, action) if event != "notification_added"]
    assert told == ["tool_requested", "approval_needed", "tool_approved", "tool_begun", "tool_completed"]
    story = home.ok("audit", "explain", action, "--json").json()
    assert (story["approval"]["approved_by"], story["agrees"]) == ("terminal", True)
    assert [receipt["action_id"] for receipt in home.receipts()] == [action]
    home.ok("worker", "--once")
    assert len(received.keys()) == 1
    home.intact()


def test_approval_ttl_is_enforced_with_automatic_expiration_rejection_at_24h(home: HomeAt, received: Receiver) -> None:
    assert home.tool("webhook_send", SEND).rc == 4
    action = the_action(home)
    made, expires = home.rows("SELECT created_at, expires_at FROM proposed_actions")[0]
    assert _moment(expires) - _moment(made) == timedelta(hours=24)
    home.ok("worker", "--once")
    assert home.rows("SELECT status FROM proposed_actions") == [("PENDING",)]
    _a_day_goes_by(home)
    home.ok("worker", "--once")
    assert home.rows("SELECT status, rejection_reason FROM proposed_actions") == [("REJECTED", "expired")]
    assert [(receipt["status"], receipt["code"]) for receipt in home.receipts()] == [("denied", "EXPIRED")]
    late = home.sit("approvals", "approve", action).end()
    assert (late.rc, "expired" in late.out) == (2, True)
    assert received.keys() == []
    home.intact()


def test_a_yes_that_was_given_in_time_is_not_carried_out_after_24h(home: HomeAt, received: Receiver) -> None:
    home.configure((home.root / "config.toml").read_text() + "[executor]\nbackoff_seconds = 0.1\n")
    assert home.tool("webhook_send", {"target": "door", "payload": {"answers": [429]}}).rc == 4
    home.sit("approvals", "approve", the_action(home)).wait_for("Approve? [y").type("y\r").end()
    assert home.rows("SELECT status FROM proposed_actions") == [("APPROVED",)]  # to be tried again
    _a_day_goes_by(home)
    home.ok("worker", "--once")
    assert home.rows("SELECT status, rejection_reason FROM proposed_actions") == [("REJECTED", "expired")]
    assert received.keys() == []


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _a_day_goes_by(home: HomeAt) -> None:
    """The executable has only the real clock, so what it stored is moved back instead."""
    import sqlite3

    connection = sqlite3.connect(home.root / "memory.sqlite")
    for column in ("created_at", "expires_at", "next_attempt_at"):
        ((value,),) = connection.execute(f"SELECT {column} FROM proposed_actions").fetchall()
        if value is None:
            continue
        earlier = (_moment(value) - timedelta(hours=24, seconds=1)).isoformat(timespec="milliseconds")
        connection.execute(f"UPDATE proposed_actions SET {column} = ?", (earlier.replace("+00:00", "Z"),))
    connection.commit()
    connection.close()


def test_idempotency_key_reuse_with_different_args_fails_with_conflict(home: HomeAt, received: Receiver) -> None:
    first = home.run("tool", "run", "webhook_send", "--key", "mine", "--json", json.dumps(SEND))
    assert first.rc == 4
    action = the_action(home)
    other = json.dumps({"target": "door", "payload": {"text": "goodbye"}})
    one_sentence(home.run("tool", "run", "webhook_send", "--key", "mine", "--json", other), 3, "mine", "new key")
    approve(home, action)
    one_sentence(home.run("tool", "run", "webhook_send", "--key", "mine", "--json", other), 3, "mine")
    assert home.rows("SELECT count(*) FROM audit_log WHERE event_type = 'idempotency_conflict'") == [(2,)]
    # The same call with its key is the same action, and is not done again.
    again = home.run("tool", "run", "webhook_send", "--key", "mine", "--json", json.dumps(SEND), "--output", "json")
    assert (again.rc, again.json()["action_id"]) == (0, action)
    assert received.keys() == ["mine"]
    assert home.rows("SELECT count(*) FROM proposed_actions") == [(1,)]


def _write(name: str) -> dict[str, object]:
    return {"tool_calls": [{"tool": "file_write", "args": {"path": f"intel/{name}.md", "content": name}}]}


def test_jobs_checkpoint_and_resume_correctly_after_restart_and_failure(home: HomeAt) -> None:
    home.configure("[forge]\nenabled = false\n")
    made = home.ok("job", "create", "collect two things", "--json").json()
    stuck = home.script(_write("one"), {"text": "never", "delay": 600})
    process = home.start("worker", env=stuck)
    until(lambda: (home.workspace / "intel" / "one.md").exists() and home.receipts(), "the first step", process)
    kill(process)
    home.intact()
    (checkpoint,) = home.rows("SELECT checkpoint_blob FROM jobs")[0]
    assert checkpoint
    home.ok("worker", "--once", env=home.script(_write("one"), _write("two"), {"text": "both are there"}))
    job = home.ok("job", "show", made["job_id"], "--json").json()
    assert job["state"] == "DONE"
    # What was done before the crash was kept, known to what came after, and not done again.
    assert [receipt["tool"] for receipt in home.receipts()] == ["file_write", "file_write"]
    paths = [json.loads(row[0])["path"] for row in home.rows("SELECT args_json FROM proposed_actions ORDER BY rowid")]
    assert paths == ["intel/one.md", "intel/two.md"]
    assert home.rows("SELECT count(*) FROM messages WHERE role = 'tool'") == [(2,)]
    assert home.ok("worker", "--once").out.startswith("Worked on 0 jobs")
    home.intact()


def test_autonomous_follow_up_loops_run_internally_without_violating_external_controls(
    home: HomeAt, received: Receiver
) -> None:
    home.configure((home.root / "config.toml").read_text() + "[forge]\nenabled = false\n")
    home.ok("job", "create", "look, remember, tell the world", "--json")
    note = {"tool_calls": [{"tool": "notes_write", "args": {"title": "plan", "content": "remember this"}}]}
    send = {"tool_calls": [{"tool": "webhook_send", "args": SEND}]}
    home.ok("worker", "--once", env=home.script(note, _write("found"), send, {"text": "never said"}))
    # Internal work went on by itself; the external effect is only proposed, and the job waits for it.
    assert home.rows("SELECT state FROM jobs") == [("WAITING_APPROVAL",)]
    assert home.rows("SELECT tool, status FROM proposed_actions ORDER BY rowid") == [
        ("notes_write", "EXECUTED"),
        ("file_write", "EXECUTED"),
        ("webhook_send", "PENDING"),
    ]
    for _ in range(2):
        home.ok("worker", "--once")
    assert received.keys() == []
    home.ok("approvals", "reject", the_action(home), "--reason", "not to the world")
    home.ok("worker", "--once", env=home.script({"text": "then I keep it to myself"}))
    assert home.rows("SELECT state FROM jobs") == [("DONE",)]
    assert received.keys() == []
    assert [receipt["status"] for receipt in home.receipts()] == ["allowed", "allowed", "denied"]
    home.intact()
