"""Any server that speaks POST /chat/completions and GET /models the way OpenAI's does."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.chat import ChatRequest, ChatResponse, ProviderCapabilities
from coilclaw.packets.errors import EgressRefused, ProviderError, ProviderRefused, TransportError
from coilclaw.packets.http import HttpRequest
from coilclaw.packets.ids import Clock, utc_now
from coilclaw.packets.ports import StreamedResponse, Transport
from coilclaw.providers.answer import Assembly, WireAnswer, decode
from coilclaw.providers.endpoint import Endpoint, usable_key
from coilclaw.providers.faults import Faults
from coilclaw.providers.retry import Backoff, Random, Sleep, retry_after_seconds, with_retries
from coilclaw.providers.sse import EventReader
from coilclaw.providers.wire import Dialect, Options, other_dialect, request_body

Headers: TypeAlias = tuple[tuple[str, str], ...]
SLACK = 1 << 16
"""Bytes the transport may bring beyond our cap, so that it is our cap that speaks."""


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: list[_Model]


class OpenAIProvider:
    """One model at one OpenAI-compatible server. Bounded in bytes, seconds and tries."""

    def __init__(
        self,
        name: str,
        base_url: str,
        model: str,
        api_key: str | None,
        transport: Transport,
        *,
        sleep: Sleep,
        random: Random,
        clock: Clock = utc_now,
        api_key_env: str = "",
        timeout_seconds: float = 60.0,
        max_response_bytes: int = 1 << 20,
        max_retries: int = 3,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        stream: bool = True,
    ) -> None:
        key = usable_key(name, api_key)
        self.name = name
        self._endpoint = Endpoint.of(name, base_url)
        self._options = Options(model=model, temperature=temperature, max_output_tokens=max_output_tokens)
        self._transport = transport
        self._sleep = sleep
        self._random = random
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._max_response_bytes = max_response_bytes
        self._backoff = Backoff(retries=max_retries)
        self._stream = stream
        self._dialect = Dialect()
        # The key lives in these two closures alone, so that no repr or dump of this object can show it.
        self._authorization: Callable[[], Headers] = lambda: (("Authorization", f"Bearer {key}"),) if key else ()
        self._faults = Faults(
            name=name,
            base_url=self._endpoint.base_url,
            model=model,
            api_key_env=api_key_env,
            has_key=bool(key),
            scrub=lambda text: text.replace(key, "[api key]") if key else text,
        )

    def __repr__(self) -> str:
        return f"OpenAIProvider({self.name!r}, {self._endpoint.base_url!r}, {self._options.model!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What the protocol can do; whether the model uses tools well is another matter."""
        return ProviderCapabilities(tool_calls=True, streaming=self._stream, local=self._endpoint.local)

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer once, trying again on passing failures as long as no text was handed to `on_text`."""
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
        """Ask the server for its models and say in one sentence whether ours is among them."""
        async with self._exchange("GET", "/models") as response:
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

    async def _ask(self, request: ChatRequest, show: Callable[[str], None] | None) -> ChatResponse:
        stream = self._stream and show is not None
        while True:
            body = request_body(request, self._options, self._dialect, stream=stream)
            async with self._exchange("POST", "/chat/completions", body) as response:
                if response.status == 200:
                    assembly = Assembly(show)
                    if _header(response, "content-type").lower().startswith("text/event-stream"):
                        await self._read_events(response, assembly)
                    else:
                        self._read_whole(await self._whole(response), assembly)
                    model = request.model or self._options.model
                    return assembly.response(self.name, model, f"call_{len(request.messages)}")
                complaint = await self._whole(response)
                other = other_dialect(self._dialect, complaint.decode("utf-8", "replace"))
                if response.status not in {400, 422} or other is None:
                    raise self._failed(response, complaint)
                self._dialect = other  # each can change only once, so this ends

    def _read_whole(self, body: bytes, assembly: Assembly) -> None:
        answer = self._decode(body)
        if not answer.choices:
            raise self._faults.unreadable("it contains no choices", body)
        assembly.add(answer)

    async def _read_events(self, response: StreamedResponse, assembly: Assembly) -> None:
        """Read until [DONE]; a stream that only ends must have told a finish_reason before."""
        reader = EventReader()
        async with aclosing(self._capped(response)) as chunks:
            async for chunk in chunks:
                for event in reader.feed(chunk):
                    if event.strip() == b"[DONE]":
                        return
                    assembly.add(self._decode(event))
        rest = (reader.close() or b"").strip()
        if rest and rest != b"[DONE]":
            with suppress(msgspec.DecodeError, UnicodeDecodeError):  # cut inside an event: told below
                assembly.add(decode(rest))
        if rest != b"[DONE]" and not assembly.finish_reason:
            raise self._faults.broken_off("the stream ended in the middle of the answer")

    def _decode(self, data: bytes) -> WireAnswer:
        try:
            answer = decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._faults.unreadable(str(error), data) from error
        if answer.failed:
            raise self._faults.reported(bytes(answer.error))
        return answer

    async def _whole(self, response: StreamedResponse) -> bytes:
        return b"".join([chunk async for chunk in self._capped(response)])

    async def _capped(self, response: StreamedResponse) -> AsyncGenerator[bytes, None]:
        size = 0
        announced = _header(response, "content-length")
        if announced.isdecimal() and int(announced) > self._max_response_bytes:
            raise self._faults.too_large(self._max_response_bytes)
        chunks = response.chunks()
        try:
            async for chunk in chunks:
                size += len(chunk)
                if size > self._max_response_bytes:
                    raise self._faults.too_large(self._max_response_bytes)
                yield chunk
        finally:
            if isinstance(chunks, AsyncGenerator):  # left before its end: close it now, not when it is collected
                await chunks.aclose()

    def _failed(self, response: StreamedResponse, body: bytes) -> ProviderError:
        asked = retry_after_seconds(_header(response, "retry-after"), self._clock)
        return self._faults.failed(response.status, body, asked)

    @asynccontextmanager
    async def _exchange(
        self, method: Literal["GET", "POST"], path: str, body: bytes = b""
    ) -> AsyncGenerator[StreamedResponse, None]:
        """One request and its answer within `timeout_seconds`, every failure of the way there told as ours."""
        import asyncio

        content: Headers = (("Content-Type", "application/json"),) if body else ()
        request = HttpRequest(
            principal="provider",
            method=method,
            url=self._endpoint.base_url + path,
            headers=(("Accept", "application/json, text/event-stream"), *content, *self._authorization()),
            body=body,
            timeout_seconds=self._timeout_seconds,
            max_bytes=self._max_response_bytes + SLACK,
        )
        try:
            async with asyncio.timeout(self._timeout_seconds), self._transport.stream(request) as response:
                yield response
        except TimeoutError as error:
            raise self._faults.broken_off(f"nothing within {self._timeout_seconds:g} s", timeout=True) from error
        except TransportError as error:
            raise self._faults.broken_off(error.message, timeout=error.timeout) from error
        except EgressRefused as error:
            raise ProviderRefused(f"{self.name} cannot be reached: {error.message}", remedy=error.remedy) from error


def _header(response: StreamedResponse, name: str) -> str:
    return next((value for key, value in response.headers if key.lower() == name), "")
