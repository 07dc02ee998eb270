"""The owner's and the bot's accounts at Google: their clients, their scopes, their tokens. The flow is `runtime/oauth`.

Nothing of this module is imported while `[google]` has no client id.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from coilclaw.features.mail.store import forget_shown
from coilclaw.packets.action import Identity
from coilclaw.packets.canonical import NotCanonical, parse_object
from coilclaw.packets.errors import CoilclawError, OAuthError, UsageError
from coilclaw.packets.http import HttpRequest
from coilclaw.packets.text import one_line
from coilclaw.runtime.oauth.client import OAuthClient
from coilclaw.runtime.oauth.token_requests import AccessToken, Grant, revoke
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.oauth import OAuthToken, find_token
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.oauth.accounts import Disconnected
    from coilclaw.runtime.runtime import Runtime

PROVIDER: Final = "google"
IDENTITIES: Final[tuple[Identity, ...]] = ("user", "bot")
SCOPE: Final = "https://www.googleapis.com/auth/"
READ, COMPOSE, SEND, CALENDAR = (
    f"{SCOPE}{name}" for name in ("gmail.readonly", "gmail.compose", "gmail.send", "calendar.readonly")
)
SCOPES: Final[dict[Identity, tuple[str, ...]]] = {"user": (READ, COMPOSE, CALENDAR), "bot": (READ, SEND, COMPOSE)}
"""Everything that is ever asked for: the owner's own account never gets a scope for sending alone."""
WORDS: Final = {
    READ: "read and search mail",
    COMPOSE: "write drafts",
    SEND: "send mail",
    CALENDAR: "see calendars",
}
"""Scopes in plain words."""

AccountState: TypeAlias = Literal["not_connected", "connected", "reconnect"]
_KEPT = "google_accounts"
_PROFILE_SECONDS = 20.0
_MOST_BYTES = 64 << 10


class GoogleAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Where one identity's account stands."""

    identity: Identity
    state: AccountState
    mailbox: str
    """Its mail address; empty if it is not connected, or may not see the mailbox."""
    scopes: tuple[str, ...]
    """What was granted."""
    missing: tuple[str, ...]
    """What was asked for and not granted."""
    since: str
    """When it was connected, or stopped being accepted."""


class GoogleAccounts:
    """The two accounts of one home."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app

    def client(self, identity: Identity) -> OAuthClient:
        """This identity's OAuth client, as the configuration has it now."""
        google = self._app.config.google
        if not google.configured:
            raise UsageError(
                "[google] has no client_id, so there are no mail and calendar accounts.",
                remedy="`coilclaw docs google` says how to get one; then `coilclaw config set google.client_id ID`.",
            )
        return OAuthClient(
            provider=PROVIDER,
            identity=identity,
            client_id=google.client_id,
            client_secret=self._secret(google.client_secret_env),
            authorize_url=google.authorize,
            token_url=google.token,
            revoke_url=google.revoke,
            scopes=SCOPES[identity],
            authorize_params=(("access_type", "offline"), ("prompt", "consent select_account")),
            connect_command=f"coilclaw google connect --identity {identity}",
        )

    async def bearer(self, identity: Identity, *, needs: tuple[str, ...] = (), rejected: str = "") -> str:
        """A valid access token, known to the redactor. `needs` are scopes; `rejected` a token that was answered 401.

        Raises ReconnectNeeded if only the owner can help, OAuthError or TransportError if a later try may.
        """
        token = await self._app.oauth.access(self.client(identity), rejected=rejected)
        missing = [WORDS[scope] for scope in needs if scope not in token.scopes]
        if missing:
            raise OAuthError(
                f"The {identity} account was not allowed to {' and '.join(missing)}.",
                code="SCOPE_MISSING",
                remedy=f"The owner runs `coilclaw google connect --identity {identity}` and allows it.",
            )
        if _sees_mailbox(token.scopes) and not self._mailbox(self._app.db.reader, identity):
            await self._learn_mailbox(identity, token)  # connecting was cut off, or more was granted since
        return token.value

    def state(self, identity: Identity) -> GoogleAccount:
        """Where the account stands, without opening the vault or asking anybody."""
        db = self._app.db.reader
        row = find_token(db, PROVIDER, identity)
        if row is None:
            return GoogleAccount(
                identity=identity, state="not_connected", mailbox="", scopes=(), missing=SCOPES[identity], since=""
            )
        return GoogleAccount(
            identity=identity,
            state="reconnect" if row.reconnect_since else "connected",
            mailbox=self._mailbox(db, identity, row),
            scopes=row.scopes,
            missing=tuple(scope for scope in SCOPES[identity] if scope not in row.scopes),
            since=row.reconnect_since or row.created_at,
        )

    async def connect(
        self, identity: Identity, show: Callable[[str], None], paste: Callable[[], Awaitable[str]] | None = None
    ) -> GoogleAccount:
        """Sign in, see which mailbox it is, and keep the account. The caller has the owner's approval."""
        from coilclaw.runtime.oauth.sign_in import sign_in

        app = self._app
        client, grant = await sign_in(app.transport, app.redactor, self.client(identity), show, paste=paste)
        return await self.keep(client, grant)

    async def keep(self, client: OAuthClient, grant: Grant) -> GoogleAccount:
        """Keep what was granted, unless it is the other identity's mailbox or nobody can say whose it is."""
        identity, mailbox = client.identity, ""
        try:
            if _sees_mailbox(grant.scopes):
                mailbox = await self._profile(identity, grant.token)
                self._must_be_another(self._app.db.reader, identity, mailbox)
        except CoilclawError as error:
            if isinstance(error, OAuthError) and error.code == "SAME_MAILBOX":
                raise  # revoking one of a mailbox's permissions ends all of them at Google, the other identity's too
            raise await self._not_kept(client, grant, error) from error
        await self._end_other(identity, mailbox)
        await self._app.oauth.connect(client, grant, keep_client=False)
        if mailbox:
            await self._note_mailbox(identity, mailbox)
        return self.state(identity)

    async def _not_kept(self, client: OAuthClient, grant: Grant, error: CoilclawError) -> OAuthError:
        """Why an account was not connected, and what became of the permission."""
        if find_token(self._app.db.reader, PROVIDER, client.identity) is not None:
            told = "The account stays connected as it was."  # revoking this permission could end that one too
        else:
            failed = await revoke(self._app.transport, self._app.redactor, client, grant.refresh_token)
            told = f"It could not be revoked ({failed}): remove it at Google." if failed else "It was revoked there."
        code = error.code if isinstance(error, OAuthError) else "UNAVAILABLE"
        return OAuthError(
            f"{client.account} was not connected: {error.message}", code=code, remedy=f"{error.remedy} {told}".strip()
        )

    async def _end_other(self, identity: Identity, mailbox: str) -> None:
        """Disconnect the identity's account before another mailbox takes its place: else its permission would stay."""
        before = self.state(identity).mailbox
        if before and _canonical(before) != _canonical(mailbox):
            ended = await self.disconnect(identity)
            if ended.unrevoked:
                self._app.warn(f"{before}: {ended}")

    async def disconnect(self, identity: Identity) -> "Disconnected":
        """Revoke there, forget here even if that failed; its `str()` says which. What cards were made from goes too."""
        await self._app.db.write(lambda tx: forget_shown(tx, identity))
        if not self._app.config.google.configured:
            ended = await self._app.oauth.disconnect_kept(PROVIDER, identity)
            if ended is not None:
                return ended
        return await self._app.oauth.disconnect(self.client(identity))

    def _secret(self, name: str) -> str:
        if not name:
            return ""
        value = self._app.keyring.get(name, "")
        if not value:
            raise UsageError(
                f"{name}, the secret of the Google client, is not set.", remedy=f"Run `coilclaw secret set {name}`."
            )
        return value

    # Which mailbox it is

    def _mailbox(self, db: Tx, identity: Identity, row: OAuthToken | None = None) -> str:
        """The mailbox of the account as it is connected now: one that was noted for an earlier account is not it."""
        row = row or find_token(db, PROVIDER, identity)
        token_id, _, mailbox = (read_meta(db, _mailbox_key(identity)) or "").partition(" ")
        return mailbox if row is not None and token_id == row.token_id else ""

    async def _learn_mailbox(self, identity: Identity, token: AccessToken) -> None:
        await self._note_mailbox(identity, await self._profile(identity, token))

    async def _note_mailbox(self, identity: Identity, mailbox: str) -> None:
        """Write it down in a transaction that looks at the other identity again: both may be connecting now."""

        def write(tx: Tx) -> None:
            self._must_be_another(tx, identity, mailbox)
            row = find_token(tx, PROVIDER, identity)
            if row is not None:
                write_meta(tx, _mailbox_key(identity), f"{row.token_id} {mailbox}")

        try:
            await self._app.db.write(write)
        except OAuthError:
            await self.disconnect(identity)
            raise

    def _must_be_another(self, db: Tx, identity: Identity, mailbox: str) -> None:
        other: Identity = "bot" if identity == "user" else "user"
        theirs = self._mailbox(db, other)
        if theirs and _canonical(theirs) == _canonical(mailbox):
            raise OAuthError(
                f"{mailbox} is already connected as {other}; the two identities need two mailboxes.",
                code="SAME_MAILBOX",
                remedy="Sign in with the other account, or disconnect this one first.",
            )

    async def _profile(self, identity: Identity, token: AccessToken) -> str:
        """The account's mail address; asked for once more if Google has a fault."""
        request = HttpRequest(
            principal="google",
            identity=identity,
            method="GET",
            url=f"{self._app.config.google.gmail}/gmail/v1/users/me/profile",
            headers=(token.header, ("accept", "application/json")),
            timeout_seconds=_PROFILE_SECONDS,
            max_bytes=_MOST_BYTES,
        )
        response = await self._app.transport.send(request)
        if response.status >= 500:
            response = await self._app.transport.send(request)
        try:
            said = parse_object(response.body).get("emailAddress") if response.status == 200 else None
        except NotCanonical:
            said = None
        if not isinstance(said, str) or not 3 <= len(said) <= 320 or "@" not in said or one_line(said) != said:
            enabled = "See that the Gmail API is enabled in the cloud project, then connect again."
            raise OAuthError(
                f"Google did not say which mailbox the {identity} account is (status {response.status}).",
                code="BAD_ANSWER",
                remedy="Connect again later." if response.status >= 500 else enabled,
            )
        return said


def google_accounts(app: "Runtime") -> GoogleAccounts:
    """The accounts of an open home."""
    kept = app.kept.get(_KEPT)
    if not isinstance(kept, GoogleAccounts):
        kept = app.kept[_KEPT] = GoogleAccounts(app)
    return kept


def _sees_mailbox(scopes: tuple[str, ...]) -> bool:
    """Whether these scopes allow to ask whose mailbox it is; no mail tool works without one of them."""
    return READ in scopes or COMPOSE in scopes


def _canonical(mailbox: str) -> str:
    """One spelling for one mailbox: Gmail ignores dots, what follows a plus, and has two names of its domain."""
    name, _, domain = mailbox.strip().casefold().rpartition("@")
    if domain in ("gmail.com", "googlemail.com"):
        return f"{name.partition('+')[0].replace('.', '')}@gmail.com"
    return f"{name}@{domain}"


def _mailbox_key(identity: Identity) -> str:
    return f"google_mailbox:{identity}"
