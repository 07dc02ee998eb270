"""Signing in at Google: first the owner's browser, then the owner's approval, which makes the answer an account."""

from typing import TYPE_CHECKING

from coilclaw.features.mail.accounts import PROVIDER, SCOPES, google_accounts
from coilclaw.packets.action import Identity, ToolCall
from coilclaw.runtime.oauth.sign_ins import Account, sign_ins

if TYPE_CHECKING:
    from coilclaw.runtime.oauth.client import Pending
    from coilclaw.runtime.runtime import Runtime


def account_of(identity: Identity) -> Account:
    """The account of an identity, as it is stored."""
    return PROVIDER, identity


async def begin_sign_in(app: "Runtime", identity: Identity, *, listen: bool = True) -> "Pending":
    """Start a sign-in; its `address` is for the owner's browser."""
    return await sign_ins(app).begin(account_of(identity), google_accounts(app).client(identity), listen=listen)


def connect_call(app: "Runtime", identity: Identity) -> ToolCall:
    """The call that makes an account of the answer; the owner approves it."""
    flow, client = sign_ins(app).answered(account_of(identity))
    args = {"account": identity, "flow": flow, "client_id": client.client_id}
    return ToolCall.of("google_connect", {**args, "scopes": [*SCOPES[identity]]})
