"""Signing in at Google: first the owner's browser, then the owner's approval, which turns the answer into an account.

The answer waits sealed in the vault, so that whichever process carries out the approved call finds it, and the code is
in no argument, card or receipt.
"""

import asyncio
import secrets
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from coilclaw.features.mail.accounts import PROVIDER, SCOPES, google_accounts
from coilclaw.packets.action import Identity, ToolCall
from coilclaw.packets.errors import OAuthError, ToolError
from coilclaw.runtime.oauth.client import Hidden, OAuthClient, Pending, Redirect, begin, pasted_redirect_uri
from coilclaw.runtime.oauth.sign_in import browse
from coilclaw.store.stored_secrets import get_secret, put_secret, remove_secret

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

SECONDS: Final = 600
"""An answer is worth nothing after this long; Google itself gives up on it about then."""
_KEPT = "google_sign_ins"

SignInState: TypeAlias = Literal["waiting", "answered", "failed"]


class SignInAnswer(Hidden, frozen=True, kw_only=True):
    """A sign-in that Google answered with a code. Sealed until the owner approves the account, and used once."""

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
    """The sign-ins of this process, at most one for each identity: a new one takes the place of the last."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._open: dict[Identity, _Waiting] = {}

    async def begin(self, identity: Identity, *, listen: bool = True) -> Pending:
        """Start one; its `address` is for the owner's browser. The answer comes by the listener, or by `paste`."""
        client = google_accounts(self._app).client(identity)
        await self.end(identity)
        if not listen:
            waiting = self._open[identity] = _Waiting(begin(client, pasted_redirect_uri()))
            return waiting.pending
        if self.close not in self._app.leaving:
            self._app.leaving.append(self.close)
        started: asyncio.Future[_Waiting] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._listen(client, started))
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        waiting = self._open[identity] = started.result() if started.done() else await _failed(task)
        waiting.task = task
        return waiting.pending

    async def wait(self, identity: Identity) -> None:
        """Return when the browser came back; OAuthError says why it did not."""
        waiting = self._waiting(identity)
        if waiting.task is not None:
            await asyncio.wait({waiting.task})
        if waiting.state != "answered":
            raise OAuthError(waiting.fault or "The sign-in was given up.", code="REFUSED", remedy="Connect again.")

    async def paste(self, identity: Identity, address: str) -> None:
        """Take the address that the browser ended at."""
        waiting = self._waiting(identity)
        await self._take(identity, waiting, waiting.pending.read_pasted(address))
        if waiting.task is not None:
            waiting.task.cancel()

    def state(self, identity: Identity) -> tuple[SignInState, str, str] | None:
        """How far a sign-in of this process is, its address, and why it failed; None if there is none."""
        waiting = self._open.get(identity)
        return None if waiting is None else (waiting.state, waiting.pending.address, waiting.fault)

    def call(self, identity: Identity) -> ToolCall:
        """The call that makes an account of the answer; the owner approves it."""
        waiting = self._waiting(identity)
        if waiting.state != "answered":
            raise OAuthError(
                "Google has not answered this sign-in yet.", code="NOT_ANSWERED", remedy="Finish it in the browser."
            )
        args = {"account": identity, "flow": waiting.flow, "client_id": waiting.pending.client.client_id}
        return ToolCall.of("google_connect", {**args, "scopes": [*SCOPES[identity]]})

    async def end(self, identity: Identity) -> None:
        """Forget a sign-in of this process."""
        waiting = self._open.pop(identity, None)
        if waiting is not None and waiting.task is not None:
            waiting.task.cancel()
            await asyncio.wait({waiting.task})

    async def close(self) -> None:
        """Forget all of them."""
        for identity in tuple(self._open):
            await self.end(identity)

    def _waiting(self, identity: Identity) -> _Waiting:
        waiting = self._open.get(identity)
        if waiting is None:
            raise OAuthError("There is no sign-in to go on with.", code="NO_SIGN_IN", remedy="Begin again.")
        return waiting

    async def _listen(self, client: OAuthClient, started: "asyncio.Future[_Waiting]") -> None:
        try:
            _, answer = await browse(client, lambda pending: started.set_result(_Waiting(pending)), seconds=SECONDS)
            await self._take(client.identity, started.result(), answer)
        except OAuthError as error:
            waiting = started.result()
            waiting.state, waiting.fault = "failed", str(error)

    async def _take(self, identity: Identity, waiting: _Waiting, answer: Redirect) -> None:
        code = answer.checked(waiting.pending.client)
        app = self._app
        for value in (code, waiting.pending.verifier):
            app.redactor.register(f"oauth:{PROVIDER}", value)
        kept = SignInAnswer(flow=waiting.flow, pending=waiting.pending, code=code, at=app.clock().timestamp())
        sealed = msgspec.json.encode(kept).decode()
        await app.db.write(lambda tx: put_secret(tx, app.clock, app.vault, _name(identity), sealed))
        waiting.state = "answered"


async def _failed(task: "asyncio.Task[None]") -> _Waiting:
    """No listener could be opened: say why."""
    await task
    raise OAuthError("The sign-in could not begin.", code="REFUSED", remedy="Try again, or use --paste.")


async def take_answer(app: "Runtime", identity: Identity, flow: str) -> SignInAnswer:
    """The answer of a sign-in, once: it is gone from the vault before it is used."""
    sealed = get_secret(app.db.reader, app.vault, _name(identity))
    found = None if sealed is None else msgspec.json.decode(sealed, type=SignInAnswer)
    if found is None or found.flow != flow or not 0 <= app.clock().timestamp() - found.at <= SECONDS:
        raise ToolError(
            "this sign-in is over: it was used, replaced or too long ago.",
            remedy=f"Begin again: `coilclaw google connect --identity {identity}`.",
            code="SIGN_IN_OVER",
            begun=False,
        )
    await app.db.write(lambda tx: remove_secret(tx, _name(identity)))
    for value in (found.code, found.pending.verifier):
        app.redactor.register(f"oauth:{PROVIDER}", value)
    return found


def sign_ins(app: "Runtime") -> SignIns:
    """The sign-ins of an open home, in this process."""
    kept = app.kept.get(_KEPT)
    if not isinstance(kept, SignIns):
        kept = app.kept[_KEPT] = SignIns(app)
    return kept


def _name(identity: Identity) -> str:
    """The answer's name in the vault; no variable and no `secret set` can be called so."""
    return f"coilclaw:oauth:{PROVIDER}:{identity}:answer"
