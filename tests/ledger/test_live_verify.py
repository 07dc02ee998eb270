"""A ledger is verified while others write to it: what was there holds, and a real break is still named."""

import threading
import time

import pytest

from coilclaw.ledger.live_verify import verify_live
from tests.home import Sample

MANY = 3000
"""More than one piece of the log that verification reads at a time."""


@pytest.fixture
async def written(tmp_path):
    """A home with many receipts, its parts, and something that writes further ones until told to stop."""
    sample = Sample(tmp_path)
    outcome = await sample.call("file_list", path=".")
    ledger, db = sample.app.ledger, sample.app.db

    def add(count):
        def write(tx):
            for _ in range(count):
                ledger.add(tx, outcome.action, "allowed", code="X", result_hash="0" * 64)

        db.write_now(write)

    add(MANY)
    stop = threading.Event()

    def go_on():
        while not stop.is_set():
            add(1)
            time.sleep(0.001)

    writer = threading.Thread(target=go_on, daemon=True)
    writer.start()
    yield sample
    stop.set()
    writer.join()
    sample.close()


def verify(sample):
    return verify_live(sample.app.db.path, sample.app.config.receipts.path, sample.app.signing_key)


@pytest.mark.slow
async def test_receipts_that_are_written_meanwhile_are_no_break(written):
    for _ in range(15):
        report = verify(written)
        assert report.valid, report
        assert report.receipts > MANY


@pytest.mark.slow
async def test_a_real_break_is_named_although_others_write(written):
    edit = "UPDATE receipts SET line = replace(line, '\"allowed\"', '\"denied\"') WHERE seq = 2000"
    written.app.db.write_now(lambda tx: tx.execute(edit))
    report = verify(written)
    assert (report.valid, report.broken.receipt, report.broken.kind) == (False, 2000, "forged")


@pytest.mark.slow
async def test_a_log_that_was_cut_is_named(tmp_path):
    sample = Sample(tmp_path)
    for number in range(70):
        await sample.call("file_list", path=".", key=f"k{number}")
    log = sample.app.config.receipts.path
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:50]))
    report = verify(sample)
    assert (report.valid, report.broken.receipt, report.broken.kind) == (False, 51, "truncated")
    sample.app.db.write_now(lambda tx: tx.execute("DELETE FROM receipts WHERE seq > 50"))
    report = verify(sample)
    assert (report.valid, report.broken.receipt, report.broken.kind) == (False, 51, "truncated")
    sample.close()
