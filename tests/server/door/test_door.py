"""The door over real HTTP: nobody comes in who may not, whatever they ask for and however they ask."""

import asyncio
import json

import pytest

from coilclaw.server.door.hosts import Hosts, Listening
from tests.server.echo import echo_part
from tests.server.site import COOKIE, enrol, served, served_whole, unlimited
from tests.server.wire import code, raw, request

OPEN = {
    ("POST", "/v1/pairing/bind"),
    ("GET", "/v1/pairing/github"),
    ("POST", "/v1/pairing/github"),
    ("GET", "/health"),
    ("POST", "/runner/v1/webhooks/{repo_id}"),
    ("POST", "/v1/forge/webhook"),
}


# Tokens


async def test_without_a_token_no_route_answers(sample):
    async with served_whole(sample(), echo_part) as site:
        document = (await site.http.get("/v1/openapi.json")).json()
        routes = [(method.upper(), path) for path, item in document["paths"].items() for method in item]
        routes += [("GET", "/v1/openapi.json"), ("GET", "/v1/openapi"), ("POST", "/"), ("GET", "/nothing")]
        routes += [("OPTIONS", "/v1/echo"), ("HEAD", "/v1/echo"), ("TRACE", "/v1/echo"), ("BREW", "/v1/echo")]
        assert len(routes) > 15
        for method, path in routes:
            if (method, path) in OPEN:
                continue
            written = path.replace("{", "").replace("}", "")
            for headers in ({}, {"Authorization": "Bearer cc_" + "A" * 43}, {"Cookie": f"{COOKIE}=x"}):
                answer = await site.bare.request(method, written, headers=headers)
                assert answer.status_code == 401, (method, path, answer.status_code)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                if method != "HEAD":
                    assert code(answer) == (401, "UNPAIRED")


@pytest.mark.parametrize(
    "shown",
    [
        "Bearer",
        "Bearer cc_",
        "Basic Y2M6Y2M=",
        "bearer  cc_" + "é" * 43,
        "Bearer cc_" + "A" * 44,
        "Bearer cc_" + "A" * 42 + "\u0141",
        "Token x",
    ],
)
async def test_what_is_not_a_token_is_no_token(sample, shown):
    async with served(sample(), echo_part) as site:
        answer = await site.bare.get("/v1/echo", headers=[(b"Authorization", shown.encode())])
        assert code(answer) == (401, "UNPAIRED")


async def test_a_token_works_as_bearer_and_as_cookie(sample):
    async with served(sample(), echo_part) as site:
        assert (await site.http.get("/v1/echo")).json() == {"said": 0}
        assert (await site.browser().get("/v1/echo")).json() == {"said": 0}
        lower = site.client(headers={"Authorization": f"bearer {site.token}"})
        assert (await lower.get("/v1/echo")).status_code == 200


async def test_whoever_names_a_wrong_bearer_is_not_let_in_by_a_cookie(sample):
    async with served(sample(), echo_part) as site:
        both = site.browser(Authorization="Bearer cc_" + "A" * 43)
        assert code(await both.get("/v1/echo")) == (401, "UNPAIRED")


async def test_two_cookies_of_ours_are_none(sample):
    async with served(sample(), echo_part) as site:
        twice = site.client(headers={"Cookie": f"{COOKIE}={site.token}; {COOKIE}={site.token}"})
        assert code(await twice.get("/v1/echo")) == (401, "UNPAIRED")


# Where from


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "localhost", "localhost:1", "localhost.:{port}", "[::2]:{port}", "", "a b"],
)
@pytest.mark.parametrize("path", ["/health", "/v1/echo", "/nothing", "/v1/openapi.json"])
async def test_a_name_that_was_pointed_at_us_is_refused(sample, host, path):
    async with served(sample(), echo_part) as site:
        answer = await raw(site, request(site, path=path, host=host.format(port=site.port) or " "))
        assert answer.startswith(("HTTP/1.1 421", "HTTP/1.1 400")), answer
        assert "HOST_REFUSED" in answer or "BAD_REQUEST" in answer


async def test_our_own_names_are_answered(sample):
    async with served(sample(), echo_part) as site:
        for name in ("localhost", "LocalHost", "127.0.0.1", "[::1]"):
            bearer = f"Authorization: Bearer {site.token}"
            answer = await raw(site, request(site, bearer, host=f"{name}:{site.port}"))
            assert answer.startswith("HTTP/1.1 200"), answer


async def test_a_request_without_a_host_is_refused(sample):
    async with served(sample(), echo_part) as site:
        answer = await raw(site, "GET /health HTTP/1.0\r\n\r\n")
        assert answer.startswith("HTTP/1.1 421")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost", "https://localhost:{port}", ""])
async def test_a_foreign_origin_is_refused_for_every_method(sample, method, origin):
    async with served(sample(), echo_part) as site:
        for client in (site.http, site.bare, site.browser()):
            for path in ("/v1/echo", "/health", "/v1/pairing/bind"):
                answer = await client.request(method, path, headers={"Origin": origin.format(port=site.port)})
                assert answer.status_code == 403
                assert not [name for name in answer.headers if name.startswith("access-control")]
                if method != "HEAD":
                    assert code(answer) == (403, "ORIGIN_REFUSED")


async def test_a_preflight_gets_nothing(sample):
    async with served(sample(), echo_part) as site:
        asked = {"Access-Control-Request-Method": "POST", "Origin": site.origin}
        answer = await site.http.options("/v1/echo", headers=asked)
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_cookie_counts_only_in_requests_of_our_own_pages(sample):
    async with served(sample(), echo_part) as site:
        token = enrol(site.sample, token_id="tok_page", way="cookie")
        cookie = {"Cookie": f"{COOKIE}={token}", "X-CoilClaw-Page": site.serving.page_keys.grant("tok_page")}
        for extra, status in (
            ({}, 403),
            ({"Origin": site.origin}, 201),
            ({"Sec-Fetch-Site": "same-origin"}, 201),
            ({"Sec-Fetch-Site": "same-site"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "none"}, 403),
            ({"Sec-Fetch-Site": "cross-site", "Origin": site.origin}, 403),
        ):
            answer = await site.bare.post("/v1/echo", json={"text": "x"}, headers={**cookie, **extra})
            assert answer.status_code == status, (extra, answer.text)
        for extra, status in (
            ({}, 200),
            ({"Sec-Fetch-Site": "none"}, 200),
            ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Sec-Fetch-Site": "same-site"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
        ):
            answer = await site.bare.get("/v1/echo", headers={**cookie, **extra})
            assert answer.status_code == status, extra
        assert len(site.serving.doings.done) == 2


async def test_a_bearer_needs_no_origin(sample):
    async with served(sample(), echo_part) as site:
        assert (await site.http.post("/v1/echo", json={"text": "x"})).status_code == 201


def test_only_the_named_proxy_may_connect():
    hosts = Hosts(Listening(host="0.0.0.0", tls=False, public_url="https://coil.example.net", proxy="10.0.0.2"))
    assert not hosts.admits_host("localhost:8377")  # nothing before we listen
    hosts.listening(8377)
    assert hosts.admits_peer(("10.0.0.2", 1))
    assert hosts.admits_peer(("::ffff:10.0.0.2", 1))
    for peer in (("10.0.0.3", 1), ("127.0.0.1", 1), ("", 0), None):
        assert not hosts.admits_peer(peer)
    assert hosts.admits_host("coil.example.net")
    assert hosts.admits_host("coil.example.net:443")
    assert not hosts.admits_host("coil.example.net:8377")
    assert hosts.admits_origin("https://coil.example.net")
    assert not hosts.admits_origin("http://localhost:8377")
    assert not hosts.admits_origin("http://coil.example.net")
    assert hosts.origin_of("127.0.0.1:8377") == "https://coil.example.net"
    assert hosts.secure
    assert hosts.address == "https://coil.example.net"


def test_an_address_listened_on_by_number_is_ours_and_any_address_is_not():
    hosts = Hosts(Listening(host="192.0.2.7", tls=True, public_url="", proxy=""))
    hosts.listening(443)
    assert hosts.admits_host("192.0.2.7")
    assert hosts.admits_origin("https://192.0.2.7")
    everywhere = Hosts(Listening(host="0.0.0.0", tls=True, public_url="", proxy=""))
    everywhere.listening(443)
    assert not everywhere.admits_host("0.0.0.0")
    assert everywhere.admits_host("localhost")


async def test_a_proxy_speaks_for_nobody(sample):
    made = sample(server__tls_proxy="127.0.0.1", server__public_url="https://coil.example.net")
    async with served(made, echo_part) as site:
        claims = {"X-Forwarded-Host": "localhost", "X-Forwarded-For": "10.9.9.9", "X-Forwarded-Proto": "https"}
        named = {"Host": "coil.example.net", "Authorization": f"Bearer {site.token}", **claims}
        echo = f"http://127.0.0.1:{site.port}/v1/echo"  # where the proxy is; localhost may mean the other loopback
        answer = await site.bare.get(echo, headers=named)
        assert answer.status_code == 200
        assert answer.headers["strict-transport-security"]
        assert code(await site.bare.get(echo, headers={**named, "Host": "evil.example"}))[0] == 421
    other = sample(server__tls_proxy="127.0.0.2", server__public_url="https://coil.example.net")
    async with served(other, echo_part) as site:
        named = {"Host": "coil.example.net", "X-Forwarded-For": "127.0.0.2"}
        assert code(await site.bare.get("/health", headers=named)) == (403, "PEER_REFUSED")


# Shapes


@pytest.mark.parametrize(
    "lines",
    [
        ("Authorization: Bearer a", "Authorization: Bearer b"),
        ("Origin: http://localhost", "Origin: http://localhost"),
        ("Host: evil.example",),
        ("Content-Length: 1", "Content-Length: 2"),
        ("Sec-Fetch-Site: none", "Sec-Fetch-Site: same-origin"),
        ("Content-Length: -1",),
        ("Content-Length: 1_0",),
    ],
)
async def test_two_of_a_header_that_decides_are_refused(sample, lines):
    async with served(sample(), echo_part) as site:
        answer = await raw(site, request(site, *lines))
        assert answer.startswith("HTTP/1.1 400"), answer


async def test_websockets_are_refused(sample):
    async with served(sample(), echo_part) as site:
        upgrade = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
        text = request(site, *upgrade, f"Authorization: Bearer {site.token}").replace(
            "Connection: close", "Connection: Upgrade"
        )
        answer = await raw(site, text.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
        assert answer.startswith("HTTP/1.1 400")
        assert "WEBSOCKET_REFUSED" in answer


@pytest.mark.parametrize("path", ["/v1/echo/", "//v1/echo", "/v1//echo", "/v1/echo//", "/v1/echo/%2f"])
async def test_a_path_has_one_spelling(sample, path):
    async with served(sample(), echo_part) as site:
        assert (await raw(site, request(site, path=path))).startswith("HTTP/1.1 401")
        bearer = f"Authorization: Bearer {site.token}"
        assert (await raw(site, request(site, bearer, path=path))).startswith("HTTP/1.1 404")


@pytest.mark.parametrize("target", ["http://evil.example/v1/echo", "*", "evil"])
async def test_a_target_that_is_not_a_path_is_refused(sample, target):
    async with served(sample(), echo_part) as site:
        answer = await raw(site, request(site, f"Authorization: Bearer {site.token}", path=target))
        assert answer.startswith("HTTP/1.1 400"), answer


# Devices that nobody vouched for


async def test_an_unconfirmed_device_can_only_ask_to_be_vouched_for(sample):
    made = sample()
    async with served_whole(made, echo_part) as site:
        token = enrol(made, "dev_new", "tok_new", confirmed=False)
        new = site.client(headers={"Authorization": f"Bearer {token}"})
        document = (await site.http.get("/v1/openapi.json")).json()
        may = {("get", "/v1/sign-in"), ("post", "/v1/sign-in/end"), ("post", "/v1/passkeys/challenge")}
        may |= {("post", "/v1/sign-in/nonce"), ("post", "/v1/sign-in/page")}
        for path, item in document["paths"].items():
            for method in item:
                if (method, path) in may or (method.upper(), path) in OPEN:
                    continue
                answer = await new.request(method, path.replace("{", "").replace("}", ""))
                assert code(answer) == (403, "UNCONFIRMED"), (method, path)
        assert (await new.get("/v1/sign-in")).json()["confirmed"] is False
        assert (await new.post("/v1/passkeys/challenge", json={})).status_code == 400
        assert code(await new.post("/v1/devices/dev_test/confirm", json={})) == (403, "UNCONFIRMED")
        assert code(await new.post("/v1/devices/dev_new/confirm", json={})) == (403, "PROOF_NEEDED")


# Answers


async def test_every_answer_carries_the_headers_that_guard_it(sample):
    async with served(sample(), echo_part, is_asset=lambda path: path == "/app.js") as site:
        for answer in (
            await site.http.get("/v1/echo"),
            await site.bare.get("/v1/echo"),
            await site.http.get("/nothing"),
            await site.bare.get("/v1/echo", headers={"Host": "evil.example"}),
        ):
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'")
            assert "frame-ancestors 'none'" in policy
            assert "script-src" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cross-origin-opener-policy"] == "same-origin"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
            assert "publickey-credentials-get=(self)" in answer.headers["permissions-policy"]
            assert answer.headers["cache-control"] == "no-store"
            assert "server" not in answer.headers
            assert "strict-transport-security" not in answer.headers
        panel = await site.bare.get("/app.js")  # open, though there is no such file here
        assert panel.status_code == 404
        policy = panel.headers["content-security-policy"]
        assert "require-trusted-types-for 'script'" in policy
        assert "trusted-types default coilclaw svelte-trusted-html" in policy
        assert (await site.bare.post("/app.js")).status_code == 401


async def test_a_failure_inside_says_nothing_of_its_inside(sample):
    made = sample()
    async with served(made, echo_part) as site:
        answer = await site.http.put("/v1/echo/thing")
        assert code(answer) == (500, "UNEXPECTED")
        assert "secret" not in answer.text
        ((_, told),) = [each for each in made.events if each[0] == "request_failed"]
        assert told["error"] == "ValueError"
        assert told["place"].startswith("tests.server.echo:")
        assert "secret" not in json.dumps(told)


async def test_nothing_that_was_sent_is_repeated_in_a_refusal(sample):
    async with served(sample(), echo_part) as site:
        secret = "cc_" + "S" * 43
        answers = [
            await site.bare.get("/v1/echo", headers={"Authorization": f"Bearer {secret}"}),
            await site.bare.get("/v1/echo", headers={"Host": secret}),
            await site.bare.get("/v1/echo", headers={"Origin": secret}),
            await site.http.post("/v1/echo", content=secret.encode(), headers={"Content-Type": secret}),
        ]
        for answer in answers:
            assert answer.status_code >= 400
            assert secret not in answer.text


# ETags


async def test_what_a_client_has_is_not_sent_again(sample):
    async with served(sample(), echo_part) as site:
        first = await site.http.get("/v1/echo")
        tag = first.headers["etag"]
        assert tag.startswith('W/"')
        again = await site.http.get("/v1/echo", headers={"If-None-Match": f'"other", {tag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        await site.http.post("/v1/echo", json={"text": "x"})
        changed = await site.http.get("/v1/echo", headers={"If-None-Match": tag})
        assert (changed.status_code, changed.json()) == (200, {"said": 1})
        assert "etag" not in (await site.http.get("/nothing")).headers
        assert "etag" not in (await site.http.post("/v1/echo", json={"text": "x"})).headers


# The document


async def test_the_document_says_what_the_door_does(sample):
    async with served(sample(), echo_part) as site:
        answer = await site.http.get("/v1/openapi.json")
        document = answer.json()
        assert document["openapi"].startswith("3.1")
        assert set(document["components"]["securitySchemes"]) == {"bearer", "cookie"}
        for path, item in document["paths"].items():
            for method, operation in item.items():
                statuses = set(operation["responses"])
                assert {"400", "403", "421", "429", "500", "503"} <= statuses, (method, path)
                names = {each["name"] for each in operation.get("parameters", [])}
                if (method.upper(), path) in OPEN:
                    assert operation["security"] == []
                    assert "401" not in statuses
                else:
                    assert "401" in statuses
                    assert "security" not in operation
                if method in ("post", "put", "patch", "delete"):
                    assert {"408", "413", "415"} <= statuses
                    assert ("Idempotency-Key" in names) is ((method.upper(), path) not in OPEN)
                assert operation["summary"]
                assert operation["operationId"]
        bind = document["components"]["schemas"]["Binding"]
        assert "base64url" in bind["properties"]["public_key"]["description"]
        assert bind["additionalProperties"] is False
        assert answer.headers["etag"]


@pytest.mark.slow
async def test_many_requests_at_once_each_get_their_own_answer(sample):
    async with served(sample(), echo_part, rates=unlimited()) as site:
        answers = await asyncio.gather(
            *(site.http.post("/v1/echo", json={"text": str(number)}) for number in range(100))
        )
        assert [each.json()["text"] for each in answers] == [str(number) for number in range(100)]
