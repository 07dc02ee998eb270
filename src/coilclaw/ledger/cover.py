"""How the ledger protects a database: rows get MACs, commits are counted, an earlier home is signed once."""

from coilclaw.ledger.audit_chain import START, audit_faults, cover_events, last_event, link_events
from coilclaw.ledger.chain import hash_of_line, last_link
from coilclaw.ledger.heads import SigningKey, decode_head, last_head, store_head
from coilclaw.ledger.log import exported_size
from coilclaw.ledger.vouch import Count, mac_of, row_mac, write_count
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import LedgerBroken
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.receipt import GENESIS, Covered, Head
from coilclaw.store.database import Connection
from coilclaw.store.tx import Tx


class Cover:
    """Adds a MAC to every row that this process writes, and counts every commit next to the key.

    With a key that is missing, empty or damaged nothing can be written.
    """

    def __init__(self, key: SigningKey, clock: Clock) -> None:
        self._key = key
        self._clock = clock
        self._name = ""
        self._audit = (0, START)
        """The last event of the last transaction, and its link."""
        self._counts = True
        """False if counted rows are missing: the count then stays as it is."""

    def prepare(self, connection: Connection) -> None:
        """Load the key; sign the rows of an earlier version."""
        connection.row_key = self._key.row_key()
        self._name = self._key.name()
        mark = self._key.mark()
        if mark is not None and not mark.previous:
            _cover_earlier(connection, self._key, self._clock)
        count = self._key.count()
        self._counts = count is None or continues(connection, count)

    def begun(self, connection: Connection) -> tuple[int, bytes]:
        """The end of the audit, so that only what this transaction adds is linked."""
        return last_event(connection)

    def ending(self, connection: Connection, begun: tuple[int, bytes]) -> None:
        """Link the added events."""
        self._audit = link_events(connection, *begun)

    def written(self, connection: Connection) -> None:
        """Count the commit."""
        if connection.vouched and self._counts and connection.row_key is not None:
            connection.vouched = False
            count = _count(last_link(connection), self._audit, self._name)
            write_count(self._key.count_file, count.sealed(connection.row_key))


def counted(db: Tx, name: str) -> Count:
    """The last rows."""
    return _count(last_link(db), last_event(db), name)


def _count(receipt: tuple[int, str], event: tuple[int, bytes], name: str) -> Count:
    return Count(receipts=receipt[0], hash=receipt[1], audit=event[0], link=event[1].hex(), key=name)


def covering_head(tx: Tx, key: SigningKey, clock: Clock, *, log: int, heads: int, main: str = "") -> Head:
    """A signed head over the current state."""
    (size, chain_hash), (audit, link) = last_link(tx), last_event(tx)
    before = _hash_before(tx, size)
    cover = Covered(audit=audit, audit_hash=link.hex(), log=log, heads=heads, previous=before, main=main)
    return key.sign(size, chain_hash, stamp(clock()), cover)


def _hash_before(tx: Tx, size: int) -> str:
    """The hash of the heads before one of this size, back to the last chained one."""
    lines: list[bytes] = []
    for (line,) in tx.execute("SELECT CAST(line AS BLOB) FROM ledger_heads WHERE size < ? ORDER BY size DESC", (size,)):
        lines.insert(0, bytes(line))
        head = decode_head(line)
        if head is not None and head.previous:
            break
    return hash_of_heads(lines)


def hash_of_heads(lines: list[bytes]) -> str:
    """What a head states about its predecessors."""
    return sha256_hex(b"\n".join(lines)) if lines else GENESIS


def continues(db: Tx, known: Head | Count) -> bool:
    """Whether the rows continue what was signed or counted."""
    size, audit, link = (
        (known.size, known.audit, known.audit_hash)
        if isinstance(known, Head)
        else (known.receipts, known.audit, known.link)
    )
    row = db.execute("SELECT receipt_hash FROM receipts WHERE seq = ?", (size,)).fetchone()
    if size and (row is None or row[0] != known.hash):
        return False
    if not audit:
        return True
    event = db.execute("SELECT link FROM audit_log WHERE seq = ?", (audit,)).fetchone()
    if event is None:  # it may have been pruned since
        return (
            db.execute("SELECT 1 FROM audit_gaps WHERE first <= ? AND last >= ?", (audit, audit)).fetchone() is not None
        )
    return isinstance(event[0], bytes) and event[0].hex() == link


def check_tail(tx: Tx, head: Head | None) -> None:
    """Never sign a row that we did not write: every row since the last head must be intact and have its MAC."""
    key = tx.row_key if isinstance(tx, Connection) else None
    size, previous = (head.size, head.hash) if head is not None else (0, GENESIS)
    rows = tx.execute(
        "SELECT seq, receipt_hash, CAST(line AS BLOB), mac FROM receipts WHERE seq > ? ORDER BY seq", (size,)
    )
    for seq, stated, line, mac in rows:
        size += 1
        wanted = None if key is None else mac_of(key, b"receipt", str(stated).encode())
        sound = hash_of_line(line) == stated and f'"previous_hash":"{previous}"'.encode() in line
        if not sound or seq != size or (wanted is not None and mac != wanted):
            raise _unsigned(f"receipt {size}")
        previous = stated
    chained = head is not None and bool(head.previous)
    after, link = (head.audit, bytes.fromhex(head.audit_hash)) if head is not None and chained else (0, START)
    fault = next(audit_faults(tx, key, {}, after=after, previous=link), None)
    if fault is not None:
        raise _unsigned(f"audit event {fault.seq}")


def _unsigned(what: str) -> LedgerBroken:
    return LedgerBroken(
        f"{what} was changed or not written by this home, so nothing more is signed.",
        remedy="Run `coilclaw receipt verify`.",
    )


def _cover_receipts(tx: Connection) -> None:
    seq = 0
    while rows := tx.execute(
        "SELECT seq, receipt_hash FROM receipts WHERE seq > ? ORDER BY seq LIMIT 1000", (seq,)
    ).fetchall():
        macs = [(row_mac(tx, b"receipt", str(row[1]).encode()), row[0]) for row in rows]
        tx.executemany("UPDATE receipts SET mac = ? WHERE seq = ?", macs)
        seq = int(rows[-1][0])


def _cover_earlier(tx: Connection, key: SigningKey, clock: Clock) -> None:
    """Sign the rows of an earlier version as they are: from here on everything is covered.

    The mark next to the key records that it was done and is written last; if interrupted, it is done again.
    """
    tx.execute("BEGIN IMMEDIATE")
    try:
        head, _ = last_head(tx)
        if head is None or not head.previous or not key.holds(head):
            cover_events(tx)
            _cover_receipts(tx)
            head = covering_head(tx, key, clock, log=exported_size(tx), heads=0)
            if head.size:
                store_head(tx, head)
        tx.execute("COMMIT")
    except BaseException:
        if tx.in_transaction:
            tx.execute("ROLLBACK")
        raise
    key.make_count(counted(tx, key.name()), replace=True)
    key.keep_mark(head)
