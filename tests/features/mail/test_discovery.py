"""The check against Google's documents finds what is wrong; homes of mail tests make it for all they send."""

import base64
import json

import pytest

from coilclaw.airlock.google import SHAPES
from coilclaw.packets.http import HttpRequest
from tests.features.mail.discovery import faults, methods

ME = "https://gmail.googleapis.com/gmail/v1/users/me"
EVENTS = "https://www.googleapis.com/calendar/v3/calendars/primary/events"
JSON = (("Content-Type", "application/json"),)


def ask(method, url, body=None, identity="bot"):
    data = b"" if body is None else json.dumps(body).encode()
    return HttpRequest(
        principal="google", identity=identity, method=method, url=url, body=data, headers=JSON if data else ()
    )


RIGHT = [
    ask("GET", f"{ME}/threads?q=x&maxResults=5"),
    ask("POST", f"{ME}/drafts/send", {"id": "r1"}),
    ask("POST", f"{ME}/drafts", {"message": {"raw": base64.urlsafe_b64encode(b"To: a").decode(), "threadId": "t"}}),
    ask("GET", f"{EVENTS}?timeMin=2026-01-01T00:00:00Z&singleEvents=true&orderBy=startTime", identity="user"),
]
WRONG = [
    ask("GET", f"{ME}/threads?query=x"),
    ask("GET", f"{ME}/threads?maxResults=many"),
    ask("GET", f"{ME}/threads/t1?format=raw"),  # threads have no raw form
    ask("GET", f"{ME}/thread/t1"),
    ask("GET", f"{ME}/threads?q=a&q=b"),
    ask("POST", f"{ME}/drafts/send", {}),
    ask("POST", f"{ME}/drafts/send", {"draftId": "r1"}),
    ask("POST", f"{ME}/drafts", {"message": {"raw": "+/", "threadId": "t"}}),
    ask("POST", f"{ME}/drafts", {"message": {"thread_id": "t"}}),
    ask("GET", f"{EVENTS}?timeMin=2026-01-01", identity="user"),
    ask("GET", f"{EVENTS}?orderBy=start", identity="user"),
    ask("GET", f"{EVENTS}?singleEvents=yes", identity="user"),
    ask("GET", EVENTS, identity="bot"),  # its scopes never cover it
]


@pytest.mark.parametrize("request_", RIGHT, ids=str)
def test_requests_that_google_describes_have_no_fault(request_):
    assert faults(request_) == []


@pytest.mark.parametrize("request_", WRONG, ids=lambda each: f"{each.method} {each.url} {each.body!r}")
def test_requests_that_google_does_not_describe_are_found(request_):
    assert faults(request_)


def test_airlock_lists_nothing_but_what_google_describes_and_no_other_way_to_send():
    """Of all methods there are, the lists let through reads, drafts, and one that sends: the bot's."""
    import re

    def through(identity):
        for name in ("gmail.v1", "calendar.v3"):
            for method, path, told in methods(name):
                plain = path.replace("\\", "").replace("[^/]+", "me", 1) if "users" in path else path.replace("\\", "")
                example = plain.replace("[^/]+", "x1")
                if any(method == how and re.fullmatch(shape, example) for how, shape in SHAPES[identity]):
                    yield told["id"]

    reads = {f"gmail.users.{kind}.{what}" for kind in ("threads", "messages", "drafts") for what in ("list", "get")}
    both = reads | {"gmail.users.getProfile", "gmail.users.drafts.create"}
    assert set(through("user")) == both | {"calendar.events.list"}
    assert set(through("bot")) == both | {"gmail.users.drafts.send"}
