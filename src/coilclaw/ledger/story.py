"""The story of an action, from stored data only: who asked, what was decided, who approved it, its outcome,
and whether the row still agrees with its receipts."""

from typing import Any, cast

import msgspec

from coilclaw.ledger.audit import AuditEvent, Wanted, events_after
from coilclaw.ledger.signed import Signed, word_on
from coilclaw.ledger.verify import hash_of_line
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.errors import LedgerBroken
from coilclaw.packets.receipt import GENESIS, Receipt
from coilclaw.packets.skill import NONE, USED
from coilclaw.store.tx import Tx

MOST_EVENTS = 10_000
MOST_RECEIPTS = 1000
STATUS_OF = {"allowed": "EXECUTED", "denied": "REJECTED", "failed": "FAILED", "unknown": "UNKNOWN"}
_ENDS = frozenset({"tool_completed", "tool_denied", "tool_failed", "tool_unknown"})
_RECEIPT = msgspec.json.Decoder(Receipt)


class FirstMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's message that started it."""

    message_id: str
    content: str
    created_at: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked for it, and where."""

    source: str
    source_id: str
    thread_id: str
    turn_id: str
    channel: str | None
    job_id: str | None
    job_goal: str | None
    message: FirstMessage | None
    """None if the turn had none, or it is no longer stored."""
    justification: str
    created_at: str


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it needed an approval, and the outcome."""

    needed: bool
    approved_by: str | None
    approved_at: str | None
    rejection_reason: str | None
    expires_at: str
    shown: str | None = None
    """The kind of proof: passkey, token, terminal or none."""
    proof: Signed | None = None
    """The passkey signature, verified again."""
    signatures: tuple[Signed, ...] = ()
    """Every signature about this action: to approve it, and to resolve it."""


class Attempt(msgspec.Struct, kw_only=True):
    """One attempt at the effect."""

    number: int
    begun_at: str
    worker: str | None
    looked_up: bool
    """It first looked up whether an earlier attempt had its effect."""
    ended_at: str | None = None
    end: str | None = None
    """The event it ended with; None if no outcome is recorded."""
    code: str | None = None
    receipt_id: str | None = None
    next_in_seconds: float | None = None
    """The delay until the next attempt."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Its result, and the box it ran in."""

    success: bool
    code: str
    output_hash: str
    first_lines: str
    label: str
    exit: int | None
    box_tier: str | None
    box_end: str | None
    metadata: dict[str, Json]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt, its position in the chain, and what is wrong with it."""

    place: int
    receipt: Receipt
    disagreements: tuple[str, ...]


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Everything recorded about one action."""

    action_id: str
    tool: str
    identity: str | None
    args: Json
    args_hash: str
    status: str
    attempt: int
    next_attempt_at: str | None
    uncertain: bool
    asked: Asked
    taint: Json
    decision: dict[str, Json]
    approval: Approval
    digest: str
    idempotency_key: str
    attempts: tuple[Attempt, ...]
    events: tuple[AuditEvent, ...]
    skills: tuple[AuditEvent, ...]
    """Which skills its turn worked under, why, and what each left; or that none matched."""
    result: Result | None
    receipts: tuple[Proof, ...]
    agrees: bool
    """Whether the row, its receipts and their positions in the chain agree."""
    disagreements: tuple[str, ...]
    notes: tuple[str, ...]
    updated_at: str


_ROW = """
SELECT action_id, tool, identity, args_json, args_hash, status, attempt, next_attempt_at, uncertain, source, source_id,
    thread_id, turn_id, job_id, justification, created_at, taint_json, decision_json, approved_by, approved_at,
    rejection_reason, expires_at, digest, idempotency_key, result_json, updated_at, lane
FROM proposed_actions WHERE action_id = ?
"""


def story_of(db: Tx, action_id: str) -> Story | None:
    """The whole story of an action; None if there is no such action."""
    cursor = db.execute(_ROW, (action_id,))
    found = cursor.fetchone()
    if found is None:
        return None
    row: dict[str, Any] = dict(zip((column[0] for column in cursor.description), found, strict=True))
    events = tuple(events_after(db, Wanted(entity_id=action_id), 0, MOST_EVENTS))
    result = _result(row["result_json"])
    proofs = _proofs(db, row)
    decision = _object(row["decision_json"])
    word = word_on(db, row, {str(row["lane"]), str(decision.get("lane", row["lane"]))}, events)
    wrong = (*_disagreements(row, result, proofs, events), *word.disagreements)
    return Story(
        action_id=action_id,
        tool=row["tool"],
        identity=row["identity"],
        args=_decoded(row["args_json"]),
        args_hash=row["args_hash"],
        status=row["status"],
        attempt=row["attempt"],
        next_attempt_at=row["next_attempt_at"],
        uncertain=bool(row["uncertain"]),
        asked=_asked(db, row),
        taint=_decoded(row["taint_json"]),
        decision=decision,
        approval=Approval(
            needed=bool(row["approved_by"])
            or any(event.event_type == "approval_needed" for event in events)
            or decision.get("verdict") == "ask",
            approved_by=row["approved_by"] or _approver(events),
            approved_at=row["approved_at"] or _time_of(events, "tool_approved"),
            rejection_reason=row["rejection_reason"],
            expires_at=row["expires_at"],
            shown=word.proof,
            proof=word.signed,
            signatures=word.signatures,
        ),
        digest=row["digest"],
        idempotency_key=row["idempotency_key"],
        attempts=tuple(attempts_in(events)),
        events=events,
        skills=_skills(db, row["turn_id"]),
        result=result,
        receipts=proofs,
        agrees=not wrong and not any(proof.disagreements for proof in proofs),
        disagreements=wrong,
        notes=(*_notes(row, events, proofs), *word.notes),
        updated_at=row["updated_at"],
    )


def _skills(db: Tx, turn_id: str) -> tuple[AuditEvent, ...]:
    return tuple(
        event for kind in (USED, NONE) for event in events_after(db, Wanted(event_type=kind, entity_id=turn_id), 0, 100)
    )


def _decoded(text: str) -> Json:
    """Stored JSON; other text is shown as it is."""
    try:
        return cast("Json", msgspec.json.decode(text))
    except msgspec.DecodeError:
        return text


def _object(text: str) -> dict[str, Json]:
    value = _decoded(text)
    return value if isinstance(value, dict) else {"unreadable": text}


def _asked(db: Tx, row: dict[str, Any]) -> Asked:
    said = db.execute(
        "SELECT message_id, content, created_at FROM messages"
        " WHERE thread_id = ? AND turn_id = ? AND role = 'user' ORDER BY seq LIMIT 1",
        (row["thread_id"], row["turn_id"]),
    ).fetchone()
    channel = db.execute("SELECT channel FROM threads WHERE thread_id = ?", (row["thread_id"],)).fetchone()
    goal = db.execute("SELECT goal FROM jobs WHERE job_id = ?", (row["job_id"],)).fetchone()
    return Asked(
        source=row["source"],
        source_id=row["source_id"],
        thread_id=row["thread_id"],
        turn_id=row["turn_id"],
        channel=None if channel is None else channel[0],
        job_id=row["job_id"],
        job_goal=None if goal is None else goal[0],
        message=None if said is None else FirstMessage(message_id=said[0], content=said[1], created_at=said[2]),
        justification=row["justification"] or "",
        created_at=row["created_at"],
    )


def _payload(event: AuditEvent) -> dict[str, Any]:
    return cast("dict[str, Any]", event.payload) if isinstance(event.payload, dict) else {}


def _time_of(events: tuple[AuditEvent, ...], event_type: str) -> str | None:
    return next((event.created_at for event in events if event.event_type == event_type), None)


def _approver(events: tuple[AuditEvent, ...]) -> str | None:
    by = (_payload(event).get("by") for event in events if event.event_type == "tool_approved")
    return next((str(name) for name in by if name), None)


def attempts_in(events: tuple[AuditEvent, ...]) -> list[Attempt]:
    """Every attempt in the events, in order: each starts with tool_begun and ends with the next outcome."""
    attempts: list[Attempt] = []
    for event in events:
        told = _payload(event)
        if event.event_type == "tool_begun":
            number = told.get("attempt")
            attempts.append(
                Attempt(
                    number=number if isinstance(number, int) else len(attempts) + 1,
                    begun_at=event.created_at,
                    worker=told.get("worker"),
                    looked_up=bool(told.get("lookup")),
                )
            )
        elif attempts and attempts[-1].end is None:
            if event.event_type == "tool_retry":
                attempts[-1].next_in_seconds = told.get("in_seconds")
            elif event.event_type in _ENDS:
                attempts[-1].ended_at, attempts[-1].end = event.created_at, event.event_type
                attempts[-1].code, attempts[-1].receipt_id = told.get("code"), told.get("receipt_id")
    return attempts


def _result(text: str | None) -> Result | None:
    if text is None:
        return None
    told = cast("dict[str, Any]", _object(text))
    output = str(told.get("output", ""))
    metadata = told.get("metadata")
    kept = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
    return Result(
        success=bool(told.get("success")),
        code=str(told.get("code", "")),
        output_hash=sha256_hex(output.encode("utf-8", "surrogatepass")),
        first_lines="\n".join(output[:4000].splitlines()[:10]),
        label=str(told.get("label", "")),
        exit=told.get("exit"),
        box_tier=kept.get("tier"),
        box_end=kept.get("end"),
        metadata=kept,
    )


def _proofs(db: Tx, row: dict[str, Any]) -> tuple[Proof, ...]:
    rows = db.execute(
        "SELECT seq, receipt_hash, line FROM receipts WHERE action_id = ? ORDER BY seq LIMIT ?",
        (row["action_id"], MOST_RECEIPTS),
    ).fetchall()
    return tuple(_proof(db, row, seq, stored, line) for seq, stored, line in rows)


def _proof(db: Tx, row: dict[str, Any], seq: int, stored: str, line: str) -> Proof:
    try:
        receipt = _RECEIPT.decode(line)
    except msgspec.DecodeError as error:
        raise LedgerBroken(f"receipt {seq} is damaged.", remedy="Run `coilclaw receipt verify`.") from error
    before = db.execute("SELECT receipt_hash FROM receipts WHERE seq = ?", (seq - 1,)).fetchone()
    previous = GENESIS if seq == 1 else (before[0] if before is not None else None)
    checks = (
        (hash_of_line(line.encode()) == receipt.receipt_hash == stored, "the receipt does not match its own hash"),
        (receipt.previous_hash == previous, "the receipt does not follow its predecessor in the chain"),
        (receipt.action_id == row["action_id"], "the receipt names a different action"),
        (receipt.tool == row["tool"], "the row names a different tool than the receipt"),
        (receipt.args_hash == row["args_hash"], "the row's argument hash is not the receipt's"),
        (receipt.conversation_id == row["thread_id"], "the row names a different conversation than the receipt"),
    )
    return Proof(place=seq, receipt=receipt, disagreements=tuple(text for holds, text in checks if not holds))


def _disagreements(
    row: dict[str, Any], result: Result | None, proofs: tuple[Proof, ...], events: tuple[AuditEvent, ...]
) -> tuple[str, ...]:
    """Contradictions within the row, or between it and its last receipt."""
    wrong: list[str] = []
    if sha256_hex(row["args_json"].encode("utf-8", "surrogatepass")) != row["args_hash"]:
        wrong.append("the stored arguments do not match their hash")
    if not proofs:
        if row["status"] in STATUS_OF.values():
            wrong.append(f"it is {row['status']}, and there is no receipt")
        return tuple(wrong)
    last = proofs[-1].receipt
    if last.digest != row["digest"]:
        wrong.append("the row's digest is not the last receipt's")
    if result is not None and result.output_hash != last.result_hash:
        wrong.append("the stored result is not the one the last receipt was written for")
    resolved = any(event.event_type == "tool_resolved" for event in events)
    if row["status"] in STATUS_OF.values() and STATUS_OF[last.status] != row["status"] and not resolved:
        wrong.append(f"it is {row['status']}, and its last receipt says {last.status}")
    return tuple(wrong)


def _notes(row: dict[str, Any], events: tuple[AuditEvent, ...], proofs: tuple[Proof, ...]) -> tuple[str, ...]:
    notes: list[str] = []
    if not any(event.event_type == "tool_requested" for event in events):
        year, month, day = row["created_at"][:10].split("-") if row["created_at"] else ("YYYY", "MM", "DD")
        notes.append(
            "its first audit events are no longer in the database;"
            f" pruned events are in the workspace, from audit/{year}/{month}/{day}.jsonl on"
        )
    if len(events) == MOST_EVENTS or len(proofs) == MOST_RECEIPTS:
        notes.append("there is more than is shown here")
    return tuple(notes)
