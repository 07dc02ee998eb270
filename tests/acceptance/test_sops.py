"""SOPs with the real executable: listed, validated, run, stopped, gone on with after an answer or a kill."""

import os
import signal

import pytest

from tests.acceptance.conftest import HomeAt, one_sentence, sleepers, until

pytestmark = pytest.mark.slow


def write(home: HomeAt, *steps: str, name: str = "x") -> str:
    folder = home.workspace / "sops" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SOP.toml").write_text(f'name = "{name}"\n' + "".join(f"[[steps]]\n{step}\n" for step in steps))
    return name


def last_run(home: HomeAt) -> dict:
    (newest, *_) = home.ok("sop", "status", "--json").json()
    return home.ok("sop", "status", newest["run_id"], "--json").json()


LIST = 'id = "list"\nkind = "tool"\ntool = "file_list"\nargs = { path = "sops" }'
ASK = 'id = "ask"\nkind = "approval"\nprompt = "Shall it go on?"'
NOTE = 'id = "note"\nkind = "tool"\ntool = "notes_write"\nargs = { title = "t", content_from = "list" }'
WRITE = 'id = "write"\nkind = "tool"\ntool = "file_write"\nargs = { path = "out.txt", content_from = "list" }'


def test_the_procedure_that_comes_with_the_workspace_holds_and_runs(home: HomeAt) -> None:
    assert "daily-check" in home.ok("sop", "list").out
    assert home.ok("sop", "validate").out.strip() == "daily-check: valid, 4 steps."
    env = home.script({"text": "a short list"})
    ran = home.run("sop", "run", "daily-check", env=env)
    assert ran.rc == 4
    for words in ("[1/4] list: done.", "[2/4] summarize: done. a short list", "[3/4] approval: waits", "sop approve"):
        assert words in ran.out
    run_id = last_run(home)["run_id"]
    shown = home.ok("sop", "status", run_id).out
    assert "WAITING" in shown
    assert "write  tool  to do" in shown
    sitting = home.sit("sop", "approve", run_id, env=env)
    sitting.wait_for("Continue to write report?").wait_for("Approve? [y").type("y\r")
    sitting.wait_for("daily-check.txt").wait_for("Approve? [y").type("y\r")
    ended = sitting.end()
    assert ended.rc == 0, ended
    assert (home.workspace / "daily-check.txt").read_text() == "a short list"
    assert last_run(home)["state"] == "DONE"
    assert [(receipt["tool"], receipt["status"]) for receipt in home.receipts()] == [
        ("file_list", "allowed"),
        ("sop_approval", "allowed"),
        ("file_write", "allowed"),
    ]
    home.intact()


def test_at_a_terminal_the_owner_is_asked_in_place(home: HomeAt) -> None:
    write(home, LIST, ASK, NOTE)
    sitting = home.sit("sop", "run", "x").wait_for("Shall it go on?").wait_for("Approve? [y").type("y\r")
    assert sitting.end().rc == 0
    refused = home.sit("sop", "run", "x").wait_for("Approve? [y").type("n\r").end()
    assert refused.rc == 4
    assert "ask: failed (OWNER_REFUSED)" in refused.out
    home.intact()


def test_an_answer_by_approvals_lets_it_be_resumed(home: HomeAt) -> None:
    write(home, LIST, ASK, NOTE)
    ran = home.run("sop", "run", "x", "--json")
    assert ran.rc == 4
    made = ran.json()
    assert (made["state"], made["stopped"]) == ("WAITING", "waiting")
    assert [step["state"] for step in made["steps"]] == ["SUCCEEDED", "WAITING", "TO DO"]
    (waiting,) = home.ok("approvals", "list", "--json").json()
    assert waiting["source"] == "sop"
    assert home.run("sop", "resume", made["run_id"]).rc == 4
    assert home.sit("approvals", "approve", waiting["action_id"]).wait_for("Approve? [y").type("y\r").end().rc == 0
    for told in (home.ok("sop", "status").out, home.ok("sop", "status", made["run_id"]).out):
        assert f"has been answered. Continue: `coilclaw sop resume {made['run_id']}`" in told
        assert "waits for your answer" not in told
        assert "sop approve" not in told
    done = home.ok("sop", "resume", made["run_id"], "--json").json()
    assert done["state"] == "DONE"
    one_sentence(home.run("sop", "resume", made["run_id"]), 2, "is DONE", "sop run x")
    home.intact()


def test_every_fault_is_reported_with_its_step(home: HomeAt) -> None:
    write(home, 'id = "a"\nkind = "tool"\ntool = "file_lst"', 'id = "a"\nkind = "approval"', name="broken")
    told = home.run("sop", "validate", "broken")
    assert told.rc == 2
    for words in ("step a: there is no tool 'file_lst'", "Did you mean file_list", "is used twice", "needs a message"):
        assert words in told.err
    listed = {each["name"]: each for each in home.ok("sop", "list", "--json").json()}
    assert (listed["broken"]["valid"], listed["daily-check"]["valid"]) == (False, True)
    assert len(home.run("sop", "validate", "--json").json()) == 2
    one_sentence(home.run("sop", "run", "broken"), 2, "is invalid", "sop validate broken")
    never = home.ok("sop", "status")
    assert "No procedure has been run yet." in never.out + never.err
    one_sentence(home.run("sop", "run", "brokn"), 2, "no procedure", "broken")
    one_sentence(home.run("sop", "run", "../sops/broken"), 2, "not a valid name of a procedure")
    one_sentence(home.run("sop", "status", "sop_x"), 2, "no run")
    one_sentence(home.run("sop", "approve", "sop_x"), 2, "interactive terminal")
    assert home.rows("SELECT count(*) FROM sop_runs") == [(0,)]


def test_estop_holds_a_run(home: HomeAt) -> None:
    write(home, ASK, NOTE.replace('content_from = "list"', 'content = "x"'))
    home.ok("estop")
    assert home.run("sop", "run", "x").rc == 5
    assert home.sit("estop", "--clear").wait_for("[y/N]").type("y\r").end().rc == 0
    assert home.run("sop", "run", "x").rc == 4
    run_id = last_run(home)["run_id"]
    home.ok("estop")
    held = home.run("sop", "resume", run_id)
    assert held.rc == 5
    assert "held by ESTOP" in held.out
    assert home.sit("estop", "--clear").wait_for("[y/N]").type("y\r").end().rc == 0
    assert home.sit("sop", "resume", run_id).wait_for("Approve? [y").type("y\r").end().rc == 0
    home.intact()


def test_killed_while_the_owner_is_asked_it_asks_again(home: HomeAt) -> None:
    write(home, LIST, WRITE)
    sitting = home.sit("sop", "run", "x").wait_for("Approve? [y")
    os.kill(sitting.process.pid, signal.SIGKILL)
    sitting.process.wait()
    run_id = last_run(home)["run_id"]
    assert not (home.workspace / "out.txt").exists()
    assert home.sit("sop", "resume", run_id).wait_for("Approve? [y").type("y\r").end().rc == 0
    assert (home.workspace / "out.txt").read_text().startswith("daily-check/")
    assert [receipt["tool"] for receipt in home.receipts()] == ["file_list", "file_write"]
    home.intact()


def test_killed_while_the_model_answers_it_continues_there(home: HomeAt) -> None:
    write(home, LIST, 'id = "think"\nkind = "agent"\nprompt = "Think."', NOTE.replace('"list"', '"think"'))
    process = home.start("sop", "run", "x", env=home.script({"text": "never", "delay": 600}))
    until(lambda: home.rows("SELECT 1 FROM sop_steps WHERE step_id = 'think'"), "the model to be asked", process)
    run_id = home.rows("SELECT run_id FROM sop_runs")[0][0]
    one_sentence(home.run("sop", "resume", run_id), 3, "run by another process")
    assert "Nothing is running it" not in home.ok("sop", "status", run_id).out
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (
        f"Nothing is running it now. Continue with: coilclaw sop resume {run_id}"
        in home.ok("sop", "status", run_id).out
    )
    home.ok("sop", "resume", run_id, env=home.script({"text": "thought"}))
    assert home.rows("SELECT content FROM notes") == [("thought",)]
    assert [receipt["tool"] for receipt in home.receipts()] == ["file_list", "notes_write"]
    home.intact()


def test_interrupted_by_hand_it_can_be_resumed(home: HomeAt) -> None:
    write(home, 'id = "think"\nkind = "agent"\nprompt = "Think."', NOTE.replace('"list"', '"think"'))
    process = home.start("sop", "run", "x", env=home.script({"text": "never", "delay": 600}))
    until(lambda: home.rows("SELECT 1 FROM sop_steps WHERE step_id = 'think'"), "the model to be asked", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    home.ok("sop", "resume", last_run(home)["run_id"], env=home.script({"text": "thought"}))
    assert home.rows("SELECT content FROM notes") == [("thought",)]
    home.intact()


def test_a_run_that_waits_for_the_owners_word_on_an_effect_is_not_sent_to_the_approvals(home: HomeAt) -> None:
    sleep = str(300 + os.urandom(1)[0])  # as no other test sleeps
    write(home, f'id = "cut"\nkind = "tool"\ntool = "shell"\nargs = {{ command = "sleep {sleep}" }}')
    process = home.start("sop", "run", "x", env={"COILCLAW_SECURITY_AUTONOMY": "full"})
    until(lambda: sleepers(sleep), "the command to run", process)
    home.ok("estop")
    out, _ = process.communicate()
    assert "actions resolve" in out
    assert "sop approve" not in out
    assert "coilclaw sop resume" in out
    assert "sop approve" not in home.ok("sop", "status", last_run(home)["run_id"]).out


def test_one_file_that_is_nested_too_deeply_hides_no_other(home: HomeAt) -> None:
    write(home, 'id = "a"\nkind = "tool"\ntool = "file_read"\n[steps.args]\npath = "x"\n' + "a." * 3000 + "b = 1")
    listed = home.ok("sop", "list").out
    assert "daily-check" in listed
    assert "nested too deeply" in listed
    checked = home.run("sop", "validate")
    assert checked.rc == 2
    assert "daily-check: valid" in checked.out
    assert "nested too deeply" in checked.err


def test_a_changed_file_is_reported_and_does_not_change_the_run(home: HomeAt) -> None:
    write(home, ASK, LIST)
    assert home.run("sop", "run", "x").rc == 4
    run_id = last_run(home)["run_id"]
    write(home, ASK, WRITE.replace('content_from = "list"', 'content = "evil"'))
    resumed = home.sit("sop", "resume", run_id).wait_for("has changed since").wait_for("Approve? [y").type("y\r").end()
    assert resumed.rc == 0
    assert not (home.workspace / "out.txt").exists()


def test_a_procedure_can_be_a_job(home: HomeAt) -> None:
    write(home, LIST, ASK, NOTE)
    made = home.ok("sop", "run", "x", "--job", "--json").json()
    home.ok("worker", "--once")
    run = last_run(home)
    assert (run["job_id"], run["state"]) == (made["job_id"], "WAITING")
    one_sentence(home.run("sop", "resume", run["run_id"]), 2, "belongs to", "approvals")
    (waiting,) = home.ok("approvals", "list", "--json").json()
    assert home.sit("approvals", "approve", waiting["action_id"]).wait_for("Approve? [y").type("y\r").end().rc == 0
    home.ok("worker", "--once")
    assert last_run(home)["state"] == "DONE"
    assert home.ok("job", "show", made["job_id"], "--json").json()["state"] == "DONE"
    home.intact()


def test_denied_and_failed_have_exit_codes_of_their_own(home: HomeAt) -> None:
    read = 'id = "r"\nkind = "tool"\ntool = "file_read"\nargs = {{ path = "{}" }}'
    write(home, read.format("/etc/passwd"))
    assert home.run("sop", "run", "x").rc == 3
    write(home, read.format("missing.txt"))
    assert home.run("sop", "run", "x").rc == 1
    assert [receipt["status"] for receipt in home.receipts()] == ["denied", "failed"]


def test_a_run_answered_elsewhere_continues_in_the_worker(home: HomeAt) -> None:
    env = home.script({"text": "a short list"})
    worker = home.start("worker", env=env)
    assert home.run("sop", "run", "daily-check", env=env).rc == 4
    (asked,) = home.ok("approvals", "list", "--json").json()
    sitting = home.sit("approvals", "approve", asked["action_id"])
    sitting.wait_for("| a short list").wait_for("Approve? [y").type("y\r")
    assert sitting.end().rc == 0
    until(lambda: home.ok("approvals", "list", "--json").json(), "the file to be asked about", worker)
    (asked,) = home.ok("approvals", "list", "--json").json()
    assert asked["call"]["tool"] == "file_write"
    assert home.sit("approvals", "approve", asked["action_id"]).wait_for("Approve? [y").type("y\r").end().rc == 0
    until(lambda: last_run(home)["state"] == "DONE", "the run to be over", worker)
    assert (home.workspace / "daily-check.txt").read_text() == "a short list"
    assert [receipt["tool"] for receipt in home.receipts()] == ["file_list", "sop_approval", "file_write"]
    worker.terminate()
    assert worker.wait() == 0
    home.intact()


def test_ctrl_c_at_its_question_is_a_no_and_ends_the_run(home: HomeAt) -> None:
    write(home, LIST, ASK, NOTE)
    sitting = home.sit("sop", "run", "x").wait_for("Shall it go on?").wait_for("Approve? [y").type("\x03")
    assert sitting.end().rc == 130
    run = last_run(home)
    assert run["state"] == "FAILED"
    assert "resume" not in home.ok("sop", "status", run["run_id"]).out
    home.intact()
