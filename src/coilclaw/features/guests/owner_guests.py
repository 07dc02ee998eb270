"""What the owner does with guests, at the terminal or by a paired device: list, look, approve, switch off, remove."""

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from coilclaw.config.mcp import McpServer, server_faults
from coilclaw.features.guests.given import program_of
from coilclaw.features.guests.guests import guests_of
from coilclaw.features.guests.manifest import read_plugin
from coilclaw.features.guests.names import check_guest_name, skeleton
from coilclaw.features.guests.offer import Pin, ToolClass, grant_of
from coilclaw.features.guests.plugin_files import installed
from coilclaw.features.guests.store import drop_guest, load_guest, load_guests, looked_at, put_seen, switch_off
from coilclaw.features.guests.views import GuestView, view_of
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import ToolCall
from coilclaw.packets.errors import UsageError
from coilclaw.packets.names import did_you_mean
from coilclaw.packets.settings import SettingChange
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.action import Action
    from coilclaw.runtime.runtime import Runtime


_KEPT = ("tools_allow", "call_seconds", "idle_seconds", "memory_mb", "oauth_scopes", "oauth_client_id")
LOOK_STANDS = timedelta(minutes=15)
"""For how long a look that needed a passkey is not asked for again."""


class OwnerGuests:
    """Reads and changes guests. Approving one is a call through the gate; switching one off needs no question."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor | None" = None) -> None:
        self._app = app
        self._conveyor = conveyor

    # Reading

    def names(self) -> list[str]:
        """Every guest that is configured, installed or approved; one that was only looked at is none."""
        known = [row.name for row in load_guests(self._app.db.reader) if row.approved_at is not None]
        plugins = [folder.name for folder in installed(self._app)]
        return sorted({*self._app.config.mcp.servers, *plugins, *known})

    def view(self, name: str) -> GuestView:
        """One guest."""
        if name not in self.names():
            raise UsageError(f"there is no guest {name[:80]!r}.", remedy=did_you_mean(name, self.names()))
        return self.looked(name)

    def looked(self, name: str) -> GuestView:
        """One that was looked at, and may not be a guest yet."""
        row, server = load_guest(self._app.db.reader, name), self._app.config.mcp.servers.get(name)
        return view_of(name, row, server, guests_of(self._app), self._app.redact)

    def views(self) -> list[GuestView]:
        """All of them, by name."""
        return [self.view(name) for name in self.names()]

    def is_plugin(self, name: str) -> bool:
        """Whether it is an installed plugin."""
        return any(folder.name == name for folder in installed(self._app))

    # Looking and approving

    def look_call(self, name: str, server: McpServer | None = None) -> ToolCall:
        """The call that starts a server once to see what it offers."""
        server = server or self._app.config.mcp.servers.get(name)
        if server is None:
            raise UsageError(f"there is no [mcp.servers.{name}].", remedy="Add it with `coilclaw mcp add`.")
        self._must_be_free(name)
        for key, fault in server_faults(name, server):
            raise UsageError(f"mcp.servers.{name}{f'.{key}' if key else ''}: {fault}.")
        return ToolCall.of("guest_look", {"name": name, "server": msgspec.to_builtins(server)})

    def was_looked_at(self, name: str, server: McpServer) -> bool:
        """Whether this very server was looked at minutes ago, where a look needs a passkey: it waits for that in
        another process, so whoever asked for it goes on from here. Blocking: it reads the program."""
        from coilclaw.gate.proof import TERMINAL

        db = self._app.db.reader
        row, at = load_guest(db, name), looked_at(db, name)
        if row is None or row.seen is None or not at or not self._app.owner_proof.needed(db, "C", TERMINAL):
            return False
        if self._app.clock() - datetime.fromisoformat(at) > LOOK_STANDS:
            return False
        program = "" if server.kind == "http" else program_of(self._app, server).digest
        return row.seen.grant == grant_of(server, program)

    def add_call(self, name: str, server: McpServer) -> ToolCall:
        """The call that adds a server's table to config.toml and nothing else."""
        from coilclaw.runtime.settings import proposal

        self._must_be_free(name)
        return proposal(self._app, self._settings(name, server))

    def with_kept_settings(self, name: str, server: McpServer) -> McpServer:
        """The server with what the table of that name says about what `mcp add` has no options for."""
        before = self._app.config.mcp.servers.get(name)
        if before is None:
            return server
        keys = [key for key in _KEPT if server.kind == "http" or not key.startswith("oauth")]
        return msgspec.structs.replace(server, **{key: getattr(before, key) for key in keys})

    def server_to_sign_in(self, name: str) -> McpServer:
        """A server's table that says where to sign in."""
        server = self._app.config.mcp.servers.get(name)
        if server is None or not server.oauth_hosts:
            raise UsageError(
                f"{name} has no oauth_hosts.",
                remedy=f"Name where to sign in: `coilclaw config set --add mcp.servers.{name}.oauth_hosts HOST`.",
            )
        return server

    async def read_plugin(self, name: str) -> None:
        """Note what an installed plugin offers now; nothing of it runs."""
        offer = await asyncio.to_thread(read_plugin, self._app.home.plugins_dir / name)
        if offer.name != name:
            raise UsageError(f"the plugin in {name} calls itself {offer.name}.", remedy="Install it again.")
        self._must_look_like_no_other(name)
        if name in self._app.config.mcp.servers:
            raise UsageError(f"there is an MCP server {name} too.", remedy="Remove one of them.")
        await self._app.db.write(lambda tx: put_seen(tx, offer))

    def is_let_in(self, name: str, classes: dict[str, ToolClass], server: McpServer | None = None) -> bool:
        """Whether an approval would change nothing; a plugin's copy that was damaged is then made again."""
        row = load_guest(self._app.db.reader, name)
        if row is None or row.pin is None or row.seen is None or not row.enabled:
            return False
        if server is not None and self._app.config.mcp.servers.get(name) != server:
            return False
        guests = guests_of(self._app)
        if row.pin != Pin(offer=row.seen, classes=classes) or not guests.is_configured(row.pin):
            return False
        guests.settle(row.seen)
        return True

    def approve_call(
        self, name: str, classes: dict[str, ToolClass], offer: str, server: McpServer | None = None
    ) -> ToolCall:
        """The call that lets a guest in; with `server`, its table is added to config.toml by the same approval."""
        if server is None and not self.is_plugin(name) and name not in self._app.config.mcp.servers:
            raise UsageError(f"there is no [mcp.servers.{name}].", remedy="Add it with `coilclaw mcp add`.")
        args: dict[str, object] = {"name": name, "offer": offer, "classes": dict(classes)}
        if server is not None and self._app.config.mcp.servers.get(name) != server:
            from coilclaw.packets.canonical import parse_object
            from coilclaw.runtime.settings import proposal

            edit = proposal(self._app, self._settings(name, server))
            args["settings"] = dict(parse_object(edit.args_bytes))
        return ToolCall.of("guest_approve", msgspec.to_builtins(args))

    async def make(self, call: ToolCall, *, by: str, key: str | None) -> "Action":
        """Take a call of a paired device through the gate."""
        from coilclaw.runtime.owner_calls import OwnerCalls

        assert self._conveyor is not None  # noqa: S101 - the server has one
        return await OwnerCalls(self._app, self._conveyor).make(call, by=by, key=key)

    # Less

    async def disable(self, name: str) -> bool:
        """Switch a guest off until it is approved again; False if it was off, or never approved."""
        self.view(name)

        def write(tx: Tx) -> bool:
            done = switch_off(tx, name)
            if done:
                add_event(tx, self._app.clock, "guest_disabled", name, {})
            return done

        return await self._app.db.write(write)

    async def forget(self, name: str) -> None:
        """Forget a guest and its approval; a plugin's files go too."""
        from coilclaw.features.guests.plugin_files import remove

        def write(tx: Tx) -> None:
            if drop_guest(tx, name):
                add_event(tx, self._app.clock, "guest_removed", name, {})

        if self.is_plugin(name):
            remove(self._app, name)
        await self._app.db.write(write)

    async def remove(self, name: str) -> list[str]:
        """Revoke and delete a server's account, and forget its approval; what was done, in words.

        The account comes first, while config.toml still says where its authorization server is. One whose table was
        deleted by hand is removed all the same.
        """
        from coilclaw.features.guests.signing_in import account
        from coilclaw.store.oauth import find_token

        signed_in = find_token(self._app.db.reader, account(name), "user") is not None
        if not signed_in:
            self.view(name)
        ended = await self._app.oauth.disconnect_kept(account(name), "user") if signed_in else None
        await self.forget(name)
        return [*([] if ended is None else [str(ended)]), f"The approval of {name} is forgotten."]

    def _must_be_free(self, name: str) -> None:
        """Raise unless an MCP server may have this name."""
        check_guest_name(name)
        self._must_look_like_no_other(name)
        if self.is_plugin(name):
            raise UsageError(f"there is a plugin {name} already.", remedy="Choose another name.")

    def _must_look_like_no_other(self, name: str) -> None:
        for other in self.names():
            if other != name and skeleton(other) == skeleton(name):
                raise UsageError(f"{name} looks like the guest {other}.", remedy="Choose another name.")

    def _settings(self, name: str, server: McpServer) -> tuple[SettingChange, ...]:
        """The keys of a server's table that are not their defaults, and those that an earlier table has besides."""
        before = self._app.config.mcp.servers.get(name, McpServer())
        plain, old, default = (msgspec.json.decode(msgspec.json.encode(each)) for each in (server, before, McpServer()))
        keys = ["kind", *(key for key in plain if key != "kind" and plain[key] != default[key])]
        gone = [key for key in old if key not in keys and old[key] != default[key]]
        return (
            *(SettingChange(key=f"mcp.servers.{name}.{key}", value=plain[key]) for key in keys),
            *(SettingChange(key=f"mcp.servers.{name}.{key}", op="unset") for key in gone),
        )
