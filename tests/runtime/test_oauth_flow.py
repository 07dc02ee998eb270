"""The authorization-code flow against the shipped server, through the airlock: what is granted, refused and said."""

import asyncio
import base64
import io

import msgspec
import pytest
import rich.pretty
from rich.console import Console

from coilclaw.airlock import Airlock, Listing
from coilclaw.airlock.redirect_listener import RedirectListener
from coilclaw.packets.errors import EgressRefused, OAuthError, TransportError
from coilclaw.packets.http import HttpRequest
from coilclaw.packets.ids import utc_now
from coilclaw.runtime.oauth.client import begin
from coilclaw.runtime.oauth.sign_in import sign_in
from coilclaw.runtime.oauth.token_requests import LONGEST_SECONDS, exchange, refresh, revoke
from coilclaw.sandbox.fake_oauth import FakeOAuth, OAuthReply
from tests.runtime.oauth_harness import REDIRECT, Wire, answered, client_of, consent, follow, granted, raw_request


@pytest.fixture
def fake():
    with FakeOAuth() as made:
        yield made


@pytest.fixture
def wire(fake):
    return Wire(fake.base_url)


async def test_the_whole_flow_by_browser(fake, wire):
    """The listener waits, the browser is redirected to it, the code becomes tokens that open the resource."""
    opened = []

    def show(address):
        opened.append(asyncio.create_task(follow(address)))

    client, grant = await sign_in(wire.transport, wire.redactor, client_of(fake), show)
    assert (await opened[0]).text.startswith("CoilClaw has the answer.")
    assert client.provider == "mcp:files"
    assert grant.scopes == ("read", "write")
    assert grant.missing == ()
    assert fake.holds(grant.refresh_token)
    assert [line.principal for line in wire.lines] == ["oauth"]


async def test_the_whole_flow_by_pasting(fake, wire):
    grant = await granted(wire, client_of(fake))
    assert fake.holds(grant.refresh_token)


@pytest.mark.parametrize("way", ["basic", "post"])
async def test_a_client_secret_goes_where_the_server_wants_it(way):
    secret = "s3cret with:odd&signs%"
    with FakeOAuth(client_id="id:1", client_secret=secret) as fake:
        wire = Wire(fake.base_url)
        grant = await granted(wire, client_of(fake, client_secret=secret, client_auth=way))
        again = await refresh(
            wire.transport, wire.redactor, client_of(fake, client_secret=secret), grant.refresh_token, grant.scopes
        )
    assert again.access_token != grant.access_token
    assert secret not in wire.redactor.text(f"it is {secret}")


async def test_a_wrong_secret_says_so_without_it(fake, wire):
    with pytest.raises(OAuthError, match="client id and secret") as caught:
        await granted(wire, client_of(fake, client_secret="wrong-secret-77"))
    assert caught.value.code == "INVALID_CLIENT"
    assert "wrong-secret-77" not in str(caught.value)


async def test_the_owners_no_is_an_error_without_the_servers_words(fake, wire):
    fake.denies = True
    with pytest.raises(OAuthError, match="access was denied") as caught:
        await granted(wire, client_of(fake))
    assert caught.value.code == "DENIED"
    assert "script" not in str(caught.value)
    assert not fake.asked("/token")


async def test_a_code_is_bound_to_the_verifier_and_used_once(fake, wire):
    pending, code = await answered(client_of(fake))
    other = begin(client_of(fake), REDIRECT)
    with pytest.raises(OAuthError) as caught:
        await exchange(wire.transport, wire.redactor, other, code)
    assert caught.value.code == "INVALID_GRANT"
    pending, code = await answered(client_of(fake))
    grant = await exchange(wire.transport, wire.redactor, pending, code)
    with pytest.raises(OAuthError):
        await exchange(wire.transport, wire.redactor, pending, code)
    assert not fake.holds(grant.refresh_token), "the fake ends what came of a code that is used twice"


async def test_the_resource_is_named_in_every_request(fake, wire):
    client = client_of(fake, resource=fake.resource_url)
    grant = await granted(wire, client)
    await refresh(wire.transport, wire.redactor, client, grant.refresh_token, grant.scopes)
    assert [each["resource"] for each in fake.asked("/token")] == [fake.resource_url] * 2


async def test_fewer_scopes_are_kept_and_reported(fake, wire):
    fake.granting = ("read",)
    grant = await granted(wire, client_of(fake))
    assert (grant.scopes, grant.missing) == (("read",), ("write",))


async def test_more_scopes_than_asked_for_are_refused_and_revoked(fake, wire):
    fake.granting = ("read", "write", "admin")
    with pytest.raises(OAuthError, match=r"\(admin\).* It was revoked there") as caught:
        await granted(wire, client_of(fake))
    assert caught.value.code == "SCOPES"
    (revoked,) = fake.asked("/revoke")
    assert not fake.holds(revoked["token"])
    assert revoked["token"] not in str(caught.value)


async def test_a_refused_grant_that_cannot_be_revoked_says_so(fake, wire):
    fake.granting = ("read", "write", "admin")
    fake.instead["/revoke"] = [OAuthReply(status=503)]
    with pytest.raises(OAuthError, match=r"could not be revoked \(the server answered with status 503\)"):
        await granted(wire, client_of(fake))


async def test_asking_for_nothing_keeps_the_servers_default(fake, wire):
    client = client_of(fake, scopes=())
    grant = await granted(wire, client)
    assert (grant.scopes, grant.missing) == (("read", "write"), ())
    fake.afterwards["/token"] = [changed(scope="read write admin")]
    with pytest.raises(OAuthError) as caught:
        await refresh(wire.transport, wire.redactor, client, grant.refresh_token, grant.scopes)
    assert caught.value.code == "SCOPES", "the default must not grow later"


def changed(**fields):
    def change(reply):
        merged = {**reply.fields, **fields}
        return msgspec.structs.replace(reply, body={name: value for name, value in merged.items() if value is not ...})

    return change


async def test_an_answer_without_scope_granted_what_was_asked(fake, wire):
    fake.afterwards["/token"] = [changed(scope=...)]
    assert (await granted(wire, client_of(fake))).scopes == ("read", "write")


@pytest.mark.parametrize(
    ("told", "seconds"), [(1, 1), (3599, 3599), (10**9, LONGEST_SECONDS), (..., 3600), (None, 3600)]
)
async def test_the_life_of_a_token_is_bounded(fake, wire, told, seconds):
    fake.afterwards["/token"] = [changed(expires_in=told)]
    assert (await granted(wire, client_of(fake))).seconds == seconds


BAD = {
    "no token": changed(access_token=...),
    "an empty token": changed(access_token=""),
    "a token that is a number": changed(access_token=12345678),
    "a token with a line break": changed(access_token="abcdefgh\r\nX-Evil: 1"),
    "a token beyond bounds": changed(access_token="ab1" * 3000),
    "a token that is a word": changed(access_token="password"),
    "a refresh token that is a list": changed(refresh_token=["x"]),
    "a refresh token with a space": changed(refresh_token="abc def 1234"),
    "no type": changed(token_type=...),
    "another type": changed(token_type="mac"),
    "a life of zero": changed(expires_in=0),
    "a negative life": changed(expires_in=-5),
    "a life in words": changed(expires_in="3600"),
    "a life that is true": changed(expires_in=True),
    "half a second": changed(expires_in=0.5),
    "scopes as a list": changed(scope=["read"]),
    "scopes with a quote": changed(scope='read "write"'),
    "too many scopes": changed(scope=" ".join(f"s{n}" for n in range(500))),
    "an array": lambda reply: msgspec.structs.replace(reply, body=b"[]"),
    "half of it": lambda reply: msgspec.structs.replace(reply, body=b'{"access_token": "abc'),
    "a key twice": lambda _: OAuthReply(
        body=b'{"access_token":"first-token","access_token":"second-token","token_type":"bearer"}'
    ),
    "a page": lambda _: OAuthReply(body=b"<html>at-secret</html>", headers=(("Content-Type", "text/html"),)),
    "JSON that says it is a page": lambda reply: msgspec.structs.replace(
        reply, headers=(("Content-Type", "text/html"),)
    ),
    "a form": lambda _: OAuthReply(
        body=b"access_token=abcdefgh&token_type=bearer",
        headers=(("Content-Type", "application/x-www-form-urlencoded"),),
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_an_answer_that_is_not_exactly_right_is_refused(fake, wire, name):
    fake.afterwards["/token"] = [BAD[name]]
    with pytest.raises(OAuthError) as caught:
        await granted(wire, client_of(fake))
    assert caught.value.code == "BAD_ANSWER"
    for secret in ("at-secret", "first-token", "abcdefgh"):
        assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (OAuthReply(status=500), "UNAVAILABLE"),
        (OAuthReply(status=429, headers=(("Retry-After", "17"),)), "UNAVAILABLE"),
        (OAuthReply(status=302, headers=(("Location", "http://127.0.0.1:1/"),)), "REDIRECT"),
        (OAuthReply(status=307, headers=(("Location", "/token2"),)), "REDIRECT"),
        (OAuthReply(status=400, body={"error": "<b>"}), "REFUSED"),
        (OAuthReply(status=200, body={"error": "bad_verification_code"}), "REFUSED"),
        (OAuthReply(status=404, body=b"nothing", headers=(("Content-Type", "text/plain"),)), "BAD_ANSWER"),
    ],
)
async def test_a_server_that_fails_is_told_apart(fake, wire, reply, code):
    fake.instead["/token"] = [reply]
    with pytest.raises(OAuthError) as caught:
        await granted(wire, client_of(fake))
    assert caught.value.code == code
    assert caught.value.retry_after == (17.0 if reply.status == 429 else None)
    assert "<b>" not in str(caught.value)
    assert len(fake.asked("/token")) == 1, "nothing is followed and nothing repeated"
    assert not fake.asked("/token2")


async def test_a_body_beyond_the_cap_is_not_read(fake, wire):
    fake.instead["/token"] = [OAuthReply(body=b" " * (1 << 20))]
    with pytest.raises(TransportError, match="larger than"):
        await granted(wire, client_of(fake))


async def test_only_hosts_that_the_owner_named_are_reached(fake):
    """The endpoint is exact: not another port, and not what `http` or another principal may reach."""
    elsewhere = Wire("http://127.0.0.1:9")
    with pytest.raises(EgressRefused) as caught:
        await granted(elsewhere, client_of(fake))
    assert caught.value.code == "NOT_LISTED"
    listing = Listing.build(allowed_domains=[fake.base_url], providers=[fake.base_url], notify=[fake.base_url])
    wire = Wire()
    wire.transport = Airlock(listing, log=wire.lines.append, clock=utc_now)
    with pytest.raises(EgressRefused):
        await granted(wire, client_of(fake))
    assert not fake.asked("/token")
    oauth_alone = Wire(fake.base_url)
    with pytest.raises(EgressRefused):
        await oauth_alone.transport.send(HttpRequest(principal="http", method="GET", url=fake.resource_url))


async def test_revoking_tells_whether_it_worked(fake, wire):
    grant = await granted(wire, client_of(fake))
    assert await revoke(wire.transport, wire.redactor, client_of(fake), grant.refresh_token) == ""
    assert not fake.holds(grant.refresh_token)
    no_way = client_of(fake, revoke_url="")
    assert "no revocation" in await revoke(wire.transport, wire.redactor, no_way, "x-token-1")
    gone = client_of(fake, revoke_url="http://127.0.0.1:9/revoke")
    assert "configured address" in await revoke(wire.transport, wire.redactor, gone, "x-token-1")


async def test_no_secret_is_in_any_log_error_or_repr(fake, wire):
    client = client_of(fake, client_secret="")
    pending, code = await answered(client)
    grant = await exchange(wire.transport, wire.redactor, pending, code)
    secrets = {"code": code, "verifier": pending.verifier, "a": grant.access_token, "r": grant.refresh_token}
    console = Console(file=io.StringIO(), width=200)
    for value in (client_of(fake, client_secret="a-client-secret-1"), pending, pending.read("x"), grant):
        console.print(rich.pretty.Pretty(value))
        rich.pretty.pprint(value, console=console)
        console.print(repr(value), str(value), f"{value!r}")
    said = console.file.getvalue() + repr(wire.lines)
    for name, secret in secrets.items():
        assert secret not in said, name
        for spelled in (secret, base64.b64encode(secret.encode()).decode(), f"Bearer {secret}"):
            assert secret not in wire.redactor.text(f"x {spelled} y")
            assert wire.redactor.registered(f"x {spelled} y") != f"x {spelled} y", name
    assert "a-client-secret-1" not in said


async def test_a_local_page_that_guesses_cannot_end_or_steer_a_flow(fake, wire):
    """Wrong guesses come first; the owner's own answer still counts, and only once."""
    async with RedirectListener() as listener:
        pending = begin(client_of(fake), listener.redirect_uri)
        waiting = asyncio.create_task(listener.wait(pending.read))
        await asyncio.sleep(0)
        host = listener.redirect_uri.split("/")[2]
        for state in ("", "x" * 43, pending.state[:-1], pending.state.swapcase()):
            line = f"GET /oauth/callback?code=evil&state={state} HTTP/1.1\r\nHost: {host}\r\n\r\n"
            assert b"400" in await raw_request(listener.redirect_uri, line.encode())
        assert not waiting.done()
        await follow(pending.address)
        answer = await waiting
    grant = await exchange(wire.transport, wire.redactor, pending, answer.checked(pending.client))
    assert fake.holds(grant.refresh_token)


async def test_an_answer_of_another_server_is_refused_before_the_code_leaves(fake, wire):
    pending = begin(client_of(fake, issuer="https://other.example"), REDIRECT)
    answer = pending.read_pasted(await consent(pending.address))
    with pytest.raises(OAuthError) as caught:
        answer.checked(pending.client)
    assert caught.value.code == "ISSUER"
