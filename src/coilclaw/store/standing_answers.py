"""Standing answers: rows that only the owner's answer to a card creates."""

import msgspec

from coilclaw.packets.canonical import canonical_bytes
from coilclaw.packets.card import What
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx

_COLUMNS = (
    "answer_id, what, scope, match, digest, root, thread_id, action_id, expires_at, created_at, created_by, proof,"
    " revoked_at, revoked_by, uses, last_used_at, mac"
)
_OPEN = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
CONSIDERED = 200
"""How many active answers of a root are compared with a call, newest first; older ones are ignored."""


class StandingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An approval that is valid from now on."""

    answer_id: str
    what: What
    scope: str
    match: str
    digest: str
    root: str
    thread_id: str | None
    action_id: str
    expires_at: str | None
    created_at: str
    created_by: str
    proof: str
    revoked_at: str | None = None
    revoked_by: str | None = None
    uses: int = 0
    last_used_at: str | None = None
    mac: bytes | None = None
    """Proves that this home wrote the row as it is."""

    @property
    def stated(self) -> bytes:
        """What the MAC covers: everything else."""
        return canonical_bytes(msgspec.to_builtins(msgspec.structs.replace(self, mac=None)))

    def is_open(self, now: str) -> bool:
        """Whether it is active at that time."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


def add_answer(tx: Tx, answer: StandingAnswer) -> None:
    """Store a new answer."""
    marks = ", ".join("?" * 17)
    tx.execute(f"INSERT INTO standing_answers ({_COLUMNS}) VALUES ({marks})", msgspec.structs.astuple(answer))  # noqa: S608


def change_answer(tx: Tx, answer: StandingAnswer) -> None:
    """Update what can change: its uses, its end, its MAC."""
    tx.execute(
        "UPDATE standing_answers SET revoked_at = ?, revoked_by = ?, uses = ?, last_used_at = ?, mac = ?"
        " WHERE answer_id = ?",
        (answer.revoked_at, answer.revoked_by, answer.uses, answer.last_used_at, answer.mac, answer.answer_id),
    )


def load_answer(db: Tx, answer_id: str) -> StandingAnswer | None:
    """One answer; None if there is none, or it is unreadable."""
    row = db.execute(f"SELECT {_COLUMNS} FROM standing_answers WHERE answer_id = ?", (answer_id,)).fetchone()  # noqa: S608
    return next(iter(_readable([row])), None) if row is not None else None


def open_answers(db: Tx, clock: Clock, root: str, thread_id: str) -> tuple[StandingAnswer, ...]:
    """The active answers of a root and a conversation, newest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM standing_answers WHERE root = ? AND {_OPEN}"  # noqa: S608
        " AND (thread_id IS NULL OR thread_id = ?) ORDER BY created_at DESC, answer_id DESC LIMIT ?",
        (root, stamp(clock()), thread_id, CONSIDERED),
    ).fetchall()
    return tuple(_readable(rows))


def list_answers(db: Tx, clock: Clock, *, ended: bool) -> list[StandingAnswer]:
    """Active answers, newest first; with `ended` also revoked and expired ones."""
    where = "" if ended else f" WHERE {_OPEN}"
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM standing_answers{where} ORDER BY created_at DESC, answer_id DESC LIMIT 1000",  # noqa: S608
        () if ended else (stamp(clock()),),
    ).fetchall()
    return _readable(rows)


def _readable(rows: list[tuple[object, ...]]) -> list[StandingAnswer]:
    """The answers of these rows, without unreadable ones."""
    found: list[StandingAnswer] = []
    for row in rows:
        try:
            names = StandingAnswer.__struct_fields__
            found.append(msgspec.convert(dict(zip(names, row, strict=True)), StandingAnswer))
        except (msgspec.ValidationError, ValueError):
            continue
    return found
