"""The ledger for the rest of the product: write a receipt in your transaction; everything else is automatic."""

from collections.abc import Callable
from pathlib import Path

from coilclaw.ledger.chain import OwnDeed, append_deed, append_receipt, last_link
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
    """The heads file next to the log."""
    return log.with_name(log.name + ".heads")


class Ledger:
    """Receipts in rows, copied to the log after each commit, sealed with a signed head periodically and on exit."""

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
        main: Callable[[], str] = str,
    ) -> None:
        self._db = db
        self._key = key
        self._clock = clock
        self._warn = warn
        self._reached = reached
        self._main = main
        """Tells the commit on main of the bot's repository."""
        self._log_path = log_path
        self._log = ReceiptLog(log_path, warn)
        self._unexported = False
        self._added = 0
        """Receipts written by this process; only the writer counts them."""
        self._sealed = 0
        """How many of them a committed and stored head covers."""
        self._sealing = False
        self._unkept = False
        """Whether a committed head may not be next to the log and the key yet."""
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

    def add_deed(self, tx: Tx, deed: OwnDeed) -> Receipt:
        """Write a receipt for what the runtime did itself, in the caller's transaction."""
        receipt = append_deed(tx, self._clock, deed)
        self._unexported = True
        self._added += 1
        return receipt

    async def seal_if_due(self) -> None:
        """Sign the chain if enough receipts or time have passed since the last head. Failures are reported."""
        waited = (self._clock() - self._sealed_at).total_seconds()
        unsealed = self._added - self._sealed
        if unsealed >= self._every or (unsealed and waited >= self._seconds):
            await self.seal_now()

    async def seal_now(self) -> None:
        """Sign the chain as it stands, unless a head covers all of it. Failures are reported."""
        if self._sealing or self._halted:  # one seal covers all callers that finish meanwhile
            return
        self._sealing = True
        try:
            self._keep(await self._db.write(self._seal))
        except (LedgerBroken, StorageError) as error:  # the receipts to be sealed are durable anyway
            self._halted = isinstance(error, LedgerBroken)
            self._warn(str(error))
            self._sealed_at = self._clock()
        finally:
            self._sealing = False

    def close(self) -> None:
        """Seal on exit. A failure is reported, not raised: the receipts themselves are safe in their rows."""
        try:
            if self._db.is_writing:  # queued writes come before this, and are sealed too
                self._keep(self._db.write_now(lambda tx: self._seal(tx) if self._added > self._sealed else None))
        except CoilclawError as error:
            self._warn(f"the ledger could not be sealed on exit: {error}")
        self._log.close()

    def ready(self) -> None:
        """Nothing may start with a signing key that is missing, empty or damaged: its outcome could not be proved."""
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
        """A head over everything written so far; returns how many of our own receipts it covers."""
        exported = self._synced()
        if exported:
            set_exported_size(tx, exported)
        self._check_mark(tx)
        head, _ = last_head(tx)
        if head is None or not head.previous or head.size < last_link(tx)[0]:
            check_tail(tx, head)
            kept = self._catch_up(tx)
            head = covering_head(tx, self._key, self._clock, log=known_size(tx), heads=kept, main=self._main())
            store_head(tx, head)
        self._unkept = True
        return self._added

    def _check_mark(self, tx: Tx) -> None:
        """Never sign a chain that does not continue the last signed one."""
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
        """After a head is committed, store it next to the key and the log too, still holding the lock."""
        head, _ = last_head(db)
        if head is None:
            return
        try:
            self._key.keep_mark(head)
            self._catch_up(db)
        except OSError as error:
            self._warn(f"the signed head could not be written next to the log ({error.strerror}); the database has it.")

    def _catch_up(self, db: Tx) -> int:
        """Update the heads file from the rows; returns the size of the last head that is durable there."""
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
