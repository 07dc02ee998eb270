"""Through the real executable: a command in the background lives as long as its process, and always has its receipt."""

import signal
from typing import Any

import pytest

from tests.acceptance.conftest import PATIENCE, HomeAt, until

pytestmark = pytest.mark.slow


def build(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"tool": "shell", "args": {"command": command, "background": True}}]}


def test_agent_waits_for_what_still_runs_and_says_how_it_ended(home: HomeAt) -> None:
    env = home.script(build("sleep 1; echo built > built.txt"), {"text": "it runs"})
    ran = home.ok("agent", "--yes", "-m", "build it", env=env)
    assert ran.out == "it runs\n"
    assert "Waiting for 1 background command" in ran.err
    assert "exit 0" in ran.err
    assert (home.workspace / "built.txt").read_text() == "built\n"
    assert [each["status"] for each in home.receipts()] == ["allowed"]


def test_ctrl_c_while_it_waits_ends_the_command_with_its_receipt(home: HomeAt) -> None:
    env = home.script(build("sleep 300"), {"text": "it runs"})
    agent = home.start("agent", "--yes", "-m", "build it", env=env)
    assert agent.stderr is not None
    assert any("Waiting for 1 background command" in line for line in agent.stderr)
    agent.send_signal(signal.SIGINT)
    assert agent.wait(PATIENCE) == 0
    assert [(each["status"], each["code"]) for each in home.receipts()] == [("failed", "CANCELLED")]


def test_owner_stops_it_from_another_terminal(home: HomeAt) -> None:
    env = home.script(build("sleep 300"), {"text": "it runs"})
    agent = home.start("agent", "--yes", "-m", "build it", env=env)
    until(lambda: home.rows("SELECT 1 FROM turns WHERE state = 'ANSWERED'"), "the answer", agent)
    ((action_id,),) = home.rows("SELECT action_id FROM proposed_actions")
    stopped = home.ok("actions", "stop", action_id)
    assert stopped.out == f"{action_id} failed.\n"
    assert agent.wait(PATIENCE) == 0
    assert [(each["status"], each["code"]) for each in home.receipts()] == [("failed", "CANCELLED")]
    assert home.rows("SELECT count(*) FROM audit_log WHERE event_type = 'tool_stopped'") == [(1,)]
    again = home.run("actions", "stop", action_id)
    assert again.rc == 2
    assert "does not run" in again.err
    home.intact()


def test_worker_that_is_told_to_end_takes_its_commands_to_their_receipts(home: HomeAt) -> None:
    home.configure('[security]\nautonomy = "full"\nallowed_commands = ["sleep"]\n[forge]\nenabled = false\n')
    asks = {"tool": "file_write", "args": {"path": "policies/a.toml", "content": "x"}}
    env = home.script({"tool_calls": [*build("sleep 300")["tool_calls"], asks]})
    home.ok("job", "create", "build it", env=env)
    worker = home.start("worker", env=env)
    until(lambda: home.rows("SELECT 1 FROM jobs WHERE state = 'WAITING_APPROVAL'"), "the job waits", worker)
    assert home.rows("SELECT count(*) FROM proposed_actions WHERE begun_at IS NOT NULL") == [(1,)]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
    assert [(each["status"], each["code"]) for each in home.receipts()] == [("failed", "CANCELLED")]
