"""The ten acceptance scenarios, each as Given, When, Then, with the real executable in a temporary home."""

import json
import socket
from collections.abc import Callable

import pytest

from tests.acceptance.conftest import HomeAt, Ran

Terminal = Callable[..., Ran]


def test_1_init_creates_the_expected_files(empty: HomeAt) -> None:
    assert not empty.root.exists()
    made = empty.run("init")
    assert made.rc == 0, made
    assert (empty.root / "config.toml").is_file()
    assert (empty.root / "memory.sqlite").is_file()
    assert empty.workspace.is_dir()
    assert (empty.workspace / ".git").is_dir()
    assert empty.root.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (empty.root / "keys").iterdir()} == {0o600}
    # Safe to repeat: nothing the owner changed is put back.
    (empty.root / "config.toml").write_text('default_provider = "local"\n')
    (empty.workspace / "SYSTEM.md").write_text("Mine.\n")
    again = empty.run("init")
    assert again.rc == 0, again
    assert "created" not in again.out
    assert (empty.root / "config.toml").read_text() == 'default_provider = "local"\n'
    assert (empty.workspace / "SYSTEM.md").read_text() == "Mine.\n"


def test_2_config_validation_catches_an_invalid_autonomy(home: HomeAt) -> None:
    home.configure('[security]\nautonomy = "godmode"\n')
    ran = home.run("config", "validate")
    assert ran.rc == 2
    for allowed in ("readonly", "supervised", "full"):
        assert allowed in ran.err
    assert "security.autonomy" in ran.err
    assert str(home.root / "config.toml") in ran.err


def test_3_a_mock_provider_answers_in_text(home: HomeAt) -> None:
    ran = home.run("agent", "-m", "hi", env=home.script({"text": "hello"}))
    assert ran.rc == 0
    assert "hello" in ran.out
    (conversation,) = home.ok("memory", "list", "--json").json()
    said = home.ok("memory", "show", conversation["thread_id"], "--json").json()
    assert [(turn["role"], turn["content"]) for turn in said] == [("user", "hi"), ("assistant", "hello")]
    assert said[1]["provider"] == "local"
    assert said[1]["model"] == "mock"
    assert said[0]["turn_id"] == said[1]["turn_id"]


def test_4_the_model_triggers_file_list(home: HomeAt) -> None:
    (home.workspace / "quarterly-figures.csv").write_text("1\n")
    ran = home.run(
        "agent", "-m", "list files", env=home.calling("file_list", {"path": "."}, "I see {last_tool_result}")
    )
    assert ran.rc == 0
    assert "I see" in ran.out
    assert "quarterly-figures.csv" in ran.out
    (receipt,) = home.receipts()
    assert (receipt["tool"], receipt["status"], receipt["risk"]) == ("file_list", "allowed", "low")
    assert home.intact()["receipts"] == 1


def test_5_a_workspace_escape_is_blocked(home: HomeAt) -> None:
    ran = home.run(
        "agent", "-m", "read it", env=home.calling("file_read", {"path": "/etc/passwd"}, "It said: {last_tool_result}")
    )
    assert ran.rc == 0
    (receipt,) = home.receipts()
    assert (receipt["tool"], receipt["status"]) == ("file_read", "denied")
    assert "It said: Denied." in ran.out  # the provider got an error for its call
    assert "root:" not in ran.out + ran.err
    (error,) = home.rows("SELECT content FROM messages WHERE role = 'tool'")
    assert "root:" not in error[0]
    assert home.intact()["receipts"] == 1


def test_6_a_supervised_write_is_approved_at_the_terminal(home: HomeAt, run_in_terminal: Terminal) -> None:
    note = home.workspace / "note.txt"
    note.write_text("old line\n")
    model = home.calling("file_write", {"path": "note.txt", "content": "new line\n"})
    message = ["agent", "-m", "write it"]

    denied = run_in_terminal(message, [("Approve? [y", "\r")], env=model)
    assert denied.rc == 0
    for word in ("Tool request:", "file_write", "medium", "reason:", "note.txt", "-old line", "+new line"):
        assert word in denied.out, word
    assert note.read_text() == "old line\n"

    approved = run_in_terminal(message, [("Approve? [y", "y\r")], env=model)
    assert approved.rc == 0
    assert note.read_text() == "new line\n"

    assert [(r["status"], r["code"]) for r in home.receipts()] == [("denied", "OWNER_REFUSED"), ("allowed", "APPROVED")]
    assert home.intact()["receipts"] == 2


def test_7_a_forbidden_command_is_blocked_before_it_runs(home: HomeAt) -> None:
    ran = home.run("agent", "-m", "clean up", env=home.calling("shell", {"command": "rm -rf /"}))
    assert ran.rc == 0
    (receipt,) = home.receipts()
    assert (receipt["tool"], receipt["status"], receipt["risk"]) == ("shell", "denied", "high")
    assert home.rows("SELECT status, begun_at FROM proposed_actions") == [("REJECTED", None)]  # never begun
    assert home.intact()["receipts"] == 1


def test_8_the_receipt_chain_detects_tampering(home: HomeAt) -> None:
    for _ in range(3):
        assert home.tool("time", {}).rc == 0
    lines = home.log.read_text().splitlines()
    assert len(lines) == 3
    second = json.loads(lines[1])
    second["status"] = "denied"
    lines[1] = json.dumps(second, sort_keys=True, separators=(",", ":"))
    home.log.write_text("\n".join(lines) + "\n")
    ran = home.run("receipt", "verify")
    assert ran.rc == 6
    assert "invalid chain at receipt 2" in ran.out
    assert "edited" in ran.out


def test_9_the_reliable_provider_falls_back(home: HomeAt) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection and never answers
        home.configure(
            f"""
            default_provider = "steady"
            [providers.models.steady]
            kind = "reliable"
            providers = ["bad_provider", "mock_provider"]
            [providers.models.bad_provider]
            kind = "openai-compatible"
            base_url = "http://127.0.0.1:{silent.getsockname()[1]}/v1"
            model = "slow"
            timeout_seconds = 0.2
            max_retries = 0
            [providers.models.mock_provider]
            kind = "mock"
            """
        )
        ran = home.run("agent", "-m", "hi", "--json", env=home.script({"text": "here I am"}))
    assert ran.rc == 0
    assert ran.json()["text"] == "here I am"
    assert ran.json()["provider"] == "mock_provider"
    assert any("bad_provider" in line and "mock_provider" in line for line in ran.err.splitlines()), ran.err


def test_10_memory_search_finds_the_conversation(home: HomeAt) -> None:
    home.ok("agent", "-m", "Tell me about the Aardvark adapter", env=home.script({"text": "It adapts."}))
    home.ok("agent", "-m", "Something else", env=home.script({"text": "Fine."}))
    everything = home.ok("memory", "list", "--json").json()
    wanted = next(thread["thread_id"] for thread in everything if "Aardvark" in thread["title"])
    ran = home.run("memory", "search", "aardvark")
    assert ran.rc == 0
    assert wanted in ran.out
    assert {hit["thread_id"] for hit in home.ok("memory", "search", "aardvark", "--json").json()} == {wanted}


pytestmark = pytest.mark.slow
