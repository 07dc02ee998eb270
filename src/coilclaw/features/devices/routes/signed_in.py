"""Routes of a sign-in: who am I here, and signing out."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from litestar import Controller, Request, Response, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta

from coilclaw import __version__
from coilclaw.features.devices.pairing import Reception
from coilclaw.features.devices.routes.devices import Device, device_of
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.door import COOKIE
from coilclaw.server.problems import NotThere, Trouble


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what the panel needs to know first."""

    device: Device
    way: Literal["cookie", "bearer"]
    """How the token was shown."""
    confirmed: bool
    passkeys: int
    """How many passkeys there are."""
    passkey_window_ends_at: str | None
    """Until when this device may register the first passkey; null when it may not."""
    version: str
    estop: bool
    """Whether everything is stopped."""
    origin: str
    """Where the panel is opened."""


class Nonce(msgspec.Struct, frozen=True, kw_only=True):
    """What a page is to sign with its device's key."""

    nonce: str


class PageProof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """That a page holds the device's key, which never leaves its origin."""

    nonce: Annotated[str, Meta(min_length=1, max_length=64)]
    signature: Annotated[str, Meta(min_length=1, max_length=400)]
    """In base64url, over `coilclaw page 1`, a newline, the nonce, a newline and the page's origin."""


class PageKey(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows beside its cookie from now on, as `X-CoilClaw-Page`; to be kept in memory alone."""

    page_key: str


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """What a page shows beside its cookie to open one WebSocket, as the second protocol, within half a minute."""

    ticket: str


def token_cookie(token: str, days: int) -> Cookie:
    """The token as a cookie that only our own pages ever send."""
    age = int(timedelta(days=days).total_seconds())
    return Cookie(key=COOKIE, value=token, path="/", secure=True, httponly=True, samesite="strict", max_age=age)


class SignInController(Controller):
    """The sign-in of a device."""

    path = "/v1/sign-in"
    tags = ("sign-in",)

    @get("/", operation_id="getSignIn")
    async def signed_in(
        self,
        request: Request[Any, Any, Any],
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        reception: NamedDependency[Reception],
        origin: NamedDependency[str],
    ) -> Response[SignIn]:
        """Who this device is; a browser's cookie lasts anew from here."""
        row = reception.device(caller.device_id)
        if row is None:
            raise NotThere("such device")
        told = SignIn(
            device=device_of(row, caller.device_id, core=core, active=True),
            way=caller.way,
            confirmed=caller.confirmed,
            passkeys=reception.passkeys(),
            passkey_window_ends_at=reception.passkey_window(caller),
            version=__version__,
            estop=core.estop.engaged(),
            origin=origin,
        )
        if caller.way != "cookie":
            return Response(told)
        return Response(told, cookies=[token_cookie(request.cookies.get(COOKIE, ""), reception.token_days)])

    @post("/end", operation_id="signOut", status_code=204)
    async def end(self, caller: NamedDependency[Caller], reception: NamedDependency[Reception]) -> Response[None]:
        """Sign this device out; to come back it has to be paired again."""
        await reception.sign_out(caller)
        return Response(None, status_code=204, cookies=[token_cookie("", 0)])

    @post("/nonce", operation_id="askPage")
    async def nonce(self, caller: NamedDependency[Caller], reception: NamedDependency[Reception]) -> Nonce:
        """A question for a page of the panel, which it answers with `POST /v1/sign-in/page`."""
        return Nonce(nonce=reception.ask_page(caller))

    @post("/page", operation_id="provePage")
    async def page(
        self,
        data: JSONBody[PageProof],
        caller: NamedDependency[Caller],
        reception: NamedDependency[Reception],
        origin: NamedDependency[str],
    ) -> PageKey:
        """Prove that a page is the device's own. A cookie alone opens nothing: other ports of this machine see it."""
        key = reception.admit_page(caller, data.nonce, data.signature, origin)
        if key is None:
            raise Trouble(
                403,
                "PAGE_REFUSED",
                "the page's proof is invalid.",
                remedy="Reload the panel, or pair this browser again: `coilclaw pair --add`.",
            )
        return PageKey(page_key=key)

    @post("/ticket", operation_id="askTicket")
    async def ticket(self, caller: NamedDependency[Caller], reception: NamedDependency[Reception]) -> Ticket:
        """A ticket for one WebSocket: a page can show no header there, and its key belongs into none that is logged."""
        return Ticket(ticket=reception.page_keys.ticket(caller.token_id))
