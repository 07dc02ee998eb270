"""What a card shows is what runs, and nothing in it can hide, move or push anything else."""

import pytest

from coilclaw.cli.card_text import describe
from coilclaw.packets.card import Answer
from coilclaw.store.actions import load_action


@pytest.fixture
def home(sample):
    made = sample()
    made.owner.answer = Answer(approved=None)
    return made


async def card_of(home, tool, **args):
    outcome = await home.call(tool, key=f"k{len(home.events)}", **args)
    return home.conveyor().intake.card(load_action(home.app.db.reader, outcome.action.action_id))


@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\r"])
async def test_a_character_that_some_take_for_a_line_break_is_a_change(home, character):
    (home.workspace / "run.sh").write_bytes(f"echo safe # {character}rm -r data".encode())
    card = await card_of(home, "file_write", path="run.sh", content="echo safe # \nrm -r data")
    assert "+rm -r data" in card.preview_or_diff
    assert "no change" not in card.preview_or_diff


async def test_bytes_that_are_no_text_never_look_like_text(home):
    (home.workspace / "a.txt").write_bytes(b"\xff")
    card = await card_of(home, "file_write", path="a.txt", content="\ufffd")
    assert "-\\xff" in card.preview_or_diff
    same = await card_of(home, "file_write", path="a.txt", content="x")
    (home.workspace / "a.txt").write_bytes(b"x")
    assert "no change" not in same.preview_or_diff


async def test_a_large_file_that_is_replaced_does_not_look_like_a_new_one(home):
    (home.workspace / "big.txt").write_bytes(b"x" * (2 << 20))
    card = await card_of(home, "file_write", path="big.txt", content="small")
    assert card.preview_or_diff == ("big.txt: 2097152 bytes are replaced by 5 (too large to compare here):\nsmall")


async def test_a_long_line_is_on_the_card_to_its_end(home):
    command = "ls " + " " * 100_000 + "; touch x"
    card = await card_of(home, "shell", command=command)
    assert command in card.preview_or_diff
    assert command in describe(card)


async def test_a_long_command_is_on_the_card_with_its_middle(home):
    command = "\n".join([*["echo a"] * 200, "mv data gone", *["echo b"] * 200])
    card = await card_of(home, "shell", command=command)
    assert command in card.preview_or_diff


async def test_the_summary_of_a_command_says_that_there_is_more(home):
    card = await card_of(home, "shell", command="ls\ntouch x\n\ntouch y")
    assert card.human_summary == "Run `ls … (2 more lines)`."


async def test_a_command_that_asks_for_more_time_says_so_on_its_card(home):
    card = await card_of(home, "shell", command="make", timeout_seconds=1800)
    assert card.human_summary == "Run `make` for up to 30 minutes."
    assert "may run up to 30 minutes" in card.preview_or_diff
    usual = await card_of(home, "shell", command="make")
    assert "up to" not in f"{usual.human_summary}{usual.preview_or_diff}"
    assert card.digest != usual.digest


async def test_a_file_the_owner_edited_before_looking_at_the_card_is_no_surprise(home):
    (home.workspace / "a.txt").write_text("one\n")
    waiting = (await home.call("file_write", key="k", path="a.txt", content="three\n")).action
    (home.workspace / "a.txt").write_text("two\n")
    conveyor = home.conveyor()
    card = conveyor.intake.card(load_action(home.app.db.reader, waiting.action_id))
    assert "-two" in card.preview_or_diff
    approvals = home.app.approvals(conveyor)
    approved = await approvals.approve(waiting, by="terminal", digest=card.digest, seen=card.seen)
    assert (await conveyor.execute(approved)).result.success
    assert (home.workspace / "a.txt").read_text() == "three\n"


async def test_a_file_that_was_swapped_only_while_the_card_was_shown_is_not_overwritten(home):
    (home.workspace / "a.txt").write_text("precious\n")
    waiting = (await home.call("file_write", key="k", path="a.txt", content="new\n")).action
    (home.workspace / "a.txt").write_text("new\n")
    conveyor = home.conveyor()
    card = conveyor.intake.card(waiting)
    assert card.preview_or_diff == "(no change: the file has exactly this content already)"
    (home.workspace / "a.txt").write_text("precious\n")
    approved = await home.app.approvals(conveyor).approve(waiting, by="terminal", digest=card.digest, seen=card.seen)
    refused = await conveyor.execute(approved)
    assert refused.result.code == "DIGEST_CHANGED"
    assert (home.workspace / "a.txt").read_text() == "precious\n"


async def test_a_read_that_was_approved_reads_where_it_led_when_it_was_shown(sample):
    home = sample(security__autonomy="full", security__workspace_only=False)
    home.owner.answer = Answer(approved=None)
    outside = home.folder / "outside"
    outside.mkdir()
    (outside / "ok.txt").write_text("fine")
    (outside / "private.txt").write_text("secret words")
    link = home.workspace / "link.txt"
    link.symlink_to(outside / "ok.txt")
    waiting = await home.call("file_read", key="r", path="link.txt")
    assert waiting.pending
    link.unlink()
    link.symlink_to(outside / "private.txt")
    refused = await home.approve(waiting.action.action_id)
    assert refused.result.code == "DIGEST_CHANGED"
    assert "secret words" not in refused.result.output


async def test_an_approved_read_is_on_record_with_who_said_yes(sample):
    home = sample(security__autonomy="full", security__workspace_only=False)
    (home.folder / "ok.txt").write_text("fine")
    home.owner.answer = Answer(approved=True, by="--yes")
    outcome = await home.call("file_read", path=str(home.folder / "ok.txt"))
    assert outcome.result.success
    stored = load_action(home.app.db.reader, outcome.action.action_id)
    assert stored.approved_by == "--yes"
    events = home.app.db.reader.execute("SELECT event_type FROM audit_log ORDER BY seq").fetchall()
    assert "tool_approved" in [row[0] for row in events]


async def test_ctrl_c_at_the_prompt_is_an_answer(home):
    import asyncio

    asked = asyncio.Event()

    async def slow(card):
        asked.set()
        await asyncio.sleep(60)

    conveyor = home.app.conveyor(slow)
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import ToolCall

    turn = Turn("t", "", "cli")
    action = conveyor.intake.propose(ToolCall.of("file_write", {"path": "x", "content": "x"}), turn, "k")
    task = asyncio.ensure_future(conveyor.carry(action, turn, stored=False))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert home.statuses() == ["REJECTED"]
    assert home.receipts()[0].code == "OWNER_REFUSED"


async def test_the_lines_of_a_card_are_the_lines_of_the_file(home):
    card = await card_of(home, "file_write", path="new.txt", content="bread\nmilk\n")
    assert card.preview_or_diff == "--- /dev/null\n+++ new.txt\n@@ -0,0 +1,2 @@\n+bread\n+milk"
    (home.workspace / "a.txt").write_text("bread\nmilk\n")
    card = await card_of(home, "file_write", path="a.txt", content="bread\nmilk")
    assert card.preview_or_diff.endswith("-milk\n+milk\n\\ No line break at the end of the file")
    card = await card_of(home, "file_write", path="a.txt", content="bread\nmilk\0\n")
    assert "No line break" not in card.preview_or_diff
    card = await card_of(home, "file_write", path="none.txt", content="")
    assert card.preview_or_diff == "none.txt: a new, empty file"


async def test_nothing_is_left_out_of_a_difference(home):
    (home.workspace / "a.txt").write_text("".join(f"old {number}\n" for number in range(1500)))
    content = "".join(f"new {number}\n" for number in range(1000)) + "x" * 5000
    lines = (await card_of(home, "file_write", path="a.txt", content=content)).preview_or_diff.split("\n")
    assert [line for line in lines[3:] if line.startswith("-")] == [f"-old {number}" for number in range(1500)]
    assert [line[1:] for line in lines[3:] if line.startswith("+")] == content.split("\n")


async def test_an_undo_names_every_file_that_would_come_back(home):
    (home.workspace / "a.txt").write_text("then\n")
    (home.workspace / "gone.txt").write_text("then\n")
    home.app.root.snapshots.take("before `ls`")
    assert "Nothing was deleted or changed" in (await card_of(home, "undo")).preview_or_diff
    (home.workspace / "a.txt").write_text("the owner's own line\n")
    (home.workspace / "gone.txt").unlink()
    (home.workspace / "new.txt").write_text("stays\n")
    card = await card_of(home, "undo")
    assert "before `ls`" in card.preview_or_diff
    assert "\n  a.txt\n  gone.txt\n" in card.preview_or_diff
    assert "new.txt" not in card.preview_or_diff


async def test_an_undo_that_would_bring_back_more_than_was_shown_is_not_done(home):
    (home.workspace / "a.txt").write_text("then\n")
    (home.workspace / "b.txt").write_text("then\n")
    home.app.root.snapshots.take("first")
    (home.workspace / "a.txt").write_text("now\n")
    waiting = (await home.call("undo", key="k")).action
    (home.workspace / "b.txt").write_text("typed since\n")
    outcome = await home.approve(waiting.action_id)
    assert outcome.result.success is False
    assert (home.workspace / "b.txt").read_text() == "typed since\n"
    assert (home.workspace / "a.txt").read_text() == "now\n"


async def test_an_undo_without_a_snapshot_says_so(home):
    assert "no such snapshot" in (await card_of(home, "undo", snapshot="snap_none")).preview_or_diff
