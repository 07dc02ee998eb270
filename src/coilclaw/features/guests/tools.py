"""The tools of guests that were let in, and the owner's own calls: to look at a guest, to approve it, to switch it."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.config.mcp import McpServer
from coilclaw.features.guests.guests import guests_of
from coilclaw.features.guests.offer import GuestOffer, Pin, ToolClass, grant_of
from coilclaw.features.guests.store import guests_version, load_guest, load_guests, put_pin, put_seen
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL, untrusted
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.settings import ConfigEdit
from coilclaw.packets.text import one_line, visible
from coilclaw.runtime.extensions import home_of
from coilclaw.store.tx import Tx
from coilclaw.tools.declare import owner_call, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.runtime.runtime import Runtime

Name = Annotated[str, msgspec.Meta(description="The guest.", min_length=1, max_length=32)]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class LookArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of guest_look."""

    name: Name
    server: Annotated[McpServer, msgspec.Meta(description="How it is reached and what it is given.")]


class ApproveArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of guest_approve."""

    name: Name
    offer: Annotated[Digest, msgspec.Meta(description="SHA-256 of what the guest offers.")]
    classes: Annotated[
        dict[str, ToolClass], msgspec.Meta(description="What each tool does, by its name; others are not let in.")
    ]
    settings: Annotated[
        ConfigEdit | None, msgspec.Meta(description="The change of config.toml that adds the guest.")
    ] = None


def guest_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The owner's calls, and the tools of every guest in force; without a home they can only be described."""
    home = home_of(runtime)
    own = (_make_look(home), _make_approve(home), _make_sign_in(home))
    return own if runtime is None else (*own, *_let_in(runtime))


def _let_in(runtime: "Runtime") -> Iterator[Tool]:
    if not might_have_guests(runtime):
        return
    from coilclaw.features.guests.guest_tool import GuestTool

    guests = guests_of(runtime)
    for row in load_guests(runtime.db.reader):
        if row.pin is None or not row.enabled or not guests.is_configured(row.pin):
            continue
        allowed = guests.tools_allowed(row.name)
        for each in row.pin.offer.tools:
            if each.original in row.pin.classes and ("*" in allowed or each.original in allowed):
                yield GuestTool(row.pin, each, guests.call, withheld=row.withheld.get(each.original, ""))


def might_have_guests(runtime: "Runtime") -> bool:
    """Whether it is worth looking into the database."""
    if not runtime.config.mcp.servers:
        try:
            with os.scandir(runtime.home.plugins_dir) as found:
                if next(found, None) is None:
                    return False
        except OSError:
            return False
    return runtime.config.memory.path.exists()


def tools_version(runtime: "Runtime") -> object:
    """Differs when other tools are let in than before, whichever process approved them."""
    return guests_version(runtime.db.reader) if might_have_guests(runtime) else None


def _make_look(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: LookArgs) -> Touches:
        from coilclaw.features.guests.words import grant_words

        server = args.server
        words = grant_words(grant_of(server, ""))
        return Touches(
            subject=args.name,
            domains=server.domains,
            public=True,
            seconds=120,
            says="\n".join([f"Start {args.name} once, to see which tools it offers.", *words]),
            governs=bool(server.url or server.domains or server.env or server.read or server.write),
        )

    @tool(
        LookArgs,
        effect="READ",
        destination="machine",
        idempotent=True,
        always_ask=False,
        touches=touches,
        summary=lambda args: f"Start {one_line(args.name)} once, to see which tools it offers",
        callers=frozenset({"gateway"}),
    )
    async def guest_look(args: LookArgs, context: Context) -> ToolOutput:
        """Start a guest once, to see which tools it offers; only `coilclaw mcp` and the panel do."""
        app = home()
        offer = await guests_of(app).look(args.name, args.server)

        def write(tx: Tx) -> None:
            put_seen(tx, offer)
            add_event(tx, app.clock, "guest_looked_at", offer.name, {"offer": offer.digest, "tools": len(offer.tools)})

        await app.db.write(write)
        text = f"It offers {len(offer.tools)} tools: {', '.join(each.original for each in offer.tools)}."
        return ToolOutput(text=visible(text), label=untrusted(f"guest:{args.name}"), metadata={"offer": offer.digest})

    return guest_look


def _make_approve(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: ApproveArgs) -> Touches:
        from coilclaw.features.guests.words import card_text

        try:
            app = home()
            offer, before = _shown(app, args)
            says = card_text(offer, args.classes, before)
            if args.settings is not None:
                from coilclaw.runtime.settings import config_writer

                says = f"{says}\n\n{config_writer(app).difference(args.settings)}"
        except CoilclawError as error:
            says = f"It would change nothing: {error}"
        return Touches(subject=args.name, public=True, says=says)

    @owner_call(
        ApproveArgs,
        destination="internal",
        idempotent=True,
        touches=touches,
        summary=lambda args: f"Let in the guest {args.name} with {_tools(args)}",
    )
    async def guest_approve(args: ApproveArgs, context: Context) -> ToolOutput:
        """Let in a guest with the tools that were shown; only `coilclaw mcp`, `plugin` and the panel do."""
        app = home()
        offer, _ = _shown(app, args)
        if args.settings is not None:
            from coilclaw.runtime.settings import config_writer

            await config_writer(app).write(args.settings)
        guests_of(app).settle(offer)
        pin = Pin(offer=offer, classes=args.classes)

        def write(tx: Tx) -> None:
            put_pin(tx, app.clock, pin)
            add_event(tx, app.clock, "guest_approved", pin.offer.name, {"pin": pin.digest, "offer": offer.digest})

        await app.db.write(write)
        return ToolOutput(text=f"{args.name} is let in with {_tools(args)}.", label=INTERNAL)

    return guest_approve


class SignInArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of guest_sign_in."""

    name: Name
    url: Annotated[str, msgspec.Meta(description="The server to sign in to.", max_length=2048)]
    hosts: Annotated[tuple[str, ...], msgspec.Meta(description="Where signing in may go.", max_length=20)]
    scopes: Annotated[tuple[str, ...], msgspec.Meta(description="What was asked for.", max_length=100)]
    flow: Annotated[str, msgspec.Meta(description="The sign-in that was answered.", pattern="^[0-9a-f]{16}$")]


def _make_sign_in(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: SignInArgs) -> Touches:
        scopes = ", ".join(args.scopes) or "its default scopes"
        says = (
            f"Keep the account with which you just signed in to {args.name} ({one_line(args.url)}) at"
            f" {', '.join(args.hosts)}, for {scopes}. The token is kept encrypted, and sent to that server alone."
        )
        return Touches(subject=args.name, public=True, seconds=60, says=says)

    @owner_call(
        SignInArgs,
        destination="external",
        idempotent=False,
        touches=touches,
        summary=lambda args: f"Keep the account you signed in with at the guest {args.name}",
    )
    async def guest_sign_in(args: SignInArgs, context: Context) -> ToolOutput:
        """Keep the account with which the owner signed in to an MCP server; only `coilclaw mcp` does."""
        from coilclaw.features.guests.signing_in import keep_account

        app = home()
        server = app.config.mcp.servers.get(args.name)
        shown = (args.url, args.hosts, args.scopes)
        if server is None or (server.url, server.oauth_hosts, server.oauth_scopes) != shown:
            raise ToolError(f"{args.name} is not what was shown.", code="GUEST_CHANGED", begun=False)
        return ToolOutput(text=await keep_account(app, args.name, server, args.flow), label=INTERNAL)

    return guest_sign_in


def _tools(args: ApproveArgs) -> str:
    return f"{len(args.classes)} tool{'' if len(args.classes) == 1 else 's'}"


def _shown(app: "Runtime", args: ApproveArgs) -> tuple[GuestOffer, Pin | None]:
    """The offer that an approval names, and what was approved before."""
    row = load_guest(app.db.reader, args.name)
    if row is None or row.seen is None or row.seen.digest != args.offer:
        raise ToolError(
            f"{args.name} no longer offers what was shown.",
            remedy="Look at it again.",
            code="GUEST_CHANGED",
            begun=False,
        )
    is_configured = args.settings is not None or args.name in app.config.mcp.servers
    if row.seen.grant.kind != "plugin" and not is_configured:
        raise ToolError(f"there is no [mcp.servers.{args.name}].", code="GUEST_GONE", begun=False)
    unknown = [name for name in args.classes if row.seen.tool(name) is None]
    if unknown or not args.classes:
        raise ToolError(f"{args.name} has no tool {unknown[0] if unknown else ''}.", code="GUEST_TOOL", begun=False)
    return row.seen, row.pin
