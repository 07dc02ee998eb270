"""Pairing codes: one is good at a time, every guess counts against it, and what is over says why."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx

Mode: TypeAlias = Literal["first", "add", "replace"]
Closed: TypeAlias = Literal["used", "burned", "superseded"]

TRIES = 5
"""Guesses a code stands, whoever makes them; the last may still be the right one."""

# What would last longer than a code may was given out under a clock that ran ahead.
_GOOD = "closed_at IS NULL AND expires_at > :now AND expires_at <= :latest AND tries < :tries"


class CodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A code as it is kept: its hash, never itself."""

    code_id: str
    code_hash: str
    issued_by: str
    mode: Mode
    vouched: bool
    tries: int
    expires_at: str


def add_code(tx: Tx, clock: Clock, code: CodeRow) -> None:
    """Keep a new code; the one before it is over."""
    now = stamp(clock())
    tx.execute("UPDATE pairing_codes SET closed_at = ?, closed_why = 'superseded' WHERE closed_at IS NULL", (now,))
    tx.execute(
        "INSERT INTO pairing_codes (code_id, code_hash, issued_by, mode, vouched, tries, expires_at, created_at)"
        " VALUES (?, ?, ?, ?, ?, 0, ?, ?)",
        (code.code_id, code.code_hash, code.issued_by, code.mode, int(code.vouched), code.expires_at, now),
    )


def any_good_code(db: Tx, *, now: str, latest: str) -> bool:
    """Whether a guess could be right at all; only a look, nothing is counted."""
    row = db.execute(
        f"SELECT 1 FROM pairing_codes WHERE {_GOOD} LIMIT 1",  # noqa: S608
        {"now": now, "latest": latest, "tries": TRIES},
    ).fetchone()
    return row is not None


def take_try(tx: Tx, *, now: str, latest: str) -> CodeRow | None:
    """Count a guess against the good code and give the code out to be compared; None when no guess is left."""
    rows = tx.execute(
        f"UPDATE pairing_codes SET tries = tries + 1 WHERE {_GOOD}"  # noqa: S608
        " RETURNING code_id, code_hash, issued_by, mode, vouched, tries, expires_at",
        {"now": now, "latest": latest, "tries": TRIES},
    ).fetchall()
    if not rows:
        return None
    row = rows[0]
    return CodeRow(
        code_id=row[0],
        code_hash=row[1],
        issued_by=row[2],
        mode=row[3],
        vouched=bool(row[4]),
        tries=row[5],
        expires_at=row[6],
    )


def close_code(tx: Tx, code_id: str, now: str, why: Closed) -> None:
    """End a code."""
    tx.execute(
        "UPDATE pairing_codes SET closed_at = ?, closed_why = ? WHERE code_id = ? AND closed_at IS NULL",
        (now, why, code_id),
    )
