"""The configured model providers, and whether one answers."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

TEST_SECONDS = 30.0
LONGEST_ANSWER = 400


class ProviderListed(msgspec.Struct, frozen=True, kw_only=True):
    """A configured provider; its key is only ever named."""

    name: str
    kind: str
    model: str
    """The model it is asked for; empty for a provider that passes questions on."""
    base_url: str
    """Where it is, without user and password; empty when it is on no server."""
    key_name: str
    """The name of its key; empty when it needs none."""
    key_set: bool
    """Whether that key is there, in the environment or in the vault."""
    leans_on: list[str]
    """The providers it passes questions on to."""
    default: bool
    """Whether it is the one that answers."""


class ProviderTried(msgspec.Struct, frozen=True, kw_only=True):
    """A provider answered."""

    name: str
    model: str
    """Which model really answered."""
    seconds: float
    text: str
    """The beginning of its answer."""


class ConfiguredProviders:
    """The providers of one home."""

    def __init__(self, app: "Runtime", seconds: float = TEST_SECONDS) -> None:
        self._app = app
        self.seconds = seconds

    def listed(self) -> list[ProviderListed]:
        """Every configured provider."""
        from coilclaw.runtime.provider_test import listed_providers

        return [msgspec.convert(each, ProviderListed, from_attributes=True) for each in listed_providers(self._app)]

    async def ask(self, name: str) -> ProviderTried:
        """One short answer; a TimeoutError or ProviderError when there is none."""
        from coilclaw.runtime.provider_test import try_provider

        async with asyncio.timeout(self.seconds):
            tried = await try_provider(self._app, name)
        return ProviderTried(name=name, model=tried.model, seconds=tried.seconds, text=tried.text[:LONGEST_ANSWER])
