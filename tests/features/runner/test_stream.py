"""The stream: several sessions over one WebSocket, late joins, slow readers, floods, and who may do what."""

import asyncio
import json
import struct
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from coilclaw.features.runner import stream
from coilclaw.features.runner.live import WINDOW
from coilclaw.packets.ids import stamp
from coilclaw.store.devices import revoke_device
from tests.features.runner.sessions import runner_part
from tests.server.door.test_sockets import assert_refused, closed, handshake, shows
from tests.server.site import enrol, served, unlimited

PATH = "/runner/v1/stream"
LONG = 120
FRAME = struct.Struct(">BIQ")


def opened(site, token=None, protocol="coilclaw", **options):
    url = f"ws://localhost:{site.port}{PATH}"
    return connect(url, subprotocols=[protocol, token or site.token], max_size=None, **options)


class Client:
    """A viewer that collects what it gets."""

    def __init__(self, socket):
        self.socket = socket
        self.messages = []
        self.output = {}
        self.next = {}
        self.preludes = {}
        self.acks = True

    async def say(self, kind, **fields):
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def hear(self):
        """One message; output is collected and acknowledged."""
        async with asyncio.timeout(LONG):
            got = await self.socket.recv()
        if isinstance(got, bytes):
            kind, index, offset = FRAME.unpack_from(got)
            message = {"type": "frame", "kind": kind, "index": index, "offset": offset, "data": got[FRAME.size :]}
        else:
            message = json.loads(got)
            if message["type"] == "gap" and self.acks:
                await self.say("ack", session_id=message["session_id"], offset=message["last"])
            if message["type"] == "TERMINAL_CHUNK":
                session_id = message["session_id"]
                if message["next"] == message["offset"]:
                    self.preludes[session_id] = message["data"]
                else:
                    self.output[session_id] = self.output.get(session_id, "") + message["data"]
                    self.next[session_id] = message["next"]
                    if self.acks:
                        await self.say("ack", session_id=session_id, offset=message["next"])
        self.messages.append(message)
        return message

    async def until(self, wanted):
        """The first message that fits; a string is its type."""
        fits = (lambda message: message["type"] == wanted) if isinstance(wanted, str) else wanted
        while True:
            message = await self.hear()
            if fits(message):
                return message

    async def shows(self, session_id, text):
        while text not in self.output.get(session_id, ""):
            await self.hear()

    async def subscribe(self, session_id, **fields):
        await self.say("subscribe", session_id=session_id, **fields)
        return await self.until(lambda message: message["type"] in ("subscribed", "error"))


@asynccontextmanager
async def streaming(sample, **options):
    async with served(sample(), runner_part, rates=unlimited(), **options) as site:
        site.sessions = site.serving.sessions
        yield site


@asynccontextmanager
async def viewing(site, token=None, protocol="coilclaw"):
    async with opened(site, token, protocol) as socket:
        yield Client(socket)


async def token(site, access="watch", org_id="self", **fields):
    answer = await site.http.post("/runner/v1/tokens", json={"org_id": org_id, "access": access, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


# Watching and driving


async def test_viewer_sees_output_and_events_and_types(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        async with viewing(site) as client:
            told = await client.subscribe("sess_1")
            assert (told["state"], told["rows"], told["columns"], told["drives"]) == ("RUNNING", 24, 80, True)
            live.feed(0, b"$ ")
            await client.shows("sess_1", "$ ")
            chunk = client.messages[-1]
            assert {"type", "session_id", "org_id", "repo_ref", "ts", "seq", "data"} <= chunk.keys()
            site.sessions.happen("sess_1", path="a.py", reason="write", type="FORGED")
            event = await client.until("FILE_TOUCHED")
            assert (event["seq"], event["path"], event["org_id"]) == (1, "a.py", "self")
            await client.say("input", session_id="sess_1", data="ls\r")
            await client.say("resize", session_id="sess_1", rows=40, columns=120)
            await client.say("unsubscribe", session_id="sess_1")
            await client.until("unsubscribed")
            assert site.sessions.typed == [("sess_1", b"ls\r")]
            assert site.sessions.sizes == [("sess_1", 40, 120), ("sess_1", 0, 0)]


async def test_leaving_takes_the_size_back(sample):
    async with streaming(sample) as site:
        site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            await client.say("resize", session_id="sess_1", rows=10, columns=20)
            await client.say("renew")
            assert (await client.until("error"))["code"] == "UNFIT"
        async with asyncio.timeout(LONG):
            while site.sessions.sizes[-1] != ("sess_1", 0, 0):
                await asyncio.sleep(0.01)


async def test_missed_events_are_told_from_the_store(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        for number in range(400):
            site.sessions.happen("sess_1", number=number)
        assert live.events_after(3) is None
        async with viewing(site) as client:
            await client.subscribe("sess_1", after_seq=3)
            numbers = [(await client.until("FILE_TOUCHED"))["seq"] for _ in range(397)]
            assert numbers == list(range(4, 401))
            site.sessions.happen("sess_1")
            assert (await client.until("FILE_TOUCHED"))["seq"] == 401


async def test_events_before_a_restart_come_from_the_store(sample):
    async with streaming(sample) as site:
        site.sessions.start("sess_old")
        old = [site.sessions.happen("sess_old", number=number) for number in range(5)]
        site.sessions.start("sess_1", stored=old)
        async with viewing(site) as client:
            await client.subscribe("sess_1", after_seq=2)
            assert [(await client.until("FILE_TOUCHED"))["seq"] for _ in range(3)] == [3, 4, 5]


async def test_viewers_are_told_the_size_that_counts(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            live.resized(20, 60)
            told = await client.until("resized")
            assert (told["rows"], told["columns"]) == (20, 60)


async def test_late_join_resets_sets_modes_and_asks_for_a_redraw(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        live.feed(0, b"\x1b[?1049h\x1b[?2004hdrawn")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            await client.shows("sess_1", "drawn")
            assert client.preludes["sess_1"] == "\x1bc"
            assert site.sessions.redrawn == ["sess_1"]
        async with viewing(site) as client:
            told = await client.subscribe("sess_1", terminal_from=16)
            assert told["terminal_from"] == 16
            await client.shows("sess_1", "drawn")
            assert client.output["sess_1"] == "drawn"
            assert client.preludes == {}
            assert site.sessions.redrawn == ["sess_1"]  # nothing was missed


async def test_binary_protocol_carries_bytes(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        live.feed(0, b"caf\xc3\xa9 \xff\r\n")
        async with viewing(site, protocol="coilclaw-binary") as client:
            assert client.socket.subprotocol == "coilclaw-binary"
            index = (await client.subscribe("sess_1"))["index"]
            prelude, output = await client.until("frame"), await client.until("frame")
            assert (prelude["kind"], prelude["data"]) == (2, b"\x1bc")
            assert output == {"type": "frame", "kind": 1, "index": index, "offset": 0, "data": b"caf\xc3\xa9 \xff\r\n"}
            await client.socket.send(struct.pack(">BI", 3, index) + b"\x03\xff")
            await client.socket.send(struct.pack(">BI", 3, index + 1) + b"x")
            assert (await client.until("error"))["code"] == "BAD_MESSAGE"
            assert site.sessions.typed == [("sess_1", b"\x03\xff")]


async def test_ended_session_is_told_to_its_end(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            live.feed(0, b"bye\r\n")
            site.sessions.happen("sess_1", "SESSION_STATE_CHANGED", state="COMPLETED")
            live.end()
            assert (await client.until("unsubscribed"))["reason"] == "ended"
            assert client.output["sess_1"] == "bye\r\n"
            assert any(message.get("state") == "COMPLETED" for message in client.messages)
            site.sessions.lives.pop("sess_1").recording.close()
            await client.subscribe("sess_1", after_seq=0)
            assert (await client.hear())["state"] == "COMPLETED"
            assert (await client.hear())["reason"] == "ended"


async def test_one_that_is_only_not_followed_is_not_told_to_be_over(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            live.end()  # as a server does that stops, while the session goes on
            assert (await client.until("unsubscribed"))["reason"] == "unfollowed"


async def test_session_that_is_followed_only_a_moment_later_is_joined(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        del site.sessions.lives["sess_1"]  # as between its start and the follower's next look
        async with viewing(site) as client:
            assert (await client.subscribe("sess_1"))["terminal_from"] is None
            live.feed(0, b"site $ ")
            site.sessions.lives["sess_1"] = live
            await client.shows("sess_1", "site $")
            assert all(message["type"] != "unsubscribed" for message in client.messages)


async def test_running_session_that_nobody_follows_is_given_up_in_the_end(sample, monkeypatch):
    monkeypatch.setattr(stream, "FOLLOW_SECONDS", 0.2)
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        del site.sessions.lives["sess_1"]
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            assert (await client.until("unsubscribed"))["reason"] == "unfollowed"
        live.recording.close()


async def test_redaction_is_before_the_stream(sample):
    async with streaming(sample) as site:
        site.serving.runtime.redactor.register("db", "hunTer2/xy+Zq9k")
        live = site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            live.feed(0, b"key hunTer2")
            live.feed(11, b"/xy+Zq9k end\r\n")
            await client.shows("sess_1", "end")
            assert client.output["sess_1"] == "key [redacted:db] end\r\n"


# Slow readers and floods


async def test_reader_that_never_acks_is_skipped_and_others_are_not(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        async with viewing(site) as deaf, viewing(site) as quick:
            deaf.acks = False
            await deaf.subscribe("sess_1")
            await quick.subscribe("sess_1")
            line = b"0123456789abcde\n"
            sent = 0
            while sent < 4 * WINDOW:
                live.feed(sent, line * 1024)
                sent += len(line) * 1024
                while quick.next.get("sess_1", 0) < sent:
                    await quick.hear()
            assert len(quick.output["sess_1"]) == sent
            assert not any(message["type"] == "gap" for message in quick.messages)
            gap = await deaf.until("gap")
            assert gap["first"] == len(deaf.output["sess_1"]) <= WINDOW
            deaf.acks = True
            await deaf.say("ack", session_id="sess_1", offset=gap["last"])
            live.feed(sent, b"after\n")
            await deaf.shows("sess_1", "after\n")


async def test_flooding_session_does_not_starve_its_neighbour(sample):
    async with streaming(sample) as site:
        flood, quiet = site.sessions.start("sess_flood"), site.sessions.start("sess_quiet")
        async with viewing(site) as client:
            await client.subscribe("sess_flood")
            await client.subscribe("sess_quiet")
            flood.feed(0, b"y\r\n" * 80_000)
            quiet.feed(0, b"hello\r\n")
            await client.shows("sess_quiet", "hello")
            assert len(client.output.get("sess_flood", "")) <= 2 * 65536
            while client.next.get("sess_flood", 0) < 240_000:
                await client.hear()
            assert client.output["sess_flood"] == "y\r\n" * 80_000


async def test_output_for_a_whole_frame_is_not_kept_waiting(sample, monkeypatch):
    monkeypatch.setattr(stream, "COALESCE_SECONDS", 3600.0)
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            text = b"one of many lines\r\n" * 2_000
            live.feed(0, text[:1_000])  # waits for company
            live.feed(1_000, text[1_000:])
            await client.shows("sess_1", text[:32_000].decode())


async def test_frames_stay_small_whatever_escaping_makes_of_them(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        live.feed(0, b"\x1b[m\x07" * 20_000)
        async with opened(site) as socket:
            client = Client(socket)
            await client.subscribe("sess_1")
            size = 0
            while client.next.get("sess_1", 0) < 80_000:
                async with asyncio.timeout(LONG):
                    got = await socket.recv()
                message = json.loads(got)
                size = max(size, len(got))
                client.next["sess_1"] = message["next"]
                client.output["sess_1"] = client.output.get("sess_1", "") + message["data"]
            assert size <= 64 << 10
            assert client.output["sess_1"].removeprefix("\x1bc") == "\x1b[m\x07" * 20_000


# Bad messages


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("not json", "BAD_MESSAGE"),
        ('{"type":"subscribe"}', "BAD_MESSAGE"),
        ('{"type":"run","session_id":"sess_1"}', "BAD_MESSAGE"),
        ('{"type":"subscribe","session_id":"sess_1","token":"x"}', "BAD_MESSAGE"),
        ("[" * 60_000, "BAD_MESSAGE"),
        ('{"type":"input","session_id":"sess_1","data":"x"}', "NOT_SUBSCRIBED"),
        ('{"type":"subscribe","session_id":"sess_none"}', "NOT_FOUND"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "BAD_MESSAGE"),
        (b"\x03", "BAD_MESSAGE"),
        (b"", "BAD_MESSAGE"),
    ],
)
async def test_bad_message_is_a_named_problem_and_the_stream_goes_on(sample, message, code):
    async with streaming(sample) as site:
        site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.socket.send(message)
            told = await client.until("error")
            assert (told["code"], bool(told["remedy"])) == (code, True)
            assert (await client.subscribe("sess_1"))["type"] == "subscribed"


@pytest.mark.parametrize("size", [(0, 0), (0, 80), (24, -1), (24, 1001), (10**9, 10**9)])
async def test_absurd_size_is_refused(sample, size):
    async with streaming(sample) as site:
        site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            await client.say("resize", session_id="sess_1", rows=size[0], columns=size[1])
            assert (await client.until("error"))["code"] == "BAD_SIZE"
            assert site.sessions.sizes == []


async def test_huge_frame_ends_the_stream(sample):
    async with streaming(sample) as site:
        site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            await client.say("input", session_id="sess_1", data="x" * (65 << 10))
            assert await closed(client.socket) == 1009
        assert site.sessions.typed == []


async def test_stream_follows_a_limited_number_of_sessions(sample):
    async with streaming(sample) as site:
        for number in range(65):
            site.sessions.start(f"sess_{number}")
        async with viewing(site) as client:
            for number in range(64):
                assert (await client.subscribe(f"sess_{number}"))["type"] == "subscribed"
            assert (await client.subscribe("sess_64"))["code"] == "TOO_MANY"
            assert (await client.subscribe("sess_3"))["type"] == "subscribed"  # again, in place of itself


# Who may


async def test_watcher_sees_and_neither_types_nor_resizes(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        async with viewing(site, await token(site)) as client:
            assert (await client.subscribe("sess_1"))["drives"] is False
            live.feed(0, b"hello")
            await client.shows("sess_1", "hello")
            await client.say("input", session_id="sess_1", data="rm -rf /\r")
            assert (await client.until("error"))["code"] == "WATCH_ONLY"
            await client.say("resize", session_id="sess_1", rows=10, columns=10)
            assert (await client.until("error"))["code"] == "WATCH_ONLY"
        async with viewing(site, await token(site), "coilclaw-binary") as client:
            index = (await client.subscribe("sess_1"))["index"]
            await client.socket.send(struct.pack(">BI", 3, index) + b"x")
            assert (await client.until("error"))["code"] == "WATCH_ONLY"
        assert (site.sessions.typed, site.sessions.sizes) == ([], [])


async def test_driver_types(sample):
    async with streaming(sample) as site:
        site.sessions.start("sess_1")
        async with viewing(site, await token(site, "drive", session_id="sess_1")) as client:
            await client.subscribe("sess_1")
            await client.say("input", session_id="sess_1", data="x")
            await client.say("renew")
            await client.until("renewed")
            assert site.sessions.typed == [("sess_1", b"x")]


async def test_foreign_session_does_not_exist_for_a_token(sample):
    async with streaming(sample) as site:
        site.sessions.start("sess_1")
        site.sessions.start("sess_2", repo_id="site")
        site.sessions.start("sess_acme", org_id="acme")
        for fields, seen in (
            ({}, {"sess_1", "sess_2"}),
            ({"repo_id": "shop"}, {"sess_1"}),
            ({"session_id": "sess_2"}, {"sess_2"}),
            ({"org_id": "acme"}, {"sess_acme"}),
        ):
            async with viewing(site, await token(site, **fields)) as client:
                for session_id in ("sess_1", "sess_2", "sess_acme"):
                    told = await client.subscribe(session_id)
                    assert (told["type"] == "subscribed") == (session_id in seen)
                    assert told.get("code", "NOT_FOUND") == "NOT_FOUND"


async def test_token_in_the_url_is_refused_with_the_remedy(sample):
    async with streaming(sample) as site:
        for query in (f"token={site.token}", "token=", "access_token=x", "x"):
            answer = await handshake(site, *shows(site.token), path=f"{PATH}?{query}")
            assert_refused(answer, 400, "TOKEN_IN_URL")
            assert "Authorization: Bearer" in answer
            assert site.token not in answer


async def test_page_of_another_site_is_refused_even_with_a_token(sample):
    async with streaming(sample) as site:
        for shown in (site.token, await token(site, "drive")):
            answer = await handshake(site, *shows(shown, "Origin: https://evil.example"), path=PATH)
            assert_refused(answer, 403, "ORIGIN_REFUSED")


async def test_page_needs_its_cookie_and_a_ticket_together(sample):
    async with streaming(sample) as site:
        page = site.browser()
        ours = (f"Cookie: {page.headers['cookie']}", f"Origin: {site.origin}")

        async def shown(*lines):
            ticket = (await page.post("/v1/sign-in/ticket", headers={"Origin": site.origin})).json()["ticket"]
            shown = f"Sec-WebSocket-Protocol: coilclaw, {ticket}"
            return shown, await handshake(site, shown, *lines, path=PATH)

        ticket, answer = await shown(*ours)
        assert " 101 " in answer
        assert_refused(await handshake(site, ticket, *ours, path=PATH), 401, "TICKET_REFUSED")
        bare = await handshake(site, "Sec-WebSocket-Protocol: coilclaw", *ours, path=PATH)
        assert_refused(bare, 401, "TICKET_REFUSED")
        assert_refused((await shown(ours[1]))[1], 401, "UNPAIRED")


@pytest.mark.parametrize("scoped", [False, True])
async def test_device_revoked_by_another_process_loses_its_stream(sample, scoped):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        shown = await token(site, "drive") if scoped else site.token
        enrol(site.sample, "dev_other", "tok_other")
        async with viewing(site, shown) as client:
            await client.subscribe("sess_1")
            app = site.sample.app
            app.db.write_now(lambda tx: revoke_device(tx, "dev_test", stamp(app.clock())))
            assert await closed(client.socket) == 1008
            live.feed(0, b"secret")
        assert live._readers == set()
        assert site.sessions.typed == []


async def test_nothing_is_typed_between_revocation_and_the_next_check(sample):
    async with streaming(sample) as site:
        site.sessions.start("sess_1")
        async with viewing(site) as client:
            await client.subscribe("sess_1")
            app = site.sample.app
            app.db.write_now(lambda tx: revoke_device(tx, "dev_test", stamp(app.clock())))
            await client.say("input", session_id="sess_1", data="x")
            assert await closed(client.socket) == 1008
        assert site.sessions.typed == []


@pytest.mark.slow
async def test_a_thousand_idle_sockets_meet_the_limit_and_leave_nothing(sample):
    async with streaming(sample) as site:
        live = site.sessions.start("sess_1")
        sockets, refused = [], []
        for _ in range(1000):
            try:
                sockets.append(await opened(site, ping_interval=None))
            except InvalidStatus as refusal:
                refused.append(refusal.response.status_code)
        most = min(site.sample.app.config.server.max_streams, 256)
        assert len(sockets) == max(1, most * 5 // 6)
        assert refused == [503] * (1000 - len(sockets))
        live.feed(0, b"x" * 1000)
        for socket in sockets:
            await socket.close()
        async with asyncio.timeout(LONG):
            while len(site.built.door._sockets):
                await asyncio.sleep(0.01)
        assert live._readers == set()
        async with viewing(site) as client:
            assert (await client.subscribe("sess_1"))["type"] == "subscribed"
