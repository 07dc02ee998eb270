"""The airlock against real servers on loopback: what is dialled, followed and written down."""

import asyncio
import hashlib
import socket
from pathlib import Path
from typing import get_args

import pytest

from coilclaw.airlock import Listing, Target, parse_url
from coilclaw.airlock.dial import check_peer, dial
from coilclaw.airlock.log import line_json
from coilclaw.airlock.resolver import system_resolver
from coilclaw.packets.errors import EgressRefused
from coilclaw.packets.http import HttpRequest, Principal
from tests.airlock.airlock_harness import Lock, Resolver, answer, failed, redirect, refused, serving

# --- one request


async def test_a_listed_request_goes_out_and_leaves_a_line_without_path_query_or_headers() -> None:
    async with serving(answer(b"hello", "200 OK", "Set-Cookie: sid=cookie-secret")) as server:
        lock = Lock(server.url())
        response = await lock.get(
            server.url("/path-secret?token=query-secret#frag"), headers=(("Authorization", "Bearer header-secret"),)
        )
    assert (response.status, response.body) == (200, b"hello")
    assert server.requests[0].startswith(b"GET /path-secret?token=query-secret HTTP/1.1\r\n")
    assert f"host: a.localhost:{server.port}".encode() in server.requests[0].lower()
    [line] = lock.lines
    assert (line.principal, line.host, line.port, line.verdict) == ("http", "a.localhost", server.port, "pass")
    assert (line.code, line.status, line.bytes) == ("OK", 200, 5)
    assert line.sha256 == hashlib.sha256(b"hello").hexdigest()
    assert b"secret" not in line_json(line)


async def test_a_refusal_leaves_a_line_and_looks_nothing_up() -> None:
    lock = Lock("http://a.localhost:1")
    assert await refused(lock, "https://unlisted.example.com/?k=secret") == "NOT_LISTED"
    assert await refused(lock, "https://user:secret@example.com/") == "USERINFO"
    assert lock.resolve.asked == []
    assert [(line.host, line.verdict) for line in lock.lines] == [("unlisted.example.com", "block"), ("", "block")]
    assert not any(b"secret" in line_json(line) for line in lock.lines)


async def test_a_post_carries_its_body_and_is_never_redirected() -> None:
    async with serving(redirect("/elsewhere", "307 Temporary Redirect")) as server:
        lock = Lock(server.url())
        request = HttpRequest(principal="http", method="POST", url=server.url(), body=b"x=1")
        response = await lock.airlock.send(request)
    assert response.status == 307
    assert b"content-length: 3" in server.requests[0].lower()
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["Host", "Transfer-Encoding", "Content-Length", "Connection", "Proxy-Authorization"])
async def test_headers_that_frame_the_request_are_refused(name: str) -> None:
    lock = Lock("http://a.localhost:1")
    assert await refused(lock, "http://a.localhost:1/", headers=((name, "x"),)) == "BAD_HEADER"
    assert lock.codes == ["BAD_HEADER"]


@pytest.mark.parametrize(
    "header", [("X-A", "a\r\nHost: b"), ("X-A", "a\nb"), ("X A", "b"), ("X-A", "\u00fc"), ("", "b")]
)
async def test_a_header_can_not_smuggle_another(header: tuple[str, str]) -> None:
    assert await refused(Lock("http://a.localhost:1"), "http://a.localhost:1/", headers=(header,)) == "BAD_HEADER"


# --- names and addresses


async def test_the_address_that_was_checked_is_the_one_dialled_under_a_rebinding_resolver() -> None:
    async with (
        serving(answer(b"good"), "127.0.0.2") as good,
        serving(answer(b"evil"), "127.0.0.3", good.port) as evil,
    ):
        lock = Lock(good.url(), resolve=(resolve := Resolver(["127.0.0.2"], ["127.0.0.3"])))
        response = await lock.get(good.url())
    assert response.body == b"good"
    assert resolve.asked == ["a.localhost"]
    assert evil.requests == []


async def test_the_second_answer_of_a_rebinding_name_is_checked_again() -> None:
    async with serving(answer()) as server:
        lock = Lock(server.url(), resolve=Resolver(["127.0.0.1"], ["10.0.0.1"]))
        await lock.get(server.url())
        assert await refused(lock, server.url()) == "SPECIAL_ADDRESS"
    assert len(server.requests) == 1


async def test_one_bad_answer_among_good_ones_stops_the_request() -> None:
    async with serving(answer()) as server:
        lock = Lock(server.url(), resolve=Resolver(["127.0.0.1", "169.254.169.254"]))
        assert await refused(lock, server.url()) == "SPECIAL_ADDRESS"
    assert server.requests == []


async def test_a_public_name_that_leads_to_this_machine_is_refused_for_web_open() -> None:
    lock = Lock(resolve=Resolver(["127.0.0.1"]))
    assert await refused(lock, "https://example.com/", principal="web_open") == "SPECIAL_ADDRESS"
    assert lock.lines[0].verdict == "block"


async def test_a_dead_address_does_not_hide_a_living_one() -> None:
    async with serving(answer()) as server:
        lock = Lock(server.url(), resolve=Resolver(["127.0.0.9", "127.0.0.1"]))
        assert (await lock.get(server.url())).status == 200


async def test_a_connection_to_any_other_peer_is_refused() -> None:
    async with serving(answer()) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            check_peer(sock, "127.0.0.1", server.port, frozenset())
            for address, port in (("127.0.0.2", server.port), ("127.0.0.1", server.port + 1), ("::1", server.port)):
                with pytest.raises(EgressRefused) as caught:
                    check_peer(sock, address, port, frozenset())
                assert caught.value.code == "PEER_MISMATCH"
            with pytest.raises(EgressRefused) as caught:
                check_peer(sock, "127.0.0.1", server.port, frozenset({server.port}))
            assert caught.value.code == "OWN_PORT"


async def test_dialling_checks_who_answered_before_handing_the_connection_over() -> None:
    async with serving(answer()) as server:
        target = parse_url(server.url())
        assert isinstance(target, Target)
        with pytest.raises(EgressRefused) as caught:
            await dial(
                target,
                ["127.0.0.1"],
                own_ports=frozenset({server.port}),
                tls=None,
                connect_seconds=5,
                deadline=asyncio.get_running_loop().time() + 5,
            )
    assert caught.value.code == "OWN_PORT"
    assert server.requests == []


async def test_a_provider_reaches_exactly_its_configured_place() -> None:
    async with serving(answer()) as server, serving(answer()) as other:
        lock = Lock(listing=Listing.build(providers=[f"http://127.0.0.1:{server.port}/v1"]))
        assert (await lock.get(f"http://127.0.0.1:{server.port}/v1/x", "provider")).status == 200
        assert await refused(lock, f"http://127.0.0.1:{other.port}/v1/x", principal="provider") == "NOT_LISTED"
        assert await refused(lock, f"http://localhost:{server.port}/v1/x", principal="provider") == "NOT_LISTED"
        assert await refused(lock, f"http://127.0.0.1:{server.port}/v1/x", principal="http") == "NOT_LISTED"
    assert (len(server.requests), len(other.requests)) == (1, 0)


async def test_our_own_port_is_never_reached() -> None:
    async with serving(answer()) as server:
        listing = Listing.build(
            providers=[server.url(host="127.0.0.1")], allowed_domains=[server.url()], own_ports=[server.port]
        )
        lock = Lock(listing=listing)
        assert await refused(lock, server.url(host="127.0.0.1"), principal="provider") == "OWN_PORT"
        assert await refused(lock, server.url()) == "OWN_PORT"
    assert server.requests == []


async def test_proxies_and_credentials_in_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine a.localhost login me password netrc-secret\n")
    async with serving(answer()) as server, serving(answer(b"proxied")) as trap:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        monkeypatch.setenv("HOME", str(tmp_path))
        response = await Lock(server.url()).get(server.url())
    assert response.body == b"ok"
    assert trap.requests == []
    assert b"authorization" not in server.requests[0].lower()


async def test_the_system_resolver_knows_this_machine_without_asking() -> None:
    assert await system_resolver("localhost") == ("127.0.0.1", "::1")
    assert await system_resolver("x.localhost") == ("127.0.0.1", "::1")


async def test_a_resolver_that_hangs_is_bounded_by_the_request() -> None:
    async def hang(_host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    error = await failed(Lock("http://a.localhost:1", resolve=hang), "http://a.localhost:1/", timeout_seconds=0.1)
    assert (error.timeout, error.sent) == (True, False)


async def test_nobody_listening_is_an_error_with_nothing_sent() -> None:
    async with serving(answer()) as server:
        port = server.port
    lock = Lock(f"http://a.localhost:{port}")
    error = await failed(lock, f"http://a.localhost:{port}/")
    assert (error.sent, error.timeout) == (False, False)
    assert lock.codes == ["NO_CONNECTION"]


# --- redirects


async def test_each_redirect_is_decided_again_and_leaves_its_own_line() -> None:
    async with serving(answer(b"end")) as last, serving(redirect(last.url("/final?q=1"))) as first:
        lock = Lock(first.url(), last.url())
        response = await lock.get(first.url())
    assert (response.body, response.url) == (b"end", last.url("/final?q=1"))
    assert lock.codes == ["REDIRECTED", "OK"]
    assert lock.resolve.asked == ["a.localhost", "a.localhost"]


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://169.254.169.254/latest/meta-data/", "NOT_LISTED"),
        ("http://a.localhost:1/", "NOT_LISTED"),
        ("https://elsewhere.example.com/", "NOT_LISTED"),
        ("file:///etc/passwd", "SCHEME"),
        ("//evil.example.com/", "NOT_LISTED"),
        ("/\\evil.example.com/", "BACKSLASH"),
        ("http://x@evil.example.com/", "USERINFO"),
        ("http://2130706433/", "IP_SPELLING"),
        ("/", "REDIRECT_LOOP"),
    ],
)
async def test_a_redirect_to_a_blocked_place_is_not_followed(location: str, code: str) -> None:
    async with serving(redirect(location)) as server:
        lock = Lock(server.url())
        assert await refused(lock, server.url()) == code
    assert len(server.requests) == 1
    assert [line.verdict for line in lock.lines] == ["pass", "block"]


async def test_a_redirect_whose_name_now_leads_inside_is_refused() -> None:
    async with serving(redirect("/next")) as server:
        lock = Lock(server.url(), resolve=Resolver(["127.0.0.1"], ["192.168.0.1"]))
        assert await refused(lock, server.url()) == "SPECIAL_ADDRESS"
    assert len(server.requests) == 1


@pytest.mark.parametrize(("hops", "arrives"), [(5, True), (6, False)])
async def test_at_most_five_redirects_are_followed(hops: int, arrives: bool) -> None:
    async def count(head: bytes, writer: asyncio.StreamWriter) -> None:
        step = int(head.split(b" ")[1].strip(b"/") or b"0")
        writer.write(answer(b"end") if step == hops else redirect(f"/{step + 1}"))

    async with serving(count) as server:
        lock = Lock(server.url())
        if arrives:
            assert (await lock.get(server.url())).body == b"end"
        else:
            assert await refused(lock, server.url()) == "REDIRECTS"
    assert len(server.requests) == 6


async def test_a_redirect_written_in_raw_utf8_is_sent_percent_encoded() -> None:
    async def once(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(redirect("/caf\u00e9") if head.startswith(b"GET / ") else answer(b"end"))

    async with serving(once) as server:
        assert (await Lock(server.url()).get(server.url())).url == server.url("/caf%C3%A9")


async def test_a_provider_follows_no_redirect() -> None:
    async with serving(redirect("/v2")) as server:
        response = await Lock(server.url()).get(server.url("/v1"), "provider")
    assert (response.status, response.header("location")) == (302, "/v2")
    assert len(server.requests) == 1


async def test_an_mcp_server_follows_no_redirect() -> None:
    async with serving(redirect("/other")) as server:
        lock = Lock(listing=Listing.build(mcp=[server.url("/mcp"), server.url("/other")]))
        response = await lock.get(server.url("/mcp"), "mcp")
    assert (response.status, len(server.requests)) == (302, 1)


async def test_only_an_mcp_session_is_ended_by_delete() -> None:
    async with serving(answer()) as server:
        url = server.url("/mcp")
        lock = Lock(listing=Listing.build(mcp=[url], providers=[url], allowed_domains=[server.url("")]))
        for principal in get_args(Principal):
            if principal != "mcp":
                with pytest.raises(EgressRefused) as caught:
                    await lock.airlock.send(HttpRequest(principal=principal, method="DELETE", url=url))
                assert caught.value.code == "METHOD"
        with pytest.raises(EgressRefused, match="has no body"):
            await lock.airlock.send(HttpRequest(principal="mcp", method="DELETE", url=url, body=b"x"))
        assert not server.requests
        assert (await lock.airlock.send(HttpRequest(principal="mcp", method="DELETE", url=url))).status == 200
    assert server.requests[0].startswith(b"DELETE /mcp HTTP/1.1\r\n")


async def test_credentials_stay_with_the_origin_they_were_meant_for() -> None:
    secrets = (("Authorization", "Bearer s"), ("Cookie", "c=s"), ("X-Api-Key", "s"), ("Accept", "text/html"))
    async with serving(answer()) as last, serving(redirect(last.url())) as first:
        await Lock(first.url(), last.url()).get(first.url(), headers=secrets)
    assert b"bearer s" in first.requests[0].lower()
    arrived = last.requests[0].lower()
    assert b"accept: text/html" in arrived
    assert not any(name in arrived for name in (b"authorization", b"cookie", b"x-api-key"))


async def test_a_request_that_must_stay_with_its_host_hands_a_redirect_over() -> None:
    async with serving(answer(b"end")) as last, serving(redirect(last.url("/?d=1", "b.localhost"))) as first:
        lock = Lock(first.url(), last.url("/", "b.localhost"))
        kept = await lock.airlock.send(HttpRequest(principal="http", method="GET", url=first.url(), same_host=True))
        assert (kept.status, kept.url) == (302, first.url())
        assert not last.requests
        assert (await lock.get(first.url())).body == b"end"


async def test_a_request_that_must_stay_with_its_host_continues_within_it() -> None:
    async def once(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(redirect("/next") if head.startswith(b"GET / ") else answer(b"end"))

    async with serving(once) as server:
        request = HttpRequest(principal="http", method="GET", url=server.url(), same_host=True)
        assert (await Lock(server.url()).airlock.send(request)).body == b"end"
