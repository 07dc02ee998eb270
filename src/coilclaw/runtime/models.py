"""Model providers from the configuration: part of the wiring, like app.py."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.config import Config
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import DEFAULT_CONTEXT_WINDOW
from coilclaw.packets.errors import UsageError
from coilclaw.packets.names import did_you_mean

if TYPE_CHECKING:
    from coilclaw.config import MockModel, ServerModel
    from coilclaw.packets.ports import Provider, Transport
    from coilclaw.providers.remote import ModelWire


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
        """The provider of that name, with those it delegates to."""
        from coilclaw.config import GoogleModel, MockModel, ReliableModel, ServerModel

        model = self._config.providers.models.get(name)
        if model is None:
            raise UsageError(
                f"there is no provider named {name!r}.", remedy=did_you_mean(name, self._config.providers.models)
            )
        if isinstance(model, MockModel):
            return self._mock(name, model)
        if isinstance(model, GoogleModel):
            raise UsageError(
                f"the provider {name!r} serves coding sessions only: the agent does not speak Google's API.",
                remedy="Name a provider of another kind.",
            )
        if isinstance(model, ServerModel):
            return self._remote(name, model)
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

        chosen = self._environ.get("COILCLAW_MOCK_SCRIPT") or model.script
        script = None
        if chosen:
            from coilclaw.providers.script import Script

            script = Script.read(Path(chosen))
        window = model.context_window or DEFAULT_CONTEXT_WINDOW
        return MockProvider(name, model.model, script, sleep=asyncio.sleep, context_window=window)

    def _remote(self, name: str, model: "ServerModel") -> "Provider":
        import asyncio
        import random

        from coilclaw.providers.remote import RemoteProvider

        return RemoteProvider(
            name,
            model.base_url,
            model.model,
            self._environ.get(model.api_key_env) if model.api_key_env else None,
            self._transport(),
            wire=_wire(model),
            sleep=asyncio.sleep,
            random=random.random,
            api_key_env=model.api_key_env,
            timeout_seconds=model.timeout_seconds,
            max_response_bytes=self._config.agent.max_response_bytes,
            max_retries=model.max_retries,
            temperature=model.temperature,
            max_output_tokens=model.max_output_tokens,
            context_window=model.context_window,
            sees=model.sees,
        )


def _wire(model: "ServerModel") -> "ModelWire":
    """The wire format for a server; only the configured one is imported."""
    from coilclaw.config import AnthropicModel, ResponsesModel

    if isinstance(model, AnthropicModel):
        from coilclaw.providers.messages import MessagesWire

        return MessagesWire()
    if isinstance(model, ResponsesModel):
        from coilclaw.providers.responses import ResponsesWire

        return ResponsesWire()
    from coilclaw.providers.completions import CompletionsWire

    return CompletionsWire()
