"""Programs in sessions that begin sessions of their own, by MCP over a port of their box."""

import asyncio
import json

import pytest

from coilclaw.features.runner.hooks import HookDesk
from coilclaw.features.runner.session_mcp import SessionMcp
from coilclaw.features.runner.store.family import below
from tests.features.runner.session_world import SessionWorld, until
from tests.features.runner.test_desk import row_of
from tests.features.runner.test_hooks import actions, decide, ended, said, with_fake


def spawn(**args):
    return "mcp: session_spawn " + json.dumps({"repo": "site", "provider": "fake", **args})


async def begin(world, site, *lines, **body):
    return await world.start(site, provider="fake", structured=True, task={"goal": "\n".join(lines)}, **body)


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["A", "B"])
async def test_program_begins_a_session_waits_for_it_and_reads_what_it_did(sessions_of_a_home, tier):
    world = with_fake(sessions_of_a_home(tier))
    async with world.serving() as site:
        last = json.dumps({"session_id": "@last"})
        lines = ("mcp: list", spawn(goal="write: made.txt text\nsay: Child is done."))
        wait = "mcp: session_wait " + json.dumps({"session_id": "@last", "until": "end", "seconds": 120})
        session_id = await begin(world, site, *lines, wait, f"mcp: session_result {last}")
        [waiting] = await until(lambda: actions(world, session_id, "PENDING"))
        assert (waiting.call.tool, waiting.source, waiting.source_id) == ("session_spawn", "session", session_id)
        assert world.events(session_id, "APPROVAL_REQUESTED")[0].data["approval_id"] == waiting.action_id
        await decide(site, session_id, waiting, "allow")
        assert (await ended(world, session_id)).exit_code == 0
        text = await world.text(site, session_id)
        assert "session_spawn session_send session_wait session_result action_status" in text
        [child] = below(world.app.db.reader, session_id)
        assert (child.spec.parent_id, child.spec.structured, child.exit_code) == (session_id, True, 0)
        assert f"Not the owner's words (untrusted:{child.session_id})" in text
        assert "made.txt" in text
        assert all(each.status == "EXECUTED" for each in actions(world, session_id))


@pytest.mark.slow
async def test_no_of_the_owner_begins_nothing_and_the_program_goes_on(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        session_id = await begin(world, site, spawn(goal="say: x"), "run: echo still he''re")
        [waiting] = await until(lambda: actions(world, session_id, "PENDING"))
        await decide(site, session_id, waiting, "deny", "not now")
        assert (await ended(world, session_id)).exit_code == 0
        text = await world.text(site, session_id)
        assert "not now" in text
        assert "still here" in text
        assert below(world.app.db.reader, session_id) == []


@pytest.mark.slow
async def test_late_answer_is_found_by_its_action(sessions_of_a_home):
    world = with_fake(sessions_of_a_home(), approval_wait_seconds=1)
    async with world.serving() as site:
        session_id = await begin(world, site, spawn(goal="say: x"))
        await said(world, site, session_id, "Waits for the owner: act_")
        [waiting] = actions(world, session_id, "PENDING")
        await decide(site, session_id, waiting, "deny", "not now")
        await ended(world, session_id)


class Wire:
    """The writing half of a connection."""

    def __init__(self):
        self.sent = b""
        self.transport = self

    def write(self, data):
        self.sent += data

    async def drain(self):
        pass

    def write_eof(self):
        pass

    def is_closing(self):
        return False

    def get_write_buffer_size(self):
        return 0

    def abort(self):
        pass


@pytest.fixture
def served(sample, tmp_path):
    """What a port answers to a request, without a box."""
    world = SessionWorld(sample)

    async def nothing(_):
        pass

    row = row_of(world)
    conveyor = world.sample.conveyor()
    mcp = SessionMcp(
        world.app, conveyor, row.session_id, HookDesk(world.app, conveyor, row, nothing, tmp_path / "g", nothing)
    )

    async def ask(body, method="POST", path="/mcp", more=""):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        reader, wire = asyncio.StreamReader(), Wire()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:3132\r\nConnection: close\r\n{more}"
        reader.feed_data(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        reader.feed_eof()
        await mcp.serve(3132, reader, wire)
        status, _, rest = wire.sent.partition(b"\r\n")
        return int(status.split()[1]), rest.partition(b"\r\n\r\n")[2]

    return ask


def called(name, **arguments):
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def test_only_one_path_and_method_are_served(served):
    greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    status, body = await served(greeting)
    assert (status, json.loads(body)["result"]["protocolVersion"]) == (200, "2025-06-18")
    assert (await served({"jsonrpc": "2.0", "method": "notifications/initialized"}))[0] == 202
    assert (await served(greeting, path="/v1/overview"))[0] == 404
    assert (await served(b"", method="GET"))[0] == 405
    assert (await served(greeting, more="Origin: https://evil.example\r\n"))[0] == 403
    assert (await served(b"x" * (300 << 10)))[0] == 413


@pytest.mark.parametrize("name", ["shell", "file_write", "session_start", "session_command", "settings_change", ""])
async def test_no_other_tool_can_be_called(served, name):
    _, body = await served(called(name, session_id="sess_0000000000", command="ls"))
    assert "no such tool" in json.loads(body)["error"]["message"]


async def test_actions_of_others_are_not_told(served):
    _, body = await served(called("action_status", action_id="act_0000000000"))
    assert json.loads(body)["result"]["isError"] is True


async def test_session_that_does_not_run_begins_nothing(served):
    _, body = await served(called("session_spawn", repo="site", provider="fake", goal="x"))
    found = json.loads(body)["result"]
    assert found["isError"] is True
    assert "paused or ends" in found["content"][0]["text"]


async def test_flood_of_calls_is_refused(served, monkeypatch):
    monkeypatch.setattr("coilclaw.features.runner.session_mcp._CALLS_A_MINUTE", 2)
    told = [(await served(called("action_status", action_id="x")))[1] for _ in range(3)]
    assert [b"Too many calls" in each for each in told] == [False, False, True]
