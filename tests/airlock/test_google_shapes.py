"""The closed list of requests to Google, by identity: it holds whatever the rest of the program believes."""

import json

import pytest

from coilclaw.airlock import Airlock, Listing
from coilclaw.packets.errors import EgressRefused
from coilclaw.packets.http import HttpRequest
from coilclaw.packets.ids import utc_now
from coilclaw.sandbox.fake_google import FakeGoogle

ME = "/gmail/v1/users/me"
BODY = json.dumps({"id": "r-1"}).encode()


@pytest.fixture
def google():
    with FakeGoogle("owner@example.com") as fake:
        yield fake


async def ask(google, identity, method, path, body=b"", headers=()):
    airlock = Airlock(Listing.build(google=[google.base_url]), log=lambda _: None, clock=utc_now)
    request = HttpRequest(
        principal="google", identity=identity, method=method, url=google.base_url + path, body=body, headers=headers
    )
    return await airlock.send(request)


ALLOWED = [
    ("user", "GET", f"{ME}/profile", b""),
    ("user", "GET", f"{ME}/threads?q=a%20b&maxResults=10", b""),
    ("user", "GET", f"{ME}/messages/abc?format=raw", b""),
    ("user", "POST", f"{ME}/drafts", b"{}"),
    ("user", "GET", "/calendar/v3/calendars/a%40b.example/events?timeMin=x", b""),
    ("bot", "POST", f"{ME}/drafts", b"{}"),
    ("bot", "POST", f"{ME}/drafts/send", BODY),
]


@pytest.mark.parametrize(("identity", "method", "path", "body"), ALLOWED)
async def test_listed_requests_pass(google, identity, method, path, body):
    kind = (("Content-Type", "application/json"),)
    assert (await ask(google, identity, method, path, body, kind)).status == 401  # it got there, without a token


REFUSED = [
    ("user", "POST", f"{ME}/drafts/send", BODY),
    ("user", "POST", f"{ME}/messages/send", b"{}"),
    ("bot", "POST", f"{ME}/messages/send", b"{}"),
    ("bot", "POST", "/upload/gmail/v1/users/me/messages/send", b"{}"),
    ("bot", "POST", "/batch/gmail/v1", b""),
    ("bot", "POST", f"{ME}/drafts/send", b'{"id":"r-1","message":{"raw":"x"}}'),
    ("bot", "POST", f"{ME}/drafts/send", b"[]"),
    ("bot", "POST", f"{ME}/drafts/send?uploadType=media", BODY),
    ("bot", "GET", "/calendar/v3/calendars/primary/events", b""),
    ("user", "POST", "/calendar/v3/calendars/primary/events", b"{}"),
    ("user", "GET", f"{ME}/settings/filters", b""),
    ("user", "GET", f"{ME}/settings/forwardingAddresses", b""),
    ("user", "POST", f"{ME}/settings/delegates", b"{}"),
    ("user", "GET", "/gmail/v1/users/someone@example.com/messages", b""),
    ("user", "GET", f"{ME}/messages/../drafts", b""),
    ("user", "GET", f"{ME}/messages/%2e%2e", b""),
    ("user", "GET", f"{ME}/messages/a/attachments/b", b""),
    ("user", "GET", f"{ME}/threads?access_token=x", b""),
    ("user", "GET", f"{ME}/messages/abc?alt=media", b""),
    ("user", "POST", f"{ME}/messages/abc/modify", b"{}"),
    ("user", "POST", f"{ME}/messages/abc/trash", b""),
    (None, "GET", f"{ME}/profile", b""),
]


@pytest.mark.parametrize(("identity", "method", "path", "body"), REFUSED)
async def test_everything_else_is_refused_before_it_leaves(google, identity, method, path, body):
    with pytest.raises(EgressRefused):
        await ask(google, identity, method, path, body)
    assert not google.requests


async def test_a_header_cannot_turn_a_request_into_another(google):
    with pytest.raises(EgressRefused):
        await ask(google, "user", "POST", f"{ME}/drafts", b"{}", (("X-HTTP-Method-Override", "DELETE"),))
    assert not google.requests


async def test_nothing_but_google_is_reached_as_google(google):
    airlock = Airlock(Listing.build(), log=lambda _: None, clock=utc_now)
    url = google.base_url + f"{ME}/profile"
    with pytest.raises(EgressRefused):
        await airlock.send(HttpRequest(principal="google", identity="user", method="GET", url=url))
