"""Devices and their tokens: who may sign in, until when, and when each was last seen. Tokens are stored as hashes."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.threads import OWNER_ID
from coilclaw.store.tx import Tx

Way: TypeAlias = Literal["cookie", "bearer"]
"""How a token is sent: browsers use a cookie, programs a header."""

Scope: TypeAlias = Literal["", "mcp"]
"""What the tokens of a device open: everything, or `/mcp` alone."""

_COLUMNS = "device_id, name, public_key, confirmed_at, last_seen_at, revoked_at, created_at, scope"
_LIVE = "EXISTS (SELECT 1 FROM auth_tokens t WHERE t.device_id = d.device_id AND t.expires_at > ?)"


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored device."""

    device_id: str
    name: str
    public_key: str
    confirmed_at: str | None
    last_seen_at: str | None
    revoked_at: str | None
    created_at: str
    scope: Scope


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token with everything that decides whether it is valid."""

    token_id: str
    device_id: str
    token_hash: str
    way: Way
    expires_at: str
    last_used_at: str | None
    confirmed: bool
    revoked: bool
    scope: Scope


def add_device(
    tx: Tx,
    clock: Clock,
    *,
    device_id: str,
    name: str,
    public_key: str,
    confirmed: bool,
    paired_by: str,
    scope: Scope = "",
) -> None:
    """Store a new device."""
    now = stamp(clock())
    tx.execute(
        "INSERT INTO users (user_id, email, created_at) VALUES (?, '', ?) ON CONFLICT DO NOTHING", (OWNER_ID, now)
    )
    tx.execute(
        "INSERT INTO devices"
        " (device_id, user_id, name, public_key, revoked_at, created_at, confirmed_at, last_seen_at, paired_by, scope)"
        " VALUES (?, ?, ?, ?, NULL, ?, ?, ?, ?, ?)",
        (device_id, OWNER_ID, name, public_key, now, now if confirmed else None, now, paired_by, scope),
    )


def add_token(
    tx: Tx, clock: Clock, *, token_id: str, device_id: str, token_hash: str, way: Way, expires_at: str
) -> None:
    """Store a new token's hash."""
    now = stamp(clock())
    tx.execute(
        "INSERT INTO auth_tokens (token_id, device_id, token_hash, way, expires_at, last_used_at, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (token_id, device_id, token_hash, way, expires_at, now, now),
    )


def find_token(db: Tx, token_hash: str) -> TokenRow | None:
    """The token with that hash, whatever its state."""
    row = db.execute(
        "SELECT t.token_id, t.device_id, t.token_hash, t.expires_at, t.last_used_at, d.confirmed_at, d.revoked_at,"
        " t.way, d.scope FROM auth_tokens t JOIN devices d ON d.device_id = t.device_id WHERE t.token_hash = ?",
        (token_hash,),
    ).fetchone()
    if row is None:
        return None
    return TokenRow(
        token_id=row[0],
        device_id=row[1],
        token_hash=row[2],
        expires_at=row[3],
        last_used_at=row[4],
        confirmed=row[5] is not None,
        revoked=row[6] is not None,
        way=row[7],
        scope=row[8],
    )


def token_holds(db: Tx, token_id: str, now: str) -> bool:
    """Whether a previously accepted token is still valid; for long-lived connections."""
    row = db.execute(
        "SELECT 1 FROM auth_tokens t JOIN devices d ON d.device_id = t.device_id"
        " WHERE t.token_id = ? AND t.expires_at > ? AND d.revoked_at IS NULL",
        (token_id, now),
    ).fetchone()
    return row is not None


def renew_token(tx: Tx, token_id: str, *, now: str, expires_at: str) -> None:
    """Record that a token was used; an expired or revoked one stays so."""
    done = tx.execute(
        "UPDATE auth_tokens SET expires_at = ?, last_used_at = ? WHERE token_id = ? AND expires_at > ?"
        " AND device_id IN (SELECT device_id FROM devices WHERE revoked_at IS NULL)",
        (expires_at, now, token_id, now),
    )
    if done.rowcount:
        tx.execute(
            "UPDATE devices SET last_seen_at = ? WHERE device_id = (SELECT device_id FROM auth_tokens"
            " WHERE token_id = ?)",
            (now, token_id),
        )


def forget_token(tx: Tx, token_id: str, now: str) -> None:
    """Delete a token that has expired."""
    tx.execute("DELETE FROM auth_tokens WHERE token_id = ? AND expires_at <= ?", (token_id, now))


def settle_tokens(tx: Tx, *, now: str, latest: str) -> int:
    """Delete expired tokens, and shorten those valid beyond `latest`. Returns how many were touched.

    Deleted tokens cannot become valid again when the clock is set back, and tokens made under a fast clock expire in
    time under the corrected one.
    """
    gone = tx.execute("DELETE FROM auth_tokens WHERE expires_at <= ?", (now,)).rowcount
    cut = tx.execute(
        "UPDATE auth_tokens SET expires_at = min(expires_at, ?), last_used_at = min(coalesce(last_used_at, ?), ?)"
        " WHERE expires_at > ? OR last_used_at > ?",
        (latest, now, now, latest, now),
    ).rowcount
    return gone + cut


def _device(row: tuple[str, str | None, str | None, str | None, str | None, str | None, str, Scope]) -> DeviceRow:
    return DeviceRow(
        device_id=row[0],
        name=row[1] or "",
        public_key=row[2] or "",
        confirmed_at=row[3],
        last_seen_at=row[4],
        revoked_at=row[5],
        created_at=row[6],
        scope=row[7],
    )


def load_device(db: Tx, device_id: str) -> DeviceRow | None:
    """A device by its id."""
    row = db.execute(f"SELECT {_COLUMNS} FROM devices WHERE device_id = ?", (device_id,)).fetchone()  # noqa: S608
    return None if row is None else _device(row)


def list_devices(db: Tx, *, limit: int, before: tuple[str, str] | None = None) -> list[DeviceRow]:
    """Devices, newest first, from a position (created_at, device_id)."""
    when, device_id = before or ("\x7f", "")
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM devices WHERE (created_at, device_id) < (?, ?)"  # noqa: S608
        " ORDER BY created_at DESC, device_id DESC LIMIT ?",
        (when, device_id, limit),
    ).fetchall()
    return [_device(row) for row in rows]


def active_devices(db: Tx, now: str) -> list[DeviceRow]:
    """Devices that can still sign in: not revoked, with an unexpired token."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM devices d WHERE d.revoked_at IS NULL AND {_LIVE} ORDER BY d.created_at",  # noqa: S608
        (now,),
    ).fetchall()
    return [_device(row) for row in rows]


def devices_with_key(db: Tx, public_key: str) -> list[str]:
    """The ids of unrevoked devices with that key."""
    rows = db.execute(
        "SELECT device_id FROM devices WHERE public_key = ? AND revoked_at IS NULL", (public_key,)
    ).fetchall()
    return [row[0] for row in rows]


def revoke_device(tx: Tx, device_id: str, now: str) -> bool:
    """Revoke a device and all its tokens; False if it was already revoked or never existed."""
    done = tx.execute(
        "UPDATE devices SET revoked_at = ? WHERE device_id = ? AND revoked_at IS NULL", (now, device_id)
    ).rowcount
    tx.execute("DELETE FROM auth_tokens WHERE device_id = ?", (device_id,))
    tx.execute("DELETE FROM runner_tokens WHERE device_id = ?", (device_id,))
    return bool(done)


def end_all_tokens(tx: Tx) -> int:
    """Sign out every device; returns the number of tokens. The devices stay known."""
    tx.execute("DELETE FROM runner_tokens")
    return tx.execute("DELETE FROM auth_tokens").rowcount


def confirm_device(tx: Tx, device_id: str, now: str) -> bool:
    """Record that a device was vouched for; False if it already was, or is revoked."""
    return bool(
        tx.execute(
            "UPDATE devices SET confirmed_at = ? WHERE device_id = ? AND confirmed_at IS NULL AND revoked_at IS NULL",
            (now, device_id),
        ).rowcount
    )


def rename_device(tx: Tx, device_id: str, name: str) -> bool:
    """Rename a device; False if there is no such device."""
    return bool(tx.execute("UPDATE devices SET name = ? WHERE device_id = ?", (name, device_id)).rowcount)


def count_passkeys(db: Tx) -> int:
    """The number of usable passkeys."""
    return int(db.execute("SELECT count(*) FROM passkeys WHERE removed_at IS NULL").fetchone()[0])
