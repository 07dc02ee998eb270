"""Deliveries of webhooks on record, so that each counts once; old ones are forgotten."""

from collections.abc import Iterable
from datetime import timedelta

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx

REMEMBERED = timedelta(days=30)


def is_delivered(db: Tx, place: str, ids: Iterable[str]) -> bool:
    """Whether a delivery is on record under one of its ids."""
    query = "SELECT 1 FROM webhook_deliveries WHERE repo = ? AND delivery_id = ?"
    return any(db.execute(query, (place, each)).fetchone() is not None for each in ids)


def add_delivery(tx: Tx, clock: Clock, place: str, ids: Iterable[str]) -> bool:
    """Record a delivery under its ids and forget old ones; False, and nothing is written, if it came before."""
    listed = tuple(ids)
    if is_delivered(tx, place, listed):
        return False
    now = clock()
    tx.execute("DELETE FROM webhook_deliveries WHERE received_at < ?", (stamp(now - REMEMBERED),))
    for each in listed:
        tx.execute("INSERT INTO webhook_deliveries VALUES (?, ?, ?)", (place, each, stamp(now)))
    return True
