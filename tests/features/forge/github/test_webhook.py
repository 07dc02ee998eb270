"""Webhooks of GitHub: a signed delivery brings the next look forward, and nothing else ever happens."""

import asyncio
import hashlib
import hmac
import json
from pathlib import Path

import pytest

from coilclaw.features.forge.feature import forge_part
from coilclaw.features.forge.github.store import woken_at
from coilclaw.features.forge.http_forge import WAKING
from tests.missing import lacks
from tests.server.site import served, unlimited

SECRET = "a-long-shared-secret-of-github"
BODY = b'{"action": "submitted", "review": {"state": "approved", "user": {"id": 1001}}, "number": 1}'
PATH = "/v1/forge/webhook"


def signed(body=BODY, secret=SECRET, delivery="delivery-0001", event="pull_request_review"):
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "X-Hub-Signature-256": f"sha256={made}", "X-GitHub-Delivery": delivery, "X-GitHub-Event": event,
        "Content-Type": "application/json",
    }  # fmt: skip


def post(site, headers, body=BODY, path=PATH):
    return site.bare.post(path, content=body, headers=headers)


def kept(hub):
    """What deliveries left behind."""
    db = hub.app.db.reader
    told = db.execute("SELECT event_type FROM audit_log WHERE event_type = 'github_webhook'").fetchall()
    return [*told, *db.execute("SELECT * FROM webhook_deliveries").fetchall(), *filter(None, [woken_at(db)])]


@pytest.fixture
def hooked(hub):
    return hub(environ={"FORGE_HOOK": SECRET}, github={"webhook_secret_env": "FORGE_HOOK"})


async def test_a_signed_delivery_brings_the_next_look_forward_once(hooked):
    await hooked.mirror.upkeep()
    asked = len(hooked.fake.requests)
    async with served(hooked.here.home, forge_part) as site:
        assert await hooked.mirror.upkeep() == 0, "a look is due in a minute"
        first = await post(site, signed())
        assert (first.status_code, first.json()) == (202, {"woken": True})
        assert await hooked.mirror.upkeep() == 1
        assert len(hooked.fake.requests) > asked
        for again in (signed(), signed(delivery="delivery-0002")):
            assert (await post(site, again)).json() == {"woken": False}, "the same body is the same delivery"
        assert await hooked.mirror.upkeep() == 0


async def test_nothing_of_a_body_is_used(hooked):
    """It says that the owner approved; GitHub itself is asked, and knows nothing of it."""
    job = await hooked.job()
    await hooked.sync()
    async with served(hooked.here.home, forge_part) as site:
        assert (await post(site, signed())).json() == {"woken": True}
        assert await hooked.mirror.upkeep() == 1
    assert hooked.pull(job).state == "OPEN"
    assert [method for method, path in hooked.fake.writes() if path.endswith("/merge")] == []


@pytest.mark.slow
async def test_every_example_of_a_delivery_is_taken_and_only_listed_events_wake(hooked):
    examples = (
        Path(__file__).parent / "node_modules" / "@octokit" / "webhooks-examples" / "api.github.com" / "index.json"
    )
    if not examples.exists():
        lacks("GitHub's webhook examples", "Run: npm ci --ignore-scripts --prefix tests/features/forge/github.")
    woke = set()
    async with served(hooked.here.home, forge_part, rates=unlimited()) as site:
        listed = json.loads(examples.read_text())
        for place, (name, example) in enumerate((each["name"], one) for each in listed for one in each["examples"]):
            body = json.dumps(example).encode()
            answer = await post(site, signed(body, delivery=f"example-{place:05}", event=name), body)
            assert answer.status_code == 202, (name, answer.text)
            woke |= {name} if answer.json()["woken"] else set()
    assert woke == WAKING


async def test_an_event_that_is_not_listed_does_nothing(hooked):
    async with served(hooked.here.home, forge_part) as site:
        for event in ("issues", "issue_comment", "star", "fork", "ping", "", "PUSH", "push\u00e9".encode()):
            answer = await post(site, {**signed(), "X-GitHub-Event": event})
            assert (answer.status_code, answer.json()) == (202, {"woken": False}), event
    assert kept(hooked) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.pop("X-Hub-Signature-256"),
        lambda h: h.pop("X-GitHub-Delivery"),
        lambda h: h.update({"X-Hub-Signature-256": "sha256=" + "0" * 64}),
        lambda h: h.update({"X-Hub-Signature-256": h["X-Hub-Signature-256"].upper()}),
        lambda h: h.update({"X-Hub-Signature-256": h["X-Hub-Signature-256"][:-1]}),
        lambda h: h.update({"X-GitHub-Delivery": "../../x"}),
        lambda h: h.update(signed(secret="another")),
        lambda h: h.update(signed(BODY + b" ")),
        lambda h: h.update(signed(BODY[:-1])),
        lambda h: (
            h.update({"X-Hub-Signature": "sha1=" + hmac.new(SECRET.encode(), BODY, "sha1").hexdigest()})
            or h.pop("X-Hub-Signature-256")
        ),
    ],
)
async def test_a_forged_delivery_changes_nothing(hooked, change):
    headers = signed()
    change(headers)
    async with served(hooked.here.home, forge_part) as site:
        answer = await post(site, headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "NOT_SIGNED")
    assert kept(hooked) == []


async def test_without_a_secret_no_delivery_is_taken(hub):
    off = hub(github={"webhook_secret_env": ""})
    async with served(off.here.home, forge_part) as site:
        for secret in ("", "no secret", "None"):
            assert (await post(site, signed(secret=secret))).status_code == 403


async def test_a_secret_that_is_named_and_not_set_takes_no_delivery(hub):
    off = hub(github={"webhook_secret_env": "FORGE_HOOK"})
    async with served(off.here.home, forge_part) as site:
        for secret in ("", "no secret", "None"):
            assert (await post(site, signed(secret=secret))).status_code == 403


async def test_a_huge_or_truncated_delivery_changes_nothing_and_a_flood_is_slowed(hooked):
    huge = b"x" * ((1 << 20) + 1)
    async with served(hooked.here.home, forge_part) as site:
        assert (await post(site, signed(huge), body=huge)).status_code == 413
        head = "".join(f"{name}: {value}\r\n" for name, value in signed().items())
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        length = len(BODY)
        start = f"POST {PATH} HTTP/1.1\r\nHost: localhost:{site.port}\r\nContent-Length: {length}\r\n{head}\r\n"
        writer.write(start.encode() + BODY[:-5])
        writer.write_eof()
        assert b"202" not in await reader.read()
        writer.close()
        codes = [(await post(site, signed(secret="no"))).status_code for _ in range(80)]
        assert 429 in codes
        assert set(codes) <= {403, 429}
    assert kept(hooked) == []


async def test_only_this_path_is_open_and_only_to_post(hooked):
    async with served(hooked.here.home, forge_part) as site:
        for method, path in (
            ("GET", PATH),
            ("PUT", PATH),
            ("POST", f"{PATH}/x"),
            ("POST", "/v1/forge"),
            ("GET", "/v1/bot"),
        ):
            answer = await site.bare.request(method, path, headers=signed())
            assert answer.status_code == 401, (method, path, answer.text)
        assert (await post(site, {**signed(), "Origin": "https://evil.example"})).status_code == 403


async def test_a_body_that_is_no_json_is_only_bytes(hooked):
    body = b"\xff\x00 payload=%7B%7D"
    async with served(hooked.here.home, forge_part) as site:
        answer = await post(site, {**signed(body), "Content-Type": "application/x-www-form-urlencoded"}, body)
        assert answer.json() == {"woken": True}


async def test_a_wake_does_not_break_a_pause_that_github_asked_for(hooked):
    from coilclaw.sandbox.fake_github import GitHubReply

    hooked.fake.instead.append(("GET /repos", GitHubReply(status=429, headers=(("retry-after", "120"),))))
    assert "limit" in await hooked.sync()
    asked = len(hooked.fake.requests)
    async with served(hooked.here.home, forge_part) as site:
        assert (await post(site, signed())).json() == {"woken": True}
    await hooked.mirror.upkeep()
    assert len(hooked.fake.requests) == asked
