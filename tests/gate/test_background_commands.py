"""Commands in the background: one claim, one receipt when they end, and whoever started them goes on meanwhile."""

import asyncio
import contextlib
import signal
from pathlib import Path

import pytest

from coilclaw.gate.background import MOST, SHOWN
from coilclaw.gate.turn import Turn
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.fake_box import FakeBox, finished
from coilclaw.store.actions import load_action, result_of
from coilclaw.store.threads import ensure_thread, turn_messages
from tests import forked
from tests.held_box import HeldBox
from tests.home import Sample


def chat(thread="conv_1", turn="turn_1"):
    return Turn(turn, thread, "chat")


def prepared(home):
    home.box = HeldBox()
    for thread in ("conv_1", "conv_2"):
        home.app.db.write_now(lambda tx, thread=thread: ensure_thread(tx, home.app.clock, thread, "cli", thread))
    return home


@pytest.fixture
def home(sample):
    return prepared(sample(security__autonomy="full", security__allowed_domains=["example.com"]))


async def begun(home, turn=None, **args):
    """A command in the background that has begun to run; its handle."""
    home.box.started.clear()
    outcome = await home.call("shell", turn=turn or chat(), background=True, **{"command": "make", **args})
    assert outcome.running, outcome.result
    await home.box.started.wait()
    return outcome.action.action_id


async def ended(home):
    home.box.let_end.set()
    await home.app.background.wait()


def stands(home, action_id):
    return load_action(home.app.db.reader, action_id)


def receipts_of(home, action_id):
    return [(each.status, each.code) for each in home.receipts() if each.action_id == action_id]


# Its life


async def test_it_is_claimed_at_once_and_has_its_receipt_when_it_ends(home):
    outcome = await home.call("shell", turn=chat(), command="make", background=True)
    handle = outcome.action.action_id
    assert (outcome.running, outcome.pending, outcome.receipt) == (True, False, None)
    assert handle in outcome.result.output
    await home.box.started.wait()
    assert (stands(home, handle).status, stands(home, handle).begun) == ("APPROVED", True)
    assert receipts_of(home, handle) == []
    await ended(home)
    assert stands(home, handle).status == "EXECUTED"
    assert receipts_of(home, handle) == [("allowed", "ALLOWED")]
    assert result_of(home.app.db.reader, handle).stdout == "built\n"
    assert home.app.background.here == ()


async def test_failing_command_has_the_receipt_it_would_have_had_in_the_foreground(home):
    home.box.result = finished(b"", exit_code=2, stderr=b"no rule\n")
    handle = await begun(home)
    await ended(home)
    assert receipts_of(home, handle) == [("failed", "EXIT_NONZERO")]
    assert result_of(home.app.db.reader, handle).exit == 2


async def test_its_conversation_is_told_that_it_runs_and_later_that_it_ended(home):
    from coilclaw.agent.context import chat_messages

    turn = chat()
    conveyor = home.conveyor()
    from coilclaw.packets.action import ToolCall

    action = conveyor.intake.propose(ToolCall.of("shell", {"command": "make", "background": True}), turn, "k1")
    told = []
    await conveyor.carry(action, turn, stored=False, record=lambda _, result: told.append(result.code))
    assert told == ["RUNNING"]
    await ended(home)
    (row,) = turn_messages(home.app.db.reader, "conv_1", "turn_1", 10)
    assert (row.role, row.action_id, row.label) == ("system", action.action_id, "internal")
    assert "ended in the background (exit 0)" in row.content
    assert "built" not in row.content
    assert "ended in the background" in chat_messages([row])[-1].content


async def test_what_it_made_is_inspected_and_can_be_undone(home):
    (home.workspace / "a.txt").write_text("before")
    handle = await begun(home)
    (home.workspace / "a.txt").write_text("after")
    (home.workspace / ".git2").mkdir()
    (home.workspace / "sub").mkdir()
    (home.workspace / "sub" / ".git").mkdir()
    (home.workspace / "sub" / ".git" / "HEAD").write_text("ref: refs/heads/x\n")
    await ended(home)
    assert receipts_of(home, handle) == [("failed", "REPOSITORY_MADE")]
    assert not (home.workspace / "sub" / ".git").exists()
    await home.call("undo", turn=chat(turn="turn_2"), snapshot="")
    assert (home.workspace / "a.txt").read_text() == "before"


async def test_approval_binds_that_it_runs_in_the_background(sample):
    home = prepared(sample())
    home.owner.answer = Answer(approved=None)
    one = await home.call("shell", turn=chat(), key="k1", command="make")
    other = await home.call("shell", turn=chat(), key="k2", command="make", background=True)
    assert one.action.digest != other.action.digest
    card = home.owner.cards[-1]
    assert "in the background for up to 30 minutes" in card.human_summary
    assert "runs in the background, up to 30 minutes" in card.preview_or_diff


async def test_what_was_approved_later_runs_in_the_background_of_whoever_carries_it_out(sample):
    home = prepared(sample())
    home.owner.answer = Answer(approved=None)
    waiting = await home.call("shell", turn=chat(), command="make", background=True)
    outcome = await home.approve(waiting.action.action_id)
    assert outcome.running
    await home.box.started.wait()
    await ended(home)
    assert stands(home, waiting.action.action_id).status == "EXECUTED"


async def test_standing_answer_for_a_command_does_not_cover_it_in_the_background(sample):
    from coilclaw.packets.card import FromNowOn

    home = prepared(sample())
    home.box.let_end.set()
    home.owner.answer = Answer(
        approved=True, from_now_on=FromNowOn(what="command", until="conversation"), by="terminal"
    )
    await home.call("shell", turn=chat(), key="k1", command="make x")
    asked = len(home.owner.cards)
    home.owner.answer = Answer(approved=False)
    assert (await home.call("shell", turn=chat(), key="k2", command="make x")).result.success
    assert len(home.owner.cards) == asked
    refused = await home.call("shell", turn=chat(), key="k3", command="make x", background=True)
    assert (len(home.owner.cards), refused.result.code) == (asked + 1, "OWNER_REFUSED")


async def test_readonly_denies_it(sample):
    home = prepared(sample(security__autonomy="readonly"))
    outcome = await home.call("shell", turn=chat(), command="make", background=True)
    assert outcome.receipt.status == "denied"
    assert home.box.specs == []


async def test_command_that_only_reads_is_claimed_too(sample):
    home = prepared(sample(security__autonomy="readonly"))
    handle = await begun(home, command="git status")
    assert stands(home, handle).begun
    await ended(home)
    assert stands(home, handle).status == "EXECUTED"


@pytest.mark.parametrize("turn", [Turn("turn_1", "", "cli"), Turn("turn_1", "conv_1", "sop")])
async def test_where_nobody_could_ask_for_it_it_runs_in_the_foreground(home, turn):
    home.box.let_end.set()
    outcome = await home.call("shell", turn=turn, command="make", background=True)
    assert outcome.receipt.status == "allowed"


# Bounds


async def test_conversation_has_so_many_at_a_time(home):
    for number in range(MOST):
        await begun(home, command=f"make {number}")
    refused = await home.call("shell", turn=chat(), command="make more", background=True)
    assert (refused.receipt.status, refused.receipt.code) == ("denied", "TOO_MANY_COMMANDS")
    assert len(home.box.specs) == MOST
    await begun(home, turn=chat("conv_2"))
    await ended(home)
    await begun(home, command="make more")
    await ended(home)


async def test_foreground_command_and_file_tools_do_not_wait_for_it(home):
    handle = await begun(home)
    background, home.box = home.box, FakeBox()
    assert (await home.call("shell", turn=chat(), key="k2", command="make")).result.success
    assert (await home.call("file_write", turn=chat(), key="k3", path="a.txt", content="x")).result.success
    assert stands(home, handle).status == "APPROVED"
    background.let_end.set()
    await home.app.background.wait()
    assert stands(home, handle).status == "EXECUTED"


async def test_its_owner_is_told_that_it_runs_and_sees_its_output_in_no_other_call(home, capsys):
    from coilclaw.cli.event_words import event_words
    from coilclaw.features.chat.turn_view import shown

    events = []
    home.app.watchers.append(lambda name, fields: events.append(event_words(name, fields)))
    with shown(home.app, "conv_1"):
        handle = await begun(home)
        assert home.app.commands.in_background(handle)
        home.app.commands._running[handle][1]._flush()
        await ended(home)
    assert "… in the background: run `make`" in events
    assert "half" not in capsys.readouterr().out


async def test_step_of_a_job_is_not_held_up_by_its_background_commands(home):
    await begun(home)
    assert not home.app.commands.of_job("job_1")
    ((_, _, aside),) = home.app.commands._running.values()
    assert aside
    await ended(home)


# Its state


async def test_status_shows_what_it_wrote_so_far_and_how_it_ended(home):
    handle = await begun(home)
    home.app.commands._running[handle][1]._flush()
    running = await home.call("command_status", turn=chat(), key="s1", handle=handle)
    assert running.result.success
    assert "is running for" in running.result.output
    assert running.result.output.endswith("half\n")
    await ended(home)
    over = await home.call("command_status", turn=chat(), key="s2", handle=handle)
    assert "has ended" in over.result.output
    assert "exit 0" in over.result.output
    assert "built" in over.result.output


async def test_status_waits_for_the_end(home):
    handle = await begun(home)
    asyncio.get_running_loop().call_later(0.05, home.box.let_end.set)
    outcome = await home.call("command_status", turn=chat(), handle=handle, wait_seconds=60)
    assert "has ended" in outcome.result.output


async def test_flood_of_escapes_without_a_newline_is_shown_bounded(home):
    home.box.writes = b"\x1b[2J" * (1 << 20)
    handle = await begun(home)
    home.app.commands._running[handle][1]._flush()
    outcome = await home.call("command_status", turn=chat(), handle=handle)
    assert len(outcome.result.output) < SHOWN + 200
    assert "\x1b" not in outcome.result.output
    assert "bytes left out]" in outcome.result.output
    await ended(home)


@pytest.mark.parametrize("tool", ["command_status", "command_stop"])
async def test_handle_of_another_conversation_is_refused(home, tool):
    handle = await begun(home)
    home.app.commands._running[handle][1]._flush()
    outcome = await home.call(tool, turn=chat("conv_2"), handle=handle)
    assert (outcome.result.success, outcome.result.code) == (False, "NO_SUCH_COMMAND")
    assert "half" not in outcome.result.output
    assert stands(home, handle).status == "APPROVED"
    await ended(home)


async def test_handle_of_a_foreground_command_is_none(home):
    home.box.let_end.set()
    outcome = await home.call("shell", turn=chat(), command="make")
    with pytest.raises(ToolError):
        await home.app.background.status(outcome.action, outcome.action.action_id, 0.0)


async def test_output_of_a_command_with_domains_taints_the_turn_that_reads_it(home):
    home.owner.answer = Answer(approved=True, by="terminal")
    starting = chat()
    handle = await begun(home, turn=starting, command="curl https://example.com", domains=["example.com"])
    assert starting.fresh == ("untrusted:example.com",)  # what it fetches may be in the workspace by now
    later = chat(turn="turn_2")
    outcome = await home.call("command_status", turn=later, key="s1", handle=handle)
    assert outcome.result.label == "untrusted:example.com"
    assert later.fresh == ("untrusted:example.com",)
    await ended(home)
    last = chat(turn="turn_3")
    await home.call("command_status", turn=last, key="s2", handle=handle)
    assert last.fresh == ("untrusted:example.com",)


async def test_secret_it_writes_is_not_shown(home):
    value = "sk-" + "a1B2c3D4e5" * 4
    home.app.redactor.register("TOKEN", value)
    home.box.writes = f"key {value}\n".encode()
    handle = await begun(home)
    home.app.commands._running[handle][1]._flush()
    outcome = await home.call("command_status", turn=chat(), handle=handle)
    assert value not in outcome.result.output
    assert "[redacted" in outcome.result.output
    await ended(home)


# Ending it


async def test_model_ends_it(home):
    handle = await begun(home)
    outcome = await home.call("command_stop", turn=chat(), handle=handle)
    assert outcome.result.success
    assert "CANCELLED" in outcome.result.output
    assert home.box.killed == 1
    assert receipts_of(home, handle) == [("failed", "CANCELLED")]
    again = await home.call("command_stop", turn=chat(), key="k2", handle=handle)
    assert "has ended" in again.result.output


async def test_another_process_ends_it(home, sample):
    handle = await begun(home)
    other = Sample(home.folder, security__autonomy="full")
    try:
        seen = await other.call("command_status", turn=chat(), key="s1", handle=handle)
        assert "in another process" in seen.result.output
        assert await other.app.background.end(handle)
    finally:
        other.close()
    assert home.box.killed == 1
    assert receipts_of(home, handle) == [("failed", "CANCELLED")]
    assert not list(home.home.locks_dir.glob("*.stop"))


async def test_turn_that_is_stopped_ends_what_it_left_running(home):
    handle = await begun(home)
    other = await begun(home, turn=chat(turn="turn_2"))
    await home.app.background.end_turn("turn_1")
    assert [stands(home, each).status for each in (handle, other)] == ["FAILED", "APPROVED"]
    await ended(home)


async def test_estop_ends_it(home):
    handle = await begun(home)
    home.app.estop.engage("now", "test")
    await home.app.background.wait()
    assert home.box.killed == 1
    assert receipts_of(home, handle) == [("unknown", "ESTOP")]


async def test_process_that_ends_takes_it_to_its_receipt(home):
    handle = await begun(home)
    await home.app.background.close()
    assert home.box.killed == 1
    assert receipts_of(home, handle) == [("failed", "CANCELLED")]
    assert await home.conveyor().recover() == []


async def test_command_that_is_ended_before_its_first_step_has_its_receipt(home):
    outcome = await home.call("shell", turn=chat(), command="make", background=True)
    await home.app.background.close()
    assert receipts_of(home, outcome.action.action_id) == [("failed", "CANCELLED")]
    assert home.box.specs == []


@pytest.mark.parametrize("boundary", ["claiming", "begun", "starting", "done", "finishing", "finished"])
async def test_turn_cancelled_at_a_boundary_leaves_one_end_with_its_receipt(home, boundary):
    home.box.let_end.set()
    running = []
    loop = asyncio.get_running_loop()
    home.app.reached = lambda here: here == boundary and loop.call_soon_threadsafe(running[0].cancel)
    running.append(asyncio.ensure_future(home.call("shell", turn=chat(), command="make", background=True)))
    with contextlib.suppress(asyncio.CancelledError):
        await running[0]
    await home.app.background.wait()
    assert len(home.receipts()) == 1
    assert home.statuses()[0] in ("EXECUTED", "FAILED")
    assert await home.conveyor().recover() == []


@pytest.mark.parametrize("boundary", ["starting", "done", "finishing", "finished"])
async def test_command_ended_at_a_boundary_has_one_end_with_its_receipt(home, boundary):
    home.box.let_end.set()
    loop = asyncio.get_running_loop()

    def end():
        for kept in home.app.background._kept.values():
            kept.cut.ask()

    home.app.reached = lambda here: here == boundary and loop.call_soon_threadsafe(end)
    await home.call("shell", turn=chat(), command="make", background=True)
    await home.app.background.wait()
    assert len(home.receipts()) == 1
    assert home.statuses()[0] in ("EXECUTED", "FAILED")
    assert await home.conveyor().recover() == []


# Through a real box


def memory_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
async def test_gigabyte_of_escapes_without_a_newline_is_read_while_it_runs_and_fills_no_memory(sample):
    home = prepared(sample(security__autonomy="full"))
    home.app.open_box = lambda: home.app._box
    before = peak = memory_bytes()
    command = "head -c 1073741824 /dev/zero | tr '\\0' '\\033'"
    outcome = await home.call("shell", turn=chat(), key="k", command=command, background=True)
    handle, number = outcome.action.action_id, 0
    while home.app.background.here:
        number += 1
        seen = await home.call("command_status", turn=chat(), key=f"s{number}", handle=handle, wait_seconds=1)
        assert len(seen.result.output) < SHOWN + 200
        peak = max(peak, memory_bytes())
    result = result_of(home.app.db.reader, handle)
    assert (result.success, result.exit) == (True, 0), result.output[:500]
    assert "bytes left out]" in result.stdout
    assert peak - before < 256 << 20


@pytest.mark.slow
async def test_foreground_command_runs_beside_it_and_what_must_be_written_alone_is_refused_at_once(sample):
    home = prepared(sample(security__autonomy="full"))
    home.app.open_box = lambda: home.app._box
    home.owner.answer = Answer(approved=True, by="terminal")
    outcome = await home.call(
        "shell", turn=chat(), key="k", command="until [ -e go ]; do sleep 0.05; done", background=True
    )
    handle = outcome.action.action_id
    while not list(home.app.commands._running):
        await asyncio.sleep(0.02)
    refused = await home.call("file_write", turn=chat(), key="w", path="SYSTEM.md", content="x")
    beside = await home.call("shell", turn=chat(), key="f", command="echo go > go")
    assert beside.result.success, beside.result.output
    over = await home.call("command_status", turn=chat(), key="s", handle=handle, wait_seconds=30)
    assert "exit 0" in over.result.output
    assert refused.result.code == "WORKSPACE_BUSY"


# When its process dies

DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from coilclaw.store.threads import ensure_thread
from tests.gate.test_background_commands import chat, prepared
from tests.home import Sample

async def run():
    home = prepared(Sample(Path(sys.argv[1]), security__autonomy="full"))
    point = sys.argv[2]
    home.app.reached = lambda here: here == point and os.kill(os.getpid(), signal.SIGKILL)
    await home.call("shell", turn=chat(), command="make", background=True)
    await home.box.started.wait()
    if point != "running":
        home.box.let_end.set()
        await home.app.background.wait()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(run())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "status"),
    [
        ("begun", "FAILED"),
        ("starting", "FAILED"),
        ("running", "UNKNOWN"),
        ("done", "UNKNOWN"),
        ("finished", "EXECUTED"),
    ],
)
async def test_process_that_is_killed_leaves_what_the_next_one_ends(tmp_path, point, status):
    done = forked.script(DIES, str(tmp_path), point)
    assert done.returncode == -signal.SIGKILL, done.stderr
    home = Sample(tmp_path, security__autonomy="full")
    try:
        await home.conveyor().recover()
        assert home.statuses() == [status]
        assert len(home.receipts()) == 1
    finally:
        home.close()


# What comes in while it runs


async def test_what_it_makes_of_content_that_came_in_while_it_ran_is_labelled(home):
    """It could have read the page, written it anew and removed it before it ended."""
    work = home.app.workspace
    (work / "note.txt").write_text("mine\n")
    handle = await begun(home)
    tainted = Turn("turn_2", "conv_2", "chat", ("untrusted:evil.example",))
    assert (await home.call("file_write", turn=tainted, key="w", path="page.txt", content="evil\n")).result.success
    (work / "made.txt").write_text("live\n")
    (work / "page.txt").unlink()
    early = chat(turn="turn_3")
    read = await home.call("file_read", turn=early, key="r1", path="made.txt")
    assert read.result.label == "untrusted:evil.example"  # it may stem from the page already
    await ended(home)
    assert result_of(home.app.db.reader, handle).label == "untrusted:evil.example"
    late = chat(turn="turn_4")
    read = await home.call("file_read", turn=late, key="r2", path="made.txt")
    assert read.result.label == "untrusted:evil.example"
    assert (await home.call("file_read", turn=chat(turn="turn_5"), key="r3", path="note.txt")).result.label == "owner"


async def test_a_command_that_names_no_file_lets_go_of_what_came_in_while_it_ran(home):
    await begun(home, command="sleep 100")
    tainted = Turn("turn_2", "conv_2", "chat", ("untrusted:evil.example",))
    await home.call("file_write", turn=tainted, key="w", path="page.txt", content="evil\n")
    await ended(home)
    (home.app.workspace / "note.txt").write_text("mine\n")
    read = await home.call("file_read", turn=chat(turn="turn_5"), key="r3", path="note.txt")
    assert read.result.label == "owner"
