"""What the owner does with pull requests: asks for changes, closes, asks anew, takes back; and how yolo ends."""

import shlex
from datetime import timedelta

import pytest

from coilclaw.config.forge import Forge
from coilclaw.config.schema import Jobs
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import pull_of_job
from coilclaw.gate.estop import note_estop
from coilclaw.packets.errors import UsageError
from coilclaw.store.actions import load_action
from coilclaw.store.yolo import set_yolo, yolo_now
from tests.conftest import TestClock
from tests.features.conftest import calls
from tests.features.projects.world import git

WRITES = calls(("file_write", {"path": "notes/a.md", "content": "by the job\n"}))


def pull_of(here, job):
    return pull_of_job(here.app.db.reader, job.job_id)


def events(here):
    rows = here.app.db.reader.execute("SELECT event_type FROM audit_log WHERE event_type LIKE 'pr_%' ORDER BY seq")
    return [kind for (kind,) in rows]


def pulls_of(here):
    return Pulls(here.app, here.background.conveyor)


async def with_pull(office, **overrides):
    """An office with one job that waits for its merge."""
    here = office(**{"forge__enabled": True, **overrides})
    here.home.script(WRITES, {"text": "I wrote the note."})
    job = await here.create("write a note")
    await here.drain()
    return here, job


async def merged(office):
    here, job = await with_pull(office)
    await here.home.approve(pull_of(here, job).action_id)
    await here.drain()
    assert here.job(job).state == "DONE", here.job(job).reason
    return here, pull_of(here, job)


async def test_asking_for_changes_withdraws_the_question_and_the_job_goes_on_with_the_owners_words(office):
    better = calls(("file_write", {"path": "notes/a.md", "content": "shorter\n"}))
    here, job = await with_pull(office)
    before = pull_of(here, job)
    await pulls_of(here).want(before.number, "make it shorter")
    assert load_action(here.app.db.reader, before.action_id).status == "REJECTED"
    here.home.script(better, {"text": "Shortened."})
    await here.drain()
    pull = pull_of(here, job)
    assert (pull.state, pull.number, pull.wanted) == ("OPEN", before.number, "")
    assert pull.head_sha != before.head_sha
    assert LocalForge(here.app).repository.read(pull.head_sha, "notes/a.md") == b"shorter\n"
    assert any("make it shorter" in message.content for message in here.messages(job))
    assert load_action(here.app.db.reader, pull.action_id).status == "PENDING"
    assert (events(here).count("pr_opened"), events(here).count("pr_updated")) == (1, 1)


async def test_closing_ends_the_job_and_an_ended_job_is_not_opened_again(office):
    here, job = await with_pull(office)
    pull = pull_of(here, job)
    await pulls_of(here).close(pull.number, "not needed")
    assert load_action(here.app.db.reader, pull.action_id).status == "REJECTED"
    await here.drain()
    assert (here.job(job).state, here.job(job).reason) == ("CANCELLED", "not needed")
    assert events(here)[-1] == "pr_closed"
    with pytest.raises(UsageError, match="CANCELLED") as refused:
        await pulls_of(here).reopen(pull.number)
    assert "coilclaw job create" in refused.value.remedy
    take = refused.value.remedy.partition("git ")[2].replace("PATH", "notes/a.md")
    assert not (here.app.workspace / "notes/a.md").exists()
    git(here.app.workspace, *shlex.split(take))
    assert (here.app.workspace / "notes/a.md").exists(), "what it says to do brings the file"
    with pytest.raises(UsageError, match="CLOSED"):
        await pulls_of(here).want(pull.number, "more")


async def test_an_expired_question_is_put_anew(office):
    clock = TestClock()
    here, job = await with_pull(lambda **more: office(clock, **more))
    first = pull_of(here, job).action_id
    clock.advance(days=2)
    await here.drain()
    assert (pull_of(here, job).dormant, pull_of(here, job).action_id) == (True, None)
    await pulls_of(here).ask(pull_of(here, job).number)
    pull = pull_of(here, job)
    assert pull.action_id not in (None, first)
    assert not pull.dormant
    await here.drain()
    assert pull_of(here, job).action_id == pull.action_id  # the job goes on waiting for it
    await here.home.approve(pull.action_id)
    await here.drain()
    assert here.job(job).state == "DONE", here.job(job).reason


async def test_one_that_nobody_answers_is_closed_after_pr_days_and_its_job_cancelled(office):
    clock = TestClock()
    forge, jobs = Forge(enabled=True, pr_days=3), Jobs(max_hours=1)  # while a merge waits, only `pr_days` counts
    here, job = await with_pull(lambda **_: office(clock, forge=forge, jobs=jobs))
    clock.advance(days=2, hours=23)
    await here.drain()
    assert (pull_of(here, job).state, here.job(job).state) == ("OPEN", "WAITING_APPROVAL"), here.job(job).reason
    clock.advance(hours=2)
    await here.drain()
    assert (pull_of(here, job).state, here.job(job).state) == ("CLOSED", "CANCELLED")
    assert pull_of(here, job).reason
    assert not (here.app.workspace / "notes/a.md").exists()


async def test_a_revert_that_nobody_answers_is_closed_after_pr_days(office):
    clock = TestClock()
    here, pull = await merged(lambda **_: office(clock, forge=Forge(enabled=True, pr_days=3)))
    revert = await pulls_of(here).revert(pull.number)
    for days, state in ((2, "OPEN"), (2, "CLOSED")):
        clock.advance(days=days)
        await here.drain()  # the question expires
        await pulls_of(here).settle_plain()
        await pulls_of(here).settle_plain()
        assert LocalForge(here.app).find(revert.number).state == state


async def test_a_revert_is_a_pull_request_that_keeps_what_is_on_record(office):
    here, pull = await merged(office)
    (here.app.workspace / "later.md").write_text("later\n")
    pulls = pulls_of(here)
    revert = await pulls.revert(pull.number)
    assert (revert.number, revert.job_id, revert.state) == (2, None, "OPEN")
    assert revert.title == f"Revert #1: {pull.title}"
    assert (await pulls.revert(pull.number)).number == 2
    assert [change.path for change in pulls.forge.changes(revert)] == ["notes/a.md"]
    assert (here.app.workspace / "notes/a.md").exists()
    await here.home.approve(revert.action_id)
    await pulls.settle_plain()
    assert not (here.app.workspace / "notes/a.md").exists()
    assert (here.app.workspace / "later.md").read_text() == "later\n"
    assert list((here.app.workspace / "audit/evidence").iterdir())
    done = pulls.forge.find(2)
    assert (done.state, bool(done.deployed_at)) == ("MERGED", True)


async def test_a_rejected_revert_is_closed_and_can_be_opened_again(office):
    here, pull = await merged(office)
    pulls = pulls_of(here)
    revert = await pulls.revert(pull.number)
    action = load_action(here.app.db.reader, revert.action_id)
    await here.app.approvals(here.background.conveyor).reject(action, reason="")
    assert await pulls.settle_plain() == 1
    assert pulls.forge.find(2).state == "CLOSED"
    again = await pulls.reopen(2)
    assert again.state == "OPEN"
    assert again.action_id != revert.action_id
    assert load_action(here.app.db.reader, again.action_id).status == "PENDING"


async def test_a_revert_that_conflicts_stays_open_without_a_question(office):
    here, pull = await merged(office)
    (here.app.workspace / "notes/a.md").write_text("edited since\n")
    revert = await pulls_of(here).revert(pull.number)
    assert (revert.state, revert.dormant, revert.action_id) == ("OPEN", True, None)
    assert "conflicts" in revert.checks[0].summary


async def test_only_what_was_merged_is_taken_back(office):
    here, job = await with_pull(office)
    with pytest.raises(UsageError, match="OPEN"):
        await pulls_of(here).revert(pull_of(here, job).number)


async def test_a_stop_ends_yolo_for_good(sample):
    home = sample(forge__enabled=True)
    app, forge = home.app, LocalForge(home.app)
    until = app.clock() + timedelta(hours=8)
    app.db.write_now(lambda tx: set_yolo(tx, until))
    assert forge.mode() == "yolo"
    app.estop.engage("test", "2026-01-01T00:00:00Z")
    assert forge.mode() == "strict"
    app.db.write_now(lambda tx: note_estop(tx, app.clock, engaged=True))
    app.estop.clear()
    app.db.write_now(lambda tx: note_estop(tx, app.clock, engaged=False))
    assert forge.mode() == "strict"
    assert yolo_now(app.db.reader, app.clock()) is None


async def test_while_everything_is_stopped_the_mode_is_strict(sample):
    home = sample(forge__enabled=True, forge__merge_mode="whitelist")
    forge = LocalForge(home.app)
    assert forge.mode() == "whitelist"
    home.app.estop.engage("test", "2026-01-01T00:00:00Z")
    assert forge.mode() == "strict"
    home.app.estop.clear()
    assert forge.mode() == "whitelist"
