"""Measurements: how long providers and decisions take, and an audit event for each provider failure."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from coilclaw.ledger.audit import add_event
from coilclaw.packets.chat import ChatRequest, ChatResponse, ProviderCapabilities
from coilclaw.packets.errors import ModelOutputError, ProviderError, ProviderRefused, StorageError
from coilclaw.providers.tool_names import incoming, outgoing

if TYPE_CHECKING:
    from coilclaw.packets.ports import Provider
    from coilclaw.runtime.runtime import Runtime


class MeasuredProvider:
    """Wraps a provider and measures its answers."""

    def __init__(self, provider: "Provider", app: "Runtime") -> None:
        self._provider = provider
        self._app = app

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        return self._provider.name

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What it can do."""
        return self._provider.capabilities

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer once; a failure is recorded and re-raised."""
        started = time.perf_counter()
        try:
            answer = incoming(await self._provider.chat(outgoing(request), on_text), request)
        except ProviderError as error:
            app, name, code = self._app, self.name, _code(error)
            with suppress(StorageError):  # the caller must see the provider's error, not the database's
                await app.db.write(lambda tx: add_event(tx, app.clock, "provider_failed", name, {"code": code}))
            raise
        self._app.measure("provider", self.name, time.perf_counter() - started)
        return answer


def _code(error: ProviderError) -> str:
    if isinstance(error, ModelOutputError):
        return "UNREADABLE"
    return "REFUSED" if isinstance(error, ProviderRefused) else "UNAVAILABLE"


def timed_boundaries(app: "Runtime") -> Callable[[str], None]:
    """Hands on the boundaries of a conveyor, and measures how long each decision took.

    Nothing else runs between `proposed` and `decided`, so that one moment is all there is to remember.
    """
    began = 0.0

    def reached(boundary: str) -> None:
        nonlocal began
        if boundary == "proposed":
            began = time.perf_counter()
        elif boundary == "decided" and began:
            app.measure("decision", "", time.perf_counter() - began)
            began = 0.0
        app.reached(boundary)

    return reached
