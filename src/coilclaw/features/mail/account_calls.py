"""google_connect and google_disconnect: the owner's own calls, each with owner proof. No model makes them."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.packets.action import INTERNAL, Identity, ToolCall
from coilclaw.packets.errors import OAuthError, ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.runtime.extensions import home_of
from coilclaw.tools.declare import owner_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.features.mail.accounts import GoogleAccount
    from coilclaw.runtime.runtime import Runtime

Account = Annotated[Identity, msgspec.Meta(description="Whose account it is: the owner's (user) or the bot's own.")]
_WHOSE: dict[Identity, str] = {"user": "your own account (user)", "bot": "the bot's own account"}


class ConnectArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of google_connect."""

    account: Account
    flow: Annotated[str, msgspec.Meta(description="The sign-in that Google answered.", pattern="^[0-9a-f]{16}$")]
    client_id: Annotated[str, msgspec.Meta(description="The OAuth client that was used.", max_length=200)]
    scopes: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=256)], ...],
        msgspec.Meta(description="What was asked for.", max_length=10),
    ]


class DisconnectArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of google_disconnect."""

    account: Account


def account_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The owner's calls about accounts."""
    home = home_of(runtime)
    return _make_connect(home), _make_disconnect(home)


def disconnect_call(identity: Identity) -> ToolCall:
    """The call that disconnects an account."""
    return ToolCall.of("google_disconnect", {"account": identity})


def connected_words(account: "GoogleAccount") -> str:
    """What was connected, in words."""
    from coilclaw.features.mail.accounts import WORDS

    missing = ", ".join(WORDS[scope] for scope in account.missing)
    told = f"{account.mailbox or 'The account'} is connected as {account.identity}."
    return f"{told} Not granted: {missing}; the tools that need it will say so." if missing else told


def _make_connect(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: ConnectArgs) -> Touches:
        from coilclaw.features.mail.accounts import WORDS

        allowed = [f"• {WORDS.get(scope, scope)} ({scope.rpartition('/')[2]})" for scope in args.scopes]
        sends = (
            "It never sends from this account, whatever the scopes allow."
            if args.account == "user"
            else "Each mail it sends waits for your approval first."
        )
        lines = (
            f"Connect the Google account that you just signed in with as {_WHOSE[args.account]}, to:",
            *allowed,
            "",
            sends,
            f"The permission is kept encrypted on this machine. OAuth client: {args.client_id}",
        )
        return Touches(subject=f"google ({args.account})", public=True, says="\n".join(lines))

    @owner_call(
        ConnectArgs,
        destination="external",
        idempotent=False,
        touches=touches,
        summary=lambda args: f"Connect the Google account you signed in with as {_WHOSE[args.account]}",
    )
    async def google_connect(args: ConnectArgs, context: Context) -> ToolOutput:
        """Keep the Google account that the owner signed in with; only `coilclaw google` and the panel do."""
        from coilclaw.features.mail.accounts import google_accounts
        from coilclaw.features.mail.signing_in import account_of
        from coilclaw.runtime.oauth.sign_ins import take_answer
        from coilclaw.runtime.oauth.token_requests import exchange

        app = home()
        again = f"Begin again: `coilclaw google connect --identity {args.account}`."
        answered = await take_answer(app, account_of(args.account), args.flow, remedy=again)
        client = answered.pending.client
        shown = (args.account, args.client_id, args.scopes)
        now = google_accounts(app).client(args.account)
        if (client.identity, client.client_id, client.scopes) != shown or client != now:
            raise ToolError("the sign-in is not the one that was shown.", code="SIGN_IN_OVER", begun=False)
        try:
            grant = await exchange(app.transport, app.redactor, answered.pending, answered.code)
            account = await google_accounts(app).keep(client, grant)
        except OAuthError as error:  # nothing was kept
            raise ToolError(error.message, remedy=error.remedy, code=error.code, begun=False) from error
        return ToolOutput(text=connected_words(account), label=INTERNAL, metadata={"mailbox": account.mailbox})

    return google_connect


def _make_disconnect(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: DisconnectArgs) -> Touches:
        says = f"Disconnect {_WHOSE[args.account]} from Google: the permission is revoked there and forgotten here."
        return Touches(subject=f"google ({args.account})", public=True, says=says, tightens=True)

    @owner_call(
        DisconnectArgs,
        destination="external",
        idempotent=True,
        touches=touches,
        summary=lambda args: f"Disconnect {_WHOSE[args.account]} from Google",
    )
    async def google_disconnect(args: DisconnectArgs, context: Context) -> ToolOutput:
        """Revoke a Google account's permission and forget it; only `coilclaw google` and the panel do."""
        from coilclaw.features.mail.accounts import google_accounts

        try:
            ended = await google_accounts(home()).disconnect(args.account)
        except OAuthError as error:
            raise ToolError(error.message, remedy=error.remedy, code=error.code, begun=False) from error
        return ToolOutput(text=str(ended), label=INTERNAL)

    return google_disconnect
