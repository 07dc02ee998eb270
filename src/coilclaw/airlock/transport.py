"""The airlock itself: decide, resolve once, check every answer, dial what was checked, follow nothing undecided."""

import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.airlock.body import ACCEPT_ENCODING, BadBody, Decoder, OverCap
from coilclaw.airlock.dial import dial
from coilclaw.airlock.http import Wire
from coilclaw.airlock.judge import NOT_REDIRECTED, EgressVerdict, judge_addresses, judge_hop, judge_url
from coilclaw.airlock.listing import Listing
from coilclaw.airlock.log import EgressLine
from coilclaw.airlock.resolver import Resolver, system_resolver
from coilclaw.airlock.trust import tls_context
from coilclaw.airlock.url import Refusal, Target, follow, parse_url
from coilclaw.packets.errors import EgressRefused, TransportError
from coilclaw.packets.http import HttpRequest, HttpResponse, Principal
from coilclaw.packets.ids import Clock, stamp

if TYPE_CHECKING:
    import asyncio
    import ssl

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OURS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "te", "trailer", "upgrade"}
    | {"expect", "keep-alive"}
)
"""Headers that frame the request or name its host: setting them could bypass the judge."""
_HARMLESS = frozenset({"accept", "accept-language", "user-agent"})
"""What a redirect to another origin keeps; everything else may be a credential."""


_MORE_METHODS: dict[Principal, tuple[str, ...]] = {"mcp": ("DELETE",), "forge": ("PUT", "PATCH")}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_HEADER_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?\Z")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts for the parts of a request; the request itself has one for the whole."""

    connect_seconds: float = 10.0
    read_seconds: float = 30.0
    """Between two pieces of a response. A provider or a tool may take its whole request timeout."""


class Arrival:
    """A response whose body is still arriving. Reading it counts, hashes and limits the bytes."""

    def __init__(self, wire: Wire, request: HttpRequest, target: Target, head: tuple[int, tuple[tuple[str, str], ...]]):
        self.status = head[0]
        self.headers = head[1]
        self.url = target.url
        self.size = 0
        self.code = "PARTIAL"
        self._wire = wire
        self._request = request
        self._host = target.host
        self._hash = hashlib.sha256()
        self._begun = False

    @property
    def sha256(self) -> str:
        """Of the bytes read so far; empty if none were."""
        return self._hash.hexdigest() if self._begun else ""

    def header(self, name: str) -> str:
        """The header's values joined, or nothing."""
        return ", ".join(value for key, value in self.headers if key == name)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The decoded body, piece by piece, up to the cap of the request."""
        if self._begun:
            raise RuntimeError("a body can be read only once; keep the pieces you need")
        self._begun = True
        try:
            decoder = Decoder(self.header("content-encoding"), self._request.max_bytes)
            decoder.expect(self.header("content-length"))
            async for data in self._wire.body():
                for piece in decoder.feed(data):
                    self.size += len(piece)
                    self._hash.update(piece)
                    yield piece
            decoder.finish()
        except OverCap as error:
            self.code = "CAPPED"
            raise TransportError(
                f"The response from {self._host} is larger than {self._request.max_bytes} bytes.",
                sent=True,
                too_large=True,
                remedy="Ask for less.",
            ) from error
        except BadBody as error:
            self.code = "BROKEN"
            raise TransportError(f"The response from {self._host} cannot be read: {error}.", sent=True) from error
        except TransportError as error:
            self.code = "TIMEOUT" if error.timeout else "BROKEN"
            raise
        self.code = "OK"


class Airlock:
    """The only way out of the process for network traffic; implements the Transport port."""

    def __init__(
        self,
        listing: Listing,
        *,
        log: Callable[[EgressLine], None],
        clock: Clock,
        resolve: Resolver = system_resolver,
        ca_file: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.listing = listing
        """What may be reached through here; it can be replaced."""
        self._log = log
        self._clock = clock
        self._resolve = resolve
        self._ca_file = ca_file
        self._limits = limits or Limits()
        self._tls: ssl.SSLContext | None = None

    @property
    def ca_file(self) -> str | None:
        """The trusted certificate authorities; None for the system's."""
        return self._ca_file

    def narrowed(self, entries: Sequence[str] | None) -> "Airlock":
        """An airlock for one skill or job, further limited to these domains."""
        return self.with_listing(self.listing.narrowed(entries))

    def with_listing(self, listing: Listing) -> "Airlock":
        """An airlock that is the same but for what it lets through."""
        return Airlock(
            listing,
            log=self._log,
            clock=self._clock,
            resolve=self._resolve,
            ca_file=self._ca_file,
            limits=self._limits,
        )

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send and read the whole response, or raise EgressRefused or TransportError."""
        async with self._exchange(request) as arrival:
            body = b"".join([piece async for piece in arrival.chunks()])
            kept = tuple((n, v) for n, v in arrival.headers if n not in ("content-encoding", "content-length"))
            return HttpResponse(status=arrival.status, headers=kept, body=body, url=arrival.url)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[Arrival]:
        """Send and return the response while it arrives."""
        return self._exchange(request)

    @asynccontextmanager
    async def _exchange(self, request: HttpRequest) -> AsyncGenerator[Arrival]:
        import asyncio

        deadline = asyncio.get_running_loop().time() + request.timeout_seconds
        fault = _request_fault(request)
        if fault:
            raise self._refused(request, None, fault)
        base: Target | None = None
        location, hops, seen = request.url, 0, set[str]()
        while True:
            target = self._decide(request, base, location, hops, seen)
            async with self._visit(request, base, target, deadline) as arrival:
                if not _redirects(request, arrival) or _leaves(request, target, arrival):
                    yield arrival
                    return
                arrival.code = "REDIRECTED"
                location = _location(arrival)
            base, hops = target, hops + 1

    def _decide(self, request: HttpRequest, base: Target | None, location: str, hops: int, seen: set[str]) -> Target:
        """Judge one hop before anything is looked up, logging a line if it ends here."""
        judged = judge_hop(base, location, request.principal, self.listing, hops)
        if request.principal == "google" and isinstance(judged, Target):
            from coilclaw.airlock.google import google_fault

            judged = google_fault(request, judged) or judged
        if isinstance(judged, Target) and judged.url in seen:
            judged = Refusal("REDIRECT_LOOP", f"{judged.host} redirects in a loop")
        if isinstance(judged, Refusal):
            read = parse_url(location)
            raise self._refused(request, read if isinstance(read, Target) else base, judged)
        seen.add(judged.url)
        return judged

    @asynccontextmanager
    async def _visit(
        self, request: HttpRequest, base: Target | None, target: Target, deadline: float
    ) -> AsyncGenerator[Arrival]:
        """One hop: resolve, check, dial, send, and always log a line at the end."""
        arrival: Arrival | None = None
        verdict: Literal["pass", "block"] = "pass"
        code = "CANCELLED"
        try:
            wire = await self._open(request, target, deadline)
            try:
                await wire.send(request.method, _headers(request, base, target), request.body)
                arrival = Arrival(wire, request, target, await wire.head())
                yield arrival
            finally:
                await wire.close()
        except EgressRefused as error:
            verdict, code = "block", error.code
            raise
        except TransportError as error:
            code = "TIMEOUT" if error.timeout else "BROKEN" if error.sent else "NO_CONNECTION"
            raise
        finally:
            if arrival is None:
                self._line(request, target, verdict, code)
            else:
                self._line(request, target, verdict, arrival.code, arrival)

    async def _open(self, request: HttpRequest, target: Target, deadline: float) -> Wire:
        streams = await self.connect(target, deadline, tls=target.scheme == "https")
        patience = request.timeout_seconds if request.principal in ("provider", "mcp") else self._limits.read_seconds
        patience = request.idle_seconds or patience
        return Wire(target, streams, deadline=deadline, read_seconds=patience, max_bytes=request.max_bytes)

    async def check(self, url: str, principal: Principal) -> None:
        """Judge an address and its current resolution, without dialling; raises EgressRefused or TransportError.

        Later sends are judged again.
        """
        import asyncio

        target = judge_url(url, principal, self.listing)
        if isinstance(target, EgressVerdict):
            raise EgressRefused(f"The airlock refuses this address: {target.reason}.", code=target.code)
        await self._checked(target, asyncio.get_running_loop().time() + self._limits.connect_seconds)

    async def connect(
        self, target: Target, deadline: float, *, tls: "bool | ssl.SSLContext"
    ) -> "tuple[asyncio.StreamReader, asyncio.StreamWriter]":
        """A connection to a judged target: resolved once, every answer checked, the checked address dialled."""
        addresses = await self._checked(target, deadline)
        if tls is True:
            tls = self._tls = self._tls or tls_context(self._ca_file)
        return await dial(
            target,
            addresses,
            own_ports=self.listing.own_ports,
            tls=tls or None,
            connect_seconds=self._limits.connect_seconds,
            deadline=deadline,
        )

    def note(
        self,
        principal: Principal,
        target: Target | None,
        verdict: Literal["pass", "block"],
        code: str,
        *,
        status: int = 0,
        size: int = 0,
        sha256: str = "",
    ) -> None:
        """Log one request."""
        self._log(
            EgressLine(
                time=stamp(self._clock()),
                principal=principal,
                host=target.host if target else "",
                port=target.port if target else 0,
                verdict=verdict,
                code=code,
                status=status,
                bytes=size,
                sha256=sha256,
            )
        )

    async def _checked(self, target: Target, deadline: float) -> tuple[str, ...]:
        """The resolved addresses, all acceptable."""
        addresses = await self._addresses(target, deadline)
        verdict = judge_addresses(target, addresses, self.listing)
        if verdict.verdict == "block":
            raise EgressRefused(f"{verdict.reason}.", code=verdict.code)
        return addresses

    async def _addresses(self, target: Target, deadline: float) -> tuple[str, ...]:
        import asyncio

        if target.kind != "name":
            return (target.host,)
        try:
            async with asyncio.timeout_at(deadline):
                return tuple(await self._resolve(target.host))
        except TimeoutError as error:
            raise TransportError(f"Looking up {target.host} timed out.", sent=False, timeout=True) from error
        except OSError as error:
            raise TransportError(f"{target.host} could not be looked up.", sent=False) from error

    def _refused(self, request: HttpRequest, target: Target | None, fault: Refusal) -> EgressRefused:
        self._line(request, target, "block", fault.code)
        return EgressRefused(f"The airlock refused this request: {fault.reason}.", code=fault.code)

    def _line(
        self,
        request: HttpRequest,
        target: Target | None,
        verdict: Literal["pass", "block"],
        code: str,
        arrival: Arrival | None = None,
    ) -> None:
        if arrival is None:
            self.note(request.principal, target, verdict, code)
        else:
            self.note(
                request.principal,
                target,
                verdict,
                code,
                status=arrival.status,
                size=arrival.size,
                sha256=arrival.sha256,
            )


def _redirects(request: HttpRequest, arrival: Arrival) -> bool:
    """Only a GET is redirected, and never one to an exact address, whose 3xx is returned as it is."""
    follows = request.method == "GET" and request.principal not in NOT_REDIRECTED
    return follows and arrival.status in _REDIRECTS and bool(arrival.header("location"))


def _leaves(request: HttpRequest, target: Target, arrival: Arrival) -> bool:
    """Whether a redirect leads to a host that this request must not follow; `www.` counts as the same host."""
    led = follow(target, _location(arrival)) if request.same_host else target
    return isinstance(led, Target) and led.host.removeprefix("www.") != target.host.removeprefix("www.")


def _location(arrival: Arrival) -> str:
    """The Location header, which some servers send as raw UTF-8; two of them join into an invalid URL."""
    text = arrival.header("location")
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _request_fault(request: HttpRequest) -> Refusal | None:
    for name, value in request.headers:
        if not _HEADER_NAME.match(name) or not _HEADER_VALUE.match(value):
            return Refusal("BAD_HEADER", "a header contains characters that HTTP does not allow; use printable ASCII")
        if name.lower() in _OURS or name.lower().startswith("proxy-"):
            return Refusal("BAD_HEADER", f"the header {name} is set by the airlock; omit it")
    if request.method not in ("GET", "POST") and request.method not in _MORE_METHODS.get(request.principal, ()):
        return Refusal("METHOD", f"{request.principal} may not send {request.method}; use GET or POST")
    if request.method in ("GET", "DELETE") and request.body:
        return Refusal("BAD_REQUEST", f"a {request.method} request has no body; use POST, or leave the body out")
    if not request.timeout_seconds > 0 or not (request.idle_seconds or 1) > 0 or request.max_bytes < 0:
        return Refusal("BAD_REQUEST", "a request needs a timeout and a response size above zero")
    return None


def _headers(request: HttpRequest, base: Target | None, target: Target) -> list[tuple[str, str]]:
    """The caller's headers and ours; for another origin only the harmless ones."""
    kept = list(request.headers)
    if base is not None and base.origin != target.origin:
        kept = [(name, value) for name, value in kept if name.lower() in _HARMLESS]
    given = {name.lower() for name, _ in kept}
    ours = [("host", target.authority), ("connection", "close"), ("accept-encoding", ACCEPT_ENCODING)]
    ours += [(n, v) for n, v in (("user-agent", "coilclaw"), ("accept", "*/*")) if n not in given]
    if request.method not in ("GET", "DELETE"):
        ours.append(("content-length", str(len(request.body))))
    return ours + kept
