"""How a turn can end without an answer, and what its conversation is told then."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coilclaw.features.chat.store.turns import TurnEnd, TurnRow, answer_of, times_started, unknown_calls
from coilclaw.packets.errors import (
    BudgetSpent,
    CoilclawError,
    ConfigError,
    ModelOutputError,
    ProviderError,
    StorageError,
)
from coilclaw.packets.text import one_line
from coilclaw.store.actions import load_action
from coilclaw.store.job_history import standing_of
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.outcomes import Outcome
    from coilclaw.runtime.runtime import Runtime

STOPPED = "You stopped this answer. What was done before is listed above, each call with its receipt."
STOPPED_BEFORE = "You stopped this before it started. Nothing was done."
INTERRUPTED = (
    "This answer was interrupted: the process that was answering kept stopping in the middle. What was done before is"
    " listed above, each call with its receipt; nothing is repeated automatically. Say how to continue."
)
STARTS = 3
"""A turn that was begun so often and got no further is not begun once more: it may be what ends the process."""
_KEPT = "Your message is stored"
_WORDS = {
    "PROVIDER_FAILED": f"The model could not be reached or did not answer. {_KEPT}: send it again to retry."
    " If the problem persists, test the provider in the settings or with `coilclaw provider test`.",
    "FAILED_MODEL_OUTPUT": f"The model's answer could not be read, even on a second attempt. {_KEPT}: send it again, or"
    " rephrase it.",
    "BUDGET_SPENT": f"Today's token budget is used up. {_KEPT}: send it again tomorrow (midnight UTC), or raise"
    " budgets.daily_tokens first.",
    "BAD_CONFIG": f"The model is not configured correctly. {_KEPT}: fix the configuration (`coilclaw doctor`"
    " shows what is"
    " wrong), then send it again.",
    "STORAGE_FAILED": f"The database could not be written. {_KEPT}: check the disk, then send it again.",
    "FAILED": f"This could not be answered. {_KEPT}: send it again to retry.",
    "UNEXPECTED": f"Something unexpected went wrong. This is a bug in the program. {_KEPT}: send it again to retry.",
}
_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (ModelOutputError, "FAILED_MODEL_OUTPUT"),
    (ProviderError, "PROVIDER_FAILED"),
    (BudgetSpent, "BUDGET_SPENT"),
    (ConfigError, "BAD_CONFIG"),
    (StorageError, "STORAGE_FAILED"),
    (CoilclawError, "FAILED"),
)
REASON_CHARACTERS = 500


def needs_to_know(calls: list[tuple[str, str]]) -> str:
    """What a turn that was cut off in the middle of a call needs from the owner before anything goes on."""
    names = ", ".join(f"{tool} ({action_id})" for action_id, tool in calls)
    first = calls[0][0]
    return (
        f"This answer was interrupted while a call ran, and it is unknown whether it took effect: {names}. Check"
        f" yourself, then record it with `coilclaw actions resolve {first}` or in the panel, and say how to continue."
        " What was done before is listed above; nothing is repeated automatically."
    )


def nobody_answered(tools: list[str]) -> str:
    """What a conversation is told when a call was not answered in time."""
    names = ", ".join(dict.fromkeys(tools))
    return f"Nobody answered in time, so {names} did not run and this stopped here. Ask again to continue."


def waiting_words(app: "Runtime", turn_id: str) -> str:
    """What an owner at a terminal is told of the calls that a turn waits for: each, and how it is answered."""
    from coilclaw.cli.phrases import waits_for

    db = app.db.reader
    lines: list[str] = []
    for standing in standing_of(db, turn_id).values():
        if standing.ended:
            continue
        action = load_action(db, standing.action_id)
        lines.append(f"{standing.tool} has not run yet." if action is None else waits_for(app, action))
    return "\n".join(lines) or "This has its answers and continues shortly."


def nobody_runs(app: "Runtime", outcomes: Sequence["Outcome"], tools: tuple[str, ...]) -> str:
    """What the owner is told when these calls made work for later that no worker is there to do; else empty."""
    from coilclaw.gate.executor import worker_is_running

    made = any(outcome.result.success and outcome.action.call.tool in tools for outcome in outcomes)
    if not made or worker_is_running(app.home.locks_dir):
        return ""
    return "No worker is running, so this waits: start `coilclaw up` or `coilclaw worker`."


def end_of_left(db: Tx, turn: TurnRow) -> tuple[TurnEnd, str] | None:
    """How a turn ends whose process died, and what its conversation is told; None when it can go on.

    Whoever asks has had the conveyor take up its calls: what became of them is on record.
    """
    if answer_of(db, turn.thread_id, turn.turn_id) is not None:
        return TurnEnd(state="ANSWERED", ending="answered"), ""
    if unknown := unknown_calls(db, turn):
        return TurnEnd(state="INTERRUPTED", code="UNKNOWN_OUTCOME"), needs_to_know(unknown)
    if times_started(db, turn) >= STARTS:
        return TurnEnd(state="INTERRUPTED", code="INTERRUPTED"), INTERRUPTED
    return None


def failure(error: BaseException, redact: Callable[[str], str]) -> tuple[TurnEnd, str]:
    """How a turn that broke with this error ends, and what its conversation is told.

    The conversation gets our own words alone: an error may quote what a server said, and the model reads them later.
    """
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "UNEXPECTED")
    reason = one_line(redact(str(error)))[:REASON_CHARACTERS] if code != "UNEXPECTED" else type(error).__name__
    return TurnEnd(state="FAILED", code=code, reason=reason), _WORDS[code]
