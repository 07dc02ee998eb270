"""A request that wants out, and the answer the airlock brought back."""

from typing import Literal, TypeAlias

import msgspec

Principal: TypeAlias = Literal["provider", "web_open", "web_search", "http", "box", "forge", "webhook"]
"""Who asks. Each has its own listing in the airlock."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Headers may hold secrets and are never logged."""

    principal: Principal
    method: Literal["GET", "POST"]
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    timeout_seconds: float = 20.0
    max_bytes: int = 1 << 20

    def __repr__(self) -> str:
        return f"HttpRequest({self.principal} {self.method})"


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A whole response, decoded and capped; `url` is where the last redirect led."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str

    def header(self, name: str) -> str:
        """The first header of that name, or nothing."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), "")


class SendTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A place the owner named for sending to. What proves who sends is added by the gate and is never here."""

    name: str
    url: str
    key_header: str
    deduplicates: bool
    """It does a request with a key it has seen before only once."""
    lookup_url: str
    """Where to ask whether a key was received; empty when it cannot be asked."""
    timeout_seconds: float
