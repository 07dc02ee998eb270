"""The daily export: complete days and ended jobs go to main, each once; only what stands there is pruned."""

import asyncio
import json
from datetime import timedelta

import pytest

from coilclaw.cli.commands.prune import pruner
from coilclaw.features.forge.export import MOST_DAYS, MOST_JOBS, export_files, exported_on_main, exported_through
from coilclaw.features.forge.paths import job_file_path
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import canonical_bytes
from coilclaw.packets.errors import RowDamaged
from coilclaw.packets.forge import MAIN
from coilclaw.sandbox.bot_repository import BOT, BotRepository, Written
from tests.conftest import TestClock
from tests.features.conftest import Office


def no_files(job_id):
    return []


class Records:
    """A home whose clock the test owns, and its main."""

    def __init__(self, home):
        self.home, self.app = home, home.app
        self.clock = TestClock()
        self.app.clock = self.clock
        self.app.db.write_now(lambda tx: tx.execute("DELETE FROM audit_log"))
        self.app.db.write_now(lambda tx: tx.execute("DELETE FROM sqlite_sequence WHERE name = 'audit_log'"))
        self.repository = BotRepository(home.workspace)

    def note(self, count=1, **payload):
        def write(tx):
            for number in range(count):
                add_event(tx, self.clock, "thing", "e", {"n": number, **payload})

        self.app.db.write_now(write)

    def days(self, count, events=3):
        for _ in range(count):
            self.note(events)
            self.clock.advance(days=1)

    @property
    def today(self):
        return self.clock.now.date().isoformat()

    def export(self, job_files=no_files, until=None):
        return export_files(self.app, until or self.today, job_files)

    def merge(self, files):
        main = self.repository.resolve(MAIN)
        self.repository.move(MAIN, self.repository.commit(main, files, "export", BOT, 1), main)

    def through(self):
        return exported_through(self.app, self.repository.resolve(MAIN))

    def numbers(self):
        return [row[0] for row in self.app.db.reader.execute("SELECT seq FROM audit_log ORDER BY seq")]


@pytest.fixture
def records(sample):
    return Records(sample(forge__enabled=True))


def told(files):
    """The numbers in each file; every line must be canonical."""
    found = {}
    for file in files:
        lines = file.data.splitlines(keepends=True)
        assert all(canonical_bytes(json.loads(line)) + b"\n" == line for line in lines)
        found[file.path] = [json.loads(line)["seq"] for line in lines]
    return found


def test_complete_days_leave_in_order_and_today_stays(records):
    records.days(2)
    records.note(4)
    assert told(records.export()) == {"audit/2026/03/01.jsonl": [1, 2, 3], "audit/2026/03/02.jsonl": [4, 5, 6]}
    assert told(records.export(until="2099-01-01")) == told(records.export())
    assert told(records.export(until="2026-03-02")) == {"audit/2026/03/01.jsonl": [1, 2, 3]}
    line = json.loads(records.export()[0].data.splitlines()[0])
    assert set(line) == {"seq", "entry_id", "event_type", "entity_id", "payload", "created_at"}


def test_what_is_on_main_with_the_same_bytes_is_not_exported_again(records):
    records.days(2)
    records.merge(records.export())
    assert records.export() == []
    assert records.export() == []
    records.days(1)
    assert list(told(records.export())) == ["audit/2026/03/03.jsonl"]


def test_a_file_that_was_changed_on_main_is_exported_again(records):
    records.days(2)
    files = records.export()
    records.merge(files)
    assert records.export() == []
    records.merge([Written(files[0].path, files[0].data.replace(b'"thing"', b'"other"'))])
    assert records.export() == [files[0]]
    records.merge([Written(files[0].path, None)])
    assert records.export() == [files[0]]


def test_an_event_that_comes_late_is_put_into_its_day(records):
    records.days(2)
    records.merge(records.export())
    records.clock.advance(days=-2)
    records.note(1)
    records.clock.advance(days=2)
    assert told(records.export()) == {"audit/2026/03/01.jsonl": [1, 2, 3, 7]}


def test_at_most_a_month_at_once_the_oldest_first(records):
    records.days(MOST_DAYS + 5, events=1)
    files = records.export()
    assert sorted(told(files).values()) == [[number] for number in range(1, MOST_DAYS + 1)]
    records.merge(files)
    assert records.through() == MOST_DAYS
    assert len(records.export()) == 5


def test_events_of_a_clock_that_ran_ahead_leave_no_hole(records):
    records.note(2)
    records.clock.advance(days=9000)
    records.note(2)
    records.clock.advance(days=-9000)
    records.note(1)
    records.clock.advance(days=1)
    files = records.export()
    assert told(files) == {"audit/2026/03/01.jsonl": [1, 2, 3, 4, 5]}
    records.merge(files)
    assert records.through() == 5
    records.clock.advance(days=9001)
    assert told(records.export()) == {"audit/2026/03/01.jsonl": [1, 2, 5], "audit/2050/10/21.jsonl": [3, 4]}
    records.merge(records.export())
    assert records.through() == 5


def test_what_was_pruned_before_is_taken_from_its_export(sample):
    records = Records(sample(forge__enabled=False))
    records.days(2)
    records.clock.advance(days=100)
    records.note(1)
    records.clock.advance(days=-100)
    assert pruner(records.app).prune().gone.audit == 0
    records.clock.advance(days=101)
    done = pruner(records.app).prune()
    assert (done.gone.audit, done.files) == (6, ("audit/2026/03/01.jsonl", "audit/2026/03/02.jsonl"))
    days = told(records.export())
    assert list(days.values()) == [[1, 2, 3], [4, 5, 6], [7]]
    records.merge(records.export())
    assert records.export() == []
    assert records.through() == 7


def test_lines_of_another_home_are_not_taken_over(records):
    foreign = canonical_bytes({"seq": 900, "entry_id": "evt_x", "created_at": "2026-03-01T00:00:00Z"})
    records.merge([Written("audit/2026/03/01.jsonl", foreign + b"\nnonsense\n")])
    records.days(1)
    assert told(records.export()) == {"audit/2026/03/01.jsonl": [1, 2, 3]}


def test_secrets_do_not_leave(sample):
    records = Records(sample())
    records.app.redactor.register("TEAM_TOKEN", "hunter2-0123456789-planted")
    records.note(1, word="hunter2-0123456789-planted")
    records.clock.advance(days=1)
    (file,) = records.export()
    assert b"hunter2" not in file.data
    assert b"[redacted:TEAM_TOKEN]" in file.data


# What may be pruned


def test_only_what_stands_in_a_commit_is_pruned(records):
    records.days(2)
    records.merge(records.export())
    records.days(2)
    records.clock.advance(days=100)
    done = pruner(records.app).dry_run()
    assert (done.gone.audit, done.waiting, done.files) == (6, 6, ())
    done = pruner(records.app).prune()
    assert (done.gone.audit, done.waiting, done.files) == (6, 6, ())
    assert records.numbers() == list(range(7, 13))
    assert not list(records.home.workspace.glob("audit/2*"))
    records.merge(records.export())
    assert pruner(records.app).prune().gone.audit == 6
    assert records.export() == []


@pytest.mark.parametrize("change", ["edited", "dropped", "gone"])
def test_a_line_that_is_not_there_as_it_was_written_holds_back_what_follows(records, change):
    records.days(2)
    files = records.export()
    lines = files[0].data.splitlines(keepends=True)
    changed = {
        "edited": b"".join([lines[0], lines[1].replace(b'"n":1', b'"n":7'), lines[2]]),
        "dropped": b"".join([lines[0], lines[2]]),
        "gone": None,
    }
    records.merge([*files])
    assert records.through() == 6
    records.merge([Written(files[0].path, changed[change])])
    assert records.through() == {"edited": 1, "dropped": 1, "gone": 0}[change]
    records.clock.advance(days=100)
    pruner(records.app).prune()
    assert records.numbers()[-5:] == [2, 3, 4, 5, 6]
    records.merge(records.export())
    assert records.through() == 6


def test_without_pull_requests_the_audit_need_not_be_on_main(sample):
    assert exported_on_main(sample(forge__enabled=False).app, "2099") is None
    home = sample(forge__enabled=True)
    assert exported_on_main(home.app, "2099") is not None
    (home.workspace / ".git").rename(home.folder / "elsewhere")
    assert exported_on_main(home.app, "2099") is None


# Jobs


def job_file(app, job_id):
    state, created = app.db.reader.execute("SELECT state, created_at FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    return [Written(job_file_path(job_id, created), f'---\njob_id: "{job_id}"\nstate: "{state}"\n---\n'.encode())]


def make_jobs(home, count):
    office = Office(home)
    return [asyncio.run(office.create(goal=f"job {number}")).job_id for number in range(count)]


def set_state(app, job_id, state):
    app.db.write_now(lambda tx: tx.execute("UPDATE jobs SET state = ? WHERE job_id = ?", (state, job_id)))


def test_jobs_that_ended_are_exported_until_main_says_how(records):
    app = records.app
    jobs = make_jobs(records.home, 6)
    ends = ("DONE", "DENIED", "FAILED", "CANCELLED", "TIMED_OUT", "WAITING_APPROVAL")
    for job_id, state in zip(jobs, ends, strict=True):
        set_state(app, job_id, state)
    asked = []

    def files(job_id):
        asked.append(job_id)
        return job_file(app, job_id)

    found = [file for file in records.export(files) if file.path.startswith("jobs/")]
    assert asked == jobs[:5]
    assert [file.data.splitlines()[2] for file in found] == [f'state: "{state}"'.encode() for state in ends[:5]]
    records.merge([*found, *job_file(app, jobs[5])])
    asked.clear()
    assert records.export(files) == []
    assert asked == []
    set_state(app, jobs[5], "DONE")
    assert [file.path for file in records.export(files)] == [job_file(app, jobs[5])[0].path]


def test_a_job_that_cannot_be_read_does_not_stop_the_others(records):
    jobs = make_jobs(records.home, 2)
    for job_id in jobs:
        set_state(records.app, job_id, "FAILED")

    def files(job_id):
        if job_id == jobs[0]:
            raise RowDamaged("it is damaged.")
        return job_file(records.app, job_id)

    assert [jobs[1] in file.path for file in records.export(files)] == [True]
    assert any("left out of the export" in fields.get("message", "") for _, fields in records.home.events)


def test_so_many_jobs_at_once(records):
    (first,) = make_jobs(records.home, 1)

    def copy(tx):
        names = [row[1] for row in tx.execute("PRAGMA table_info(jobs)") if row[1] != "job_id"]
        columns = ", ".join(names)
        for number in range(MOST_JOBS + 10):
            tx.execute(
                f"INSERT INTO jobs (job_id, {columns}) SELECT ?, {columns} FROM jobs WHERE job_id = ?",
                (f"job_{number:05}", first),
            )
        tx.execute("UPDATE jobs SET state = 'FAILED'")

    records.app.db.write_now(copy)
    asked = []
    records.export(lambda job_id: asked.append(job_id) or [])
    assert len(asked) == MOST_JOBS


def test_a_repository_without_main_gets_nothing(records):
    records.days(1)
    records.repository.remove(MAIN)
    assert records.export() == []


def test_the_clock_decides_what_is_complete(records):
    records.note(3)
    assert records.export(until="2027-01-01") == []
    records.clock.advance(hours=11, minutes=59)
    assert records.export(until="2027-01-01") == []
    records.clock.now += timedelta(minutes=1)
    assert list(told(records.export(until="2027-01-01"))) == ["audit/2026/03/01.jsonl"]
