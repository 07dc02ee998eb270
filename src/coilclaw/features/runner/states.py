"""The states of a session, and which may follow which."""

from typing import Literal, TypeAlias

SessionState: TypeAlias = Literal[
    "CREATED",
    "PREPARING_WORKSPACE",
    "STARTING_PROVIDER",
    "RUNNING",
    "WAITING_FOR_APPROVAL",
    "PAUSED_BY_HUMAN",
    "STOPPING",
    "COMPLETED",
    "FAILED",
]
EndCode: TypeAlias = Literal[
    "EXITED",
    "STOPPED",
    "ESTOP",
    "LOST",
    "LIMIT",
    "INTERRUPTED",
    "CHECKOUT_FAILED",
    "START_FAILED",
    "OVER_PLAN",
    "UNGUARDED",
]
"""Why a session ended. `LOST`: its keeper died; `INTERRUPTED`: it never came to run; `UNGUARDED`: its program did
not ask before it acted."""

BEGINNING: frozenset[SessionState] = frozenset({"CREATED", "PREPARING_WORKSPACE", "STARTING_PROVIDER"})
LIVE: frozenset[SessionState] = frozenset({"RUNNING", "PAUSED_BY_HUMAN", "STOPPING"})
"""States with a keeper. `WAITING_FOR_APPROVAL` is never stored: it is RUNNING with an open question in the queue."""
ENDED: frozenset[SessionState] = frozenset({"COMPLETED", "FAILED"})

_NEXT: dict[SessionState, frozenset[SessionState]] = {
    "CREATED": frozenset({"PREPARING_WORKSPACE", "STOPPING", "COMPLETED", "FAILED"}),
    "PREPARING_WORKSPACE": frozenset({"STARTING_PROVIDER", "STOPPING", "FAILED"}),
    "STARTING_PROVIDER": frozenset({"RUNNING", "STOPPING", "FAILED"}),
    "RUNNING": frozenset({"WAITING_FOR_APPROVAL", "PAUSED_BY_HUMAN", "STOPPING", "COMPLETED", "FAILED"}),
    "WAITING_FOR_APPROVAL": frozenset({"RUNNING", "PAUSED_BY_HUMAN", "STOPPING", "COMPLETED", "FAILED"}),
    "PAUSED_BY_HUMAN": frozenset({"RUNNING", "STOPPING", "COMPLETED", "FAILED"}),
    "STOPPING": frozenset({"COMPLETED", "FAILED"}),
    "COMPLETED": frozenset(),
    "FAILED": frozenset(),
}


def may_follow(before: SessionState, after: SessionState) -> bool:
    """Whether a session in one state may go over to the other."""
    return after in _NEXT[before]


def state_for(code: EndCode) -> SessionState:
    """How a session that ended for this reason is called."""
    return "COMPLETED" if code in ("EXITED", "STOPPED") else "FAILED"
