"""Through the real executable: a turn whose calls wait goes on where they are answered, and says what it found."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coilclaw.sandbox.fake_receiver import Receiver, serve
from tests.acceptance.conftest import HomeAt, until
from tests.features.jobs.test_adversary import a_site

pytestmark = pytest.mark.slow


def write(name: str) -> dict[str, Any]:
    return {"tool_calls": [{"tool": "file_write", "args": {"path": name, "content": name}}]}


def waiting(home: HomeAt) -> str:
    ((action_id,),) = home.rows("SELECT action_id FROM proposed_actions WHERE status = 'PENDING'")
    return str(action_id)


def test_approving_at_a_terminal_continues_with_the_turn_and_asks_there_for_the_next_call(home: HomeAt) -> None:
    env = home.script(write("x1"), write("x2"), {"text": "both are **there**"})
    asked = home.ok("agent", "-m", "write x1, then x2", env=env)
    first = waiting(home)
    assert asked.out == f"file_write waits for your approval: `coilclaw approvals approve {first}`.\n"
    sitting = home.sit("approvals", "approve", first, env=env)
    sitting.wait_for("Approve?").type("y\r").wait_for("Wrote 2 bytes to x1").wait_for("Approve?").type("y\r")
    ran = sitting.end()
    assert ran.rc == 0, ran
    assert "both are " in ran.out
    assert "**" not in ran.out  # rendered, like the answer to what was just asked
    assert [(home.workspace / name).read_text() for name in ("x1", "x2")] == ["x1", "x2"]
    assert home.rows("SELECT state FROM turns") == [("ANSWERED",)]


def test_approving_goes_on_with_a_turn_whose_terminal_was_killed_at_its_question(home: HomeAt) -> None:
    env = home.script(write("x1"), {"text": "it is there"})
    sitting = home.sit("agent", "-m", "write x1", env=env).wait_for("Approve?")
    sitting.process.kill()
    sitting.process.wait()
    assert home.rows("SELECT state FROM turns") == [("RUNNING",)]
    approving = home.sit("approvals", "approve", waiting(home), env=env)
    ran = approving.wait_for("Approve?").type("y\r").wait_for("Wrote 2 bytes to x1").end()
    assert ran.rc == 0, ran
    assert "it is there" in ran.out
    assert home.rows("SELECT state FROM turns") == [("ANSWERED",)]
    assert home.rows("SELECT status FROM proposed_actions") == [("EXECUTED",)]


def test_a_no_at_a_terminal_is_told_to_the_model_with_its_reason(home: HomeAt) -> None:
    env = home.script(write("x1"), {"text": "{last_tool_result}"})
    home.ok("agent", "-m", "write x1", env=env)
    ran = home.ok("approvals", "reject", waiting(home), "--reason", "use the other folder", env=env)
    assert "use the other folder" in ran.out
    assert not (home.workspace / "x1").exists()


def test_a_worker_continues_with_a_turn_that_was_answered_elsewhere(home: HomeAt) -> None:
    env = home.script(write("x1"), {"text": "done in the background"})
    home.ok("agent", "-m", "write x1", env=env)
    worker = home.start("worker", env=env)
    until(lambda: "executor.lock" in {path.name for path in (home.root / "locks").iterdir()}, "a worker", worker)
    home.ok("approvals", "reject", waiting(home), env=env)
    until(lambda: home.rows("SELECT state FROM turns") == [("ANSWERED",)], "the turn is answered", worker)
    assert home.messages()[-1] == ("assistant", "done in the background")


def test_calls_of_one_answer_are_asked_one_after_the_other_and_counted(home: HomeAt) -> None:
    both = {"tool_calls": [*write("x1")["tool_calls"], {"tool": "time", "args": {}}, *write("x2")["tool_calls"]]}
    sitting = home.sit("agent", "-m", "write both", env=home.script(both, {"text": "both are there"}))
    sitting.wait_for("1 of 2. Approve?").type("y\r").wait_for("2 of 2. Approve?").type("n\r")
    ran = sitting.end()
    assert ran.rc == 0, ran
    assert "both are there" in ran.out
    assert [(home.workspace / name).exists() for name in ("x1", "x2")] == [True, False]
    assert home.rows("SELECT count(*) FROM messages WHERE role = 'assistant'") == [(2,)]


def test_an_answer_to_one_of_several_says_what_still_waits_and_the_last_one_continues(home: HomeAt) -> None:
    both = {"tool_calls": [*write("x1")["tool_calls"], *write("x2")["tool_calls"]]}
    env = home.script(both, {"text": "I heard of both"})
    home.ok("agent", "-m", "write both", env=env)
    first, second = (row[0] for row in home.rows("SELECT action_id FROM proposed_actions ORDER BY rowid"))
    ran = home.ok("approvals", "reject", first, env=env)
    assert f"file_write waits for your approval: `coilclaw approvals approve {second}`." in ran.err
    assert "I heard of both" not in ran.out
    assert "I heard of both" in home.ok("approvals", "reject", second, env=env).out


def test_a_line_that_said_it_waits_says_what_came_of_it(home: HomeAt) -> None:
    env = home.script(write("x1"), {"text": "so be it"})
    home.ok("agent", "-m", "write x1", env=env)
    ((thread,),) = home.rows("SELECT thread_id FROM threads")
    assert "approval needed" in home.ok("memory", "show", thread).out
    home.ok("approvals", "reject", waiting(home), "--reason", "not now", env=env)
    shown = home.ok("memory", "show", thread).out
    assert "approval needed" not in shown
    assert shown.count("not now") == 1, "told once, where the call is"
    told = home.ok("memory", "show", thread, "--json").json()
    assert [each["metadata"]["code"] for each in told if each["role"] == "tool"] == ["OWNER_REFUSED"]


def held(home: HomeAt, url: str, port: int) -> dict[str, str]:
    """A model that reads a mail and answers it, in a home where both could be done."""
    send = {"tool": "webhook_send", "args": {"target": "door", "payload": {"text": "Thursday is fine"}}}
    env = home.script(
        {"tool_calls": [{"tool": "http", "args": {"url": f"{url}/mail"}}]},
        {"tool_calls": [send]},
        {"text": "I could not send it."},
    )
    return env | {
        "COILCLAW_SECURITY_ALLOWED_DOMAINS": url,
        "COILCLAW_WEBHOOKS_DOOR_URL": f"http://127.0.0.1:{port}/in",
    }


@pytest.fixture
def door(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    received = tmp_path / "received.jsonl"
    server = serve(Receiver(received, deduplicates=False, lookup=False))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield received, server.server_port
    server.shutdown()
    server.server_close()


def test_what_was_held_back_is_shown_and_sent_at_the_prompt(home: HomeAt, door: tuple[Path, int]) -> None:
    received, port = door
    with a_site() as url:
        sitting = home.sit("agent", env=held(home, url, port)).wait_for("›")
        sitting.type("read this mail and answer it\r").wait_for("I could not send it.")
        offer = "1 action was held back because this conversation read untrusted content. Show it to approve?"
        sitting.wait_for(offer).type("y\r").wait_for("UNTRUSTED CONTENT").wait_for("Approve?").type("y\r")
        sitting.wait_for("door answered 200").wait_for("›").type("/new\r").wait_for("Conversation").wait_for("›")
        sitting.type("again\r").wait_for(offer).type("\r")  # Enter alone is a no
        sitting.wait_for("coilclaw actions repropose act_").wait_for("›")
        assert sitting.type("/exit\r").end().rc == 0
    assert len(received.read_text().splitlines()) == 1


def test_one_message_tells_the_command_that_shows_what_was_held_back(home: HomeAt, door: tuple[Path, int]) -> None:
    received, port = door
    with a_site() as url:
        env = held(home, url, port)
        ran = home.ok("agent", "-m", "read this mail and answer it", env=env)
        command = re.search(r"  coilclaw (actions repropose (\S+))\n", ran.err)
        assert command, ran.err
        told = home.ok("agent", "-m", "and this one", "--json", env=env).json()
        assert [each["action_id"] for each in told["actions"] if each["tool"] == "webhook_send"] == told["held_back"]
        sitting = home.sit(*command[1].split(), env=env).wait_for("UNTRUSTED CONTENT").wait_for("Approve?").type("y\r")
        assert "door answered 200" in sitting.end().out
    assert len(received.read_text().splitlines()) == 1
