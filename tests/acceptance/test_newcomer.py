"""What somebody new meets at the terminal: one word for one thing, a hint for each slip, nothing said twice."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from coilclaw.cli.commands.onboard import LOCAL_PORTS
from coilclaw.features.chat.commands.tour import LETTER_TEXT, STEPS
from tests.acceptance.conftest import COILCLAW, HomeAt, one_sentence
from tests.missing import without_model_servers

pytestmark = pytest.mark.slow

WRITE = {"path": "a.txt", "content": "x\n"}
OLD = "2020-01-01T00:00:00.000Z"
BERLIN = {"TZ": "Europe/Berlin"}


def proposed(home: HomeAt, path: str = "a.txt") -> str:
    """An action that waits."""
    home.tool("file_write", {**WRITE, "path": path})
    return home.rows("SELECT action_id FROM proposed_actions ORDER BY rowid DESC LIMIT 1")[0][0]


def completed(home: HomeAt, words: str, *, shell: str = "fish") -> list[str]:
    """What a shell is offered behind these words, each as `value<TAB>help`."""
    environ = {
        **home.environ,
        "_COILCLAW_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": words.rpartition(" ")[2] if shell == "fish" else str(words.count(" ")),
    }
    done = subprocess.run([COILCLAW], env=environ, cwd=home.base, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]


# Words


def test_what_is_said_around_a_new_project_and_a_setting_breaks_between_words(home: HomeAt) -> None:
    folder = home.base / "site"
    folder.mkdir()
    asked = home.sit("project", "add", str(folder), size=(60, 300)).wait_for("count as yours? [y/N]").type("n\r")
    before = asked.wait_for("Approve? [y").type("n\r").end().out.split("Do its files")[0]
    assert before.startswith("Do you vouch for what is in")
    assert all(len(row) < 60 for row in before.splitlines())
    keys = ("server.http_addr", "127.0.0.1:0", "server.public_url", "https://coil.example.net")
    setting = home.sit("config", "set", *keys, size=(70, 300)).wait_for("Approve? [y").type("y\r").end()
    rows = [row for row in setting.out.splitlines() if "next start" in row or row.endswith("public_url.")]
    assert rows
    assert all(len(row) < 70 for row in rows)


def test_what_the_owner_says_no_to_is_rejected_and_nothing_else(home: HomeAt) -> None:
    assert "file_write waits for your approval: `coilclaw approvals approve act_" in home.tool("file_write", WRITE).err
    action = proposed(home)
    assert home.ok("approvals", "reject", action, "--reason", "not today").out == f"Rejected {action}.\n"
    one_sentence(home.run("approvals", "show", action), 2, f"{action} was rejected by you (not today)")
    shown = home.ok("actions", "show", action).out
    assert "REJECTED" in shown  # the status is the contract
    assert "You rejected it. not today" in shown
    story = home.ok("audit", "explain", action).out
    assert "  rejected      not today" in story
    assert re.search(r"receipt-\S+ at .*: rejected, OWNER_REFUSED", story)
    assert "refused" not in story + shown
    asked = home.sit("approvals", "approve", proposed(home)).wait_for("Approve? [y").type("n\r").end()
    assert asked.rc == 4
    assert "You rejected it." in asked.out
    assert "The owner" not in asked.out


def test_what_the_rules_say_no_to_is_denied_and_what_ran_is_done(home: HomeAt) -> None:
    denied = home.tool("file_read", {"path": "/etc/passwd"})
    assert "· tool denied tool=file_read code=PATH_FORBIDDEN" in denied.err
    done = home.tool("time", {})
    assert "· tool done tool=time code=ALLOWED\n" in done.err
    rejected, ran = (row[0] for row in home.rows("SELECT action_id FROM proposed_actions ORDER BY rowid"))
    one_sentence(home.run("approvals", "approve", rejected), 2, "interactive terminal")
    one_sentence(home.run("approvals", "reject", rejected), 2, "was denied by policy")
    one_sentence(home.run("approvals", "reject", ran), 2, "is done; it is no longer waiting")
    assert ": done, ALLOWED" in home.ok("audit", "explain", ran).out
    assert [row["status"] for row in home.receipts()] == ["denied", "allowed"]


def test_no_help_says_refused(home: HomeAt) -> None:
    for command in (["--help"], ["approvals", "--help"], ["approvals", "reject", "--help"], ["actions", "--help"],
                    ["tool", "run", "--help"], ["sop", "run", "--help"]):  # fmt: skip
        assert "efuse" not in home.ok(*command).out, command


def test_a_decision_is_reported_in_words_at_a_terminal_and_says_the_risk_once(home: HomeAt) -> None:
    command = ["policy", "check", "--json", '{"tool": "file_write", "args": {"path": "a", "content": ""}}']
    told = home.sit(*command).end().out
    assert told.count("R2") == 1
    assert "risk_level" not in told
    assert "verdict  ask" in told
    assert home.ok(*command).json()["risk_level"] == "R2"  # programs get the whole packet


# Slips


def test_a_preview_takes_the_expression_as_an_argument_and_the_zone_of_the_machine(home: HomeAt) -> None:
    told = home.ok("schedule", "preview", "0 9 * * 1-5", env=BERLIN).out
    assert "9:00 AM Europe/Berlin" in told
    assert "the zone of this machine" in told
    assert home.ok("schedule", "preview", "0", "9", "*", "*", "1-5", env=BERLIN).out == told
    named = home.ok("schedule", "preview", "--cron", "0 9 * * 1-5", "--timezone", "Asia/Tokyo", env=BERLIN).out
    assert "9:00 AM Asia/Tokyo" in named
    assert "machine" not in named
    assert "UTC, because" in home.ok("schedule", "preview", "0 9 * * *", env={"TZ": "XYZ3"}).out
    one_sentence(home.run("schedule", "preview"), 2, "cron expression is missing", "0 9 * * 1-5")
    one_sentence(home.run("schedule", "preview", "0 9 * * *", "--cron", "0 9 * * *"), 2, "twice")
    one_sentence(home.run("schedule", "preview", "0 9 * * *", "--timezone", ""), 2, "no time zone")


def test_a_preview_speaks_to_the_owner_and_keeps_the_fixed_sentences_for_programs(home: HomeAt) -> None:
    command = ["schedule", "preview", "*/7 9-17/2 1,15 * 1-5", "--timezone", "Etc/UTC"]
    told = home.ok(*command).out
    assert "Dates and weekdays both count" in told
    for words in ("OR semantics", "dispatcher tick", "in months *", "the last gap"):
        assert words not in told
    fixed = home.ok(*command, "--json").json()
    assert "OR semantics" in fixed["cron_notes"]
    assert "the last gap" not in fixed["cron_notes"]
    made = ["schedule", "add", "--id", "odd", "--cron", command[2], "--timezone", "UTC", "--goal", "look"]
    for told in (home.ok(*made).out, home.ok("schedule", "show", "odd").out):
        assert "Dates and weekdays both count" in told
        assert "semantics" not in told


def test_a_new_schedule_is_told_all_its_faults_at_once(home: HomeAt) -> None:
    add = ("schedule", "add")
    both = home.run(*add, "--cron", "0 9 * *", "--goal", "x")
    one_sentence(both, 2, "five fields, but this one has 4", "the schedule has no time zone", "--timezone")
    wrong = home.run(*add, "--cron", "0 9 * *", "--timezone", "Europe/Berln")
    one_sentence(wrong, 2, "five fields", "Europe/Berlin", "the schedule has nothing to do")
    one_sentence(home.run(*add), 2, "the schedule has no time", "has nothing to do")
    one_sentence(home.run(*add, "--interval", "1h"), 2, "the schedule has nothing to do")


def test_every_question_ends_alike(home: HomeAt) -> None:
    home.ok("estop")
    for command in (["estop", "--clear"], ["memory", "clear"]):
        asked = home.sit(*command).wait_for("[y/N] ").type("n\r").end()
        assert asked.rc == 4
        assert "[y/N]:" not in asked.out


def test_an_address_that_cannot_be_is_named_with_what_is_wrong(home: HomeAt) -> None:
    one_sentence(home.run("up", "--addr", "127.0.0.1:x"), 2, "--addr 127.0.0.1:x: the port needs a whole number")


def test_an_unknown_tool_gets_no_advice_about_paths(home: HomeAt) -> None:
    told = home.sit("policy", "check", "--json", '{"tool": "file_raed", "args": {}}').end().out
    assert "Did you mean file_read" in told
    assert "inside the workspace" not in told


def test_a_message_without_its_option_is_told_of_it(home: HomeAt) -> None:
    one_sentence(home.run("agent", "hello", "there"), 2, "coilclaw agent -m 'hello there'")


def test_a_wrong_id_is_answered_with_the_nearest_or_a_few_of_the_newest(home: HomeAt) -> None:
    made = [proposed(home, f"{number}.txt") for number in range(7)]
    ran = home.run("actions", "show", "nothing")
    one_sentence(ran, 2, made[-1], made[-2], "among others")
    assert made[0] not in ran.err
    assert len(ran.sentence) < 200
    one_sentence(home.run("actions", "show", made[3][:-2]), 2, f"Did you mean {made[3]}?")


def test_with_nothing_found_no_server_is_called_another_one(home: HomeAt) -> None:
    without_model_servers(LOCAL_PORTS)
    environ = {"PATH": home.environ["PATH"]}
    asked = home.sit("onboard", "--no-test", env=environ).wait_for("Number").type("\r")
    shown = asked.wait_for("Autonomy").type("\r").end().out
    assert "1) a model server at an address you type in (any OpenAI-compatible one)" in shown
    assert "another" not in shown


# Times


def test_times_are_told_by_the_clocks_of_the_machine_with_their_offset(used: HomeAt) -> None:
    action = proposed(used)
    used.ok("job", "create", "count the files")
    listings = ("receipt list", "memory list", "memory search files", "approvals list", "audit list", "job list")
    for command in (*(each.split() for each in listings), ["actions", "show", action], ["audit", "explain", action]):
        told = used.ok(*command, env={"TZ": "Asia/Kolkata"}).out
        assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d(\.\d{3})?)?\+05:30", told), (command, told)
        told = re.sub(r'expires_at("?[:=]"?)\S+', "", told)  # what an event carries stays as it is
        assert not re.search(r"\dT\d\d:\d\d:\d\d", told), (command, told)


# Setting up again


def test_a_home_that_is_stopped_is_not_called_in_place(used: HomeAt) -> None:
    assert "Everything is in place" in used.ok("init").out
    assert used.ok("doctor", "--short", "--quiet").out.startswith("Everything is in place")
    used.ok("estop")
    again = used.ok("init")
    assert "in place" not in again.out
    assert "ESTOP is engaged" in again.err
    told = used.run("doctor", "--short", "--quiet").out
    assert "in place" not in told
    assert "[warn] estop: engaged" in told


def test_a_database_that_is_gone_is_lost_not_forged(used: HomeAt) -> None:
    for file in used.root.glob("memory.sqlite*"):
        file.unlink()
    for _ in range(2):
        again = used.ok("init")
        assert "in place" not in again.out
        assert "the database is new or an older copy: it has no receipts, and there were 1" in again.err
    doctor = used.run("doctor", "--short", "--quiet")
    assert doctor.rc == 1
    assert "[fail] database: the database is new" in doctor.out
    assert used.tool("time", {}).rc == 5  # stopped
    verified = used.run("receipt", "verify")
    assert verified.rc == 6
    assert "missing. the database was created anew" in verified.out
    assert "lost" in verified.out
    assert "forged" not in verified.out.splitlines()[0]
    (used.root / "ESTOP").unlink()
    used.tool("time", {})
    used.tool("time", {})
    assert "missing" in used.run("receipt", "verify").out


def test_the_tour_is_given_once_and_ticks_only_what_was_done(home: HomeAt) -> None:
    first = home.ok("tour", "--once")
    assert re.search(r"✓ receipt-\S+: file_list done", first.out)
    before = home.receipts(), home.messages()
    again = home.ok("tour", "--once")
    assert (again.out, (home.receipts(), home.messages())) == ("", before)
    home.ok("memory", "clear", "--yes")
    assert home.ok("tour", "--once").out == ""
    home.ok("estop")
    stopped = home.run("tour")
    assert stopped.rc == 5
    assert re.search(r"✗ receipt-\S+: file_list denied", stopped.out)
    assert not re.search(r"✓.*denied", stopped.out)


def test_the_tour_does_not_begin_in_a_new_home_that_is_stopped(home: HomeAt) -> None:
    home.ok("estop")
    assert home.ok("tour", "--once").out == ""
    assert home.receipts() == []


def test_the_tour_shows_what_runs_asks_is_denied_is_undone_and_is_blocked(home: HomeAt) -> None:
    sitting = home.sit("tour").wait_for("2 of 5").wait_for("Approve? [y").type("y\r")
    sitting.wait_for("4 of 5").wait_for("Approve? [y").type("y\r")
    ended = sitting.wait_for("5 of 5").wait_for("Approve? [y").type("y\r").end()
    assert ended.rc == 0, ended
    assert "Removed 1 file" in ended.out
    told = [(row["tool"], row["status"], row["code"]) for row in home.receipts()]
    assert told == [
        ("file_write", "allowed", "ALLOWED"),
        ("file_write", "allowed", "ALLOWED"),
        ("file_list", "allowed", "ALLOWED"),
        ("file_write", "allowed", "APPROVED"),
        ("shell", "denied", "COMMAND_DESTRUCTIVE"),
        ("undo", "allowed", "APPROVED"),
        ("attachment_save", "allowed", "APPROVED"),
        ("file_read", "allowed", "ALLOWED"),
        ("file_write", "denied", "PATH_TAINTED"),
        ("file_delete", "allowed", "APPROVED"),
    ]
    assert not (home.workspace / "attachments" / "letter.txt").exists()
    home.run("agent", "-m", "run `ls`")  # a command that may read everything there is
    home.run("agent", "--continue", "-m", "write hi to first.md")
    assert "untrusted" not in home.ok("approvals", "list", "--json").out.lower()
    assert not (home.workspace / "shopping.md").exists()
    assert not (home.workspace / "skills" / "obey").exists()
    assert (home.workspace / "intel" / "sample" / "plan.md").exists()


def test_the_panel_says_the_sentences_of_the_tour() -> None:
    panel = (Path(__file__).parents[2] / "web" / "src" / "talk" / "tour.ts").read_text(encoding="utf-8")
    for _, message, _ in STEPS:
        assert f"'{message}'" in panel
    assert json.dumps(LETTER_TEXT) in panel.replace("'", '"')


# A first start


def test_up_says_how_to_stop_it_and_shows_no_qr_code_for_loopback(home: HomeAt) -> None:
    up = home.sit("up", "--addr", "127.0.0.1:0").wait_for("working in the background")
    shown = up.type("\x03").end().out
    assert "Pairing code: " in shown
    assert "▄" not in shown
    assert "Other machines cannot reach this address" in shown
    assert "Press Ctrl-C to stop. Run other commands in a second terminal.\n" in shown
    assert "chore" not in shown
    assert "past its retention" not in shown  # there was nothing to prune


def test_a_code_to_scan_is_shown_where_its_address_leads_here_from_elsewhere(home: HomeAt) -> None:
    home.configure('[server]\npublic_url = "https://claw.example"\ntls_proxy = "127.0.0.1"\n')
    shown = home.sit("up", "--addr", "127.0.0.1:0").wait_for("Press Ctrl-C to stop").type("\x03").end().out
    assert "▄" in shown
    assert "cannot reach this address" not in shown


def test_a_worker_tells_of_pruning_only_where_something_went(home: HomeAt) -> None:
    assert "data past its retention" not in home.ok("worker", "--once").err
    with closing(sqlite3.connect(home.root / "memory.sqlite")) as db, db:
        db.execute("INSERT INTO users VALUES ('owner', '', 'x') ON CONFLICT DO NOTHING")
        db.execute("INSERT INTO threads VALUES ('conv_old', 'owner', 'cli', 'old', ?, ?, NULL)", (OLD, OLD))
        db.execute(
            "INSERT INTO messages (message_id, thread_id, turn_id, role, content, label, created_at)"
            " VALUES ('msg_old', 'conv_old', 'turn_old', 'user', 'hello', 'OWNER', ?)",
            (OLD,),
        )
        db.execute("UPDATE meta SET value = ? WHERE key = 'pruned_at'", (OLD,))
    home.configure("[retention]\nmessages_days = 1\n")
    assert "data past its retention" in home.ok("worker", "--once").err


# Tab


def test_ids_and_names_are_completed_the_newest_first(home: HomeAt) -> None:
    made = [proposed(home, f"{number}.txt") for number in range(3)]
    for command in ("approvals approve", "approvals reject", "approvals show", "actions show", "audit explain"):
        offered = completed(home, f"coilclaw {command} ")
        assert [each.partition("\t")[0] for each in offered] == made[::-1], command
    assert "file_write: Write 2 bytes to 2.txt." in completed(home, "coilclaw approvals show ")[0]
    assert completed(home, f"coilclaw approvals show {made[1]}", shell="bash") == [made[1]]
    assert completed(home, "coilclaw actions resolve ") == []  # none has an unknown outcome
    home.ok("approvals", "reject", made[0])
    assert len(completed(home, "coilclaw approvals approve ")) == 2
    job = home.ok("job", "create", "count, and tell").out.strip()
    assert completed(home, "coilclaw job show ") == [f"{job}\tunder way: count; and tell"]
    assert completed(home, "coilclaw sop run ") == ["daily-check\tRun a daily workspace check"]
    home.ok("schedule", "add", "--id", "mine", "--cron", "0 9 * * *", "--timezone", "UTC", "--goal", "look")
    assert completed(home, "coilclaw schedule show m") == ["mine\tlook"]
    home.ok("job", "cancel", job)
    assert completed(home, "coilclaw job cancel ") == []


def test_every_command_that_takes_an_id_or_a_name_completes_it(used: HomeAt) -> None:
    newest = used.receipts()[-1]["id"]
    assert completed(used, "coilclaw receipt show ")[0].startswith(f"{newest}\t")
    (conversation,) = used.rows("SELECT thread_id FROM threads ORDER BY updated_at DESC LIMIT 1")
    assert completed(used, "coilclaw memory show ")[0].startswith(f"{conversation[0]}\t")
    assert [each.partition("\t")[0] for each in completed(used, "coilclaw tool run file_l")] == ["file_list"]
    assert completed(used, "coilclaw provider test l") == ["local\tmock"]
    assert completed(used, "coilclaw devices revoke ") == []
    with closing(sqlite3.connect(used.root / "memory.sqlite")) as db, db:
        db.execute("INSERT INTO devices (device_id, user_id, name, created_at) VALUES ('dev_1', 'owner', 'phone', 'x')")
    assert completed(used, "coilclaw devices revoke ") == ["dev_1\tphone"]
    assert completed(used, "coilclaw undo ") == []
    (used.root / "snapshots").mkdir(exist_ok=True)
    for number in (1, 2):
        kept = {"id": f"snap_{number}", "time": "x", "note": f"before {number}", "files": {"a": ["", 0, 0, 0, 0, 0]}}
        (used.root / f"snapshots/snap_{number}.json").write_text(json.dumps(kept))
    assert completed(used, "coilclaw undo ") == ["snap_2\tbefore 2", "snap_1\tbefore 1"]
    assert completed(used, "coilclaw undo snap_1") == ["snap_1\tbefore 1"]


def test_only_runs_that_are_not_over_can_continue(home: HomeAt) -> None:
    run = home.run("sop", "run", "daily-check", "--json").json()["run_id"]
    for command in ("approve", "resume", "status"):
        assert [each.partition("\t")[0] for each in completed(home, f"coilclaw sop {command} ")] == [run]
    with closing(sqlite3.connect(home.root / "memory.sqlite")) as db, db:
        db.execute("UPDATE sop_runs SET state = 'FAILED'")
    assert [completed(home, f"coilclaw sop {command} ") for command in ("approve", "resume")] == [[], []]
    assert len(completed(home, "coilclaw sop status ")) == 1


def test_at_most_twenty_are_offered(home: HomeAt) -> None:
    (home.workspace / "sops").mkdir(exist_ok=True)
    for number in range(25):
        (home.workspace / f"sops/n{number}").mkdir()
        (home.workspace / f"sops/n{number}/SOP.toml").write_text("not = toml =")
    assert len(completed(home, "coilclaw sop run n")) == 20


def test_completion_makes_nothing_and_is_silent_about_faults(empty: HomeAt) -> None:
    assert completed(empty, "coilclaw job show ") == []
    assert not empty.root.exists()
    empty.ok("init")
    (empty.root / "memory.sqlite").unlink()
    assert completed(empty, "coilclaw approvals approve ") == []
    assert not (empty.root / "memory.sqlite").exists()
    (empty.root / "memory.sqlite").write_bytes(b"this is no database" * 100)
    assert completed(empty, "coilclaw approvals approve ") == []
    empty.configure("no toml [")
    assert completed(empty, "coilclaw job show ") == []


def test_completion_imports_nothing_heavy(home: HomeAt) -> None:
    check = (
        "import sys; sys.argv = ['coilclaw']\n"
        "from coilclaw.cli import main\n"
        "main()\n"
        "heavy = {'litestar', 'uvicorn', 'cryptography', 'httpx', 'rich', 'prompt_toolkit', 'tomlkit'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    proposed(home)
    words = {"_COILCLAW_COMPLETE": "fish_complete", "COMP_WORDS": "coilclaw actions show ", "COMP_CWORD": ""}
    done = subprocess.run(
        [sys.executable, "-c", check], env={**home.environ, **words}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "act_" in done.stdout


def test_fish_keeps_the_order(home: HomeAt) -> None:
    assert "--keep-order" in home.ok("completion", "fish").out
