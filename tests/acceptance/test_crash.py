"""kill -9 at awkward moments, then a restart: the chain holds, nothing is lost, nothing is done twice."""

import os
import signal
import subprocess

import pytest

from tests.acceptance.conftest import HomeAt, sleepers, until
from tests.acceptance.test_estop import LONG, mark, silent_server

pytestmark = pytest.mark.slow


def kill(process: "subprocess.Popen[str]") -> None:
    """As the kernel would when memory runs out: that process alone, without a word."""
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_killed_while_the_model_thinks(home: HomeAt) -> None:
    process = home.start("agent", "-m", "an important question", env=home.script({"text": "never", "delay": 600}))
    until(lambda: home.rows("SELECT 1 FROM messages"), "the question to be stored")
    kill(process)
    home.intact()
    (conversation,) = home.ok("memory", "list", "--json").json()
    assert home.messages() == [("user", "an important question")]
    answer = home.ok("agent", "-c", conversation["thread_id"], "-m", "are you there?", env=home.script({"text": "yes"}))
    assert answer.out.strip() == "yes"
    assert "Resuming what was interrupted." in answer.err
    assert [role for role, _ in home.messages()] == ["user", "assistant", "user", "assistant"]
    home.intact()


def test_killed_between_two_rounds_the_turn_continues_from_what_is_on_record(home: HomeAt) -> None:
    slow = home.script({"tool_calls": [{"tool": "time", "args": {}}]}, {"text": "never", "delay": 600})
    process = home.start("agent", "-m", "what time is it", env=slow)
    until(lambda: home.rows("SELECT 1 FROM messages WHERE role = 'tool'"), "the call to be done", process)
    kill(process)
    (conversation,) = home.ok("memory", "list", "--json").json()
    home.ok("agent", "-c", conversation["thread_id"], "-m", "and now?", env=home.script({"text": "noon"}))
    roles = [role for role, _ in home.messages()]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [receipt["tool"] for receipt in home.receipts()] == ["time"]
    assert home.rows("SELECT state FROM turns ORDER BY rowid") == [("ANSWERED",), ("ANSWERED",)]
    home.intact()


def test_killed_while_a_command_runs_the_turn_says_what_it_needs(home: HomeAt) -> None:
    home.configure(LONG)
    sleep = mark()
    command = f"echo once >> effects.txt; sleep {sleep}"
    process = home.start("agent", "-m", "do it", "--yes", env=home.calling("shell", {"command": command}))
    until(lambda: sleepers(sleep), "the command to run", process)
    kill(process)
    until(lambda: not sleepers(sleep), "the command to die with the one who started it")
    (conversation,) = home.ok("memory", "list", "--json").json()
    for _ in range(2):  # it is said once, and nothing is done again
        told = home.ok("agent", "-c", conversation["thread_id"], "-m", "well?", env=home.script({"text": "well"}))
    assert (home.workspace / "effects.txt").read_text() == "once\n"
    ((action,),) = home.rows("SELECT action_id FROM proposed_actions WHERE status = 'UNKNOWN'")
    notices = [text for role, text in home.messages() if role == "system" and "took effect: shell" in text]
    assert len(notices) == 1
    assert f"coilclaw actions resolve {action}" in notices[0]
    assert "Resuming" not in told.err
    assert home.rows("SELECT state, code FROM turns LIMIT 1") == [("INTERRUPTED", "UNKNOWN_OUTCOME")]
    home.intact()


def test_killed_while_a_command_runs(home: HomeAt) -> None:
    home.configure(LONG)
    sleep = mark()
    command = f"echo once >> effects.txt; sleep {sleep}; echo twice >> effects.txt"
    process = home.start("agent", "-m", "do it", "--yes", env=home.calling("shell", {"command": command}))
    until(lambda: sleepers(sleep), "the command to run", process)
    kill(process)
    until(lambda: not sleepers(sleep), "the command to die with the one who started it")
    home.intact()
    assert home.messages()[0] == ("user", "do it")
    # The restart: whatever comes next must settle what was left open, and say that it cannot be known.
    home.ok("agent", "-m", "hello again", env=home.script({"text": "hello"}))
    assert (home.workspace / "effects.txt").read_text() == "once\n"
    assert home.rows("SELECT status FROM proposed_actions") == [("UNKNOWN",)]
    assert [(receipt["tool"], receipt["status"]) for receipt in home.receipts()] == [("shell", "unknown")]
    assert home.ok("approvals", "list", "--json").json() == []
    home.intact()


def test_killed_while_a_read_runs(home: HomeAt) -> None:
    with silent_server() as (place, asked):
        home.configure(LONG.replace("[agent]", f'allowed_domains = ["{place}"]\n[agent]'))
        process = home.start("agent", "-m", "look it up", env=home.calling("http", {"url": f"{place}/slow"}))
        assert asked.wait(120)
        kill(process)
    home.intact()
    home.ok("agent", "-m", "hello again", env=home.script({"text": "hello"}))
    # It never needed the owner, so it must not stand among what waits for the owner.
    assert home.ok("approvals", "list", "--json").json() == []
    assert [receipt["tool"] for receipt in home.receipts()] == ["http"]
    home.intact()


def test_killed_while_the_owner_is_asked(home: HomeAt) -> None:
    write = home.calling("file_write", {"path": "a.txt", "content": "x\n"})
    sitting = home.sit("agent", "-m", "write it", env=write)
    sitting.wait_for("Approve? [y")
    os.kill(sitting.process.pid, signal.SIGKILL)
    sitting.process.wait()
    home.intact()
    assert home.tool("time", {}).rc == 0  # the restart, which settles what was left open
    assert not (home.workspace / "a.txt").exists()
    (waiting,) = home.ok("approvals", "list", "--json").json()
    approve = ["approvals", "approve", waiting["action_id"]]
    assert home.sit(*approve).wait_for("Approve? [y").type("y\r").end().rc == 0
    assert (home.workspace / "a.txt").read_text() == "x\n"
    (home.workspace / "a.txt").unlink()
    assert home.sit(*approve).end().rc == 2  # once is once
    assert not (home.workspace / "a.txt").exists()
    assert [(receipt["tool"], receipt["status"]) for receipt in home.receipts()] == [
        ("time", "allowed"),
        ("file_write", "allowed"),
    ]
    home.intact()


def test_killed_again_and_again_in_the_middle_of_many_calls(home: HomeAt) -> None:
    home.configure(
        '[security]\nautonomy = "full"\n[agent]\nmax_tool_rounds = 100\n[budgets]\ntool_calls_per_minute = 100000\n'
    )
    calls = [{"tool": "file_write", "args": {"path": f"intel/{n}.md", "content": "x"}} for n in range(8)]
    env = home.script({"tool_calls": [*calls, {"tool": "time"}]})
    for number in range(4):
        seen = len(home.logged())
        process = home.start("agent", "-m", f"round {number}", env=env)
        until(lambda seen=seen, number=number: len(home.logged()) >= seen + 5 + 7 * number, "some calls to be done")
        kill(process)
        home.intact()
    last = home.tool("time", {})
    assert last.rc == 0
    assert "cut" not in last.err  # a log that lags behind a crash is caught up, not called truncated
    assert home.intact()["receipts"] == len(home.logged()) == home.rows("SELECT count(*) FROM receipts")[0][0]
    assert [text for role, text in home.messages() if role == "user"] == [f"round {number}" for number in range(4)]
    # Every action that has an end has exactly one receipt for it; an attempt that was cut off has one of its own.
    ended = home.rows("SELECT count(*) FROM proposed_actions WHERE status NOT IN ('PENDING', 'APPROVED')")[0][0]
    assert ended == home.rows("SELECT count(DISTINCT action_id) FROM receipts")[0][0]
    ends = [each for each in home.logged() if each["status"] != "unknown"]
    assert len(ends) == len({each["action_id"] for each in ends}) == ended


def test_several_processes_at_once_keep_one_chain(home: HomeAt) -> None:
    calls = [{"tool": "time"} for _ in range(8)]
    env = home.script({"tool_calls": calls}, {"text": "done"})
    home.configure("[budgets]\ntool_calls_per_minute = 100000\n")
    processes = [home.start("agent", "-m", f"worker {number}", env=env) for number in range(4)]
    for process in processes:
        out, err = process.communicate()
        assert (process.returncode, out.strip()) == (0, "done"), err
    assert home.intact()["receipts"] == len(home.logged()) == 32


def test_two_answers_run_it_once(home: HomeAt) -> None:
    assert home.tool("shell", {"command": "echo x >> effects.txt"}).rc == 4
    action = home.rows("SELECT action_id FROM proposed_actions")[0][0]
    sittings = [home.sit("approvals", "approve", action) for _ in range(2)]
    for sitting in sittings:
        sitting.wait_for("Approve? [y")
    for sitting in sittings:
        sitting.type("y\r")
    codes = sorted(sitting.end().rc for sitting in sittings)
    assert codes[0] == 0
    assert codes[1] in (0, 3)  # whoever comes second hears that it is answered, or that it is in other hands
    assert not any("Traceback" in sitting.shown for sitting in sittings)
    assert (home.workspace / "effects.txt").read_text() == "x\n"
    assert [receipt["status"] for receipt in home.receipts()] == ["allowed"]
    home.intact()


def test_interrupted_by_hand_the_call_is_receipted(home: HomeAt) -> None:
    home.configure(LONG)
    sleep = mark()
    process = home.start("tool", "run", "shell", "--yes", "--json", f'{{"command": "sleep {sleep}"}}')
    until(lambda: sleepers(sleep), "the command to run", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    until(lambda: not sleepers(sleep), "the command to be gone")
    assert [(receipt["status"], receipt["code"]) for receipt in home.receipts()] == [("failed", "CANCELLED")]
    home.intact()


def test_terminated_politely_the_call_is_receipted(home: HomeAt) -> None:
    home.configure(LONG)
    sleep = mark()
    process = home.start("tool", "run", "shell", "--yes", "--json", f'{{"command": "sleep {sleep}"}}')
    until(lambda: sleepers(sleep), "the command to run", process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode != 0
    assert "Traceback" not in err
    until(lambda: not sleepers(sleep), "the command to be gone")
    home.tool("time", {})  # at the latest now
    assert home.receipts()[0]["status"] == "unknown"
    home.intact()
