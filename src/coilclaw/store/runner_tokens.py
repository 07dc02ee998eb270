"""Runner tokens: short-lived tokens of a device that open only some coding sessions. Stored as hashes."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx

Access: TypeAlias = Literal["watch", "drive"]
"""Watching shows a session; driving also types and resizes."""

MOST_OF_DEVICE = 256
"""The oldest tokens of a device give way to new ones."""

_LIVE = (
    "d.revoked_at IS NULL AND EXISTS"
    " (SELECT 1 FROM auth_tokens a WHERE a.device_id = r.device_id AND a.expires_at > :now)"
)
"""A token lives no longer than its device can sign in."""


class RunnerTokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A valid token and what it opens."""

    token_id: str
    token_hash: str
    device_id: str
    confirmed: bool
    org_id: str
    repo_id: str | None
    session_id: str | None
    access: Access
    expires_at: str


def add_runner_token(tx: Tx, clock: Clock, token: RunnerTokenRow) -> None:
    """Store a new token's hash; expired ones go."""
    now = stamp(clock())
    tx.execute("DELETE FROM runner_tokens WHERE expires_at <= ?", (now,))
    tx.execute(
        "DELETE FROM runner_tokens WHERE device_id = ? AND token_id NOT IN (SELECT token_id FROM runner_tokens"
        " WHERE device_id = ? ORDER BY created_at DESC, token_id DESC LIMIT ?)",
        (token.device_id, token.device_id, MOST_OF_DEVICE - 1),
    )
    tx.execute(
        "INSERT INTO runner_tokens"
        " (token_id, hash, device_id, org_id, repo_id, session_id, access, created_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            token.token_id,
            token.token_hash,
            token.device_id,
            token.org_id,
            token.repo_id,
            token.session_id,
            token.access,
            now,
            token.expires_at,
        ),
    )


def find_runner_token(db: Tx, token_hash: str, now: str) -> RunnerTokenRow | None:
    """The valid token with that hash."""
    row = db.execute(
        "SELECT r.token_id, r.hash, r.device_id, d.confirmed_at, r.org_id, r.repo_id, r.session_id, r.access,"  # noqa: S608
        " r.expires_at FROM runner_tokens r JOIN devices d ON d.device_id = r.device_id"
        f" WHERE r.hash = :hash AND r.expires_at > :now AND {_LIVE}",
        {"hash": token_hash, "now": now},
    ).fetchone()
    if row is None:
        return None
    return RunnerTokenRow(
        token_id=row[0],
        token_hash=row[1],
        device_id=row[2],
        confirmed=row[3] is not None,
        org_id=row[4],
        repo_id=row[5],
        session_id=row[6],
        access=row[7],
        expires_at=row[8],
    )


def runner_token_holds(db: Tx, token_id: str, now: str) -> bool:
    """Whether a previously accepted token is still valid."""
    row = db.execute(
        "SELECT 1 FROM runner_tokens r JOIN devices d ON d.device_id = r.device_id"  # noqa: S608
        f" WHERE r.token_id = :token_id AND r.expires_at > :now AND {_LIVE}",
        {"token_id": token_id, "now": now},
    ).fetchone()
    return row is not None


def renew_runner_token(tx: Tx, token_id: str, *, now: str, expires_at: str, created_after: str) -> bool:
    """Let a valid token live longer; False if it is not valid, or too old to be renewed."""
    done = tx.execute(
        "UPDATE runner_tokens SET expires_at = ? WHERE token_id = ? AND expires_at > ? AND created_at > ?"
        " AND device_id IN (SELECT device_id FROM devices WHERE revoked_at IS NULL)",
        (expires_at, token_id, now, created_after),
    )
    return bool(done.rowcount)
