"""Model providers over HTTP: which there are, and whether one answers."""

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from coilclaw.features.status.providers import ConfiguredProviders, ProviderListed, ProviderTried
from coilclaw.packets.errors import ProviderError
from coilclaw.server.core import Core
from coilclaw.server.problems import NotThere, Trouble, problems


class ProviderList(msgspec.Struct, frozen=True, kw_only=True):
    """Every configured provider, in the order of the configuration."""

    items: list[ProviderListed]


class ProvidersController(Controller):
    """The model providers."""

    path = "/v1/providers"
    tags = ("providers",)

    @get(operation_id="listProviders")
    async def list_all(
        self, core: NamedDependency[Core], providers: NamedDependency[ConfiguredProviders]
    ) -> ProviderList:
        """The configured providers."""
        return ProviderList(
            items=[
                msgspec.structs.replace(each, base_url=core.said(each.base_url), model=core.said(each.model))
                for each in providers.listed()
            ]
        )

    @post("/{name:str}/test", operation_id="testProvider", status_code=200, responses=problems(404, 502, 504))
    async def test(
        self, core: NamedDependency[Core], providers: NamedDependency[ConfiguredProviders], name: FromPath[str]
    ) -> ProviderTried:
        """Ask a provider for one short answer. It may cost a few tokens."""
        if name not in {each.name for each in providers.listed()}:
            raise NotThere("such provider", "See GET /v1/providers.")
        try:
            tried = await providers.ask(name)
        except TimeoutError as error:
            raise Trouble(
                504,
                "PROVIDER_SLOW",
                f"{name} did not answer within {providers.seconds:g} seconds.",
                remedy="Try again; if that does not help, check the server it runs on.",
            ) from error
        except ProviderError as error:
            raise Trouble(502, "PROVIDER_FAILED", core.said(error.message), remedy=core.said(error.remedy)) from error
        return msgspec.structs.replace(tried, text=core.said(tried.text), model=core.said(tried.model))
