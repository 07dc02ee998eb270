"""Discovery reads documents that others wrote: nothing in them leads to a host that the owner did not name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.airlock import Listing
from coilclaw.airlock.fake import FakeTransport
from coilclaw.packets.errors import ConfigError, EgressRefused, OAuthError
from coilclaw.packets.http import HttpResponse
from coilclaw.runtime.oauth.discovery import discover, register_client
from coilclaw.runtime.oauth.sign_in import sign_in
from coilclaw.sandbox.fake_oauth import FakeOAuth, OAuthReply
from coilclaw.secrets.redactor import Redactor
from tests.runtime.oauth_harness import COMMAND, REDIRECT, Wire, consent, follow

MCP = "https://mcp.example/mcp"
ABOUT = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
ROOT = "https://mcp.example/.well-known/oauth-protected-resource"
ISSUER = "https://as.example"
SERVER = "https://as.example/.well-known/oauth-authorization-server"
OPENID = "https://as.example/.well-known/openid-configuration"
HOSTS = ("mcp.example", "as.example")


def reply(body, status=200, **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpResponse(status=status, headers=tuple(headers.items()), body=data, url="")


MISSING = reply({"error": "not_found"}, 404)


def about(**fields):
    told = {"resource": MCP, "authorization_servers": [ISSUER], "scopes_supported": ["files:read"], **fields}
    return reply({name: value for name, value in told.items() if value is not ...})


def server(**fields):
    told = {
        "issuer": ISSUER,
        "authorization_endpoint": "https://as.example/authorize",
        "token_endpoint": "https://as.example/token",
        "revocation_endpoint": "https://as.example/revoke",
        "registration_endpoint": "https://as.example/register",
        "code_challenge_methods_supported": ["plain", "S256"],
        "response_types_supported": ["code"],
        **fields,
    }
    return reply({name: value for name, value in told.items() if value is not ...})


def transport(answers):
    """Scripted answers, and the airlock's own judgement of what is asked."""
    return FakeTransport({ROOT: MISSING, OPENID: MISSING, **answers}, listing=Listing.build(oauth=HOSTS))


async def found(answers, hosts=HOSTS, **options):
    wire = transport(answers)
    return wire, await discover(wire, MCP, hosts, **{"may_register": True, **options})


async def refused(answers, hosts=HOSTS, **options):
    wire = transport(answers)
    with pytest.raises(OAuthError) as caught:
        await discover(wire, MCP, hosts, **{"may_register": True, **options})
    assert {request.url.split("/")[2] for request in wire.seen} <= {"mcp.example", "as.example"}
    return caught.value


async def test_a_resource_leads_to_its_server():
    _, place = await found({ABOUT: about(), SERVER: server()})
    assert place.issuer == ISSUER
    assert place.resource == MCP
    assert place.token_url == "https://as.example/token"
    assert place.register_url == "https://as.example/register"
    assert place.scopes_offered == ("files:read",)
    assert place.client_auth == "basic"
    assert not place.issuer_required
    client = place.client(
        provider="mcp:files", identity="user", client_id="1", client_secret="", scopes=(), connect_command=COMMAND
    )
    assert (client.issuer, client.resource) == (ISSUER, MCP)


async def test_clients_are_registered_only_if_the_owner_allowed_it():
    wire, place = await found({ABOUT: about(), SERVER: server()}, may_register=False)
    assert place.register_url == ""
    with pytest.raises(OAuthError) as caught:
        await register_client(wire, Redactor(), place, REDIRECT)
    assert caught.value.code == "NO_CLIENT"
    assert {request.method for request in wire.seen} == {"GET"}


async def test_every_place_of_metadata_is_tried_in_order():
    wire, _ = await found(
        {ABOUT: MISSING, ROOT: about(resource="https://mcp.example"), SERVER: MISSING, OPENID: server()}
    )
    assert [request.url for request in wire.seen] == [ABOUT, ROOT, SERVER, OPENID]
    assert {request.principal for request in wire.seen} == {"oauth"}


async def test_an_issuer_with_a_path_has_its_metadata_where_the_standard_says():
    issuer = f"{ISSUER}/tenant"
    places = (f"{SERVER}/tenant", f"{OPENID}/tenant", f"{issuer}/.well-known/openid-configuration")
    answers = {ABOUT: about(authorization_servers=[issuer]), places[0]: MISSING, places[1]: MISSING}
    wire, place = await found({**answers, places[2]: server(issuer=issuer)})
    assert [request.url for request in wire.seen][1:] == list(places)
    assert place.issuer == issuer


async def test_the_challenge_of_a_401_names_document_and_scopes():
    where = "https://mcp.example/elsewhere.json"
    challenge = f'Bearer error="invalid_token", resource_metadata="{where}", scope="files:write x"'
    _, place = await found({where: about(), SERVER: server()}, challenge=challenge)
    assert place.scopes_offered == ("files:write", "x")


@pytest.mark.parametrize(
    "where",
    [
        "https://evil.example/meta",
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:8765/health",
        "https://mcp.example.evil.example/",
        "https://mcp.example:8443/meta",
        "http://mcp.example/meta",
        "https://user@mcp.example/meta",
        "file:///etc/passwd",
        "//evil.example/meta",
        "x",
    ],
)
async def test_a_hostile_challenge_leads_nowhere(where):
    error = await refused({}, challenge=f'Bearer resource_metadata="{where}"')
    assert error.code in ("HOST", "METADATA")


ELSEWHERE = [
    "https://evil.example/x",
    "https://as.example.evil.example/x",
    "https://as.example:8443/x",
    "http://as.example/x",
    "https://as.example@evil.example/x",
    "https://AS.example\\@evil.example/x",
    "https://10.0.0.1/x",
    "https://[::1]/x",
    "http://localhost/x",
    "http://127.0.0.1:8765/x",
    "http://169.254.169.254/x",
    "https://metadata.google.internal/x",
    "https://0x7f000001/x",
    "javascript:alert(1)",
    "",
    "as.example",
    "https://as.example/x#fragment",
    "https://as.example/x?redirect_uri=https://evil.example",
    "https://as.example/\u202ex",
    7,
    None,
    ["https://as.example/x"],
]


@pytest.mark.parametrize("place", ELSEWHERE, ids=str)
@pytest.mark.parametrize(
    "name", ["authorization_endpoint", "token_endpoint", "revocation_endpoint", "registration_endpoint"]
)
async def test_an_endpoint_elsewhere_is_refused(name, place):
    error = await refused({ABOUT: about(), SERVER: server(**{name: place})})
    assert error.code in ("HOST", "METADATA")
    assert "\u202e" not in str(error)


@pytest.mark.parametrize("issuer", [place for place in ELSEWHERE if isinstance(place, str)], ids=str)
async def test_an_authorization_server_elsewhere_is_refused(issuer):
    error = await refused({ABOUT: about(authorization_servers=[issuer])})
    assert error.code in ("HOST", "METADATA")


async def test_a_server_that_the_owner_did_not_name_is_named_in_the_remedy():
    error = await refused({ABOUT: about(authorization_servers=["https://login.example"])})
    assert error.code == "HOST"
    assert "add https://login.example" in error.remedy


async def test_of_several_servers_one_that_the_owner_named_is_used():
    servers = ["http://127.0.0.1:1", "https://evil.example", ISSUER]
    _, place = await found({ABOUT: about(authorization_servers=servers), SERVER: server()})
    assert place.issuer == ISSUER


@pytest.mark.parametrize(
    "answers",
    [
        {ABOUT: about(), SERVER: server(issuer="https://other.example")},
        {ABOUT: about(), SERVER: server(issuer="https://as.example/tenant")},
        {ABOUT: about(), SERVER: server(issuer=...)},
        {ABOUT: about(), SERVER: server(code_challenge_methods_supported=...)},
        {ABOUT: about(), SERVER: server(code_challenge_methods_supported=["plain"])},
        {ABOUT: about(), SERVER: server(code_challenge_methods_supported="S256")},
        {ABOUT: about(), SERVER: server(response_types_supported=["token"])},
        {ABOUT: about(), SERVER: server(token_endpoint=...)},
        {ABOUT: about(), SERVER: server(authorization_endpoint=...)},
        {ABOUT: about(), SERVER: MISSING},
        {ABOUT: about(), SERVER: reply(b"", 302, location="https://evil.example/meta")},
        {ABOUT: reply(b"", 307, location="http://127.0.0.1/"), ROOT: MISSING},
        {ABOUT: MISSING},
        {ABOUT: reply(b"<html>")},
        {ABOUT: reply(b"[]")},
        {ABOUT: reply(b'{"resource": "a", "resource": "b"}')},
        {ABOUT: reply(b"[" * 5000)},
        {ABOUT: about(resource="https://other.example/mcp")},
        {ABOUT: about(resource="https://mcp.example/other")},
        {ABOUT: about(resource="https://mcp.example/mc")},
        {ABOUT: about(resource="https://mcp.example:8443/mcp")},
        {ABOUT: about(resource=...)},
        {ABOUT: about(resource=5)},
        {ABOUT: about(authorization_servers=...)},
        {ABOUT: about(authorization_servers=[])},
        {ABOUT: about(authorization_servers=ISSUER)},
        {ABOUT: about(authorization_servers=[ISSUER] * 50)},
    ],
)
async def test_metadata_that_does_not_fit_is_refused(answers):
    assert (await refused(answers)).code == "METADATA"


async def test_a_resource_that_the_owner_did_not_name_is_not_asked():
    error = await refused({ABOUT: about()}, hosts=("as.example",))
    assert error.code == "HOST"


async def test_hosts_are_exact():
    with pytest.raises(ConfigError):
        await discover(transport({}), MCP, ("*.example",), may_register=False)


async def test_the_airlock_refuses_too():
    """Should this code ever be wrong, the listing of the principal still holds."""
    wire = FakeTransport({}, listing=Listing.build(oauth=["mcp.example"]))
    wire._turns[ABOUT] = [about()]
    with pytest.raises(EgressRefused):
        await discover(wire, MCP, HOSTS, may_register=False)


async def test_metadata_that_redirects_is_not_followed():
    """Through the airlock itself, to the same host: even that is another document than the standard names."""
    with FakeOAuth() as fake:
        where = "/.well-known/oauth-authorization-server"
        fake.instead[where] = [OAuthReply(status=302, headers=(("Location", fake.url("/elsewhere")),))]
        with pytest.raises(OAuthError) as caught:
            await discover(Wire(fake.base_url).transport, fake.resource_url, [fake.base_url], may_register=True)
        assert caught.value.code == "METADATA"
        assert "/elsewhere" not in [path for _, path, _ in fake.requests]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=8)
    | st.sampled_from([MCP, ISSUER, "S256", "code"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("resource", "authorization_servers", "issuer", "token_endpoint", "authorization_endpoint")
NAMES += ("code_challenge_methods_supported", "scopes_supported", "token_endpoint_auth_methods_supported")


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
async def test_any_document_gives_endpoints_or_one_kind_of_error(fields):
    wire = transport({ABOUT: about(**fields), SERVER: server(**fields)})
    try:
        ended = (await discover(wire, MCP, HOSTS, may_register=True)).token_url
    except OAuthError as error:
        ended = error.code
    except EgressRefused:  # metadata led to a place of a named host that nothing is scripted for
        return
    assert ended in ("HOST", "METADATA", "https://as.example/token", MCP, f"{ISSUER}/")


REGISTER = "https://as.example/register"


@pytest.mark.parametrize(
    "answer",
    [
        reply({"client_id": "1", "redirect_uris": ["https://evil.example"]}, 201),
        reply({"redirect_uris": [REDIRECT]}, 201),
        reply({"client_id": "two\nlines"}, 201),
        reply({"client_id": 5}, 201),
        reply({"client_id": "1", "client_secret": ["x"]}, 201),
        reply({"client_id": "1", "client_secret": "a\nb"}, 201),
        reply({"error": "invalid_redirect_uri"}, 400),
        reply(b"", 307),
        reply(b"no", 201),
    ],
)
async def test_a_registration_that_does_not_fit_is_refused(answer):
    wire, place = await found({ABOUT: about(), SERVER: server(), REGISTER: answer})
    with pytest.raises(OAuthError) as caught:
        await register_client(wire, Redactor(), place, REDIRECT)
    assert caught.value.code == "METADATA"


@pytest.mark.parametrize(
    ("methods", "asked", "made", "used"),
    [
        (..., "none", "none", ("", "basic")),
        (["none", "client_secret_basic"], "none", ..., ("made-secret-1", "basic")),
        (["client_secret_basic", "client_secret_post"], "client_secret_basic", ..., ("made-secret-1", "basic")),
        (["client_secret_post"], "client_secret_post", ..., ("made-secret-1", "post")),
        (["client_secret_post"], "client_secret_post", ["x"], ("made-secret-1", "post")),
        (["private_key_jwt"], "none", "client_secret_post", ("made-secret-1", "post")),
    ],
)
async def test_a_client_is_registered_for_what_the_server_supports(methods, asked, made, used):
    told = {"client_id": "1", "client_secret": "made-secret-1", "token_endpoint_auth_method": made}
    answer = reply({name: value for name, value in told.items() if value is not ...}, 201)
    answers = {ABOUT: about(), SERVER: server(token_endpoint_auth_methods_supported=methods), REGISTER: answer}
    wire, place = await found(answers)
    client = await register_client(wire, Redactor(), place, REDIRECT)
    assert json.loads(wire.seen[-1].body)["token_endpoint_auth_method"] == asked
    assert (client.client_secret, client.client_auth) == used


async def test_offline_access_is_offered_where_the_server_knows_it():
    _, place = await found({ABOUT: about(), SERVER: server(scopes_supported=["openid", "offline_access"])})
    assert place.scopes_offered == ("files:read", "offline_access")


async def test_a_registered_secret_is_known_to_the_redactor():
    made = reply(
        {"client_id": "1", "client_secret": "made-secret-123", "token_endpoint_auth_method": "client_secret_post"}, 201
    )
    wire, place = await found({ABOUT: about(), SERVER: server(), REGISTER: made})
    redactor = Redactor()
    client = await register_client(wire, redactor, place, REDIRECT)
    assert (client.client_secret, client.client_auth) == ("made-secret-123", "post")
    assert "made-secret-123" not in redactor.text("made-secret-123") + repr(client)


@pytest.mark.parametrize("paste", [True, False])
async def test_from_a_resource_alone_to_tokens(paste):
    """Discovery, registration with the listener's own address, the flow, against the shipped server."""
    import asyncio

    with FakeOAuth() as fake:
        wire = Wire(fake.base_url)
        place = await discover(wire.transport, fake.resource_url, [fake.base_url], may_register=True)
        assert place.issuer_required

        async def registered(redirect_uri):
            made = await register_client(wire.transport, wire.redactor, place, redirect_uri)
            return place.client(
                provider="mcp:files",
                identity="user",
                client_id=made.client_id,
                client_secret=made.client_secret,
                client_auth=made.client_auth,
                scopes=place.scopes_offered,
                connect_command=COMMAND,
            )

        shown, tasks = [], []

        def show(address):
            shown.append(address)
            if not paste:
                tasks.append(asyncio.create_task(follow(address)))

        client, grant = await sign_in(
            wire.transport, wire.redactor, registered, show, paste=(lambda: consent(shown[0])) if paste else None
        )
        await asyncio.gather(*tasks)
        assert client.client_id.startswith("made-")
        assert grant.scopes == ("read", "write")
        assert fake.holds(grant.refresh_token)
