"""What a session's viewers are told of questions to the owner: that one waits, and how it was answered."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.runner.store import load_session, say
from coilclaw.features.runner.store.questions import pushes_after, told_of
from coilclaw.packets.action import Action
from coilclaw.store.actions import load_action
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime.runtime import Runtime


def tell_question(tx: Tx, app: "Runtime", session_id: str, action: Action, category: str, summary: str) -> None:
    """Say that something of a session waits for the owner: part of the commit that leaves it waiting."""
    session = load_session(tx, session_id)
    if session is None:
        return
    branch = "" if session.checkout is None else session.checkout.branch
    data: dict[str, Json] = {
        "approval_id": action.action_id,
        "category": category,
        "summary": app.redact(summary),
        "risk": action.decision.risk_word,
        "context": {"branch": branch, "changed_files": session.files_touched},
    }
    say(tx, app.clock, session, "APPROVAL_REQUESTED", data)


def tell_answer(tx: Tx, app: "Runtime", session_id: str | None, action_id: str | None) -> None:
    """Say, once, how a question of which its viewers were told was answered, if it was."""
    action = load_action(tx, action_id) if session_id and action_id else None
    session = None if action is None else load_session(tx, session_id or "")
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


class _Push(msgspec.Struct):
    session_id: str
    title: str = ""
    manifests: tuple[str, ...] = ()


def tell_push(app: "Runtime", tx: Tx, action: Action) -> None:
    """Say that the commits of a session wait to leave it, if they do."""
    stored = load_action(tx, action.action_id)
    if stored is None or stored.status != "PENDING":
        return
    push = msgspec.json.decode(action.call.args_bytes, type=_Push)
    category = "deps_add" if push.manifests else "push"
    tell_question(tx, app, push.session_id, action, category, f"Open a pull request with its commits: {push.title}")


class PushAnswers:
    """Looks for the answers whether commits may leave, whichever door they were given at."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._seen = 0
        self._open: set[str] = set()

    async def look(self) -> None:
        """Tell those that are new since the last time."""
        for row, action_id in pushes_after(self._app.db.reader, self._seen):
            self._seen = row
            self._open.add(action_id)
        for action_id in sorted(self._open):
            action = load_action(self._app.db.reader, action_id)
            if action is not None and action.status == "PENDING":
                continue
            if action is not None:
                session_id = msgspec.json.decode(action.call.args_bytes, type=_Push).session_id
                if told_of(self._app.db.reader, session_id, action_id) == ["session_approval_requested"]:
                    await self._app.db.write(lambda tx, of=session_id, it=action_id: tell_answer(tx, self._app, of, it))
            self._open.discard(action_id)
