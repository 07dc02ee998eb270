"""Whoever changes the home's files without the keys is found, whatever they change; a crash never looks like that."""

import asyncio
import json
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from coilclaw.ledger.heads import SigningKey
from coilclaw.ledger.older import find_older
from coilclaw.ledger.verify import verify_all
from coilclaw.packets.errors import CoilclawError, LedgerBroken, StorageError
from coilclaw.packets.receipt import GENESIS
from coilclaw.store.actions import STATE
from tests.home import Sample
from tests.torture import tamper
from tests.torture.tamper import Books

TAMPERINGS = {**tamper.named(), **tamper.damages(), **tamper.misplaced()}


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """A home that had some of everything."""
    folder = tmp_path_factory.mktemp("real")
    return asyncio.run(tamper.build(folder))


@pytest.fixture
def copy(books, tmp_path):
    return books.copy(tmp_path / "copy")


def test_a_home_that_had_some_of_everything_is_intact(books):
    report = books.verify()
    assert report.valid, report
    assert not report.notes
    assert report.heads >= 2
    assert report.receipts > max(row[0] for row in books.rows("SELECT size FROM ledger_heads"))
    assert books.rows("SELECT count(*) FROM audit_gaps") == [(1,)]
    assert books.rows("SELECT count(*) FROM proposed_actions WHERE seal IS NOT NULL")[0][0] > 0
    statuses = {row[0] for row in books.rows("SELECT DISTINCT json_extract(line, '$.status') FROM receipts")}
    assert {"allowed", "denied", "failed"} <= statuses


@pytest.mark.parametrize(
    "name",
    [
        "receipts.action_id",
        "the log cut and exported_seq lowered",
        "a receipt appended to rows and log without the key",
        "the unsigned tail cut from rows, log and audit",
        "the first head dropped",
        "the last head signed by another key everywhere",
        "the last audit event deleted and the sequence lowered",
        "an action deleted with its events",
        "an old executed action made pending",
        "a decision's verdict",
        "an attempt raised",
        "a receipt row that is no text",
        "ledger.key empty",
        "a trigger that approves",
        "a trigger of ours changed",
        "a view in the place of the receipts",
        "tool_receipts.log is a pipe",
        "tool_receipts.log is 64 GB of nothing",
        "tool_receipts.log.heads is a pipe",
        "tool_receipts.log.heads is 64 GB of nothing",
        "keys/ledger.key is a pipe",
        "keys/ledger.count is a device",
    ],
)
def test_tampering_is_named(copy, name):
    changes = {**dict(tamper.columns()), **TAMPERINGS}
    change = next(found for full, found in changes.items() if full.startswith(name))
    change(copy)
    report = copy.verify()
    assert not report.valid
    assert report.findings[0] == report.broken
    assert all(each.detail and each.kind for each in report.findings)


@pytest.mark.slow
def test_every_kind_of_tampering_is_found_and_none_raises(books, tmp_path):
    tally = tamper.tamper(books, tmp_path)
    assert (tally.missed, tally.raised) == ([], [])
    assert sum(tally.found.values()) >= 200


@pytest.mark.slow
def test_flipped_bits_are_found_or_change_nothing(books, tmp_path):
    tally = tamper.flip(books, tmp_path, 150, seed=7)
    assert (tally.missed, tally.raised) == ([], [])
    assert sum(tally.found.values()) > 50


def test_every_column_of_an_action_is_part_of_its_state(books):
    columns = {row[1] for row in books.rows("PRAGMA table_info(proposed_actions)")}
    assert {name.strip() for name in STATE.split(",")} == columns - {"seal"}


async def test_a_row_that_was_added_without_the_key_is_not_signed(tmp_path):
    sample = Sample(tmp_path)
    await sample.call("file_list", path=".", key="1")
    sample.app.db.close()
    here = Books(tmp_path / "home")
    tamper.named()["a receipt appended to rows and log without the key"](here)
    before = here.rows("SELECT count(*) FROM ledger_heads")
    sample = Sample(tmp_path)
    await sample.call("file_list", path=".", key="2")
    sample.close()
    assert here.rows("SELECT count(*) FROM ledger_heads") == before
    assert any("nothing more is signed" in fields.get("message", "") for _, fields in sample.events)
    assert (2, "forged") in [(each.receipt, each.kind) for each in here.verify().findings]


async def test_a_cut_tail_stops_the_work(tmp_path):
    sample = Sample(tmp_path)
    for number in range(3):
        await sample.call("file_list", path=".", key=str(number))
    sample.app.db.close()
    here = Books(tmp_path / "home")
    tamper.named()["the unsigned tail cut from rows, log and audit"](here)
    db = sqlite3.connect(here.database)
    older = find_older(db, here.key, here.log)
    db.close()
    assert older is not None
    sample = Sample(tmp_path)
    sample.conveyor()
    assert sample.app.estop.engaged()
    sample.close()
    sample.app.estop.clear()
    heads = here.rows("SELECT count(*) FROM ledger_heads")
    sample = Sample(tmp_path)
    await sample.call("file_list", path=".", key="after")
    assert not sample.app.estop.engaged()  # told once; then it is the owner's
    sample.close()
    assert not here.verify().valid  # the count stays as it was found, and nothing is signed over the cut
    assert here.rows("SELECT count(*) FROM ledger_heads") == heads


# Crashes


async def test_a_count_that_a_power_cut_left_behind_is_not_a_break(tmp_path):
    sample = Sample(tmp_path)
    here = Books(tmp_path / "home")
    kept = []
    for number in range(4):
        kept.append((here.key.count_file.read_bytes(), here.key.mark_file.read_bytes()))
        await sample.call("file_list", path=".", key=str(number))
        await sample.app.ledger.seal_if_due()
    sample.close()
    for count, mark in kept:
        here.key.count_file.write_bytes(count)
        here.key.mark_file.write_bytes(mark)
        report = here.verify()
        assert report.valid, report


async def test_the_count_is_never_ahead_of_the_rows(tmp_path):
    """It is written after each commit, before anybody hears of it."""
    sample = Sample(tmp_path)
    here = Books(tmp_path / "home")
    await sample.call("file_list", path=".", key="1")
    count = here.key.count()
    assert (count.receipts, count.hash) == here.rows("SELECT seq, receipt_hash FROM receipts")[-1]
    assert count.audit == here.rows("SELECT max(seq) FROM audit_log")[0][0]
    sample.close()


async def test_a_head_that_did_not_get_beside_the_log_is_added_later(tmp_path):
    sample = Sample(tmp_path)
    await sample.call("file_list", path=".", key="1")
    sample.close()
    here = Books(tmp_path / "home")
    whole = here.heads.read_bytes()
    for left in (b"", whole[:40]):  # killed between the commit and the file, or in the middle of it
        here.heads.write_bytes(left)
        report = here.verify()
        assert report.valid, report
        assert any("heads file" in note for note in report.notes)
    sample = Sample(tmp_path)
    await sample.call("file_list", path=".", key="2")
    sample.close()
    assert here.heads.read_bytes().startswith(whole)
    report = here.verify()
    assert report.valid
    assert not report.notes


# A home of an earlier version


def _made_by_an_earlier_version(here: Books) -> None:
    """Heads and mark over receipts alone, no links, no MACs, no count."""
    here.sql(
        "UPDATE receipts SET mac = NULL",
        "UPDATE audit_log SET state = NULL, link = NULL, mac = NULL",
        "UPDATE proposed_actions SET seal = NULL",
        "DELETE FROM audit_gaps",
    )
    here.key.count_file.unlink()
    lines = []
    for size, line in here.rows("SELECT size, line FROM ledger_heads ORDER BY size"):
        head = here.key.sign(size, json.loads(line)["hash"], json.loads(line)["time"])
        lines.append(head.line())
        here.sql(f"UPDATE ledger_heads SET line = '{head.line().decode()}' WHERE size = {size}")
    here.heads.write_bytes(b"".join(line + b"\n" for line in lines))
    here.key.mark_file.write_bytes((lines[-1] if lines else here.key.sign(0, GENESIS, "").line()) + b"\n")


async def _earlier(folder: Path) -> Books:
    sample = Sample(folder)
    for number in range(3):
        await sample.call("file_list", path=".", key=str(number))
    sample.close()
    here = Books(folder / "home")
    here.sql("DELETE FROM audit_log WHERE seq = 2")  # as pruning did
    _made_by_an_earlier_version(here)
    return here


async def _go_on(folder: Path, key: str) -> None:
    sample = Sample(folder)
    await sample.call("file_list", path=".", key=key)
    sample.close()


async def test_a_home_of_an_earlier_version_is_covered_from_its_next_write_on(tmp_path):
    here = await _earlier(tmp_path)
    report = here.verify()
    assert report.valid, report
    assert any("earlier version" in note for note in report.notes)
    before = here.key.mark_file.read_bytes()
    await _go_on(tmp_path, "later")
    report = here.verify()
    assert report.valid, report
    assert not report.notes
    here.key.mark_file.write_bytes(before)  # cut off before the mark was written: it is taken up again
    await _go_on(tmp_path, "again")
    report = here.verify()
    assert report.valid, report
    here.sql("UPDATE audit_log SET payload_json = '{}' WHERE seq = 1")
    here.sql("UPDATE proposed_actions SET justification = 'x' WHERE rowid = 1")
    assert len(here.verify().findings) == 2


async def test_what_was_covered_once_is_not_covered_again(tmp_path):
    """Taking the links away brings no new ones: the mark beside the key says that there were some."""
    here = await _earlier(tmp_path)
    await _go_on(tmp_path, "later")
    here.sql("UPDATE audit_log SET payload_json = '{}', link = NULL, mac = NULL WHERE seq <= 3")
    await _go_on(tmp_path, "again")
    assert not here.verify().valid


# The key


@pytest.mark.parametrize("left", [b"", b"\0" * 65, b"garbage", b"0" * 64 + b"\n", None])
async def test_a_damaged_key_stops_work_before_it_is_done(tmp_path, left):
    sample = Sample(tmp_path, security__autonomy="full")
    await sample.call("file_list", path=".", key="1")
    sample.close()
    key = SigningKey(tmp_path / "home" / "keys")
    key.private_file.unlink() if left is None else key.private_file.write_bytes(left)
    sample = Sample(tmp_path, security__autonomy="full")
    with pytest.raises(CoilclawError, match="ledger key"):
        await sample.call("file_write", path="x.txt", content="x", key="2")
    assert not (sample.workspace / "x.txt").exists()
    sample.close()


async def test_a_key_that_is_damaged_while_we_run_stops_the_next_effect(tmp_path):
    sample = Sample(tmp_path, security__autonomy="full")
    assert (await sample.call("file_write", path="x.txt", content="x", key="1")).result.success
    key = sample.app.signing_key
    whole = key.private_file.read_bytes()
    key.private_file.write_bytes(b"")
    with pytest.raises(StorageError, match="empty"):
        await sample.call("file_write", path="y.txt", content="y", key="2")
    assert not (sample.workspace / "y.txt").exists()
    key.private_file.write_bytes(whole)
    assert (await sample.call("file_write", path="z.txt", content="z", key="3")).result.success
    sample.close()
    assert Books(tmp_path / "home").verify().valid


@pytest.mark.parametrize("left", [None, b"", b"garbage"])
async def test_a_damaged_count_stops_everything_and_the_remedy_mends_it(tmp_path, left):
    await _go_on(tmp_path, "1")
    here = Books(tmp_path / "home")
    here.key.count_file.unlink() if left is None else here.key.count_file.write_bytes(left)
    assert here.verify().broken.kind == "truncated"
    with pytest.raises(LedgerBroken, match=r"tail -n 1 .*ledger\.count"):
        await _go_on(tmp_path, "2")
    here.key.count_file.write_bytes(here.heads.read_bytes().splitlines(keepends=True)[-1])
    assert here.verify().valid
    await _go_on(tmp_path, "2")
    assert here.verify().valid


async def test_doctor_names_a_damaged_key(tmp_path):
    from coilclaw.runtime.checkup import examine

    await _go_on(tmp_path, "1")
    SigningKey(tmp_path / "home" / "keys").private_file.write_bytes(b"")
    sample = Sample(tmp_path)
    probes = {probe.name: probe for probe in examine(sample.app, lambda: sample.app.db.reader, short=True)}
    sample.close()
    assert probes["ledger"].state == "fail"
    assert "empty" in probes["ledger"].detail
    assert "backup" in probes["ledger"].remedy


# Elsewhere


def _as_a_stranger(work) -> int:
    """Run it as somebody who may write nothing here; the code it ends with."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 70
    try:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        code = work()
    finally:
        os._exit(code)


@pytest.mark.parametrize("wal", [False, True])
def test_a_home_that_cannot_be_written_is_verified(books, wal):
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401 - imported before the change of user

    folder = Path(tempfile.mkdtemp())
    try:
        here = books.copy(folder / "home")
        if wal:
            db = sqlite3.connect(here.database)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("INSERT INTO meta VALUES ('x', 'y')")
            db.commit()
            shutil.copytree(here.root, folder / "with")
            db.close()
            shutil.rmtree(here.root)
            (folder / "with").rename(here.root)
            (here.root / "memory.sqlite-shm").unlink()
        folder.chmod(0o755)
        for path in (here.root, *here.root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        names = sorted(path.name for path in here.root.iterdir())
        assert _as_a_stranger(lambda: 0 if here.verify().valid else 1) == 0
        assert sorted(path.name for path in here.root.iterdir()) == names
    finally:
        for path in folder.rglob("*"):
            path.chmod(0o700)
        shutil.rmtree(folder)


def test_without_the_private_key_what_is_signed_is_verified(copy):
    copy.key.private_file.unlink()
    report = copy.verify()
    assert report.valid
    assert any("cannot be determined" in note for note in report.notes)
    copy.sql("UPDATE audit_log SET payload_json = '{}' WHERE seq = (SELECT min(seq) FROM audit_log) + 2")
    assert not copy.verify().valid


def test_a_break_is_named_with_everything_else_that_is_invalid(copy):
    copy.sql("UPDATE receipts SET action_id = 'x' WHERE seq = 3", "DELETE FROM audit_log WHERE seq = 60")
    copy.sql("UPDATE proposed_actions SET attempt = 7")
    db = sqlite3.connect(copy.database)
    report = verify_all(db, copy.log, copy.key)
    db.close()
    kinds = [each.kind for each in report.findings]
    assert (report.broken.receipt, report.broken.kind) == (3, "edited")
    assert "missing" in kinds
    assert kinds.count("edited") > 10
