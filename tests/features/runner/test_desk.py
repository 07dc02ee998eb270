"""The desk itself, without a box: what a hostile program may cost the server, and what a yes is bound to."""

import asyncio
import json
import tomllib
from functools import partial

import msgspec
import pytest

from coilclaw.config.runner import Repo
from coilclaw.features.runner.adapters import claude, codex, gemini
from coilclaw.features.runner.adapters.contract import CliPlace, HookAsk
from coilclaw.features.runner.checkouts import Checkout
from coilclaw.features.runner.hooks import QUESTION_BYTES, HookDesk, call_for
from coilclaw.features.runner.session_tools import (
    SessionCommandArgs,
    SessionWriteArgs,
    command_category,
    deploys_of,
    session_taint,
)
from coilclaw.features.runner.spec import StartSession
from coilclaw.features.runner.store import add_session, load_session, move, org_action_ids, put_session
from coilclaw.gate.turn import Turn
from coilclaw.packets.errors import StorageError
from coilclaw.packets.ids import new_id
from tests.features.projects.test_commands import run
from tests.features.runner.session_world import REPO, SessionWorld


class Wire:
    """The writing half of a connection."""

    def __init__(self):
        self.sent = b""

    def write(self, data):
        self.sent += data

    async def drain(self):
        pass


@pytest.fixture
def world(sample):
    return SessionWorld(sample)


def row_of(world, *, action_id="", **body):
    """A session that nothing runs in."""
    app, session_id = world.app, new_id("sess", world.app.clock())
    wanted = msgspec.convert({"repo": REPO, "provider": "fake", **body}, StartSession)
    app.db.write_now(lambda tx: add_session(tx, app.clock, session_id, wanted, action_id=action_id, by="owner"))
    return load_session(app.db.reader, session_id)


def desk_of(world, tmp_path):
    async def nothing(_):
        pass

    return HookDesk(world.app, world.sample.conveyor(), row_of(world), nothing, tmp_path / "guarded", nothing)


async def asked(desk, told, length=None):
    """What the desk answers to a question."""
    body = msgspec.json.encode(told)
    reader, wire = asyncio.StreamReader(limit=1 << 16), Wire()
    reader.feed_data(b"POST /fake HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (length or len(body)) + body)
    reader.feed_eof()
    await desk.serve(3129, reader, wire)
    return wire.sent.partition(b"\r\n\r\n")[2].strip()


async def test_files_that_a_program_reads_are_told_once_and_only_those_of_its_checkout(world, tmp_path):
    desk = desk_of(world, tmp_path)
    checkout = Checkout(session_id=desk._id, path="/s/site", cache="/c", branch="b", base="0" * 40, mode="write")
    row = msgspec.structs.replace(load_session(world.app.db.reader, desk._id), state="RUNNING", checkout=checkout)
    world.app.db.write_now(lambda tx: put_session(tx, row))
    for paths in (("/s/site/src/a.py", "src/../b.py"), ("src/a.py",), ("/etc/passwd", "../other", "c\x1b.py")):
        assert (await desk.answer(HookAsk(kind="read", tool="Read", call_id="c", paths=paths))).allow
    told = [(each.data["path"], each.data["room_path"]) for each in world.events(desk._id, "FILE_TOUCHED")]
    assert told == [("src/a.py", "src"), ("b.py", ""), ("c⟨U+001B⟩.py", "")]
    assert {each.data["reason"] for each in world.events(desk._id, "FILE_TOUCHED")} == {"read"}


async def test_names_of_calls_are_kept_in_little_room(world, tmp_path):
    desk = desk_of(world, tmp_path)
    for number in range(3):
        told = {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_use_id": f"{number}" * 500_000}
        assert b"true" not in await asked(desk, told)  # its session does not run
    assert len(desk._answers) == 3
    assert sum(map(len, desk._answers)) < 3000


async def test_what_is_told_without_a_question_is_bounded_too(world, tmp_path, monkeypatch):
    desk = desk_of(world, tmp_path)
    begun = {"hook_event_name": "SessionStart"}
    assert b"true" in await asked(desk, begun)
    assert b"true" not in await asked(desk, begun, QUESTION_BYTES + 1)
    monkeypatch.setattr("coilclaw.features.runner.hooks.BYTES_A_MINUTE", 3000)
    assert b"true" not in await asked(desk, {**begun, "more": "x" * 4000})
    monkeypatch.setattr("coilclaw.features.runner.hooks.CALLS_A_MINUTE", 1)
    assert b"true" not in await asked(desk, begun)


async def test_what_cannot_be_read_is_denied_and_not_our_fault(world, tmp_path):
    desk = desk_of(world, tmp_path)
    reader, wire = asyncio.StreamReader(), Wire()
    body = b'{"x":' + b"[" * 100_000
    reader.feed_data(b"POST /fake HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await desk.serve(3129, reader, wire)
    assert b"could not be read" in wire.sent


@pytest.mark.slow
async def test_what_misled_a_conversation_stays_with_its_sessions(world):
    misled = Turn("turn_1", "conv_1", "chat", ("untrusted:web",))
    begun = await world.sample.call("session_spawn", misled, "k1", repo="site", room="nowhere")
    assert session_taint(world.app, row_of(world, action_id=begun.action.action_id)) == ("untrusted:web",)
    clean = await world.sample.call("session_spawn", Turn("turn_2", "conv_2", "chat"), "k2", repo="site", room="none")
    row = row_of(world, action_id=clean.action.action_id)
    assert session_taint(world.app, row) == ()
    own = f"untrusted:{row.session_id}"
    for number, label in enumerate((own, "untrusted:mail")):
        later = Turn(f"turn_3{number}", "conv_2", "chat", (label,))
        await world.sample.call("session_send", later, f"k3{number}", session_id=row.session_id, line="x")
    assert session_taint(world.app, row) == ("untrusted:mail",)


def test_repository_at_github_does_not_pass_for_a_folder_of_that_name(world):
    fork = Repo(github="stranger/site", deploy=("make ship",))
    world.app.config = msgspec.structs.replace(world.app.config, repos={**world.app.config.repos, "fork": fork})
    row = row_of(world, repo={"provider": "github", "owner": "stranger", "name": "site"})
    assert session_taint(world.app, row) == ("untrusted:repo:stranger/site",)
    assert deploys_of(world.app, row) == ("make ship",)
    assert session_taint(world.app, row_of(world)) == ()


@pytest.mark.parametrize("registered", [True, False])
def test_yes_for_an_unknown_tool_is_bound_to_its_words(world, registered):
    row, values = row_of(world), (f"ghp_{'a1B2c3' * 6}", f"ghp_{'Z9y8X7' * 6}")
    if registered:
        world.app.redactor.register("KEY", values[0])
    asks = [HookAsk(kind="other", tool="mcp__mail__send", call_id="1", text=f'{{"to": "{each}"}}') for each in values]
    calls = [call_for(world.app, row, each) for each in asks]
    assert calls[0].args_hash != calls[1].args_hash
    decision = world.sample.conveyor().intake.decide(calls[0], Turn("turn_1", "", "session"))
    assert decision.verdict == ("deny" if registered else "ask")


def test_yes_for_a_command_is_bound_to_its_folder():
    def command(**more):
        given = {"command": "make clean", **more}
        return gemini.read({"hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": given})

    commands = {command(**more).command for more in ({}, {"directory": "a"}, {"directory": "b c"}, {"dir_path": "d"})}
    assert len(commands) == 4
    assert "make clean" in commands


@pytest.mark.parametrize(
    ("read", "tool", "given"),
    [
        (claude.read, "Read", {"file_path": "/checkout/.env"}),
        (claude.read, "Grep", {"pattern": ".", "glob": "**/.env*", "output_mode": "content"}),
        (claude.read, "Grep", {"pattern": ".", "path": "config/deploy.pem"}),
        (gemini.read, "read_many_files", {"paths": ["README.md", ".env"]}),
        (gemini.read, "read_many_files", {"include": ["*.pem"]}),
        (gemini.read, "grep_search", {"pattern": ".", "include": ".npmrc"}),
    ],
)
def test_reading_a_file_of_secrets_is_asked_however_it_is_named(world, read, tool, given):
    event = "PreToolUse" if read is claude.read else "BeforeTool"
    ask = read({"hook_event_name": event, "tool_name": tool, "tool_input": given})
    call = call_for(world.app, row_of(world), ask)
    assert call is not None
    assert call.tool == "session_secret"


def test_patch_names_its_files_indented_too():
    assert codex.patched("*** Begin Patch\n  *** Update File: .env\n+x\n\t*** Move to: b\n") == (".env", "b")


@pytest.mark.parametrize(
    ("command", "category"),
    [
        ("cat .env", "secrets"),
        ("grep -r token < config/../.env.local", "secrets"),
        ("cp deploy.key copy.txt", "secrets"),
        ("cat .env.example", "command"),
        ('npm "install" left-pad', "deps_add"),
        ("(npm ci)", "deps_add"),
        ("python3 -m pip 'install' x;", "deps_add"),
        ("npm test", "command"),
    ],
)
def test_command_is_about_what_its_words_say_without_quotes(command, category):
    assert command_category(command, ()) == category


async def test_refused_start_does_not_bring_a_session_to_another_organization(world):
    row = row_of(world)
    command = {"session_id": row.session_id, "command": "ls"}
    asked = await world.sample.call("session_command", Turn(row.session_id, "", "session"), "k1", **command)
    wanted = {"repo": REPO, "org_id": "acme"}
    args = {"session_id": row.session_id, "session": wanted}
    refused = await world.sample.call("session_start", Turn("turn_1", "conv_1", "chat"), "k2", **args)
    assert refused.action.status == "REJECTED"
    assert asked.action.action_id not in org_action_ids(world.app.db.reader, "acme")


async def test_program_that_does_not_ask_is_killed_though_nothing_can_be_written(world, monkeypatch):
    stopped = []

    class Keeper:
        async def stop(self, grace):
            stopped.append(grace)

        async def close(self):
            pass

    async def attach(session_id, after):
        return Keeper()

    async def full(work):
        raise StorageError("the disk is full.")

    monkeypatch.setattr(world.sessions.keepers, "attach", attach)
    monkeypatch.setattr(world.app.db, "write", full)
    with pytest.raises(StorageError):
        await world.sessions.kill_unguarded(row_of(world).session_id, "It did not ask.")
    assert stopped == [0.0]


async def test_program_that_rests_is_told_of_once_and_again_after_it_worked(world, tmp_path, monkeypatch):
    from coilclaw.features.runner import hooks
    from coilclaw.features.runner.adapters.contract import HookAsk
    from coilclaw.features.runner.store import put_session

    monkeypatch.setattr(hooks, "REST_SECONDS", 0.0)
    desk = desk_of(world, tmp_path)
    session_id = desk._id
    row = msgspec.structs.replace(load_session(world.app.db.reader, session_id), state="RUNNING")
    world.app.db.write_now(lambda tx: put_session(tx, row))

    def told():
        query = "SELECT payload_json FROM audit_log WHERE entity_id = ? AND event_type = 'session_alert_raised'"
        return [msgspec.json.decode(text)["code"] for (text,) in world.app.db.reader.execute(query, (session_id,))]

    await desk.answer(HookAsk(kind="begin", tool=""))
    await desk._tell_rest()
    assert told() == []
    await desk.answer(HookAsk(kind="done", tool=""))
    await desk._tell_rest()
    await desk._tell_rest()
    assert told() == ["NEEDS_YOU"]
    await desk.answer(HookAsk(kind="result", tool="", call_id=""))
    await desk._tell_rest()
    await desk.answer(HookAsk(kind="waiting", tool=""))
    await desk._tell_rest()
    assert told() == ["NEEDS_YOU", "NEEDS_YOU"]


A_WEEK = 7 * 24 * 3600


@pytest.mark.parametrize("wait_seconds", [1, 3600])
def test_no_program_stops_waiting_for_its_hook_during_a_pause(wait_seconds):
    place = CliPlace(home="/h", cwd="/c", checkout="/c", program="/p", wait_seconds=wait_seconds)
    [(_, managed)] = claude.launch(place).managed
    told = [each["hooks"][0]["timeout"] for [each] in json.loads(managed)["hooks"].values()]
    told += [each["hooks"][0]["timeout"] / 1000 for [each] in gemini.settings(place)["hooks"].values()]
    hooks = tomllib.loads(codex.requirements(place))["hooks"]
    told += [hooks[event][0]["hooks"][0]["timeout"] for event in hooks if event != "managed_dir"]
    assert len(told) == 15
    assert min(told) >= A_WEEK
    assert max(told) * 1000 < 2**31  # a longer timer of Node's would end at once


@pytest.mark.slow
def test_open_session_is_listed_however_many_ended_since(world):
    first = row_of(world)
    for _ in range(31):
        over = row_of(world).session_id
        world.app.db.write_now(lambda tx, over=over: move(tx, world.app.clock, over, "FAILED", code="LOST"))
    listed = [each["session_id"] for each in json.loads(run(world.sample, "session", "list", "--json").stdout)]
    assert (listed[0], len(listed)) == (first.session_id, 31)


@pytest.mark.parametrize(
    ("tool", "args", "category"),
    [
        ("session_command", partial(SessionCommandArgs, command="ls"), "command"),
        ("session_write", partial(SessionWriteArgs, paths=("a.txt",)), "write"),
    ],
)
def test_policy_can_ask_before_every_command_or_write(world, tool, args, category):
    for asked, verdict in (((), "allow"), (("merge", category), "ask")):
        row = row_of(world, policy={"shell_allowlist": ["ls"], "requires_approval_for": asked})
        assert world.app.tools[tool].touches(args(row.session_id)).permit.verdict == verdict
