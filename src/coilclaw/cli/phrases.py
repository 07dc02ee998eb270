"""Words for people: one for each way things end. Policy denies, the owner rejects, what ran is done."""

from typing import TYPE_CHECKING

from coilclaw.cli.output import counted
from coilclaw.packets.job import JobState
from coilclaw.store.refusals import refusal_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coilclaw.packets.action import Action, ToolResult
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime import Runtime
    from coilclaw.store.tx import Tx

_RECEIPTS = {"allowed": "done", "denied": "denied", "failed": "failed", "unknown": "unknown end"}
_ACTIONS = {
    "PENDING": "waits for you",
    "APPROVED": "is approved, but not done yet",
    "EXECUTED": "is done",
    "FAILED": "failed",
    "UNKNOWN": "has an unknown outcome",
}
_STANDS = {
    "PENDING": "waits for you",
    "APPROVED": "approved",
    "EXECUTED": "done",
    "FAILED": "failed",
    "UNKNOWN": "unknown outcome",
}
_REFUSALS = {
    "rejected": "was rejected by you",
    "denied": "was denied by policy",
    "withdrawn": "was withdrawn",
    "expired": "has expired",
}
_TO_OWNER = {
    "OWNER_REFUSED": (
        ("The owner rejected it", "You rejected it"),
        ("The owner refused it", "You rejected it"),  # as older rows have it
    ),
}
JOBS: dict[JobState, str] = {
    "RECEIVED": "about to start",
    "PARSED": "about to start",
    "POLICY_CHECKED": "about to start",
    "PLANNED": "about to start",
    "EXECUTING": "under way",
    "MERGED": "under way",
    "DEPLOYED": "under way",
    "PR_OPENED": "waiting for you",
    "WAITING_APPROVAL": "waiting for you",
    "DONE": "done",
    "DENIED": "denied",
    "FAILED": "failed",
    "TIMED_OUT": "out of time",
    "CANCELLED": "cancelled",
    "PAUSED_BUDGET": "paused",
}
"""How a job stands, as the panel says it."""


_WORKER = {
    "worker_started": "working in the background",
    "worker_stopping": "stopping: running work has {within} to finish",
    "worker_stopped": "no longer working in the background",
    "worker_held": "ESTOP is engaged: work is paused",
    "worker_goes_on": "ESTOP is cleared: work continues",
}
_CHORES = {
    "recover": ("recovered after a crash", "action"),
    "expire": ("expired", "proposal"),
    "execute": ("carried out", "approved action"),
    "schedules": ("started, finished or skipped", "scheduled run"),
    "sops": ("resumed", "procedure"),
    "turns": ("resumed", "conversation"),
}


def worker_words(event: str, fields: "Mapping[str, Json]") -> str | None:
    """What a worker says of itself, in words; None where there are none for it."""
    if event != "worker_chore":
        words = _WORKER.get(event)
        seconds = fields.get("seconds")
        within = counted(seconds, "second") if isinstance(seconds, int) else "a moment"
        return None if words is None else words.format(name=fields.get("name", ""), within=within)
    if fields.get("chore") == "prune":
        return "deleted data past its retention"
    words, noun = _CHORES.get(str(fields.get("chore")), ("", ""))
    done = fields.get("done")
    return f"{counted(done, noun)} {words}" if words and isinstance(done, int) else None


def receipt_word(status: str, code: str = "") -> str:
    """What a receipt says in prose; with its code also who said no."""
    return refusal_of(code) if status == "denied" else _RECEIPTS.get(status, status)


def status_words(status: str, code: str) -> str:
    """How an action with this status and result stands, to go on after its name."""
    return _REFUSALS[refusal_of(code)] if status == "REJECTED" else _ACTIONS.get(status, status)


def action_word(action: "Action") -> str:
    """How an action stands, for a list."""
    if action.status != "REJECTED":
        return _STANDS[action.status]
    if action.decision.verdict == "deny":
        return "denied"
    return "expired" if action.rejection_reason == "expired" else "rejected"


def action_words(db: "Tx", action: "Action") -> str:
    """How an action stands, to go on after its id."""
    if action.status != "REJECTED":
        return _ACTIONS[action.status]
    from coilclaw.store.actions import result_of

    result = result_of(db, action.action_id)
    said_no = "denied" if action.decision.verdict == "deny" else "rejected"
    words = _REFUSALS[refusal_of(result.code) if result is not None else said_no]
    reason = action.rejection_reason or ""
    return words if not reason or reason.isupper() or reason == "expired" else f"{words} ({reason.rstrip('.')})"


def result_words(result: "ToolResult") -> str:
    """What came of a call, said to the owner, who is `the owner` only to the model."""
    return to_owner(result.output, result.code)


def to_owner(text: str, code: str | None) -> str:
    """The same of a stored text."""
    for said, instead in _TO_OWNER.get(code or "", ()):
        text = text.replace(said, instead, 1)
    return text


def waits_for(app: "Runtime", action: "Action") -> str:
    """What an action waits for, and how an owner at a terminal answers it."""
    from coilclaw.gate.proof import TERMINAL

    tool = action.call.tool
    if action.status != "PENDING":
        return f"{tool} is approved and has not run yet."
    if app.owner_proof.needed(app.db.reader, action.decision.lane, TERMINAL):
        return f"{tool} waits for your passkey in the panel; nothing is done before that."
    return f"{tool} waits for your approval: `coilclaw approvals approve {action.action_id}`."
