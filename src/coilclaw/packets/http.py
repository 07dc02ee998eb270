"""An outgoing request, and the response the airlock returned."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.action import Identity

Principal: TypeAlias = Literal[
    "provider", "web_open", "web_search", "http", "box", "forge", "webhook", "push", "notify", "mcp", "oauth",
    "google",
]  # fmt: skip
"""Who asks. Each has its own allowlist in the airlock."""

Origin: TypeAlias = Literal["owner", "search", "page", "configured", "query", "constructed"]
"""Who wrote an address: the owner, a search result or a page. Otherwise: the owner configured it, it is a query to the
configured search server, or the model constructed it."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Headers may hold secrets and are never logged."""

    principal: Principal
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    """Beside GET and POST the forge alone may send PUT and PATCH, and `mcp` DELETE, to end a session."""
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    timeout_seconds: float = 20.0
    """From the beginning to the last byte."""
    idle_seconds: float | None = None
    """The longest pause of the other end; None: the airlock's own limit, for `provider` and `mcp` as above."""
    max_bytes: int = 1 << 20
    same_host: bool = False
    """A redirect to another host is returned as the response, not followed."""
    identity: Identity | None = None
    """In whose name, for `google`: the airlock has a closed list of requests for each."""

    def __repr__(self) -> str:
        return f"HttpRequest({self.principal} {self.method})"


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A complete response, decoded and capped; `url` is where the last redirect led."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str

    def header(self, name: str) -> str:
        """The first header of that name, or nothing."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), "")


class SendTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target that the owner configured for sending. The gate adds its credentials, which are never here."""

    name: str
    url: str
    key_header: str
    deduplicates: bool
    """It deduplicates by idempotency key."""
    lookup_url: str
    """Where to look up whether a key was received; empty if it offers no lookup."""
    timeout_seconds: float


Purpose: TypeAlias = Literal["read", "effect", "lookup"]
"""The purpose of a request: to read, to have the call's effect, or to look up whether that effect happened."""


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a call declares before the decision. It can make exactly these, each once.

    The gate adds credentials, idempotency key and limits, so a tool never sees them.
    """

    purpose: Purpose
    principal: Principal
    method: Literal["GET", "POST"]
    url: str
    """In a lookup, `{key}` is replaced by the idempotency key."""
    target: SendTarget | None = None
    """The owner's configured target, if the request goes to one."""
    content_type: str = ""
    body: bytes | None = b""
    """None sends the content of the call's first declared input."""
    identity: Identity | None = None
    """In whose name, for `google`."""
    max_bytes: int = 0
    """The largest response; 0 for what the configuration has."""
    further: int = 0
    """How many more GETs of the same principal, identity and origin may follow from what it brings."""
    made_later: bool = False
    """The body is made when it is sent, from what the call declared and its idempotency key."""

    def __post_init__(self) -> None:
        # a card names the target: the request must not go anywhere else
        if self.target is not None and self.url not in (self.target.url, self.target.lookup_url):
            raise ValueError(f"the request does not go to {self.target.name}")
