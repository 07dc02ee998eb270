"""The timeline of a conversation: its messages page by page, each call with how it stands."""

from collections.abc import Iterable, Sequence

import msgspec

from coilclaw.packets.action import Status, ToolResult
from coilclaw.packets.decision import Decision, Lane, Risk, Verdict
from coilclaw.packets.settings import SettingChange
from coilclaw.store.threads import MESSAGE_COLUMNS, MessageRow, message_of
from coilclaw.store.tx import Tx

_DECISION = msgspec.json.Decoder(Decision)
_RESULT = msgspec.json.Decoder(ToolResult)
WAITED = "APPROVAL_NEEDED"
"""The code of a result that only says that its call waits for the owner."""


class Numbered(msgspec.Struct, frozen=True, kw_only=True):
    """A message and its number, which only grows within a conversation."""

    number: int
    message: MessageRow


def messages_page(
    db: Tx, thread_id: str, limit: int, *, before: int | None = None, after: int | None = None
) -> list[Numbered]:
    """Messages in their order: the last ones, the last ones before a number, or the first ones after one."""
    backward = after is None
    rows = db.execute(
        f"SELECT {MESSAGE_COLUMNS}, seq FROM messages WHERE thread_id = ? AND seq < ? AND seq > ?"  # noqa: S608
        f" ORDER BY seq {'DESC' if backward else 'ASC'} LIMIT ?",
        (thread_id, 1 << 62 if before is None else before, -1 if after is None else after, limit),
    ).fetchall()
    numbered = [Numbered(number=int(row[-1]), message=message_of(row[:-1])) for row in rows]
    return list(reversed(numbered)) if backward else numbered


def message_by_id(db: Tx, thread_id: str, message_id: str) -> MessageRow | None:
    """One message of a conversation."""
    row = db.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE message_id = ? AND thread_id = ?",  # noqa: S608
        (message_id, thread_id),
    ).fetchone()
    return None if row is None else message_of(row)


class CallStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed call as it stands: what the gate said, and what became of it."""

    action_id: str
    turn_id: str
    call_id: str
    status: Status
    verdict: Verdict
    code: str
    reasons: tuple[str, ...]
    allows: tuple[SettingChange, ...]
    lane: Lane
    risk: Risk
    receipt_id: str | None
    """The receipt of its last attempt."""


_STANDING = """
SELECT a.action_id, a.turn_id, a.call_id, a.status, a.decision_json,
    (SELECT r.receipt_id FROM receipts r WHERE r.action_id = a.action_id ORDER BY r.seq DESC LIMIT 1),
    CASE WHEN json_valid(a.result_json) THEN json_extract(a.result_json, '$.metadata.lendable') END
FROM proposed_actions a
"""


def calls_standing(db: Tx, turns: Iterable[str]) -> list[CallStanding]:
    """Every call of these turns in the order they were proposed; one that cannot be read is left out."""
    rows = db.execute(
        f"{_STANDING} WHERE a.turn_id IN (SELECT value FROM json_each(?)) ORDER BY a.rowid",  # noqa: S608
        (msgspec.json.encode(sorted(set(turns) - {""})).decode(),),
    ).fetchall()
    return [standing for row in rows if (standing := _standing(row)) is not None]


def _standing(row: Sequence[str]) -> CallStanding | None:
    try:
        decision = _DECISION.decode(row[4])
        status = msgspec.convert(row[3], Status)
    except (msgspec.DecodeError, TypeError):
        return None
    return CallStanding(
        action_id=row[0],
        turn_id=row[1],
        call_id=row[2],
        status=status,
        verdict=decision.verdict,
        code=decision.code,
        reasons=decision.reasons,
        allows=decision.allows or _lending(row[6]),
        lane=decision.lane,
        risk=decision.risk,
        receipt_id=row[5],
    )


def _lending(folder: object) -> tuple[SettingChange, ...]:
    """What the owner could lend so that a command finds the program that it missed."""
    from coilclaw.sandbox.missing_programs import KEY

    return (SettingChange(key=KEY, op="add", value=folder),) if isinstance(folder, str) else ()


def actions_proposed(message: MessageRow, standing: Sequence[CallStanding]) -> list[CallStanding | None]:
    """For each call of an answer how it stands; None where that is not on record.

    Answers name their actions. Those of before that was so are matched by the call's id, which is unique in its answer.
    """
    try:
        named = msgspec.convert(message.metadata.get("actions", []), list[str])
    except msgspec.ValidationError:
        named = []
    if len(named) == len(message.tool_calls):
        by_id = {each.action_id: each for each in standing}
        return [by_id.get(action_id) for action_id in named]
    by_call = {each.call_id: each for each in standing if each.turn_id == message.turn_id}
    return [by_call.get(call.call_id) for call in message.tool_calls]


def with_outcomes(db: Tx, rows: Sequence[MessageRow]) -> list[MessageRow]:
    """The same messages, but a result that said its call waits says what came of it, once that is known."""
    waited = [row.action_id for row in rows if row.role == "tool" and row.metadata.get("code") == WAITED]
    if not waited:
        return list(rows)
    ended = db.execute(
        "SELECT action_id, result_json FROM proposed_actions WHERE status NOT IN ('PENDING', 'APPROVED')"
        " AND action_id IN (SELECT value FROM json_each(?)) AND result_json IS NOT NULL",
        (msgspec.json.encode(waited).decode(),),
    ).fetchall()
    results = {action_id: result for action_id, text in ended if (result := _result(text)) is not None}
    return [_with_outcome(row, results[row.action_id]) if row.action_id in results else row for row in rows]


def _result(text: str) -> ToolResult | None:
    try:
        return _RESULT.decode(text)
    except msgspec.DecodeError:
        return None


def _with_outcome(row: MessageRow, result: ToolResult) -> MessageRow:
    if row.role != "tool" or row.metadata.get("code") != WAITED:
        return row
    about = {"code": result.code, "success": result.success, "receipt_id": result.receipt_id}
    return msgspec.structs.replace(
        row, content=result.output, label=result.label, metadata={**row.metadata, **about, "waited": True}
    )


def summarised(row: MessageRow) -> int:
    """How many earlier messages a summary stands for; 0 for every other message."""
    summary = row.metadata.get("summary")
    count = summary.get("count") if isinstance(summary, dict) and row.metadata.get("code") == "SUMMARY" else 0
    return count if isinstance(count, int) else 0


def artifact_sizes(db: Tx, artifact_ids: Iterable[str]) -> dict[str, int]:
    """How large these artifacts are; those that are gone are left out."""
    rows = db.execute(
        "SELECT artifact_id, length(blob) FROM artifacts WHERE artifact_id IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(sorted(artifact_ids)).decode(),),
    ).fetchall()
    return {row[0]: int(row[1]) for row in rows}
