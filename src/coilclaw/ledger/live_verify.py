"""Verification of a home: while others write to it, on read-only media, and whatever is damaged."""

from pathlib import Path

from coilclaw.ledger.findings import Findings, Report
from coilclaw.ledger.heads import SigningKey
from coilclaw.ledger.verify import verify_all
from coilclaw.store.readonly import reading_only
from coilclaw.store.tx import Tx

TABLES = ("receipts", "ledger_heads", "audit_log", "audit_gaps", "proposed_actions", "meta")
"""The ledger's tables; their indexes must agree with them too."""


def verify_live(path: Path, log_path: Path, key: SigningKey) -> Report:
    """Check everything. Blocking; writes nothing."""
    found = Findings()
    reports: list[Report] = []

    def run() -> None:
        with reading_only(path) as db:
            reports.append(verify_all(db, log_path, key))
            _check_pages(db, found)

    found.during(run, str(path))
    if not reports:
        return found.report(receipts=0, heads=0)
    report = reports[0]
    for broken in report.findings:
        found.take(broken)
    found.all.sort(key=lambda broken: broken not in report.findings)
    found.more += report.more
    found.notes.extend(report.notes)
    return found.report(receipts=report.receipts, heads=report.heads, events=report.events, actions=report.actions)


def _check_pages(db: Tx, found: Findings) -> None:
    """The file's structure as a whole, and the indexes of the ledger's tables."""
    for (said,) in db.execute("PRAGMA quick_check(20)"):
        if said != "ok":
            found.add(0, "damaged", f"the database is damaged: {said}")
    for table in TABLES:
        for (said,) in db.execute(f"PRAGMA integrity_check({table})").fetchall()[:20]:
            if said != "ok":
                found.add(0, "damaged", f"the table {table} in the database is damaged: {said}")
