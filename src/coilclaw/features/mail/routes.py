"""Accounts over HTTP: listed, signed in to, connected and disconnected with owner proof."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from coilclaw.features.mail.owner_accounts import AccountView, OwnerAccounts
from coilclaw.packets.action import Action
from coilclaw.packets.errors import OAuthError, UsageError
from coilclaw.server.call_answer import CallAnswer, call_answer
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import Trouble, problems

if TYPE_CHECKING:
    from coilclaw.packets.action import Identity


class AccountList(msgspec.Struct, frozen=True, kw_only=True):
    """The accounts of both identities."""

    configured: bool
    """Whether `[google]` has a client id; without one there is nothing to connect."""
    items: list[AccountView]


class SignedIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a browser on another machine ended."""

    address: Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
    """The whole address from the browser's address bar."""


class AccountAnswer(CallAnswer, frozen=True, kw_only=True):
    """Where a call about an account stands, and the account."""

    account: AccountView


class AccountRoutes(Controller):
    """The owner's and the bot's accounts at Google."""

    path = "/v1/accounts"
    tags = ("accounts",)

    @get("/", operation_id="listAccounts", summary="Accounts", sync_to_thread=True)
    def list_all(self, accounts: NamedDependency[OwnerAccounts]) -> AccountList:
        """Both accounts: whose mailbox, what was allowed, when it was last used, and what went wrong."""
        configured = accounts.configured
        return AccountList(configured=configured, items=accounts.views() if configured else [])

    @post(
        "/{identity:str}/sign-in", operation_id="beginSignIn", summary="Begin a sign-in", responses=problems(404, 409)
    )
    async def sign_in(
        self, core: NamedDependency[Core], accounts: NamedDependency[OwnerAccounts], identity: FromPath[str]
    ) -> AccountView:
        """Begin to sign in at Google. The account's `sign_in.address` is for a browser; nothing is connected yet."""
        whose = _identity(accounts, identity)
        try:
            return await accounts.begin(whose)
        except (OAuthError, UsageError) as error:
            raise Trouble(409, "SIGN_IN", core.said(error.message), remedy=error.remedy) from error

    @post(
        "/{identity:str}/signed-in", operation_id="endSignIn", summary="Where the browser ended",
        responses=problems(404, 409),
    )  # fmt: skip
    async def signed_in(
        self,
        core: NamedDependency[Core],
        accounts: NamedDependency[OwnerAccounts],
        identity: FromPath[str],
        data: JSONBody[SignedIn],
    ) -> AccountView:
        """Hand in the address that a browser on another machine could not open. On this machine it is not needed."""
        whose = _identity(accounts, identity)
        try:
            return await accounts.paste(whose, data.address)
        except OAuthError as error:
            raise Trouble(409, error.code, core.said(error.message), remedy=core.said(error.remedy)) from error

    @post(
        "/{identity:str}/connect", operation_id="connectAccount", summary="Connect an account",
        responses=problems(404, 409),
    )  # fmt: skip
    async def connect(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        accounts: NamedDependency[OwnerAccounts],
        identity: FromPath[str],
        request_key: NamedDependency[str | None],
    ) -> AccountAnswer:
        """Propose to keep the account of the sign-in. It waits for the owner's passkey."""
        whose = _identity(accounts, identity)
        try:
            call = accounts.connect_call(whose)
        except OAuthError as error:
            raise Trouble(409, error.code, core.said(error.message), remedy=error.remedy) from error
        action = await accounts.make(call, by=caller.by, key=request_key)
        return _answer(core, caller, action, accounts.view(whose))

    @post(
        "/{identity:str}/disconnect", operation_id="disconnectAccount", summary="Disconnect an account",
        responses=problems(404),
    )  # fmt: skip
    async def disconnect(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        accounts: NamedDependency[OwnerAccounts],
        identity: FromPath[str],
        request_key: NamedDependency[str | None],
    ) -> AccountAnswer:
        """Propose to revoke an account's permission at Google and to forget it here. It waits for the passkey."""
        from coilclaw.features.mail.account_calls import disconnect_call

        whose = _identity(accounts, identity)
        action = await accounts.make(disconnect_call(whose), by=caller.by, key=request_key)
        return _answer(core, caller, action, accounts.view(whose))


def _identity(accounts: OwnerAccounts, named: str) -> "Identity":
    if named not in ("user", "bot"):
        raise Trouble(404, "NOT_FOUND", "There is no such account.", remedy="The identities are user and bot.")
    if not accounts.configured:
        raise Trouble(
            404, "NOT_FOUND", "[google] has no client_id.", remedy="`coilclaw docs google` says how to get one."
        )
    return "user" if named == "user" else "bot"


def _answer(core: Core, caller: Caller, action: Action, account: AccountView) -> AccountAnswer:
    return AccountAnswer(**msgspec.structs.asdict(call_answer(core, caller.by, action)), account=account)
