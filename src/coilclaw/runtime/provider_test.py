"""Providers as the owner set them up, and a short question to one of them to see whether it answers."""

import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


class ListedProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A configured provider; it holds the name of the key, never the key."""

    name: str
    kind: str
    model: str
    """The model requested from it; empty for a provider that delegates to others."""
    base_url: str
    """Its address, without user and password; empty when it has no server."""
    key_name: str
    """The name of its key; empty when it needs none."""
    key_set: bool
    """Whether that key is there, in the environment or in the vault."""
    leans_on: tuple[str, ...]
    """The providers it delegates to."""
    default: bool
    """Whether it is the default provider."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider answered."""

    text: str
    model: str
    seconds: float


def listed_providers(app: "Runtime") -> list[ListedProvider]:
    """Every configured provider, in the order of the file."""
    from coilclaw.config import MockModel, ReliableModel, RouterModel, ServerModel

    listed: list[ListedProvider] = []
    for name, model in app.config.providers.models.items():
        key = model.api_key_env if isinstance(model, ServerModel) else ""
        leans_on: tuple[str, ...] = ()
        if isinstance(model, ReliableModel):
            leans_on = model.providers
        elif isinstance(model, RouterModel):
            leans_on = tuple(dict.fromkeys((*model.routes.values(), model.default)))
        listed.append(
            ListedProvider(
                name=name,
                kind=model.kind,
                model=model.model if isinstance(model, MockModel | ServerModel) else "",
                base_url=model.base_url.rpartition("@")[2] if isinstance(model, ServerModel) else "",
                key_name=key,
                key_set=bool(key) and app.keyring.holds(key),
                leans_on=leans_on,
                default=name == app.config.default_provider,
            )
        )
    return listed


def model_asked(app: "Runtime") -> str:
    """The model that answers when nothing goes wrong."""
    from coilclaw.config import ReliableModel, RouterModel

    if app.config.default_model:
        return app.config.default_model
    models, name = app.config.providers.models, app.config.default_provider
    while isinstance(model := models[name], ReliableModel | RouterModel):
        name = model.providers[0] if isinstance(model, ReliableModel) else model.default
    return model.model


async def try_provider(app: "Runtime", name: str) -> Tried:
    """One short answer, without secrets, or the provider's error."""
    from coilclaw.packets.chat import ChatMessage, ChatRequest

    asked = app.provider(name)
    request = ChatRequest(
        system_prompt="Answer in one short sentence.",
        messages=(ChatMessage(role="user", content="Say hello."),),
        tools=(),
        model=app.config.default_model,
    )
    started = time.monotonic()
    response = await asked.chat(request)
    seconds = round(time.monotonic() - started, 3)
    return Tried(text=app.redactor.text(response.final_text.strip()), model=response.model, seconds=seconds)
