"""The guests of an open home: where each call goes, and whether a pin still stands for what is configured."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.features.guests.offer import GuestOffer, OfferedTool, Pin, grant_of
from coilclaw.packets.canonical import Json
from coilclaw.packets.ports import Context

if TYPE_CHECKING:
    from coilclaw.config.mcp import McpServer
    from coilclaw.features.guests.mcp_client import CallResult
    from coilclaw.features.guests.mcp_messages import Blob
    from coilclaw.features.guests.running import RunningGuests
    from coilclaw.runtime.runtime import Runtime


class Guests:
    """Carries calls to guests. One for an open home, so that servers outlive a changed configuration."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._servers: RunningGuests | None = None

    async def call(self, pin: Pin, tool: OfferedTool, arguments: dict[str, Json], context: Context) -> "CallResult":
        """Call a pinned tool once."""
        if pin.offer.grant.kind == "plugin":
            from coilclaw.features.guests.plugin_call import call_plugin

            result = await call_plugin(self._app, pin, tool, arguments, context.idempotency_key)
        else:
            idle = self._app.config.mcp.servers[pin.offer.name].idle_seconds
            result = await self.servers.call(pin, tool, arguments, context, idle_seconds=idle)
        return await asyncio.to_thread(_without_secrets, self._app, result)

    async def look(self, name: str, server: "McpServer") -> GuestOffer:
        """Start a server once and see what it offers."""
        return await self.servers.look(name, server)

    @property
    def servers(self) -> "RunningGuests":
        """The servers that run for this process."""
        if self._servers is None:
            from coilclaw.features.guests.running import RunningGuests

            self._servers = RunningGuests(self._app)
            self._app.leaving.append(self._servers.close)
        return self._servers

    def is_configured(self, pin: Pin) -> bool:
        """Whether the guest is given now what it was given when it was approved."""
        name, grant = pin.offer.name, pin.offer.grant
        if grant.kind == "plugin":
            return (self._app.home.plugins_dir / name / "manifest.toml").is_file()
        server = self._app.config.mcp.servers.get(name)
        return server is not None and grant_of(server, grant.program) == grant

    def tools_allowed(self, name: str) -> tuple[str, ...]:
        """The tools of a guest that the configuration allows."""
        server = self._app.config.mcp.servers.get(name)
        return ("*",) if server is None else server.tools_allow

    def settle(self, offer: GuestOffer) -> None:
        """Put what was approved in its place: a plugin runs from a copy that nothing changes any more."""
        if offer.grant.kind == "plugin":
            from coilclaw.features.guests.plugin_files import settle_copy

            settle_copy(self._app, offer)


def _without_secrets(app: "Runtime", result: "CallResult") -> "CallResult":
    """The result before any of it becomes an artifact. Of binary data only registered values are taken out."""
    import msgspec

    blobs: list[Blob] = []
    for blob in result.blobs:
        text = app.redactor.registered(blob.data.decode("utf-8", "surrogateescape"))
        blobs.append(msgspec.structs.replace(blob, data=text.encode("utf-8", "surrogateescape")))
    return msgspec.structs.replace(
        result,
        text=app.redact(result.text),
        structured=None if result.structured is None else app.redactor.value(result.structured),
        blobs=tuple(blobs),
    )


def guests_of(app: "Runtime") -> Guests:
    """The guests of an open home."""
    kept = app.kept.setdefault("guests", None)
    if not isinstance(kept, Guests):
        kept = app.kept["guests"] = Guests(app)
    return kept
