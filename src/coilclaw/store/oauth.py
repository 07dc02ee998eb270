"""OAuth refresh tokens, encrypted: one per provider and identity."""

import msgspec

from coilclaw.packets.action import Identity
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.store.sealed import Sealer, open_row, seal_row
from coilclaw.store.threads import OWNER_ID, ensure_owner
from coilclaw.store.tx import Tx

TABLE = "oauth_tokens"


class OAuthToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token's listing, without the token itself."""

    token_id: str
    provider: str
    identity: Identity
    scopes: tuple[str, ...]
    created_at: str
    updated_at: str
    reconnect_since: str = ""
    """When the authorization server stopped accepting the token; empty while it did not."""


_LISTED = (
    "SELECT token_id, provider, identity_type, scopes, created_at, updated_at, meta.value FROM oauth_tokens"
    " LEFT JOIN meta ON meta.key = 'oauth_reconnect:' || token_id"
)


def put_token(
    tx: Tx,
    clock: Clock,
    sealer: Sealer,
    *,
    provider: str,
    identity: Identity,
    refresh_token: str,
    scopes: tuple[str, ...],
) -> str:
    """Store a token, replacing this identity's previous one; returns its id."""
    ensure_owner(tx, clock)
    row = tx.execute(
        "SELECT token_id FROM oauth_tokens WHERE user_id = ? AND provider = ? AND identity_type = ?",
        (OWNER_ID, provider, identity),
    ).fetchone()
    token_id = str(row[0]) if row is not None else new_id("oauth", clock())
    sealed = seal_row(tx, sealer, TABLE, token_id, refresh_token.encode("utf-8"))
    now = stamp(clock())
    tx.execute(
        "INSERT INTO oauth_tokens (token_id, user_id, provider, identity_type, encrypted_refresh_token, scopes,"
        " created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (token_id) DO UPDATE SET"
        " encrypted_refresh_token = excluded.encrypted_refresh_token, scopes = excluded.scopes,"
        " updated_at = excluded.updated_at",
        (token_id, OWNER_ID, provider, identity, sealed, " ".join(scopes), now, now),
    )
    return token_id


def get_token(db: Tx, sealer: Sealer, token_id: str) -> str | None:
    """The token itself, or None."""

    def read() -> bytes | None:
        row = db.execute("SELECT encrypted_refresh_token FROM oauth_tokens WHERE token_id = ?", (token_id,)).fetchone()
        return None if row is None else bytes(row[0])

    return open_row(sealer, TABLE, token_id, read)


def list_tokens(db: Tx) -> list[OAuthToken]:
    """All listings, without the tokens themselves."""
    return [_listed(row) for row in db.execute(f"{_LISTED} ORDER BY provider, identity_type").fetchall()]


def find_token(db: Tx, provider: str, identity: Identity) -> OAuthToken | None:
    """The listing of one account, or None."""
    row = db.execute(f"{_LISTED} WHERE provider = ? AND identity_type = ?", (provider, identity)).fetchone()
    return None if row is None else _listed(row)


def _listed(row: tuple[str, str, Identity, str, str, str, str | None]) -> OAuthToken:
    return OAuthToken(
        token_id=row[0],
        provider=row[1],
        identity=row[2],
        scopes=tuple(row[3].split()),
        created_at=row[4],
        updated_at=row[5],
        reconnect_since=row[6] or "",
    )


def mark_reconnect(tx: Tx, clock: Clock, token_id: str) -> bool:
    """Record that a token is no longer accepted; False if that was known, or it is gone."""
    return (
        tx.execute(
            "INSERT INTO meta (key, value) SELECT 'oauth_reconnect:' || token_id, ? FROM oauth_tokens"
            " WHERE token_id = ? ON CONFLICT (key) DO NOTHING",
            (stamp(clock()), token_id),
        ).rowcount
        == 1
    )


def remove_token(tx: Tx, token_id: str) -> bool:
    """Delete a token and what was recorded about it; False if there was none."""
    tx.execute("DELETE FROM meta WHERE key = 'oauth_reconnect:' || ?", (token_id,))
    return tx.execute("DELETE FROM oauth_tokens WHERE token_id = ?", (token_id,)).rowcount == 1
