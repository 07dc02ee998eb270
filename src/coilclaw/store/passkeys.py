"""Passkeys, their challenges, and what they signed."""

from datetime import timedelta

import msgspec

from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.proof import Purpose, Question
from coilclaw.store.threads import OWNER_ID
from coilclaw.store.tx import Tx

FORGET_CHALLENGES = timedelta(hours=1)
"""When to delete challenges, which expire after minutes; an answer to a deleted one is refused anyway."""
_TRANSPORTS = msgspec.json.Decoder(tuple[str, ...])


class Passkey(msgspec.Struct, frozen=True, kw_only=True):
    """A registered passkey with its public key."""

    credential_id: str
    """In base64url, as browsers send it."""
    device_id: str | None
    """The device that registered it."""
    name: str
    public_key: bytes
    """A COSE key, as the authenticator gave it."""
    sign_count: int
    rp_id: str
    aaguid: str
    transports: tuple[str, ...]
    backed_up: bool
    created_at: str
    last_used_at: str | None = None
    removed_at: str | None = None
    suspended_at: str | None = None
    """When it was suspended because its counter went back; it proves nothing until the owner clears it."""


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge for one device, answered at most once."""

    challenge_id: str
    purpose: str
    """A `Purpose`, or `passkey.register` for a new passkey."""
    subject: str
    digest: str
    valid_until: str
    nonce: str
    device_id: str
    expires_at: str
    used_at: str | None = None
    created_at: str = ""


class AssertionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A complete assertion, stored so that it can be verified again."""

    assertion_id: str
    purpose: Purpose
    subject: str
    digest: str
    valid_until: str
    nonce: str
    credential_id: str
    public_key: bytes
    rp_id: str
    origin: str
    authenticator_data: bytes
    client_data: bytes
    signature: bytes
    device_id: str
    created_at: str

    @property
    def question(self) -> Question:
        """The question."""
        return Question(
            purpose=self.purpose,
            subject=self.subject,
            digest=self.digest,
            valid_until=self.valid_until,
            nonce=self.nonce,
        )


_PASSKEY = (
    "credential_id, device_id, name, public_key, sign_count, rp_id, aaguid, transports_json, backed_up, created_at,"
    " last_used_at, removed_at, suspended_at"
)
_CHALLENGE = "challenge_id, purpose, subject, digest, valid_until, nonce, device_id, expires_at, used_at, created_at"
_ASSERTION = (
    "assertion_id, purpose, subject, digest, valid_until, nonce, credential_id, public_key, rp_id, origin,"
    " authenticator_data, client_data, signature, device_id, created_at"
)


# Passkeys


def any_passkey(db: Tx) -> bool:
    """Whether the owner has a passkey here."""
    return db.execute("SELECT 1 FROM passkeys WHERE removed_at IS NULL LIMIT 1").fetchone() is not None


def list_passkeys(db: Tx) -> list[Passkey]:
    """The active passkeys, oldest first."""
    rows = db.execute(
        f"SELECT {_PASSKEY} FROM passkeys WHERE removed_at IS NULL ORDER BY created_at, credential_id"  # noqa: S608
    ).fetchall()
    return [_passkey(row) for row in rows]


def load_passkey(db: Tx, credential_id: str) -> Passkey | None:
    """One passkey by its id, removed or not."""
    row = db.execute(
        f"SELECT {_PASSKEY} FROM passkeys WHERE credential_id = ?",  # noqa: S608
        (credential_id,),
    ).fetchone()
    return None if row is None else _passkey(row)


def _passkey(row: tuple[str, ...]) -> Passkey:
    try:
        transports = _TRANSPORTS.decode(row[7])
    except msgspec.DecodeError:
        transports = ()  # only a hint to the browser
    return Passkey(
        credential_id=row[0],
        device_id=row[1],
        name=row[2],
        public_key=_bytes(row[3]),
        sign_count=int(row[4]),
        rp_id=row[5],
        aaguid=row[6],
        transports=transports,
        backed_up=bool(row[8]),
        created_at=row[9],
        last_used_at=row[10],
        removed_at=row[11],
        suspended_at=row[12],
    )


def add_passkey(tx: Tx, passkey: Passkey) -> bool:
    """Store a new passkey; False if its id was ever registered, even if removed."""
    added = tx.execute(
        f"INSERT INTO passkeys ({_PASSKEY}, user_id) VALUES ({', '.join('?' * 14)}) ON CONFLICT DO NOTHING",  # noqa: S608
        (
            passkey.credential_id,
            passkey.device_id,
            passkey.name,
            passkey.public_key,
            passkey.sign_count,
            passkey.rp_id,
            passkey.aaguid,
            msgspec.json.encode(passkey.transports).decode(),
            int(passkey.backed_up),
            passkey.created_at,
            passkey.last_used_at,
            passkey.removed_at,
            passkey.suspended_at,
            OWNER_ID,
        ),
    )
    return added.rowcount == 1


def use_passkey(tx: Tx, clock: Clock, passkey: Passkey, count: int, *, backed_up: bool) -> bool:
    """Record a signature and the new counter; False if it was removed or used meanwhile."""
    used = tx.execute(
        "UPDATE passkeys SET sign_count = ?, backed_up = ?, last_used_at = ?"
        " WHERE credential_id = ? AND sign_count = ? AND removed_at IS NULL AND suspended_at IS NULL",
        (count, int(backed_up), stamp(clock()), passkey.credential_id, passkey.sign_count),
    )
    return used.rowcount == 1


def suspend_passkey(tx: Tx, clock: Clock, credential_id: str) -> bool:
    """Suspend a passkey until the owner clears it; False if it was already suspended, or is removed."""
    done = tx.execute(
        "UPDATE passkeys SET suspended_at = ? WHERE credential_id = ? AND suspended_at IS NULL AND removed_at IS NULL",
        (stamp(clock()), credential_id),
    )
    return done.rowcount == 1


def clear_passkey(tx: Tx, credential_id: str) -> bool:
    """Clear a suspended passkey, whatever its next counter; False if it was not suspended."""
    done = tx.execute(
        "UPDATE passkeys SET suspended_at = NULL, sign_count = 0"
        " WHERE credential_id = ? AND suspended_at IS NOT NULL AND removed_at IS NULL",
        (credential_id,),
    )
    return done.rowcount == 1


def devices_that_used(db: Tx, credential_id: str) -> list[tuple[str, str]]:
    """Paired devices that registered this passkey or used it: ids and names."""
    rows = db.execute(
        "SELECT device_id, coalesce(name, '') FROM devices WHERE revoked_at IS NULL AND device_id IN"
        " (SELECT device_id FROM passkeys WHERE credential_id = ?1"
        " UNION SELECT device_id FROM assertions WHERE credential_id = ?1) ORDER BY created_at",
        (credential_id,),
    ).fetchall()
    return [(row[0], row[1]) for row in rows]


def rename_passkey(tx: Tx, credential_id: str, name: str) -> bool:
    """Rename a passkey; False if there is no such passkey."""
    renamed = tx.execute(
        "UPDATE passkeys SET name = ? WHERE credential_id = ? AND removed_at IS NULL", (name, credential_id)
    )
    return renamed.rowcount == 1


def remove_passkey(tx: Tx, clock: Clock, credential_id: str) -> bool:
    """Remove a passkey; its row stays, so that its signatures can still be verified."""
    removed = tx.execute(
        "UPDATE passkeys SET removed_at = ? WHERE credential_id = ? AND removed_at IS NULL",
        (stamp(clock()), credential_id),
    )
    return removed.rowcount == 1


# Challenges


def add_challenge(tx: Tx, clock: Clock, challenge: Challenge) -> None:
    """Store a challenge; those that expired long ago are deleted."""
    tx.execute("DELETE FROM challenges WHERE created_at < ?", (stamp(clock() - FORGET_CHALLENGES),))
    tx.execute(
        f"INSERT INTO challenges ({_CHALLENGE}) VALUES ({', '.join('?' * 10)})",  # noqa: S608
        msgspec.structs.astuple(challenge),
    )


def load_challenge(db: Tx, challenge_id: str) -> Challenge | None:
    """A challenge by its id."""
    row = db.execute(
        f"SELECT {_CHALLENGE} FROM challenges WHERE challenge_id = ?",  # noqa: S608
        (challenge_id,),
    ).fetchone()
    return None if row is None else Challenge(**dict(zip(Challenge.__struct_fields__, row, strict=True)))


def use_challenge(tx: Tx, clock: Clock, challenge_id: str) -> bool:
    """Mark a challenge as answered; False if it already was."""
    used = tx.execute(
        "UPDATE challenges SET used_at = ? WHERE challenge_id = ? AND used_at IS NULL", (stamp(clock()), challenge_id)
    )
    return used.rowcount == 1


# Assertions


def add_assertion(tx: Tx, assertion: AssertionRow) -> None:
    """Store an assertion."""
    tx.execute(
        f"INSERT INTO assertions ({_ASSERTION}) VALUES ({', '.join('?' * 15)})",  # noqa: S608
        msgspec.structs.astuple(assertion),
    )


def assertions_of(db: Tx, subject: str) -> list[AssertionRow]:
    """Every assertion about one subject, oldest first."""
    rows = db.execute(
        f"SELECT {_ASSERTION} FROM assertions WHERE subject = ? ORDER BY created_at, rowid LIMIT 1000",  # noqa: S608
        (subject,),
    ).fetchall()
    return [_assertion(row) for row in rows]


def _assertion(row: tuple[str | bytes, ...]) -> AssertionRow:
    told = dict(zip(AssertionRow.__struct_fields__, row, strict=True))
    for name in ("public_key", "authenticator_data", "client_data", "signature"):
        told[name] = _bytes(told[name])
    return AssertionRow(**told)  # pyright: ignore[reportArgumentType]


def _bytes(value: str | bytes) -> bytes:
    """A column of bytes; SQLite would accept text in an edited one."""
    return value if isinstance(value, bytes) else str(value).encode()


def assertion_hash(assertion: AssertionRow) -> str:
    """One hash over all of it, for the audit."""
    told = msgspec.to_builtins(assertion)  # bytes become base64
    return sha256_hex(canonical_bytes(told))


# The requesting device


def paired_at(db: Tx, device_id: str) -> str | None:
    """When a device was paired with the terminal's code; None if it was not, or no longer is.

    A code from a device does not count: a thief with a token could pair a device of their own.
    """
    row = db.execute(
        "SELECT created_at FROM devices WHERE device_id = ? AND revoked_at IS NULL AND paired_by = 'terminal'",
        (device_id,),
    ).fetchone()
    return None if row is None else str(row[0])
