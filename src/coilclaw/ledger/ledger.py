"""The ledger as the rest of the product uses it: write a receipt in your transaction; the rest happens by itself."""

from collections.abc import Callable
from pathlib import Path

from coilclaw.ledger.chain import append_receipt, last_link
from coilclaw.ledger.cover import Cover, check_tail, continues, covering_head
from coilclaw.ledger.heads import SigningKey, append_heads, chained_heads, last_head, last_size_in, store_head
from coilclaw.ledger.log import ReceiptLog, known_size, set_exported_size
from coilclaw.packets.action import Action
from coilclaw.packets.errors import CoilclawError, LedgerBroken, StorageError
from coilclaw.packets.ids import Clock
from coilclaw.packets.receipt import Receipt, ReceiptStatus
from coilclaw.store.database import Database
from coilclaw.store.tx import Tx


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
        self._unkept = False
        """Whether a head may have been committed that does not stand beside the log and the key yet."""
        self._halted = False
        self._every = head_every
        self._seconds = head_seconds
        self._sealed_at = clock()
        db.vouch_with(Cover(key, clock))
        db.after_commit(self._copy, self._not_copied)

    def add(self, tx: Tx, action: Action, status: ReceiptStatus, *, code: str, result_hash: str) -> Receipt:
        """Write a receipt in the caller's transaction."""
        receipt = append_receipt(tx, self._clock, action, status, code=code, result_hash=result_hash)
        self._unexported = True
        self._added += 1
        return receipt

    async def seal_if_due(self) -> None:
        """Sign the chain when enough receipts or time have gone by since the last head. What keeps it from is said."""
        waited = (self._clock() - self._sealed_at).total_seconds()
        unsealed = self._added - self._sealed
        due = unsealed >= self._every or (unsealed and waited >= self._seconds)
        if not due or self._sealing or self._halted:  # one seal covers everybody who finishes meanwhile
            return
        self._sealing = True
        try:
            self._keep(await self._db.write(self._seal))
        except (LedgerBroken, StorageError) as error:  # what was to be sealed is durable all the same
            self._halted = isinstance(error, LedgerBroken)
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

    def ready(self) -> None:
        """Nothing may be begun with a signing key that is gone, empty or damaged: its end could not be proved."""
        self._key.row_key()

    def _copy(self, db: Tx) -> None:
        if self._unkept:
            self._unkept = False
            self._keep_beside(db)
        if self._unexported:
            if self._reached is not None:
                self._reached("copying")
            self._log.export(db)
            self._unexported = False
            if self._reached is not None:
                self._reached("copied")

    def _not_copied(self, error: Exception) -> None:
        self._warn(
            f"the receipts log could not be updated ({error!r}); the receipts are safe in the database and"
            " will be copied with the next one."
        )

    def _seal(self, tx: Tx) -> int:
        """A head over all that was written up to now; returns how many of our own that are."""
        exported = self._synced()
        if exported:
            set_exported_size(tx, exported)
        self._check_mark(tx)
        head, _ = last_head(tx)
        if head is None or not head.previous or head.size < last_link(tx)[0]:
            check_tail(tx, head)
            kept = self._catch_up(tx)
            store_head(tx, covering_head(tx, self._key, self._clock, log=known_size(tx), heads=kept))
        self._unkept = True
        return self._added

    def _check_mark(self, tx: Tx) -> None:
        """Never sign over a chain that is not the one that was signed last."""
        mark, count = self._key.known_mark(), self._key.count()
        counted = count is not None and continues(tx, count)
        if mark is None or not self._key.holds(mark) or not continues(tx, mark) or not counted:
            raise LedgerBroken(
                "the receipts do not continue from the last signed head, so nothing more is signed.",
                remedy="Run `coilclaw receipt verify`.",
            )

    def _synced(self) -> int:
        try:
            return self._log.sync()
        except OSError as error:
            self._warn(
                f"the receipts log could not be synced to disk ({error.strerror}); the database has the receipts."
            )
            return 0

    def _keep(self, sealed: int | None) -> None:
        if sealed is not None:
            self._sealed, self._sealed_at = sealed, self._clock()

    def _keep_beside(self, db: Tx) -> None:
        """Once a head is committed, keep it beside the key and the log as well; still holding the lock."""
        head, _ = last_head(db)
        if head is None:
            return
        try:
            self._key.keep_mark(head)
            self._catch_up(db)
        except OSError as error:
            self._warn(f"the signed head could not be written next to the log ({error.strerror}); the database has it.")

    def _catch_up(self, db: Tx) -> int:
        """Bring the heads beside the log up to the rows; returns the size of the last one that is durable there."""
        path = heads_file(self._log_path)
        head, _ = last_head(db)
        known = 0 if head is None else head.heads
        try:
            have = last_size_in(path)
            if have < known and known:
                self._warn(f"{path} was truncated: it ends at receipt {max(have, 0)}. Run `coilclaw receipt verify`.")
                return known
            missing = chained_heads(db, have)
            if missing:
                append_heads(path, [line for _, line in missing])
        except OSError as error:
            self._warn(f"the signed head could not be written next to the log ({error.strerror}); the database has it.")
            return known
        return missing[-1][0] if missing else max(have, 0)
