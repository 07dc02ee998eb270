"""Where people sign in at the fake GitHub: an OAuth app with PKCE, read strictly. Not for production."""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from coilclaw.packets.canonical import JsonObject
from coilclaw.sandbox.fake_github import Account, FakeGitHub, GitHubReply

CLIENT_ID, CLIENT_SECRET = "Iv1.fake", "fake-client-secret-0123456789abcdef"


class FakeSignIn(FakeGitHub):
    """A fake GitHub with an OAuth app. `signed_in` is whoever sits at the browser, and says yes."""

    def __init__(self, folder: Path, *, public_key: bytes = b"", port: int = 0) -> None:
        super().__init__(folder, public_key=public_key, port=port)
        self.signed_in = "owner-token"
        self._codes: dict[str, tuple[Account, dict[str, str]]] = {}

    def sign_in(self, address: str) -> str:
        """Where the browser is sent back to from an address that it opened."""
        asked = dict(parse_qsl(urlsplit(address).query))
        if asked.get("client_id") != CLIENT_ID or asked.get("code_challenge_method") != "S256":
            raise ValueError("it is not for this app, or not bound to its page")
        code = secrets.token_hex(10)
        self._codes[code] = self.accounts[self.signed_in], asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def _route(self, method: str, path: str, body: JsonObject, headers: Mapping[str, str]) -> GitHubReply:
        if (method, path.partition("?")[0]) == ("GET", "/login/oauth/authorize"):
            return GitHubReply(status=302, headers=(("location", self.sign_in(path)),))
        if (method, path) == ("POST", "/login/oauth/access_token"):
            return GitHubReply(body=self._token(body))
        return super()._route(method, path, body, headers)

    def _token(self, body: JsonObject) -> JsonObject:
        """As the service does, faults come with the status 200."""
        if (body.get("client_id"), body.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET):
            return {"error": "incorrect_client_credentials"}
        known = self._codes.pop(str(body.get("code")), None)
        made = hashlib.sha256(str(body.get("code_verifier")).encode()).digest()
        challenge = base64.urlsafe_b64encode(made).rstrip(b"=").decode()
        if known is None or (known[1]["redirect_uri"], known[1]["code_challenge"]) != (
            body.get("redirect_uri"), challenge,
        ):  # fmt: skip
            return {"error": "bad_verification_code"}
        who = known[0]
        token = f"gho_{secrets.token_hex(18)}"
        self.accounts[token] = who
        return {"access_token": token, "token_type": "bearer", "scope": ""}
