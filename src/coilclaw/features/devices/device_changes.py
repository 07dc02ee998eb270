"""What happens to devices: renamed, confirmed, revoked; each leaves its event in the same transaction."""

from typing import Literal

from coilclaw.ledger.audit import add_event
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.devices import confirm_device, rename_device, revoke_device
from coilclaw.store.tx import Tx

TERMINAL = "terminal"
"""Who acts when the owner does so at the terminal."""


def end_device(
    tx: Tx,
    clock: Clock,
    device_id: str,
    *,
    by: str,
    why: Literal["revoked", "signed_out", "replaced", "passkey_removed"],
) -> bool:
    """Revoke a device and its tokens; False when it was over already."""
    if not revoke_device(tx, device_id, stamp(clock())):
        return False
    add_event(tx, clock, "device_revoked", device_id, {"by": by, "why": why})
    return True


def name_device(tx: Tx, clock: Clock, device_id: str, name: str, *, by: str) -> bool:
    """Give a device another name; False when there is no such device."""
    if not rename_device(tx, device_id, name):
        return False
    add_event(tx, clock, "device_renamed", device_id, {"by": by})
    return True


def vouch_for_device(tx: Tx, clock: Clock, device_id: str, *, by: str) -> bool:
    """Confirm a device; False when it was already, or is revoked."""
    if not confirm_device(tx, device_id, stamp(clock())):
        return False
    add_event(tx, clock, "device_confirmed", device_id, {"by": by})
    return True
