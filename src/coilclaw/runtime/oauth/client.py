"""An OAuth client, the address its owner opens, and the redirect that comes back. Pure, but for randomness."""

import base64
import hashlib
import hmac
import re
import secrets
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from coilclaw.airlock.names import is_localhost
from coilclaw.airlock.ranges import special
from coilclaw.airlock.redirect_listener import HOST, PATH
from coilclaw.airlock.url import MAX_URL, Refusal, Target, parse_url
from coilclaw.packets.action import Identity
from coilclaw.packets.errors import ConfigError, OAuthError

ClientAuth: TypeAlias = Literal["basic", "post"]
"""How a client secret is sent to the token endpoint: in the Authorization header, or in the body."""

OURS = frozenset(
    {"response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method"}
    | {"resource", "client_secret", "code", "code_verifier", "grant_type", "request", "request_uri", "response_mode"}
)
"""Parameters that nobody else may set: another value would redirect the answer, or weaken how it is bound."""
MOST_SCOPES = 100
_PROVIDER = re.compile(r"[a-z][a-z0-9]{0,31}(?::[A-Za-z0-9._-]{1,64})?\Z")
_SCOPE = re.compile(r"[!#-\[\]-~]{1,256}\Z")
_PRINTABLE = re.compile(r"[ -~]{1,1024}\Z")
_CODE = re.compile(r"[!-~]{1,4096}\Z")
_ERROR = re.compile(r"[a-z_]{1,64}\Z")


class Hidden(msgspec.Struct, frozen=True, kw_only=True):
    """A value with secrets inside: no log, traceback or prompt shows its fields."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class OAuthClient(Hidden, frozen=True, kw_only=True):
    """One client at one authorization server, for one identity. The caller resolves everything."""

    provider: str
    """The account's name in the store: `google`, or a kind and a name such as `mcp:files`."""
    identity: Identity
    client_id: str
    client_secret: str
    """Empty for a public client."""
    authorize_url: str
    token_url: str
    revoke_url: str
    """Empty if the server cannot revoke."""
    scopes: tuple[str, ...]
    """What the owner agreed to ask for. Empty asks for the server's default, which is then kept and must not grow."""
    connect_command: str
    """What the owner runs to connect the account again; errors name it."""
    client_auth: ClientAuth = "post"
    authorize_params: tuple[tuple[str, str], ...] = ()
    """Further parameters of the address to open, such as `access_type=offline`."""
    resource: str = ""
    """RFC 8707: the server the token is for; empty if there is only one."""
    issuer: str = ""
    """The server's own name; when set, an `iss` in its redirect must be the same (RFC 9207)."""
    issuer_required: bool = False
    """The server promised to send `iss`, so a redirect without it is refused."""

    def __post_init__(self) -> None:
        problems = [
            *(f"{name}: {fault}" for name, url in self._urls() if (fault := url_fault(url))),
            *(["provider: write a name such as google or mcp:files"] if not _PROVIDER.match(self.provider) else []),
            *(["client_id: it must be one printable line"] if not _PRINTABLE.match(self.client_id) else []),
            *_scope_faults(self.scopes),
            *(f"{name} is set by CoilClaw; leave it out" for name, _ in self.authorize_params if name in OURS),
        ]
        if self.client_secret and not _PRINTABLE.match(self.client_secret):
            problems.append("client_secret: it must be one printable line")
        if problems:
            raise ConfigError(problems, remedy="Correct the account's settings, then connect again.")

    @property
    def account(self) -> str:
        """The account in words."""
        return f"{self.provider} ({self.identity})"

    def _urls(self) -> list[tuple[str, str]]:
        named = [("authorize_url", self.authorize_url), ("token_url", self.token_url), ("revoke_url", self.revoke_url)]
        return [(name, url) for name, url in named if url or name != "revoke_url"]


class Pending(Hidden, frozen=True, kw_only=True):
    """A flow that waits for the owner: the address to open, and what the answer must fit."""

    client: OAuthClient
    address: str
    """To be opened in a browser. It holds no secret that could be used without the verifier."""
    redirect_uri: str
    state: str
    verifier: str

    def read(self, query: str) -> "Redirect | None":
        """What a redirect's query says; None if it is not the answer to this flow."""
        return read_redirect(query, self.state, issuer=self.client.issuer, issuer_required=self.client.issuer_required)

    def read_pasted(self, text: str) -> "Redirect":
        """The same from the whole address that the owner copied out of a browser; OAuthError says what is wrong."""
        address = text.strip()
        base, mark, query = address.partition("?")
        answer = self.read(query.partition("#")[0]) if mark and base == self.redirect_uri else None
        if answer is None:
            raise OAuthError(
                "This is not the address that this sign-in ends at.",
                code="PASTED",
                remedy=f"Copy the whole address from the browser; it begins with {self.redirect_uri}?",
            )
        return answer


class Redirect(Hidden, frozen=True, kw_only=True):
    """What an authorization server answered by redirect: a code, or why there is none."""

    code: str = ""
    fault: str = ""
    """Empty with a code; else `access_denied`, another code of the server, ISSUER or BAD_ANSWER."""

    def checked(self, client: OAuthClient) -> str:
        """The code, or OAuthError with what to do next."""
        if not self.fault:
            return self.code
        if self.fault == "access_denied":
            raise OAuthError(f"{client.account} was not connected: access was denied.", code="DENIED")
        if self.fault == "ISSUER":
            raise OAuthError(
                f"The answer for {client.account} came from another authorization server.",
                code="ISSUER",
                remedy="Connect again with the address CoilClaw shows. If it happens again, do not trust that server.",
            )
        raise OAuthError(
            f"The authorization server did not connect {client.account} ({self.fault}).",
            code="REFUSED",
            remedy="Check the client id, the redirect address registered for it and the scopes, then connect again.",
        )


def begin(client: OAuthClient, redirect_uri: str) -> Pending:
    """Start a flow: fresh state and PKCE verifier (256 bits each), and the address for the owner to open."""
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    parameters = [
        ("response_type", "code"),
        ("client_id", client.client_id),
        ("redirect_uri", redirect_uri),
        *((("scope", " ".join(client.scopes)),) if client.scopes else ()),
        ("state", state),
        ("code_challenge", challenge_of(verifier)),
        ("code_challenge_method", "S256"),
        *((("resource", client.resource),) if client.resource else ()),
        *client.authorize_params,
    ]
    joint = "&" if "?" in client.authorize_url else "?"
    address = f"{client.authorize_url}{joint}{urlencode(parameters, quote_via=quote)}"
    return Pending(client=client, address=address, redirect_uri=redirect_uri, state=state, verifier=verifier)


def pasted_redirect_uri() -> str:
    """A loopback address nobody listens on: the browser fails to open it, and the owner copies it from there."""
    return f"http://{HOST}:{49152 + secrets.randbelow(16384)}{PATH}"


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).decode("ascii").rstrip("=")


def read_redirect(query: str, state: str, *, issuer: str, issuer_required: bool) -> Redirect | None:
    """Parse a redirect's query strictly. None unless it carries this state, once: then anyone may have sent it."""
    fields = _fields(query)
    states = [value for name, value in fields if name == "state"]
    if len(states) != 1 or not hmac.compare_digest(states[0].encode(), state.encode()):
        return None
    found = dict(fields)
    if len(found) != len(fields):
        return Redirect(fault="BAD_ANSWER")
    named = found.get("iss", "")
    if issuer and (named != issuer if named else issuer_required):
        return Redirect(fault="ISSUER")
    if "error" in found:
        return Redirect(fault=found["error"] if _ERROR.match(found["error"]) else "BAD_ANSWER")
    code = found.get("code", "")
    return Redirect(code=code) if _CODE.match(code) else Redirect(fault="BAD_ANSWER")


def _fields(query: str) -> list[tuple[str, str]]:
    if len(query) > MAX_URL or not query.isascii():
        return []
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=32)
    except ValueError:  # a field without `=`, broken UTF-8, or too many
        return []


def url_fault(url: str) -> str:
    """Why an authorization server's URL cannot be used, or nothing: https, or http on this machine alone."""
    target = parse_url(url)
    if isinstance(target, Refusal):
        return target.reason
    if "#" in url:
        return "the URL must not have a fragment"
    if target.scheme == "http" and not on_this_machine(target):
        return "only https is accepted, except on this machine; write https://"
    if any(name in OURS for name, _ in parse_qsl(target.path.partition("?")[2], keep_blank_values=True)):
        return "the URL sets a parameter that CoilClaw sets itself"
    return ""


def on_this_machine(target: Target) -> bool:
    """Whether a target is loopback by its very spelling."""
    if target.kind == "name":
        return is_localhost(target.host)
    block = special(target.host)
    return block is not None and block.place == "loopback"


def _scope_faults(scopes: tuple[str, ...]) -> list[str]:
    if len(scopes) > MOST_SCOPES or len(set(scopes)) != len(scopes):
        return [f"scopes: list at most {MOST_SCOPES}, each once"]
    return [] if all(map(is_scope, scopes)) else ["scopes: a scope is one word of printable ASCII"]


def is_scope(text: str) -> bool:
    """Whether this is a scope by RFC 6749, of bounded length."""
    return bool(_SCOPE.match(text))
