"""The section `[providers]`: who answers, and how each kind of model is reached."""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from coilclaw.config.notify import EnvName

Seconds = Annotated[float, Meta(ge=0.05, le=3600)]
Tokens = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]
ContextWindow = Annotated[int, Meta(ge=1024, le=100_000_000)]


class MockModel(msgspec.Struct, frozen=True, kw_only=True):
    """Scripted, deterministic answers, for trying things out and for tests. Needs no network and no key."""

    kind: Literal["mock"] = "mock"
    """The kind of provider."""
    model: str = "mock"
    """The model name in its answers."""
    script: Path | None = None
    """A file of scripted answers, relative to the home. `COILCLAW_MOCK_SCRIPT` sets one for a single run."""
    context_window: ContextWindow | None = None
    """The context window that it claims. Not set: 32768."""


class ServerModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model on a server, local or remote."""

    kind: str = ""
    """The kind of provider."""
    model: str = ""
    """The model to use; required."""
    base_url: str = ""
    """The server's base URL; required."""
    api_key_env: EnvName = ""
    """The name of the environment variable or stored secret with the key, never the key. Empty: none is sent."""
    timeout_seconds: Seconds = 60.0
    """The longest pause in an answer, and the time to its first byte; one that keeps arriving may take an hour."""
    max_retries: Annotated[int, Meta(ge=0, le=20)] = 3
    """How often a request is retried after a timeout, 429 or 5xx."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """The sampling temperature. Not set: the server decides."""
    max_output_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    """Maximum length of an answer. Not set: the server decides."""
    context_window: ContextWindow | None = None
    """Tokens that a request and its answer may have together. Not set: known for well-known models, else 32768."""
    sees: bool | None = None
    """Whether the model has vision; without it, a line of text replaces a picture. Not set: known for
    well-known models, else false."""


class OpenAIModel(ServerModel, frozen=True, kw_only=True):
    """A server with the OpenAI chat completions API, local or remote."""

    kind: Literal["openai-compatible"] = "openai-compatible"
    """The kind of provider."""
    base_url: str = ""
    """The server's URL without `/chat/completions`, such as `http://localhost:1234/v1`; required.
    The airlock lets this provider reach exactly this host and port."""


class AnthropicModel(ServerModel, frozen=True, kw_only=True):
    """Anthropic's own API, or a server with its Messages API."""

    kind: Literal["anthropic"] = "anthropic"
    """The kind of provider."""
    base_url: str = "https://api.anthropic.com/v1"
    """The server's URL without `/messages`. The airlock lets this provider reach exactly this host and
    port."""
    timeout_seconds: Seconds = 180.0
    """The longest pause in an answer, and the time to its first byte; one that keeps arriving may take an hour."""
    max_output_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    """Maximum length of an answer. Not set: 16000."""
    sees: bool | None = None
    """Whether the model has vision; without it, a line of text replaces a picture. Not set: known for
    well-known models, else true."""


class ResponsesModel(ServerModel, frozen=True, kw_only=True):
    """OpenAI's own API, or a server with its Responses API."""

    kind: Literal["openai-responses"] = "openai-responses"
    """The kind of provider."""
    base_url: str = "https://api.openai.com/v1"
    """The server's URL without `/responses`. The airlock lets this provider reach exactly this host and
    port."""
    timeout_seconds: Seconds = 180.0
    """The longest pause in an answer, and the time to its first byte; one that keeps arriving may take an hour."""
    sees: bool | None = None
    """Whether the model has vision; without it, a line of text replaces a picture. Not set: known for
    well-known models, else true."""


class GoogleModel(ServerModel, frozen=True, kw_only=True):
    """Google's Gemini API, for coding sessions only: the agent itself does not speak it."""

    kind: Literal["google"] = "google"
    """The kind of provider."""
    base_url: str = "https://generativelanguage.googleapis.com/v1beta"
    """The server's URL without `/models`. The airlock lets sessions reach exactly this host and port."""


class ReliableModel(msgspec.Struct, frozen=True, kw_only=True):
    """Tries other providers in order until one answers."""

    kind: Literal["reliable"] = "reliable"
    """The kind of provider."""
    providers: tuple[str, ...] = ()
    """Names of other providers, tried from first to last; required."""


class RouterModel(msgspec.Struct, frozen=True, kw_only=True):
    """Chooses a provider by the request's hint: `chat`, `route`, `plan`, `job`, `author`, `summarise`."""

    kind: Literal["router"] = "router"
    """The kind of provider."""
    routes: dict[str, str] = {}
    """For each hint, the name of the provider that answers it."""
    default: str = ""
    """The provider for requests without a hint or without a matching route; required."""


ProviderModel: TypeAlias = (
    MockModel | OpenAIModel | AnthropicModel | ResponsesModel | GoogleModel | ReliableModel | RouterModel
)
MODEL_KINDS: dict[str, type[ProviderModel]] = {
    "mock": MockModel,
    "openai-compatible": OpenAIModel,
    "anthropic": AnthropicModel,
    "openai-responses": ResponsesModel,
    "google": GoogleModel,
    "reliable": ReliableModel,
    "router": RouterModel,
}


def default_models() -> dict[str, ProviderModel]:
    """The providers if the file names none."""
    return {"local": MockModel()}


class Providers(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers. Each provider is a table `[providers.models.NAME]`; its keys depend on its `kind`."""

    models: dict[str, ProviderModel] = msgspec.field(default_factory=default_models)
    """The providers by name."""
