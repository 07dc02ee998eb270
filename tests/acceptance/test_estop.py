"""ESTOP: nothing starts, what runs is ended with everything it started, and the agent can still say why.

Whatever is stopped here would take ten minutes by itself, so ending at all is the proof.
"""

import json
import os
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coilclaw.sandbox.fake_openai import FakeOpenAI
from tests.acceptance.conftest import PATIENCE, HomeAt, one_sentence, sleepers, until

pytestmark = pytest.mark.slow

LONG = """
[security]
autonomy = "full"
[agent]
tool_timeout_seconds = 600
shell_timeout_seconds = 600
http_timeout_seconds = 600
"""


@pytest.fixture
def patient(home: HomeAt) -> HomeAt:
    """A home in which nothing ends by a time limit."""
    home.configure(LONG)
    return home


def mark() -> str:
    """A length of sleep that no other process has: it names the processes of one test."""
    return f"6{int.from_bytes(os.urandom(4), 'big') % 10**8:08d}.5"


@contextmanager
def silent_server() -> Iterator[tuple[str, threading.Event]]:
    """Takes a request and never answers; the event says that one has come."""
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            held = []
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    break
                held.append(connection)
                if connection.recv(65536):
                    asked.set()
            for connection in held:
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://localhost:{server.getsockname()[1]}", asked
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def finished(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """What it said, once it has ended by itself."""
    return process.communicate(timeout=PATIENCE)


def test_a_running_command_is_ended_with_its_whole_family(patient: HomeAt) -> None:
    sleep = mark()
    escaped = f"(nohup setsid sleep {sleep} >/dev/null 2>&1 &)"
    command = f"echo begun >> effects.txt; sleep {sleep} & {escaped} ; sleep {sleep}; echo late >> effects.txt"
    process = patient.start("tool", "run", "shell", "--yes", "--json", f'{{"command": "{command}"}}')
    until(lambda: len(sleepers(sleep)) >= 3, "the command to run", process)
    patient.ok("estop", "--reason", "enough")
    _, err = finished(process)
    assert process.returncode == 5, err
    until(lambda: not sleepers(sleep), "every process of the command to be gone")
    assert (patient.workspace / "effects.txt").read_text() == "begun\n"
    (receipt,) = patient.receipts()
    assert (receipt["status"], receipt["code"]) == ("unknown", "ESTOP")  # it had begun, so nobody knows how far it came
    assert patient.rows("SELECT status FROM proposed_actions") == [("UNKNOWN",)]
    patient.intact()


def test_a_running_request_is_ended(patient: HomeAt) -> None:
    with silent_server() as (place, asked):
        patient.configure(LONG.replace("[agent]", f'allowed_domains = ["{place}"]\n[agent]'))
        process = patient.start("tool", "run", "http", "--json", f'{{"url": "{place}/slow"}}')
        assert asked.wait(PATIENCE)
        patient.ok("estop")
        _, err = finished(process)
    assert process.returncode == 5, err
    (receipt,) = patient.receipts()
    assert (receipt["status"], receipt["code"]) == ("failed", "ESTOP")  # a read: it can be said that nothing happened
    patient.intact()


@pytest.mark.parametrize("kind", ["mock", "server"])
def test_a_waiting_model_is_left_and_the_reason_is_reported(patient: HomeAt, kind: str) -> None:
    with FakeOpenAI() as fake:
        if kind == "server":
            patient.provider(fake.base_url, "timeout_seconds = 600\n")
        env = patient.script({"text": "too late", "delay": 600}) if kind == "mock" else {}
        process = patient.start("agent", "-m", "think [[slow:600]]", env=env)
        until(lambda: patient.rows("SELECT 1 FROM messages"), "the turn to begin")
        if kind == "server":
            until(lambda: fake.requests, "the request to arrive")
        patient.ok("estop")
        out, err = finished(process)
    assert process.returncode in {0, 5}
    assert "ESTOP" in out + err
    assert "too late" not in out
    assert patient.messages()[0] == ("user", "think [[slow:600]]")
    patient.intact()


def test_no_call_of_the_same_turn_starts_after_it(patient: HomeAt) -> None:
    sleep = mark()
    calls = [
        {"tool": "shell", "args": {"command": f"sleep {sleep}"}},
        {"tool": "file_write", "args": {"path": "after.txt", "content": "x"}},
        {"tool": "time", "args": {}},
    ]
    env = patient.script({"tool_calls": calls}, {"text": "I stopped because {last_tool_result}"})
    process = patient.start("agent", "-m", "go", "--yes", env=env)
    until(lambda: sleepers(sleep), "the first call to run", process)
    patient.ok("estop")
    out, err = finished(process)
    assert process.returncode == 0, err
    assert "ESTOP" in out
    assert [(r["tool"], r["status"], r["code"]) for r in patient.receipts()] == [
        ("shell", "unknown", "ESTOP"),
        ("file_write", "denied", "ESTOP"),
        ("time", "denied", "ESTOP"),
    ]
    assert not (patient.workspace / "after.txt").exists()
    until(lambda: not sleepers(sleep), "the command to be gone")
    patient.intact()


def test_the_agent_still_answers_in_text_and_knows_why(patient: HomeAt) -> None:
    patient.ok("estop")
    with FakeOpenAI() as fake:
        patient.provider(fake.base_url)
        ran = patient.run("agent", "-m", "[[text:I may not use tools now.]]")
        assert ran.rc == 0
        assert ran.out.strip() == "I may not use tools now."
        assert "ESTOP" in str(fake.requests[0].body["messages"])
        ran = patient.run("agent", "-m", '[[tool:file_write {"path": "a.txt", "content": "x"}]]')
        assert ran.rc == 0
        assert "ESTOP" in str(fake.requests[-1].body["messages"])
    assert [receipt["code"] for receipt in patient.receipts()] == ["ESTOP"]
    assert not (patient.workspace / "a.txt").exists()


def test_no_tool_is_exempt(patient: HomeAt) -> None:
    arguments = {
        "file_read": {"path": "SYSTEM.md"},
        "file_write": {"path": "a", "content": "b"},
        "shell": {"command": "ls"},
        "http": {"url": "https://example.com"},
        "memory_search": {"query": "x"},
        "ask_user": {"question": "x"},
    }
    tools = [tool["name"] for tool in patient.ok("tool", "list", "--json").json()]
    assert set(arguments) <= set(tools)
    (patient.root / "ESTOP").write_text("")
    calls = [{"tool": name, "args": arguments.get(name, {})} for name in tools]
    rounds = [{"tool_calls": calls[at : at + 8]} for at in range(0, len(calls), 8)]
    patient.ok("agent", "--yes", "-m", "go", env=patient.script(*rounds, {"text": "done"}))
    assert [(r["tool"], r["status"], r["code"]) for r in patient.logged()] == [
        (name, "denied", "ESTOP") for name in tools
    ]


def test_clearing_needs_the_owner_at_a_terminal(home: HomeAt) -> None:
    home.ok("estop", "--reason", "smoke")
    one_sentence(home.run("estop", "--clear"), 2, "terminal")
    one_sentence(home.run("estop", "--clear", stdin="y\n"), 2, "terminal")
    assert home.sit("estop", "--clear").wait_for("[y/N]").type("\r").end().rc == 4
    assert home.run("estop", "--status").rc == 5
    assert home.sit("estop", "--clear").wait_for("[y/N]").type("y\r").end().rc == 0
    assert home.run("estop", "--status").rc == 0
    assert home.tool("time", {}).rc == 0


def test_stopping_works_however_broken_the_rest_is(home: HomeAt) -> None:
    home.configure("this is = = not toml")
    (home.root / "memory.sqlite").write_text("nor is this a database")
    home.ok("estop")
    home.ok("estop")  # twice is fine
    assert home.run("estop", "--status").rc == 5


def test_a_state_that_cannot_be_read_counts_as_stopped(home: HomeAt) -> None:
    (home.root / "ESTOP").symlink_to("/nowhere/at/all")
    assert home.tool("time", {}).rc == 5
    (home.root / "ESTOP").unlink()
    (home.root / "ESTOP").mkdir()
    assert home.tool("time", {}).rc == 5


def test_a_yes_given_after_it_runs_nothing(home: HomeAt) -> None:
    sitting = home.sit("tool", "run", "file_write", "--json", '{"path": "a.txt", "content": "x"}')
    sitting.wait_for("Approve? [y")
    home.ok("estop")
    ran = sitting.type("y\r").end()
    assert ran.rc == 5
    assert not (home.workspace / "a.txt").exists()
    home.intact()


def test_what_waits_for_approval_is_held_not_rejected(home: HomeAt) -> None:
    assert home.tool("file_write", {"path": "a.txt", "content": "x"}).rc == 4
    (waiting,) = home.ok("approvals", "list", "--json").json()
    home.ok("estop")
    tried = home.sit("approvals", "approve", waiting["action_id"])
    until(lambda: tried.process.poll() is not None or "Approve?" in tried.shown or not tried._read(0.05), "an answer")
    if tried.process.poll() is None and "Approve? [y" in tried.shown:
        tried.type("y\r")
    assert tried.end().rc == 5
    assert not (home.workspace / "a.txt").exists()
    home.sit("estop", "--clear").wait_for("[y/N]").type("y\r").end()
    assert [each["action_id"] for each in home.ok("approvals", "list", "--json").json()] == [waiting["action_id"]]
    approved = home.sit("approvals", "approve", waiting["action_id"]).wait_for("Approve? [y").type("y\r").end()
    assert approved.rc == 0
    assert (home.workspace / "a.txt").read_text() == "x"
    home.intact()


def test_it_is_written_down_who_stopped_and_why(home: HomeAt) -> None:
    home.ok("estop", "--reason", "smoke in the kitchen")
    assert "smoke in the kitchen" in (home.root / "ESTOP").read_text()
    said = home.tool("time", {})
    assert "ESTOP" in said.err
    assert "coilclaw estop --clear" in said.err


# The audit


def told(home: HomeAt) -> list[tuple[str, str]]:
    """What the audit says of ESTOP, oldest first: event, and by whom."""
    rows = home.rows("SELECT event_type, payload_json FROM audit_log WHERE entity_id = 'estop' ORDER BY seq")
    return [(kind, json.loads(payload).get("by", "")) for kind, payload in rows]


def clear(home: HomeAt) -> None:
    """Clear it as the owner does."""
    sitting = home.sit("estop", "--clear").wait_for("let tools run again?").type("y\r")
    assert sitting.end().rc == 0


def test_estop_at_the_terminal_leaves_its_audit_events(home: HomeAt) -> None:
    home.ok("estop", "--reason", "enough")
    assert told(home) == [("estop_engaged", "terminal")]
    home.ok("estop")  # twice is one stop
    assert told(home) == [("estop_engaged", "terminal")]
    clear(home)
    assert told(home) == [("estop_engaged", "terminal"), ("estop_cleared", "terminal")]


def test_estop_holds_while_the_database_is_busy_and_the_audit_hears_of_it_later(home: HomeAt) -> None:
    busy = sqlite3.connect(home.root / "memory.sqlite", isolation_level=None)
    try:
        busy.execute("BEGIN IMMEDIATE")
        home.ok("estop")
        assert (home.root / "ESTOP").exists()
        assert told(home) == []
    finally:
        busy.close()
    clear(home)
    assert told(home) == [("estop_engaged", ""), ("estop_cleared", "terminal")]
