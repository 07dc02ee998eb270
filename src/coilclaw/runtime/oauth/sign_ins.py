"""Sign-ins under way: first the owner's browser, then the owner's approval, which turns the answer into an account.

The answer waits sealed in the vault, so that whichever process carries out the approved call finds it, and the code is
in no argument, card or receipt.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from coilclaw.packets.action import Identity
from coilclaw.packets.errors import CoilclawError, OAuthError, ToolError
from coilclaw.runtime.oauth.client import Hidden, OAuthClient, Pending, Redirect, begin, pasted_redirect_uri
from coilclaw.runtime.oauth.sign_in import browse
from coilclaw.store.stored_secrets import get_secret, put_secret, remove_secret

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

SECONDS: Final = 600
"""An answer is worth nothing after this long; authorization servers give up on it about then."""
_KEPT = "oauth_sign_ins"

Account: TypeAlias = tuple[str, Identity]
"""An account's provider and identity, as in the store."""
SignInState: TypeAlias = Literal["waiting", "answered", "failed"]


class SignInAnswer(Hidden, frozen=True, kw_only=True):
    """A sign-in that was answered with a code. Sealed until the owner approves the account, and used once."""

    flow: str
    pending: Pending
    code: str
    at: float
    """When it was answered, in seconds since 1970."""


class _Waiting:
    """One sign-in, while the owner is in the browser."""

    def __init__(self, pending: Pending) -> None:
        self.flow = secrets.token_hex(8)
        self.pending = pending
        self.task: asyncio.Task[None] | None = None
        self.state: SignInState = "waiting"
        self.fault = ""


class SignIns:
    """The sign-ins of this process, at most one for each account: a new one takes the place of the last."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._open: dict[Account, _Waiting] = {}

    async def begin(
        self, account: Account, client: OAuthClient | Callable[[str], Awaitable[OAuthClient]], *, listen: bool = True
    ) -> Pending:
        """Start one; its `address` is for the owner's browser. The answer comes by the listener, or by `paste`.

        A client that must be registered first is made by a function, which is given the redirect address.
        """
        await self.end(account)
        if not listen:
            address = pasted_redirect_uri()
            pending = begin(client if isinstance(client, OAuthClient) else await client(address), address)
            self._open[account] = _Waiting(pending)
            return pending
        if self.close not in self._app.leaving:
            self._app.leaving.append(self.close)
        started: asyncio.Future[_Waiting] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._listen(client, started))
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        waiting = self._open[account] = started.result() if started.done() else await _failed(task)
        waiting.task = task
        return waiting.pending

    async def wait(self, account: Account) -> None:
        """Return when the browser came back; OAuthError says why it did not."""
        waiting = self._waiting(account)
        if waiting.task is not None:
            await asyncio.wait({waiting.task})
        if waiting.state != "answered":
            raise OAuthError(waiting.fault or "The sign-in was given up.", code="REFUSED", remedy="Connect again.")

    async def paste(self, account: Account, address: str) -> None:
        """Take the address that the browser ended at."""
        waiting = self._waiting(account)
        await self._take(waiting, waiting.pending.read_pasted(address))
        if waiting.task is not None:
            waiting.task.cancel()

    def state(self, account: Account) -> tuple[SignInState, str, str] | None:
        """How far a sign-in of this process is, its address, and why it failed; None if there is none."""
        waiting = self._open.get(account)
        return None if waiting is None else (waiting.state, waiting.pending.address, waiting.fault)

    def answered(self, account: Account) -> tuple[str, OAuthClient]:
        """The flow and the client of a sign-in that was answered, for the call that the owner approves."""
        waiting = self._waiting(account)
        if waiting.state != "answered":
            raise OAuthError(
                "This sign-in was not answered yet.", code="NOT_ANSWERED", remedy="Finish it in the browser."
            )
        return waiting.flow, waiting.pending.client

    async def end(self, account: Account) -> None:
        """Forget a sign-in of this process."""
        waiting = self._open.pop(account, None)
        if waiting is not None and waiting.task is not None and not waiting.task.done():
            waiting.task.cancel()
            await asyncio.wait({waiting.task})

    async def close(self) -> None:
        """Forget all of them."""
        for account in tuple(self._open):
            await self.end(account)

    def _waiting(self, account: Account) -> _Waiting:
        waiting = self._open.get(account)
        if waiting is None:
            raise OAuthError("There is no sign-in to continue.", code="NO_SIGN_IN", remedy="Begin again.")
        return waiting

    async def _listen(
        self, client: OAuthClient | Callable[[str], Awaitable[OAuthClient]], started: "asyncio.Future[_Waiting]"
    ) -> None:
        try:
            _, answer = await browse(client, lambda pending: started.set_result(_Waiting(pending)))
            await self._take(started.result(), answer)
        except CoilclawError as error:
            if not started.done():
                raise
            waiting = started.result()
            waiting.state, waiting.fault = "failed", str(error)

    async def _take(self, waiting: _Waiting, answer: Redirect) -> None:
        client = waiting.pending.client
        code = answer.checked(client)
        app = self._app
        for value in (code, waiting.pending.verifier):
            app.redactor.register(f"oauth:{client.provider}", value)
        kept = SignInAnswer(flow=waiting.flow, pending=waiting.pending, code=code, at=app.clock().timestamp())
        sealed, name = msgspec.json.encode(kept).decode(), _name((client.provider, client.identity))
        await app.db.write(lambda tx: put_secret(tx, app.clock, app.vault, name, sealed))
        waiting.state = "answered"


async def _failed(task: "asyncio.Task[None]") -> _Waiting:
    """It could not begin: say why."""
    await task
    raise OAuthError("The sign-in could not begin.", code="REFUSED", remedy="Try again, or use --paste.")


async def take_answer(app: "Runtime", account: Account, flow: str, *, remedy: str) -> SignInAnswer:
    """The answer of a sign-in, once: it is gone from the vault before it is used."""
    sealed = get_secret(app.db.reader, app.vault, _name(account))
    found = None if sealed is None else msgspec.json.decode(sealed, type=SignInAnswer)
    if found is None or found.flow != flow or not 0 <= app.clock().timestamp() - found.at <= SECONDS:
        raise ToolError(
            "this sign-in is over: it was used, replaced or too long ago.",
            remedy=remedy,
            code="SIGN_IN_OVER",
            begun=False,
        )
    await app.db.write(lambda tx: remove_secret(tx, _name(account)))
    client = found.pending.client
    for value in (found.code, found.pending.verifier, client.client_secret):
        app.redactor.register(f"oauth:{client.provider}", value)
    return found


def sign_ins(app: "Runtime") -> SignIns:
    """The sign-ins of an open home, in this process."""
    kept = app.kept.get(_KEPT)
    if not isinstance(kept, SignIns):
        kept = app.kept[_KEPT] = SignIns(app)
    return kept


def _name(account: Account) -> str:
    """The answer's name in the vault; no variable and no `secret set` can be called so."""
    provider, identity = account
    return f"coilclaw:oauth:{provider}:{identity}:answer"
