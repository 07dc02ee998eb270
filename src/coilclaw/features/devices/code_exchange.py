"""Pairing: a short code from the terminal or a paired device lets one new device in, with its own key.

A guess is counted before it is looked at, in the transaction that looks at it: five over all clients, whatever they
send. Whether the key's proof holds is found out first, but told to nobody: a wrong code, a broken proof and a key that
is none count the same, cost the same and get the same answer, so none is an oracle for another, and nothing is learned
for free.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.features.devices.device_changes import TERMINAL, end_device
from coilclaw.features.devices.store import TRIES, CodeRow, Mode, add_code, any_good_code, close_code, take_try
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.server.door.tokens import new_token, token_hash
from coilclaw.store.devices import (
    DeviceRow,
    Way,
    active_devices,
    add_device,
    add_token,
    count_passkeys,
    devices_with_key,
    load_device,
)
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    PublicKey: TypeAlias = EllipticCurvePublicKey | Ed25519PublicKey

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Thirty-two signs, five bits each: no 0 or 1, no I or O."""
SIGNS = 8
_PROOF_PREFIX = b"coilclaw pairing 1\n"
KEY_PATTERN = r"^(MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE[A-Za-z0-9_-]{86}|MCowBQYDK2VwAyEA[A-Za-z0-9_-]{43})$"
"""What keys of the two kinds look like: the beginning says which, the rest is the point."""


GITHUB = "github:"
"""What a code says that a sign-in with GitHub gave out, before the number of the account."""


class Issued(msgspec.Struct, frozen=True, kw_only=True):
    """A code as it is shown, once."""

    code_id: str
    code: str
    """As people read it: `ABCD-EFGH`."""
    mode: Mode
    expires_at: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody sends to be let in, its key already checked."""

    code: str
    name: str
    public_key: str
    wants: Way
    """How its token is to be shown."""
    proven: bool
    """Whether the signature over code and key was made by that key."""


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A device that was let in, with its token: kept by nobody but the device."""

    device_id: str
    token: str
    expires_at: str
    revoked: tuple[str, ...]
    """Devices that had to go for it."""


class DeviceActive(CoilclawError):
    """A device is paired already, and the code was to be for the first."""

    exit_code = 2


def normal_code(text: str) -> str:
    """A code as it is compared: capitals and digits alone."""
    return "".join(text.upper().replace("-", "").split())


def proof_text(code: str, public_key: str) -> bytes:
    """What a device signs with its key."""
    return _PROOF_PREFIX + normal_code(code).encode() + b"\n" + public_key.encode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _read_key(public_key: str) -> "PublicKey | None":
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        key = load_der_public_key(_bytes(public_key))
    except Exception:  # whatever the library makes of it: it is no key
        return None
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    return key if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1) else None


def key_proves(code: str, public_key: str, proof: str) -> bool:
    """Whether the key signed this code and itself. It is P-256 or Ed25519, as SubjectPublicKeyInfo in base64url; a
    signature of P-256 comes as r||s or as DER."""
    return key_signed(public_key, proof_text(code, public_key), proof)


def key_signed(public_key: str, text: bytes, proof: str) -> bool:
    """Whether a device's key signed this text."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    key = _read_key(public_key)
    if key is None:
        return False
    try:
        signature = _bytes(proof)
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, text)
            return True
        if len(signature) == 64:
            halves = signature[:32], signature[32:]
            signature = encode_dss_signature(*(int.from_bytes(half, "big") for half in halves))
        key.verify(signature, text, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


class Pairing:
    """Gives codes out and lets devices in."""

    def __init__(self, *, clock: Clock, minutes: int, token_days: int, random: Callable[[int], bytes]) -> None:
        self._clock = clock
        self._life = timedelta(minutes=minutes)
        self._token_life = timedelta(days=token_days)
        self._random = random

    # Codes

    def issue(self, tx: Tx, *, mode: Mode, by: str, vouched: bool) -> Issued:
        """A fresh code; the one before it is over. `vouched`: the owner's passkey stands behind it."""
        now = self._clock()
        if mode == "first":
            self._check_first(tx)
        code = "".join(ALPHABET[byte & 31] for byte in self._random(SIGNS))
        row = CodeRow(
            code_id=new_id("pair", now),
            code_hash="",
            issued_by=by,
            mode=mode,
            vouched=vouched,
            tries=0,
            expires_at=stamp(now + self._life),
        )
        add_code(tx, self._clock, msgspec.structs.replace(row, code_hash=_code_hash(row.code_id, code)))
        add_event(tx, self._clock, "pairing_code_issued", row.code_id, {"by": by, "mode": mode, "vouched": vouched})
        return Issued(code_id=row.code_id, code=f"{code[:4]}-{code[4:]}", mode=mode, expires_at=row.expires_at)

    def _check_first(self, db: Tx) -> None:
        active = _whole(active_devices(db, stamp(self._clock())))
        if active:
            names = ", ".join(f"{device.name} ({device.device_id})" for device in active[:3])
            raise DeviceActive(
                f"a device is already paired: {names}.",
                remedy="`coilclaw pair --add` adds another, `coilclaw pair --replace` replaces it.",
            )

    def any_good(self, db: Tx) -> bool:
        """Whether a guess could be right at all; cheap, and counts nothing."""
        moment = self._clock()
        return any_good_code(db, now=stamp(moment), latest=stamp(moment + self._life))

    # Devices

    def bind(self, tx: Tx, attempt: Attempt) -> Bound | None:
        """Let a device in; None when it may not. Never raises for a wrong guess: raising would take the count back."""
        moment = self._clock()
        now = stamp(moment)
        code = take_try(tx, now=now, latest=stamp(moment + self._life))
        if code is None:
            return None
        right = hmac.compare_digest(code.code_hash, _code_hash(code.code_id, normal_code(attempt.code)))
        if right and attempt.proven and self._may_still(tx, code, now):
            close_code(tx, code.code_id, now, "used")
            return self._let_in(tx, code, attempt, now)
        add_event(tx, self._clock, "pairing_failed", code.code_id, {"tries": code.tries})
        if code.tries >= TRIES:
            close_code(tx, code.code_id, now, "burned")
            add_event(tx, self._clock, "pairing_burned", code.code_id, {"tries": code.tries})
        return None

    def _may_still(self, tx: Tx, code: CodeRow, now: str) -> bool:
        """Whether what held when the code was given out holds still."""
        if code.mode == "first" and _whole(active_devices(tx, now)):
            return False
        if code.issued_by == TERMINAL or _by_account(code):
            return True
        device = load_device(tx, code.issued_by.removeprefix("device:"))
        return device is not None and device.revoked_at is None  # what a revoked device gave out is void

    def _let_in(self, tx: Tx, code: CodeRow, attempt: Attempt, now: str) -> Bound:
        leave = devices_with_key(tx, attempt.public_key)  # the same device again: it shall not stand there twice
        if code.mode == "replace":
            leave += [device.device_id for device in active_devices(tx, now) if device.device_id not in leave]
        device_id = new_id("dev", self._clock())
        for other in leave:
            end_device(tx, self._clock, other, by=f"device:{device_id}", why="replaced")
        confirmed = code.vouched or (count_passkeys(tx) == 0 and not _by_account(code))
        add_device(
            tx,
            self._clock,
            device_id=device_id,
            name=attempt.name,
            public_key=attempt.public_key,
            confirmed=confirmed,
            paired_by=code.issued_by,
        )
        token, expires_at = self._give_token(tx, device_id, attempt.wants)
        add_event(
            tx,
            self._clock,
            "device_paired",
            device_id,
            {
                "code_id": code.code_id,
                "mode": code.mode,
                "confirmed": confirmed,
                "issued_by": code.issued_by,
                "key_hash": hashlib.sha256(attempt.public_key.encode()).hexdigest(),
            },
        )
        return Bound(device_id=device_id, token=token, expires_at=expires_at, revoked=tuple(leave))

    def let_in_client(self, tx: Tx, name: str) -> Bound:
        """A token for an MCP client, which the owner at the terminal hands over: it opens `/mcp` alone.

        It has no key, so it can sign nothing. With a passkey registered it is confirmed like every other device.
        """
        device_id, confirmed = new_id("dev", self._clock()), count_passkeys(tx) == 0
        add_device(
            tx,
            self._clock,
            device_id=device_id,
            name=name,
            public_key="",
            confirmed=confirmed,
            paired_by=TERMINAL,
            scope="mcp",
        )
        token, expires_at = self._give_token(tx, device_id, "bearer")
        story: dict[str, Json] = {"mode": "add", "confirmed": confirmed, "issued_by": TERMINAL, "scope": "mcp"}
        add_event(tx, self._clock, "device_paired", device_id, story)
        return Bound(device_id=device_id, token=token, expires_at=expires_at, revoked=())

    def _give_token(self, tx: Tx, device_id: str, way: Way) -> tuple[str, str]:
        token, moment = new_token(self._random), self._clock()
        expires_at = stamp(moment + self._token_life)
        add_token(
            tx,
            self._clock,
            token_id=new_id("tok", moment),
            device_id=device_id,
            token_hash=token_hash(token),
            way=way,
            expires_at=expires_at,
        )
        return token, expires_at


def _whole(devices: list[DeviceRow]) -> list[DeviceRow]:
    """Those of the owner's; a client that may only use `/mcp` is nobody's first device."""
    return [device for device in devices if not device.scope]


def _by_account(code: CodeRow) -> bool:
    """Whether an account at GitHub is all that stands behind a code: what it lets in a passkey has to confirm."""
    return code.issued_by.startswith(GITHUB)


def _code_hash(code_id: str, code: str) -> str:
    return hashlib.sha256((code_id + code).encode("utf-8", "surrogatepass")).hexdigest()
