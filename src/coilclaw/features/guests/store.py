"""Guests in the database: the pin, and what each offered last."""

from typing import TypeVar

import msgspec

from coilclaw.features.guests.offer import GuestOffer, Pin, withheld
from coilclaw.packets.canonical import canonical_bytes
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx

_T = TypeVar("_T", Pin, GuestOffer)
CHANGED = "its program, or what it is given, is not what was approved"
"""The fault of one that was not started for that."""
DAMAGED = "its stored approval is damaged; approve it again"


class GuestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A guest as it is stored."""

    name: str
    pin: Pin | None
    """What the owner approved; None before the first yes."""
    seen: GuestOffer | None
    """What it offered last."""
    enabled: bool
    fault: str
    """Why it last could not be used."""
    approved_at: str | None

    @property
    def withheld(self) -> dict[str, str]:
        """The approved tools that cannot be called as the guest was seen last, each with the reason."""
        if self.pin is None or self.pin.offer.grant.kind == "plugin":  # of a plugin the approved copy goes on
            return {}
        if self.fault == CHANGED:
            return dict.fromkeys(self.pin.classes, CHANGED)
        return {} if self.seen is None else withheld(self.pin, self.seen)


_SELECT = "SELECT name, pin_json, pin_hash, seen_json, enabled, fault, approved_at FROM guests"


def _guest(row: tuple[str, bytes | None, str, bytes | None, int, str, str | None]) -> GuestRow:
    pin, seen, fault = _read(Pin, row[1]), _read(GuestOffer, row[3]), row[5]
    if row[1] is not None and (pin is None or pin.digest != row[2]):
        pin, fault = None, DAMAGED
    return GuestRow(name=row[0], pin=pin, seen=seen, enabled=bool(row[4]), fault=fault, approved_at=row[6])


def _read(kind: type[_T], data: bytes | None) -> _T | None:
    try:
        return None if data is None else msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def load_guests(db: Tx) -> list[GuestRow]:
    """Every guest, by name."""
    return [_guest(row) for row in db.execute(f"{_SELECT} ORDER BY name")]


def load_guest(db: Tx, name: str) -> GuestRow | None:
    """The guest of that name."""
    row = db.execute(f"{_SELECT} WHERE name = ?", (name,)).fetchone()
    return None if row is None else _guest(row)


def guests_version(db: Tx) -> tuple[int, int]:
    """Differs after every change of a guest, whichever process made it."""
    return db.execute("SELECT count(*), coalesce(max(changed), 0) FROM guests").fetchone()


def put_seen(tx: Tx, offer: GuestOffer) -> None:
    """Remember what a guest offers now."""
    tx.execute(
        "INSERT INTO guests (name, pin_hash, seen_json, seen_hash, enabled, fault, changed)"
        " VALUES (?, '', ?, ?, 1, '', ?) ON CONFLICT (name) DO UPDATE SET seen_json = excluded.seen_json,"
        " seen_hash = excluded.seen_hash, fault = '', changed = excluded.changed",
        (offer.name, _stored(offer), offer.digest, _next(tx)),
    )


def put_pin(tx: Tx, clock: Clock, pin: Pin) -> None:
    """The owner approved a guest."""
    tx.execute(
        "UPDATE guests SET pin_json = ?, pin_hash = ?, enabled = 1, fault = '', approved_at = ?, changed = ?"
        " WHERE name = ?",
        (_stored(pin), pin.digest, stamp(clock()), _next(tx), pin.offer.name),
    )


def switch_off(tx: Tx, name: str) -> bool:
    """Switch a guest off; only a new approval switches it on. False if it was off, or never approved."""
    done = tx.execute(
        "UPDATE guests SET enabled = 0, changed = ? WHERE name = ? AND enabled = 1 AND pin_json IS NOT NULL",
        (_next(tx), name),
    )
    return done.rowcount == 1


def put_fault(tx: Tx, name: str, fault: str) -> None:
    """Remember why a guest could not be used."""
    tx.execute(
        "UPDATE guests SET fault = ?, changed = ? WHERE name = ? AND fault != ?",
        (fault[:500], _next(tx), name, fault[:500]),
    )


def drop_guest(tx: Tx, name: str) -> bool:
    """Forget a guest; False if there was none."""
    return tx.execute("DELETE FROM guests WHERE name = ?", (name,)).rowcount == 1


def _stored(value: Pin | GuestOffer) -> bytes:
    return canonical_bytes(msgspec.to_builtins(value))


def _next(tx: Tx) -> int:
    return int(tx.execute("SELECT coalesce(max(changed), 0) + 1 FROM guests").fetchone()[0])


def looked_at(db: Tx, name: str) -> str:
    """When a guest was last looked at on the owner's word; empty if never."""
    row = db.execute(
        "SELECT max(created_at) FROM audit_log WHERE entity_id = ? AND event_type = 'guest_looked_at'", (name,)
    ).fetchone()
    return row[0] or ""


def guest_events(db: Tx, name: str, count: int) -> list[tuple[str, str, str]]:
    """The last events about a guest, the oldest first: time, kind and details."""
    rows = db.execute(
        "SELECT created_at, event_type, payload_json FROM audit_log WHERE entity_id = ? AND event_type GLOB 'guest_*'"
        " ORDER BY seq DESC LIMIT ?",
        (name, count),
    ).fetchall()
    return [(str(time), str(event), str(told)) for time, event, told in reversed(rows)]
