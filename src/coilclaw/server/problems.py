"""Problems: every error becomes problem+json with a stable code and what to do next."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec

from coilclaw.packets.errors import (
    BudgetSpent,
    CoilclawError,
    ConfigError,
    Conflict,
    EgressRefused,
    LedgerBroken,
    ProofNeeded,
    ProviderError,
    StorageError,
    UsageError,
)

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error over HTTP (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    remedy: str = ""
    instance: str = ""


class Trouble(CoilclawError):
    """An error with its status and code."""

    def __init__(
        self, status: int, code: str, message: str, *, remedy: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


class NotThere(Trouble):
    """Not found."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(404, "NOT_FOUND", f"there is no {what}.", remedy=remedy)


_KNOWN: tuple[tuple[type[CoilclawError], int, str], ...] = (
    (Conflict, 409, "CONFLICT"),
    (ProofNeeded, 403, "PROOF_NEEDED"),
    (BudgetSpent, 429, "BUDGET_SPENT"),
    (UsageError, 422, "UNFIT"),
    (ConfigError, 500, "BAD_CONFIG"),
    (ProviderError, 502, "PROVIDER_FAILED"),
    (EgressRefused, 502, "EGRESS_REFUSED"),
    (LedgerBroken, 500, "LEDGER_BROKEN"),
    (StorageError, 503, "STORAGE_FAILED"),
)
"""The status and code of our errors; the first match counts."""


def problem(status: int, code: str, detail: str, *, remedy: str = "", instance: str = "") -> Problem:
    """A problem with its status's title."""
    return Problem(
        type=f"/problems/{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        remedy=remedy,
        instance=instance,
    )


def problems(*statuses: int) -> dict[int, ResponseSpec]:
    """For a handler's `responses`: its own errors, besides those of every route."""
    return {
        status: ResponseSpec(
            data_container=Problem,
            generate_examples=False,
            media_type=MEDIA_TYPE,
            description=HTTPStatus(status).phrase,
        )
        for status in statuses
    }


def problem_of(error: Exception) -> Problem:
    """The problem for an exception. An unexpected one reveals nothing of its content."""
    if isinstance(error, Trouble):
        return problem(error.status, error.code, error.message, remedy=error.remedy)
    if isinstance(error, CoilclawError):
        for kind, status, code in _KNOWN:
            if isinstance(error, kind):
                return problem(status, code, error.message, remedy=error.remedy)
        return problem(500, "FAILED", error.message, remedy=error.remedy)
    if isinstance(error, HTTPException):
        return _of_litestar(error)
    return problem(500, "UNEXPECTED", "something unexpected went wrong.", remedy="This is a bug: please report it.")


def _of_litestar(error: HTTPException) -> Problem:
    codes = {400: "BAD_REQUEST", 401: "UNPAIRED", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "TOO_LARGE"}
    code = codes.get(error.status_code, HTTPStatus(error.status_code).name)
    detail = error.detail
    if isinstance(error.extra, list):
        found = cast("list[dict[str, Any]]", [each for each in error.extra if isinstance(each, dict)])
        detail = "; ".join(map(_fault, found)) or detail
    return problem(error.status_code, code, detail)


def _fault(found: dict[str, Any]) -> str:
    """One validation error by its location; rewords the framework's message for a missing body."""
    where, what = found.get("key", "body"), found.get("message", "")
    return (
        "body: nothing was sent, but JSON is required." if (where, what) == ("data", "'data'") else f"{where}: {what}"
    )


def answer_with_problem(request: "Request[Any, Any, Any]", error: Exception) -> Response[Problem]:
    """The exception handler of every route."""
    core = request.app.state.get("core")
    told = problem_of(error)
    if core is not None:
        told = msgspec.structs.replace(told, detail=core.said(told.detail), remedy=core.said(told.remedy))
    headers = error.headers if isinstance(error, Trouble) else dict(getattr(error, "headers", None) or {})
    return Response(told, status_code=told.status, media_type=MEDIA_TYPE, headers=headers)
