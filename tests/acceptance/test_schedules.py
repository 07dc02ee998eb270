"""Schedules with the real executable: declared, edited, run by real workers, killed, paused, broken."""

import json
import os
import signal
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.conftest import HomeAt, one_sentence, until

pytestmark = pytest.mark.slow

EVERY_MINUTE = ("--cron", "* * * * *", "--timezone", "UTC")


def lately() -> tuple[str, ...]:
    """Every minute up to this one and then not for most of an hour: what is due does not change while a test looks."""
    now = datetime.now(UTC)
    minutes = sorted((now - timedelta(minutes=back)).minute for back in range(4))
    return ("--cron", f"{','.join(map(str, minutes))} * * * *", "--timezone", "UTC")


def registry(home: HomeAt) -> dict[str, Any]:
    return json.loads((home.workspace / "cron/jobs.json").read_text())


def add(home: HomeAt, name: str = "s", *more: str) -> dict[str, Any]:
    when = more if {"--cron", "--at", "--interval"} & set(more) else (*lately(), *more)
    return home.ok("schedule", "add", "--id", name, "--goal", "tell the time", *when, "--json").json()


def listed(home: HomeAt) -> dict[str, Any]:
    return home.ok("schedule", "list", "--json").json()


def make_due(home: HomeAt, name: str = "s", minutes: int = 2) -> None:
    """As if it had been declared a while ago and nobody had looked since."""
    slot = (datetime.now(UTC) - timedelta(minutes=minutes)).replace(second=0, microsecond=0)
    text = slot.strftime("%Y-%m-%dT%H:%M:%SZ")
    before = (slot - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    connection = sqlite3.connect(home.root / "memory.sqlite")
    with connection:
        connection.execute(
            "UPDATE schedules SET next_run_utc = ?, due_at = ?, counted_from = ? WHERE schedule_id = ?",
            (text, text.replace("Z", ".000Z"), before, name),
        )
    connection.close()


def runs(home: HomeAt, name: str = "s") -> list[dict[str, Any]]:
    return home.ok("schedule", "show", name, "--json").json()["runs"]


def test_a_schedule_from_its_adding_to_a_run_and_its_removal(home: HomeAt) -> None:
    home.configure('[security]\nallowed_domains = ["example.com"]\n')
    told = home.ok(
        "schedule", "add", "--cron", "0 9 * * 1-5", "--timezone", "Europe/Berlin", "--goal", "Look at the mail",
        "--tool", "time", "--domain", "example.com", "--max-files", "0",
    )  # fmt: skip
    assert "Every weekday (Monday–Friday) at 09:00 (Europe/Berlin)." in told.out
    (written,) = registry(home)["jobs"]
    assert written["job_id"] == "look-at-the-mail"
    assert written["cron_summary"] == "Every weekday (Monday–Friday) at 9:00 AM Europe/Berlin."
    assert len(written["next_runs_utc"]) == len(written["next_runs_local"]) == 3
    assert written["job_spec"]["constraints"] == {
        "allowed_tools": ["time"], "allowed_domains": ["example.com"], "max_files_changed": 0,
    }  # fmt: skip
    (row,) = listed(home)["schedules"]
    assert row["state"] == "waits"
    assert "look-at-the-mail" in home.ok("schedule", "list").out
    shown = home.ok("schedule", "show", "look-at-the-mail").out
    for words in ("Every weekday", "next runs:", "Look at the mail", "run_once, within 1d"):
        assert words in shown
    home.ok("schedule", "disable", "look-at-the-mail")
    assert listed(home)["schedules"][0]["state"] == "disabled"
    assert registry(home)["jobs"][0]["enabled"] is False
    home.ok("schedule", "enable", "look-at-the-mail")
    home.ok("schedule", "edit", "look-at-the-mail", "--interval", "90m")
    assert registry(home)["jobs"][0]["trigger"] == "interval"
    home.ok("schedule", "remove", "look-at-the-mail")
    assert registry(home)["jobs"] == []
    kinds = [event["event_type"] for event in home.ok("audit", "list", "--json", "--limit", "100").json()]
    for kind in ("added", "disabled", "enabled", "edited", "removed"):
        assert f"schedule_{kind}" in kinds


def test_the_worker_runs_what_is_due_and_an_outside_tick_does_too(home: HomeAt) -> None:
    add(home)
    make_due(home)
    done = home.ok("worker", "--once", env=home.script({"text": "it is late"}))
    assert "Worked on 1 job" in done.out
    newest, *older = runs(home)
    assert newest["outcome"] == "DONE"
    assert sum(run["slots"] for run in older) in (1, 2)
    assert newest["run_instance_id"] == f"s:{newest['scheduled_at']}"
    story = home.ok("job", "show", newest["job_id"], "--json").json()
    assert story["answer"] == "it is late"
    assert story["spec"]["inputs"]["schedule_run"]["schedule_id"] == "s"
    assert home.ok("worker", "--once").out.startswith("Worked on 0 jobs")
    home.intact()


def test_a_running_worker_takes_over_the_file_and_runs_by_the_clock(home: HomeAt) -> None:
    worker = home.start("worker", env=home.script({"text": "done"}))
    soon = (datetime.now(UTC) + timedelta(seconds=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = {"job_id": "once", "timezone": "UTC", "trigger": "at", "at": soon, "job_spec": {"intent": "say it"}}
    (home.workspace / "cron/jobs.json").write_text(json.dumps({"version": 1, "jobs": [entry]}))
    until(lambda: home.rows("SELECT 1 FROM jobs WHERE state = 'DONE'"), "the run", worker)
    until(lambda: home.rows("SELECT 1 FROM schedule_runs WHERE outcome = 'DONE'"), "its end", worker)
    assert home.rows("SELECT run_instance_id FROM schedule_runs") == [(f"once:{soon}",)]
    assert home.rows("SELECT status FROM wakeup_events") == [("COMPLETED",)]
    (row,) = listed(home)["schedules"]
    assert row["state"] == "over"


def test_killed_workers_and_two_at_once_neither_lose_nor_double_a_run(home: HomeAt) -> None:
    names = [f"s{number}" for number in range(6)]
    for name in names:
        add(home, name, *EVERY_MINUTE, "--overlap", "allow")
    env = home.script({"text": "done", "delay": 0.05})
    for _ in range(3):
        for name in names:
            make_due(home, name, 1)
        workers = [home.start("worker", env=env) for _ in range(2)]
        time.sleep(0.7)
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
            worker.communicate()
    for name in names:
        make_due(home, name, 1)
    home.ok("worker", "--once", env=env)
    assert (
        home.rows("SELECT job_id FROM schedule_runs WHERE job_id IS NOT NULL GROUP BY job_id HAVING count(*) > 1") == []
    )
    orphans = "SELECT job_id FROM jobs WHERE job_id NOT IN (SELECT job_id FROM schedule_runs WHERE job_id IS NOT NULL)"
    assert home.rows(orphans) == []
    assert home.rows("SELECT state, count(*) FROM jobs GROUP BY state") == [
        ("DONE", len(home.rows("SELECT 1 FROM jobs")))
    ]
    for name in names:
        slots = [row[0] for row in home.rows("SELECT scheduled_at FROM schedule_runs WHERE schedule_id = ?", name)]
        assert slots
        assert len(slots) == len(set(slots))
    home.intact()


def test_run_now_makes_a_job_at_once_and_leaves_the_next_run(home: HomeAt) -> None:
    before = add(home)["next_run_utc"]
    made = home.ok("schedule", "run-now", "s", "--json").json()
    assert home.rows("SELECT state FROM jobs WHERE job_id = ?", made["job_id"]) == [("RECEIVED",)]
    assert home.rows("SELECT next_run_utc FROM schedules") == [(before,)]
    assert runs(home)[0]["cause"] == "manual"


def test_a_broken_file_is_reported_loudly_and_the_last_good_schedules_continue(home: HomeAt) -> None:
    add(home)
    make_due(home)
    path = home.workspace / "cron/jobs.json"
    path.write_text(path.read_text().replace(' * * * *"', ',61 * * * *"'))
    seen = home.run("schedule", "list")
    assert "cron/jobs.json, line" in seen.err
    assert "column" in seen.err
    assert "s\t" in seen.out
    assert listed(home)["registry_broken"]
    done = home.ok("worker", "--once", env=home.script({"text": "done"}))
    assert "cron/jobs.json, line" in done.err
    assert len(home.rows("SELECT 1 FROM jobs")) == 1
    one_sentence(home.run("schedule", "disable", "s"), 2, "line", "column")
    assert len(home.rows("SELECT 1 FROM audit_log WHERE event_type = 'schedule_registry_broken'")) == 1


def test_repeated_failures_pause_it_and_enabling_lets_it_run_again(home: HomeAt) -> None:
    add(home, "s", "--max-failures", "2", "--evidence", "report", "--overlap", "allow")
    for _ in range(2):
        home.ok("schedule", "run-now", "s")
        home.ok("worker", "--once", env=home.script({"text": "no report"}))
    seen = home.run("schedule", "list")
    assert "is paused: 2 runs failed in a row" in seen.err
    assert "schedule enable s" in seen.err
    assert listed(home)["schedules"][0]["state"] == "paused"
    assert home.rows("SELECT content FROM messages WHERE thread_id = 'schedule_s'")
    home.ok("schedule", "enable", "s")
    (row,) = listed(home)["schedules"]
    assert (row["state"], row["failures"]) == ("waits", 0)


def test_estop_holds_the_dispatcher(home: HomeAt) -> None:
    add(home)
    make_due(home)
    home.ok("estop")
    home.run("worker", "--once")
    assert home.rows("SELECT 1 FROM jobs") == []
    assert home.sit("estop", "--clear").wait_for("[y/N]").type("y\r").end().rc == 0
    home.ok("worker", "--once", env=home.script({"text": "done"}))
    assert len(home.rows("SELECT 1 FROM jobs")) == 1


def test_the_agent_wakes_itself_up_and_its_followups_are_listed_apart(home: HomeAt) -> None:
    planned = home.calling("schedule_followup", {"goal": "look again", "in_minutes": 30}, "planned")
    home.ok("agent", "-m", "look again later", env=planned)
    told = listed(home)
    assert told["schedules"] == []
    (followup,) = told["followups"]
    assert followup["goal"] == "look again"
    assert "Follow-ups" in home.ok("schedule", "list").out
    assert registry(home)["jobs"] == []
    name = followup["schedule_id"]
    one_sentence(home.run("schedule", "edit", name, "--interval", "2h"), 2, "follow-up")
    one_sentence(home.run("schedule", "run-now", name), 2, "follow-up")
    make_due(home, name)
    home.ok("worker", "--once", env=home.script({"text": "looked again"}))
    assert listed(home)["followups"] == []
    assert home.rows("SELECT outcome FROM schedule_runs") == [("DONE",)]
    home.ok("agent", "-m", "and again", env=planned)
    (second,) = listed(home)["followups"]
    home.ok("schedule", "remove", second["schedule_id"])
    assert listed(home)["followups"] == []
    home.intact()


def test_bad_input_is_reported_in_one_sentence(home: HomeAt) -> None:
    add(home, "alpha")
    goal = ("--goal", "x")
    one_sentence(home.run("schedule", "add", "--cron", "5/15 * * * *", "--timezone", "UTC", *goal), 2, "5-59/15")
    one_sentence(
        home.run("schedule", "add", "--cron", "0 9 * * *", "--timezone", "Europe/Berlyn", *goal), 2, "Europe/Berlin"
    )
    one_sentence(home.run("schedule", "add", "--cron", "0 9 * * *", *goal), 2, "--timezone")
    one_sentence(home.run("schedule", "add", *goal), 2, "--cron")
    one_sentence(home.run("schedule", "add", *EVERY_MINUTE), 2, "--goal")
    one_sentence(home.run("schedule", "add", "--at", "2020-01-01T09:00", "--timezone", "UTC", *goal), 2, "passed")
    one_sentence(home.run("schedule", "add", "--interval", "5s", *goal), 2, "at least")
    one_sentence(home.run("schedule", "add", *EVERY_MINUTE, *goal, "--id", "alpha"), 2, "already")
    one_sentence(home.run("schedule", "add", *EVERY_MINUTE, *goal, "--id", "no/slash"), 2, "job_id")
    one_sentence(home.run("schedule", "edit", "alpha"), 2, "nothing to change")
    for command in ("show", "edit", "remove", "enable", "disable", "run-now"):
        more = ("--stagger", "1m") if command == "edit" else ()
        one_sentence(home.run("schedule", command, "alpa", *more), 2, "Did you mean alpha")
    assert [job["job_id"] for job in registry(home)["jobs"]] == ["alpha"]


def test_a_file_that_is_gone_is_not_written_again_without_a_word(home: HomeAt) -> None:
    add(home, "kept")
    path = home.workspace / "cron/jobs.json"
    path.unlink()
    assert "is missing" in home.run("schedule", "list").err
    one_sentence(home.run("schedule", "add", *EVERY_MINUTE, "--goal", "x"), 2, "is missing", "Restore it")
    assert [row["schedule_id"] for row in listed(home)["schedules"]] == ["kept"]
    os.mkfifo(path)
    seen = home.run("schedule", "list")
    assert "not a regular file" in seen.err
    assert "is missing" not in seen.err
    path.unlink()
    path.write_text("")
    assert home.run("schedule", "add", *EVERY_MINUTE, "--goal", "x").rc == 2
    assert path.read_text() == ""


def test_one_row_that_cannot_be_read_hides_no_other_and_can_be_written_again_or_removed(home: HomeAt) -> None:
    add(home, "bad")
    add(home, "good")

    def damage() -> None:
        connection = sqlite3.connect(home.root / "memory.sqlite")
        with connection:
            connection.execute("UPDATE schedules SET payload_json = '{' WHERE schedule_id = 'bad'")
        connection.close()

    damage()
    told = listed(home)
    assert [row["schedule_id"] for row in told["schedules"]] == ["good"]
    assert [row["schedule_id"] for row in told["unreadable"]] == ["bad"]
    assert "schedule enable bad" in home.run("schedule", "list").err
    one_sentence(home.run("schedule", "show", "bad"), 7, "schedule enable bad")
    home.ok("schedule", "enable", "bad")
    assert [row["schedule_id"] for row in listed(home)["schedules"]] == ["bad", "good"]
    damage()
    home.ok("schedule", "edit", "bad", "--stagger", "1m")
    damage()
    home.ok("schedule", "remove", "bad")
    assert [row["schedule_id"] for row in listed(home)["schedules"]] == ["good"]


def test_what_could_never_begin_and_what_is_secret_is_refused_at_once(home: HomeAt) -> None:
    one_sentence(home.run("schedule", "add", *EVERY_MINUTE, "--sop", "nosuch"), 2, "nosuch", "daily-check")
    one_sentence(home.run("schedule", "add", *EVERY_MINUTE, "--goal", "x", "--tool", "nosuch"), 2, "no tool 'nosuch'")
    token = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
    refused = home.run("schedule", "add", *EVERY_MINUTE, "--goal", f"use {token}")
    one_sentence(refused, 2, "this contains a secret")
    assert token not in refused.err + refused.out
    assert registry(home)["jobs"] == []


def test_a_link_in_the_files_place_is_not_followed(home: HomeAt) -> None:
    outside = home.base / "outside.json"
    outside.write_text('{"version": 1, "jobs": []}')
    path = home.workspace / "cron/jobs.json"
    path.unlink()
    path.symlink_to(outside)
    one_sentence(home.run("schedule", "add", *EVERY_MINUTE, "--goal", "x"), 2, "not a regular file")
    assert outside.read_text() == '{"version": 1, "jobs": []}'
