"""Verification of receipts, beside hashing and parsing the same stored bytes and nothing else."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.rounds import timed, timings
from bench.row import Plan, Row, beside
from coilclaw.ledger.cover import hash_of_heads
from coilclaw.ledger.heads import SigningKey
from coilclaw.ledger.ledger import heads_file
from coilclaw.ledger.log import set_exported_size
from coilclaw.ledger.verify import verify_ledger
from coilclaw.ledger.vouch import mac_of
from coilclaw.packets.errors import LedgerBroken
from coilclaw.packets.receipt import GENESIS, Covered, Receipt, sealed
from coilclaw.store.database import Database

HEAD_EVERY = 64
TIME = "2026-03-01T12:00:00.000Z"


class Built:
    """A sound ledger of a given length, made in bulk."""

    def __init__(self, folder: Path, size: int) -> None:
        self.db = Database(folder / "memory.sqlite", folder / "locks")
        self.log = folder / "tool_receipts.log"
        self.key = SigningKey(folder / "keys")
        self.key.create()
        lines, heads = _chain(size, self.key)
        self.log.write_bytes("".join(f"{line[3]}\n" for line in lines).encode())
        heads_file(self.log).write_bytes(b"".join(line + b"\n" for _, line in heads))
        write = self.db.reader
        write.execute("BEGIN")
        key = self.key.row_key()
        rows = (
            (seq, name, action, digest, line, mac_of(key, b"receipt", digest.encode()))
            for seq, (name, action, digest, line) in enumerate(lines, 1)
        )
        write.executemany(
            "INSERT INTO receipts (seq, receipt_id, action_id, receipt_hash, line, mac) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        write.executemany(
            "INSERT INTO ledger_heads (size, line) VALUES (?, ?)", ((size, line.decode()) for size, line in heads)
        )
        set_exported_size(write, size)
        write.execute("COMMIT")


def _fields(number: int, previous: str) -> dict[str, str]:
    """A receipt's fields, in the order that canonical JSON has them."""
    spread = f"{number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF:016x}"
    return {
        "action_id": f"act_01kx3v9t2{number:010d}",
        "args_hash": spread * 4,
        "code": "ALLOWED",
        "conversation_id": f"conv_01kx3v9t2{number // 50:010d}",
        "digest": spread[::-1] * 4,
        "id": f"receipt-{number:08d}-{spread[:8]}",
        "policy_hash": "5f" * 32,
        "previous_hash": previous,
        "result_hash": spread[4:] + spread * 3 + spread[:4],
        "risk": "low",
        "risk_level": "R0",
        "status": "allowed",
        "timestamp": TIME,
        "tool": "file_read",
    }


def _chain(size: int, key: SigningKey) -> tuple[list[tuple[str, str, str, str]], list[tuple[int, bytes]]]:
    """(id, action, hash, line) of every receipt, and the signed heads.

    The fields hold nothing that JSON escapes and stand in canonical order, so plain formatting gives canonical bytes;
    the first of them are held against the real thing.
    """
    lines: list[tuple[str, str, str, str]] = []
    heads: list[tuple[int, bytes]] = []
    previous = GENESIS
    for number in range(1, size + 1):
        fields = _fields(number, previous)
        before, after = _spelled(fields, "action_id", "previous_hash"), _spelled(fields, "result_hash", "tool")
        previous = hashlib.sha256(f"{{{before},{after}}}".encode()).hexdigest()
        line = f'{{{before},"receipt_hash":"{previous}",{after}}}'
        if number <= 10:
            assert sealed(fields).line().decode() == line
        lines.append((fields["id"], fields["action_id"], previous, line))
        if number % HEAD_EVERY == 0 or number == size:
            before = hash_of_heads([line for _, line in heads[-1:]])
            cover = Covered(audit=0, audit_hash=GENESIS, log=0, heads=0, previous=before)
            heads.append((number, key.sign(number, previous, TIME, cover).line()))
    return lines, heads


def _spelled(fields: dict[str, str], first: str, last: str) -> str:
    names = list(fields)
    return ",".join(f'"{name}":"{fields[name]}"' for name in names[names.index(first) : names.index(last) + 1])


def measure(plan: Plan) -> Iterator[Row]:
    """Verify the whole ledger, and do the least that could be done."""
    size = plan.size(200_000, 5_000)
    built = Built(plan.folder, size)
    parse = msgspec.json.Decoder(Receipt).decode

    def verified() -> None:
        report = verify_ledger(built.db.reader, built.log, built.key)
        if not report.valid or report.receipts != size:
            raise LedgerBroken(f"the ledger made for the measurement does not hold: {report.broken}")

    def bare() -> None:
        with built.log.open("rb") as file:
            for line in file:
                hashlib.sha256(line).hexdigest()
                parse(line)

    def both() -> None:
        bare()
        for _ in built.db.reader.execute("SELECT line FROM receipts ORDER BY seq"):
            pass

    cases = {"bare": timed(bare), "both": timed(both), "verify": timed(verified)}
    found = {name: timing.scaled(1e3) for name, timing in timings(cases, min(plan.rounds, 9)).items()}
    built.db.close()
    what, rate = f"{size:,} receipts verified (log, rows, heads)", f"{size / found['verify'].median:.0f}k receipts/s"
    floor, wide = "sha256 over the log's bytes + parsing them", "the same + reading the rows"
    yield beside("ledger", what, "ms", found["verify"], floor, found["bare"], at_most=1.3, note=rate)
    yield beside("ledger", "the same, beside reading both copies", "ms", found["verify"], wide, found["both"])
