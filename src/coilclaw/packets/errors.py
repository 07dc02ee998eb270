"""The error tree. Every error carries a message, what to do next, and the exit code it ends a command with.

CoilclawError
├── ConfigError          2  the configuration is invalid; `problems` lists every error found
├── UsageError           2  a name or an argument that does not exist or does not fit
├── ToolError            1  a tool ran and could not do what was asked
│   ├── TryLater         1  it failed before it had any effect, for a reason that may pass
│   └── EffectUncertain  1  it may have had its effect, and no answer said so
├── ProviderError        1  a model provider could not answer
│   ├── ProviderUnavailable  network, timeout, 429, 5xx: a retry or another provider may help
│   ├── ProviderRefused      credentials or request refused: only another provider may help
│   └── ModelOutputError     the answer is not one we can read
│       └── StepOverrun      it wants more calls or tokens than one step may use: the step is retried
├── EgressRefused        3  the airlock refused a request
├── TransportError       1  the network did not deliver: refused, timed out, broken TLS, a body over its cap
├── OAuthError           1  an account could not be connected or used; `code` names the reason
│   └── ReconnectNeeded  4  the account's permission is gone: only the owner can connect it again
├── BoxUnavailable       1  no box passes its probes here, so nothing runs
│   └── BoxTooSlow       1  a box did not start in time; nothing ran in it, so it may be tried again
├── BudgetSpent          3  the day's tokens are used up
├── Conflict             3  an idempotency key was reused with other arguments
├── ProofNeeded          4  this needs the owner's proof: a passkey, or the terminal before there is one
├── LedgerBroken         6  the receipts are inconsistent
└── StorageError         7  the database, the log or the disk failed
    └── RowDamaged       7  one row cannot be read; work that does not need it continues

Denied and asked are values (`Decision`), never exceptions.
"""


class CoilclawError(Exception):
    """The root: a failure that one sentence explains to the owner, with what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class ConfigError(CoilclawError):
    """The configuration is invalid; every error found is in `problems`."""

    exit_code = 2

    def __init__(self, problems: list[str], *, remedy: str = "") -> None:
        super().__init__("; ".join(problems), remedy=remedy)
        self.problems = problems


class UsageError(CoilclawError):
    """A name or an argument that does not exist or does not fit."""

    exit_code = 2


class ToolError(CoilclawError):
    """A tool ran and could not do what was asked. `code` is stable, for receipts and tests."""

    code = "TOOL_FAILED"

    def __init__(self, message: str, *, remedy: str = "", code: str = "", begun: bool = True) -> None:
        super().__init__(message, remedy=remedy)
        self.code = code or type(self).code
        self.begun = begun
        """False only if the tool knows that no effect can have started."""


class TryLater(ToolError):
    """No effect can have started, and the reason may pass: the same call may be retried."""

    code = "TRY_LATER"

    def __init__(self, message: str, *, remedy: str = "", code: str = "", delay: float = 0.0) -> None:
        super().__init__(message, remedy=remedy, code=code, begun=False)
        self.delay = delay
        """The seconds that the other end asked to wait, at least."""


class EffectUncertain(ToolError):
    """The effect may have happened, and no answer said so."""

    code = "EFFECT_UNCERTAIN"


class ProviderError(CoilclawError):
    """A model provider could not answer."""


class ProviderUnavailable(ProviderError):
    """Network, timeout, 429 or 5xx: a retry or another provider may help."""

    def __init__(self, message: str, *, remedy: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after = retry_after


class ProviderRefused(ProviderError):
    """Credentials or request refused: retrying the same provider is pointless."""


class ContextTooLong(ProviderRefused):
    """The request has more tokens than the model takes: a shorter one may be answered."""


class ModelOutputError(ProviderError):
    """The provider answered with something that is neither text nor a valid proposal."""


class StepOverrun(ModelOutputError):
    """An answer exceeded the calls or tokens that one step may use; nothing of it was executed."""


class EgressRefused(CoilclawError):
    """The airlock refused a request; `code` names the rule."""

    exit_code = 3

    def __init__(self, message: str, *, code: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code


class TransportError(CoilclawError):
    """The network did not deliver: connection refused, timeout, broken TLS, a body over its cap."""

    def __init__(
        self, message: str, *, sent: bool, timeout: bool = False, too_large: bool = False, remedy: str = ""
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.sent = sent
        """False if not one byte of the request can have left."""
        self.timeout = timeout
        self.too_large = too_large
        """There was an answer, and it was over its cap."""


class OAuthError(CoilclawError):
    """An account could not be connected or used. `code` is stable, for callers and tests."""

    def __init__(self, message: str, *, code: str, remedy: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.retry_after = retry_after
        """The seconds an authorization server asked to wait, with the code UNAVAILABLE."""


class ReconnectNeeded(OAuthError):
    """The authorization server no longer accepts the account's permission; nothing but the owner helps."""

    exit_code = 4

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message, code="RECONNECT", remedy=remedy)


class BoxUnavailable(CoilclawError):
    """No box passes its probes here, so nothing runs."""


class BoxTooSlow(BoxUnavailable):
    """A box did not start in time, on a busy machine most likely. Nothing ran in it, so it may be tried again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            f"The box did not start within {seconds} seconds, so nothing is run; this machine may be busy.",
            remedy="Try again in a moment. If it goes on, run `coilclaw doctor`.",
        )


class BudgetSpent(CoilclawError):
    """The day's tokens are used up; no request was made."""

    exit_code = 3


class Conflict(CoilclawError):
    """An idempotency key was reused with other arguments; nothing was done."""

    exit_code = 3


class ProofNeeded(CoilclawError):
    """The request needs the owner's proof and had no valid one; nothing was done."""

    exit_code = 4


class LedgerBroken(CoilclawError):
    """The receipts are inconsistent."""

    exit_code = 6


class StorageError(CoilclawError):
    """The database, the log or the disk failed."""

    exit_code = 7


class RowDamaged(StorageError):
    """One row cannot be read; work that does not need it continues."""
