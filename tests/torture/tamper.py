"""Tampering: a real home, and more than a hundred ways to change its files; `receipt verify` must name each.

Whoever does it can write the database, the log and the heads, and cannot read or write the keys. Bits are flipped in
all files, the keys included: damage is nobody's doing.
"""

import json
import os
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from coilclaw.config import Home
from coilclaw.features.chat.agent import agent_of
from coilclaw.ledger.findings import Report
from coilclaw.ledger.heads import SigningKey
from coilclaw.ledger.live_verify import verify_live
from coilclaw.ledger.prune import Pruner
from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from coilclaw.packets.receipt import sealed
from coilclaw.store.retention import Days
from coilclaw.store.schema import SHAPE, shape_hash
from tests.features.conftest import Office, calls
from tests.home import Owner, Sample

COVERED = ("receipts", "ledger_heads", "audit_log", "audit_gaps", "proposed_actions")
"""The tables whose content is the ledger's."""


class Books:
    """The files of a home that the ledger rests on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Home(root)
        self.database = root / "memory.sqlite"
        self.log = root / "tool_receipts.log"
        self.heads = root / "tool_receipts.log.heads"
        self.key = SigningKey(root / "keys")

    def files(self) -> list[Path]:
        key = self.key
        return [self.database, self.log, self.heads, key.private_file, key.public_file, key.mark_file, key.count_file]

    def copy(self, to: Path) -> "Books":
        """The same files elsewhere."""
        (to / "keys").mkdir(parents=True)
        for file in self.files():
            shutil.copyfile(file, to / file.relative_to(self.root))
        return Books(to)

    def verify(self) -> Report:
        return verify_live(self.database, self.log, self.key)

    def sql(self, *statements: str) -> int:
        """Run statements as somebody with any SQLite tool would; how many rows they changed."""
        db = sqlite3.connect(self.database, isolation_level=None)
        try:
            changed = 0
            for statement in statements:
                changed += max(0, db.execute(statement).rowcount)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            db.close()
        return changed

    def rows(self, query: str) -> list[tuple]:
        db = sqlite3.connect(self.database)
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()

    def content(self) -> dict[str, object]:
        """Everything the ledger speaks of, and everything else, as it reads."""
        db = sqlite3.connect(f"file:{self.database}?immutable=1", uri=True)
        db.text_factory = bytes
        found: dict[str, object] = {}
        try:
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
                table = name.decode()
                if not table.startswith("messages_fts"):
                    found[table] = self._rows_or_error(db, table)
            found["schema"] = sorted(db.execute("SELECT name, sql FROM sqlite_schema").fetchall())
        finally:
            db.close()
        return found

    @staticmethod
    def _rows_or_error(db: sqlite3.Connection, table: str) -> object:
        """Its rows, or what keeps them from being read: a flipped bit in the name of a column does."""
        try:
            return db.execute(f"SELECT * FROM {table}").fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            return repr(error)


class _Then:
    """A clock some days ago that goes on."""

    def __init__(self, days: int) -> None:
        self._start = datetime.now(UTC) - timedelta(days=days)
        self._steps = 0

    def __call__(self) -> datetime:
        self._steps += 1
        return self._start + timedelta(milliseconds=self._steps)


async def build(folder: Path) -> Books:
    """A home with chat, jobs, approvals, denials, failures, several heads, rotated keys, pruned audit and a tail."""
    await _live(folder, _Then(200), "old")
    await _live(folder, _Then(20), "new")
    sample = Sample(folder)
    app = sample.app
    days = Days(audit=90, messages=0, artifacts=0, idempotency=0)
    Pruner(app.db, app.workspace, app.home.locks_dir, days, clock=app.clock, redact=lambda value: value).prune()
    sample.close()
    from coilclaw.runtime.keyring import rotate_keys

    sample = Sample(folder)
    rotate_keys(sample.app)
    sample.close()
    await _live(folder, _Then(1), "tail", seal=False)
    books = Books(folder / "home")
    books.sql()  # the WAL is in the database, as after a clean end
    return books


async def _live(folder: Path, clock: _Then, name: str, *, seal: bool = True) -> None:
    """Some of everything."""
    sample = Sample(folder, security__autonomy="supervised")
    sample.app.clock = clock
    await sample.call("file_list", path=".", key=f"{name}-1")
    await sample.call("file_write", path=f"{name}.txt", content=name, key=f"{name}-2")
    sample.owner = Owner(approved=False, reason="not now")
    await sample.call("file_write", path=f"{name}.no", content=name, key=f"{name}-3")
    await sample.call("file_read", path="not/there", key=f"{name}-4")
    await sample.call("shell", command="sudo rm -rf /", key=f"{name}-5")
    sample.owner = Owner()
    from coilclaw.features.chat.post_message import post

    sample.script(
        calls(("time", {})), {"text": "done"}, calls(("file_list", {"path": "."})), {"text": "the job is done"}
    )
    await post(agent_of(sample.app, sample.conveyor()), sample.app, f"conv_{name}", f"hello {name}", None)
    office = Office(sample, clock)
    await office.create(f"goal {name}", thread=f"conv_{name}")
    await office.drain()
    sample.app.ledger.close() if seal else None
    sample.app.db.close()


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def _edit_lines(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(_lines(path))))


def _values(kind: str, *, required: bool) -> tuple[str, ...]:
    if kind == "BLOB":
        return ("zeroblob(16)",) if required else ("zeroblob(16)", "NULL")
    return ("{} + 100000",) if kind == "INTEGER" else ("'x' || coalesce({}, '')",)


def columns() -> Iterator[tuple[str, Callable[[Books], None]]]:
    """Every column of every covered table, changed in the first row that has it, and in the last."""

    def change(table: str, column: str, value: str, order: str) -> Callable[[Books], None]:
        def apply(books: Books) -> None:
            place = f"SELECT rowid FROM {table} ORDER BY {column} IS NULL, rowid {order} LIMIT 1"
            statement = f"UPDATE {table} SET {column} = {value.format(column)} WHERE rowid = ({place})"
            assert books.sql("PRAGMA ignore_check_constraints = ON", statement) == 1, statement

        return apply

    fresh = sqlite3.connect(":memory:")
    for script in sorted((Path(__file__).parents[2] / "src/coilclaw/store/migrations").glob("*.sql")):
        fresh.executescript(script.read_text())
    for table in COVERED:
        for _, column, kind, required, *_ in fresh.execute(f"PRAGMA table_info({table})").fetchall():
            for value in _values(kind, required=bool(required)):
                for order in ("ASC", "DESC"):
                    yield f"{table}.{column} = {value} in the {order} row", change(table, column, value, order)
    fresh.close()


def _appended_receipt(books: Books, *, log: bool) -> None:
    """A receipt without the key, chained as it should be."""
    seq, line = books.rows("SELECT seq, line FROM receipts ORDER BY seq DESC LIMIT 1")[0]
    fields = json.loads(line)
    fields["previous_hash"] = fields.pop("receipt_hash")
    fields["id"] = f"receipt-{seq + 1:08d}-00000000"
    made = sealed(fields)
    text = made.line().decode().replace("'", "''")
    values = f"{seq + 1}, '{made.id}', '{made.action_id}', '{made.receipt_hash}', '{text}'"
    books.sql(f"INSERT INTO receipts (seq, receipt_id, action_id, receipt_hash, line) VALUES ({values})")
    if log:
        with books.log.open("ab") as file:
            file.write(made.line() + b"\n")


def _cut(books: Books, count: int, *, lowered: bool = True, heads: bool = False, events: bool = True) -> None:
    """Take the last receipts away from rows and log alike, and whatever else tells of them."""
    last = books.rows("SELECT max(seq) FROM receipts")[0][0] - count
    books.sql(f"DELETE FROM receipts WHERE seq > {last}")
    _edit_lines(books.log, lambda lines: lines[:last])
    if lowered:
        books.sql(f"UPDATE meta SET value = '{last}' WHERE key = 'exported_seq'")
    if heads:
        books.sql(f"DELETE FROM ledger_heads WHERE size > {last}")
        _edit_lines(books.heads, lambda lines: [line for line in lines if json.loads(line)["size"] <= last])
    if events:
        first = books.rows("SELECT max(seq) FROM audit_log")[0][0] - 3 * count
        books.sql(f"DELETE FROM audit_log WHERE seq > {first}")
        books.sql(f"UPDATE sqlite_sequence SET seq = {first} WHERE name = 'audit_log'")


def _rewritten(books: Books) -> None:
    """Every receipt made anew in rows and log, with a chain that holds."""
    previous, made = "0" * 64, []
    for line in _lines(books.log):
        fields = json.loads(line)
        del fields["receipt_hash"]
        fields |= {"previous_hash": previous, "tool": "nothing"}
        receipt = sealed(fields)
        previous = receipt.receipt_hash
        made.append(receipt)
    books.log.write_bytes(b"".join(receipt.line() + b"\n" for receipt in made))
    db = sqlite3.connect(books.database)
    for number, receipt in enumerate(made, 1):
        db.execute(
            "UPDATE receipts SET line = ?, receipt_hash = ? WHERE seq = ?",
            (receipt.line().decode(), receipt.receipt_hash, number),
        )
    db.commit()
    db.close()


def _relinked(books: Books) -> None:
    """An event changed, and every link from there on made anew, without the key."""
    from coilclaw.ledger.audit_chain import ROW, EventRow

    db = sqlite3.connect(books.database)
    rows = [EventRow(*row) for row in db.execute(f"SELECT {ROW} FROM audit_log ORDER BY seq")]
    previous = rows[-8].link
    db.execute("UPDATE audit_log SET payload_json = '{}' WHERE seq = ?", (rows[-7].seq,))
    for row in rows[-7:]:
        changed = row._replace(payload=b"{}") if row.seq == rows[-7].seq else row
        previous = changed.link_after(previous)
        db.execute("UPDATE audit_log SET link = ? WHERE seq = ?", (previous, row.seq))
    db.commit()
    db.close()


def _other_key(books: Books, *, mark: bool) -> None:
    """The last head signed by a key of one's own."""
    other = SigningKey(books.root / "other")
    other.create()
    line = books.rows("SELECT line FROM ledger_heads ORDER BY size DESC LIMIT 1")[0][0]
    fields = json.loads(line)
    head = other.sign(fields["size"], fields["hash"], fields["time"])
    text = head.line().decode()
    books.sql(f"UPDATE ledger_heads SET line = '{text}' WHERE size = {head.size}")
    if mark:
        _edit_lines(books.heads, lambda lines: [*lines[:-1], head.line() + b"\n"])


def _head_field(name: str, value: object) -> Callable[[Books], None]:
    def change(books: Books) -> None:
        line = books.rows("SELECT line FROM ledger_heads ORDER BY size DESC LIMIT 1")[0][0]
        fields = json.loads(line)
        fields[name] = value
        text = json.dumps(fields, separators=(",", ":"))
        books.sql(f"UPDATE ledger_heads SET line = '{text}' WHERE size = (SELECT max(size) FROM ledger_heads)")
        _edit_lines(books.heads, lambda lines: [*lines[:-1], text.encode() + b"\n"])

    return change


def _all(*changes: Callable[[Books], object]) -> Callable[[Books], None]:
    def change(books: Books) -> None:
        for each in changes:
            each(books)

    return change


def _sql(*statements: str) -> Callable[[Books], None]:
    def change(books: Books) -> None:
        assert books.sql(*statements), statements

    return change


def _log(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Books], None]:
    return lambda books: _edit_lines(books.log, change)


def _heads(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Books], None]:
    return lambda books: _edit_lines(books.heads, change)


def _trigger(when: str, does: str) -> Callable[[Books], None]:
    """One that nobody of ours made; `meta` can be made to say that it belongs."""
    made = f"CREATE TRIGGER unknown AFTER {when} BEGIN {does}; END"

    def apply(books: Books) -> None:
        books.sql(made)
        db = sqlite3.connect(books.database)
        found = shape_hash(db)
        db.close()
        books.sql(f"INSERT OR REPLACE INTO meta (key, value) VALUES ('shape', '{found} is equivalent to {SHAPE}')")

    return apply


def _decision(field: str, value: str) -> Callable[[Books], None]:
    return _sql(
        f"UPDATE proposed_actions SET decision_json = json_set(decision_json, '$.{field}', {value})"
        f" WHERE {_LAST_ACTION}"
    )


_LAST_ACTION = "rowid = (SELECT max(rowid) FROM proposed_actions WHERE tool = 'file_write')"
_MADE_UP = (
    "INSERT INTO proposed_actions (action_id, user_id, source, source_id, tool, args_json, args_hash, risk_class, lane,"
    " idempotency_key, digest, taint_json, decision_json, status, expires_at, created_at, updated_at)"
    " SELECT 'act_forged', user_id, source, source_id, tool, args_json, args_hash, risk_class, lane, 'forged', digest,"
    " taint_json, decision_json, '{}', expires_at, created_at, updated_at FROM proposed_actions LIMIT 1"
)


def named() -> dict[str, Callable[[Books], None]]:
    """What somebody would think of."""
    last_event = "(SELECT max(seq) FROM audit_log)"
    first_event = "(SELECT min(seq) FROM audit_log)"
    return {
        "the log's first line dropped": _log(lambda lines: lines[1:]),
        "a line in the middle dropped": _log(lambda lines: lines[:4] + lines[5:]),
        "two lines swapped": _log(lambda lines: [lines[1], lines[0], *lines[2:]]),
        "a line doubled": _log(lambda lines: [*lines[:3], *lines[2:]]),
        "the log emptied": _log(lambda _: []),
        "the log deleted": lambda books: books.log.unlink(),
        "the log cut to a half": _log(lambda lines: lines[: len(lines) // 2]),
        "the log cut and exported_seq lowered": _all(
            _log(lambda lines: lines[:5]), _sql("UPDATE meta SET value = '5' WHERE key = 'exported_seq'")
        ),
        "the log cut and exported_seq deleted": _all(
            _log(lambda lines: lines[:5]), _sql("DELETE FROM meta WHERE key = 'exported_seq'")
        ),
        "exported_seq lowered": _sql("UPDATE meta SET value = '1' WHERE key = 'exported_seq'"),
        "exported_seq raised": _sql("UPDATE meta SET value = '9999' WHERE key = 'exported_seq'"),
        "exported_seq is no number": _sql("UPDATE meta SET value = 'many' WHERE key = 'exported_seq'"),
        "a line that is no text": _log(lambda lines: [*lines[:2], b"\xff\xfe\x00garbage\n", *lines[3:]]),
        "a line of zeros": _log(lambda lines: [*lines[:2], bytes(600) + b"\n", *lines[3:]]),
        "a line appended to the log": lambda books: books.log.write_bytes(books.log.read_bytes() + b"{}\n"),
        "all receipts rewritten": _rewritten,
        "all receipts rewritten and heads dropped": _all(
            _rewritten, _sql("DELETE FROM ledger_heads"), lambda books: books.heads.unlink()
        ),
        "a receipt row deleted": _sql("DELETE FROM receipts WHERE seq = 3"),
        "the first receipt row deleted": _sql("DELETE FROM receipts WHERE seq = 1"),
        "the last receipt row deleted": _sql("DELETE FROM receipts WHERE seq = (SELECT max(seq) FROM receipts)"),
        "every receipt row deleted": _sql("DELETE FROM receipts"),
        "a receipt row as a blob": _sql("UPDATE receipts SET line = CAST(line AS BLOB) WHERE seq = 2"),
        "a receipt row that is no text": _sql("UPDATE receipts SET line = CAST(x'fffe80' AS TEXT) WHERE seq = 2"),
        "a receipt id that is no text": _sql("UPDATE receipts SET receipt_id = CAST(x'fffe80' AS TEXT) WHERE seq = 2"),
        "a receipt appended to the rows without the key": lambda books: _appended_receipt(books, log=False),
        "a receipt appended to rows and log without the key": lambda books: _appended_receipt(books, log=True),
        "the unsigned tail cut from rows and log": lambda books: _cut(books, 2, events=False),
        "the unsigned tail cut from rows, log and audit": lambda books: _cut(books, 2),
        "one receipt of the tail cut": lambda books: _cut(books, 1, events=False),
        "all since the last head cut": lambda books: _cut(
            books,
            books.rows("SELECT max(seq) - (SELECT max(size) FROM ledger_heads) FROM receipts")[0][0],
            events=False,
        ),
        "everything cut back with its heads": lambda books: _cut(books, 12, heads=True, events=False),
        "everything cut back with its heads and events": lambda books: _cut(books, 12, heads=True),
        "the last head dropped": _sql("DELETE FROM ledger_heads WHERE size = (SELECT max(size) FROM ledger_heads)"),
        "the first head dropped": _sql("DELETE FROM ledger_heads WHERE size = (SELECT min(size) FROM ledger_heads)"),
        "every head dropped": _sql("DELETE FROM ledger_heads"),
        "every head dropped everywhere": _all(_sql("DELETE FROM ledger_heads"), lambda books: books.heads.unlink()),
        "the heads beside the log deleted": lambda books: books.heads.unlink(),
        "the heads beside the log emptied": _heads(lambda _: []),
        "the first head beside the log dropped": _heads(lambda lines: lines[1:]),
        "heads beside the log swapped": _heads(lambda lines: [lines[1], lines[0], *lines[2:]]),
        "a head beside the log changed": _heads(lambda lines: [lines[0].replace(b'"size":', b'"size":1'), *lines[1:]]),
        "garbage among the heads": _heads(lambda lines: [b"\xff\xfe\n", *lines]),
        "the last head signed by another key": lambda books: _other_key(books, mark=False),
        "the last head signed by another key everywhere": lambda books: _other_key(books, mark=True),
        "the head's signature zeroed": _head_field("signature", "0" * 128),
        "the head's signature emptied": _head_field("signature", ""),
        "the head's signature is no hex": _head_field("signature", "zz" * 64),
        "the head's hash changed": _head_field("hash", "f" * 64),
        "the head's time changed": _head_field("time", "2020-01-01T00:00:00.000Z"),
        "the head's key changed": _head_field("key", "0" * 16),
        "the head's audit number lowered": _head_field("audit", 1),
        "the head's audit link changed": _head_field("audit_hash", "f" * 64),
        "the head's count of the log lowered": _head_field("log", 1),
        "the head's count of heads lowered": _head_field("heads", 1),
        "the head's predecessor changed": _head_field("previous", "f" * 64),
        "the head's predecessor taken away": _head_field("previous", ""),
        "an audit event deleted": _sql(f"DELETE FROM audit_log WHERE seq = {first_event} + 5"),
        "the last audit event deleted": _sql(f"DELETE FROM audit_log WHERE seq = {last_event}"),
        "the last audit event deleted and the sequence lowered": _sql(
            f"DELETE FROM audit_log WHERE seq = {last_event}",
            f"UPDATE sqlite_sequence SET seq = {last_event} WHERE name = 'audit_log'",
        ),
        "the first audit event deleted": _sql(f"DELETE FROM audit_log WHERE seq = {first_event}"),
        "every audit event deleted": _sql("DELETE FROM audit_log"),
        "every audit event deleted and the sequence dropped": _sql(
            "DELETE FROM audit_log", "DELETE FROM sqlite_sequence"
        ),
        "the sequence of events raised": _sql("UPDATE sqlite_sequence SET seq = seq + 9 WHERE name = 'audit_log'"),
        "events of a denial deleted": _sql("DELETE FROM audit_log WHERE event_type = 'tool_denied'"),
        "an event's links made anew": _relinked,
        "two events swapped": _sql(
            f"UPDATE audit_log SET seq = -1 WHERE seq = {last_event}",
            f"UPDATE audit_log SET seq = seq + 1 WHERE seq = {last_event}",
            f"UPDATE audit_log SET seq = {last_event} - 1 WHERE seq = -1",
        ),
        "an event appended without the key": _sql(
            "INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at)"
            " VALUES ('evt_x', 'tool_approved', 'act_x', '{}', '2026-01-01T00:00:00.000Z')"
        ),
        "an event appended with links of one's own": _sql(
            "INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at, link, mac) VALUES"
            " ('evt_x', 'tool_approved', 'act_x', '{}', '2026-01-01T00:00:00.000Z', zeroblob(32), zeroblob(16))"
        ),
        "links and MACs of events emptied": _sql("UPDATE audit_log SET link = NULL, mac = NULL"),
        "MACs of events emptied": _sql("UPDATE audit_log SET mac = NULL"),
        "states of events emptied": _sql("UPDATE audit_log SET state = NULL"),
        "a gap made up for deleted events": _sql(
            f"DELETE FROM audit_log WHERE seq IN ({first_event} + 3, {first_event} + 4)",
            f"INSERT INTO audit_gaps SELECT {first_event} + 3, {first_event} + 4, zeroblob(32), zeroblob(16)",
        ),
        "a gap widened over deleted events": _sql(
            f"UPDATE audit_gaps SET last = {first_event}",
            f"DELETE FROM audit_log WHERE seq = {first_event}",
        ),
        "the gaps deleted": _sql("DELETE FROM audit_gaps"),
        "an action deleted": _sql(
            "DELETE FROM proposed_actions WHERE rowid = (SELECT max(rowid) FROM proposed_actions)"
        ),
        "an old action deleted": _sql(
            "DELETE FROM proposed_actions WHERE rowid = (SELECT min(rowid) FROM proposed_actions)"
        ),
        "every action deleted": _sql("DELETE FROM proposed_actions"),
        "an action deleted with its events": _sql(
            f"DELETE FROM audit_log WHERE entity_id = (SELECT action_id FROM proposed_actions WHERE {_LAST_ACTION})",
            f"DELETE FROM proposed_actions WHERE {_LAST_ACTION}",
        ),
        "an action that nobody proposed": _sql(_MADE_UP.format("APPROVED")),
        "an ended action that nobody proposed": _sql(_MADE_UP.format("EXECUTED")),
        "a denied action made approved": _sql(
            "UPDATE proposed_actions SET status = 'APPROVED' WHERE status = 'REJECTED'"
        ),
        "an executed action made pending": _sql(
            "UPDATE proposed_actions SET status = 'PENDING', begun_at = NULL, attempt = 0 WHERE status = 'EXECUTED'"
        ),
        "an old executed action made pending": _sql(
            "UPDATE proposed_actions SET status = 'PENDING', begun_at = NULL, attempt = 0"
            " WHERE rowid = (SELECT min(rowid) FROM proposed_actions)"
        ),
        "arguments and their hash changed": lambda books: (
            books.sql(
                f"UPDATE proposed_actions SET args_json = '{{}}', args_hash = '{sha256_hex(canonical_bytes({}))}'"
                f" WHERE {_LAST_ACTION}"
            )
            and None
        ),
        "arguments that are no text": _sql("UPDATE proposed_actions SET args_json = CAST(x'fffe80' AS TEXT)"),
        "arguments as a blob": _sql("UPDATE proposed_actions SET args_json = CAST(args_json AS BLOB)"),
        "a justification emptied": _sql(
            "UPDATE proposed_actions SET justification = 'the owner asked for it' WHERE rowid = 1"
        ),
        "a decision's verdict": _decision("verdict", "'allow'"),
        "a decision's risk": _decision("risk", "'R9'"),
        "a decision's reasons": _decision("reasons", "'[]'"),
        "a decision's policy": _decision("policy_hash", "'f'"),
        "an attempt raised": _sql("UPDATE proposed_actions SET attempt = attempt + 1 WHERE status = 'EXECUTED'"),
        "an approver made up": _sql("UPDATE proposed_actions SET approved_by = 'terminal' WHERE approved_by IS NULL"),
        "an approver taken away": _sql("UPDATE proposed_actions SET approved_by = NULL WHERE approved_by IS NOT NULL"),
        "a result changed": _sql("UPDATE proposed_actions SET result_json = '{}' WHERE result_json IS NOT NULL"),
        "two actions' ids swapped": _sql(
            "UPDATE proposed_actions SET action_id = 'x' WHERE rowid = 1",
            "UPDATE proposed_actions SET action_id = (SELECT action_id FROM receipts WHERE seq = 1) WHERE rowid = 2",
        ),
        "the database emptied": lambda books: books.database.write_bytes(b"") and None,
        "the database is garbage": lambda books: books.database.write_bytes(random.Random(1).randbytes(8192)) and None,
        "the database deleted": lambda books: books.database.unlink(),
        "the database cut": lambda books: books.database.write_bytes(books.database.read_bytes()[:-40960]) and None,
        "a trigger that takes receipts back": _trigger(
            "INSERT ON receipts", "DELETE FROM receipts WHERE seq = NEW.seq"
        ),
        "a trigger that approves": _trigger(
            "INSERT ON proposed_actions", "UPDATE proposed_actions SET status = 'APPROVED'"
        ),
        "a trigger on another table": _trigger("UPDATE ON meta", "DELETE FROM audit_log WHERE seq = 1"),
        "a trigger of ours changed": lambda books: (
            books.sql(
                "DROP TRIGGER messages_removed",
                "CREATE TRIGGER messages_removed AFTER DELETE ON messages BEGIN DELETE FROM audit_log; END",
            )
            and None
        ),
        "a view in the place of the receipts": lambda books: (
            books.sql("ALTER TABLE receipts RENAME TO hidden", "CREATE VIEW receipts AS SELECT * FROM hidden") and None
        ),
        "the receipts table dropped": lambda books: books.sql("DROP TABLE receipts") and None,
        "the audit table dropped": lambda books: books.sql("DROP TABLE audit_log") and None,
        "the actions table dropped": lambda books: books.sql("DROP TABLE proposed_actions") and None,
        "the heads table dropped": lambda books: books.sql("DROP TABLE ledger_heads") and None,
        "a column dropped": lambda books: books.sql("ALTER TABLE audit_log DROP COLUMN state") and None,
        "the columns of links dropped": lambda books: books.sql("ALTER TABLE audit_log DROP COLUMN link") and None,
    }


def damages() -> dict[str, Callable[[Books], None]]:
    """What a disk does to the keys folder."""

    def write(name: str, data: bytes | None) -> Callable[[Books], None]:
        def change(books: Books) -> None:
            file = books.root / "keys" / name
            file.unlink() if data is None else file.write_bytes(data)

        return change

    files = ("ledger.key", "ledger.pub", "ledger.mark", "ledger.count")
    garbage = {
        "gone": None,
        "empty": b"",
        "zeros": bytes(64),
        "garbage": b"\xff\xfe\x80\x81",
        "another": b"0" * 64 + b"\n",
    }
    return {f"{name} {how}": write(name, data) for name in files for how, data in garbage.items()}


def misplaced() -> dict[str, Callable[[Books], None]]:
    """Something else where a file should be: whoever reads it must not wait, nor read without end."""

    def put(name: str, make: Callable[[Path], object]) -> Callable[[Books], None]:
        def change(books: Books) -> None:
            file = books.root / name
            file.unlink()
            make(file)

        return change

    def endless(file: Path) -> None:
        file.touch()
        os.truncate(file, 1 << 36)

    keys = (f"keys/ledger.{name}" for name in ("key", "pub", "mark", "count"))
    files = ("tool_receipts.log", "tool_receipts.log.heads", "memory.sqlite", *keys)
    things: dict[str, Callable[[Path], object]] = {
        "a pipe": os.mkfifo,
        "a folder": Path.mkdir,
        "a device": lambda file: file.symlink_to("/dev/zero"),
        "64 GB of nothing": endless,
    }
    return {f"{name} is {what}": put(name, make) for name in files for what, make in things.items()}


class Tally(msgspec.Struct):
    """What became of the tamperings."""

    found: Counter[str] = msgspec.field(default_factory=Counter)
    missed: list[str] = []
    harmless: int = 0
    noted: int = 0
    """The last line break of the log or the heads: a torn line, as a crash leaves it, told in a note and repaired."""
    outside: int = 0
    """Flips that changed rows of tables the ledger does not cover."""
    raised: list[str] = []


HARMLESS = ("ledger.key gone",)
"""Without the private key all that is signed still holds; verify says in a note what it cannot tell, doctor fails."""


def tamper(books: Books, folder: Path) -> Tally:
    """Apply everything, each to a copy of its own."""
    tally = Tally()
    for name, change in {**dict(columns()), **named(), **damages(), **misplaced()}.items():
        copy = books.copy(folder / "copy")
        try:
            change(copy)
        except (sqlite3.Error, AssertionError) as error:
            tally.missed.append(f"{name}: could not be done ({error!r})")
        else:
            _judge(tally, name, copy)
        shutil.rmtree(folder / "copy")
    return tally


def _judge(tally: Tally, name: str, copy: Books) -> None:
    try:
        report = copy.verify()
    except Exception as error:
        tally.raised.append(f"{name}: {error!r}")
        return
    if report.broken is not None:
        tally.found[report.broken.kind] += 1
    elif name in HARMLESS and report.notes:
        tally.harmless += 1
    else:
        tally.missed.append(name)


def flip(books: Books, folder: Path, count: int, seed: int) -> Tally:
    """Flip one bit at a time, anywhere in any file; what is not found must have changed nothing."""
    chance, tally = random.Random(seed), Tally()
    files = books.files()
    before, whole = books.content(), {file: file.read_bytes() for file in files}
    copy = books.copy(folder / "copy")
    for number in range(count):
        file = files[number % len(files)] if number % 2 else books.database
        place, bit = chance.randrange(len(whole[file])), 1 << chance.randrange(8)
        data = bytearray(whole[file])
        data[place] ^= bit
        target = copy.root / file.relative_to(books.root)
        target.write_bytes(data)
        name = f"{file.name} at {place}, bit {bit}"
        try:
            report = copy.verify()
        except Exception as error:
            tally.raised.append(f"{name}: {error!r}")
        else:
            if report.broken is not None:
                tally.found[report.broken.kind] += 1
            elif file == books.database:
                _compare(tally, name, before, copy)
            elif place == len(whole[file]) - 1 and any("torn" in note for note in report.notes):
                tally.noted += 1
            else:
                tally.missed.append(f"{name}: {report.notes}")
        for left in copy.root.glob("memory.sqlite-*"):
            left.unlink()
        target.write_bytes(whole[file])
    shutil.rmtree(folder / "copy")
    return tally


def _compare(tally: Tally, name: str, before: dict[str, object], copy: Books) -> None:
    try:
        after = copy.content()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        after = {"error": str(error)}
    differs = [table for table in (*before, *after) if before.get(table) != after.get(table)]
    if not differs:
        tally.harmless += 1
    elif any(table in COVERED for table in differs):
        tally.missed.append(f"{name}: {differs}")
    else:
        tally.outside += 1
