"""A strict authorization server on loopback, with a resource it protects: the other end of the OAuth flow for tests.

`python -m coilclaw.sandbox.fake_oauth` prints its address. It consents at once, as if the owner had clicked, and is
strict about everything else: PKCE, codes used once, exact redirect addresses, rotation (a refresh token used twice ends
its whole permission), expiry, revocation, scopes. Faults are scripted by path. Nothing here is for production.
"""

import base64
import hashlib
import hmac
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, TypeAlias, cast
from urllib.parse import parse_qsl, unquote_plus, urlencode

import msgspec

from coilclaw.packets.canonical import Json, JsonObject

_CALLBACK = re.compile(r"http://127\.0\.0\.1:[1-9][0-9]{0,4}/[!-~]*\Z")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}\Z")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}\Z")
CODE_SECONDS = 60


class OAuthReply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the fake."""

    status: int = 200
    body: JsonObject | bytes = {}
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False
    """Hang up before anything is sent."""

    @property
    def fields(self) -> JsonObject:
        """The body, if it is JSON."""
        return self.body if isinstance(self.body, Mapping) else {}


Change: TypeAlias = Callable[[OAuthReply], OAuthReply]


class FakePermission(msgspec.Struct, kw_only=True):
    """What one consent of the owner made; all its tokens end together."""

    client_id: str
    scopes: tuple[str, ...]
    resource: str
    subject: str = ""
    """Whose account it opens."""
    ended: bool = False


class _Code(msgspec.Struct, kw_only=True):
    permission: FakePermission
    redirect_uri: str
    challenge: str
    expires: float
    used: bool = False


class FakeOAuth:
    """Start it, give its addresses to a client, look at `requests`. Use it as a context manager."""

    def __init__(
        self,
        *,
        client_id: str = "fake-client",
        client_secret: str = "",
        scopes: tuple[str, ...] = ("read", "write"),
        lifetime: int = 3600,
        rotates: bool = True,
        clock: Callable[[], float] = time.monotonic,
        port: int = 0,
    ) -> None:
        self.client_id = client_id
        self.scopes = scopes
        self.lifetime = lifetime
        self.rotates = rotates
        self.granting: tuple[str, ...] | None = None
        """Grant these instead of what was asked for."""
        self.subject = ""
        """Who consents."""
        self.denies = False
        """The owner says no."""
        self.instead: dict[str, list[OAuthReply]] = {}
        """By path: answers that come before anything happens, each once."""
        self.afterwards: dict[str, list[Change]] = {}
        """By path: changes to the answer after its effect, each once."""
        self.held = threading.Event()
        """While clear, the token endpoint waits before it answers."""
        self.held.set()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        """Method, path and form or query of every request."""
        self._clients: dict[str, tuple[str, str]] = {client_id: (client_secret, "")}
        self._codes: dict[str, _Code] = {}
        self._refresh: dict[str, tuple[FakePermission, bool]] = {}
        self._access: dict[str, tuple[FakePermission, float]] = {}
        self._clock = clock
        self._lock = threading.Lock()
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        """Its issuer."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def resource_url(self) -> str:
        """What its tokens open."""
        return f"{self.base_url}/mcp"

    def url(self, path: str) -> str:
        """The address of `/authorize`, `/token`, `/revoke` or `/register`."""
        return self.base_url + path

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.held.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked(self, path: str) -> list[dict[str, str]]:
        """The forms that came to a path."""
        return [fields for _, where, fields in list(self.requests) if where == path]

    def end_all(self) -> None:
        """Withdraw every permission, as an owner does at the provider."""
        with self._lock:
            for permission, _ in self._refresh.values():
                permission.ended = True

    def holds(self, token: str) -> bool:
        """Whether a refresh token would be accepted."""
        permission, used = self._refresh.get(token, (None, True))
        return permission is not None and not permission.ended and not used

    def answer(self, method: str, path: str, fields: dict[str, str], headers: Mapping[str, str]) -> OAuthReply:
        """The reply to a request; scripted ones first."""
        if path == "/token":
            self.held.wait(60)
        with self._lock:
            self.requests.append((method, path, fields))
            if self.instead.get(path):
                return self.instead[path].pop(0)
            reply = self.route(method, path, fields, headers)
            return self.afterwards[path].pop(0)(reply) if self.afterwards.get(path) else reply

    def route(self, method: str, path: str, fields: dict[str, str], headers: Mapping[str, str]) -> OAuthReply:
        """What is done and said where nothing is scripted."""
        match method, path:
            case "GET", "/authorize":
                return self.authorize(fields)
            case "POST", "/token" | "/revoke":
                client_id = self._client(fields, headers)
                if client_id is None:
                    return _error("invalid_client", 401)
                return self.token(client_id, fields) if path == "/token" else self._revoke(client_id, fields)
            case "POST", "/register":
                return self._register(fields)
            case "GET", "/mcp":
                return self._resource(headers)
            case "GET", "/.well-known/oauth-protected-resource/mcp":
                listed: Json = list(self.scopes)
                body: dict[str, Json] = {"resource": self.resource_url, "authorization_servers": [self.base_url]}
                return OAuthReply(body={**body, "scopes_supported": listed})
            case "GET", "/.well-known/oauth-authorization-server":
                return OAuthReply(body=self._metadata())
            case _:
                return _error("not_found", 404)

    def _metadata(self) -> JsonObject:
        places = {"authorization_endpoint": "/authorize", "token_endpoint": "/token"}
        places |= {"revocation_endpoint": "/revoke", "registration_endpoint": "/register"}
        return {
            "issuer": self.base_url,
            **{name: self.url(path) for name, path in places.items()},
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": True,
        }

    def authorize(self, asked: dict[str, str]) -> OAuthReply:
        """Consent and redirect. An unknown client or redirect address gets a page: nobody is sent to it."""
        client = self._clients.get(asked.get("client_id", ""))
        redirect_uri = asked.get("redirect_uri", "")
        registered = client[1] if client else ""
        if client is None or not _CALLBACK.match(redirect_uri) or (registered and registered != redirect_uri):
            return _error("invalid_request", 400)
        back = {"state": asked.get("state", ""), "iss": self.base_url}
        scopes = tuple(asked["scope"].split(" ")) if asked.get("scope") else self.scopes
        known = asked.get("response_type") == "code" and asked.get("code_challenge_method") == "S256"
        if not known or not _CHALLENGE.match(asked.get("code_challenge", "")) or len(back["state"]) < 22:
            return _redirect(redirect_uri, {**back, "error": "invalid_request"})
        if not set(scopes) <= set(self.scopes):
            return _redirect(redirect_uri, {**back, "error": "invalid_scope"})
        if self.denies:
            return _redirect(redirect_uri, {**back, "error": "access_denied", "error_description": "<script>no"})
        code = f"code-{secrets.token_urlsafe(24)}"
        granted = scopes if self.granting is None else self.granting
        self._codes[code] = _Code(
            permission=FakePermission(
                client_id=asked["client_id"],
                scopes=granted,
                resource=asked.get("resource", ""),
                subject=self.subject,
            ),
            redirect_uri=redirect_uri,
            challenge=asked["code_challenge"],
            expires=self._clock() + CODE_SECONDS,
        )
        return _redirect(redirect_uri, {**back, "code": code})

    def _client(self, fields: dict[str, str], headers: Mapping[str, str]) -> str | None:
        """The client that proved itself, or None. A secret in both places is refused."""
        kind, _, proof = headers.get("authorization", "").partition(" ")
        client_id, secret = fields.get("client_id", ""), fields.get("client_secret", "")
        if kind:
            if kind != "Basic" or client_id or secret:
                return None
            client_id, _, secret = (unquote_plus(part) for part in base64.b64decode(proof).decode().partition(":"))
        expected = self._clients.get(client_id)
        return client_id if expected and hmac.compare_digest(expected[0], secret) else None

    def token(self, client_id: str, fields: dict[str, str]) -> OAuthReply:
        """Tokens for a code or a refresh token, or the error."""
        if fields.get("grant_type") == "authorization_code":
            permission = self._redeemed(client_id, fields)
        elif fields.get("grant_type") == "refresh_token":
            permission = self._renewed(client_id, fields)
        else:
            return _error("unsupported_grant_type", 400)
        if permission is None:
            return _error("invalid_grant", 400)
        if fields.get("resource", "") != permission.resource:
            return _error("invalid_target", 400)
        access = f"at-{secrets.token_urlsafe(32)}"
        self._access[access] = (permission, self._clock() + self.lifetime)
        answer: dict[str, Json] = {"access_token": access, "token_type": "Bearer", "expires_in": self.lifetime}
        answer["scope"] = " ".join(permission.scopes)
        if self.rotates or fields["grant_type"] == "authorization_code":
            answer["refresh_token"] = f"rt-{secrets.token_urlsafe(32)}"
            self._refresh[str(answer["refresh_token"])] = (permission, False)
        return OAuthReply(body=answer, headers=(("Cache-Control", "no-store"),))

    def _redeemed(self, client_id: str, fields: dict[str, str]) -> FakePermission | None:
        """A code is used once, in time, by its client, at its redirect address, by whoever has the verifier."""
        code = self._codes.get(fields.get("code", ""))
        if code is None or code.permission.client_id != client_id:
            return None
        if code.used:
            code.permission.ended = True
            return None
        code.used = True
        verifier = fields.get("code_verifier", "")
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        fits = bool(_VERIFIER.match(verifier)) and hmac.compare_digest(digest, code.challenge)
        in_time = self._clock() < code.expires
        return code.permission if fits and in_time and fields.get("redirect_uri") == code.redirect_uri else None

    def _renewed(self, client_id: str, fields: dict[str, str]) -> FakePermission | None:
        token = fields.get("refresh_token", "")
        permission, used = self._refresh.get(token, (None, False))
        if permission is None or permission.client_id != client_id or permission.ended:
            return None
        if used:  # somebody has a copy: nobody keeps anything
            permission.ended = True
            return None
        self._refresh[token] = (permission, self.rotates)
        return permission

    def _revoke(self, client_id: str, fields: dict[str, str]) -> OAuthReply:
        token = fields.get("token", "")
        permission = self._refresh.get(token, (None,))[0] or self._access.get(token, (None,))[0]
        if permission is not None and permission.client_id == client_id:
            permission.ended = True
        return OAuthReply()  # RFC 7009: an unknown token is as good as revoked

    def _register(self, wanted: dict[str, str]) -> OAuthReply:
        uris = msgspec.json.decode(wanted.get("redirect_uris", "[]"), type=list[str])
        if len(uris) != 1 or not _CALLBACK.match(uris[0]):
            return _error("invalid_redirect_uri", 400)
        client_id = f"made-{secrets.token_urlsafe(8)}"
        self._clients[client_id] = ("", uris[0])
        listed: Json = list(uris)
        body: dict[str, Json] = {"client_id": client_id, "redirect_uris": listed, "token_endpoint_auth_method": "none"}
        return OAuthReply(status=201, body=body)

    def opened(self, headers: Mapping[str, str]) -> FakePermission | None:
        """The permission that a request's bearer token stands for; None if it opens nothing (any more)."""
        permission, expires = self._access.get(headers.get("authorization", "").removeprefix("Bearer "), (None, 0.0))
        return None if permission is None or permission.ended or self._clock() >= expires else permission

    def issue(self, permission: FakePermission) -> tuple[str, str]:
        """An access and a refresh token, as if the owner had just connected."""
        access, kept = f"at-{secrets.token_urlsafe(32)}", f"rt-{secrets.token_urlsafe(32)}"
        self._access[access] = (permission, self._clock() + self.lifetime)
        self._refresh[kept] = (permission, False)
        return access, kept

    def _resource(self, headers: Mapping[str, str]) -> OAuthReply:
        permission = self.opened(headers)
        if permission is None:
            place = f"{self.base_url}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer error="invalid_token", resource_metadata="{place}", scope="read"'
            return msgspec.structs.replace(_error("invalid_token", 401), headers=(("WWW-Authenticate", challenge),))
        return OAuthReply(body={"scopes": " ".join(permission.scopes)})


def _error(code: str, status: int) -> OAuthReply:
    return OAuthReply(status=status, body={"error": code, "error_description": "a sentence of the server's own"})


def _redirect(place: str, fields: dict[str, str]) -> OAuthReply:
    return OAuthReply(status=302, body=b"", headers=(("Location", f"{place}?{urlencode(fields)}"),))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, fake: FakeOAuth, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.fake = fake


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name the base class gave it
        pass

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        fields: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):  # what may stand there twice is a list
            fields[name] = f"{fields[name]},{value}" if name in fields else value
        self._send("GET", path, fields)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Type") == "application/json":
            given = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            fields = {name: bytes(raw).decode() for name, raw in given.items()}
        else:
            fields = dict(parse_qsl(data.decode("ascii"), keep_blank_values=True, strict_parsing=True))
        self._send("POST", self.path, fields)

    def _send(self, method: str, path: str, fields: dict[str, str]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = cast("_Server", self.server).fake.answer(method, path, fields, headers)
        self.close_connection = True
        if reply.cut:
            return
        body = reply.body if isinstance(reply.body, bytes) else msgspec.json.encode(reply.body)
        kinds = [value for name, value in reply.headers if name.lower() == "content-type"]
        self.send_response(reply.status)
        for name, value in (*reply.headers, *(() if kinds else (("Content-Type", "application/json"),))):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            return  # whoever asked has seen enough


def main() -> None:
    """Serve until interrupted."""
    with FakeOAuth() as fake:
        sys.stdout.write(f"{fake.base_url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("\n")


if __name__ == "__main__":
    main()
