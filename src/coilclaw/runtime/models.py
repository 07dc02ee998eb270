"""Model providers from the configuration: part of the wiring, like app.py."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.config import Config
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.names import did_you_mean

if TYPE_CHECKING:
    from coilclaw.config import MockModel, OpenAIModel
    from coilclaw.packets.ports import Provider, Transport


class Models:
    """Builds providers by the names the owner gave them."""

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str],
        transport: "Callable[[], Transport]",
        say: Callable[[str, str, dict[str, Json]], None],
    ) -> None:
        self._config = config
        self._environ = environ
        self._transport = transport
        self._say = say

    def provider(self, name: str) -> "Provider":
        """The provider of that name, with those it leans on."""
        from coilclaw.config import MockModel, OpenAIModel, ReliableModel

        model = self._config.providers.models.get(name)
        if model is None:
            raise UsageError(
                f"there is no provider named {name!r}.", remedy=did_you_mean(name, self._config.providers.models)
            )
        if isinstance(model, MockModel):
            return self._mock(name, model)
        if isinstance(model, OpenAIModel):
            return self._openai(name, model)
        if isinstance(model, ReliableModel):
            from coilclaw.providers.reliable import ReliableProvider

            return ReliableProvider(name, [self.provider(each) for each in model.providers], self._fell)
        from coilclaw.providers.router import RouterProvider

        routes = {hint: self.provider(each) for hint, each in model.routes.items()}
        return RouterProvider(name, routes, self.provider(model.default))

    def _fell(self, text: str) -> None:
        self._say("warning", "provider_fallback", {"message": text})

    def _mock(self, name: str, model: "MockModel") -> "Provider":
        import asyncio

        from coilclaw.providers.mock import MockProvider
        from coilclaw.providers.script import Script

        chosen = self._environ.get("COILCLAW_MOCK_SCRIPT") or model.script
        script = Script.read(Path(chosen)) if chosen else None
        return MockProvider(name, model.model, script, sleep=asyncio.sleep)

    def _openai(self, name: str, model: "OpenAIModel") -> "Provider":
        import asyncio
        import random

        from coilclaw.providers.openai import OpenAIProvider

        return OpenAIProvider(
            name,
            model.base_url,
            model.model,
            self._environ.get(model.api_key_env) if model.api_key_env else None,
            self._transport(),
            sleep=asyncio.sleep,
            random=random.random,
            api_key_env=model.api_key_env,
            timeout_seconds=model.timeout_seconds,
            max_response_bytes=self._config.agent.max_response_bytes,
            max_retries=model.max_retries,
            temperature=model.temperature,
            max_output_tokens=model.max_output_tokens,
        )
