"""A chain of providers: the first that answers wins, and failures are reported with their reason."""

from collections.abc import Callable, Sequence

import msgspec

from coilclaw.packets.chat import ChatRequest, ChatResponse, ProviderCapabilities
from coilclaw.packets.errors import ConfigError, ContextTooLong, ModelOutputError, ProviderError, ProviderUnavailable
from coilclaw.packets.ports import Provider


class ReliableProvider:
    """Tries providers in order, each with its own model. Text of a provider that fails is never mixed in."""

    def __init__(self, name: str, providers: Sequence[Provider], log: Callable[[str], None]) -> None:
        if not providers:
            raise ConfigError([f"providers.models.{name}.providers is empty: name at least one provider"])
        self.name = name
        self._providers = tuple(providers)
        self._log = log

    def __repr__(self) -> str:
        return f"ReliableProvider({self.name!r}, {[provider.name for provider in self._providers]!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What every provider of the chain can do, since any of them may answer."""
        return ProviderCapabilities.shared(provider.capabilities for provider in self._providers)

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """The first answer. Text is held back until its provider has finished; the last one streams live."""
        own = msgspec.structs.replace(request, model="")  # one model's name means nothing to another provider
        failures: list[tuple[str, ProviderError]] = []
        for provider in self._providers:
            last = len(failures) == len(self._providers) - 1
            held: list[str] = []
            try:
                answer = await provider.chat(own, on_text if last or on_text is None else held.append)
            except ProviderError as error:
                failures.append((provider.name, error))
                self._log(f"{provider.name} could not answer: {error.message}")
                continue
            if failures:
                self._log(f"{provider.name} answered instead of {', '.join(name for name, _ in failures)}.")
            if on_text is not None:
                for piece in held:
                    on_text(piece)
            return answer
        raise self._all_failed(failures)

    def _all_failed(self, failures: list[tuple[str, ProviderError]]) -> ProviderError:
        told = "; ".join(f"{name}: {error.message}" for name, error in failures)
        message = f"No provider of {self.name} could answer. {told}"
        remedy = next((error.remedy for _, error in failures if error.remedy), "")
        if all(isinstance(error, ModelOutputError) for _, error in failures):
            return ModelOutputError(message, remedy=remedy)  # they are reachable, but their answers are invalid
        if any(isinstance(error, ContextTooLong) for _, error in failures):
            return ContextTooLong(message, remedy=remedy)  # that one can answer what is shorter
        waits = [
            error.retry_after
            for _, error in failures
            if isinstance(error, ProviderUnavailable) and error.retry_after is not None
        ]
        return ProviderUnavailable(message, remedy=remedy, retry_after=min(waits, default=None))
