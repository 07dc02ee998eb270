"""The model as a turn sees it: one readable answer, with a repair try, a fallback, and ESTOP watching."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from coilclaw.agent.pictures import without_pictures
from coilclaw.agent.spending import Spent, spent_on
from coilclaw.gate.estop import Estop
from coilclaw.packets.chat import ChatRequest, ChatResponse
from coilclaw.packets.errors import ModelOutputError, ProviderRefused, ProviderUnavailable
from coilclaw.packets.ports import Provider

ReadProposal: TypeAlias = Callable[[str], ChatResponse | None]
OnText: TypeAlias = Callable[[str], None]
OnWait: TypeAlias = Callable[[str, float], None]
"""Receives why a model is retried later, and in how many seconds."""
PATIENCE = 120.0
"""Seconds that a turn waits for a model that is busy, from its first question on."""
LEAST_PAUSE = 0.5
"""Seconds before a busy model is asked again even if it says that it can be at once; each time twice as long."""
REPAIR = "Your last answer could not be read ({fault}). Answer again: plain text, or valid tool calls."


class Halted(Exception):
    """ESTOP came while the model was answering; its answer was cut off."""


class Model:
    """Asks."""

    def __init__(
        self,
        *,
        provider: Provider,
        model: str,
        fallback_model: str,
        read_proposal: ReadProposal,
        estop: Estop,
        patience: float = 0.0,
        on_wait: OnWait | None = None,
    ) -> None:
        self._provider = provider
        self._fallback_model = fallback_model
        self._read_proposal = read_proposal
        self._estop = estop
        self._patience = patience
        """How long to wait for a busy model; a job is put off instead, and frees its slot."""
        self._on_wait = on_wait
        self.name = model
        self.provider = provider.name

    async def ask(
        self, request: ChatRequest, spent: list[Spent], *, max_calls: int | None, on_text: OnText | None = None
    ) -> ChatResponse:
        """One answer: a repair try on the same model, then the fallback model once, then the failure is final.

        What was spent is added to `spent` answer by answer, so that it is known even when none could be read.
        """
        try:
            return await self._once(request, spent, max_calls, on_text)
        except ModelOutputError as error:
            fault = error.message
        repair = msgspec.structs.replace(
            request, system_prompt=f"{request.system_prompt}\n\n{REPAIR.format(fault=fault[:200])}"
        )
        try:
            return await self._once(repair, spent, max_calls, on_text)
        except ModelOutputError:
            if not self._fallback_model:
                raise
        last = msgspec.structs.replace(repair, model=self._fallback_model)
        return await self._once(last, spent, max_calls, on_text)

    async def _once(
        self, request: ChatRequest, spent: list[Spent], max_calls: int | None, on_text: OnText | None
    ) -> ChatResponse:
        return self._read(await self._patiently(request, spent, on_text), max_calls)

    async def _patiently(self, request: ChatRequest, spent: list[Spent], on_text: OnText | None) -> ChatResponse:
        """The answer of a model that may be busy for a while; no retry once text was shown."""
        began = asyncio.get_running_loop().time()
        shown, least = False, LEAST_PAUSE

        def show(piece: str) -> None:
            nonlocal shown
            shown = True
            if on_text is not None:
                on_text(piece)

        while True:
            try:
                return await self._paid(request, spent, show if on_text is not None else None)
            except ProviderUnavailable as error:
                seconds, why = error.retry_after, error.message
                passed = asyncio.get_running_loop().time() - began
                if shown or seconds is None or passed + seconds > self._patience:
                    raise
                seconds, least = max(seconds, least), least * 2
            if self._on_wait is not None:
                self._on_wait(why, seconds)
            await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        """Wait; ESTOP ends it."""
        if self._estop.engaged():
            return await asyncio.sleep(seconds)
        stop = asyncio.ensure_future(self._estop.wait())
        done, _ = await asyncio.wait({stop}, timeout=seconds)
        stop.cancel()
        if done:
            raise Halted
        return None

    async def _paid(self, request: ChatRequest, spent: list[Spent], on_text: OnText | None) -> ChatResponse:
        try:
            response = await self._seen_or_told(request, on_text)
        except (Halted, asyncio.CancelledError):  # the request was sent, and the provider charges for it
            spent.append(spent_on(request, ChatResponse(final_text="", provider=self.provider, model=request.model)))
            raise
        spent.append(spent_on(request, response))
        return response

    async def _seen_or_told(self, request: ChatRequest, on_text: OnText | None) -> ChatResponse:
        """An answer; a server that refuses pictures, as it may a broken one, is asked without them."""
        try:
            return await self._chat(request, on_text)
        except ProviderRefused:
            if not any(message.images for message in request.messages):
                raise
        return await self._chat(without_pictures(request), on_text)

    async def _chat(self, request: ChatRequest, on_text: OnText | None) -> ChatResponse:
        """Ask the model. ESTOP ends a request that is under way; once engaged, text is still answered."""
        if self._estop.engaged():
            return await self._provider.chat(request, on_text)
        work = asyncio.ensure_future(self._provider.chat(request, on_text))
        stop = asyncio.ensure_future(self._estop.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            raise Halted
        finally:
            stop.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})

    def _read(self, response: ChatResponse, max_calls: int | None) -> ChatResponse:
        """Native calls and the structured form are two spellings of the same proposal."""
        if not response.tool_calls:
            structured = self._read_proposal(response.final_text)
            if structured is not None:
                response = msgspec.structs.replace(
                    response, final_text=structured.final_text, tool_calls=structured.tool_calls
                )
        if not response.tool_calls and not response.final_text.strip():
            raise ModelOutputError("the model returned an empty answer.")
        if max_calls is not None and len(response.tool_calls) > max_calls:
            raise ModelOutputError(
                f"the model proposed {len(response.tool_calls)} calls at once; at most {max_calls} are allowed."
            )
        return response
