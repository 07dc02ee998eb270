"""A router: the request's hint chooses the provider, unless its model names one."""

from collections.abc import Callable, Mapping

import msgspec

from coilclaw.packets.chat import ChatRequest, ChatResponse, ProviderCapabilities
from coilclaw.packets.ports import Provider


class RouterProvider:
    """Sends a request to the provider named by its model or its hint, otherwise to the default."""

    def __init__(self, name: str, routes: Mapping[str, Provider], default: Provider) -> None:
        self.name = name
        self._routes = dict(routes)
        self._default = default

    def __repr__(self) -> str:
        routes = {hint: provider.name for hint, provider in self._routes.items()}
        return f"RouterProvider({self.name!r}, {routes!r}, default={self._default.name!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What every route can do, since any of them may be taken."""
        return ProviderCapabilities.shared(each.capabilities for each in (*self._routes.values(), self._default))

    def route(self, request: ChatRequest) -> Provider:
        """The provider for this request."""
        named = (each for each in (self._default, *self._routes.values()) if each.name == request.model)
        return next(named, None) or self._routes.get(request.metadata.get("hint", ""), self._default)

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Forward the request; the provider uses its own model."""
        return await self.route(request).chat(msgspec.structs.replace(request, model=""), on_text)
