"""MCP over HTTP, through a real airlock: sessions, streams that break off, and servers that do not mean well."""

import asyncio
import json

import pytest

from coilclaw.features.guests import mcp_http
from coilclaw.features.guests.mcp_client import GuestUnauthorized, McpClient
from coilclaw.features.guests.mcp_http import HttpWire
from tests.features.guests.http_harness import Asked, airlock, reached
from tests.features.guests.mcp_harness import ECHO, INFO, PATIENT, answer, notification, said
from tests.features.guests.test_mcp_client import fault_of


async def test_a_session_from_beginning_to_end() -> None:
    async with reached() as guest:
        assert (await guest.client.list_tools())[0].name == "echo"
        assert (await guest.call(text="hi")).text == '{"text": "hi"}'
    asked = guest.server.asked
    assert guest.server.names() == ["initialize", "notifications/initialized", "tools/list", "tools/call", "DELETE"]
    assert "mcp-session-id" not in asked[0].headers
    assert "mcp-protocol-version" not in asked[0].headers
    for later in asked[1:]:
        assert later.headers["mcp-session-id"] == "session-1"
        assert later.headers["mcp-protocol-version"] == "2025-11-25"
    assert all(one.headers["accept"] == "application/json, text/event-stream" for one in asked[:4])
    assert {(line.principal, line.verdict) for line in guest.log} == {("mcp", "pass")}


async def test_a_server_without_sessions_is_fine_and_gets_no_delete() -> None:
    async def initialize(asked: Asked) -> None:
        asked.send_json(INFO)

    async with reached({"initialize": initialize}) as guest:
        await guest.client.ping()
    assert "DELETE" not in guest.server.names()
    assert "mcp-session-id" not in guest.server.asked[-1].headers


async def test_an_answer_comes_in_an_event_stream_with_what_belongs_to_it() -> None:
    async def call(asked: Asked) -> None:
        token = asked.message["params"]["_meta"]["progressToken"]
        asked.open_events()
        asked.writer.write(b": a comment\r\n\r\n")
        asked.send_event(notification("progress", progressToken=token, progress=1, message="half"))
        asked.send_event(notification("tools/list_changed"))
        asked.send_event(b'{"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage"}')
        asked.send_event(answer(asked.message["id"], said("streamed")))
        asked.send_event(answer(asked.message["id"], said("not read any more")))

    seen: list[str] = []
    async with reached({"tools/call": call}) as guest:
        returned = await guest.client.call("echo", {}, seconds=PATIENT, on_progress=seen.append)
        assert (returned.text, seen, guest.client.tools_changed) == ("streamed", ["half"], True)
    refusals = [asked.message for asked in guest.server.asked if asked.message.get("id") == "s1"]
    assert [message["error"]["code"] for message in refusals] == [-32601]


async def test_a_stream_that_breaks_off_is_resumed_where_it_was() -> None:
    async def call(asked: Asked) -> None:
        calls.append(asked.message["id"])
        asked.open_events()
        asked.send_event(b"", "prime", retry=100)
        asked.send_event(notification("message", data="x"), "e1")
        asked.writer.write(b"id: never\ndata: half an eve")

    async def get(asked: Asked) -> None:
        asked.open_events()
        if len([one for one in guest.server.asked if one.method == "GET"]) < 3:
            return
        asked.send_event(answer(calls[0], said("after all")), "e2")

    calls: list[int] = []
    async with reached({"tools/call": call, "GET": get}) as guest:
        assert (await guest.call()).text == "after all"
    gets = [asked for asked in guest.server.asked if asked.method == "GET"]
    assert len(calls) == 1
    assert [one.headers["last-event-id"] for one in gets] == ["e1", "e1", "e1"]
    assert {one.headers["mcp-session-id"] for one in gets} == {"session-1"}
    assert {one.headers["accept"] for one in gets} == {"text/event-stream"}


def events(*sent: tuple[bytes, str]):
    async def react(asked: Asked) -> None:
        asked.open_events()
        for data, event_id in sent:
            asked.send_event(data, event_id, retry=1)

    return react


def status(code: int, body: bytes = b"", **headers: str):
    async def react(asked: Asked) -> None:
        asked.send(code, body, **headers)

    return react


@pytest.mark.parametrize("reactions", [
    {"tools/call": events()},
    {"tools/call": events((b"", "not visible \x01"))},
    {"tools/call": events((b"", "e1")), "GET": status(404)},
    {"tools/call": events((b"", "e1")), "GET": status(405)},
    {"tools/call": events((b"", "e1")), "GET": status(401)},
    {"tools/call": events((b"", "e1")), "GET": status(302, Location="http://127.0.0.1:1/")},
    {"tools/call": events((b"", "e1")), "GET": events()},
], ids=["no id", "bad id", "lost", "no resuming", "credentials", "redirect", "endless resuming"])  # fmt: skip
async def test_a_call_whose_stream_cannot_be_resumed_is_not_repeated(reactions, monkeypatch) -> None:
    monkeypatch.setattr(mcp_http, "MAX_RESUMES", 5)
    async with reached(reactions) as guest:
        fault = await fault_of(guest.call())
        assert (fault.begun, fault.uncertain) == (True, True)
        assert fault.code != "BAD_HEADER"  # an id that cannot be sent back is noticed before
    assert guest.server.names().count("tools/call") == 1
    assert guest.server.names().count("GET") <= 5


async def test_a_lost_session_is_replaced_once_and_the_call_made_in_the_new_one() -> None:
    async with reached() as guest:
        await guest.client.list_tools()
        guest.server.session = "restarted"
        assert (await guest.call(text="hi")).text == '{"text": "hi"}'
        assert guest.client.tools_changed is False
    assert guest.server.names()[3:] == [
        "tools/call", "initialize", "notifications/initialized", "tools/list", "tools/call", "DELETE",
    ]  # fmt: skip
    assert "mcp-session-id" not in guest.server.asked[4].headers


async def test_calls_side_by_side_share_the_new_session() -> None:
    async with reached() as guest:
        await guest.client.list_tools()
        guest.server.session = "restarted"
        returned = await asyncio.gather(*(guest.call(n=number) for number in range(5)))
        assert [one.text for one in returned] == [json.dumps({"n": number}) for number in range(5)]
    assert guest.server.sessions == 2


async def test_a_session_that_is_lost_again_and_again_is_given_up() -> None:
    async with reached({"tools/call": status(404)}) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun) == ("GUEST_SESSION_LOST", False)
    assert guest.server.names().count("initialize") == 2


async def test_a_call_is_not_made_in_a_session_with_other_tools() -> None:
    async def listing(asked: Asked) -> None:
        asked.send_json({"tools": [{**ECHO, "description": f"Session {guest.server.sessions}."}]})

    async with reached({"tools/list": listing}) as guest:
        await guest.client.list_tools()
        guest.server.session = "restarted"
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun, guest.client.tools_changed) == ("GUEST_TOOLS_CHANGED", False, True)
    assert guest.server.names().count("tools/call") == 1


async def test_a_server_that_changes_the_session_id_is_refused_for_good() -> None:
    async def fixate(asked: Asked) -> None:
        asked.send_json(said("ok"), Mcp_Session_Id="somebody-elses")

    async with reached({"tools/call": fixate}) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun) == ("GUEST_SESSION", True)
        later = await fault_of(guest.client.ping())
        assert (later.code, later.begun) == ("GUEST_SESSION", False)
    assert guest.server.names()[3:] == ["DELETE"]
    assert guest.server.asked[-1].headers["mcp-session-id"] == "session-1"


async def test_a_session_id_that_comes_late_is_refused() -> None:
    async def plain(asked: Asked) -> None:
        asked.send_json(INFO)

    async def late(asked: Asked) -> None:
        asked.send_json({}, Mcp_Session_Id="late")

    async with reached({"initialize": plain, "notifications/initialized": status(202), "ping": late}) as guest:
        assert (await fault_of(guest.client.ping())).code == "GUEST_SESSION"


@pytest.mark.parametrize("session", ["with space", "x" * 1025, "t\tab", "\x7f", "é"])
async def test_a_session_id_that_is_not_visible_ascii_is_refused(session: str) -> None:
    async def initialize(asked: Asked) -> None:
        asked.send_json(INFO, Mcp_Session_Id=session)

    async with reached({"initialize": initialize}, start=False) as guest:
        assert (await fault_of(guest.client.start())).begun is False
    assert guest.server.names() == ["initialize"]


async def test_a_redirect_is_not_followed_wherever_it_leads() -> None:
    async def trap(asked: Asked) -> None:
        asked.send(302, Location=f"http://127.0.0.1:{guest.server.port}/other")

    async with reached({"tools/call": trap}) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun) == ("REDIRECT", False)
    assert {asked.path for asked in guest.server.asked} == {"/mcp"}


async def test_only_the_exact_address_that_the_owner_configured_is_reached() -> None:
    async with reached() as guest:
        port = guest.server.port
        for url in (
            f"http://127.0.0.1:{port}/mcp/", f"http://127.0.0.1:{port}/mcp?x=1", f"http://127.0.0.1:{port}/",
            f"http://127.0.0.1:{port}/MCP", f"http://localhost:{port}/mcp", f"https://127.0.0.1:{port}/mcp",
        ):  # fmt: skip
            other = McpClient(HttpWire(airlock([], guest.server.url), url), seconds=PATIENT)
            fault = await fault_of(other.start())
            assert (fault.code, fault.begun) == ("NOT_LISTED", False)
        assert guest.server.names() == ["initialize", "notifications/initialized"]


async def test_a_401_brings_the_challenge_for_signing_in() -> None:
    challenge = 'Bearer resource_metadata="http://127.0.0.1/.well-known/oauth-protected-resource"'
    async with reached({"initialize": status(401, WWW_Authenticate=challenge)}, start=False) as guest:
        with pytest.raises(GuestUnauthorized) as caught:
            await guest.client.start()
        assert (caught.value.status, caught.value.challenge, caught.value.begun) == (401, challenge, False)


async def test_secret_headers_are_resolved_for_each_request_and_shown_nowhere() -> None:
    tokens = iter(["hunter2-a", "hunter2-b", "hunter2-c", "hunter2-d", "hunter2-e"])

    async def headers() -> tuple[tuple[str, str], ...]:
        return (("Authorization", f"Bearer {next(tokens)}"),)

    async with reached({"tools/call": status(500)}, headers=headers) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun, fault.uncertain) == ("HTTP_500", True, True)
        assert "hunter2" not in str(fault)
        assert not any("hunter2" in repr(line) for line in guest.log)
    assert [asked.headers["authorization"][-1] for asked in guest.server.asked] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("name", ["mcp-session-id", "Accept", "LAST-EVENT-ID", "Content-Type", "MCP-Protocol-Version"])
async def test_a_secret_header_cannot_pose_as_one_of_the_protocol(name: str) -> None:
    async def headers() -> tuple[tuple[str, str], ...]:
        return ((name, "x"),)

    async with reached(start=False, headers=headers) as guest:
        assert (await fault_of(guest.client.start())).code == "BAD_HEADER"
    assert guest.server.asked == []


@pytest.mark.parametrize(("code", "begun"), [(400, False), (405, False), (429, False), (408, True), (502, True)])
async def test_a_status_tells_whether_the_call_can_have_begun(code: int, begun: bool) -> None:
    body = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No."}}'
    async with reached({"tools/call": status(code, body)}) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun, fault.message) == (f"HTTP_{code}", begun, f"The server answered {code}: No.")


@pytest.mark.parametrize(("body", "kind"), [
    (b"<html>", "text/html"), (b"{}", ""), (b"{}", "application/json"), (b"[]", "application/json"),
    (b"\xff", "application/json"), (b'{"jsonrpc": "2.0", "id": 77, "result": {}}', "application/json; charset=utf-8"),
    (b'{"jsonrpc": "2.0", "method": "notifications/x"}', "application/json"),
    (b"data: {\n\n", "text/event-stream"), (b"data: [1]\n\n", "text/event-stream"),
])  # fmt: skip
async def test_an_answer_that_is_not_one_fails_the_call_alone(body: bytes, kind: str) -> None:
    async with reached({"tools/call": status(200, body, Content_Type=kind)}) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun) == ("GUEST_PROTOCOL", True)
        await guest.client.ping()


async def test_an_event_stream_without_end_is_bounded_in_bytes() -> None:
    async def endless(asked: Asked) -> None:
        asked.open_events()
        while True:
            asked.send_event(notification("message", data="x" * 10_000), "again", retry=1)
            await asked.writer.drain()

    async with reached({"tools/call": endless, "GET": endless}, max_bytes=1 << 20) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun) == ("GUEST_OVER", True)
        assert "larger than 1048576 bytes" in fault.message
        assert sum(line.bytes for line in guest.log) < 2 << 20
    assert "GET" not in guest.server.names()  # what was too much is not asked for again


async def test_an_event_stream_without_end_is_bounded_in_time() -> None:
    async def trickle(asked: Asked) -> None:
        asked.open_events()
        while True:
            asked.send_event(b"", "e", retry=1)
            await asked.writer.drain()
            await asyncio.sleep(0.02)

    async with reached({"tools/call": trickle}) as guest:
        fault = await fault_of(guest.call(seconds=0.5))
        assert (fault.code, fault.begun) == ("GUEST_TIMEOUT", True)
        async with asyncio.timeout(PATIENT):
            while "notifications/cancelled" not in guest.server.names():
                await asyncio.sleep(0.01)


async def test_a_body_without_end_is_cut() -> None:
    async def endless(asked: Asked) -> None:
        asked.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while True:
            asked.writer.write(b" " * 65536)
            await asked.writer.drain()

    async with reached({"tools/call": endless}, max_bytes=1 << 20) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun) == ("GUEST_OVER", True)


async def test_a_server_that_is_not_there_has_not_begun_anything() -> None:
    async with reached() as guest:
        url = guest.server.url
        nobody = McpClient(HttpWire(airlock([], url), url), seconds=PATIENT)
    fault = await fault_of(nobody.start())
    assert (fault.code, fault.begun) == ("NO_CONNECTION", False)


async def test_a_cancelled_call_hangs_up_and_tells_the_server() -> None:
    waiting = asyncio.Event()

    async def forever(asked: Asked) -> None:
        waiting.set()
        asked.open_events()
        await asked.writer.drain()
        while not asked.writer.is_closing():
            asked.writer.write(b": still there\n\n")
            await asked.writer.drain()
            await asyncio.sleep(0.01)

    async with reached({"tools/call": forever}) as guest:
        calling = asyncio.ensure_future(guest.call())
        await asyncio.wait_for(waiting.wait(), PATIENT)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    told = [asked.message for asked in guest.server.asked if asked.name == "notifications/cancelled"]
    assert [message["params"]["requestId"] for message in told] == [2]


async def until(true) -> None:
    async with asyncio.timeout(PATIENT):
        while not true():
            await asyncio.sleep(0.01)


async def test_what_a_server_says_between_calls_is_heard_by_a_wire_that_listens() -> None:
    async def get(asked: Asked) -> None:
        asked.open_events()
        await swapped.wait()
        asked.send_event(notification("tools/list_changed"), "e1")
        await asyncio.Event().wait()

    swapped = asyncio.Event()
    async with reached({"GET": get}, listens=True) as guest:
        await guest.client.list_tools()
        assert (await guest.call(text="hi")).text == '{"text": "hi"}'
        assert not guest.client.tools_changed
        swapped.set()
        await until(lambda: guest.client.tools_changed)
        await guest.client.list_tools()
    (ear,) = [asked for asked in guest.server.asked if asked.method == "GET"]
    assert (ear.headers["mcp-session-id"], ear.headers["accept"]) == ("session-1", "text/event-stream")
    assert "last-event-id" not in ear.headers
    assert guest.server.names()[-1] == "DELETE"


async def test_a_stream_between_calls_that_ends_is_opened_again_where_it_was(monkeypatch) -> None:
    async def get(asked: Asked) -> None:
        asked.open_events()
        if "last-event-id" in asked.headers:
            asked.send_event(notification("tools/list_changed"))
            await asyncio.Event().wait()
        asked.send_event(b"", "e7")

    monkeypatch.setattr(mcp_http, "_LISTEN_PAUSE", 0.0)
    async with reached({"GET": get}, listens=True) as guest:
        await guest.client.ping()
        await until(lambda: guest.client.tools_changed)
    assert [one.headers.get("last-event-id") for one in guest.server.asked if one.method == "GET"] == [None, "e7"]


@pytest.mark.parametrize("how", ["refused", "unauthorized", "redirect", "nonsense", "answer"])
async def test_a_server_that_does_not_mean_to_be_listened_to_is_asked_once_and_still_called(how: str) -> None:
    async def get(asked: Asked) -> None:
        if how in ("nonsense", "answer"):
            asked.open_events()
            asked.send_event(b"what?" if how == "nonsense" else answer(4711, said("unasked")))
        else:
            asked.send({"refused": 405, "unauthorized": 401, "redirect": 302}[how], Location="http://127.0.0.1:1/")

    async with reached({"GET": get}, listens=True) as guest:
        await guest.client.list_tools()
        await until(guest.client._wire._listening[1].done)
        for _ in range(3):
            assert (await guest.call(text="hi")).text == '{"text": "hi"}'
    assert guest.server.names().count("GET") == 1


async def test_another_session_is_listened_to_instead_of_the_lost_one() -> None:
    async def get(asked: Asked) -> None:
        asked.open_events()
        await asyncio.Event().wait()

    async with reached({"GET": get}, listens=True) as guest:
        await guest.client.list_tools()
        await until(lambda: guest.server.names().count("GET") == 1)
        guest.server.session = "another"
        assert (await guest.call(text="hi")).text == '{"text": "hi"}'
        await until(lambda: guest.server.names().count("GET") == 2)
    ears = [asked.headers["mcp-session-id"] for asked in guest.server.asked if asked.method == "GET"]
    assert ears == ["session-1", "session-2"]
