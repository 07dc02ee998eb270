"""Signing in with GitHub: one more way to a pairing code. It shows whose account it is, and approves nothing."""

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from coilclaw.features.devices.code_exchange import GITHUB, Issued, Pairing
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import NotCanonical, parse_object
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.http import HttpRequest
from coilclaw.store.devices import count_passkeys

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

SECONDS = 20.0
MOST_BYTES = 256 << 10


class NotTheOwner(CoilclawError):
    """Whoever signed in is not the owner, or did not sign in at all."""


class GitHubSignIn:
    """Holds nothing between two requests: the page that began keeps the state and the verifier."""

    def __init__(self, app: "Runtime", pairing: Pairing) -> None:
        self._app = app
        self._pairing = pairing

    @property
    def offered(self) -> bool:
        """Whether it is set up. A passkey must be there, which then confirms the device: the account alone does not."""
        forge = self._app.config.forge
        return forge.kind == "github" and bool(self._secret()) and count_passkeys(self._app.db.reader) > 0

    def address(self, home: str) -> str:
        """Where the browser goes; the page adds its state and the hash of its verifier."""
        github = self._app.config.forge.github
        asked = {"client_id": github.sign_in_client_id, "redirect_uri": _back(home), "allow_signup": "false"}
        return f"{github.site}/login/oauth/authorize?{urlencode(asked)}"

    async def code(self, code: str, verifier: str, home: str) -> Issued:
        """A pairing code for whoever signed in with the owner's account; NotTheOwner for anybody else."""
        from coilclaw.runtime.oauth.client import OAuthClient, Pending
        from coilclaw.runtime.oauth.token_requests import exchange
        from coilclaw.secrets.redactor import Redactor

        app, github = self._app, self._app.config.forge.github
        if not self.offered or app.estop.engaged():
            raise NotTheOwner("nobody can sign in with GitHub now.")
        client = OAuthClient(
            provider="github", identity="user", client_id=github.sign_in_client_id, client_secret=self._secret(),
            authorize_url=f"{github.site}/login/oauth/authorize", scopes=(), revoke_url="",
            token_url=f"{github.site}/login/oauth/access_token", connect_command="coilclaw pair",
        )  # fmt: skip
        pending = Pending(client=client, address="", redirect_uri=_back(home), state="", verifier=verifier)
        try:
            # A redactor of its own: what a stranger sends must not be blotted out of what the owner reads.
            grant = await exchange(app.transport, Redactor(), pending, code)
            account = await self._account(grant.access_token)
        except CoilclawError as error:
            raise NotTheOwner("GitHub did not say who signed in.") from error
        if account is None:
            raise NotTheOwner("GitHub did not say who signed in.")
        if account != github.owner_id:
            await app.db.write(lambda tx: add_event(tx, app.clock, "sign_in_refused", "github", {"account": account}))
            raise NotTheOwner(f"the account {account} is not the owner's.")
        app.redactor.register("github sign-in token", grant.access_token)
        by = f"{GITHUB}{account}"
        return await app.db.write(lambda tx: self._pairing.issue(tx, mode="add", by=by, vouched=False))

    async def _account(self, token: str) -> int | None:
        """The number of the account that a token belongs to; the token is forgotten."""
        request = HttpRequest(
            principal="forge",
            method="GET",
            url=f"{self._app.config.forge.github.api_url.rstrip('/')}/user",
            headers=(("authorization", f"Bearer {token}"), ("accept", "application/vnd.github+json")),
            timeout_seconds=SECONDS,
            max_bytes=MOST_BYTES,
        )
        answer = await self._app.transport.send(request)
        try:
            number = parse_object(answer.body).get("id") if answer.status == 200 else None
        except NotCanonical:
            return None
        return number if isinstance(number, int) and not isinstance(number, bool) else None

    def _secret(self) -> str:
        github = self._app.config.forge.github
        return self._app.keyring.get(github.sign_in_secret_env, "") if github.sign_in_client_id else ""


def _back(home: str) -> str:
    return f"{home.rstrip('/')}/"
