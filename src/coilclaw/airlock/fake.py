"""A transport for tests of other rooms: scripted responses by URL, no socket. It ships so that no test needs a mock."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

from coilclaw.airlock.judge import EgressVerdict, judge_url
from coilclaw.airlock.listing import Listing
from coilclaw.packets.errors import CoilclawError, EgressRefused
from coilclaw.packets.http import HttpRequest, HttpResponse, Principal

Answer: TypeAlias = HttpResponse | CoilclawError | Callable[[HttpRequest], HttpResponse]


class FakeArrival:
    """A scripted response, delivered in pieces."""

    def __init__(self, response: HttpResponse, piece: int) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body
        self._piece = piece

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces of the chosen size."""
        for start in range(0, len(self._body), self._piece):
            yield self._body[start : start + self._piece]


class FakeTransport:
    """Implements the Transport port: each URL's responses in turn, repeating the last; with a listing, it judges."""

    def __init__(
        self, answers: Mapping[str, Answer | tuple[Answer, ...]], *, listing: Listing | None = None, piece: int = 16
    ) -> None:
        self.seen: list[HttpRequest] = []
        """Every accepted request, in order."""
        self._turns = {url: _turns(scripted) for url, scripted in answers.items()}
        self._listing = listing
        self._piece = piece

    async def send(self, request: HttpRequest) -> HttpResponse:
        """The next scripted response, raised if it is an error."""
        await self.check(request.url, request.principal)
        self.seen.append(request)
        turns = self._turns.get(request.url)
        if not turns:
            raise EgressRefused(f"Nothing is scripted for {request.url}.", code="NOT_SCRIPTED")
        answer = turns.pop(0) if len(turns) > 1 else turns[0]
        if isinstance(answer, CoilclawError):
            raise answer
        return answer if isinstance(answer, HttpResponse) else answer(request)

    async def check(self, url: str, principal: Principal) -> None:
        """Judge the address, if there is a listing; nothing is looked up."""
        if self._listing is not None:
            judged = judge_url(url, principal, self._listing)
            if isinstance(judged, EgressVerdict):
                raise EgressRefused(f"The airlock refused this request: {judged.reason}.", code=judged.code)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[FakeArrival]:
        """The same response, piece by piece."""
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: HttpRequest) -> AsyncGenerator[FakeArrival]:
        yield FakeArrival(await self.send(request), self._piece)


def _turns(scripted: Answer | tuple[Answer, ...]) -> list[Answer]:
    if isinstance(scripted, HttpResponse | CoilclawError) or callable(scripted):
        return [scripted]
    return list(scripted)
