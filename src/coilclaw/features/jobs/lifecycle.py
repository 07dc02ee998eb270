"""The life of a job: which state may follow which, what clients see of it, and what every move must bring. Pure."""

from collections.abc import Sequence

from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.job import ENDED, CoarseState, JobState

_FAILURES: frozenset[JobState] = frozenset({"FAILED", "CANCELLED", "TIMED_OUT"})
_PAUSE: frozenset[JobState] = frozenset({"PAUSED_BUDGET"})
_ONWARD: dict[JobState, frozenset[JobState]] = {
    "RECEIVED": frozenset({"PARSED"}),
    "PARSED": frozenset({"POLICY_CHECKED", "DENIED"}),
    "POLICY_CHECKED": frozenset({"PLANNED"}),
    "PLANNED": frozenset({"EXECUTING"}),
    "EXECUTING": frozenset({"WAITING_APPROVAL", "PR_OPENED", "DONE"}),
    "WAITING_APPROVAL": frozenset({"EXECUTING", "MERGED"}),
    "PR_OPENED": frozenset({"WAITING_APPROVAL"}),
    "MERGED": frozenset({"DEPLOYED"}),
    "DEPLOYED": frozenset({"DONE"}),
}
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    **{state: after | _FAILURES | _PAUSE for state, after in _ONWARD.items()},
    # Going back is checked against `paused_from`; a pause may end in any failure, never in another pause.
    "PAUSED_BUDGET": frozenset(_ONWARD) | _FAILURES,
    **{state: frozenset[JobState]() for state in ENDED},
}
"""From each state, every state that may follow."""

COARSE: dict[JobState, CoarseState] = {
    "RECEIVED": "PENDING",
    "PARSED": "PENDING",
    "POLICY_CHECKED": "PENDING",
    "PLANNED": "PENDING",
    "EXECUTING": "RUNNING",
    "MERGED": "RUNNING",
    "DEPLOYED": "RUNNING",
    "PR_OPENED": "WAITING_APPROVAL",
    "WAITING_APPROVAL": "WAITING_APPROVAL",
    "DONE": "COMPLETED",
    "DENIED": "FAILED",
    "FAILED": "FAILED",
    "TIMED_OUT": "FAILED",
    "CANCELLED": "CANCELLED",
    "PAUSED_BUDGET": "PAUSED_BUDGET",
}
"""What clients see."""


class WrongMove(CoilclawError):
    """A job cannot go there from where it is, or the move lacks what it must bring."""


def move(
    state: JobState, to: JobState, *, paused_from: JobState | None, reason: str, evidence: Sequence[str]
) -> JobState | None:
    """Check a move and say what `paused_from` is after it; raises WrongMove."""
    if to not in TRANSITIONS[state]:
        raise WrongMove(f"a job that is {state} cannot become {to}.")
    if state == "PAUSED_BUDGET" and to not in ENDED and to != paused_from:
        raise WrongMove(f"a job that was paused in {paused_from} returns to it, not to {to}.")
    if to in ENDED and not (reason and evidence):
        raise WrongMove(f"a job that ends as {to} needs a reason and evidence.")
    return state if to == "PAUSED_BUDGET" else None
