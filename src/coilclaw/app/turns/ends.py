"""How a turn can end without an answer, and what its conversation is told then."""

from collections.abc import Callable

from coilclaw.packets.errors import (
    BudgetSpent,
    CoilclawError,
    ConfigError,
    ModelOutputError,
    ProviderError,
    StorageError,
)
from coilclaw.packets.text import one_line
from coilclaw.store.turns import TurnEnd

STOPPED = "You stopped this answer. What was done before that stands above, each call with its receipt."
STOPPED_BEFORE = "You stopped this before it began. Nothing was done."
INTERRUPTED = (
    "This answer was interrupted: the process that gave it ended in the middle. What was done before that stands above,"
    " each call with its receipt; nothing of it is done again by itself. Say how to go on."
)
_KEPT = "Your message is kept"
_WORDS = {
    "PROVIDER_FAILED": f"The model could not be reached or did not answer. {_KEPT}: send it again to try once more."
    " If it stays like this, test the provider in the settings or with `coilclaw provider test`.",
    "FAILED_MODEL_OUTPUT": f"The model's answer could not be read, also when asked again. {_KEPT}: send it again, or"
    " say it in other words.",
    "BUDGET_SPENT": f"The tokens of this day are used up. {_KEPT}: send it again tomorrow (midnight UTC), or raise"
    " budgets.daily_tokens first.",
    "BAD_CONFIG": f"The model is not set up right. {_KEPT}: mend the configuration (`coilclaw doctor` says what is"
    " wrong), then send it again.",
    "STORAGE_FAILED": f"The database could not be written. {_KEPT}: look at the disk, then send it again.",
    "FAILED": f"This could not be answered. {_KEPT}: send it again to try once more.",
    "UNEXPECTED": f"Something unexpected went wrong, which is a mistake of the program. {_KEPT}: send it again to try"
    " once more.",
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


def failure(error: BaseException, redact: Callable[[str], str]) -> tuple[TurnEnd, str]:
    """How a turn that broke with this error ends, and what its conversation is told.

    The conversation gets our own words alone: an error may quote what a server said, and the model reads them later.
    """
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "UNEXPECTED")
    reason = one_line(redact(str(error)))[:REASON_CHARACTERS] if code != "UNEXPECTED" else type(error).__name__
    return TurnEnd(state="FAILED", code=code, reason=reason), _WORDS[code]
