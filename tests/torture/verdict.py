"""The comparison: what was asked for, what the receiver counted, and what the database, receipts and audit say."""

import json
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path

import msgspec

from coilclaw.gate.outcomes import STATUS_OF
from coilclaw.ledger.heads import SigningKey
from coilclaw.ledger.verify import verify_all
from coilclaw.sandbox.fake_receiver import Receiver
from tests.torture.life import SENDING, Place


class Verdict(msgspec.Struct, kw_only=True):
    """What was found; everything but `actions`, `effects` and `unknown` ought to be nothing."""

    actions: int = 0
    effects: int = 0
    unknown: int = 0
    lost: list[str] = []
    duplicated: list[str] = []
    unapproved: list[str] = []
    disagreeing: list[str] = []
    later: float = 0.0

    @property
    def sound(self) -> bool:
        return not (self.lost or self.duplicated or self.unapproved or self.disagreeing)


def compare(place: Place, received: Path, *, over: bool = False) -> Verdict:
    """Hold everything against everything. `over`: a day has gone by, so nothing waits any more."""
    keys = Counter(Receiver(received, deduplicates=False, lookup=False).keys())
    told = _told(place.journal)
    db = sqlite3.connect(f"file:{place.config.memory.path}?mode=ro", uri=True)
    try:
        found = Verdict(effects=sum(keys.values()))
        rows = {
            key: (action_id, status)
            for key, action_id, status in db.execute("SELECT idempotency_key, action_id, status FROM proposed_actions")
        }
        found.actions = len(rows)
        for key in keys.keys() - told.keys():
            found.unapproved.append(f"{key}: an effect nobody proposed")
        for key, words in told.items():
            _one(found, place, key, words, keys[key], rows.get(key, ("", "none"))[1])
        _stored(found, db, rows, over=over)
        _proof(found, place, db)
    finally:
        db.close()
    return found


def _told(journal: Path) -> dict[str, dict[str, str]]:
    told: dict[str, dict[str, str]] = defaultdict(dict)
    for line in journal.read_text().splitlines() if journal.exists() else ():
        word, key, *rest = line.split(" ")
        told[key][word] = rest[0] if rest else ""
    return told


def _one(found: Verdict, place: Place, key: str, words: dict[str, str], effects: int, status: str) -> None:
    """One action: what its owner was told, how often the receiver had it, and how it stands."""
    kind = words["proposing"]
    name = f"{key} ({kind}, {status}, {effects} effects, told {' '.join(words)})"
    if ("stored" in words or "approved" in words) and status == "none":
        found.lost.append(f"{name}: it was stored, and is gone")
    if "rejected" in words and status != "REJECTED":
        found.disagreeing.append(f"{name}: it was refused")
    if kind == "write":
        path = place.config.workspace_dir / "intel" / f"{key}.md"
        if path.exists() != (status == "EXECUTED"):
            found.disagreeing.append(f"{name}: its file")
    if kind == "deny" and status not in ("REJECTED", "FAILED", "none"):
        found.unapproved.append(f"{name}: it was to be denied")
    if kind not in SENDING:
        return
    if effects > 1:
        found.duplicated.append(name)
    if effects and "approving" not in words:
        found.unapproved.append(name)
    if status == "UNKNOWN":
        found.unknown += 1
        if place.variant != "neither":
            found.disagreeing.append(f"{name}: its end could have been known")
    elif (status == "EXECUTED") != (effects > 0):
        found.disagreeing.append(f"{name}: row and receiver")
    if "approved" in words and not effects and status != "UNKNOWN":
        found.lost.append(name)


def _stored(found: Verdict, db: sqlite3.Connection, rows: dict[str, tuple[str, str]], *, over: bool) -> None:
    """Rows against receipts and audit."""
    receipts: dict[str, list[str]] = defaultdict(list)
    for action_id, line in db.execute("SELECT action_id, line FROM receipts ORDER BY seq"):
        receipts[action_id].append(json.loads(line)["status"])
    events: dict[str, list[str]] = defaultdict(list)
    for entity, event in db.execute("SELECT entity_id, event_type FROM audit_log ORDER BY seq"):
        events[entity].append(event)
    held = {row[0] for row in db.execute("SELECT action_id FROM proposed_actions WHERE worker IS NOT NULL")}
    lanes = dict(db.execute("SELECT action_id, lane FROM proposed_actions"))
    for key, (action_id, status) in rows.items():
        had, story = receipts[action_id], events[action_id]
        if status == "APPROVED" or action_id in held or (over and status == "PENDING"):
            found.disagreeing.append(f"{key} ({status}): not at rest")
        if status == "PENDING":
            sound = not had
        else:
            sound = bool(had) and STATUS_OF[had[-1]] == status and had.count("allowed") == (status == "EXECUTED")
        if not sound:
            found.disagreeing.append(f"{key} ({status}): receipts {had}")
        ends = sum(event in ("tool_completed", "tool_denied", "tool_failed", "tool_unknown") for event in story)
        if story[:1] != ["tool_requested"] or ends != len(had):
            found.disagreeing.append(f"{key} ({status}): audit {story}")
        if (
            lanes[action_id] == "B"
            and "tool_begun" in story
            and "tool_approved" not in story[: story.index("tool_begun")]
        ):
            found.unapproved.append(f"{key} ({status}): begun without a yes, {story}")


def _proof(found: Verdict, place: Place, db: sqlite3.Connection) -> None:
    """The chain, its copy, and the database itself."""
    log = place.config.receipts.path
    report = verify_all(db, log, SigningKey(place.home.keys_dir))
    if not report.valid:
        found.disagreeing.append(f"the chain: {report.broken}")
    copied = "".join(f"{row[0]}\n" for row in db.execute("SELECT line FROM receipts ORDER BY seq"))
    if log.read_text() != copied:
        found.disagreeing.append("the log is not the rows")
    (said,) = db.execute("PRAGMA integrity_check").fetchone()
    if said != "ok":
        found.disagreeing.append(f"the database: {said}")
