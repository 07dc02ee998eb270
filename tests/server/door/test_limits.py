"""How much, how slowly, what and how often: bodies and rates over real HTTP."""

import asyncio

import httpx
import pytest

from coilclaw.packets.ids import stamp
from coilclaw.server.door.body import Bodies
from coilclaw.server.door.rates import ROUTE_RATES, Rates, RouteRate
from coilclaw.server.problems import Trouble
from coilclaw.store.devices import revoke_device
from tests.server.echo import echo_part
from tests.server.site import served
from tests.server.wire import code, raw, request

# Bodies


async def test_a_body_that_is_declared_too_large_is_refused_before_it_is_sent(sample):
    async with served(sample(server__max_body_bytes=2048), echo_part) as site:
        head = request(
            site,
            f"Authorization: Bearer {site.token}",
            "Content-Type: application/json",
            "Content-Length: 999999999",
            "Expect: 100-continue",
            method="POST",
        )
        answer = await raw(site, head)
        assert answer.startswith("HTTP/1.1 413")
        assert "TOO_LARGE" in answer
        assert "connection: close" in answer.lower()


async def test_a_body_without_a_length_is_counted_while_it_comes(sample):
    sent = 0

    async def endless():
        nonlocal sent
        while sent < 64 << 20:
            sent += 4096
            yield b"x" * 4096

    async with served(sample(server__max_body_bytes=2048), echo_part) as site:
        kind = {"Content-Type": "application/json"}
        try:
            answer = await site.http.post("/v1/echo", content=endless(), headers=kind)
            assert code(answer) == (413, "TOO_LARGE")
        except (httpx.WriteError, httpx.ReadError):
            pass  # the connection was closed while it went on sending
        assert sent < 32 << 20
        assert (await site.http.get("/v1/echo")).json() == {"said": 0}


async def test_a_refusal_reaches_a_client_that_is_still_sending(sample):
    async with served(sample(), echo_part) as site:
        for client, path in ((site.bare, "/v1/echo"), (site.http, "/v1/echo"), (site.http, "/v1/nothing")):
            answer = await client.post(
                path, content=b"x" * (1 << 20) + b"y", headers={"Content-Type": "application/json"}
            )
            assert answer.status_code in (401, 404, 413)


async def test_a_body_that_trickles_is_given_up(sample):
    async with served(sample(server__body_seconds=0.2), echo_part) as site:
        lines = (f"Authorization: Bearer {site.token}", "Content-Type: application/json", "Content-Length: 1000")
        answer = await raw(site, request(site, *lines, method="POST") + '{"text"')
        assert answer.startswith("HTTP/1.1 408"), answer
        assert "connection: close" in answer.lower()
        assert site.serving.doings.done == []


async def test_what_is_open_takes_small_bodies_only(sample):
    async with served(sample()) as site:
        answer = await site.bare.post("/v1/pairing/bind", json={"code": "x" * 20_000})
        assert code(answer) == (413, "TOO_LARGE")


async def test_a_missing_body_is_reported(sample):
    async with served(sample(), echo_part) as site:
        answer = await site.http.post("/v1/echo")
        assert code(answer) == (400, "BAD_REQUEST")
        assert answer.json()["detail"] == "body: nothing was sent, but JSON is required."


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonp"],
)
async def test_only_json_is_taken(sample, kind):
    async with served(sample(), echo_part) as site:
        answer = await site.http.post("/v1/echo", content=b'{"text":"x"}', headers={"Content-Type": kind})
        assert code(answer) == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert code(await site.http.post("/v1/echo", content=b"x"))[0] == 415
        assert site.serving.doings.done == []


async def test_compressed_bodies_are_not_taken(sample):
    async with served(sample(), echo_part) as site:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        assert code(await site.http.post("/v1/echo", content=b"x", headers=headers))[0] == 415


async def test_the_body_of_a_get_is_bounded_and_means_nothing(sample):
    async with served(sample(), echo_part) as site:
        assert (await site.http.request("GET", "/v1/echo", json={"a": 1})).json() == {"said": 0}
        assert code(await site.http.request("GET", "/v1/echo", json="x" * (1 << 20)))[0] == 413
        assert code(await site.http.request("TRACE", "/v1/echo", json={"a": 1}))[0] == 405


def test_uploads_have_a_limit_of_their_own():
    bodies = Bodies(most=4096, seconds=1)
    form = {"content-type": ["multipart/form-data; boundary=x"], "content-length": [str(2 << 20)]}
    assert bodies.check("/v1/files", form)
    with pytest.raises(Trouble) as refused:
        bodies.check("/v1/files", {**form, "content-length": [str(3 << 20)]})
    assert refused.value.status == 413
    with pytest.raises(Trouble) as refused:
        bodies.check("/v1/echo", form)
    assert refused.value.status == 413


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"text": 1}', b"\xff", b'{"text":"\\ud800"}', b"[" * 9000]
)
async def test_a_body_that_is_not_what_was_asked_for_is_a_problem_not_a_failure(sample, body):
    async with served(sample(), echo_part) as site:
        answer = await site.http.post("/v1/echo", content=body, headers={"Content-Type": "application/json"})
        assert code(answer) == (400, "BAD_REQUEST")


# How often


async def test_a_device_that_asks_too_often_is_told_when_to_come_again(sample):
    async with served(sample(server__requests_per_minute=10), echo_part) as site:
        for _ in range(10):
            assert (await site.http.get("/v1/echo")).status_code == 200
        answer = await site.http.get("/v1/echo")
        assert code(answer) == (429, "RATE_LIMITED")
        assert 1 <= int(answer.headers["retry-after"]) <= 7
        assert (await site.device().get("/v1/echo")).status_code == 200  # another device has its own
        assert (await site.bare.get("/v1/echo")).status_code == 401


async def test_pairing_guesses_are_limited_over_everybody(sample):
    async with served(sample()) as site:
        answers = [await site.bare.post("/v1/pairing/bind", json={}) for _ in range(640)]
        statuses = [each.status_code for each in answers]
        assert set(statuses) <= {400, 429}
        assert statuses[:600] == [400] * 600


def test_buckets_fill_again_and_never_grow_beyond_their_number():
    now = [0.0]
    rates = Rates(lambda: now[0], per_minute=60, routes=(), most=100)
    assert [rates.wait("a", "GET", "/x") for _ in range(60)] == [0.0] * 60
    assert rates.wait("a", "GET", "/x") == pytest.approx(1.0)
    now[0] += 1.0
    assert rates.wait("a", "GET", "/x") == 0.0
    assert rates.wait("a", "GET", "/x") > 0
    for number in range(1000):
        rates.wait(f"device {number}", "GET", "/x")
    assert rates.size == 100


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("POST", "/v1/pairing/code", 10),
        ("POST", "/v1/pairing/bind", 600),
        ("POST", "/v1/passkeys/challenge", 60),
        ("POST", "/v1/passkeys", 60),
        ("POST", "/v1/passkeys/x/remove", 60),
        ("POST", "/v1/providers/local/test", 10),
        ("POST", "/v1/chat/threads/t/messages", 60),
        ("POST", "/chat", 60),
        ("GET", "/v1/doctor", 10),
        ("POST", "/v1/receipts/verify", 10),
        ("GET", "/v1/jobs", 1200),
        ("POST", "/v1/providers/a/b/test", 1200),
    ],
)
def test_single_routes_have_stricter_limits(method, path, limit):
    rates = Rates(lambda: 0.0, per_minute=1200)
    passed = 0
    while rates.wait("a", method, path) == 0.0:
        passed += 1
    assert passed == limit
    shared = path == "/v1/pairing/bind"
    assert (rates.wait("b", method, path) > 0) is shared


def test_every_route_that_has_a_limit_is_named_once():
    assert len({rate.name for rate in ROUTE_RATES}) == len(ROUTE_RATES)
    assert not RouteRate(name="x", methods=frozenset({"GET"}), paths=("/a/*",), per_minute=1).covers("GET", "/a")


async def test_a_device_that_is_revoked_while_it_sends_its_body_is_out(sample):
    home = sample()
    async with served(home, echo_part) as site:
        kept_open = request(
            site,
            f"Authorization: Bearer {site.token}",
            "Content-Type: application/json",
            "Content-Length: 12",
            method="POST",
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(kept_open.encode() + b'{"text":"x"')
        await writer.drain()
        assert (await site.http.get("/v1/echo")).status_code == 200
        home.app.db.write_now(lambda tx: revoke_device(tx, "dev_test", stamp(home.app.clock())))
        writer.write(b"}")
        await writer.drain()
        answer = (await reader.read()).decode()
        writer.close()
        assert answer.startswith("HTTP/1.1 401")
        assert "UNPAIRED" in answer
        assert site.serving.doings.done == []
