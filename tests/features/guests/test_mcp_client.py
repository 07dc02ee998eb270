"""The MCP client against a scripted server: what it says, what it returns, and that nothing hostile gets past it."""

import asyncio
import base64
import json

import pytest

from coilclaw.features.guests.mcp_client import GuestFault, ListedTool, ServerInfo
from coilclaw.features.guests.mcp_messages import MAX_SCHEMA, MAX_SCHEMA_DEPTH, MAX_TOOLS
from tests.features.guests.mcp_harness import ECHO, INFO, Connected, answer, connected, error, notification, said


async def fault_of(awaited) -> GuestFault:
    with pytest.raises(GuestFault) as caught:
        await awaited
    return caught.value


async def test_a_session_is_opened_as_the_protocol_says() -> None:
    async with connected(start=False) as guest:
        info = await guest.client.start()
    assert info == ServerInfo(name="scripted", version="1", protocol="2025-11-25", instructions="Be nice.")
    assert guest.server.methods() == ["initialize", "notifications/initialized"]
    hello = guest.server.heard[0]["params"]
    assert (hello["protocolVersion"], hello["capabilities"]) == ("2025-11-25", {})
    assert "id" not in guest.server.heard[1]


async def test_the_older_version_is_spoken_as_well() -> None:
    older = {**INFO, "protocolVersion": "2025-06-18"}
    async with connected(start=False, initialize=lambda m: [answer(m["id"], older)]) as guest:
        assert (await guest.client.start()).protocol == "2025-06-18"


@pytest.mark.parametrize("version", ["2024-11-05", "2099-01-01", 7, None, "2025-11-25 "])
async def test_any_other_version_is_refused_and_the_connection_closed(version: object) -> None:
    other = {**INFO, "protocolVersion": version}
    async with connected(start=False, initialize=lambda m: [answer(m["id"], other)]) as guest:
        fault = await fault_of(guest.client.start())
        assert (fault.code, fault.begun) == ("GUEST_VERSION", False)
        assert (await guest.box.wait()).end in ("exited", "stopped")
        assert (await fault_of(guest.client.ping())).begun is False


async def test_every_page_of_tools_is_read() -> None:
    def page(message):
        at = int(message.get("params", {}).get("cursor", "0"))
        more = {"nextCursor": str(at + 1)} if at < 3 else {}
        return [answer(message["id"], {"tools": [{**ECHO, "name": f"t{at}"}], **more})]

    async with connected(tools__list=page) as guest:
        tools = await guest.client.list_tools()
    assert [tool.name for tool in tools] == ["t0", "t1", "t2", "t3"]


async def test_a_tool_is_listed_with_its_own_claims() -> None:
    tool = {
        **ECHO, "title": "Echo", "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True},
        "icons": [], "_meta": {"x": 1},
    }  # fmt: skip
    async with connected(tools__list=lambda m: [answer(m["id"], {"tools": [tool]})]) as guest:
        assert await guest.client.list_tools() == (
            ListedTool(
                name="echo",
                title="Echo",
                description="Says it again.",
                input_schema={"type": "object"},
                output_schema={"type": "object"},
                annotations={"readOnlyHint": True},
            ),
        )


async def test_a_server_without_tools_is_not_asked_for_them() -> None:
    async with connected(initialize=lambda m: [answer(m["id"], {**INFO, "capabilities": {}})]) as guest:
        assert await guest.client.list_tools() == ()
    assert "tools/list" not in guest.server.methods()


def nested(levels: int) -> dict[str, object]:
    schema: dict[str, object] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def tools(*listed: object, **more: object):
    return lambda message: [answer(message["id"], {"tools": list(listed), **more})]


ENDLESS = iter(range(10**6))


@pytest.mark.parametrize(("page", "why"), [
    (tools(ECHO, ECHO), "echo is listed twice"),
    (tools(*({**ECHO, "name": f"t{n}"} for n in range(MAX_TOOLS + 1))), "more than 200 tools"),
    (tools(nextCursor="the same"), "circle"),
    (lambda message: [answer(message["id"], {"tools": [], "nextCursor": str(next(ENDLESS))})], "20 pages"),
    (lambda message: [answer(message["id"], {"tools": [{**ECHO, "name": f"t{next(ENDLESS)}", "title": "x" * 400_000}],
                                             "nextCursor": str(next(ENDLESS))})], "more than 1024 KB"),
    (tools({**ECHO, "inputSchema": nested(MAX_SCHEMA_DEPTH)}), "32 levels"),
    (tools({**ECHO, "outputSchema": nested(MAX_SCHEMA_DEPTH)}), "32 levels"),
    (tools({**ECHO, "inputSchema": {"enum": ["x" * MAX_SCHEMA]}}), "64 KB"),
    (tools({**ECHO, "inputSchema": {"anyOf": [{} for _ in range(MAX_SCHEMA // 3)]}}), "64 KB"),
    (tools({**ECHO, "inputSchema": True}), "not an object"),
    (tools({"name": "bare"}), "not an object"),
    (tools({**ECHO, "name": ""}), "no name"),
    (tools({**ECHO, "name": "x" * 129}), "no name"),
    (tools({**ECHO, "name": "ech\u043e"}), "no name"),
    (tools({**ECHO, "name": "a\nb"}), "no name"),
    (tools({**ECHO, "description": ["not text"]}), "not text"),
    (tools({**ECHO, "annotations": "no"}), "not an object"),
    (tools("echo"), "no name"),
    (lambda message: [answer(message["id"], {"tools": {"echo": ECHO}})], "no list"),
    (lambda message: [answer(message["id"], {})], "no list"),
    (tools(ECHO, nextCursor=7), "circle"),
], ids=["twice", "too many", "circle", "endless pages", "too large", "deep", "deep output", "huge", "wide", "no schema",
        "bare", "no name", "long name", "lookalike", "newline", "description", "annotations", "text", "object",
        "nothing", "cursor"])  # fmt: skip
async def test_a_listing_that_is_hostile_is_refused(page, why: str) -> None:
    async with connected(tools__list=page) as guest:
        fault = await fault_of(guest.client.list_tools())
        assert (fault.code, fault.begun) == ("GUEST_LISTING", False)
        assert why in str(fault)
        assert len(str(fault)) < 400
        await guest.client.ping()  # it is the listing that is refused, not the connection


async def test_the_deepest_schema_that_is_taken() -> None:
    async with connected(tools__list=tools({**ECHO, "inputSchema": nested(MAX_SCHEMA_DEPTH - 1)})) as guest:
        assert len(await guest.client.list_tools()) == 1


async def test_a_call_returns_every_kind_of_content() -> None:
    data = base64.b64encode(b"\x00\xffbytes").decode()
    result = {
        "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": data, "mimeType": "image/png"},
            {"type": "audio", "data": data, "mimeType": "AUDIO/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": data, "mimeType": "no\nmime"}},
            {"type": "resource_link", "uri": "https://example.com/", "name": "there"},
        ],
        "structuredContent": {"n": 1},
        "isError": True,
    }
    async with connected(tools__call=lambda m: [answer(m["id"], result)]) as guest:
        returned = await guest.call(text="hi")
    assert returned.text == "one\n[resource: file:///a]\ninside\n[link: there https://example.com/]"
    assert (returned.is_error, returned.structured) == (True, {"n": 1})
    assert [(blob.kind, blob.mime_type, blob.data) for blob in returned.blobs] == [
        ("image", "image/png", b"\x00\xffbytes"),
        ("audio", "audio/wav", b"\x00\xffbytes"),
        ("blob", "application/octet-stream", b"\x00\xffbytes"),
    ]
    asked = guest.server.heard[-1]
    assert (asked["method"], asked["params"]) == ("tools/call", {"name": "echo", "arguments": {"text": "hi"}})


@pytest.mark.parametrize("result", [
    {"content": "text"},
    {"content": [7]},
    {"content": [{"type": "text"}]},
    {"content": [{"type": "hologram"}]},
    {"content": [{"type": "image", "data": "aGk=!!", "mimeType": "image/png"}]},
    {"content": [], "isError": "yes"},
    {"content": [], "structuredContent": [1]},
])  # fmt: skip
async def test_a_result_that_cannot_be_read_does_not_say_what_was_done(result: object) -> None:
    async with connected(tools__call=lambda m: [answer(m["id"], result)]) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun, fault.uncertain) == ("GUEST_RESULT", True, True)


async def test_an_error_answer_is_a_failure_that_was_answered_and_its_text_is_cut() -> None:
    async with connected(tools__call=lambda m: [error(m["id"], -32000, "no " * 5000)]) as guest:
        fault = await fault_of(guest.call())
        assert (fault.code, fault.begun, fault.answered, fault.uncertain) == ("GUEST_ERROR", True, True, False)
        assert len(str(fault)) < 2100
        await guest.client.ping()


async def test_calls_run_side_by_side_and_each_gets_its_own_answer() -> None:
    held: list[dict] = []

    def call(message):
        held.append(message)
        if len(held) < 3:
            return []
        return [answer(m["id"], said(m["params"]["arguments"]["text"])) for m in reversed(held)]

    async with connected(tools__call=call) as guest:
        returned = await asyncio.gather(*(guest.call(text=text) for text in "abc"))
    assert [one.text for one in returned] == ["a", "b", "c"]


async def test_progress_is_passed_on_by_its_token_and_bounded() -> None:
    def call(message):
        token = message["params"]["_meta"]["progressToken"]
        return [
            notification("progress", progressToken=token + 1, progress=1, message="somebody else's"),
            notification("progress", progressToken=token, progress=1, total=4),
            notification("progress", progressToken=token, progress=2, message="y" * 9999),
            *[notification("progress", progressToken=token, progress=n) for n in range(3000)],
            answer(message["id"], said("done")),
        ]

    seen: list[str] = []
    async with connected(tools__call=call) as guest:
        returned = await guest.client.call("echo", {}, seconds=60, on_progress=seen.append)
    assert returned.text == "done"
    assert seen[0] == "1/4"
    assert seen[1] == "y" * 500
    assert len(seen) == 1000


async def test_a_cancelled_call_is_told_to_the_server_and_its_late_answer_dropped() -> None:
    async with connected() as guest:
        calling = asyncio.ensure_future(guest.call())
        asked = await guest.server.until_method("tools/call")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        told = await guest.server.until_method("notifications/cancelled")
        assert told["params"]["requestId"] == asked["id"]
        guest.push(answer(asked["id"], said("late")))
        await guest.client.ping()
        guest.push(answer(asked["id"], said("and again")))
        assert "twice" in str(await fault_of(guest.client.ping()))


async def test_a_call_over_its_time_may_have_begun_and_the_server_is_told() -> None:
    async with connected() as guest:
        fault = await fault_of(guest.call(seconds=0.05))
        assert (fault.code, fault.begun, fault.uncertain) == ("GUEST_TIMEOUT", True, True)
        told = await guest.server.until_method("notifications/cancelled")
        guest.push(answer(told["params"]["requestId"], said("late")))
        await guest.client.ping()


async def test_initialize_is_not_cancelled_by_a_message() -> None:
    async with connected(start=False, initialize=lambda m: []) as guest:
        guest.client._seconds = 0.05
        fault = await fault_of(guest.client.start())
        assert (fault.code, fault.begun) == ("GUEST_TIMEOUT", False)
    assert guest.server.methods() == ["initialize"]


@pytest.mark.parametrize("line", [
    b"Server running on stdio",
    b'{"jsonrpc": "2.0", "id": 2, "result": {}',
    b'{"jsonrpc": "2.0", "id": 2, "result": {"text": "\xff\xfe"}}',
    b'{"jsonrpc": "2.0", "id": 2, "id": 3, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 2, "result": {"n": NaN}}',
    b'{"jsonrpc": "2.0", "id": 2, "result": {"n": 1e999}}',
    b'{"jsonrpc": "2.0", "id": 2, "result": {"n": 123456789012345678901234567890}}',
    b'{"jsonrpc": "2.0", "id": 2, "result": {"text": "\\ud800"}}',
    b'{"jsonrpc": "2.0", "id": 2, "result": {"n": ' + b"[" * 100 + b"]" * 100 + b"}}",
    b"[" * 200_000,
    b'[{"jsonrpc": "2.0", "id": 2, "result": {}}]',
    b"7",
    b'{"id": 2, "result": {}}',
    b'{"jsonrpc": "1.0", "id": 2, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 2}',
    b'{"jsonrpc": "2.0", "id": 2, "result": {}, "error": {"code": 1, "message": "x"}}',
    b'{"jsonrpc": "2.0", "id": 2, "result": "text"}',
    b'{"jsonrpc": "2.0", "id": 2, "error": "text"}',
    b'{"jsonrpc": "2.0", "id": 99, "result": {}}',
    b'{"jsonrpc": "2.0", "id": -1, "result": {}}',
    b'{"jsonrpc": "2.0", "id": "2", "result": {}}',
    b'{"jsonrpc": "2.0", "id": 2.0, "result": {}}',
    b'{"jsonrpc": "2.0", "id": true, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
    b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}',
    b'{"jsonrpc": "2.0", "method": 7}',
    b'{"jsonrpc": "2.0", "method": "ping", "id": {"deep": 1}}',
    b'{"jsonrpc": "2.0", "method": "ping", "id": "' + b"x" * 300 + b'"}',
], ids=lambda line: line[:60].decode("utf-8", "replace"))  # fmt: skip
async def test_what_breaks_the_protocol_ends_the_connection_and_the_call_may_have_begun(line: bytes) -> None:
    async with connected(tools__call=lambda m: [line]) as guest:
        fault = await fault_of(guest.call())
        assert (fault.begun, fault.uncertain) == (True, True)
        assert len(str(fault)) < 700
        assert (await guest.box.wait()).end == "stopped"
        later = await fault_of(guest.call())
        assert (later.message, later.begun) == (fault.message, False)


async def test_two_answers_to_one_id_are_noticed() -> None:
    async with connected(tools__call=lambda m: [answer(m["id"], said("one")), answer(m["id"], said("two"))]) as guest:
        assert (await guest.call()).text == "one"
        assert "twice" in str(await fault_of(guest.call()))


async def test_a_server_that_exits_fails_every_call_under_way() -> None:
    async with connected() as guest:
        calling = [asyncio.ensure_future(guest.call(text=text)) for text in "ab"]
        await guest.server.until(lambda m: m.get("params", {}).get("arguments") == {"text": "b"})
        guest.box.end(exit_code=3)
        for one in calling:
            fault = await fault_of(one)
            assert (fault.code, fault.begun, fault.message) == ("GUEST_OVER", True, "It exited with code 3.")
        assert (await fault_of(guest.call())).begun is False


async def test_closing_fails_every_call_under_way() -> None:
    async with connected() as guest:
        calling = asyncio.ensure_future(guest.call())
        await guest.server.until_method("tools/call")
        await guest.client.close()
        assert (await fault_of(calling)).begun is True


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list", "tools/call", "x"])
async def test_a_servers_request_is_answered_with_method_not_found(method: str) -> None:
    async with connected() as guest:
        guest.push(json.dumps({"jsonrpc": "2.0", "id": "q", "method": method, "params": {}}).encode())
        told = await guest.server.until(lambda message: message.get("id") == "q")
        assert told["error"]["code"] == -32601
        await guest.client.ping()


async def test_a_servers_ping_is_answered() -> None:
    async with connected() as guest:
        guest.push(b'{"jsonrpc": "2.0", "id": 5, "method": "ping"}')
        assert (await guest.server.until(lambda message: message.get("id") == 5))["result"] == {}


async def test_a_storm_of_list_changed_asks_nothing_and_listing_clears_it() -> None:
    async with connected() as guest:
        assert guest.client.tools_changed is False
        guest.push(*[notification("tools/list_changed")] * 5000)
        await guest.client.ping()
        assert guest.client.tools_changed is True
        assert "tools/list" not in guest.server.methods()
        await guest.client.list_tools()
        assert guest.client.tools_changed is False
        guest.push(notification("message", level="error", data="x"), notification("unheard/of"))
        await guest.client.ping()
        assert guest.client.tools_changed is False


async def test_only_an_answer_may_be_large() -> None:
    async with connected(tools__call=lambda m: [answer(m["id"], said("x" * 900_000))]) as guest:
        assert len((await guest.call()).text) == 900_000
        guest.push(notification("message", data="x" * 70_000))
        assert "not asked for" in str(await fault_of(guest.call()))


async def test_a_change_while_listing_is_not_forgotten() -> None:
    async with connected(
        tools__list=lambda m: [notification("tools/list_changed"), answer(m["id"], {"tools": [ECHO]})]
    ) as guest:
        await guest.client.list_tools()
        assert guest.client.tools_changed is True


async def test_arguments_that_are_not_json_are_not_sent() -> None:
    async with connected() as guest:
        fault = await fault_of(guest.call(number=float("nan")))
        assert (fault.code, fault.begun) == ("BAD_ARGUMENTS", False)
        assert "tools/call" not in guest.server.methods()


async def test_a_flood_of_notifications_leaves_the_loop_to_others() -> None:
    """The reader pauses, so a guest that floods us waits and everything else goes on."""
    turns = 0

    async def somebody_else() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with connected() as guest:
        other = asyncio.ensure_future(somebody_else())
        guest.push(*[notification("message", data="x")] * 20_000)
        await guest.client.ping()
        other.cancel()
    assert turns > 20_000 / 64


def test_nothing_of_the_client_is_needed_to_import_the_features() -> None:
    import subprocess
    import sys

    script = "import sys, coilclaw.app; print(any('guests' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"False\n"


async def test_late_answers_of_many_cancelled_calls_are_dropped() -> None:
    async with connected() as guest:
        await _cancel_many(guest, 50)
        asked = [message["id"] for message in guest.server.heard if message.get("method") == "tools/call"]
        guest.push(*[answer(number, said("late")) for number in reversed(asked)])
        await guest.client.ping()


async def _cancel_many(guest: Connected, count: int) -> None:
    calls = [asyncio.ensure_future(guest.call(number=number)) for number in range(count)]
    await guest.server.until(lambda m: m.get("params", {}).get("arguments") == {"number": count - 1})
    for one in calls:
        one.cancel()
    await asyncio.wait(calls)
