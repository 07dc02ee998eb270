"""Guests over HTTP: listed, looked at, approved with owner proof, switched off. They are added at the terminal."""

import asyncio
from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from coilclaw.features.guests.offer import ToolClass
from coilclaw.features.guests.owner_guests import OwnerGuests
from coilclaw.features.guests.views import GuestView
from coilclaw.packets.action import Action
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.server.call_answer import CallAnswer, call_answer
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import Trouble, problems


class GuestList(msgspec.Struct, frozen=True, kw_only=True):
    """Guests, by name."""

    items: list[GuestView]


class ApproveGuest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tools to let in, and what each does."""

    offer: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    """The `offer` of the guest as it was shown."""
    classes: Annotated[dict[str, ToolClass], msgspec.Meta(min_length=1, max_length=200)]


class GuestAnswer(CallAnswer, frozen=True, kw_only=True):
    """Where a call about a guest stands, and the guest."""

    guest: GuestView


class GuestRoutes(Controller):
    """Outside programs whose tools the owner let in."""

    path = "/v1/guests"
    tags = ("guests",)

    @get("/", operation_id="listGuests", summary="Guests", sync_to_thread=True)
    def list_all(self, guests: NamedDependency[OwnerGuests]) -> GuestList:
        """Every plugin and MCP server: what it may do, its tools, and what changed since it was approved."""
        return GuestList(items=guests.views())

    @get("/{name:str}", operation_id="getGuest", summary="A guest", sync_to_thread=True, responses=problems(404))
    def get_one(self, guests: NamedDependency[OwnerGuests], name: FromPath[str]) -> GuestView:
        """One guest."""
        return _known(guests, name)

    @post("/{name:str}/look", operation_id="lookAtGuest", summary="Look at a guest", responses=problems(404, 422))
    async def look(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        guests: NamedDependency[OwnerGuests],
        name: FromPath[str],
        request_key: NamedDependency[str | None],
    ) -> GuestAnswer:
        """See what a guest offers now. A server is started once in its box; one with network or secrets asks first."""
        _known(guests, name)
        try:
            if guests.is_plugin(name):
                await guests.read_plugin(name)
                return _done(guests.view(name))
            action = await guests.make(guests.look_call(name), by=caller.by, key=request_key)
        except UsageError as error:
            raise Trouble(422, "GUEST_INVALID", core.said(error.message), remedy=error.remedy) from error
        return _answer(core, caller, action, guests.view(name))

    @post("/{name:str}/approve", operation_id="approveGuest", summary="Let in a guest", responses=problems(404, 422))
    async def approve(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        guests: NamedDependency[OwnerGuests],
        name: FromPath[str],
        data: JSONBody[ApproveGuest],
        request_key: NamedDependency[str | None],
    ) -> GuestAnswer:
        """Propose to let in tools of a guest as it was shown. It waits for the owner's passkey, unless that changes
        nothing."""
        shown = _known(guests, name)
        try:
            if shown.offer == data.offer and await asyncio.to_thread(guests.is_let_in, name, data.classes):
                return _done(shown, "It is let in already, with these tools and exactly as it is now.")
            call = guests.approve_call(name, data.classes, data.offer)
        except (ToolError, UsageError) as error:
            raise Trouble(422, "GUEST_INVALID", core.said(error.message), remedy=error.remedy) from error
        action = await guests.make(call, by=caller.by, key=request_key)
        return _answer(core, caller, action, guests.view(name))

    @post("/{name:str}/disable", operation_id="disableGuest", summary="Switch off a guest", responses=problems(404))
    async def disable(self, guests: NamedDependency[OwnerGuests], name: FromPath[str]) -> GuestView:
        """Switch off a guest until it is approved again."""
        _known(guests, name)
        await guests.disable(name)
        return guests.view(name)


def _known(guests: OwnerGuests, name: str) -> GuestView:
    try:
        return guests.view(name)
    except UsageError as error:
        raise Trouble(404, "NOT_FOUND", "There is no such guest.", remedy=error.remedy) from error


def _done(guest: GuestView, message: str = "") -> GuestAnswer:
    return GuestAnswer(action_id="", status="EXECUTED", needs="", code="", message=message, guest=guest)


def _answer(core: Core, caller: Caller, action: Action, guest: GuestView) -> GuestAnswer:
    return GuestAnswer(**msgspec.structs.asdict(call_answer(core, caller.by, action)), guest=guest)
