"""A request that wants out, and the answer the airlock brought back."""

from typing import Literal, TypeAlias

import msgspec

Principal: TypeAlias = Literal["provider", "web_open", "web_search", "http", "box", "forge", "webhook"]
"""Who asks. Each has its own listing in the airlock."""

Origin: TypeAlias = Literal["owner", "search", "page", "configured", "query", "constructed"]
"""Who wrote an address: the owner, a search result or a page. Or else: the owner configured it, it holds words for the
configured search server, or the model put it together."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Headers may hold secrets and are never logged."""

    principal: Principal
    method: Literal["GET", "POST"]
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    timeout_seconds: float = 20.0
    max_bytes: int = 1 << 20
    same_host: bool = False
    """A redirect to another host is the answer and is not followed."""

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


Purpose: TypeAlias = Literal["read", "effect", "lookup"]
"""What a request is for: to read something, to have the call's effect, or to ask whether that effect happened."""


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a call declares before it is decided on. It can make exactly these, each once.

    The gate adds what proves who asks, the idempotency key and the limits, so a tool never holds them.
    """

    purpose: Purpose
    principal: Principal
    method: Literal["GET", "POST"]
    url: str
    """In a lookup, `{key}` stands for the idempotency key."""
    target: SendTarget | None = None
    """The place the owner named, where the request goes to one."""
    content_type: str = ""
    body: bytes | None = b""
    """None sends what the call's first declared input holds."""

    def __post_init__(self) -> None:
        # a card names the target: the request must not go anywhere else
        if self.target is not None and self.url not in (self.target.url, self.target.lookup_url):
            raise ValueError(f"the request does not go to {self.target.name}")
