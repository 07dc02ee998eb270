"""What a session's viewers are told about the merge of its work: that it is asked about, and how that was answered."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from coilclaw.features.forge.store import told_of
from coilclaw.features.runner.store import load_session, say
from coilclaw.packets.action import Action, ToolResult
from coilclaw.packets.forge import PullRequest
from coilclaw.store.actions import load_action
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime.runtime import Runtime


def told_to_session(app: "Runtime", pull: PullRequest, action: Action) -> Callable[[Tx, ToolResult], None]:
    """Say in the commit that leaves the question waiting that its session's work is asked about."""

    def record(tx: Tx, result: ToolResult) -> None:
        session = load_session(tx, pull.session_id or "")
        if result.code != "APPROVAL_NEEDED" or session is None:
            return
        data: dict[str, Json] = {
            "approval_id": action.action_id,
            "category": "merge",
            "summary": app.redact(f"Merge #{pull.number} into {pull.target} of {pull.repository}: {pull.title}"),
            "risk": action.decision.risk_word,
            "context": {"branch": pull.branch, "changed_files": session.files_touched},
        }
        say(tx, app.clock, session, "APPROVAL_REQUESTED", data)

    return record


def tell_answer(tx: Tx, app: "Runtime", pull: PullRequest) -> None:
    """Say, once, how the question about a session's work was answered, if it was."""
    action = load_action(tx, pull.action_id) if pull.session_id and pull.action_id else None
    session = None if action is None else load_session(tx, pull.session_id or "")
    if action is None or session is None or action.status == "PENDING":
        return
    if told_of(tx, session.session_id, action.action_id) != ["session_approval_requested"]:
        return
    data: dict[str, Json] = {
        "approval_id": action.action_id,
        "approved": action.approved_by is not None,
        "by": action.approved_by or "",
        "reason": app.redact(action.rejection_reason or ""),
    }
    say(tx, app.clock, session, "APPROVAL_RESOLVED", data)
