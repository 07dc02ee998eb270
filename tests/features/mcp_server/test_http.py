"""`/mcp`: a paired device's own sessions behind the door."""

import asyncio

import httpx
import pytest

from coilclaw.config import Budgets, Security
from coilclaw.features.devices.pairing_code import pairing_of
from coilclaw.features.mcp_server.feature import mcp_server_part
from coilclaw.features.mcp_server.sessions import MOST_SESSIONS
from coilclaw.store.actions import list_actions
from tests.features.mcp_server.clients import HELLO, LATEST, call, notification, offering, request, text_of
from tests.features.mcp_server.test_session import Slow
from tests.server.house import code_of
from tests.server.phone import issue, register_passkey
from tests.server.site import enrol, served, served_whole, unlimited

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def site_of(home):
    return served(home, mcp_server_part, rates=unlimited())


class Remote:
    """A client over HTTP."""

    def __init__(self, http, session_id):
        self.http = http
        self.headers = {**JSON, "Mcp-Session-Id": session_id, "MCP-Protocol-Version": LATEST}

    async def send(self, data, **headers):
        return await self.http.post("/mcp", content=data, headers={**self.headers, **headers})

    async def call(self, tool, **args):
        answer = await self.send(call(tool, args))
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]


async def begin(http):
    hello = await http.post("/mcp", content=request("initialize", HELLO), headers=JSON)
    assert hello.status_code == 200, hello.text
    return Remote(http, hello.headers["mcp-session-id"])


async def test_a_session_from_hello_to_its_end(sample):
    home = sample()
    async with site_of(home) as site:
        client = await begin(site.http)
        assert (await client.send(notification("notifications/initialized"))).status_code == 202
        assert (await client.send(request("ping", own="é"))).json() == {"jsonrpc": "2.0", "id": "é", "result": {}}
        listed = (await client.send(request("tools/list"))).json()["result"]["tools"]
        assert "action_status" in [tool["name"] for tool in listed]
        assert not (await client.call("time"))["isError"]
        assert (await client.http.delete("/mcp", headers=client.headers)).status_code == 204
        assert code_of(await client.send(request("ping")), 404) == "NOT_FOUND"
        assert code_of(await client.http.delete("/mcp", headers=client.headers), 404) == "NOT_FOUND"
    (action,) = list_actions(home.app.db.reader, None, 10)
    assert (action.source, action.status) == ("mcp", "EXECUTED")


async def test_there_is_no_stream_to_get(sample):
    async with site_of(sample()) as site:
        answer = await site.http.get("/mcp", headers={"Accept": "text/event-stream"})
        assert code_of(answer, 405) == "METHOD_NOT_ALLOWED"
        assert answer.headers["allow"] == "DELETE, POST"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer cc_" + "x" * 43}, {"Authorization": "Basic eDp4"}])
async def test_nobody_is_served_without_a_token(sample, headers):
    async with site_of(sample()) as site:
        answer = await site.bare.post("/mcp", content=request("initialize", HELLO), headers={**JSON, **headers})
        assert code_of(answer, 401) == "UNPAIRED"
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_page_of_the_panel_is_not_a_client(sample):
    async with site_of(sample()) as site:
        page = site.browser()
        answer = await page.post("/mcp", content=request("initialize", HELLO), headers=JSON)
        assert code_of(answer, 403) == "BEARER_NEEDED"
        assert code_of(await page.delete("/mcp"), 403) == "BEARER_NEEDED"


async def test_a_device_that_is_not_confirmed_is_not_a_client(sample):
    async with site_of(sample()) as site:
        answer = await site.device(confirmed=False).post("/mcp", content=request("initialize", HELLO), headers=JSON)
        assert code_of(answer, 403) == "UNCONFIRMED"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "evil.example"}, 421, "HOST_REFUSED"),
        ({"Host": "localhost.evil.example:80"}, 421, "HOST_REFUSED"),
        ({"Origin": "http://evil.example"}, 403, "ORIGIN_REFUSED"),
        ({"Origin": "null"}, 403, "ORIGIN_REFUSED"),
    ],
)
async def test_a_rebound_name_and_a_foreign_page_are_refused(sample, headers, status, code):
    """With a stolen token too: a name that was pointed at us, and a page of somebody else."""
    async with site_of(sample()) as site:
        client = await begin(site.http)
        for data in (request("initialize", HELLO), call("time")):
            assert code_of(await client.send(data, **headers), status) == code
        answer = await client.http.delete("/mcp", headers={**client.headers, **headers})
        assert code_of(answer, status) == code
    assert list_actions(site.sample.app.db.reader, None, 10) == []


async def test_a_session_belongs_to_its_device(sample):
    home = offering(sample(), "file_write")
    async with site_of(home) as site:
        client = await begin(site.http)
        waits = await client.call("file_write", path="a.txt", content="x")
        other = Remote(site.device(), client.headers["Mcp-Session-Id"])
        assert code_of(await other.send(request("ping")), 404) == "NOT_FOUND"
        assert code_of(await other.http.delete("/mcp", headers=other.headers), 404) == "NOT_FOUND"
        own = await begin(other.http)
        told = await own.call("action_status", action_id=waits["_meta"]["coilclaw/action_id"])
        assert text_of(told) == "There is no such action in this session."
        assert (await client.send(request("ping"))).status_code == 200


async def test_a_revoked_device_loses_its_session_and_what_it_runs(sample):
    home = sample()
    async with site_of(home) as site:
        phone = site.client(headers={"Authorization": f"Bearer {enrol(home, 'dev_two', 'tok_two')}"})
        client = await begin(phone)
        slow = Slow(home)
        calling = asyncio.ensure_future(client.send(call("time")))
        await asyncio.wait_for(slow.begun.wait(), 60)
        gone = await site.http.post("/v1/devices/dev_two/revoke")
        assert gone.status_code in (200, 204), gone.text
        assert code_of(await asyncio.wait_for(calling, 280), 401) == "UNPAIRED"
        assert code_of(await client.send(request("ping")), 401) == "UNPAIRED"
    assert [receipt.status for receipt in home.receipts()] == ["failed"]


async def test_a_device_that_another_process_revoked_loses_what_it_runs_too(sample):
    home = sample()
    async with site_of(home) as site:
        client = await begin(site.client(headers={"Authorization": f"Bearer {enrol(home, 'dev_two', 'tok_two')}"}))
        slow = Slow(home)
        calling = asyncio.ensure_future(client.send(call("time")))
        await asyncio.wait_for(slow.begun.wait(), 60)
        home.app.db.write_now(lambda tx: tx.execute("DELETE FROM auth_tokens WHERE token_id = 'tok_two'"))
        assert code_of(await asyncio.wait_for(calling, 280), 401) == "UNPAIRED"
    assert [receipt.status for receipt in home.receipts()] == ["failed"]


async def test_a_result_that_was_ready_first_is_not_given_to_a_revoked_device(sample):
    home = sample()
    async with site_of(home) as site:
        client = await begin(site.client(headers={"Authorization": f"Bearer {enrol(home, 'dev_two', 'tok_two')}"}))
        slow = Slow(home)
        calling = asyncio.ensure_future(client.send(call("time")))
        await asyncio.wait_for(slow.begun.wait(), 60)
        slow.go.set()
        home.app.db.write_now(lambda tx: tx.execute("DELETE FROM auth_tokens WHERE token_id = 'tok_two'"))
        assert code_of(await asyncio.wait_for(calling, 280), 401) == "UNPAIRED"


def client_token(home):
    return home.app.db.write_now(lambda tx: pairing_of(home.app).let_in_client(tx, "my editor"))


async def test_a_token_for_clients_opens_this_address(sample):
    home = sample()
    async with site_of(home) as site:
        bound = client_token(home)
        client = await begin(site.client(headers={"Authorization": f"Bearer {bound.token}"}))
        assert not (await client.call("time"))["isError"]


@pytest.mark.slow
async def test_a_token_for_clients_opens_nothing_else(sample):
    home = sample()
    async with served_whole(home) as site:
        http = site.client(headers={"Authorization": f"Bearer {client_token(home).token}"})
        document = (await site.http.get("/v1/openapi.json")).json()
        asked = [(method, path) for path, methods in document["paths"].items() for method in methods]
        open_to_all = {
            ("get", "/health"),
            ("post", "/v1/pairing/bind"),
            ("get", "/v1/pairing/github"),
            ("post", "/v1/pairing/github"),
            ("post", "/v1/forge/webhook"),
            ("post", "/runner/v1/webhooks/{repo_id}"),
        }
        asked = [each for each in asked if each not in open_to_all]
        assert len(asked) > 100
        for method, path in [*asked, ("post", "/v1/estop"), ("get", "/v1/events"), ("get", "/metrics"), ("get", "/x")]:
            answer = await http.request(method, path.replace("{", "").replace("}", ""))
            assert code_of(answer, 403) == "SCOPE", (method, path, answer.text)


async def test_a_token_for_clients_waits_for_the_passkey_and_is_nobodys_first_device(sample):
    home = sample()
    client_token(home)
    assert issue(home, mode="first").code  # no device of the owner's is paired yet
    register_passkey(home)
    async with site_of(home) as site:
        http = site.client(headers={"Authorization": f"Bearer {client_token(home).token}"})
        answer = await http.post("/mcp", content=request("initialize", HELLO), headers=JSON)
        assert code_of(answer, 403) == "UNCONFIRMED"
        own = f"/v1/devices/{client_token(home).device_id}/confirm"
        assert code_of(await http.post(own), 403) == "SCOPE"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "x", ""])
async def test_another_protocol_version_than_the_agreed_one_is_refused(sample, version):
    async with site_of(sample()) as site:
        client = await begin(site.http)
        answer = await client.send(request("ping"), **{"MCP-Protocol-Version": version})
        assert code_of(answer, 400) == "BAD_PROTOCOL_VERSION"
        del client.headers["MCP-Protocol-Version"]
        assert (await client.send(request("ping"))).status_code == 200


async def test_a_request_without_a_session_is_refused(sample):
    async with site_of(sample()) as site:
        assert code_of(await site.http.post("/mcp", content=call("time"), headers=JSON), 400) == "NO_SESSION"
        assert code_of(await site.http.delete("/mcp"), 400) == "NO_SESSION"
        client = await begin(site.http)
        again = await client.send(request("initialize", HELLO))
        assert again.json()["error"]["code"] == -32600


async def test_only_json_is_answered(sample):
    async with site_of(sample()) as site:
        headers = {**JSON, "Accept": "text/event-stream"}
        answer = await site.http.post("/mcp", content=request("initialize", HELLO), headers=headers)
        assert code_of(answer, 406) == "NOT_ACCEPTABLE"
        plain = await site.http.post(
            "/mcp", content=request("initialize", HELLO), headers={"Content-Type": "text/plain"}
        )
        assert code_of(plain, 415) == "UNSUPPORTED_MEDIA_TYPE"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"x", -32700),
        (b'{"jsonrpc":"2.0"', -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"{}", -32600),
    ],
)
async def test_what_is_not_a_message_is_answered_with_its_error(sample, data, code):
    async with site_of(sample()) as site:
        client = await begin(site.http)
        answer = await client.send(data)
        assert (answer.status_code, answer.json()["id"], answer.json()["error"]["code"]) == (400, None, code)


async def test_an_introduction_that_does_not_fit_begins_nothing(sample):
    async with site_of(sample()) as site:
        answer = await site.http.post("/mcp", content=request("initialize", {}), headers=JSON)
        assert answer.json()["error"]["code"] == -32602
        assert "mcp-session-id" not in answer.headers


async def test_a_cancellation_reaches_a_call_that_holds_every_slot(sample):
    home = sample()
    async with site_of(home) as site:
        client = await begin(site.http)
        slow = Slow(home)
        callings = [asyncio.ensure_future(client.send(call("time", own=n))) for n in range(6)]
        await asyncio.wait_for(slow.begun.wait(), 60)
        for n in range(6):
            told = await client.send(notification("notifications/cancelled", {"requestId": n}))
            assert told.status_code == 202
        answers = [(await asyncio.wait_for(each, 280)).json() for each in callings]
        assert {answer["error"]["code"] for answer in answers} == {-32800}


async def test_a_client_that_hangs_up_leaves_its_call_to_finish(sample):
    home = sample()
    async with site_of(home) as site:
        client = await begin(site.http)
        slow = Slow(home)
        other = site.client(headers={"Authorization": f"Bearer {site.token}"})
        calling = asyncio.ensure_future(Remote(other, client.headers["Mcp-Session-Id"]).send(call("time")))
        await asyncio.wait_for(slow.begun.wait(), 60)
        calling.cancel()
        await other.aclose()
        slow.go.set()
        while not home.receipts():
            await asyncio.sleep(0.02)
        assert [receipt.status for receipt in home.receipts()] == ["allowed"]


@pytest.mark.slow
async def test_a_thousand_calls_at_once_are_bounded(sample):
    home = sample(budgets=Budgets(tool_calls_per_minute=100_000))
    async with site_of(home) as site:
        client = await begin(site.http)
        crowd = httpx.Limits(max_connections=200)
        turnstile = asyncio.Semaphore(200)  # what waits in the client's own pool is looked through for every answer
        async with httpx.AsyncClient(base_url=site.origin, timeout=280, trust_env=False, limits=crowd) as http:
            many = Remote(http, client.headers["Mcp-Session-Id"])
            many.headers["Authorization"] = f"Bearer {site.token}"

            async def send(number):
                async with turnstile:
                    return await many.send(call("time", own=number))

            answers = await asyncio.gather(*(send(number) for number in range(1000)))
        told = [answer.json() for answer in answers]
        assert {answer["id"] for answer in told} == set(range(1000))
        done = [answer for answer in told if "result" in answer]
        assert {answer["error"]["code"] for answer in told if "error" in answer} <= {-32000}
        assert len(home.receipts()) == len(done) > 0


async def test_a_device_has_a_bounded_number_of_sessions(sample):
    async with site_of(sample()) as site:
        clients = [await begin(site.http) for _ in range(MOST_SESSIONS)]
        assert (await clients[0].send(request("ping"))).status_code == 200  # the least recently used is now the second
        await begin(site.http)
        assert (await clients[0].send(request("ping"))).status_code == 200
        assert (await clients[1].send(request("ping"))).status_code == 404


async def test_the_doors_rate_holds_for_clients(sample):
    async with served(sample(), mcp_server_part) as site:
        site.built.door._rates._per_minute = 20
        client = await begin(site.http)
        codes = [(await client.send(request("ping"))).status_code for _ in range(40)]
        assert 429 in codes


async def test_estop_and_readonly_hold_over_http(sample):
    home = sample(security=Security(autonomy="readonly"))
    async with site_of(home) as site:
        client = await begin(site.http)
        assert (await client.call("notes_write", title="a", content="b"))["_meta"][
            "coilclaw/code"
        ] == "AUTONOMY_READONLY"
        home.app.estop.engage("test", "now")
        assert (await client.call("time"))["_meta"]["coilclaw/code"] == "ESTOP"


async def test_no_approval_comes_over_this_route(sample):
    home = offering(sample(), "file_write")
    async with site_of(home) as site:
        client = await begin(site.http)
        waits = await client.call("file_write", path="a.txt", content="x")
        action_id = waits["_meta"]["coilclaw/action_id"]
        for tool in ("approvals", "approve", "approvals_approve", "sop_approval", "settings_change"):
            assert (await client.call(tool, action_id=action_id))["isError"]
        assert not (home.workspace / "a.txt").exists()


async def test_calls_under_way_finish_when_the_server_stops(sample):
    home = sample()
    async with site_of(home) as site:
        client = await begin(site.http)
        slow = Slow(home)
        calling = asyncio.ensure_future(client.send(call("time")))
        await asyncio.wait_for(slow.begun.wait(), 60)
        asyncio.get_running_loop().call_soon(slow.go.set)
    await asyncio.gather(calling, return_exceptions=True)
    assert [receipt.status for receipt in home.receipts()] == ["allowed"]
