"""What the owner sees of the accounts and does with them, at the terminal or by a paired device."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.mail.accounts import IDENTITIES, SCOPES, WORDS, AccountState, google_accounts
from coilclaw.features.mail.signing_in import account_of, begin_sign_in, connect_call
from coilclaw.features.mail.store import last_use
from coilclaw.packets.action import Identity, ToolCall
from coilclaw.runtime.oauth.sign_ins import SignInState, sign_ins

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.action import Action
    from coilclaw.runtime.runtime import Runtime


class ScopeView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an account may be allowed to do."""

    scope: str
    """Google's name for it."""
    words: str
    """The same in plain words."""
    granted: bool


class SignInView(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that is under way."""

    state: SignInState
    address: str
    """What to open in a browser."""
    fault: str


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """An account at Google."""

    identity: Identity
    state: AccountState
    mailbox: str
    """Its mail address; empty while it is not known."""
    scopes: list[ScopeView]
    since: str
    """When it was connected, or stopped being accepted; empty if it is not connected."""
    last_used_at: str
    last_error: str
    """The code of the last use's failure; empty if it succeeded."""
    sign_in: SignInView | None


class OwnerAccounts:
    """Reads the accounts. Connecting one is a call through the gate, after the sign-in."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor | None" = None) -> None:
        self._app = app
        self._conveyor = conveyor

    @property
    def configured(self) -> bool:
        """Whether there is an OAuth client to connect accounts with."""
        self._app.refresh()
        return self._app.config.google.configured

    def views(self) -> list[AccountView]:
        """Both accounts."""
        return [self.view(identity) for identity in IDENTITIES]

    def view(self, identity: Identity) -> AccountView:
        """One of them."""
        account = google_accounts(self._app).state(identity)
        used = last_use(self._app.db.reader, identity)
        signing = sign_ins(self._app).state(account_of(identity))
        return AccountView(
            identity=identity,
            state=account.state,
            mailbox=account.mailbox,
            scopes=[
                ScopeView(scope=scope, words=WORDS[scope], granted=scope in account.scopes)
                for scope in SCOPES[identity]
            ],
            since=account.since,
            last_used_at=used.used_at,
            last_error=used.code,
            sign_in=None if signing is None else SignInView(state=signing[0], address=signing[1], fault=signing[2]),
        )

    async def begin(self, identity: Identity) -> AccountView:
        """Start a sign-in."""
        self._app.refresh()
        await begin_sign_in(self._app, identity)
        return self.view(identity)

    async def paste(self, identity: Identity, address: str) -> AccountView:
        """Take the address that the browser ended at."""
        await sign_ins(self._app).paste(account_of(identity), address)
        return self.view(identity)

    def connect_call(self, identity: Identity) -> ToolCall:
        """The call that makes an account of a sign-in that was answered."""
        return connect_call(self._app, identity)

    async def make(self, call: ToolCall, *, by: str, key: str | None) -> "Action":
        """Take a call of a paired device through the gate."""
        from coilclaw.runtime.owner_calls import OwnerCalls

        assert self._conveyor is not None  # noqa: S101 - the server has one
        return await OwnerCalls(self._app, self._conveyor).make(call, by=by, key=key)
