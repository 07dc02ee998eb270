"""Connected accounts: refresh tokens sealed in the store, access tokens in memory, renewed by one caller at a time."""

import asyncio
import fcntl
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from coilclaw.packets.action import Identity
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import OAuthError, ReconnectNeeded, StorageError
from coilclaw.runtime.oauth.client import Hidden, OAuthClient
from coilclaw.runtime.oauth.token_requests import TIMEOUT_SECONDS, AccessToken, Grant, refresh, revoke
from coilclaw.store.oauth import OAuthToken, find_token, get_token, list_tokens, mark_reconnect, put_token, remove_token
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

EARLY_SECONDS: Final = 60
"""Access tokens are renewed this long before they expire, or after half their life if that is shorter."""
REMEMBERED: Final = 16
"""Tokens of an account that the redactor keeps looking for; older ones have expired or were replaced."""
GRACE_SECONDS: Final = 5.0
"""How long a cancelled caller (Ctrl-C) waits for a renewal: one cut off after the server rotated costs the account."""
_LOCK_SECONDS = 3 * TIMEOUT_SECONDS
_LOOK_SECONDS = 0.05


def _uptime() -> float:
    """Seconds that pass during suspension too, and that no change of the wall clock moves."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class _Held(Hidden, frozen=True, kw_only=True):
    """An access token in memory, and when it should be renewed."""

    token: AccessToken
    renew_at: float


class Disconnected(msgspec.Struct, frozen=True, kw_only=True):
    """An account that was forgotten here."""

    account: str
    unrevoked: str
    """Why the server was not told or did not agree; empty if it revoked the permission."""

    def __str__(self) -> str:
        if not self.unrevoked:
            return f"{self.account} is disconnected and its permission revoked."
        return (
            f"{self.account} is disconnected here, but its permission was not revoked ({self.unrevoked})."
            " Remove it in the provider's own settings."
        )


class Accounts:
    """The accounts of one home. One per process; other processes may use the same accounts at the same time."""

    def __init__(self, app: "Runtime", *, uptime: Callable[[], float] = _uptime) -> None:
        self._app = app
        self._uptime = uptime
        self._held: dict[str, _Held] = {}
        """By token id, which every connection has anew, so that a token never outlives its account; by the account's
        name for one that is not stored."""
        self._renewing: dict[str, asyncio.Task[_Held]] = {}
        self._known: dict[str, deque[str]] = {}

    def status(self) -> list[OAuthToken]:
        """Every connected account; `reconnect_since` says which ones need the owner."""
        return list_tokens(self._app.db.reader)

    async def connect(self, client: OAuthClient, grant: Grant, *, keep_client: bool) -> OAuthToken:
        """Store a granted permission in place of the account's previous one.

        `keep_client` seals the client too, for one that no configuration describes (`kept_client` gives it back).
        """
        if not grant.refresh_token:
            failed = await revoke(self._app.transport, self._app.redactor, client, grant.access_token)
            raise OAuthError(
                f"{client.account} was not connected: the server gave no refresh token, so it would be lost at once.",
                code="NO_REFRESH",
                remedy="Ask for offline access (a scope such as offline_access, or access_type=offline)."
                + (f" The permission was not revoked ({failed}); remove it at the provider." if failed else ""),
            )
        app = self._app
        async with self._alone(client):
            token_id = await app.db.write(lambda tx: self._write_connection(tx, client, grant, keep_client))
            self._held.pop(client.account, None)
            self._hold(client, token_id, grant, self._uptime())
        connected = find_token(app.db.reader, client.provider, client.identity)
        assert connected is not None  # noqa: S101 it was written under the account's lock
        return connected

    def hold(self, client: OAuthClient, grant: Grant) -> None:
        """Use a grant until it expires or this process ends, for a server without refresh tokens. Nothing is stored."""
        self._hold(client, client.account, grant, self._uptime())

    def kept_client(self, provider: str, identity: Identity) -> OAuthClient | None:
        """The client that `connect` sealed, or None."""
        from coilclaw.store.stored_secrets import get_secret

        kept = get_secret(self._app.db.reader, self._app.vault, _client_name(provider, identity))
        if kept is None:
            return None
        client = msgspec.json.decode(kept, type=OAuthClient)
        self._app.redactor.register(f"oauth:{provider}", client.client_secret)
        return client

    async def access(self, client: OAuthClient, *, rejected: str = "") -> AccessToken:
        """A valid access token. `rejected` is one that the resource answered 401 to: it is renewed, once for everybody.

        Raises ReconnectNeeded if only the owner can help, OAuthError or TransportError if a later try may.
        """
        row = self._usable(client)
        held = self._held.get(row.token_id if row else client.account)
        if held is not None and self._is_fresh(held, rejected):
            return held.token
        if row is None:
            raise _reconnect(client)
        running = self._renewing.get(row.token_id)
        if running is None or running.done() or running.get_loop() is not asyncio.get_running_loop():
            running = asyncio.create_task(self._renew(client, rejected))
            running.add_done_callback(_retrieve)
            self._renewing[row.token_id] = running
        try:
            return (await asyncio.shield(running)).token  # a caller that gives up must not cost the others their token
        except asyncio.CancelledError:
            await asyncio.wait({running}, timeout=GRACE_SECONDS)
            raise

    async def refused(self, client: OAuthClient, token: str) -> None:
        """A token that was just renewed is answered 401 too: only the owner can help, so the account is marked."""
        row = find_token(self._app.db.reader, client.provider, client.identity)
        held = self._held.get(row.token_id) if row else None
        if row is None or held is None or held.token.value != token:
            return  # the account was connected anew meanwhile
        self._held.pop(row.token_id, None)
        await self._app.db.write(lambda tx: self._write_mark(tx, client, row.token_id, "UNAUTHORIZED"))

    async def disconnect(self, client: OAuthClient) -> Disconnected:
        """Tell the server, forget here even if that failed, and say so."""
        app = self._app
        async with self._alone(client):
            row = find_token(app.db.reader, client.provider, client.identity)
            unkept = self._held.pop(client.account, None)
            if row is None:
                if unkept is None:
                    raise _not_connected(client)
                unrevoked = await revoke(app.transport, app.redactor, client, unkept.token.value)
                return Disconnected(account=client.account, unrevoked=unrevoked)
            unrevoked = "it was interrupted"
            try:
                token = get_token(app.db.reader, app.vault, row.token_id) or ""
                self._remember(client, row.token_id, token)
                unrevoked = await revoke(app.transport, app.redactor, client, token)
            except StorageError as error:  # the vault's key is gone: the row is useless, and goes too
                unrevoked = error.message.rstrip(".")
            finally:
                self._held.pop(row.token_id, None)
                await app.db.write(lambda tx: self._write_removal(tx, row, not unrevoked))
            return Disconnected(account=client.account, unrevoked=unrevoked)

    async def disconnect_kept(self, provider: str, identity: Identity) -> Disconnected | None:
        """The same for an account whose client `connect` sealed; None if there is no such account."""
        row, unreadable = find_token(self._app.db.reader, provider, identity), "its client is not stored"
        if row is None:
            return None
        try:
            client = self.kept_client(provider, identity)
        except StorageError as error:  # the vault's key is gone: what it sealed is useless, and goes too
            client, unreadable = None, error.message.rstrip(".")
        if client is not None:
            return await self.disconnect(client)
        await self._app.db.write(lambda tx: self._write_removal(tx, row, False))
        return Disconnected(account=f"{provider} ({identity})", unrevoked=unreadable)

    def _is_fresh(self, held: _Held, rejected: str) -> bool:
        return held.token.value != rejected and self._uptime() < held.renew_at

    def _usable(self, client: OAuthClient) -> OAuthToken | None:
        """The account's row, None if it is only held. Read each time: another process may have changed it."""
        row = find_token(self._app.db.reader, client.provider, client.identity)
        if row is None and client.account not in self._held:
            raise _not_connected(client)
        if row is not None and row.reconnect_since:
            self._held.pop(row.token_id, None)
            raise _reconnect(client)
        return row

    async def _renew(self, client: OAuthClient, rejected: str) -> _Held:
        app = self._app
        async with self._alone(client):
            row = self._usable(client)
            if row is None:
                raise _not_connected(client)
            held = self._held.get(row.token_id)
            if held is not None and self._is_fresh(held, rejected):
                return held  # the account was connected again while we waited
            token = get_token(app.db.reader, app.vault, row.token_id) or ""
            self._remember(client, row.token_id, token)
            sent = self._uptime()
            try:
                grant = await refresh(app.transport, app.redactor, client, token, row.scopes)
            except OAuthError as error:
                if error.code not in ("INVALID_GRANT", "SCOPES"):
                    raise
                self._held.pop(row.token_id, None)
                code = error.code
                await app.db.write(lambda tx: self._write_mark(tx, client, row.token_id, code))
                raise _reconnect(client) from error
            if grant.refresh_token or grant.scopes != row.scopes:
                await self._store_rotated(client, row, grant, token)
            return self._hold(client, row.token_id, grant, sent)

    async def _store_rotated(self, client: OAuthClient, row: OAuthToken, grant: Grant, old: str) -> None:
        """The server may accept only the new refresh token from now on: it is durable before the answer is used."""
        app = self._app
        app.reached("oauth_answered")
        await app.db.write(
            lambda tx: put_token(
                tx,
                app.clock,
                app.vault,
                provider=client.provider,
                identity=client.identity,
                refresh_token=grant.refresh_token or old,
                scopes=grant.scopes,
            )
        )
        app.reached("oauth_stored")

    def _hold(self, client: OAuthClient, token_id: str, grant: Grant, sent: float) -> _Held:
        for token in (grant.refresh_token, grant.access_token):
            self._remember(client, token_id, token)
        early = min(EARLY_SECONDS, grant.seconds / 2)
        held = self._held[token_id] = _Held(token=grant.token, renew_at=sent + grant.seconds - early)
        return held

    def _remember(self, client: OAuthClient, token_id: str, token: str) -> None:
        """Have the redactor know a token, and forget those that were replaced long ago."""
        known = self._known.setdefault(token_id, deque())
        if not token or token in known:
            return
        self._app.redactor.register(f"oauth:{client.provider}", token)
        known.append(token)
        if len(known) > REMEMBERED:
            self._app.redactor.forget(known.popleft())

    # Rows and their audit events, in one transaction

    def _write_connection(self, tx: Tx, client: OAuthClient, grant: Grant, keep_client: bool) -> str:
        from coilclaw.ledger.audit import add_event
        from coilclaw.store.stored_secrets import put_secret, remove_secret

        app = self._app
        before = find_token(tx, client.provider, client.identity)
        if before is not None:
            remove_token(tx, before.token_id)
        token_id = put_token(
            tx,
            app.clock,
            app.vault,
            provider=client.provider,
            identity=client.identity,
            refresh_token=grant.refresh_token,
            scopes=grant.scopes,
        )
        name = _client_name(client.provider, client.identity)
        if keep_client:
            put_secret(tx, app.clock, app.vault, name, msgspec.json.encode(client).decode())
        else:
            remove_secret(tx, name)
        add_event(tx, app.clock, "oauth_connected", client.account, {"scopes": " ".join(grant.scopes)})
        return token_id

    def _write_mark(self, tx: Tx, client: OAuthClient, token_id: str, code: str) -> None:
        from coilclaw.ledger.audit import add_event

        if mark_reconnect(tx, self._app.clock, token_id):  # once, whichever process comes first
            add_event(tx, self._app.clock, "oauth_reconnect_needed", client.account, {"code": code})

    def _write_removal(self, tx: Tx, row: OAuthToken, revoked: bool) -> None:
        from coilclaw.ledger.audit import add_event
        from coilclaw.store.stored_secrets import remove_secret

        remove_token(tx, row.token_id)
        remove_secret(tx, _client_name(row.provider, row.identity))
        account = f"{row.provider} ({row.identity})"
        add_event(tx, self._app.clock, "oauth_disconnected", account, {"revoked": revoked})

    @asynccontextmanager
    async def _alone(self, client: OAuthClient) -> AsyncIterator[None]:
        """Be the only one, in all processes, that changes this account: a refresh token used twice may be revoked.

        The lock is taken by looking again, without a thread that could be left holding it when this is cancelled.
        """
        from coilclaw.store.lock import open_lock_file

        name = sha256_hex(f"{client.provider} {client.identity}".encode())[:16]
        fd = open_lock_file(self._app.home.locks_dir / f"oauth-{name}.lock")
        try:
            give_up = time.monotonic() + _LOCK_SECONDS
            while not _taken(fd):
                if time.monotonic() > give_up:
                    raise StorageError(
                        f"another process has been busy with {client.account} for a minute.",
                        remedy="Try again; if it stays so, end the process that hangs.",
                    )
                await asyncio.sleep(_LOOK_SECONDS)
            yield
        finally:
            os.close(fd)


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _retrieve(task: "asyncio.Task[_Held]") -> None:
    """Every caller may have gone: the error is then nobody's, and asyncio need not complain about it."""
    if not task.cancelled():
        task.exception()


def _client_name(provider: str, identity: Identity) -> str:
    """The kept client's name in the vault; no variable and no `secret set` can be called so."""
    return f"coilclaw:oauth:{provider}:{identity}"


def _not_connected(client: OAuthClient) -> OAuthError:
    return OAuthError(
        f"{client.account} is not connected.",
        code="NOT_CONNECTED",
        remedy=f"The owner runs `{client.connect_command}`.",
    )


def _reconnect(client: OAuthClient) -> ReconnectNeeded:
    return ReconnectNeeded(
        f"{client.account} has to be connected again: its permission was withdrawn or has expired.",
        remedy=f"The owner runs `{client.connect_command}`; nothing is retried until then.",
    )
