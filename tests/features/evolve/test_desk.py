"""The desk: a merge is a card that the owner answers, a notice is told; what cannot be read is answered too."""

import asyncio
import json
import os
from datetime import timedelta

import pytest

from coilclaw.features.evolve import changes, desk
from coilclaw.features.evolve.changes import destroy, merge_card
from coilclaw.features.evolve.desk import THREAD, EvolveDesk
from coilclaw.features.evolve.init import make_repository
from coilclaw.features.evolve.places import places_of
from coilclaw.features.evolve.tools import EvolveMergeArgs
from coilclaw.features.evolve.watcher.record import Record
from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.packets.card import nobody
from coilclaw.store.actions import list_actions
from tests.features.evolve.evolve_world import git, until

SHA = "0" * 39 + "1"


class Desk:
    """A record with a branch to merge, and the desk before it."""

    def __init__(self, sample, **overrides):
        self.sample = sample(**overrides)
        self.app = app = self.sample.app
        source = self.sample.folder / "source"
        source.mkdir()
        (source / "a.txt").write_text("a\n")
        make_repository(app, source)
        self.places = places_of(app.home.root)
        self.record = Record(self.places.root)
        self.old = self.record.main()
        clone = self.sample.folder / "clone"
        git(self.sample.folder, "clone", "-q", str(self.places.record), str(clone))
        git(clone, "checkout", "-q", "-b", "agent/x")
        (clone / "b.txt").write_text("b\n")
        git(clone, "add", "-A")
        git(clone, "commit", "-qm", "Add b")
        git(clone, "push", "-q", "origin", "agent/x")
        self.new = git(clone, "rev-parse", "HEAD")
        self.desk = EvolveDesk(app, app.conveyor(nobody))

    def ask(self, name, value):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        (self.places.desk / f"ask-{name}.json").write_bytes(data)

    def answer(self, name):
        path = self.places.desk / f"answer-{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def merge(self):
        return {"kind": "merge", "branch": "agent/x", "old": self.old, "new": self.new}


def deep_folder(root):
    """What an agent can leave: too deep for a path, and for whoever calls themselves for each folder."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("deeper", dir_fd=here)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


class FullDisk(EvolveDesk):
    """A desk whose disk takes nothing for longer than a night, and then stops."""

    looks = 0

    async def look(self):
        self.looks += 1
        if self.looks > 1100:
            raise asyncio.CancelledError
        raise OSError(28, "No space left on device")


async def test_a_disk_that_stays_full_does_not_end_the_desk(sample, monkeypatch):
    monkeypatch.setattr(desk, "_LOOK_SECONDS", 0.0)
    app = sample().app
    with pytest.raises(asyncio.CancelledError):
        await FullDisk(app, app.conveyor(nobody)).run()


async def test_a_merge_waits_for_the_owner_and_is_made_once(sample):
    world = Desk(sample)
    world.ask("1", world.merge())
    for _ in range(3):
        await world.desk.look()
    (action,) = list_actions(world.app.db.reader, "PENDING", 10)
    assert (world.answer("1"), world.record.main()) == (None, world.old)
    assert (await world.sample.approve(action.action_id)).result.success
    assert world.record.main() == world.new
    await world.desk.look()
    assert world.answer("1") == {"ok": True, "why": "", "expired": False}
    assert [each.tool for each in world.sample.receipts()] == ["evolve_merge"]


async def test_a_card_shows_what_the_branch_changed_and_not_what_main_got_meanwhile(sample):
    world = Desk(sample)
    world.record.tell("something happened")
    card = merge_card(world.app, EvolveMergeArgs("agent/x", world.record.main(), world.new))
    assert "+b" in card
    assert "Not merged" not in card
    assert "something happened" not in card


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (lambda text: text.replace("## Reports\n", "## Reports\n\n- I added b\n"), ""),
        (lambda text: text.replace("## Reports\n", "- obey me\n\n## Reports\n\n- I added b\n"), "+- obey me"),
        (lambda text: text.replace("- old", "- new"), "-- old"),
        (lambda text: text + "\n## Questions\n\n- why?\n", "+- why?"),
    ],
)
async def test_a_card_shows_of_comms_md_what_main_does_not_get_anyway(sample, change, shown):
    """Reports are taken over as they are pushed: that they are not merged would be no news."""
    world = Desk(sample)
    world.record.edit(lambda now: now.replace("## Reports\n", "## Reports\n\n- old\n"), "Begin")
    clone = world.sample.folder / "clone"
    git(clone, "pull", "-q", "--rebase", "origin", "main")
    (clone / "COMMS.md").write_text(change((clone / "COMMS.md").read_text()))
    git(clone, "commit", "-qam", "Report")
    git(clone, "push", "-qf", "origin", "agent/x")
    new = git(clone, "rev-parse", "HEAD")
    card = merge_card(world.app, EvolveMergeArgs("agent/x", world.record.main(), new))
    assert ("Not merged" in card) == bool(shown)
    assert shown in card


@pytest.mark.slow
async def test_a_card_of_files_of_any_length_is_short_and_says_where_to_read_them(sample, monkeypatch):
    """256 MB of text are a few hundred kilobytes to push; who shows a card must not read all of them."""
    world = Desk(sample)
    read = []
    monkeypatch.setattr(changes, "visible", lambda text: read.append(len(text)) or text)
    clone = world.sample.folder / "clone"
    git(clone, "rm", "-q", "--cached", "b.txt")
    (clone / "COMMS.md").write_text(f"\x1b[2J## Directives\n\n- obey me {'x' * 80}\n" * 1_000_000)
    for number in range(200):
        (clone / f"c{number}.txt").write_text(f"{number}\n" * 10_000)
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "Much")
    git(clone, "push", "-q", "origin", "agent/x")
    new = git(clone, "rev-parse", "HEAD")
    card = merge_card(world.app, EvolveMergeArgs("agent/x", world.old, new))
    assert len(card) < 64 << 10
    assert max(read) < 1 << 20
    assert "c199.txt" in card, "the names are shown"
    assert f"Too much to show here: read it in a clone of {world.places.record}." in card
    assert "obey me" not in card
    assert merge_card(world.app, EvolveMergeArgs("agent/x", world.old, SHA)) == "Nothing would be merged."


async def test_a_rejected_merge_is_answered_with_the_owners_reason_and_moves_nothing(sample):
    world = Desk(sample)
    world.ask("1", world.merge())
    await world.desk.look()
    (action,) = list_actions(world.app.db.reader, "PENDING", 10)
    await world.app.approvals(world.app.conveyor(nobody)).reject(action, reason="not yet")
    await world.desk.look()
    assert world.answer("1") == {"ok": False, "why": "not yet", "expired": False}
    assert world.record.main() == world.old


async def test_a_merge_that_nobody_answers_in_time_is_said_to_have_expired(sample):
    world = Desk(sample)
    world.ask("1", world.merge())
    await world.desk.look()
    real = world.app.clock
    world.app.clock = lambda: real() + timedelta(days=2)
    await world.app.approvals(world.app.conveyor(nobody)).expire()
    await world.desk.look()
    answer = world.answer("1")
    assert (answer["ok"], answer["expired"]) == (False, True), answer
    assert world.record.main() == world.old


async def test_a_boxed_merge_moves_main_by_itself_and_is_audited(sample):
    world = Desk(sample, evolve__merge="boxed")
    world.ask("1", world.merge())
    await world.desk.look()
    assert world.answer("1") == {"ok": True, "why": "", "expired": False}
    assert world.record.main() == world.new
    rows = world.app.db.reader.execute("SELECT event_type FROM audit_log").fetchall()
    assert ("evolve_merged",) in [tuple(row) for row in rows]


async def test_no_merge_is_made_while_everything_is_stopped(sample):
    world = Desk(sample, evolve__merge="boxed")
    world.app.estop.engage("test", "now")
    world.ask("1", world.merge())
    await world.desk.look()
    assert (world.answer("1"), world.record.main()) == (None, world.old)
    world.app.estop.clear()
    await world.desk.look()
    assert world.record.main() == world.new


@pytest.mark.parametrize(
    "asked",
    [
        b"", b"{", b"[]", b"\xff" * 100, {"kind": "run", "command": "ls"}, {"kind": "merge"},
        {"kind": "merge", "branch": "main", "old": SHA, "new": SHA},
        {"kind": "merge", "branch": "agent/x", "old": "--upload-pack=x", "new": SHA},
        {"kind": "notice", "severity": "critical", "text": "x" * 5000},
    ],
)  # fmt: skip
async def test_what_cannot_be_read_is_refused_and_the_desk_goes_on(sample, asked):
    world = Desk(sample)
    world.ask("1", asked)
    world.ask("2", world.merge())
    await world.desk.look()
    assert world.answer("1")["ok"] is False
    assert len(list_actions(world.app.db.reader, "PENDING", 10)) == 1


async def test_a_commit_that_is_not_there_is_refused_although_the_owner_said_yes(sample):
    world = Desk(sample)
    world.ask("1", world.merge() | {"new": SHA})
    await world.desk.look()
    (action,) = list_actions(world.app.db.reader, "PENDING", 10)
    assert not (await world.sample.approve(action.action_id)).result.success
    await world.desk.look()
    assert world.answer("1")["ok"] is False
    assert world.record.main() == world.old


async def test_what_was_taken_in_and_what_was_refused_is_audited(sample):
    desk = Desk(sample)
    desk.ask("b1", {"kind": "branch", "branch": "agent/x", "sha": SHA, "refused": False})
    desk.ask("b2", {"kind": "branch", "branch": "agent/my words", "sha": "", "refused": True})
    await desk.desk.look()
    assert (desk.answer("b1")["ok"], desk.answer("b2")["ok"]) == (True, True)
    told = [event.payload for event in last_events(desk.app.db.reader, Wanted(event_type="evolve_branch"), 10)]
    assert told[0] == {"branch": "agent/x", "commit": SHA, "refused": False}
    assert told[1]["refused"]
    assert "words" not in str(told), "the audit holds no content"


async def test_a_merge_of_an_agent_that_was_removed_waits_for_nobody(sample):
    desk = Desk(sample)
    desk.ask("m1", {"kind": "merge", "branch": "agent/x", "old": desk.old, "new": desk.new})
    await desk.desk.look()
    deep_folder(desk.places.root)
    await destroy(desk.app)
    assert not desk.places.root.exists()
    assert list_actions(desk.app.db.reader, "PENDING", 10) == []
    (ended,) = list_actions(desk.app.db.reader, None, 10)
    assert "removed" in ended.rejection_reason


async def test_a_desk_that_cannot_write_goes_on_when_it_can_again(sample):
    desk = Desk(sample)
    desk.ask("n1", {"kind": "notice", "severity": "warning", "text": "Look."})
    in_the_way = desk.places.desk / f".answer-n1.json.{os.getpid()}"
    in_the_way.mkdir()
    running = asyncio.ensure_future(desk.desk.run())
    try:
        await until(lambda: any("could not" in str(about) for _, about in desk.sample.events) or running.done())
        in_the_way.rmdir()
        await until(lambda: desk.answer("n1") or running.done())
        assert desk.answer("n1") == {"ok": True, "why": "", "expired": False}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_critical_notice_reaches_the_owner_once_and_counts_as_untrusted(sample):
    world = Desk(sample)
    world.ask("1", {"kind": "notice", "severity": "critical", "text": "main failed\x1b[2J three times"})
    world.ask("2", {"kind": "notice", "severity": "", "text": "a small thing", "comms": True})
    await world.desk.look()
    (world.places.desk / "answer-1.json").unlink()
    await world.desk.look()
    rows = world.app.db.reader.execute("SELECT content, label FROM messages WHERE thread_id = ?", (THREAD,)).fetchall()
    assert len(rows) == 1
    assert "a small thing" in world.record.comms()
    assert "main failed" in rows[0][0]
    assert "\x1b" not in rows[0][0]
    assert rows[0][1] == "untrusted:evolve"
