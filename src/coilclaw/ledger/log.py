"""The receipt log: the rows copied in order, line by line, so that anyone can check them without a database."""

import os
from collections.abc import Callable
from pathlib import Path

from coilclaw.ledger.chain import receipt_number
from coilclaw.ledger.heads import last_head
from coilclaw.packets.canonical import NotCanonical, parse_object
from coilclaw.packets.errors import StorageError
from coilclaw.store.durable import write_all
from coilclaw.store.tx import Tx

TAIL = 64 * 1024


def exported_size(db: Tx) -> int:
    """How many receipts are known to be durable in the log."""
    row = db.execute("SELECT value FROM meta WHERE key = 'exported_seq'").fetchone()
    return int(row[0]) if row is not None and str(row[0]).isascii() and str(row[0]).isdigit() else 0


def known_size(db: Tx) -> int:
    """The same, also according to the last signed head, which nobody can lower."""
    head, _ = last_head(db)
    return max(exported_size(db), head.log if head is not None else 0)


def set_exported_size(tx: Tx, size: int) -> None:
    """Record that so many receipts are durable in the log. The number never decreases."""
    tx.execute(
        "INSERT INTO meta (key, value) VALUES ('exported_seq', ?) ON CONFLICT (key) "
        "DO UPDATE SET value = excluded.value WHERE CAST(excluded.value AS INTEGER) > CAST(value AS INTEGER)",
        (str(size),),
    )


class ReceiptLog:
    """Appends missing rows to the log. Only used while holding the database's lock."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path = path
        self._warn = warn
        self._fd: int | None = None
        self._bytes = -1
        self._size = 0
        self._halted = False

    def export(self, db: Tx) -> None:
        """Update the log from the rows. A log that cannot be written lags behind and catches up later."""
        if self._halted:
            return
        try:
            self._catch_up(db)
        except StorageError as error:
            self._halted = True
            self._warn(str(error))
        except OSError as error:
            self._bytes = -1
            self._warn(
                f"the receipts log {self.path} cannot be written ({error.strerror}); the receipts are safe in the"
                " database and will be copied when it can be written."
            )

    def sync(self) -> int:
        """Make the exported lines durable; returns how many receipts that is."""
        if self._fd is not None and not self._halted:
            os.fsync(self._fd)
            return self._size
        return 0

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _catch_up(self, db: Tx) -> None:
        fd = self._open()
        if os.fstat(fd).st_size != self._bytes:
            self._find_end(fd, db)
            if self._halted:
                return
        rows = db.execute("SELECT seq, line FROM receipts WHERE seq > ? ORDER BY seq", (self._size,)).fetchall()
        if rows:
            data = "".join(f"{row[1]}\n" for row in rows).encode()
            self._append(fd, data)
            self._size = int(rows[-1][0])
        self._bytes = os.fstat(fd).st_size

    def _append(self, fd: int, data: bytes) -> None:
        start = os.fstat(fd).st_size
        try:
            write_all(fd, data)
        except OSError:
            os.ftruncate(fd, start)  # never leave half a line
            raise

    def _open(self) -> int:
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return self._fd

    def _find_end(self, fd: int, db: Tx) -> None:
        """Find the end of the log: repair a torn last line, refuse to append to a truncated log."""
        end = os.fstat(fd).st_size
        tail = os.pread(fd, TAIL, max(0, end - TAIL))
        whole, newline, torn = tail.rpartition(b"\n")
        if torn:
            os.ftruncate(fd, end - len(torn))
            self._warn(f"the receipts log {self.path} had an incomplete last line; it was repaired from the database.")
        self._size = _number_of(whole.rpartition(b"\n")[2]) if newline else 0
        known = known_size(db)
        if self._size < known:
            self._halted = True
            self._warn(
                f"the receipts log {self.path} ends at receipt {self._size}, but it contained {known}:"
                " it was truncated. Receipts continue in the database; run `coilclaw receipt verify`."
            )


def _number_of(line: bytes) -> int:
    try:
        return receipt_number(str(parse_object(line)["id"]))
    except (NotCanonical, KeyError, ValueError, IndexError) as error:
        raise StorageError(
            "the last line of the receipts log is not a receipt.", remedy="Run `coilclaw receipt verify`."
        ) from error
