"""The exit codes, each by a real command: what a script around the executable may rely on."""

import sqlite3

import pytest

from coilclaw.sandbox.fake_openai import FakeOpenAI
from tests.acceptance.conftest import HomeAt

pytestmark = pytest.mark.slow


def test_0_done(home: HomeAt) -> None:
    assert home.run("--help").rc == 0
    assert home.run("--version").rc == 0
    assert home.run("agent", "-m", "hi").rc == 0
    assert home.tool("time", {}).rc == 0
    assert home.run("receipt", "verify").rc == 0


def test_0_when_the_agent_answered_although_calls_were_denied_or_wait(home: HomeAt) -> None:
    assert home.run("agent", "-m", "x", env=home.calling("file_read", {"path": "/etc/passwd"})).rc == 0
    waits = home.run("agent", "-m", "x", "--json", env=home.calling("file_write", {"path": "a", "content": "b"}))
    assert waits.rc == 0
    assert [action["status"] for action in waits.json()["actions"]] == ["pending"]
    home.ok("estop")
    assert home.run("agent", "-m", "x", env=home.calling("time", {})).rc == 0


def test_1_the_tool_failed(home: HomeAt) -> None:
    ran = home.tool("file_read", {"path": "nothing-here.txt"})
    assert ran.rc == 1
    assert "nothing-here.txt" in ran.err
    assert home.receipts()[-1]["status"] == "failed"


def test_1_the_command_in_the_box_failed(home: HomeAt) -> None:
    ran = home.tool("shell", {"command": "ls nothing-here"}, "--yes", "--output", "json")
    assert ran.rc == 1
    told = ran.json()
    assert (told["receipt"]["status"], told["result"]["code"]) == ("failed", "EXIT_NONZERO")
    assert told["result"]["exit"] != 0


def test_1_the_provider_failed(home: HomeAt) -> None:
    with FakeOpenAI(api_key="right") as fake:
        home.provider(fake.base_url)
        assert home.run("agent", "-m", "hi").rc == 1
        assert home.run("provider", "test").rc == 1
    assert home.run("agent", "-m", "hi").rc == 1  # now nobody listens there at all


def test_2_usage_or_config(home: HomeAt) -> None:
    assert home.run("no-such-command").rc == 2
    assert home.run("agent", "--no-such-option").rc == 2
    assert home.run("tool", "run", "time", "--json", "[]").rc == 2
    assert home.run("agent").rc == 2  # a conversation needs a terminal
    home.configure("[security]\nautonomy = 3\n")
    assert home.run("agent", "-m", "hi").rc == 2
    assert home.run("config", "validate").rc == 2


def test_3_denied_by_policy(home: HomeAt) -> None:
    assert home.tool("file_read", {"path": "/etc/passwd"}).rc == 3
    assert home.tool("shell", {"command": "rm -rf /"}, "--yes").rc == 3
    assert home.run("policy", "check", "--exit-code", "--json", '{"tool": "shell", "args": {"command": "reboot"}}').rc == 3


def test_4_approval_needed_or_refused(home: HomeAt) -> None:
    ran = home.tool("file_write", {"path": "a.txt", "content": "x"})
    assert ran.rc == 4
    assert "approval needed" in ran.err
    assert not (home.workspace / "a.txt").exists()
    (waiting,) = home.ok("approvals", "list", "--json").json()
    assert waiting["call"]["tool"] == "file_write"
    refused = home.sit("tool", "run", "file_write", "--json", '{"path": "a.txt", "content": "x"}')
    assert refused.wait_for("Approve? [y/N]").type("n\r").end().rc == 4
    assert not (home.workspace / "a.txt").exists()


def test_4_clearing_memory_at_a_terminal_defaults_to_no(home: HomeAt) -> None:
    home.ok("agent", "-m", "remember me")
    assert home.sit("memory", "clear").wait_for("[y/N]").type("\r").end().rc == 4
    assert home.run("memory", "clear").rc == 2  # nobody to ask, and no --yes
    assert home.messages()[0] == ("user", "remember me")
    assert home.run("memory", "clear", "--yes").rc == 0
    assert home.messages() == []


def test_5_stopped_by_estop(home: HomeAt) -> None:
    assert home.run("estop", "--status").rc == 0
    home.ok("estop")
    assert home.tool("time", {}).rc == 5
    assert home.run("estop", "--status").rc == 5


def test_6_ledger_broken(used: HomeAt) -> None:
    used.log.write_text("")
    ran = used.run("receipt", "verify")
    assert ran.rc == 6
    assert "truncated" in ran.out
    assert used.run("receipt", "verify", "--json").rc == 6


def test_7_storage(used: HomeAt) -> None:
    connection = sqlite3.connect(used.root / "memory.sqlite")
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert used.run("agent", "-m", "hi").rc == 7
    assert used.tool("time", {}).rc == 7


def test_130_interrupted_at_a_prompt(home: HomeAt) -> None:
    sitting = home.sit("tool", "run", "file_write", "--json", '{"path": "a.txt", "content": "x"}')
    assert sitting.wait_for("Approve? [y/N]").type("\x03").end().rc == 130
    assert not (home.workspace / "a.txt").exists()
    home.intact()


def test_a_reader_that_goes_away_is_no_error(home: HomeAt) -> None:
    import subprocess

    from tests.acceptance.conftest import COILCLAW

    line = f'"{COILCLAW}" tool list --json | head -c 1; "{COILCLAW}" config show | head -n 1'
    done = subprocess.run(["sh", "-c", line], env=home.environ, capture_output=True, text=True, check=False)
    assert done.stderr == ""
