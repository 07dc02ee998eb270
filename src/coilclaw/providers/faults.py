"""Failures of a model server, each in one sentence with what to do next, and never with the key."""

import re
from collections.abc import Callable

import msgspec

from coilclaw.packets.errors import (
    ContextTooLong,
    ModelOutputError,
    ProviderError,
    ProviderRefused,
    ProviderUnavailable,
)
from coilclaw.providers.retry import Overloaded, Transient

RETRIED = frozenset({408, 429, 502, 503, 504, 529})
"""Transient statuses. A plain 500 is not one: servers return it for requests they cannot handle."""
BUSY = frozenset({429, 503, 529})

# Patterns are compiled on failure, not at import.
_CONTEXT = (
    r"(?i)context.{0,20}(length|size|window)|maximum context|too many tokens|(prompt|input) is too long"
    r"|maximum number of (input )?tokens|request_too_large"
)
_QUOTA = r"(?i)insufficient[_ ]quota|credit balance is too low"
_UNPRINTABLE = r"[\x00-\x20\x7f-\xa0\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069]+"
QUOTED = 200


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """The errors of one provider; knows its names and how to redact the key, not the key itself."""

    name: str
    speaks: str
    """What its base_url should point to."""
    base_url: str
    model: str
    api_key_env: str
    has_key: bool
    scrub: Callable[[str], str]

    def quote(self, text: str) -> str:
        """The beginning of a server's message on one line, printable, without the key."""
        return re.sub(_UNPRINTABLE, " ", self.scrub(text)).strip()[:QUOTED]

    def unreadable(self, why: str, data: bytes) -> ModelOutputError:
        """The answer cannot be parsed."""
        beginning = self.quote(data[: 8 * QUOTED].decode("utf-8", "replace"))
        return ModelOutputError(
            _ended(f"{self.name} sent a response that cannot be read ({self.quote(why)}): {beginning or 'nothing'}"),
            remedy=f"Check that base_url points to {self.speaks}.",
        )

    def too_large(self, limit: int) -> ModelOutputError:
        """The answer exceeds our limit."""
        return ModelOutputError(
            f"{self.name} sent more than {limit} bytes; the rest was not read.",
            remedy="Lower max_output_tokens of this provider.",
        )

    def broken_off(self, why: str, *, timeout: bool = False) -> Transient:
        """The network failed, or the server hung up."""
        remedy = (
            "Raise timeout_seconds of this provider or use a faster model."
            if timeout
            else f"Check the network, and the server at {self.base_url}; `coilclaw provider test {self.name}` tests it."
        )
        return Transient(_ended(f"{self.name} did not answer: {self.quote(why)}"), remedy=remedy)

    def reported(self, error: bytes) -> ProviderError:
        """The error for an error object with status 200 or in the middle of a stream."""
        return self.failed(_status_of(error), b'{"error":' + error + b"}")

    def failed(self, status: int, body: bytes, retry_after: float | None = None) -> ProviderError:
        """The error for an error status or an error object."""
        text = _error_text(body)
        said = _ended(f"{self.name} answered {status}: {self.quote(text) or 'nothing more'}")
        if status in {401, 403}:
            return ProviderRefused(said, remedy=self._key_remedy())
        if status == 402 or (status in {400, 429} and re.search(_QUOTA, text)):
            return ProviderRefused(said, remedy="The account of this key has no credit left, or has reached a limit.")
        if status in {400, 413, 422} and re.search(_CONTEXT, text):
            return ContextTooLong(
                f"The conversation is too long for {self.model}. {said}",
                remedy="Start a new conversation, or use a model with a larger context. If it always takes less than we"
                " think, set context_window of this provider.",
            )
        if status == 404:
            return ProviderRefused(
                said,
                remedy=f"Check model = {self.model!r} and base_url = {self.base_url!r}; "
                f"`coilclaw provider test {self.name}` lists the models it has.",
            )
        if status in RETRIED:
            kind = Overloaded if status in BUSY else Transient
            return kind(said, remedy="Try again later.", retry_after=retry_after)
        if status >= 500:
            return ProviderUnavailable(said, remedy="The server failed; its own log says why.", retry_after=retry_after)
        if 300 <= status < 400:
            return ProviderRefused(said, remedy="The server redirects: set base_url to the address it redirects to.")
        return ProviderRefused(said, remedy="The server does not accept this request; check model and base_url.")

    def _key_remedy(self) -> str:
        if not self.api_key_env:
            return f"Set api_key_env of {self.name} to the name of the environment variable that holds its key."
        state = "was refused" if self.has_key else "is not set"
        return f"The key in the environment variable {self.api_key_env} {state}; put a valid one there."


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    type: str | None = None
    code: int | str | None = None


class _Envelope(msgspec.Struct, frozen=True):
    error: _Error | str = ""


def _error_text(body: bytes) -> str:
    """The message of an error object with its type and code, or the raw body."""
    try:
        error = msgspec.json.decode(body, type=_Envelope).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = ""
    if isinstance(error, str):
        return error or body.decode("utf-8", "replace")
    kind = ", ".join(str(part) for part in (error.type, error.code) if part)
    return f"{error.message} ({kind})" if kind else error.message


_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
    "context_length_exceeded": 400,
}
"""Statuses for error names that come without one."""


def _status_of(error: bytes) -> int:
    """The status of an error object inside a 200; 502 if it names none, since something upstream failed."""
    try:
        told = msgspec.json.decode(error, type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 502
    code = told.code
    if isinstance(code, str):
        code = int(code) if code.isdecimal() and len(code) == 3 else _STATUSES.get(code)
    number = code or _STATUSES.get(told.type or "", 0)
    return number if 400 <= number < 600 else 502
