"""Proves that this home wrote the rows, and how many there were: a MAC on each, and a count next to the key.

An attacker who can write the database, but not read the keys folder, can neither add a valid row nor cut the last one.
"""

import hashlib
import hmac
import os
from pathlib import Path

import msgspec

from coilclaw.packets.errors import StorageError
from coilclaw.packets.receipt import GENESIS
from coilclaw.store.database import Connection
from coilclaw.store.tx import Tx

SIZE = 512
"""The count is one sector: it is overwritten in place, whole or not at all."""
MAC_BYTES = 16


def mac_of(key: bytes, kind: bytes, data: bytes) -> bytes:
    """The MAC of a value of some kind."""
    return hashlib.blake2b(data, key=key, digest_size=MAC_BYTES, person=kind).digest()


def macs_of(key: bytes, kind: bytes, data: list[bytes]) -> list[bytes]:
    """The MACs of many values of one kind, faster."""
    keyed = hashlib.blake2b(key=key, digest_size=MAC_BYTES, person=kind)
    found: list[bytes] = []
    for each in data:
        one = keyed.copy()
        one.update(each)
        found.append(one.digest())
    return found


def row_mac(tx: Tx, kind: bytes, data: bytes) -> bytes | None:
    """The MAC of a row being written; None if rows have no MACs."""
    if not isinstance(tx, Connection):
        return None
    tx.vouched = True
    return None if tx.row_key is None else mac_of(tx.row_key, kind, data)


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """The last committed receipt and audit event, as recorded next to the key."""

    receipts: int
    hash: str
    audit: int
    link: str
    key: str
    """The key id, as in heads."""
    mac: str = ""

    def sealed(self, key: bytes) -> "Count":
        """The same with its MAC."""
        return msgspec.structs.replace(self, mac=mac_of(key, b"count", self._stated()).hex())

    def holds(self, key: bytes) -> bool:
        """Whether its MAC was made with this key."""
        return hmac.compare_digest(self.mac, mac_of(key, b"count", self._stated()).hex())

    def _stated(self) -> bytes:
        return f"{self.receipts} {self.hash} {self.audit} {self.link} {self.key}".encode("utf-8", "replace")

    def data(self) -> bytes:
        """The file's content: one line, padded to a sector."""
        return msgspec.json.encode(self).ljust(SIZE - 1) + b"\n"


_COUNT = msgspec.json.Decoder(Count)


def first_count(name: str) -> Count:
    """The count of an empty home."""
    return Count(receipts=0, hash=GENESIS, audit=0, link=GENESIS, key=name)


def read_count(data: bytes) -> Count | None:
    """Parse a count, byte for byte; None if it is not one."""
    try:
        count = _COUNT.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return count if count.data() == data else None


def write_count(file: Path, count: Count) -> None:
    """Overwrite the count in place. It is never created here: a missing one must stay visible.

    Not synced: after a power cut it may be older than the rows, never ahead of them.
    """
    try:
        fd = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(f"{file} cannot be written ({error.strerror}).", remedy="Run `coilclaw doctor`.") from error
    try:
        os.pwrite(fd, count.data(), 0)
        if os.fstat(fd).st_size != SIZE:
            os.ftruncate(fd, SIZE)
    finally:
        os.close(fd)
