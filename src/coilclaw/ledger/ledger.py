"""The ledger as the rest of the product uses it: write a receipt in your transaction; the rest happens by itself."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from coilclaw.ledger.chain import append_receipt, last_link
from coilclaw.ledger.heads import SigningKey, append_head, store_head
from coilclaw.ledger.log import ReceiptLog, set_exported_size
from coilclaw.packets.action import Action
from coilclaw.packets.errors import CoilclawError, LedgerBroken
from coilclaw.packets.ids import Clock
from coilclaw.packets.receipt import Head, Receipt, ReceiptStatus
from coilclaw.store.database import Database


def heads_file(log: Path) -> Path:
    """Where the heads are kept beside the log."""
    return log.with_name(log.name + ".heads")


class Ledger:
    """Receipts in rows, copied to the log after each commit, sealed with a signed head now and then and on exit."""

    def __init__(
        self,
        db: Database,
        log_path: Path,
        key: SigningKey,
        *,
        clock: Clock,
        warn: Callable[[str], None],
        head_every: int = 64,
        head_seconds: float = 60.0,
        reached: Callable[[str], None] | None = None,
    ) -> None:
        self._db = db
        self._key = key
        self._clock = clock
        self._warn = warn
        self._reached = reached
        self._log_path = log_path
        self._log = ReceiptLog(log_path, warn)
        self._unexported = False
        self._added = 0
        """Receipts ever written here; counted by the writer alone."""
        self._sealed = 0
        """How many of them a head covers that was committed and kept."""
        self._sealing = False
        self._every = head_every
        self._seconds = head_seconds
        self._sealed_at = clock()
        db.after_commit(self._copy, self._not_copied)

    def add(
        self, tx: sqlite3.Connection, action: Action, status: ReceiptStatus, *, code: str, result_hash: str
    ) -> Receipt:
        """Write a receipt in the caller's transaction."""
        receipt = append_receipt(tx, self._clock, action, status, code=code, result_hash=result_hash)
        self._unexported = True
        self._added += 1
        return receipt

    async def seal_if_due(self) -> None:
        """Sign the chain when enough receipts or time have gone by since the last head."""
        waited = (self._clock() - self._sealed_at).total_seconds()
        unsealed = self._added - self._sealed
        due = unsealed >= self._every or (unsealed and waited >= self._seconds)
        if not due or self._sealing:  # one seal covers everybody who finishes meanwhile
            return
        self._sealing = True
        try:
            self._keep(await self._db.write(self._seal))
        except LedgerBroken as error:
            self._warn(str(error))
            self._sealed_at = self._clock()
        finally:
            self._sealing = False

    def close(self) -> None:
        """Seal on the way out. A failure is said, not raised: the receipts themselves are safe in their rows."""
        try:
            if self._db.is_writing:  # what still waits to be written comes before this, and is sealed with the rest
                self._keep(self._db.write_now(lambda tx: self._seal(tx) if self._added > self._sealed else None))
        except CoilclawError as error:
            self._warn(f"the ledger could not be sealed on exit: {error}")
        self._log.close()

    def _copy(self, db: sqlite3.Connection) -> None:
        if self._unexported:
            if self._reached is not None:
                self._reached("copying")
            self._log.export(db)
            self._unexported = False
            if self._reached is not None:
                self._reached("copied")

    def _not_copied(self, error: Exception) -> None:
        self._warn(
            f"the receipts log could not be brought up to date ({error!r}); the receipts are safe in the database and"
            " will be copied with the next one."
        )

    def _seal(self, tx: sqlite3.Connection) -> tuple[Head, int]:
        """A head over all that was written up to now, and how many of our own that are."""
        exported = self._synced()
        if exported:
            set_exported_size(tx, exported)
        self._check_mark(tx)
        size, chain_hash = last_link(tx)
        return store_head(tx, self._key, self._clock, size, chain_hash), self._added

    def _check_mark(self, tx: sqlite3.Connection) -> None:
        """Never sign over a chain that is not the one that was signed last."""
        mark = self._key.known_mark()
        row = tx.execute("SELECT receipt_hash FROM receipts WHERE seq = ?", (mark.size if mark else -1,)).fetchone()
        if mark is None or not self._key.holds(mark) or (mark.size and (row is None or row[0] != mark.hash)):
            raise LedgerBroken(
                "the receipts do not continue what was signed last, so nothing more is signed.",
                remedy="Run `coilclaw receipt verify`.",
            )

    def _synced(self) -> int:
        try:
            return self._log.sync()
        except OSError as error:
            self._warn(f"the receipts log could not be made durable ({error.strerror}); the database has the receipts.")
            return 0

    def _keep(self, sealed: tuple[Head, int] | None) -> None:
        """Once the head is committed, keep it beside the log as well."""
        if sealed is None:
            return
        head, self._sealed = sealed
        self._sealed_at = self._clock()
        try:
            self._key.keep_mark(head)
            append_head(heads_file(self._log_path), head)
        except OSError as error:
            self._warn(f"the signed head could not be kept beside the log ({error.strerror}); the database has it.")
