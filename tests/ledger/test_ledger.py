"""Receipts: chained, copied, sealed, and impossible to change unseen."""

import asyncio
import json
import multiprocessing
import os
import random
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coilclaw.ledger.chain import find_receipts, list_receipts
from coilclaw.ledger.heads import SigningKey
from coilclaw.ledger.ledger import Ledger, heads_file
from coilclaw.ledger.receipts_page import place_of
from coilclaw.ledger.verify import hash_of_line, verify_ledger
from coilclaw.packets.action import Action, ToolCall
from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from coilclaw.packets.decision import Decision, Reason
from coilclaw.packets.errors import StorageError
from coilclaw.packets.receipt import sealed
from coilclaw.store.database import Database


def action(number=0, tool="time"):
    decision = Decision.of(
        "allow",
        (Reason(rule="r", code="ALLOWED", text="t"),),
        risk="R0",
        risk_class="READ",
        lane="A",
        policy_hash="p" * 64,
    )
    return Action(
        action_id=f"act_{number}",
        thread_id="conv",
        turn_id="turn",
        source="cli",
        source_id="turn",
        call=ToolCall.of(tool, {"n": number}),
        idempotency_key=f"k{number}",
        digest="d" * 64,
        taint=(),
        decision=decision,
        status="PENDING",
        attempt=0,
        expires_at="",
        created_at="",
    )


class Book:
    """A ledger in a folder, reopened at will."""

    def __init__(self, folder, clock, warnings=None):
        self.folder, self.clock = folder, clock
        self.log = folder / "receipts.log"
        self.warnings = [] if warnings is None else warnings
        self.open()

    def open(self):
        self.db = Database(self.folder / "m", self.folder / "locks")
        self.key = SigningKey(self.folder / "keys")
        self.key.create()
        self.ledger = Ledger(self.db, self.log, self.key, clock=self.clock, warn=self.warnings.append)

    def write(self, count, start=0):
        for number in range(start, start + count):
            self.db.write_now(
                lambda tx, n=number: self.ledger.add(tx, action(n), "allowed", code="ALLOWED", result_hash="r" * 64)
            )

    def close(self):
        self.ledger.close()
        self.db.close()

    def verify(self):
        db = Database(self.folder / "m", self.folder / "locks")
        try:
            return verify_ledger(db.reader, self.log, self.key)
        finally:
            db.close()

    def lines(self):
        return self.log.read_bytes().splitlines(keepends=True)


@pytest.fixture
def book(tmp_path, clock):
    made = Book(tmp_path, clock)
    made.write(8)
    made.close()
    return made


def broken(book):
    report = book.verify()
    assert not report.valid
    return report.broken.receipt, report.broken.kind


def test_an_untouched_chain_is_intact(book):
    report = book.verify()
    assert report.valid
    assert (report.receipts, report.broken, report.notes) == (8, None, ())


def test_the_log_is_the_rows_line_for_line(book):
    db = Database(book.folder / "m", book.folder / "locks")
    rows = [row[0] for row in db.reader.execute("SELECT line FROM receipts ORDER BY seq")]
    db.close()
    assert [line.decode().rstrip("\n") for line in book.lines()] == rows


def test_a_receipts_hash_is_over_its_canonical_json_without_the_hash(book):
    fields = json.loads(book.lines()[0])
    stated = fields.pop("receipt_hash")
    assert sha256_hex(canonical_bytes(fields)) == stated
    assert hash_of_line(book.lines()[0].rstrip(b"\n")) == stated
    assert fields["previous_hash"] == "0" * 64


def test_an_edited_receipt_is_named(book):
    lines = book.lines()
    lines[1] = lines[1].replace(b'"status":"allowed"', b'"status":"denied"')
    book.log.write_bytes(b"".join(lines))
    assert broken(book) == (2, "edited")


def test_an_edited_receipt_with_a_recomputed_hash_is_named(book):
    lines = book.lines()
    fields = json.loads(lines[1])
    del fields["receipt_hash"]
    fields["status"] = "denied"
    lines[1] = sealed(fields).line() + b"\n"
    book.log.write_bytes(b"".join(lines))
    assert broken(book)[1] in ("forked", "forged")


def test_a_dropped_receipt_is_missing(book):
    lines = book.lines()
    del lines[3]
    book.log.write_bytes(b"".join(lines))
    assert broken(book) == (4, "missing")


def test_two_swapped_receipts_are_reordered(book):
    lines = book.lines()
    lines[2], lines[3] = lines[3], lines[2]
    book.log.write_bytes(b"".join(lines))
    assert broken(book) == (3, "reordered")


def test_a_doubled_receipt_is_reordered(book):
    lines = book.lines()
    lines.insert(3, lines[1])
    book.log.write_bytes(b"".join(lines))
    assert broken(book) == (4, "reordered")


def test_a_cut_tail_is_truncated(book):
    book.log.write_bytes(b"".join(book.lines()[:-3]))
    assert broken(book) == (6, "truncated")


def test_an_emptied_or_deleted_log_is_truncated(book):
    book.log.write_bytes(b"")
    assert broken(book) == (1, "truncated")
    book.log.unlink()
    assert broken(book) == (1, "truncated")


def rewrite(lines):
    previous, made = "0" * 64, []
    for line in lines:
        fields = json.loads(line)
        del fields["receipt_hash"]
        fields["previous_hash"] = previous
        fields["tool"] = "nothing"
        receipt = sealed(fields)
        previous = receipt.receipt_hash
        made.append(receipt.line())
    return made


def test_a_log_rewritten_with_new_hashes_is_caught_by_the_signed_head(book):
    book.log.write_bytes(b"".join(line + b"\n" for line in rewrite(book.lines())))
    assert broken(book)[1] == "forged"


def test_rows_and_log_rewritten_together_are_caught_by_the_signed_head(book):
    made = rewrite(book.lines())
    book.log.write_bytes(b"".join(line + b"\n" for line in made))
    db = Database(book.folder / "m", book.folder / "locks")
    for number, line in enumerate(made, start=1):
        db.write_now(
            lambda tx, n=number, text=line: tx.execute(
                "UPDATE receipts SET line = ?, receipt_hash = ? WHERE seq = ?",
                (text.decode(), json.loads(text)["receipt_hash"], n),
            )
        )
    db.close()
    assert broken(book) == (8, "forged")


def test_a_head_signed_by_another_key_is_forged(book, tmp_path):
    other = SigningKey(tmp_path / "other")
    other.create()
    head = other.sign(99, "f" * 64, "2026-01-01T00:00:00.000Z")
    with heads_file(book.log).open("ab") as file:
        file.write(head.line() + b"\n")
    assert broken(book) == (99, "forged")


def test_removing_every_head_and_rewriting_the_rest_shows(book):
    made = rewrite(book.lines())
    book.log.write_bytes(b"".join(line + b"\n" for line in made))
    heads_file(book.log).write_bytes(b"")
    db = Database(book.folder / "m", book.folder / "locks")
    db.write_now(lambda tx: tx.execute("DELETE FROM ledger_heads"))
    for number, line in enumerate(made, start=1):
        db.write_now(
            lambda tx, n=number, text=line: tx.execute(
                "UPDATE receipts SET line = ?, receipt_hash = ? WHERE seq = ?",
                (text.decode(), json.loads(text)["receipt_hash"], n),
            )
        )
    db.close()
    assert broken(book) == (8, "forged")
    book.key.mark_file.unlink()
    assert broken(book) == (1, "truncated")


def test_a_forged_chain_is_not_signed_by_the_next_run(book):
    db = Database(book.folder / "m", book.folder / "locks")
    db.write_now(lambda tx: tx.execute("UPDATE receipts SET receipt_hash = ? WHERE seq = 8", ("f" * 64,)))
    db.write_now(lambda tx: tx.execute("DELETE FROM ledger_heads"))
    db.close()
    book.open()
    book.write(1, start=8)
    book.close()
    assert any("nothing more is signed" in text for text in book.warnings)
    assert not book.verify().valid


def test_a_replaced_key_shows(book):
    book.key.private_file.unlink()
    book.key.public_file.unlink()
    book.key.mark_file.unlink()
    book.key.count_file.unlink()
    book.key.create()
    book.open()
    book.write(1, start=8)
    book.close()
    assert broken(book)[1] == "forged"


def test_a_missing_key_is_not_made_again_by_itself(book):
    book.key.private_file.unlink()
    with pytest.raises(StorageError, match="cannot be read"):
        book.key.sign(1, "f" * 64, "now")


def test_rolling_back_the_database_shows(book):
    db = Database(book.folder / "m", book.folder / "locks")
    db.write_now(lambda tx: tx.execute("DELETE FROM receipts WHERE seq > 5"))
    db.close()
    assert broken(book) == (6, "truncated")


def test_rolling_back_database_and_log_together_shows_through_the_heads_file(book):
    db = Database(book.folder / "m", book.folder / "locks")
    db.write_now(lambda tx: tx.execute("DELETE FROM receipts WHERE seq > 5"))
    db.write_now(lambda tx: tx.execute("DELETE FROM ledger_heads"))
    db.write_now(lambda tx: tx.execute("DELETE FROM meta"))
    db.close()
    book.log.write_bytes(b"".join(book.lines()[:5]))
    assert broken(book) == (6, "truncated")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150, deadline=None
)
@given(st.data())
def test_no_single_changed_byte_goes_unseen(book, data):
    original = book.log.read_bytes()
    place = data.draw(st.integers(0, len(original) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != original[place]))
    book.log.write_bytes(original[:place] + bytes([byte]) + original[place + 1 :])
    try:
        assert not book.verify().valid
    finally:
        book.log.write_bytes(original)


def test_a_torn_last_line_is_repaired_and_reported(book):
    book.open()
    book.write(1, start=8)
    book.db.close()  # no head covers the ninth, and nothing says that it stands durably in the log
    whole = book.log.read_bytes()
    book.log.write_bytes(whole[: whole.rindex(b"\n", 0, -1)][:-40])
    assert broken(book) == (8, "truncated")  # eight were durably written; seven are whole
    book.log.write_bytes(whole[:-40])
    assert book.verify().valid
    book.open()
    book.write(1, start=9)
    book.close()
    assert any("incomplete last line" in text for text in book.warnings)
    assert book.verify().valid
    assert len(book.lines()) == 10


def test_a_log_that_lags_behind_a_crash_is_caught_up(tmp_path, clock):
    book = Book(tmp_path, clock)
    book.write(3)
    book.log.write_bytes(b"".join(book.lines()[:1]))  # the process died before two lines reached the disk
    book.db.close()
    report = book.verify()
    assert report.valid
    assert "2 behind" in report.notes[0]
    again = Book(tmp_path, clock)
    again.write(1, start=3)
    again.close()
    assert again.verify().valid
    assert len(again.lines()) == 4


def test_nothing_is_appended_after_a_cut_log(book):
    book.log.write_bytes(b"".join(book.lines()[:5]))
    book.open()
    book.write(2, start=8)
    book.close()
    assert len(book.lines()) == 5
    assert any("it was truncated" in text for text in book.warnings)
    assert broken(book) == (6, "truncated")


def test_a_log_that_cannot_be_written_costs_no_receipt(tmp_path, clock):
    (tmp_path / "receipts.log").mkdir()
    book = Book(tmp_path, clock)
    book.write(2)
    book.ledger.close()
    assert len(list_receipts(book.db.reader, 10)) == 2
    assert any("safe in the database" in text for text in book.warnings)
    book.db.close()


async def test_a_head_is_made_every_so_many_receipts(tmp_path, clock):
    book = Book(tmp_path, clock)
    book.write(64)
    await book.ledger.seal_if_due()
    assert book.db.reader.execute("SELECT size FROM ledger_heads").fetchall() == [(64,)]
    book.write(1, start=64)
    await book.ledger.seal_if_due()
    assert len(book.db.reader.execute("SELECT size FROM ledger_heads").fetchall()) == 1
    clock.advance(seconds=61)
    await book.ledger.seal_if_due()
    assert len(book.db.reader.execute("SELECT size FROM ledger_heads").fetchall()) == 2
    book.close()


def sizes(book):
    return [row[0] for row in book.db.reader.execute("SELECT size FROM ledger_heads ORDER BY size")]


async def test_a_receipt_written_while_a_seal_comes_back_is_sealed_on_exit(tmp_path, clock):
    book = Book(tmp_path, clock)
    book.write(64)

    def add(tx):
        return book.ledger.add(tx, action(64), "allowed", code="ALLOWED", result_hash="r" * 64)

    sealing = asyncio.ensure_future(book.ledger.seal_if_due())
    await asyncio.sleep(0)  # the seal is on its way to the writer
    book.db.write_now(add)  # without the loop: the seal is committed by now, and nobody has heard of it
    await sealing
    assert sizes(book) == [64]
    book.ledger.close()
    assert sizes(book) == [64, 65]
    assert book.key.mark().size == 65
    book.db.close()


async def test_a_receipt_that_still_waits_to_be_written_is_sealed_on_exit(tmp_path, clock):
    """Whoever waited for it was cancelled; the write goes on all the same."""
    book = Book(tmp_path, clock)
    writer_is_free = threading.Event()
    book.db.submit(lambda _: writer_is_free.wait(60))
    late = book.db.submit(lambda tx: book.ledger.add(tx, action(0), "allowed", code="ALLOWED", result_hash="r" * 64))
    threading.Timer(0.1, writer_is_free.set).start()
    book.ledger.close()
    assert late.done()
    assert sizes(book) == [1]
    book.db.close()


def test_a_ledger_without_news_signs_nothing_on_exit(book):
    book.open()
    before = sizes(book)
    book.db.write_now(lambda tx: tx.execute("INSERT INTO meta (key, value) VALUES ('x', 'y')"))
    book.ledger.close()
    assert sizes(book) == before
    book.db.close()


@pytest.mark.parametrize("key", ["²", "\u0663", "\uff13", "3²", "-1", "", " 3", "9" * 40, "\udcff", "a\0b"])
def test_what_names_no_receipt_finds_none(book, key):
    db = Database(book.folder / "m", book.folder / "locks")
    assert find_receipts(db.reader, key) == []
    assert place_of(db.reader, key) is None
    db.close()


def test_receipts_are_found_by_number_id_and_action(book):
    db = Database(book.folder / "m", book.folder / "locks")
    third = find_receipts(db.reader, "3")[0]
    assert find_receipts(db.reader, third.id) == [third]
    assert find_receipts(db.reader, "act_2") == [third]
    assert find_receipts(db.reader, "%") == []
    assert find_receipts(db.reader, third.id[:18]) == [third]
    assert len(find_receipts(db.reader, "receipt-")) == 8
    for key in ("3", third.id):
        placed = place_of(db.reader, key)
        assert placed is not None
        assert (placed.number, placed.receipt, placed.faults) == (3, third, ())
    db.close()


def test_the_key_is_private(book):
    assert os.stat(book.key.private_file).st_mode & 0o777 == 0o600


def _process(folder, start, count):
    from coilclaw.packets.ids import utc_now

    book = Book(folder, utc_now)
    book.write(count, start=start)
    book.close()


@pytest.mark.slow
def test_several_processes_at_once_keep_one_chain(tmp_path, clock):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_process, args=(tmp_path, n * 100, 40)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    book = Book(tmp_path, clock)
    report = book.verify()
    book.close()
    assert report.valid, report
    assert report.receipts == 160


@pytest.mark.slow
def test_random_damage_of_many_kinds_is_always_found(tmp_path, clock):
    book = Book(tmp_path, clock)
    book.write(30)
    book.close()
    original = book.lines()
    dice = random.Random(7)
    for _ in range(200):
        lines = list(original)
        kind = dice.choice(["drop", "swap", "double", "cut"])
        place = dice.randrange(len(lines) - 1)
        if kind == "drop":
            del lines[place]
        elif kind == "swap":
            lines[place], lines[place + 1] = lines[place + 1], lines[place]
        elif kind == "double":
            lines.insert(place, lines[place])
        else:
            lines = lines[:place]
        book.log.write_bytes(b"".join(lines))
        assert not book.verify().valid, (kind, place)


def test_a_clock_set_back_before_the_head_was_signed_loses_nothing(tmp_path, clock):
    book = Book(tmp_path, clock)
    book.write(3)
    clock.advance(days=-1)
    book.close()
    assert book.verify().valid
