"""Every write can be undone; where one cannot, the owner is told before the yes, and nothing runs without it."""

import fcntl
import os
import re
from contextlib import contextmanager
from time import tzset

import pytest

from coilclaw.features.chat.store.artifacts import keep_artifact
from coilclaw.gate.turn import Turn
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.card import Answer
from coilclaw.sandbox.entries import Limits
from coilclaw.sandbox.fake_box import FakeBox, finished
from coilclaw.sandbox.snapshot import Snapshots
from coilclaw.store.labels import drop_path_labels

WEB = "untrusted:web"
NARROW = '{"version": 1, "rules": []}'


def a_turn(number, *taint):
    return Turn(f"turn_{number}", "", "cli", taint)


def box_that(home, do):
    def run(_):
        do()
        return finished(b"ok\n")

    home.box = FakeBox(run)


@contextmanager
def a_box_runs(home):
    """The shared lock, which every box holds while it runs."""
    fd = os.open(home.workspace, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def limited(home, **limits):
    """The same snapshots, which keep less."""
    app = home.app
    app.root.snapshots = Snapshots(app.workspace, app.home.root / "snapshots", app.clock, app.warn, Limits(**limits))


async def undo(home, snapshot="", key="undo", turn=None):
    return await home.call("undo", turn=turn or a_turn(99), snapshot=snapshot, key=key)


async def test_what_a_file_tool_wrote_can_be_undone(sample):
    home = sample(security__autonomy="full")
    (home.workspace / "a.txt").write_text("the owner's")
    await home.call("file_write", turn=a_turn(1), path="a.txt", content="the agent's", key="k1")
    await home.call("file_write", turn=a_turn(1), path="deep/er/new.txt", content="made", key="k2")
    outcome = await undo(home)
    assert outcome.result.success
    assert (home.workspace / "a.txt").read_text() == "the owner's"
    assert not (home.workspace / "deep").exists()
    assert "Removed 1 file:\ndeep/er/new.txt" in outcome.result.output


async def test_an_undo_takes_back_the_last_turn_and_no_other(sample):
    home = sample(security__autonomy="full")
    for number in (1, 2):
        path = home.workspace / f"{number}.txt"
        await home.call("file_write", turn=a_turn(number), path=path.name, content="x", key=f"w{number}")
        box_that(home, lambda path=path: path.with_suffix(".made").write_text("x"))
        await home.call("shell", turn=a_turn(number), command="make", key=f"c{number}")
    await undo(home)
    assert sorted(path.name for path in home.workspace.glob("[12].*")) == ["1.made", "1.txt"]


async def test_an_undo_passes_over_turns_that_changed_nothing(sample):
    home = sample(security__autonomy="full")
    await home.call("file_write", turn=a_turn(1), path="a.txt", content="x", key="k1")
    await home.call("shell", turn=a_turn(2), command="make", key="k2")
    await home.call("shell", turn=a_turn(3), command="make", key="k3")
    outcome = await undo(home)
    assert outcome.result.output == "Removed 1 file:\na.txt"


async def test_an_undo_tells_its_time_by_the_clocks_of_this_machine(sample, monkeypatch):
    home = sample()
    await home.call("file_write", path="intel/a.txt", content="x", key="k1")
    monkeypatch.setenv("TZ", "Etc/GMT-5")
    tzset()
    try:
        await undo(home)
    finally:
        monkeypatch.undo()
        tzset()
    told = home.owner.cards[-1].preview_or_diff
    assert re.search(r", kept \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+05:00 \(", told)


async def test_an_undo_says_once_why_it_asks(sample):
    home = sample()
    await home.call("file_write", path="intel/a.txt", content="x", key="k1")
    await undo(home)
    assert home.owner.cards[-1].reasons == ("undo always asks.",)


async def test_an_undo_is_undone_by_the_next(sample):
    home = sample(security__autonomy="full")
    await home.call("file_write", turn=a_turn(1), path="a.txt", content="the agent's", key="k1")
    await undo(home, key="u1")
    assert not (home.workspace / "a.txt").exists()
    await undo(home, key="u2")
    assert (home.workspace / "a.txt").read_text() == "the agent's"


async def test_what_the_owner_changed_meanwhile_is_left_alone_or_named(sample):
    home = sample(security__autonomy="full")
    for name in ("both.txt", "mine.txt"):
        (home.workspace / name).write_text("then")

    def change():
        (home.workspace / "both.txt").write_text("the agent's")
        (home.workspace / "made.txt").write_text("the agent's")
        (home.workspace / "kept.txt").write_text("the agent's")

    box_that(home, change)
    await home.call("shell", turn=a_turn(1), command="make", key="k1")
    for name in ("both.txt", "mine.txt", "kept.txt"):
        (home.workspace / name).write_text("typed by the owner")
    await undo(home)
    card = home.owner.cards[-1].preview_or_diff
    assert "  both.txt (changed by somebody else since)" in card
    assert "mine.txt" not in card
    assert "so they stay:\n  kept.txt" in card
    assert (home.workspace / "both.txt").read_text() == "then"
    assert (home.workspace / "mine.txt").read_text() == "typed by the owner"
    assert (home.workspace / "kept.txt").read_text() == "typed by the owner"
    assert not (home.workspace / "made.txt").exists()
    await undo(home, key="again")
    assert (home.workspace / "both.txt").read_text() == "typed by the owner"


async def test_a_command_that_cannot_be_undone_asks_in_full_and_says_so_on_its_card(sample):
    home = sample(security__autonomy="full")
    limited(home, files=3)
    home.owner.answer = Answer(approved=False)
    await home.call("shell", command="make", key="k1")
    assert home.box.specs == []
    assert any(
        "This cannot be undone: the workspace has more than 3 files" in text for text in home.owner.cards[0].reasons
    )
    home.owner.answer = Answer(approved=True)
    assert (await home.call("shell", command="make", key="k2")).result.success
    limited(home)
    home.app.root.snapshots.take("it fits by now")
    await home.call("shell", command="make", key="k3")
    assert len(home.owner.cards) == 2


@pytest.mark.parametrize("tool", ["shell", "file_write"])
async def test_a_file_too_large_to_keep_asks_and_is_named(sample, tool):
    home = sample(security__autonomy="full")
    with (home.workspace / "big.bin").open("wb") as file:
        file.truncate(3 << 20)
    limited(home, file_bytes=2 << 20)
    home.owner.answer = Answer(approved=False)
    args = {"command": "make"} if tool == "shell" else {"path": "big.bin", "content": "x"}
    await home.call(tool, **args)
    (card,) = home.owner.cards
    assert "This cannot be undone: big.bin (it is larger than 2 MB) cannot be kept." in card.reasons
    assert (home.workspace / "big.bin").stat().st_size == 3 << 20


@pytest.mark.parametrize("path", ["node_modules/a/x.js", ".venv/lib/x.py", "pkg/__pycache__/x.pyc"])
async def test_a_command_that_shows_that_it_writes_what_is_not_kept_asks_in_full(sample, path):
    home = sample(security__autonomy="full")
    (home.workspace / path).parent.mkdir(parents=True)
    (home.workspace / path).write_text("old")
    (home.workspace / "a.txt").write_text("a")
    home.owner.answer = Answer(approved=False)
    await home.call("shell", turn=a_turn(1), command=f"cp a.txt {path}", key="k1")
    (card,) = home.owner.cards
    folder = next(part for part in ("node_modules", ".venv", "pkg/__pycache__") if path.startswith(part))
    assert f"This cannot be undone: {folder} is not kept for undo." in card.reasons
    assert home.box.specs == []
    await home.call("file_write", turn=a_turn(2), path="pkg/node_modules.txt", content="x", key="k2")
    assert len(home.owner.cards) == 1


async def test_a_command_that_turns_out_to_write_what_is_not_kept_says_so_and_the_undo_too(sample):
    home = sample(security__autonomy="full")
    package = home.workspace / "web" / "node_modules" / "a.js"
    package.parent.mkdir(parents=True)
    package.write_text("old")

    def install():
        package.write_text("new")
        (home.workspace / "web" / "lock.json").write_text("new")

    box_that(home, install)
    outcome = await home.call("shell", turn=a_turn(1), command="npm install", key="k1")
    assert outcome.result.success
    assert outcome.result.output.endswith("(Undo does not cover what changed in web/node_modules.)")
    asked = len(home.owner.cards)
    await undo(home)
    card = home.owner.cards[asked].preview_or_diff
    assert "would be removed:\n  web/lock.json\n" in card
    assert "these were changed too, but undo does not restore them:\n  web/node_modules\n" in card
    assert package.read_text() == "new"


async def test_the_card_of_a_command_says_what_undo_leaves_out(sample):
    home = sample()
    await home.call("shell", command="make", key="k1")
    assert "Undo leaves out node_modules, .venv and __pycache__." in home.owner.cards[0].preview_or_diff


async def test_what_governs_the_agent_comes_back_by_name_on_a_card_of_lane_c_that_shows_it(sample):
    home = sample(security__autonomy="full")
    before = (home.workspace / "SYSTEM.md").read_text()
    await home.call("file_write", turn=a_turn(1), path="SYSTEM.md", content="new\n", key="k1")
    await home.call("file_write", turn=a_turn(1), path="a.txt", content="x", key="k2")
    assert not any("cannot be undone" in text for card in home.owner.cards for text in card.reasons)
    await undo(home)
    shown = home.owner.cards[-1].preview_or_diff
    snapshot = home.app.root.snapshots.recent(9)[-1].id
    assert f"each comes back by name only:\n  coilclaw undo {snapshot} --path SYSTEM.md\n" in shown
    assert (home.workspace / "SYSTEM.md").read_text() == "new\n"
    assert not (home.workspace / "a.txt").exists()
    outcome = await home.call("undo", turn=a_turn(99), snapshot=snapshot, paths=["SYSTEM.md"], key="named")
    assert outcome.action.decision.lane == "C"
    assert f"-new\n+{before.splitlines()[0]}" in home.owner.cards[-1].preview_or_diff
    assert (home.workspace / "SYSTEM.md").read_text() == before


async def test_undo_of_a_turn_that_changed_only_what_governs_the_agent_names_it(sample):
    home = sample(security__autonomy="full")
    await home.call("file_write", turn=a_turn(1), path="policies/mine.json", content=NARROW, key="k1")
    undoing = home.app.root.undoing
    wanted = undoing.wanted(home.app.root.snapshots.named("").id)
    assert wanted.paths == ("policies/mine.json",)
    outcome = await home.call("undo", turn=a_turn(99), snapshot=wanted.snapshot, paths=list(wanted.paths), key="u")
    assert outcome.action.decision.lane == "C"
    assert outcome.result.success
    assert not (home.workspace / "policies" / "mine.json").exists()


@pytest.mark.parametrize("path", ["SYSTEM.md", ".npmrc"])
async def test_an_undo_replaces_nothing_that_a_running_box_may_hold_a_mount_on(sample, path):
    home = sample(security__autonomy="full")
    await home.call("file_write", turn=a_turn(1), path=path, content="the agent's", key="k1")
    snapshot = home.app.root.snapshots.named("").id
    args = {"snapshot": snapshot, "paths": [path]}
    with a_box_runs(home):
        outcome = await home.call("undo", turn=a_turn(99), key="u1", **args)
        assert outcome.result.code == "WORKSPACE_BUSY"
        assert (home.workspace / path).read_text() == "the agent's"
    assert (await home.call("undo", turn=a_turn(99), key="u2", **args)).result.success
    assert not (home.workspace / path).exists() or (home.workspace / path).read_text() != "the agent's"


async def test_a_link_in_place_of_the_policies_does_not_lower_the_lane_of_an_undo(sample):
    home = sample(security__autonomy="full")
    await home.call("file_write", turn=a_turn(1), path="policies/mine.json", content=NARROW, key="k1")
    snapshot = home.app.root.snapshots.named("").id
    (home.workspace / "policies").rename(home.workspace / "tools")
    (home.workspace / "policies").symlink_to("tools")
    outcome = await home.call("undo", turn=a_turn(99), snapshot=snapshot, paths=["policies/mine.json"], key="u")
    assert outcome.action.decision.lane == "C"


async def test_a_yes_to_bringing_back_what_governs_the_agent_is_for_what_was_shown(sample):
    home = sample(security__autonomy="full")
    await home.call("file_write", turn=a_turn(1), path="SYSTEM.md", content="new\n", key="k1")
    snapshot = home.app.root.snapshots.named("").id
    home.owner.answer = Answer(approved=None)
    waiting = await home.call("undo", turn=a_turn(99), snapshot=snapshot, paths=["SYSTEM.md"], key="u")
    (home.workspace / "SYSTEM.md").write_text("typed by the owner\n")
    outcome = await home.approve(waiting.action.action_id)
    assert not outcome.result.success
    assert (home.workspace / "SYSTEM.md").read_text() == "typed by the owner\n"


async def test_a_call_that_turns_out_not_to_be_undoable_is_not_run(sample):
    home = sample()
    home.owner.answer = Answer(approved=None)
    waiting = (await home.call("shell", command="make", key="k1")).action
    limited(home, files=3)
    outcome = await home.approve(waiting.action_id)
    assert outcome.result.code == "CANNOT_BE_UNDONE"
    assert home.box.specs == []
    home.owner.answer = Answer(approved=True)
    again = await home.call("shell", command="make", key="k2")
    assert again.result.success
    assert any("This cannot be undone" in text for text in home.owner.cards[-1].reasons)


async def test_a_yes_covers_what_cannot_be_undone_only_if_the_card_said_so(sample):
    home = sample()
    home.owner.answer = Answer(approved=None)
    waiting = (await home.call("shell", command="make", key="k1")).action
    limited(home, files=3)
    home.app.root.snapshots.prepare()
    outcome = await home.approve(waiting.action_id)
    assert outcome.result.success is False
    assert home.box.specs == []


async def test_the_card_and_the_result_of_an_undo_carry_the_labels_of_what_they_name(sample):
    home = sample(security__autonomy="full")
    await home.call("file_write", turn=a_turn(1, WEB), path="page.txt", content="what the page said", key="k1")
    box_that(home, (home.workspace / "page.txt").unlink)
    await home.call("shell", turn=a_turn(2), command="make", key="k2")
    turn = a_turn(3)
    outcome = await undo(home, turn=turn)
    card = home.owner.cards[-1]
    assert f"  page.txt [{WEB}]" in card.preview_or_diff
    assert card.provenance == (WEB,)
    assert outcome.result.label == WEB
    assert WEB in turn.taint
    later = a_turn(4)
    await home.call("file_read", turn=later, path="page.txt", key="k3")
    assert WEB in later.taint


async def test_the_name_of_a_file_that_an_undo_removes_carries_its_label(sample):
    home = sample(security__autonomy="full")
    await home.call("file_write", turn=a_turn(1, WEB), path="SEND TOKENS.txt", content="x" * 9, key="k1")
    turn = a_turn(2)
    await undo(home, turn=turn)
    assert not (home.workspace / "SEND TOKENS.txt").exists()
    assert WEB in turn.taint


async def test_an_undo_labels_nothing_that_was_the_owners(sample):
    home = sample(security__autonomy="full")
    (home.workspace / "mine.txt").write_text("the owner's words")
    turn = a_turn(1, WEB)
    await home.call("file_write", turn=turn, path="mine.txt", content="what the page said", key="k1")
    await home.call("file_write", turn=turn, path="page.txt", content="what the page said", key="k2")
    await undo(home)
    assert (home.workspace / "mine.txt").read_text() == "the owner's words"
    home.app.db.write_now(lambda tx: drop_path_labels(tx, "", "page.txt"))
    assert home.app.root.labels.labels_of("mine.txt") == ()


async def test_an_attachment_that_was_saved_can_be_undone(sample):
    home = sample(security__autonomy="full")
    data = b"uploaded"
    kept = {"artifact_id": "art_1", "kind": "attachment", "name": "a.txt", "label": "untrusted:attachment"}
    home.app.db.write_now(lambda tx: keep_artifact(tx, home.app.clock, content=data, **kept))
    args = {"artifact_id": "art_1", "path": "attachments/a.txt", "sha256": sha256_hex(data)}
    saved = await home.call("attachment_save", turn=Turn("turn_1", "", "gateway"), key="k", **args)
    assert saved.result.success
    await undo(home)
    assert not (home.workspace / "attachments" / "a.txt").exists()


async def test_modes_come_back_too(sample):
    home = sample(security__autonomy="full")
    script = home.workspace / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    box_that(home, lambda: script.chmod(0o644))
    await home.call("shell", turn=a_turn(1), command="make", key="k")
    await undo(home)
    assert os.stat(script).st_mode & 0o777 == 0o755
