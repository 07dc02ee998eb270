"""Audit rows leave in order, each once, whatever happens on the way; nothing goes that is not safe first."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from datetime import timedelta
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coilclaw.ledger.audit import add_event
from coilclaw.ledger.prune import Busy, Pruner
from coilclaw.packets.canonical import canonical_bytes
from coilclaw.packets.errors import StorageError, UsageError
from coilclaw.packets.ids import stamp
from coilclaw.store.database import Database
from coilclaw.store.retention import Days, pruned_at
from tests.conftest import TestClock

KEPT = Days(audit=90, messages=0, artifacts=0, idempotency=0)


class Killed(BaseException):
    """Stands for a process that ends there and then."""


def same(value):
    return value


class Place:
    """A database and a workspace with audit rows of several days."""

    def __init__(self, folder, reached=lambda _: None):
        self.folder = folder
        self.workspace = folder / "ws"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.clock = TestClock()
        self.db = Database(folder / "home" / "m", folder / "home" / "locks")
        self.reached = reached

    def note(self, count=1, entity="e", **payload):
        def write(tx):
            for number in range(count):
                add_event(tx, self.clock, "thing", entity, {"n": number, **payload})

        self.db.write_now(write)

    def pruner(self, redact=same, days=KEPT):
        return Pruner(
            self.db,
            self.workspace,
            self.folder / "home" / "locks",
            days,
            clock=self.clock,
            redact=redact,
            reached=self.reached,
        )

    def rows(self):
        return [row[0] for row in self.db.reader.execute("SELECT seq FROM audit_log ORDER BY seq")]

    def files(self):
        return sorted(self.workspace.glob("audit/*/*/*.jsonl"))

    def exported(self):
        """The numbers in each file; every line must be canonical and the file in order."""
        found = {}
        for file in self.files():
            lines = file.read_bytes().splitlines(keepends=True)
            for line in lines:
                assert canonical_bytes(json.loads(line)) + b"\n" == line
            found[str(file.relative_to(self.workspace))] = [json.loads(line)["seq"] for line in lines]
        for seqs in found.values():
            assert seqs == sorted(seqs)
        return found

    def all_exported(self):
        return sorted(seq for seqs in self.exported().values() for seq in seqs)

    def close(self):
        self.db.close()


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.close()


def three_days(place):
    for _ in range(3):
        place.note(4)
        place.clock.advance(days=1)
    place.clock.advance(days=90)
    place.note(2)


def test_old_rows_are_exported_by_day_and_deleted_and_young_ones_stay(place):
    three_days(place)
    done = place.pruner().prune()
    assert place.exported() == {
        "audit/2026/03/01.jsonl": [1, 2, 3, 4],
        "audit/2026/03/02.jsonl": [5, 6, 7, 8],
        "audit/2026/03/03.jsonl": [9, 10, 11, 12],
    }
    assert place.rows() == [13, 14]
    assert (done.gone.audit, done.files) == (12, tuple(place.exported()))
    line = json.loads(place.files()[0].read_bytes().splitlines()[0])
    assert (line["event_type"], line["entity_id"], line["payload"]) == ("thing", "e", {"n": 0})
    assert all(file.stat().st_mode & 0o077 == 0 for file in place.files())


def test_nothing_of_it_is_read_with_the_connection_that_others_read_with(place):
    place.note(3)
    place.clock.advance(days=100)
    days = Days(audit=90, messages=30, artifacts=30, idempotency=30)
    used = []
    place.db.reader.set_progress_handler(lambda: used.append(1) and 0, 1)
    place.pruner(days=days).dry_run()
    assert place.pruner(days=days).prune_if_due() is not None
    place.db.reader.set_progress_handler(None, 1)
    assert used == []


def test_pruning_again_changes_nothing(place):
    three_days(place)
    place.pruner().prune()
    before = [file.read_bytes() for file in place.files()]
    assert place.pruner().prune().gone.audit == 0
    assert [file.read_bytes() for file in place.files()] == before


def test_a_dry_run_says_what_would_go_and_changes_nothing(place):
    three_days(place)
    told = place.pruner().dry_run()
    assert (place.files(), len(place.rows()), pruned_at(place.db.reader)) == ([], 14, None)
    done = place.pruner().prune()
    assert (told.gone, told.files) == (done.gone, done.files)


def test_zero_days_keep_everything(place):
    three_days(place)
    place.clock.advance(days=10_000)
    assert place.pruner(days=Days(audit=0, messages=0, artifacts=0, idempotency=0)).prune().gone.audit == 0
    assert len(place.rows()) == 14


def test_it_is_due_once_a_day_and_when_the_clock_went_back(place):
    pruner = place.pruner()
    assert pruner.prune_if_due() is not None
    assert pruner.prune_if_due() is None
    place.clock.advance(hours=25)
    assert pruner.prune_if_due() is not None
    place.clock.advance(days=-3)
    assert pruner.prune_if_due() is not None


def test_only_one_prunes_at_a_time(place):
    three_days(place)
    begun, go_on = threading.Event(), threading.Event()

    def reached(point):
        if point == "deleting":
            begun.set()
            assert go_on.wait(120)

    place.reached = reached
    first = threading.Thread(target=place.pruner().prune)
    first.start()
    assert begun.wait(120)
    place.reached = lambda _: None
    with pytest.raises(Busy, match="another process is already pruning"):
        place.pruner().prune()
    assert place.pruner().prune_if_due() is None
    go_on.set()
    first.join()
    assert issubclass(Busy, UsageError)
    assert place.rows() == [13, 14]


def test_secrets_are_taken_out_of_what_is_exported(place):
    place.note(reason="the word is hunter2")
    place.clock.advance(days=91)
    place.pruner(redact=lambda value: json.loads(json.dumps(value).replace("hunter2", "[redacted]"))).prune()
    assert b"hunter2" not in place.files()[0].read_bytes()
    assert b"[redacted]" in place.files()[0].read_bytes()


def test_a_redactor_that_breaks_deletes_nothing(place):
    three_days(place)

    def broken(_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        place.pruner(redact=broken).prune()
    assert len(place.rows()) == 14


def test_a_payload_without_a_canonical_form_is_kept_as_text(place):
    place.db.write_now(
        lambda tx: tx.execute(
            "INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at) VALUES"
            " ('a', 't', 'e', '{\"n\":123456789012345678901234567890}', '2026-01-01T00:00:00.000Z'),"
            " ('b', 't', 'e', '{broken', '2026-01-01T00:00:00.000Z')"
        )
    )
    place.clock.advance(days=90)
    place.pruner().prune()
    lines = [json.loads(line) for line in place.files()[0].read_bytes().splitlines()]
    assert [line["payload"] for line in lines] == ['{"n":123456789012345678901234567890}', "{broken"]


# Rows that come late


def test_rows_of_an_action_that_ended_late_are_put_in_where_they_belong(place):
    place.note(2)
    place.db.write_now(open_action)
    place.note(1, entity="act_1")
    place.note(2)
    place.clock.advance(days=91)
    place.pruner().prune()
    assert place.all_exported() == [1, 2, 4, 5]
    assert place.rows() == [3]
    place.db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET status = 'EXECUTED'"))
    place.pruner().prune()
    assert place.exported() == {"audit/2026/03/01.jsonl": [1, 2, 3, 4, 5]}
    assert place.rows() == []
    assert [path.name for path in place.files()[0].parent.iterdir()] == ["01.jsonl"]


def open_action(tx, status="PENDING", action_id="act_1", thread="t"):
    tx.execute("INSERT OR IGNORE INTO users VALUES ('owner', '', '')")
    tx.execute(
        "INSERT INTO proposed_actions (action_id, user_id, thread_id, source, source_id, tool, args_json, args_hash,"
        " risk_class, lane, idempotency_key, digest, taint_json, decision_json, status, expires_at, created_at,"
        " updated_at) VALUES (?, 'owner', ?, 'cli', '', 'x', '{}', '', '', '', ?, '', '[]', '{}', ?, '', '', '')",
        (action_id, thread, action_id, status),
    )


@pytest.mark.parametrize(
    ("status", "stays"),
    [("PENDING", True), ("APPROVED", True), ("UNKNOWN", True), ("EXECUTED", False), ("REJECTED", False)],
)
def test_the_audit_of_an_action_without_an_end_stays(place, status, stays):
    place.db.write_now(lambda tx: open_action(tx, status))
    place.note(entity="act_1")
    place.clock.advance(days=91)
    place.pruner().prune()
    assert (place.rows() == [1]) == stays
    assert (place.files() == []) == stays


def test_an_action_that_is_opened_again_in_the_meantime_keeps_its_rows(place):
    place.db.write_now(lambda tx: open_action(tx, "EXECUTED"))
    place.note(3, entity="act_1")
    place.clock.advance(days=91)

    def reopen(point):
        if point == "deleting":
            place.db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET status = 'APPROVED'"))

    place.reached = reopen
    assert place.pruner().prune().gone.audit == 0
    assert place.rows() == [1, 2, 3]
    place.reached = lambda _: None
    place.db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET status = 'EXECUTED'"))
    place.pruner().prune()
    assert place.all_exported() == [1, 2, 3]


def test_another_homes_rows_in_the_same_workspace_are_kept_apart(tmp_path):
    for name in ("one", "two"):
        made = Place(tmp_path / name)
        made.workspace = tmp_path / "ws"
        made.workspace.mkdir(exist_ok=True)
        made.note(3)
        made.clock.advance(days=91)
        made.pruner().prune()
        made.pruner().prune()
        made.close()
    lines = [json.loads(line) for line in (tmp_path / "ws/audit/2026/03/01.jsonl").read_bytes().splitlines()]
    assert [line["seq"] for line in lines] == [1, 1, 2, 2, 3, 3]
    assert len({line["entry_id"] for line in lines}) == 6


# Crashes


POINTS = ["appended", "exported", "rewritten", "deleting"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    deaths=st.lists(st.tuples(st.sampled_from(POINTS), st.integers(1, 4), st.integers(0, 300)), max_size=4),
    hours=st.lists(st.integers(-20, 30), min_size=1, max_size=12),
    still_open=st.booleans(),
)
def test_rows_are_exported_once_wherever_it_died(tmp_path_factory, deaths, hours, still_open):
    """Dies at named points, loses the end of the last file when nothing vouches for it yet, and starts again."""
    place = Place(tmp_path_factory.mktemp("p"))
    place.db.write_now(lambda tx: open_action(tx, "PENDING" if still_open else "EXECUTED"))
    for number, step in enumerate(hours):  # the clock jumps about
        place.clock.advance(hours=step)
        place.note(2, entity="act_1" if number % 3 == 0 else "e")
    every = place.rows()
    place.clock.advance(days=200)
    for point, nth, lost in deaths:
        die(place, point, nth, lost)
        place.db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET status = 'EXECUTED'"))
    place.reached = lambda _: None
    place.pruner().prune()
    place.db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET status = 'EXECUTED'"))
    place.pruner().prune()
    assert place.all_exported() == every
    assert place.rows() == []
    place.close()


def die(place, point, nth, lost):
    left = nth

    def reached(here):
        nonlocal left
        left -= here == point
        if left == 0:
            raise Killed

    place.reached = reached
    try:
        place.pruner().prune()
    except Killed:
        if point == "appended" and place.files():  # not yet durable: a power cut may take any of it
            newest = max(place.files(), key=lambda file: file.stat().st_mtime_ns)
            stored = set(place.rows())
            lines = newest.read_bytes().splitlines(keepends=True)
            unsure = takewhile(lambda line: line[-1:] != b"\n" or json.loads(line)["seq"] in stored, reversed(lines))
            os.truncate(newest, newest.stat().st_size - min(lost, sum(map(len, unsure))))


@pytest.mark.slow
@pytest.mark.parametrize("point", ["appended", "exported", "deleting"])
def test_a_process_that_is_killed_leaves_each_row_once(tmp_path, point):
    place = Place(tmp_path)
    three_days(place)
    every = place.rows()[:12]
    place.close()
    script = textwrap.dedent(f"""
        import os, signal, sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from pathlib import Path
        from tests.ledger.test_prune import Place
        place = Place(Path({str(tmp_path)!r}), lambda at: at == {point!r} and os.kill(os.getpid(), signal.SIGKILL))
        place.clock.advance(days=93)
        place.pruner().prune()
    """)
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", script]).returncode == -signal.SIGKILL
    place = Place(tmp_path)
    place.clock.advance(days=93)
    place.pruner().prune()
    assert place.all_exported() == every
    assert place.rows() == [13, 14]
    place.close()


# A disk and a workspace that do not want


@contextmanager
def no_file_beyond(size):
    """Writing past this many bytes fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_deletes_nothing_and_says_so(place):
    three_days(place)
    with no_file_beyond(300), pytest.raises(StorageError, match="the disk is full") as caught:
        place.pruner().prune()
    assert caught.value.exit_code == 7
    assert "nothing was deleted" in str(caught.value)
    assert all(file.read_bytes() == b"" for file in place.files())  # no half line stays
    assert len(place.rows()) == 14
    assert pruned_at(place.db.reader) is None
    place.pruner().prune()
    assert place.all_exported() == list(range(1, 13))


def test_a_disk_that_fills_up_on_the_last_day_deletes_nothing_of_the_first(place):
    place.note(1)
    place.clock.advance(days=1)
    place.note(50)
    place.clock.advance(days=92)
    with no_file_beyond(2000), pytest.raises(StorageError, match="the disk is full"):
        place.pruner().prune()
    assert len(place.rows()) == 51
    place.pruner().prune()
    assert place.all_exported() == list(range(1, 52))


@pytest.mark.parametrize("part", ["audit", "audit/2026", "audit/2026/03", "audit/2026/03/01.jsonl"])
@pytest.mark.parametrize("to", ["outside", "nowhere"])
def test_no_link_is_followed(place, tmp_path, part, to):
    outside = tmp_path / "outside"
    outside.mkdir() if not part.endswith("jsonl") else outside.write_bytes(b"")
    link = place.workspace / part
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / to)
    three_days(place)
    with pytest.raises(StorageError, match="is not followed, and nothing was deleted"):
        place.pruner().prune()
    assert len(place.rows()) == 14
    assert not (tmp_path / "nowhere").exists()
    assert outside.is_file() or list(outside.iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "folder", "second name"])
def test_what_is_not_a_plain_file_of_its_own_is_refused(place, tmp_path, kind):
    file = place.workspace / "audit/2026/03/01.jsonl"
    file.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        (tmp_path / "elsewhere").write_bytes(b"")
        os.link(tmp_path / "elsewhere", file)
    three_days(place)
    with pytest.raises(StorageError, match="nothing was deleted"):
        place.pruner().prune()
    assert len(place.rows()) == 14


def test_a_file_that_holds_something_else_is_refused(place):
    file = place.workspace / "audit/2026/03/01.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"my shopping list\n")
    three_days(place)
    with pytest.raises(StorageError, match="contains a line that is not an audit event; nothing was deleted"):
        place.pruner().prune()
    assert file.read_bytes() == b"my shopping list\n"


def test_a_last_line_that_only_lost_its_line_break_is_kept(place):
    three_days(place)
    place.pruner().prune()
    whole = place.files()[0].read_bytes()
    place.files()[0].write_bytes(whole[:-1])
    place.db.write_now(
        lambda tx: tx.execute(
            "INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at)"
            " VALUES ('late', 't', 'e', '{}', '2026-03-01T23:00:00.000Z')"
        )
    )
    place.pruner().prune()
    assert place.files()[0].read_bytes().startswith(whole)
    assert place.exported()["audit/2026/03/01.jsonl"] == [1, 2, 3, 4, 15]


def test_a_workspace_that_is_gone_deletes_nothing(place):
    three_days(place)
    place.workspace.rmdir()
    with pytest.raises(StorageError, match="nothing was deleted"):
        place.pruner().prune()
    assert len(place.rows()) == 14


def test_every_error_of_the_system_is_told_as_nothing_was_deleted():
    from coilclaw.ledger.export import _explained

    for code in (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.ELOOP, errno.ENOTDIR):
        assert "nothing was deleted" in str(_explained(OSError(code, os.strerror(code)), "audit/x"))


def test_the_cutoff_is_exactly_as_many_days_ago(place):
    place.note()
    written = place.clock.now
    place.clock.now = written + timedelta(days=90) - timedelta(milliseconds=1)
    place.pruner().prune()  # at the very instant: not older yet
    assert place.rows() == [1]
    place.pruner().prune()
    assert place.rows() == []
    assert stamp(written)[:10] in place.files()[0].read_text()
