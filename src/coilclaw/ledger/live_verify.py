"""Verification of a ledger that others write to meanwhile, on a connection of its own: fit for a thread."""

import sqlite3
from pathlib import Path

import msgspec

from coilclaw.ledger.chain import last_link
from coilclaw.ledger.heads import SigningKey
from coilclaw.ledger.verify import Broken, Report, verify_ledger
from coilclaw.packets.errors import LedgerBroken
from coilclaw.store.apart import reading_apart

TRIES = 3


def verify_live(path: Path, log_path: Path, key: SigningKey) -> Report:
    """Check log, rows and heads against each other. Blocks for as long as that takes.

    Log and rows are not read at one moment, so receipts written meanwhile can seem to be missing on one side. A break
    at such a receipt is looked at again; everything that was there at the beginning has been checked by then.
    """
    with reading_apart(path) as db:
        return _verify(db, log_path, key, TRIES)


def _verify(db: sqlite3.Connection, log_path: Path, key: SigningKey, tries: int) -> Report:
    there = last_link(db)[0]
    report = _report(db, log_path, key)
    if report.broken is None or not _was_written_meanwhile(db, report.broken, there):
        return report
    return _verify(db, log_path, key, tries - 1) if tries > 1 else _so_far(report, there)


def _report(db: sqlite3.Connection, log_path: Path, key: SigningKey) -> Report:
    """The report; heads that cannot be read are a break like any other."""
    try:
        return verify_ledger(db, log_path, key)
    except LedgerBroken as error:
        broken = Broken(receipt=0, kind="forged", detail=error.message.rstrip("."))
        return Report(valid=False, receipts=0, heads=0, broken=broken, notes=())


def _was_written_meanwhile(db: sqlite3.Connection, broken: Broken, there: int) -> bool:
    """Whether the break is at a receipt that was not there at the beginning, and is there now."""
    return broken.kind == "truncated" and there < broken.receipt <= last_link(db)[0]


def _so_far(report: Report, there: int) -> Report:
    note = f"receipts were written all the while; the first {there} were checked"
    return msgspec.structs.replace(report, valid=True, receipts=there, broken=None, notes=(*report.notes, note))
