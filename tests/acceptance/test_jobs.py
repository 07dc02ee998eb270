"""Jobs with the real executable: made, worked on by real workers, killed, resumed, called off."""

import json
import os
import signal
import subprocess
import time

import pytest

from tests.acceptance.conftest import PATIENCE, HeldModel, HomeAt, one_sentence, until
from tests.acceptance.test_repl import PROMPT, plain

pytestmark = pytest.mark.slow

FREE = '[security]\nautonomy = "full"\n[budgets]\ntool_calls_per_minute = 100000\n'
IN_WORKSPACE = "[forge]\nenabled = false\n"


def kill(process: "subprocess.Popen[str]") -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def calls(*tools: tuple[str, object], **more: object) -> dict[str, object]:
    return {"tool_calls": [{"tool": tool, "args": args} for tool, args in tools], **more}


def state(home: HomeAt, job_id: str) -> str:
    return home.rows("SELECT state FROM jobs WHERE job_id = ?", job_id)[0][0]


def make(home: HomeAt, goal: str, *more: str) -> str:
    return home.ok("job", "create", goal, "--json", *more).json()["job_id"]


def test_a_job_from_its_making_to_its_evidence(home: HomeAt) -> None:
    env = home.script(calls(("file_list", {"path": "."})), {"text": "three files"})
    made = home.ok("job", "create", "count the files", "--tool", "file_list", "--max-files", "0")
    job_id = made.out.strip()
    assert "coilclaw worker" in made.err
    done = home.ok("worker", "--once", env=env)
    assert "Worked on 1 job" in done.out
    shown = home.ok("job", "show", job_id, "--json").json()
    assert (shown["state"], shown["status"], shown["answer"]) == ("DONE", "COMPLETED", "three files")
    assert shown["spec"]["constraints"] == {
        "allowed_tools": ["file_list"], "allowed_programs": None, "allowed_domains": None, "max_files_changed": 0,
        "max_prs": None,
    }  # fmt: skip
    (receipt,) = home.receipts()
    assert shown["evidence"]["receipts"] == [
        {"id": receipt["id"], "hash": receipt["receipt_hash"], "tool": "file_list", "status": "allowed"}
    ]
    told = home.ok("job", "show", job_id).out
    assert home.ok("job", "show", "last").out == told
    for words in (job_id, "count the files", "state:     done: ", "EXECUTING → DONE", "three files", "max files: 0"):
        assert words in told
    (listed,) = home.ok("job", "list", "--json").json()
    assert listed["job_id"] == job_id
    assert home.ok("job", "list", "--state", "FAILED", "--json").json() == []
    row = home.ok("job", "list").out.rstrip("\n").split("\t")
    assert (row[0], row[1], row[3]) == (job_id, "done", "count the files")  # one word for how it stands
    home.intact()


def test_waiting_for_a_job_shows_how_it_goes_and_its_exit_code_tells_the_end(home: HomeAt) -> None:
    ran = home.run("job", "create", "x", "--wait", env=home.script(calls(("time", {})), {"text": "done"}))
    assert ran.rc == 0
    assert "EXECUTING → DONE" in ran.out
    denied = home.run("job", "create", "x", "--tool", "no_such", "--wait")
    assert denied.rc == 3
    assert "no_such" in denied.out
    waits = home.run("job", "create", "x", "--wait", env=home.calling("file_write", {"path": "a", "content": "a"}))
    assert waits.rc == 4
    assert "coilclaw approvals approve act_" in waits.out
    failed = home.run("job", "create", "x", "--wait", "--evidence", "report", env=home.script({"text": "no"}))
    assert failed.rc == 1
    assert "evidence missing" in failed.out
    home.intact()


def test_a_yes_at_the_terminal_lets_the_job_continue(home: HomeAt) -> None:
    home.configure(IN_WORKSPACE)
    env = home.calling("file_write", {"path": "a.txt", "content": "x"}, "then: {last_tool_result}")
    job_id = make(home, "write it")
    home.ok("worker", "--once", env=env)
    (waiting,) = home.ok("job", "show", job_id, "--json").json()["waiting"]
    command = waiting["answer"].split()[1:]
    assert home.sit(*command).wait_for("Approve? [y").type("y\r").end().rc == 0
    home.ok("worker", "--once", env=env)
    assert state(home, job_id) == "DONE"
    assert (home.workspace / "a.txt").read_text() == "x"
    assert home.ok("job", "show", job_id, "--json").json()["files"] == ["a.txt"]
    home.intact()


def test_the_newest_job_is_called_last(home: HomeAt) -> None:
    assert home.run("job", "show", "last").rc == 2  # there is none
    home.ok("job", "create", "the older one")
    newest = home.ok("job", "create", "the newer one").out.strip()
    assert home.ok("job", "show", "last", "--json").json()["job_id"] == newest
    home.ok("job", "resume", "last")
    assert home.ok("job", "cancel", "last").out.startswith(newest)


def test_bad_ids_and_states_are_reported_in_one_sentence(home: HomeAt) -> None:
    for command in (("show", "job_x"), ("cancel", "job_x"), ("resume", "job_x")):
        one_sentence(home.run("job", *command), 2, "there is no job")
    one_sentence(home.run("job", "create", "  "), 2, "empty")
    one_sentence(home.run("job", "create", "x", "--thread", "conv_x"), 2, "no conversation")
    job_id = make(home, "x")
    home.ok("job", "cancel", job_id, "--reason", "enough")
    one_sentence(home.run("job", "cancel", job_id), 2, "CANCELLED", "enough")
    one_sentence(home.run("job", "resume", job_id), 2, "CANCELLED", "new job")


def test_a_running_worker_takes_jobs_up_and_a_cancelled_step_is_cut(home: HomeAt) -> None:
    worker = home.start("worker", env=home.script({"text": "never", "delay": 600}))
    job_id = make(home, "for ever")
    until(lambda: home.rows("SELECT 1 FROM jobs WHERE worker IS NOT NULL"), "the worker to take it", worker)
    home.ok("job", "cancel", job_id)
    until(lambda: len(home.rows("SELECT 1 FROM artifacts WHERE type = 'evidence_manifest'")) == 2, "the cut", worker)
    assert state(home, job_id) == "CANCELLED"
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0
    assert "Traceback" not in err


def test_a_worker_that_is_told_to_stop_gives_its_jobs_back(home: HomeAt) -> None:
    home.configure("[jobs]\nstep_seconds = 600.0\n")
    worker = home.start("worker", env=home.script({"text": "never", "delay": 600}))
    job_id = make(home, "for ever")
    until(lambda: home.rows("SELECT 1 FROM jobs WHERE worker IS NOT NULL"), "the worker to take it", worker)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0
    assert home.rows("SELECT state, worker, attempt FROM jobs") == [("EXECUTING", None, 0)]
    home.ok("worker", "--once", env=home.script({"text": "done"}))
    assert state(home, job_id) == "DONE"


STEPS = 12


def long_script(home: HomeAt) -> dict[str, str]:
    """Each step writes a file of its own, appends to one by a command, and takes a little while."""
    steps = [
        calls(
            ("file_write", {"path": f"out/{n}.txt", "content": str(n)}), ("shell", {"command": f"echo {n} >> log.txt"}),
            ("time", {}), delay=0.02,
        )
        for n in range(STEPS)
    ]  # fmt: skip
    return home.script(*steps, {"text": "all written"})


def nothing_twice(home: HomeAt) -> None:
    """No step was asked for twice, no call carried twice, no effect had twice."""
    steps = home.rows(
        "SELECT json_extract(metadata_json, '$.job_id'), json_extract(metadata_json, '$.step') FROM messages"
        " WHERE role = 'assistant'"
    )
    assert len(steps) == len(set(steps))
    assert home.rows(
        "SELECT action_id FROM receipts JOIN proposed_actions USING (action_id)"
        " WHERE status <> 'EXECUTED' OR tool <> 'file_write' GROUP BY action_id HAVING count(*) > 1"
    ) == []  # fmt: skip
    written = (home.workspace / "log.txt").read_text().split() if (home.workspace / "log.txt").exists() else []
    assert len(written) == len(set(written))


def settle(home: HomeAt, job_id: str, env: dict[str, str]) -> None:
    """Workers until the job is over."""
    deadline = time.monotonic() + 280
    while state(home, job_id) not in ("DONE", "FAILED", "TIMED_OUT"):
        assert time.monotonic() < deadline, home.ok("job", "show", job_id).out
        home.ok("worker", "--once", env=env)


def test_killed_at_any_moment_a_job_comes_to_its_end_and_nothing_is_done_twice(home: HomeAt) -> None:
    home.configure(FREE + IN_WORKSPACE)
    env = long_script(home)
    job_id = make(home, "write them all")
    seen = 0
    for _ in range(6):
        worker = home.start("worker", env=env)
        until(
            lambda seen=seen: (
                state(home, job_id) == "DONE" or home.rows("SELECT count(*) FROM messages")[0][0] > seen + 2
            ),
            "some of it to be done",
        )
        time.sleep(0.03)
        kill(worker)
        seen = home.rows("SELECT count(*) FROM messages")[0][0]
        home.intact()
        nothing_twice(home)
    settle(home, job_id, env)
    assert state(home, job_id) == "DONE"
    nothing_twice(home)
    assert sorted(int(path.stem) for path in (home.workspace / "out").iterdir()) == list(range(STEPS))
    # A command that was cut may or may not have had its effect; whichever it is, that is what is on record.
    known = home.rows("SELECT count(*) FROM proposed_actions WHERE tool = 'shell' AND status = 'EXECUTED'")[0][0]
    unknown = home.rows("SELECT count(*) FROM proposed_actions WHERE tool = 'shell' AND status = 'UNKNOWN'")[0][0]
    never = home.rows(
        "SELECT count(*) FROM proposed_actions WHERE tool = 'shell' AND status = 'FAILED'"
        " AND rejection_reason = 'INTERRUPTED'"
    )[0][0]  # its process was killed before the command began, and that is known
    effects = len((home.workspace / "log.txt").read_text().split())
    assert known + unknown + never == STEPS
    assert known <= effects <= known + unknown
    assert json.loads(home.run("job", "show", job_id, "--json").out)["evidence"]["state"] == "DONE"
    home.intact()


def test_several_workers_on_one_database_never_run_a_step_twice(home: HomeAt) -> None:
    home.configure(FREE + "jobs_at_once = 8\n" + IN_WORKSPACE)
    env = home.script(*[calls(("shell", {"command": "echo {last_user} >> log.txt"}), delay=0.01)] * 3, {"text": "done"})
    jobs = [make(home, f"job number {n}") for n in range(6)]
    workers = [home.start("worker", "--once", env=env) for _ in range(3)]
    for worker in workers:
        _, err = worker.communicate(timeout=280)
        assert worker.returncode == 0, err
        assert "Traceback" not in err
    home.ok("worker", "--once", env=env)
    assert {state(home, job_id) for job_id in jobs} == {"DONE"}
    steps = home.rows(
        "SELECT json_extract(metadata_json, '$.job_id'), json_extract(metadata_json, '$.step') FROM messages"
        " WHERE role = 'assistant'"
    )
    assert len(steps) == len(set(steps)) == 6 * 4
    assert len(home.receipts()) == 6 * 3
    assert len((home.workspace / "log.txt").read_text().splitlines()) == 6 * 3
    home.intact()


def test_estop_cuts_the_step_and_clearing_it_lets_the_worker_continue(home: HomeAt) -> None:
    with HeldModel() as model:
        home.provider(model.base_url, "timeout_seconds = 600\n[jobs]\nstep_seconds = 600.0\n")
        worker = home.start("worker")
        job_id = make(home, "slowly")
        until(lambda: model.requests, "the model to be asked", worker)
        home.ok("estop")
        until(lambda: not home.rows("SELECT 1 FROM jobs WHERE worker IS NOT NULL"), "the step to be cut", worker)
        assert home.rows("SELECT state, attempt FROM jobs") == [("EXECUTING", 0)]
        model.go.set()
        (home.root / "ESTOP").unlink()
        until(lambda: state(home, job_id) == "DONE", "the job to go on", worker)
        assert len(model.requests) == 2


def test_in_a_conversation_a_job_is_made_worked_on_and_told_of(home: HomeAt) -> None:
    env = home.script({"text": "job answer", "match": "background work", "delay": 0.2}, {"text": "chat answer"})
    sitting = home.sit("agent", env=env).wait_for(PROMPT)
    sitting.type("/background background work\r").wait_for("it runs here").wait_for(PROMPT)
    sitting.type("hello\r").wait_for("chat answer")
    sitting.wait_for("is done.").wait_for("job answer")
    sitting.type("/jobs\r").wait_for("done")
    assert sitting.type("/exit\r").end().rc == 0
    assert "Traceback" not in plain(sitting.shown)
    assert home.rows("SELECT count(DISTINCT thread_id) FROM messages") == [(1,)]


def test_a_job_left_open_by_a_conversation_is_taken_up_by_a_worker(home: HomeAt) -> None:
    home.configure("[jobs]\nstep_seconds = 600.0\n")
    sitting = home.sit("agent", env=home.script({"text": "never", "delay": 600})).wait_for(PROMPT)
    sitting.type("/background do it\r").wait_for("it runs here").wait_for(PROMPT)
    until(lambda: home.rows("SELECT 1 FROM jobs WHERE worker IS NOT NULL"), "it to be taken up")
    assert sitting.type("/exit\r").wait_for("Not done: job_").end().rc == 0
    assert home.rows("SELECT worker, attempt FROM jobs") == [(None, 0)]
    home.ok("worker", "--once", env=home.script({"text": "done"}))
    assert home.rows("SELECT state FROM jobs") == [("DONE",)]


def test_a_job_that_the_agent_starts_in_a_conversation_is_worked_on_there_too(home: HomeAt) -> None:
    begin = {"tool_calls": [{"tool": "job_start", "args": {"goal": "look around"}}]}
    env = home.script({"match": "begin", **begin}, {"match": "begin", "text": "I began it."}, {"text": "I looked."})
    sitting = home.sit("agent", env=env).wait_for(PROMPT)
    sitting.type("begin\r").wait_for("I began it.").wait_for("it runs here").wait_for("is done").wait_for(PROMPT)
    assert sitting.type("/exit\r").end().rc == 0
    assert home.rows("SELECT state FROM jobs") == [("DONE",)]
    home.intact()


def test_one_message_that_starts_a_job_says_that_nobody_works_on_it(home: HomeAt) -> None:
    begin = {"tool_calls": [{"tool": "job_start", "args": {"goal": "look around"}}]}
    env = home.script({"match": "begin", **begin}, {"match": "begin", "text": "I began it."}, {"text": "I looked."})
    assert "No worker is running, so this waits" in home.ok("agent", "-m", "begin", env=env).err
    assert "No worker" not in home.ok("agent", "-m", "hello", env=env).err
