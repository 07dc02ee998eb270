"""`coilclaw mcp serve`: the real executable, and whatever a client may do to it."""

import asyncio
import json
import os
import select
import signal
import subprocess

import pytest

from coilclaw.ledger.chain import list_receipts
from coilclaw.store.actions import list_actions
from tests.features.mcp_server.clients import (
    COILCLAW,
    HELLO,
    PATIENCE,
    call,
    environ_of,
    notification,
    offering,
    request,
    stdio,
    text_of,
)

pytestmark = pytest.mark.slow


def statuses(home):
    return [action.status for action in list_actions(home.app.db.reader, None, 10_000)]


def receipts(home):
    return list_receipts(home.app.db.reader, 10_000)


async def test_a_client_is_served_from_hello_to_goodbye(sample):
    home = sample()
    (home.workspace / "a.md").write_text("mine")
    async with stdio(home, introduced=False) as client:
        hello = await client.ask(request("initialize", HELLO, "h"))
        assert (hello["id"], hello["result"]["protocolVersion"]) == ("h", "2025-11-25")
        client.write(notification("notifications/initialized"))
        assert (await client.ask(request("ping", own=0)))["result"] == {}
        listed = await client.ask(request("tools/list"))
        assert "file_read" in [tool["name"] for tool in listed["result"]["tools"]]
        read = await client.ask(call("file_read", {"path": "a.md"}))
        assert "mine" in text_of(read["result"])
        assert await client.end() == (0, b"")
        assert b"tool requested" in await client.stderr or b"tool_requested" in await client.stderr
    (action,) = list_actions(home.app.db.reader, None, 10)
    assert (action.source, action.status) == ("mcp", "EXECUTED")


async def test_an_answer_given_elsewhere_ends_the_wait(sample):
    home = offering(sample(), "file_write")
    async with stdio(home, COILCLAW_MCP_SERVE_TOOLS='["file_write"]') as client:
        waits = (await client.ask(call("file_write", {"path": "a.txt", "content": "x"})))["result"]
        action_id = waits["_meta"]["coilclaw/action_id"]
        assert text_of(waits).startswith(f"Waits for the owner: {action_id}")
        await home.approve(action_id)
        told = (await client.ask(call("action_status", {"action_id": action_id})))["result"]
        assert told["_meta"]["coilclaw/status"] == "executed"
    assert (home.workspace / "a.txt").read_text() == "x"


async def test_a_changed_list_is_in_force_without_a_restart(sample):
    home = sample()
    async with stdio(home) as client:

        async def names():
            return [tool["name"] for tool in (await client.ask(request("tools/list")))["result"]["tools"]]

        assert "file_read" in await names()
        config = home.home.config_file
        config.write_text(config.read_text().replace("[mcp.serve]\n", '[mcp.serve]\ntools = ["time"]\n'))
        async with asyncio.timeout(PATIENCE):
            while await names() != ["action_status", "time"]:
                await asyncio.sleep(0.05)
        assert (await client.ask(call("file_list")))["result"]["isError"]


async def test_hostile_lines_are_answered_and_the_next_one_is_served(sample):
    home = sample()
    async with stdio(home) as client:
        for line, code in (
            (b"x" * 3_000_000, -32600),
            (b"\xff\xfe", -32700),
            (b"[" * 200_000, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 200_000, -32700),
            (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
            (b"\0" * 100, -32700),
        ):
            answer = await client.ask(line)
            assert (answer["id"], answer["error"]["code"]) == (None, code)
        client.write(b"", b"   ", b"\r")
        client.write(b'{"jsonrpc":"2.0","id":99,"result":{}}', notification("nothing/we/know"))
        assert (await client.ask(request("ping", own="still there")))["id"] == "still there"
        assert (await client.ask(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\r'))["id"] == 2
    assert statuses(home) == []


async def test_a_thousand_calls_at_once_do_not_stop_it(sample):
    home = sample()
    async with stdio(home, COILCLAW_BUDGETS_TOOL_CALLS_PER_MINUTE="100000") as client:
        client.write(*(call("time", own=n) for n in range(1000)))
        answers = [await client.read() for _ in range(1000)]
        done = [answer for answer in answers if "result" in answer]
        assert {answer["id"] for answer in answers} == set(range(1000))
        assert done
        assert {answer["error"]["code"] for answer in answers if "error" in answer} == {-32000}
        assert (await client.ask(request("ping", own="p")))["id"] == "p"
    assert statuses(home) == ["EXECUTED"] * len(done)


def test_a_client_that_does_not_read_is_not_read_from(sample):
    """What it can make us keep is bounded: our side stops reading long before all of it is written."""
    home = sample()
    (home.folder / "user").mkdir(exist_ok=True)
    line = request("tools/list") + b"\n"
    flood = request("initialize", HELLO, 0) + b"\n" + line * 200_000
    with subprocess.Popen(
        [COILCLAW, "mcp", "serve"],
        env=environ_of(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.set_blocking(process.stdin.fileno(), False)
        written = 0
        while select.select([], [process.stdin], [], 3)[1]:
            written += os.write(process.stdin.fileno(), flood[written : written + 65536])
            assert written < len(flood)
        process.stdin.close()
        answers = process.stdout.read().splitlines()
        assert process.wait(PATIENCE) == 0
    assert len(answers) >= flood[:written].count(b"\n")
    assert all(b'"result"' in each for each in answers[:100])


@pytest.mark.parametrize("how", ["closes", "dies"])
async def test_calls_of_a_client_that_vanishes_finish_with_receipts(sample, how):
    home = sample()
    async with stdio(home, COILCLAW_MCP_SERVE_TOOLS='["shell"]', COILCLAW_SECURITY_AUTONOMY="full") as client:
        client.write(call("shell", {"command": "sleep 1; touch done.txt"}))
        while not statuses(home):
            await asyncio.sleep(0.02)
        if how == "dies":
            client.process.stdout._transport.close()  # nobody reads any more
        client.process.stdin.close()
        assert await asyncio.wait_for(client.process.wait(), PATIENCE) == 0
    assert statuses(home) == ["EXECUTED"]
    assert [receipt.status for receipt in receipts(home)] == ["allowed"]
    assert (home.workspace / "done.txt").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_and_what_runs_has_its_receipt(sample, number):
    home = sample()
    async with stdio(home, COILCLAW_MCP_SERVE_TOOLS='["shell"]', COILCLAW_SECURITY_AUTONOMY="full") as client:
        client.write(call("shell", {"command": "sleep 600"}))
        while statuses(home) != ["APPROVED"]:
            await asyncio.sleep(0.02)
        os.kill(client.process.pid, number)
        assert await asyncio.wait_for(client.process.wait(), PATIENCE) == 0
    assert [receipt.status for receipt in receipts(home)] in (["failed"], ["unknown"])


async def test_a_cancellation_ends_a_running_command_and_is_not_answered(sample):
    home = sample()
    async with stdio(home, COILCLAW_MCP_SERVE_TOOLS='["shell"]', COILCLAW_SECURITY_AUTONOMY="full") as client:
        client.write(call("shell", {"command": "sleep 600"}, own="slow"))
        while statuses(home) != ["APPROVED"]:
            await asyncio.sleep(0.02)
        client.write(notification("notifications/cancelled", {"requestId": "slow", "reason": "enough"}))
        while not receipts(home):
            await asyncio.sleep(0.02)
        assert (await client.ask(request("ping", own="next")))["id"] == "next"
    assert statuses(home) in (["FAILED"], ["UNKNOWN"])


def test_files_serve_as_stdin_and_stdout_too(sample):
    home = sample()
    (home.folder / "user").mkdir(exist_ok=True)
    asked, told = home.folder / "in.jsonl", home.folder / "out.jsonl"
    asked.write_bytes(b"\n".join([request("initialize", HELLO, 1), call("time", own=2)]))  # no end of line at the end
    with asked.open("rb") as stdin, told.open("wb") as stdout:
        done = subprocess.run(
            [COILCLAW, "mcp", "serve"],
            env=environ_of(home),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=280,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in told.read_text().splitlines()] == [1, 2]


def test_a_home_that_is_not_there_is_reported_on_stderr(tmp_path):
    done = subprocess.run(
        [COILCLAW, "mcp", "serve"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COILCLAW_HOME": str(tmp_path / "none")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=280,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"coilclaw init" in done.stderr


def test_other_commands_import_nothing_of_it(sample):
    home = sample()
    code = (
        "import sys; from coilclaw.cli.group import coilclaw\n"
        "coilclaw.main(['tool', 'list'], standalone_mode=False)\n"
        "print([name for name in sys.modules if 'mcp' in name and name != 'coilclaw.config.mcp'])"
    )
    python = COILCLAW.replace("/coilclaw", "/python")
    done = subprocess.run([python, "-c", code], env=environ_of(home), capture_output=True, timeout=280, check=True)
    assert done.stdout.splitlines()[-1] == b"[]"
