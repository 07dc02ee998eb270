"""Requests with an Idempotency-Key: which process started them, and their responses."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx

State: TypeAlias = Literal["begun", "running", "conflict"]
_HEADERS = msgspec.json.Decoder(list[tuple[str, str]])


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A stored response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def begin_request(
    tx: Tx,
    clock: Clock,
    *,
    device_id: str,
    key: str,
    request_hash: str,
    worker: str,
    gone: Callable[[str], bool],
) -> Kept | State:
    """Start a request, or return its state: its response, still running, or the key belongs to another request.

    A request whose process is gone is started again; its handler recognises earlier work by the key.
    """
    row = tx.execute(
        "SELECT request_hash, status, headers_json, body, worker FROM requests WHERE device_id = ? AND key = ?",
        (device_id, key),
    ).fetchone()
    if row is None:
        tx.execute(
            "INSERT INTO requests (device_id, key, request_hash, worker, created_at) VALUES (?, ?, ?, ?, ?)",
            (device_id, key, request_hash, worker, stamp(clock())),
        )
        return "begun"
    if row[0] != request_hash:
        return "conflict"
    if row[1] is not None:
        return Kept(status=row[1], headers=_HEADERS.decode(row[2]), body=bytes(row[3] or b""))
    if not gone(row[4]):
        return "running"
    tx.execute("UPDATE requests SET worker = ? WHERE device_id = ? AND key = ?", (worker, device_id, key))
    return "begun"


def finish_request(tx: Tx, *, device_id: str, key: str, worker: str, kept: Kept) -> None:
    """Store the response of a request that this process started."""
    tx.execute(
        "UPDATE requests SET status = ?, headers_json = ?, body = ?"
        " WHERE device_id = ? AND key = ? AND worker = ? AND status IS NULL",
        (kept.status, msgspec.json.encode(kept.headers).decode(), kept.body, device_id, key, worker),
    )


def forget_request(tx: Tx, *, device_id: str, key: str, worker: str) -> None:
    """Allow a request of this process to be repeated: its response must not be stored."""
    tx.execute(
        "DELETE FROM requests WHERE device_id = ? AND key = ? AND worker = ? AND status IS NULL",
        (device_id, key, worker),
    )
