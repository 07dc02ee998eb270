"""Sessions as they are shown, at the terminal and over HTTP. Nothing in them hides."""

from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.features.runner.checkouts import CheckoutChange
from coilclaw.features.runner.spec import Mode, RepoRef, Size, Task
from coilclaw.features.runner.states import EndCode, SessionState
from coilclaw.features.runner.store import Session, Units, shown_state, units_of, waiting_for
from coilclaw.packets.text import one_line, visible

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session."""

    session_id: str
    org_id: str
    repo: RepoRef
    provider: str
    structured: bool
    """Without a screen of its own."""
    mode: Mode
    state: SessionState
    """`WAITING_FOR_APPROVAL` while a question of it is in the queue."""
    code: EndCode | Literal[""]
    """Why it ended."""
    reason: str
    exit_code: int | None
    task: Task
    room_path: str
    workspace_id: str
    worktree_path: str
    """Its checkout; empty before there is one."""
    branch: str
    base: str
    """The commit that was checked out."""
    size: Size
    action_id: str
    """The action that started it."""
    waiting: list[str]
    """The actions that wait for the owner's answer: what it asked for, or its own start."""
    thread_id: str
    """The conversation that it belongs to, or empty."""
    job_id: str
    """The job that it belongs to, or empty."""
    parent_id: str
    """The session that began it, or empty."""
    seq: int
    """The number of its last event."""
    usage: Units
    created_at: str
    started_at: str | None
    ended_at: str | None


class ChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs from what was checked out."""

    path: str
    status: str
    added: int
    removed: int


class OrgView(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody that sessions are run for, and the limits of the plan."""

    org_id: str
    plan: str
    sessions: int
    running: int
    minutes_per_month: int
    """0: no limit."""
    minutes_used: int


def session_view(app: "Runtime", session: Session) -> SessionView:
    """A session as it is shown."""

    def said(text: str) -> str:
        return one_line(app.redact(text))

    spec, checkout, task = session.spec, session.checkout, session.spec.task
    return SessionView(
        session_id=session.session_id,
        org_id=session.org_id,
        repo=spec.repo,
        provider=spec.provider,
        structured=spec.structured,
        mode=spec.mode,
        state=shown_state(app.db.reader, session),
        code=session.code,
        reason=said(session.reason),
        exit_code=session.exit_code,
        task=Task(
            title=said(task.title),
            goal=visible(app.redact(task.goal)),  # it may have lines
            constraints=tuple(visible(app.redact(each)) for each in task.constraints),
            acceptance=tuple(visible(app.redact(each)) for each in task.acceptance),
        ),
        room_path=said(spec.room_path),
        workspace_id=f"ws_{session.session_id.partition('_')[2]}",
        worktree_path="" if checkout is None else checkout.path,
        branch="" if checkout is None else checkout.branch,
        base="" if checkout is None else checkout.base,
        size=spec.size,
        action_id=session.action_id,
        waiting=[*waiting_for(app.db.reader, session)],
        thread_id=spec.thread_id,
        job_id=spec.job_id,
        parent_id=spec.parent_id,
        seq=session.seq,
        usage=units_of(session),
        created_at=session.created_at,
        started_at=session.started_at,
        ended_at=session.ended_at,
    )


def change_view(app: "Runtime", change: CheckoutChange) -> ChangeView:
    """A changed file as it is shown."""
    path = one_line(app.redact(change.path))
    return ChangeView(path=path, status=change.status, added=change.added, removed=change.removed)
