"""Audit events: the queryable story beside the receipts."""

import sqlite3

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock, new_id, stamp


def add_event(tx: sqlite3.Connection, clock: Clock, event_type: str, entity_id: str, payload: dict[str, Json]) -> None:
    """Write one event in the caller's transaction. Payloads carry ids, codes and hashes, never content."""
    now = clock()
    tx.execute(
        "INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at) VALUES (?, ?, ?, ?, ?)",
        (new_id("evt", now), event_type, entity_id, msgspec.json.encode(payload).decode(), stamp(now)),
    )
