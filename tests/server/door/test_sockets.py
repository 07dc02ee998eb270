"""WebSockets come in by the door like requests, and stay no longer than a request of theirs would be let in."""

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest
from litestar import Controller, WebSocket, websocket
from litestar.di import NamedDependency
from uvicorn import Config
from uvicorn.server import ServerState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from coilclaw.packets.ids import stamp
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.rates import Rates
from coilclaw.server.door.slow_clients import Limits, Line, patient
from coilclaw.server.door.timed_socket import FRAGMENTS, MESSAGE_BYTES, TimedSocket
from coilclaw.server.part import Part
from coilclaw.store.devices import revoke_device
from tests.features.devices.test_pairing_browser import PAIR, ask, elsewhere
from tests.features.devices.test_passkeys_browser import try_part
from tests.server.browser import chromium
from tests.server.echo import echo_part
from tests.server.phone import issue
from tests.server.site import COOKIE, enrol, served, unlimited
from tests.server.wire import code, raw

PATH = "/v1/try/echo"
LONG = 240
QUICK = Limits(head_seconds=0.3, keep_alive_seconds=0.3, write_seconds=0.5)


class Seen:
    """What the routes saw."""

    def __init__(self):
        self.said = []
        self.poured = 0
        self.over = asyncio.Event()
        self.go = asyncio.Event()


class TryController(Controller):
    """Routes of a feature that does not exist."""

    path = "/v1/try"

    @websocket("/echo")
    async def echo(self, socket: WebSocket, caller: NamedDependency[Caller], seen: NamedDependency[Seen]) -> None:
        """Say who said what."""
        await socket.accept(headers={"X-Own": "1"})
        while True:
            text = await socket.receive_text()
            seen.said.append(text)
            if text == "break":
                raise ValueError("a secret thing")
            if text == "leave":
                return
            await socket.send_text(f"{caller.device_id}: {text}")

    @websocket("/pour")
    async def pour(self, socket: WebSocket, seen: NamedDependency[Seen]) -> None:
        """Send without end."""
        await socket.accept()
        try:
            while True:
                await socket.send_bytes(bytes(MESSAGE_BYTES))
                seen.poured += MESSAGE_BYTES
        finally:
            seen.over.set()

    @websocket("/deaf")
    async def deaf(self, socket: WebSocket, seen: NamedDependency[Seen]) -> None:
        """Not hear of its end."""
        await socket.accept()
        try:
            await seen.go.wait()
        except asyncio.CancelledError:
            seen.over.set()
        await seen.go.wait()


def try_sockets(serving):
    serving.seen = Seen()
    return Part(controllers=(TryController,), given={"seen": serving.seen})


def opened(site, path=PATH, token=None, protocols=None, **options):
    """A WebSocket as a program opens it."""
    shown = protocols or ["coilclaw", token or site.token]
    return connect(f"ws://localhost:{site.port}{path}", subprotocols=shown, compression="deflate", **options)


async def handshake(site, *lines, path=PATH, host=None):
    """The answer to an opening handshake, as text."""
    head = (
        f"GET {path} HTTP/1.1",
        f"Host: {host or f'localhost:{site.port}'}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *lines,
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        writer.write(("\r\n".join(head) + "\r\n\r\n").encode())
        async with asyncio.timeout(LONG):
            answer = (await reader.readuntil(b"\r\n\r\n")).decode()
            return answer if " 101 " in answer.partition("\r\n")[0] else answer + (await reader.read()).decode()
    finally:
        writer.transport.abort()


def shows(token, *more):
    return (f"Sec-WebSocket-Protocol: coilclaw, {token}", *more)


def assert_refused(answer, status, problem):
    assert answer.startswith(f"HTTP/1.1 {status} "), answer
    assert f'"code":"{problem}"' in answer, answer
    assert "application/problem+json" in answer
    assert "nosniff" in answer


async def closed(client):
    """The code a WebSocket is closed with; None when it just ends."""
    async with asyncio.timeout(LONG):
        await client.wait_closed()
    return client.close_code


# Who comes in


async def test_paired_program_is_admitted_and_its_token_is_not_said_back(sample):
    async with served(sample(), try_sockets) as site:
        async with opened(site) as client:
            assert client.subprotocol == "coilclaw"
            headers = client.response.headers
            assert site.token not in str(headers)
            assert "Sec-WebSocket-Extensions" not in headers  # nothing is deflated
            assert "X-Own" not in headers
            await client.send("hello")
            assert await client.recv() == "dev_test: hello"
        bearer = {"Authorization": f"Bearer {site.token}"}
        async with connect(f"ws://localhost:{site.port}{PATH}", additional_headers=bearer) as client:
            await client.send("again")
            assert await client.recv() == "dev_test: again"


async def test_page_of_ours_is_admitted_with_its_cookie_and_a_ticket_once(sample):
    home = sample()
    async with served(home, try_sockets) as site:
        cookie = f"Cookie: {COOKIE}={enrol(home, token_id='tok_page', way='cookie')}"
        keys = site.serving.page_keys
        ticket, key, ours = keys.ticket("tok_page"), keys.grant("tok_page"), f"Origin: {site.origin}"
        assert (await handshake(site, *shows(ticket, cookie, ours))).startswith("HTTP/1.1 101 ")
        foreign = keys.ticket("tok_test")
        for shown in (ticket, key, foreign, "x" * 43):
            assert_refused(await handshake(site, *shows(shown, cookie, ours)), 401, "TICKET_REFUSED")
        in_header = f"X-CoilClaw-Page: {key}"
        assert_refused(await handshake(site, cookie, ours, in_header), 401, "TICKET_REFUSED")
        fresh = keys.ticket("tok_page")
        assert_refused(await handshake(site, *shows(fresh, ours)), 401, "UNPAIRED")
        assert_refused(await handshake(site, *shows(fresh, cookie)), 403, "ORIGIN_REFUSED")
        elsewhere, aside = "Origin: http://localhost:1", "Sec-Fetch-Site: same-site"
        assert_refused(await handshake(site, *shows(fresh, cookie, elsewhere)), 403, "ORIGIN_REFUSED")
        assert_refused(await handshake(site, *shows(fresh, cookie, ours, aside)), 403, "ORIGIN_REFUSED")
        assert (await handshake(site, *shows(fresh, cookie, ours))).startswith("HTTP/1.1 101 ")


async def test_stranger_is_refused(sample):
    async with served(sample(), try_sockets) as site:
        assert_refused(await handshake(site), 401, "UNPAIRED")
        assert_refused(await handshake(site, "Sec-WebSocket-Protocol: coilclaw"), 401, "UNPAIRED")
        assert_refused(await handshake(site, *shows("cc_" + "a" * 43)), 401, "UNPAIRED")
        assert site.serving.seen.said == []


async def test_token_in_the_address_counts_for_nothing(sample):
    async with served(sample(), try_sockets) as site:
        answer = await handshake(site, "Sec-WebSocket-Protocol: coilclaw", path=f"{PATH}?token={site.token}")
        assert_refused(answer, 400, "TOKEN_IN_URL")
        assert site.token not in answer


async def test_foreign_host_and_origin_are_refused_even_with_a_good_token(sample):
    async with served(sample(), try_sockets) as site:
        assert_refused(await handshake(site, *shows(site.token), host="evil.example"), 421, "HOST_REFUSED")
        for origin in ("https://evil.example", "null", "http://localhost:1"):
            answer = await handshake(site, *shows(site.token, f"Origin: {origin}"))
            assert_refused(answer, 403, "ORIGIN_REFUSED")
        ours = await handshake(site, *shows(site.token, f"Origin: {site.origin}"))
        assert ours.startswith("HTTP/1.1 101 ")


async def test_revoked_expired_and_unconfirmed_devices_are_refused(sample):
    home = sample()
    async with served(home, try_sockets) as site:
        lost, new = enrol(home, "dev_lost", "tok_lost"), enrol(home, "dev_new", "tok_new", confirmed=False)
        await home.app.db.write(lambda tx: revoke_device(tx, "dev_lost", stamp(home.app.clock())))
        assert_refused(await handshake(site, *shows(lost)), 401, "UNPAIRED")
        assert_refused(await handshake(site, *shows(new)), 403, "UNCONFIRMED")
        past = stamp(home.app.clock() - timedelta(seconds=1))
        await home.app.db.write(lambda tx: tx.execute("UPDATE auth_tokens SET expires_at = ?", (past,)) and None)
        assert_refused(await handshake(site, *shows(site.token)), 401, "UNPAIRED")


async def test_handshake_of_another_shape_is_refused(sample):
    async with served(sample(), try_sockets) as site:
        token = site.token
        swapped = f"Sec-WebSocket-Protocol: {token}, coilclaw"
        assert_refused(await handshake(site, swapped), 400, "BAD_REQUEST")
        twice = ("Sec-WebSocket-Protocol: coilclaw", f"Sec-WebSocket-Protocol: {token}")
        assert_refused(await handshake(site, *twice), 400, "BAD_REQUEST")


async def test_only_paths_of_websockets_are_opened_and_only_as_such(sample):
    async with served(sample(), try_sockets, echo_part) as site:
        for path in ("/v1/echo", "/v1/nothing", f"{PATH}/", "/v1//try/echo"):
            assert_refused(await handshake(site, *shows(site.token), path=path), 400, "WEBSOCKET_REFUSED")
        assert code(await site.http.get(PATH)) == (404, "NOT_FOUND")
        assert PATH not in (await site.http.get("/v1/openapi.json")).text


async def test_opening_too_often_is_refused(sample):
    async with served(sample(), try_sockets, rates=Rates(time.monotonic, per_minute=2, routes=())) as site:
        for _ in range(2):
            assert (await handshake(site, *shows(site.token))).startswith("HTTP/1.1 101 ")
        assert_refused(await handshake(site, *shows(site.token)), 429, "RATE_LIMITED")


async def test_only_so_many_are_open_and_one_device_does_not_get_them_all(sample):
    home = sample(server__max_streams=2)
    async with served(home, try_sockets) as site:
        other, third = enrol(home, "dev_b", "tok_b"), enrol(home, "dev_c", "tok_c")
        async with opened(site), opened(site, token=other) as theirs:
            assert_refused(await handshake(site, *shows(site.token)), 503, "TOO_MANY_SOCKETS")
            assert_refused(await handshake(site, *shows(third)), 503, "TOO_MANY_SOCKETS")
            await theirs.send("leave")
            assert await closed(theirs) == 1000
            async with opened(site, token=third) as client:
                await client.send("hello")
                assert await client.recv() == "dev_c: hello"


async def test_open_sockets_count_as_connections(sample):
    limits = Limits(connections=4)
    async with served(sample(), try_sockets, rates=unlimited(), protocol=patient(limits)) as site:
        clients = [await opened(site) for _ in range(4)]
        for client in clients:
            await client.send("still here")
            assert await client.recv()
        answer = await raw(site, f"GET /health HTTP/1.1\r\nHost: localhost:{site.port}\r\n\r\n")
        assert "TOO_MANY_CONNECTIONS" in answer
        for client in clients:
            await client.close()
        assert (await site.http.get("/v1/sign-in")).status_code == 200


@pytest.mark.slow
async def test_page_of_another_program_on_this_machine_opens_none(sample):
    attempt = """([address, protocols]) => new Promise(done => {
        const socket = new WebSocket(address, protocols);
        socket.onopen = () => socket.send('from a page');
        socket.onmessage = message => { done(message.data); socket.close(); };
        socket.onerror = () => done('refused');
    })"""
    is_page = lambda path: path == "/try"  # noqa: E731
    async with (
        served(sample(), try_sockets, try_part, echo_part, is_asset=is_page) as site,
        chromium() as browser,
        elsewhere() as origin,
    ):
        address = f"ws://localhost:{site.port}{PATH}"
        page = await (await browser.new_context()).new_page()
        await page.goto(f"{site.origin}/try")
        paired = await page.evaluate(PAIR, issue(site.sample).code)
        assert (await ask(page, "GET", "/v1/sign-in"))["status"] == 200
        first, second = [(await ask(page, "POST", "/v1/sign-in/ticket"))["body"]["ticket"] for _ in range(2)]
        device = paired["body"]["device"]["device_id"]
        assert await page.evaluate(attempt, [address, ["coilclaw", first]]) == f"{device}: from a page"
        assert await page.evaluate(attempt, [address, ["coilclaw", first]]) == "refused"
        assert await page.evaluate(attempt, [address, ["coilclaw"]]) == "refused"
        hostile = await page.context.new_page()
        await hostile.goto(origin)
        for shown in (["coilclaw"], ["coilclaw", second], ["coilclaw", site.token], []):
            assert await hostile.evaluate(attempt, [address, shown]) == "refused"
        assert site.serving.seen.said == ["from a page"]


# Who stays


async def test_idling_beyond_every_limit_of_requests_ends_none(sample):
    async with served(sample(), try_sockets, protocol=patient(QUICK)) as site, opened(site) as client:
        silent = await raw(site, "", wait=LONG)  # ends when the time for a head is over
        kept = await raw(site, f"GET /health HTTP/1.1\r\nHost: localhost:{site.port}\r\n\r\n", wait=LONG)
        assert (silent, kept[:9]) == ("", "HTTP/1.1 ")  # and this one after the time for another request
        for text in ("still", "here"):
            await client.send(text)
            assert await client.recv() == f"dev_test: {text}"


async def test_socket_of_a_revoked_device_ends_and_those_of_others_continue(sample):
    home = sample()
    async with served(home, try_sockets) as site:
        lost = enrol(home, "dev_lost", "tok_lost")
        async with opened(site) as mine, opened(site, token=lost) as theirs:
            await home.app.db.write(lambda tx: revoke_device(tx, "dev_lost", stamp(home.app.clock())))
            assert await closed(theirs) == 1008
            await mine.send("hello")
            assert await mine.recv() == "dev_test: hello"


async def test_device_that_signs_out_is_cut_off_with_the_request(sample):
    async with served(sample(), try_sockets) as site, opened(site) as client:
        assert (await site.http.post("/v1/sign-in/end")).status_code == 204
        assert await closed(client) == 1008


async def test_no_message_of_a_revoked_device_reaches_its_route(sample):
    home = sample()
    async with served(home, try_sockets) as site, opened(site) as client:
        await client.send("before")
        await client.recv()
        await home.app.db.write(lambda tx: revoke_device(tx, "dev_test", stamp(home.app.clock())))
        await client.send("after")
        assert await closed(client) == 1008
        assert site.serving.seen.said == ["before"]


async def test_token_that_runs_out_ends_its_socket(sample):
    home = sample()
    async with served(home, try_sockets) as site, opened(site) as client:
        past = stamp(home.app.clock() - timedelta(seconds=1))
        await home.app.db.write(lambda tx: tx.execute("UPDATE auth_tokens SET expires_at = ?", (past,)) and None)
        assert await closed(client) == 1008


async def test_estop_ends_every_socket_and_keeps_new_ones_out(sample):
    home = sample()
    async with served(home, try_sockets) as site:
        async with opened(site) as client:
            home.app.estop.engage("stop", stamp(home.app.clock()))
            assert await closed(client) == 1008
        assert_refused(await handshake(site, *shows(site.token)), 409, "ESTOP")
        home.app.estop.clear(home.app.estop.mark())
        assert (await handshake(site, *shows(site.token))).startswith("HTTP/1.1 101 ")


async def test_route_that_does_not_hear_of_its_end_keeps_no_client(sample):
    home = sample()
    async with served(home, try_sockets) as site, opened(site, "/v1/try/deaf") as client:
        await home.app.db.write(lambda tx: revoke_device(tx, "dev_test", stamp(home.app.clock())))
        assert await closed(client) == 1008
        await site.serving.seen.over.wait()
        site.serving.seen.go.set()


async def test_server_that_stops_says_so(sample):
    async with served(sample(), try_sockets) as site:
        client = await opened(site)
    assert await closed(client) == 1012


async def test_route_that_breaks_is_reported_without_its_words(sample):
    home = sample()
    async with served(home, try_sockets) as site, opened(site) as client:
        await client.send("break")
        assert await closed(client) == 4500
        assert client.close_reason == ""
        failed = [fields for event, fields in home.events if event == "request_failed"]
        assert [fields["error"] for fields in failed] == ["ValueError"]
        assert "secret" not in str(failed)


# What piles up


async def test_message_that_is_too_large_ends_the_socket(sample):
    async with served(sample(), try_sockets) as site:
        async with opened(site) as client:
            await client.send("x" * MESSAGE_BYTES)
            assert len(await client.recv()) > MESSAGE_BYTES
        async with opened(site) as client:
            await client.send("x" * (MESSAGE_BYTES + 1))
            assert await closed(client) == 1009
        assert len(site.serving.seen.said) == 1


async def test_message_in_too_many_pieces_ends_the_socket(sample):
    async def pieces():
        for _ in range(FRAGMENTS * 4):
            yield ""

    async with served(sample(), try_sockets) as site, opened(site) as client:
        with suppress(ConnectionClosed):
            await client.send(pieces())
        assert await closed(client) == 1009
        assert site.serving.seen.said == []


async def test_slow_reader_is_cut_off_and_little_is_kept_for_it(sample):
    async with served(sample(), try_sockets, protocol=patient(QUICK)) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=1024)
        lines = "\r\n".join(shows(site.token))
        writer.write(
            f"GET /v1/try/pour HTTP/1.1\r\nHost: localhost:{site.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(LONG):  # and then nothing more is read
            await site.serving.seen.over.wait()
        assert site.serving.seen.poured < 64 << 20
        writer.transport.abort()


class Pipe(asyncio.Transport):
    """A transport whose other end takes what the test lets it take."""

    def __init__(self):
        super().__init__()
        self.written = []
        self.ended = ""
        self.over = asyncio.Event()

    def write(self, data):
        self.written.append(bytes(data))

    def is_closing(self):
        return bool(self.ended)

    def close(self):
        self.ended = self.ended or "closed"

    def abort(self):
        self.ended = "aborted"
        self.over.set()

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


async def idle_app(scope, receive, send):
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


@asynccontextmanager
async def bare_socket(ping_seconds):
    """A connection by itself, its handshake done."""
    pings = {"ws_ping_interval": ping_seconds, "ws_ping_timeout": ping_seconds}
    config = Config(idle_app, ws="none", log_config=None, lifespan="off", **pings)
    config.load()
    pipe = Pipe()
    socket = TimedSocket(config, ServerState(), {"line": Line(pipe.abort, lambda: None)})
    socket.connection_made(pipe)
    socket.data_received(
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    while not socket.handshake_complete:
        await asyncio.sleep(0)
    pipe.written.clear()
    try:
        yield socket, pipe
    finally:
        tasks = set(socket.tasks)
        socket.connection_lost(None)
        await asyncio.gather(*tasks)


PING = Frame(Opcode.PING, b"x").serialize(mask=True, extensions=[])


async def test_pings_are_answered_only_to_those_who_read():
    async with bare_socket(None) as (socket, pipe):
        socket.data_received(PING)
        assert len(pipe.written) == 1
        socket.pause_writing()
        socket.data_received(PING * 1000)
        assert len(pipe.written) == 1
        socket.resume_writing()
        socket.data_received(PING)
        assert len(pipe.written) == 2


async def test_peer_that_answers_no_ping_is_dropped_with_what_waits_for_it():
    async with bare_socket(0.01) as (_, pipe):
        await pipe.over.wait()
        assert pipe.written[0][0] & 0xF == Opcode.PING
