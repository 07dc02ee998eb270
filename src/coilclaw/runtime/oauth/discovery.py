"""Where a protected resource's tokens come from: metadata of the resource and of its authorization server.

Every document here is written by somebody else. Nothing in it leads to a host that the owner did not name.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from coilclaw.airlock.listing import Endpoint, named_origins
from coilclaw.airlock.url import Refusal, Target, parse_url
from coilclaw.packets.action import Identity
from coilclaw.packets.canonical import JsonObject, NotCanonical, canonical_bytes, parse_object
from coilclaw.packets.errors import OAuthError
from coilclaw.packets.http import HttpRequest, HttpResponse
from coilclaw.packets.text import one_line
from coilclaw.runtime.oauth.client import ClientAuth, Hidden, OAuthClient, is_scope, url_fault

if TYPE_CHECKING:
    from coilclaw.packets.ports import Transport
    from coilclaw.secrets.redactor import Redactor

MOST_BYTES: Final = 64 << 10
TIMEOUT_SECONDS: Final = 20.0
MOST_SERVERS: Final = 16
_RESOURCE = ".well-known/oauth-protected-resource"
_SERVER = ".well-known/oauth-authorization-server"
_OPENID = ".well-known/openid-configuration"
_CHALLENGE = re.compile(r'\b(resource_metadata|scope)="([^"\\]{1,2048})"')
_AUTH: Final[dict[str, ClientAuth]] = {"client_secret_basic": "basic", "client_secret_post": "post"}
_PRINTABLE = re.compile(r"[ -~]{1,1024}\Z")


class OAuthEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """A resource's authorization server, every address of it at a host that the owner named."""

    issuer: str
    issuer_required: bool
    resource: str
    authorize_url: str
    token_url: str
    revoke_url: str
    register_url: str
    """Empty unless the server registers clients by itself and the owner allowed that."""
    register_as: str
    """The authentication to register a client with: none, if the server serves public clients."""
    client_auth: ClientAuth
    scopes_offered: tuple[str, ...]
    """What the resource suggests to ask for, and `offline_access` if the server knows it. The owner decides."""

    def client(
        self,
        *,
        provider: str,
        identity: Identity,
        client_id: str,
        client_secret: str,
        scopes: tuple[str, ...],
        connect_command: str,
        client_auth: ClientAuth | None = None,
    ) -> OAuthClient:
        """A client at this server; a registered one may have a `client_auth` of its own."""
        return OAuthClient(
            provider=provider,
            identity=identity,
            client_id=client_id,
            client_secret=client_secret,
            authorize_url=self.authorize_url,
            token_url=self.token_url,
            revoke_url=self.revoke_url,
            scopes=scopes,
            connect_command=connect_command,
            client_auth=client_auth or self.client_auth,
            resource=self.resource,
            issuer=self.issuer,
            issuer_required=self.issuer_required,
        )


class RegisteredClient(Hidden, frozen=True, kw_only=True):
    """A client that an authorization server made for us."""

    client_id: str
    client_secret: str
    """Empty for a public client."""
    client_auth: ClientAuth
    """How the server wants the secret."""


async def discover(
    transport: "Transport",
    resource_url: str,
    allowed_hosts: Iterable[str],
    *,
    may_register: bool,
    challenge: str = "",
) -> OAuthEndpoints:
    """Find the authorization server of a resource (RFC 9728, RFC 8414), or raise OAuthError.

    `allowed_hosts` are names or base URLs, each exact. `challenge` is the WWW-Authenticate header of a 401.
    """
    lookup = _Lookup(transport, allowed_hosts)
    hints = dict(_CHALLENGE.findall(challenge[:8192]))
    base = lookup.allowed(resource_url, "the resource")
    about = await lookup.first(_resource_places(base, hints.get("resource_metadata", "")), "the resource")
    resource = _resource(about, base)
    issuer = _issuer(about, lookup)
    server = await lookup.first(_server_places(lookup.allowed(issuer, "the authorization server")), "its server")
    if _text(server, "issuer").rstrip("/") != issuer.rstrip("/"):
        raise _refused("the authorization server's metadata is for another server")
    _must_list(server, "code_challenge_methods_supported", "S256", "does not support PKCE with S256", required=True)
    _must_list(server, "response_types_supported", "code", "does not give authorization codes", required=False)
    wanted = hints.get("scope", "").split() or list(_texts(about, "scopes_supported"))
    wanted += [scope for scope in _texts(server, "scopes_supported") if scope == "offline_access"]
    methods = _texts(server, "token_endpoint_auth_methods_supported")
    ways: list[ClientAuth] = [_AUTH[method] for method in _AUTH if method in methods]
    return OAuthEndpoints(
        issuer=_text(server, "issuer"),
        issuer_required=server.get("authorization_response_iss_parameter_supported") is True,
        resource=resource,
        authorize_url=lookup.endpoint(server, "authorization_endpoint", required=True),
        token_url=lookup.endpoint(server, "token_endpoint", required=True),
        revoke_url=lookup.endpoint(server, "revocation_endpoint", required=False),
        register_url=lookup.endpoint(server, "registration_endpoint", required=False) if may_register else "",
        register_as=next((each for each in ("none", *_AUTH) if each in methods), "none"),
        client_auth=ways[0] if ways else "basic",  # RFC 8414 §2: what a server means that does not say
        scopes_offered=tuple(dict.fromkeys(scope for scope in wanted if is_scope(scope)))[:100],
    )


async def register_client(
    transport: "Transport", redactor: "Redactor", endpoints: OAuthEndpoints, redirect_uri: str
) -> RegisteredClient:
    """Have the server make a client for this redirect address (RFC 7591); only if the owner allowed that."""
    if not endpoints.register_url:
        raise OAuthError(
            "A client id is needed, and the server does not hand them out or the owner did not allow asking for one.",
            code="NO_CLIENT",
            remedy="Register CoilClaw at the provider and configure its client id, or allow registration.",
        )
    body = canonical_bytes(
        {
            "client_name": "CoilClaw",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": endpoints.register_as,
            "application_type": "native",
        }
    )
    response = await transport.send(
        HttpRequest(
            principal="oauth",
            method="POST",
            url=endpoints.register_url,
            headers=(("content-type", "application/json"), ("accept", "application/json")),
            body=body,
            timeout_seconds=TIMEOUT_SECONDS,
            max_bytes=MOST_BYTES,
        )
    )
    made = _document(response, (200, 201))
    if made is None:
        raise _refused(f"the server did not register a client (status {response.status})")
    client_id, secret = _text(made, "client_id"), made.get("client_secret", "")
    if not _PRINTABLE.match(client_id) or not isinstance(secret, str) or (secret and not _PRINTABLE.match(secret)):
        raise _refused("the server's registration answer cannot be read")
    if "redirect_uris" in made and redirect_uri not in _texts(made, "redirect_uris"):
        raise _refused("the server registered another redirect address")
    redactor.register("oauth:client", secret)
    method = made.get("token_endpoint_auth_method", "")
    return RegisteredClient(
        client_id=client_id,
        client_secret="" if method == "none" else secret,
        client_auth=_AUTH.get(method, endpoints.client_auth) if isinstance(method, str) else endpoints.client_auth,
    )


class _Lookup:
    """Fetches metadata, at hosts that the owner named and nowhere else."""

    def __init__(self, transport: "Transport", allowed_hosts: Iterable[str]) -> None:
        self._transport = transport
        self._allowed = named_origins(allowed_hosts)

    def allowed(self, url: str, what: str) -> Target:
        """The parsed URL, if it is https (or loopback) at a named host."""
        target = parse_url(url)
        fault = target.reason if isinstance(target, Refusal) else url_fault(url)
        if isinstance(target, Refusal) or fault:
            raise _refused(f"the address of {what} cannot be used: {fault}")
        if Endpoint(target.scheme, target.host, target.port) not in self._allowed:
            raise OAuthError(
                f"{what[0].upper()}{what[1:]} is at {target.authority}, which the owner did not name.",
                code="HOST",
                remedy=f"If you trust it, add {target.scheme}://{target.authority} to the hosts of this account.",
            )
        return target

    def names(self, url: str) -> bool:
        """Whether a URL is at a named host."""
        try:
            self.allowed(url, "the server")
        except OAuthError:
            return False
        return True

    def endpoint(self, server: JsonObject, name: str, *, required: bool) -> str:
        """One address out of a server's metadata."""
        if name not in server and not required:
            return ""
        return self.allowed(_text(server, name), f"the {name.replace('_', ' ')}").url

    async def first(self, places: Iterable[str], what: str) -> JsonObject:
        """The first document that exists."""
        for place in places:
            target = self.allowed(place, f"the metadata of {what}")
            response = await self._transport.send(
                HttpRequest(
                    principal="oauth",
                    method="GET",
                    url=target.url,
                    headers=(("accept", "application/json"),),
                    timeout_seconds=TIMEOUT_SECONDS,
                    max_bytes=MOST_BYTES,
                )
            )
            found = _document(response, (200,))
            if found is not None:
                return found
        raise _refused(f"{what} publishes no OAuth metadata")


def _resource_places(base: Target, hinted: str) -> list[str]:
    if hinted:
        return [hinted]
    path = base.path.partition("?")[0].strip("/")
    root = f"{base.scheme}://{base.authority}/{_RESOURCE}"
    return [f"{root}/{path}", root] if path else [root]


def _server_places(issuer: Target) -> list[str]:
    path = issuer.path.partition("?")[0].strip("/")
    root = f"{issuer.scheme}://{issuer.authority}"
    if not path:
        return [f"{root}/{_SERVER}", f"{root}/{_OPENID}"]
    return [f"{root}/{_SERVER}/{path}", f"{root}/{_OPENID}/{path}", f"{root}/{path}/{_OPENID}"]


def is_for(resource: str, url: str) -> bool:
    """Whether a token for this resource may be sent to that address."""
    target, base = parse_url(resource), parse_url(url)
    return isinstance(target, Target) and isinstance(base, Target) and _is_part(base, target)


def _is_part(url: Target, resource: Target) -> bool:
    part, whole = resource.path.rstrip("/"), url.path.partition("?")[0].rstrip("/")
    return url.origin == resource.origin and (whole == part or whole.startswith(f"{part}/"))


def _resource(about: JsonObject, base: Target) -> str:
    """The resource that the metadata describes: the requested one, or the server it belongs to."""
    named = _text(about, "resource")
    target = parse_url(named)
    if isinstance(target, Refusal) or not _is_part(base, target):
        raise _refused("the resource's metadata is for another resource")
    return named


def _issuer(about: JsonObject, lookup: _Lookup) -> str:
    servers = _texts(about, "authorization_servers")
    if not servers or len(servers) > MOST_SERVERS:
        raise _refused("the resource names no authorization server, or too many")
    chosen = next((server for server in servers if lookup.names(server)), servers[0])
    lookup.allowed(chosen, "the authorization server")
    return chosen


def _must_list(server: JsonObject, name: str, word: str, fault: str, *, required: bool) -> None:
    if (required or name in server) and word not in _texts(server, name):
        raise _refused(f"the authorization server {fault}")


def _document(response: HttpResponse, statuses: tuple[int, ...]) -> JsonObject | None:
    """The JSON object of a response, None if it has another status; a redirect has, and is not followed."""
    if response.status not in statuses:
        return None
    try:
        return parse_object(response.body)
    except NotCanonical:
        raise _refused("a metadata document is not one JSON object") from None


def _text(document: JsonObject, name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise _refused(f"the metadata has no {name}")
    return value


def _texts(document: JsonObject, name: str) -> tuple[str, ...]:
    value = document.get(name, ())
    if not isinstance(value, list | tuple):
        raise _refused(f"the metadata's {name} is not a list")
    return tuple(item for item in value if isinstance(item, str))


def _refused(why: str) -> OAuthError:
    return OAuthError(
        f"The OAuth metadata cannot be used: {one_line(why)[:300]}.",
        code="METADATA",
        remedy="Check the server's address; if it is right, configure its client and addresses by hand.",
    )
