"""audit, usage and prune as they are typed: what they print, in which form, and how they end."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest

from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.config import Home, load
from coilclaw.ledger.audit import add_event
from coilclaw.packets.ids import utc_now
from coilclaw.store.database import Database
from coilclaw.store.usage import add_usage
from tests.ledger.test_audit import stored_action

pytestmark = pytest.mark.slow

RUN = """
import sys
from coilclaw.cli import main
sys.exit(main())
"""
SECRET = "hunter2-0123456789-planted"


class Place:
    """A home on disk, and commands run on it."""

    def __init__(self, folder):
        self.home = Home(folder / "home")
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COILCLAW_")},
            "COILCLAW_HOME": str(self.home.root),
            "TEAM_HOOK": SECRET,
        }
        make_home(self.home)
        with self.home.config_file.open("a") as file:
            file.write('\n[webhooks.team]\nurl = "https://example.com/"\nsecret_env = "TEAM_HOOK"\n')
            file.write('[prices."vendor/model:1"]\ninput_per_million = 2.5\noutput_per_million = 10\n')
        config = load(self.home, self.environ).config
        make_parts(self.home, config)
        make_workspace(self.home, config.workspace_dir)
        self.workspace = config.workspace_dir
        self.db = Database(config.memory.path, self.home.locks_dir)

    def command(self, *args):
        return [sys.executable, "-c", RUN, *args]

    def run(self, *args):
        return subprocess.run(self.command(*args), env=self.environ, capture_output=True, text=True, timeout=280)

    def start(self, *args, stdout=subprocess.PIPE):
        return subprocess.Popen(self.command(*args), env=self.environ, stdout=stdout, stderr=subprocess.PIPE, bufsize=0)

    def note(self, kind="thing", entity="e", clock=utc_now, **payload):
        self.db.write_now(lambda tx: add_event(tx, clock, kind, entity, payload))


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.db.close()


def line_of(process):
    """The next line, or an error: whoever follows must print at once."""
    ready, _, _ = select.select([process.stdout], [], [], 60)
    assert ready
    return process.stdout.readline().decode()


def test_events_are_listed_in_order_as_text_and_as_json(place):
    for number in range(5):
        place.note("odd" if number % 2 else "even", f"e{number}", n=number)
    told = place.run("audit", "list", "--limit", "2")
    assert [line.split("\t")[0] for line in told.stdout.splitlines()] == ["4", "5"]
    assert "odd\te3\tn=3" in told.stdout
    listed = json.loads(place.run("audit", "list", "--since", "1", "--type", "odd", "--json").stdout)
    assert [event["payload"]["n"] for event in listed] == [1, 3]
    listed = json.loads(place.run("audit", "list", "--entity", "e2", "--json").stdout)
    assert [event["seq"] for event in listed] == [3]
    assert place.run("audit", "list", "--entity", "none").stderr.startswith("There are no such events.")


def test_nothing_hides_and_no_secret_shows(place):
    place.note("thing\x1b[31m", "e\u202e", why=f"{SECRET} \u202e\x1b]0;x\x07")
    for args in ((), ("--json",)):
        told = place.run("audit", "list", *args).stdout
        assert SECRET not in told
        assert not {"\x1b", "\u202e", "\x07"} & set(told)
    (event,) = json.loads(place.run("audit", "list", "--json").stdout)
    assert event["entity_id"] == "e\u202e"  # an escape means the same


def test_following_prints_what_comes_until_it_is_interrupted(place):
    place.note("old", n=0)
    process = place.start("audit", "list", "--follow", "--json")
    try:
        assert json.loads(line_of(process))["event_type"] == "old"
        for number in range(3):
            place.note("new", n=number)
            assert json.loads(line_of(process))["payload"] == {"n": number}
        place.db.write_now(lambda tx: tx.execute("DELETE FROM audit_log"))
        place.note("after the pruning")
        assert json.loads(line_of(process))["event_type"] == "after the pruning"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=280)
        assert (process.returncode, out) == (130, b"")
        assert b"Traceback" not in err
    finally:
        process.kill()
        process.communicate()


def test_following_from_a_number_begins_after_it_and_obeys_the_filters(place):
    for number in range(4):
        place.note("odd" if number % 2 else "even", n=number)
    process = place.start("audit", "list", "--follow", "--since", "1", "--type", "odd")
    try:
        assert line_of(process).startswith("2\t")
        assert line_of(process).startswith("4\t")
        place.note("even")
        place.note("odd")
        assert line_of(process).startswith("6\t")
    finally:
        process.kill()
        process.communicate()


def test_following_ends_when_nobody_reads_any_more(place):
    place.note()
    reader, writer = os.pipe()
    process = place.start("audit", "list", "--follow", stdout=writer)
    os.close(writer)
    assert os.read(reader, 1000).startswith(b"1\t")
    os.close(reader)
    _, err = process.communicate(timeout=280)
    assert (process.returncode, err) == (0, b"")


def test_an_action_is_explained(place):
    made = stored_action(place.db, utc_now)
    told = place.run("audit", "explain", made.action_id)
    assert told.returncode == 0, told.stderr
    for words in (
        "act_1: shell, EXECUTED",
        "owner said    please do it",
        '{"n":1}',
        "verdict       allow",
        "by terminal at",
        "looked up first",
        "tier A, exited",
        "TRY_LATER",
        "number 2",
        made.digest,
        "The stored row and its receipts agree.",
        "approval_needed",
    ):
        assert words in told.stdout, words
    assert place.run("audit", "explain", "last").stdout == told.stdout
    story = json.loads(place.run("audit", "explain", made.action_id, "--json").stdout)
    assert story["agrees"]
    assert [proof["place"] for proof in story["receipts"]] == [1, 2]


def test_an_explained_action_that_was_tampered_with_ends_with_6(place):
    made = stored_action(place.db, utc_now)
    place.db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET digest = 'x'"))
    told = place.run("audit", "explain", made.action_id)
    assert told.returncode == 6
    assert "the row's digest is not the last receipt's" in told.stdout
    assert not json.loads(place.run("audit", "explain", made.action_id, "--json").stdout)["agrees"]


def test_an_explanation_hides_secrets_and_shows_what_hides(place):
    made = stored_action(place.db, utc_now)
    said = f"say {SECRET}\x1b[2J\u202e\nReceipts\n  forged"
    place.db.write_now(lambda tx: tx.execute("UPDATE messages SET content = ? WHERE turn_id = 'turn'", (said,)))
    place.db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET tool = 'shell\x1b[31m'"))
    for args in ((), ("--json",)):
        told = place.run("audit", "explain", made.action_id, *args).stdout
        assert SECRET not in told
        assert not {"\x1b", "\u202e"} & set(told)
    told = place.run("audit", "explain", made.action_id).stdout
    assert told.splitlines().count("Receipts") == 1  # what is quoted stays indented


def test_an_unknown_action_is_a_usage_error_with_the_nearest_name(place):
    stored_action(place.db, utc_now)
    told = place.run("audit", "explain", "act_2")
    assert (told.returncode, told.stdout) == (2, "")
    assert "Did you mean act_1?" in told.stderr


def use(place, model, tokens, clock=utc_now, job=None):
    place.db.write_now(
        lambda tx: add_usage(
            tx, clock, thread_id="", turn_id="", job_id=job, provider="p", model=model,
            input_tokens=tokens, output_tokens=tokens, estimated=False,
        )
    )  # fmt: skip


@pytest.fixture
def today():
    """What was used today is told as today's: in the last moments of a day, wait for the next."""
    while (now := utc_now()).hour == 23 and now.minute == 59:
        time.sleep(0.2)


def test_usage_is_shown_with_its_cost_and_todays_share(place, today):
    use(place, "vendor/model:1", 100_000)
    use(place, "free", 10)
    use(place, "free", 7, clock=lambda: utc_now() - timedelta(days=30))
    told = place.run("usage")
    assert told.stdout.splitlines() == [
        "free\t1\t10\t10\t-\t0",
        "vendor/model:1\t1\t100000\t100000\t1.2500\t0",
        "total\t2\t100010\t100010\t≥ 1.2500\t0",
    ]
    assert "Today: 200,020 of 15,000,000 tokens (1.3 %)." in told.stderr
    report = json.loads(place.run("usage", "--days", "60", "--by", "day", "--json").stdout)
    assert len(report["rows"]) == 2
    assert report["total"]["cost_millionths"] == 1_250_000
    assert report["today"] == {"tokens": 200020, "daily_tokens": 15_000_000}
    assert place.run("usage", "--by", "job").stdout.startswith("(no job)\t2\t")


def test_no_usage_is_said(place):
    told = place.run("usage")
    assert (told.returncode, told.stdout) == (0, "")
    assert "No tokens were used." in told.stderr


def test_what_is_not_on_main_is_kept_and_pruning_says_so(place):
    place.note("old", clock=lambda: utc_now() - timedelta(days=100))
    for arguments in (("--dry-run",), ()):
        told = place.run("prune", *arguments)
        assert "nothing." in told.stdout
        assert "Kept 1 old audit event that the daily export has not put on main yet" in told.stdout
    assert json.loads(place.run("prune", "--json").stdout)["waiting"] == 1
    assert place.db.reader.execute("SELECT count(*) FROM audit_log").fetchone()[0] == 1


def test_pruning_without_pull_requests_exports_and_deletes_and_says_so(place):
    place.environ["COILCLAW_FORGE_ENABLED"] = "false"
    old = utc_now() - timedelta(days=100)
    place.note("old", clock=lambda: old, why=SECRET)
    place.note("new")
    day = old.strftime("%Y/%m/%d")
    told = place.run("prune", "--dry-run")
    assert told.stdout == f"Would delete 1 audit event.\nWould export audit events to audit/{day}.jsonl.\n"
    told = place.run("prune")
    assert told.stdout == f"Deleted 1 audit event.\nExported audit events to audit/{day}.jsonl.\n"
    exported = (place.workspace / f"audit/{day}.jsonl").read_text()
    assert json.loads(exported)["event_type"] == "old"
    assert SECRET not in exported
    again = json.loads(place.run("prune", "--json").stdout)
    assert again["gone"]["audit"] == 0
    assert not again["dry_run"]


def test_a_workspace_that_leads_elsewhere_ends_with_7_and_loses_nothing(place, tmp_path):
    place.environ["COILCLAW_FORGE_ENABLED"] = "false"
    place.note("old", clock=lambda: utc_now() - timedelta(days=100))
    (place.workspace / "audit").rename(tmp_path / "elsewhere") if (place.workspace / "audit").exists() else None
    (tmp_path / "elsewhere").mkdir(exist_ok=True)
    (place.workspace / "audit").symlink_to(tmp_path / "elsewhere")
    told = place.run("prune")
    assert told.returncode == 7
    assert "nothing was deleted" in told.stderr
    assert place.db.reader.execute("SELECT count(*) FROM audit_log").fetchone()[0] == 1
