"""Model providers over HTTP: which there are, and whether one answers."""

from collections.abc import Awaitable
from typing import Protocol, runtime_checkable

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from coilclaw.server.core import Core
from coilclaw.server.problems import NotThere, problems


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


class ProviderList(msgspec.Struct, frozen=True, kw_only=True):
    """Every configured provider, in the order of the configuration."""

    items: list[ProviderListed]


class ProviderTried(msgspec.Struct, frozen=True, kw_only=True):
    """A provider answered."""

    name: str
    model: str
    """Which model really answered."""
    seconds: float
    text: str
    """The beginning of its answer."""


@runtime_checkable
class ProviderDesk(Protocol):
    """The providers, as the App knows them."""

    def listed(self) -> list[ProviderListed]:
        """Every configured provider."""
        ...

    def ask(self, name: str) -> Awaitable[ProviderTried]:
        """One short answer, or why there is none; never longer than half a minute."""
        ...


class ProvidersController(Controller):
    """The model providers."""

    path = "/v1/providers"
    tags = ("providers",)

    @get(operation_id="listProviders")
    async def list_all(self, core: NamedDependency[Core], provider_desk: NamedDependency[ProviderDesk]) -> ProviderList:
        """The configured providers."""
        return ProviderList(
            items=[
                msgspec.structs.replace(each, base_url=core.said(each.base_url), model=core.said(each.model))
                for each in provider_desk.listed()
            ]
        )

    @post("/{name:str}/test", operation_id="testProvider", status_code=200, responses=problems(404, 502, 504))
    async def test(
        self, core: NamedDependency[Core], provider_desk: NamedDependency[ProviderDesk], name: FromPath[str]
    ) -> ProviderTried:
        """Ask a provider for one short answer. It may cost a few tokens."""
        if name not in {each.name for each in provider_desk.listed()}:
            raise NotThere("such provider", "See GET /v1/providers.")
        tried = await provider_desk.ask(name)
        return msgspec.structs.replace(tried, text=core.said(tried.text), model=core.said(tried.model))
