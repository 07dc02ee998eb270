"""A model on a server, reached over HTTP through the airlock; its API is passed in as a wire."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from coilclaw.packets.chat import ChatRequest, ChatResponse, ProviderCapabilities
from coilclaw.packets.errors import EgressRefused, ModelOutputError, ProviderError, ProviderRefused, TransportError
from coilclaw.packets.http import HttpRequest
from coilclaw.packets.ids import Clock, utc_now
from coilclaw.packets.ports import StreamedResponse, Transport
from coilclaw.providers.answer import ModelAnswer, ReportedError, UnreadableAnswer
from coilclaw.providers.endpoint import Endpoint, usable_key
from coilclaw.providers.faults import Faults
from coilclaw.providers.known_models import context_window, sees
from coilclaw.providers.retry import Backoff, Random, Sleep, retry_after_seconds, with_retries
from coilclaw.providers.sse import EventReader

if TYPE_CHECKING:
    import asyncio

Taken = TypeVar("Taken")
Headers: TypeAlias = tuple[tuple[str, str], ...]
LONGEST_SECONDS = 3600.0
"""One attempt, however steadily it arrives."""
SLACK = 1 << 16
"""Extra bytes for the transport, so that our limit applies before the airlock's."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's options for every request; the request's own values win."""

    model: str
    temperature: float | None = None
    max_output_tokens: int | None = None
    context_window: int | None = None
    sees: bool | None = None
    """The last two default to what is known about the model's name."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one request: the provider's, overridden by the request's."""

    model: str
    stream: bool
    sees: bool
    temperature: float | None
    max_output_tokens: int | None


class ModelWire(Protocol):
    """One kind of API."""

    speaks: str
    """What a base_url should point to, in words."""
    path: str
    models_path: str
    sees: bool
    """Whether an unknown model is assumed to have vision."""

    def headers(self, key: str | None) -> Headers:
        """The credentials header, and headers that the API always requires."""
        ...

    def body(self, request: ChatRequest, asked: Asked) -> bytes:
        """The body of the request."""
        ...

    def adapt(self, complaint: str) -> bool:
        """Whether to retry another way after a 400 with this text; must end after a few times."""
        ...

    def answer(self, on_text: Callable[[str], None] | None) -> ModelAnswer:
        """The parser of the answer."""
        ...


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: list[_Model]


class RemoteProvider:
    """One model on one server, with limits on bytes, seconds and attempts."""

    def __init__(
        self,
        name: str,
        base_url: str,
        model: str,
        api_key: str | None,
        transport: Transport,
        *,
        wire: ModelWire,
        sleep: Sleep,
        random: Random,
        clock: Clock = utc_now,
        api_key_env: str = "",
        timeout_seconds: float = 60.0,
        max_response_bytes: int = 1 << 20,
        max_retries: int = 3,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        context_window: int | None = None,
        sees: bool | None = None,
        stream: bool = True,
    ) -> None:
        key = usable_key(name, api_key)
        self.name = name
        self._endpoint = Endpoint.of(name, base_url)
        self._wire = wire
        self._options = Options(
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            context_window=context_window,
            sees=sees,
        )
        self._transport = transport
        self._sleep = sleep
        self._random = random
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._max_response_bytes = max_response_bytes
        self._backoff = Backoff(retries=max_retries)
        self._stream = stream
        # The key lives only in these two closures, so that no repr or dump of this object can show it.
        self._authorization: Callable[[], Headers] = lambda: wire.headers(key)
        self._faults = Faults(
            name=name,
            speaks=wire.speaks,
            base_url=self._endpoint.base_url,
            model=model,
            api_key_env=api_key_env,
            has_key=bool(key),
            scrub=lambda text: text.replace(key, "[api key]") if key else text,
        )

    def __repr__(self) -> str:
        return f"RemoteProvider({self.name!r}, {self._endpoint.base_url!r}, {self._options.model!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What the protocol can do; whether the model uses tools well is another matter."""
        options = self._options
        return ProviderCapabilities(
            tool_calls=True,
            streaming=self._stream,
            local=self._endpoint.local,
            sees=self._sees(options.model),
            context_window=options.context_window or context_window(options.model),
        )

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer once, retrying transient failures as long as no text was passed to `on_text`."""
        shown = False

        def show(piece: str) -> None:
            nonlocal shown
            shown = True
            if on_text is not None:
                on_text(piece)

        return await with_retries(
            lambda: self._ask(request, show if on_text is not None else None),
            backoff=self._backoff,
            sleep=self._sleep,
            random=self._random,
            may_repeat=lambda: not shown,
        )

    async def check(self) -> str:
        """Request the server's models and say in one sentence whether ours is among them."""
        async with self._exchange("GET", self._wire.models_path) as response:
            body = await self._whole(response)
            if response.status != 200:
                raise self._failed(response, body)
        try:
            listing = msgspec.json.decode(body, type=_Models)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._faults.unreadable(str(error), body) from error
        names = [self._faults.quote(model.id) for model in listing.data]
        count = f"{len(names)} model{'' if len(names) == 1 else 's'}"
        if self._options.model in names:
            return f"{self._endpoint.base_url} answers and has {count}; {self._options.model} is one of them."
        known = ", ".join(sorted(names)[:8]) or "none"
        return f"{self._endpoint.base_url} answers and has {count}, but {self._options.model} is not listed ({known})."

    def _sees(self, model: str) -> bool:
        return sees(model, self._wire.sees) if self._options.sees is None else self._options.sees

    async def _ask(self, request: ChatRequest, show: Callable[[str], None] | None) -> ChatResponse:
        options, model = self._options, request.model or self._options.model
        asked = Asked(
            model=model,
            stream=self._stream and show is not None,
            sees=self._sees(model),
            temperature=options.temperature if request.temperature is None else request.temperature,
            max_output_tokens=request.max_output_tokens or options.max_output_tokens,
        )
        while True:
            body = self._wire.body(request, asked)
            async with self._exchange("POST", self._wire.path, body) as response:
                if response.status == 200:
                    answer = self._wire.answer(show)
                    if _header(response, "content-type").lower().startswith("text/event-stream"):
                        await self._read_events(response, answer)
                    else:
                        self._read(answer.read_body, await self._whole(response))
                    return answer.response(self.name, model, f"call_{len(request.messages)}")
                complaint = await self._whole(response)
                if response.status not in {400, 422} or not self._wire.adapt(complaint.decode("utf-8", "replace")):
                    raise self._failed(response, complaint)

    async def _read_events(self, response: "_Arriving", answer: ModelAnswer) -> None:
        """Read until the answer is complete. Half an answer is a fault, however much of it arrived."""
        reader = EventReader()
        async with aclosing(self._capped(response)) as chunks:
            async for chunk in chunks:
                for event in reader.feed(chunk):
                    if self._read(answer.read_event, event):
                        return
        rest = (reader.close() or b"").strip()
        if rest:
            with suppress(ModelOutputError):  # cut inside an event: reported below
                if self._read(answer.read_event, rest):
                    return
        if not answer.may_end:
            raise self._faults.broken_off("the stream ended in the middle of the answer")

    def _read(self, take: Callable[[bytes], Taken], data: bytes) -> Taken:
        try:
            return take(data)
        except (msgspec.DecodeError, UnicodeDecodeError, UnreadableAnswer) as error:
            raise self._faults.unreadable(str(error), data) from error
        except ReportedError as error:
            raise self._faults.reported(error.error) from None

    async def _whole(self, response: "_Arriving") -> bytes:
        return b"".join([chunk async for chunk in self._capped(response)])

    async def _capped(self, response: "_Arriving") -> AsyncGenerator[bytes, None]:
        size = 0
        announced = _header(response, "content-length")
        if announced.isdecimal() and int(announced) > self._max_response_bytes:
            raise self._faults.too_large(self._max_response_bytes)
        chunks = response.chunks()
        try:
            async for chunk in chunks:
                response.came()
                size += len(chunk)
                if size > self._max_response_bytes:
                    raise self._faults.too_large(self._max_response_bytes)
                yield chunk
        finally:
            if isinstance(chunks, AsyncGenerator):  # abandoned early: close it now, not at garbage collection
                await chunks.aclose()

    def _failed(self, response: "_Arriving", body: bytes) -> ProviderError:
        asked = retry_after_seconds(_header(response, "retry-after"), self._clock)
        return self._faults.failed(response.status, body, asked)

    @asynccontextmanager
    async def _exchange(
        self, method: Literal["GET", "POST"], path: str, body: bytes = b""
    ) -> AsyncGenerator["_Arriving", None]:
        """One request and its answer, no pause longer than `timeout_seconds`; failures become provider errors."""
        import asyncio

        content: Headers = (("Content-Type", "application/json"),) if body else ()
        request = HttpRequest(
            principal="provider",
            method=method,
            url=self._endpoint.base_url + path,
            headers=(("Accept", "application/json, text/event-stream"), *content, *self._authorization()),
            body=body,
            timeout_seconds=max(LONGEST_SECONDS, self._timeout_seconds),
            idle_seconds=self._timeout_seconds,
            max_bytes=self._max_response_bytes + SLACK,
        )
        try:
            async with asyncio.timeout(self._timeout_seconds) as idle, self._transport.stream(request) as response:
                yield _Arriving(response, idle, self._timeout_seconds)
        except TimeoutError as error:
            raise self._faults.broken_off(f"nothing within {self._timeout_seconds:g} s", timeout=True) from error
        except TransportError as error:
            raise self._faults.broken_off(error.message, timeout=error.timeout) from error
        except EgressRefused as error:
            raise ProviderRefused(f"{self.name} cannot be reached: {error.message}", remedy=error.remedy) from error


class _Arriving:
    """A response that has so many seconds for each piece: long answers are written for minutes."""

    def __init__(self, response: StreamedResponse, idle: "asyncio.Timeout", seconds: float) -> None:
        self.status = response.status
        self.headers = response.headers
        self.chunks = response.chunks
        self._idle = idle
        self._seconds = seconds

    def came(self) -> None:
        """A piece has arrived: the time for the next begins."""
        when = self._idle.when()
        if when is not None and not self._idle.expired():
            import asyncio

            self._idle.reschedule(asyncio.get_running_loop().time() + self._seconds)


def _header(response: _Arriving, name: str) -> str:
    return next((value for key, value in response.headers if key.lower() == name), "")
