"""The signed mark: durable, private, and never believed when it is damaged."""

import errno
import json
import os
import shutil
import stat

import pytest

from coilclaw.ledger.heads import SigningKey, append_heads
from coilclaw.ledger.ledger import heads_file
from coilclaw.ledger.older import find_older
from coilclaw.ledger.verify import verify_ledger
from coilclaw.packets.errors import LedgerBroken
from tests.ledger.test_ledger import Book
from tests.power import disk, umask

FILES = ["ledger.count", "ledger.key", "ledger.mark", "ledger.pub"]


@pytest.fixture
def key(tmp_path):
    made = SigningKey(tmp_path / "keys")
    made.create()
    return made


def test_the_mark_outlives_a_power_cut(key):
    head = key.sign(7, "a" * 64, "2026-03-01T12:00:00.000Z")
    with disk(key.mark_file.parent) as keys:
        key.keep_mark(head)
        keys.cut()
    assert key.mark() == head
    assert sorted(os.listdir(key.mark_file.parent)) == FILES


def test_the_heads_beside_the_log_outlive_a_power_cut(key, tmp_path):
    with disk(tmp_path) as there:
        for size in (1, 2):
            append_heads(tmp_path / "log.heads", [key.sign(size, "a" * 64, "").line()])
        there.cut()
    kept = (tmp_path / "log.heads").read_bytes().splitlines()
    assert [json.loads(line)["size"] for line in kept] == [1, 2]


def test_a_new_key_outlives_a_power_cut_with_its_mark(tmp_path):
    key = SigningKey(tmp_path / "keys")
    (tmp_path / "keys").mkdir()
    with disk(tmp_path / "keys") as keys:
        key.create()
        keys.cut()
    mark = key.mark()
    assert mark is not None
    assert mark.size == 0
    assert key.holds(mark)


def test_a_key_whose_making_was_cut_off_is_finished_with_its_mark(key):
    key.public_file.unlink()
    key.mark_file.unlink()
    key.create()
    assert key.holds(key.mark())


@pytest.mark.parametrize("working", range(8))
def test_a_making_that_the_disk_cut_off_anywhere_is_finished_by_the_next(tmp_path, working):
    """The public key comes last: where it is, there is a mark."""
    key = SigningKey(tmp_path / "keys")
    real, left = os.fsync, iter(range(working))

    def failing(fd):
        if next(left, None) is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    os.fsync = failing
    try:
        with pytest.raises(OSError, match="Input/output"):
            key.create()
    finally:
        os.fsync = real
    key.create()
    assert key.holds(key.mark())
    assert sorted(os.listdir(tmp_path / "keys")) == FILES


def test_the_mark_is_private_from_its_first_moment(key):
    with umask(0), disk(key.mark_file.parent) as keys:
        key.keep_mark(key.sign(1, "a" * 64, ""))
    assert keys.modes == [0o600]
    assert stat.S_IMODE(key.mark_file.stat().st_mode) == 0o600


def test_a_mark_that_cannot_be_written_leaves_nothing_aside(key):
    key.mark_file.unlink()
    key.mark_file.mkdir()
    with pytest.raises(IsADirectoryError):
        key.keep_mark(key.sign(1, "a" * 64, ""))
    assert sorted(os.listdir(key.mark_file.parent)) == FILES


@pytest.mark.parametrize("left", [None, 0, 1, 40, -2])
def test_a_cut_off_mark_stops_everything_and_says_what_it_is_and_what_to_do(tmp_path, clock, left):
    book = Book(tmp_path, clock)
    book.write(3)
    book.ledger.close()
    whole = book.key.mark_file.read_bytes()
    if left is None:
        book.key.mark_file.unlink()
    else:
        book.key.mark_file.write_bytes(whole[:left])
    with pytest.raises(LedgerBroken) as caught:
        find_older(book.db.reader, book.key, book.log)
    broken = verify_ledger(book.db.reader, book.log, book.key).broken
    assert (broken.receipt, broken.kind) == (1, "truncated")
    for said in (str(caught.value), broken.detail):
        assert str(book.key.mark_file) in said
        assert {None: "is gone", 0: "is empty"}.get(left, "is damaged") in said
        assert "power" in said
        assert "older" in said
        assert "tail -n 1" in said
        assert "receipt verify" in said
    book.db.close()


@pytest.mark.parametrize("gone", [False, True])
def test_a_damaged_mark_is_not_signed_over(tmp_path, clock, gone):
    book = Book(tmp_path, clock)
    book.write(3)
    if gone:
        book.key.mark_file.unlink()
    else:
        book.key.mark_file.write_bytes(b"")
    book.close()
    assert not book.key.mark_file.exists() if gone else book.key.mark_file.read_bytes() == b""
    assert any("ledger.mark" in text for text in book.warnings)


def test_what_the_remedy_says_makes_the_mark_whole(tmp_path, clock):
    book = Book(tmp_path, clock)
    book.write(3)
    book.close()
    whole = book.key.mark_file.read_bytes()
    book.key.mark_file.write_bytes(b"")
    book.key.mark_file.write_bytes(heads_file(book.log).read_bytes().splitlines(keepends=True)[-1])
    assert json.loads(book.key.mark_file.read_bytes()) == json.loads(whole)
    assert book.verify().valid
    book.open()
    assert find_older(book.db.reader, book.key, book.log) is None
    book.close()


def test_an_older_database_is_not_hidden_by_cutting_the_mark_off(tmp_path, clock):
    """Whoever puts older rows and an older log back and empties the mark gains nothing: all stops as well."""
    book = Book(tmp_path, clock)
    book.write(3)
    book.close()
    for name in ("m", "receipts.log"):
        shutil.copyfile(tmp_path / name, tmp_path / f"{name}.kept")
    book.open()
    book.write(3, start=3)
    book.close()
    for file in tmp_path.glob("m-*"):
        file.unlink()
    for name in ("m", "receipts.log"):
        shutil.copyfile(tmp_path / f"{name}.kept", tmp_path / name)
    book.key.mark_file.write_bytes(b"")
    book.open()
    with pytest.raises(LedgerBroken):
        find_older(book.db.reader, book.key, book.log)
    book.key.mark_file.write_bytes(heads_file(book.log).read_bytes().splitlines(keepends=True)[-1])
    older = find_older(book.db.reader, book.key, book.log)
    assert older is not None
    assert (older.rows, older.known) == (3, 6)
    book.close()
