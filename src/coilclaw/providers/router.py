"""A router: the request's hint chooses who answers."""

from collections.abc import Callable, Mapping

import msgspec

from coilclaw.packets.chat import ChatRequest, ChatResponse, ProviderCapabilities
from coilclaw.packets.ports import Provider


class RouterProvider:
    """Sends a request to the provider its hint names, and to the default when it names none."""

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
        each = [provider.capabilities for provider in (*self._routes.values(), self._default)]
        return ProviderCapabilities(
            tool_calls=all(one.tool_calls for one in each),
            streaming=all(one.streaming for one in each),
            local=all(one.local for one in each),
        )

    def route(self, request: ChatRequest) -> Provider:
        """Who would answer this request."""
        return self._routes.get(request.metadata.get("hint", ""), self._default)

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Pass the request on; the provider asks for its own model."""
        return await self.route(request).chat(msgspec.structs.replace(request, model=""), on_text)
