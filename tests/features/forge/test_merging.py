"""Between a yes and main: whatever happens meanwhile, only what is still wanted is merged."""

import asyncio
import threading
import time
from contextlib import contextmanager

import msgspec
import pytest

from coilclaw.config.forge import ForgeCheck
from coilclaw.config.schema import Agent
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import pull_of_job
from coilclaw.ledger.anchors import anchored_at
from coilclaw.ledger.chain import last_link
from coilclaw.packets.errors import UsageError
from coilclaw.sandbox.fake_box import FakeBox, finished
from coilclaw.sandbox.fast_import import BOT, ForgeRefused, Written
from coilclaw.store.actions import load_action
from tests.features.conftest import calls

WRITES = calls(("file_write", {"path": "notes/a.md", "content": "by the job\n"}))


@pytest.fixture
def forge_office(office):
    return lambda **overrides: office(**{"forge__enabled": True, **overrides})


async def waiting(here):
    """A job whose pull request waits, and the pull request."""
    here.home.script(WRITES, {"text": "I wrote the note."})
    job = await here.create("write a note")
    await here.drain()
    return job, pull_of_job(here.app.db.reader, job.job_id)


def merge(forge, pull):
    args = forge.merge_args(pull)
    return asyncio.ensure_future(forge.merge(args["number"], args["head"], args["diff"], args["checks"]))


@contextmanager
def another_process(here):
    """Hold the forge's lock, as a process that settles the workspace does."""
    let_go, held = threading.Event(), threading.Event()

    def hold():
        with LocalForge(here.app).bot.alone():
            held.set()
            let_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    try:
        yield
    finally:
        let_go.set()
        thread.join()


async def test_what_is_closed_while_its_merge_is_under_way_is_either_closed_or_merged(forge_office):
    here = forge_office()
    _, pull = await waiting(here)
    forge = LocalForge(here.app)
    before = forge.bot.main()
    with another_process(here):
        merging = merge(forge, pull)
        closing = asyncio.ensure_future(Pulls(here.app, here.home.conveyor()).close(pull.number, "no"))
        await asyncio.sleep(0.2)
    merged, closed = await asyncio.gather(merging, closing, return_exceptions=True)
    state = forge.find(pull.number).state
    if state == "CLOSED":
        assert (merged.code, closed.state, forge.bot.main()) == ("CHANGED_MEANWHILE", "CLOSED", before)
    else:
        assert (merged.state, type(closed)) == ("MERGED", UsageError)


async def test_what_was_closed_before_its_merge_got_the_lock_stays_off_main(forge_office):
    here = forge_office()
    _, pull = await waiting(here)
    forge = LocalForge(here.app)
    before = forge.bot.main()
    forge.close(pull.number, "no")
    with pytest.raises(ForgeRefused) as refused:
        await forge.try_merge(pull)
    assert refused.value.code == "CHANGED_MEANWHILE"
    assert (forge.find(pull.number).state, forge.bot.main()) == ("CLOSED", before)


async def test_a_merge_that_waited_for_the_lock_does_not_happen_once_everything_is_stopped(forge_office):
    here = forge_office()
    _, pull = await waiting(here)
    forge = LocalForge(here.app)
    before = forge.bot.main()
    with another_process(here):
        merging = merge(forge, pull)
        await asyncio.sleep(0.2)
        here.app.estop.file.write_text("")
    with pytest.raises(ForgeRefused, match="ESTOP"):
        await merging
    assert (forge.find(pull.number).state, forge.bot.main()) == ("OPEN", before)


async def test_one_that_is_on_main_already_cannot_be_closed(forge_office):
    here = forge_office()
    _, pull = await waiting(here)
    forge = LocalForge(here.app)

    def killed(what):
        if what == "pr_merged":
            raise KeyboardInterrupt

    here.app.reached = killed
    with pytest.raises(KeyboardInterrupt):
        forge._merge(pull)
    here.app.reached = lambda what: None
    with pytest.raises(UsageError, match="MERGED"):
        forge.close(pull.number, "no")
    assert forge.find(pull.number).merged_sha == forge.bot.main()


async def test_a_slow_check_that_runs_again_does_not_end_an_approved_merge(forge_office):
    here = forge_office(
        forge__checks={"tests": ForgeCheck(command="make test", timeout_seconds=20)},
        agent=Agent(tool_timeout_seconds=0.2),
    )
    slow = []

    def run(_):
        time.sleep(0.5 if slow else 0)
        return finished(b"fine\n")

    here.app.open_box = lambda: FakeBox(run)
    job, pull = await waiting(here)
    slow.append(True)
    (here.app.workspace / "mine.md").write_text("main moves, so the checks run again\n")
    outcome = await here.home.approve(pull.action_id)
    assert LocalForge(here.app).find(pull.number).state == "MERGED", outcome
    await here.drain()
    assert here.job(job).state == "DONE"


async def test_a_check_that_the_owner_adds_meanwhile_runs_before_the_merge(forge_office):
    here = forge_office()
    _, pull = await waiting(here)
    here.app.open_box = lambda: FakeBox(lambda _: finished(b"no\n", exit_code=1))
    forge_settings = msgspec.structs.replace(here.app.config.forge, checks={"tests": ForgeCheck(command="make test")})
    here.app.config = msgspec.structs.replace(here.app.config, forge=forge_settings)
    forge = LocalForge(here.app)
    with pytest.raises(ForgeRefused, match="tests"):
        await merge(forge, pull)
    assert forge.find(pull.number).state == "OPEN"


async def test_checks_that_fail_on_a_later_run_keep_an_approved_merge_off_main(forge_office):
    exits = [0, 1, 1]
    here = forge_office(forge__checks={"tests": ForgeCheck(command="make test")})
    here.app.open_box = lambda: FakeBox(lambda _: finished(b"ran\n", exit_code=exits.pop(0)))
    _, pull = await waiting(here)
    forge = LocalForge(here.app)
    await forge.check(pull)  # main has not moved, and they fail all the same
    with pytest.raises(ForgeRefused, match="tests"):
        await merge(forge, pull)
    assert (forge.find(pull.number).state, exits) == ("OPEN", [])


async def test_a_file_that_the_owner_moved_meanwhile_has_the_risk_of_its_new_place(forge_office):
    here = forge_office()
    folder, text = here.app.workspace, "".join(f"line {number}\n" for number in range(30))
    (folder / "intel/news.md").write_text(text)
    change = {"path": "intel/news.md", "content": f"{text}more\n"}
    here.home.script(calls(("file_write", change)), {"text": "done"})
    job = await here.create("write news")
    await here.drain()
    forge, pull = LocalForge(here.app), pull_of_job(here.app.db.reader, job.job_id)
    assert forge.merge_facts(pull, *forge.merge_outcome(pull)).risk == "R1"
    (folder / "notes").mkdir()
    (folder / "intel/news.md").rename(folder / "notes/news.md")
    with pytest.raises(ForgeRefused, match="would change notes/news") as refused:
        await merge(forge, pull)
    assert refused.value.code == "CHANGED_MEANWHILE", "a yes to one place is none to another"
    pull = await forge.check(pull)
    facts = forge.merge_facts(pull, *forge.merge_outcome(pull))
    assert (facts.paths, facts.risk) == (("notes/news.md",), "R2"), "that is where the merge writes"
    asked = load_action(here.app.db.reader, pull.action_id)
    card = here.home.conveyor().intake.card(asked).preview_or_diff
    assert "1 file, risk R2" in card
    assert "it changes notes/news.md." in card


async def test_the_heads_that_leave_with_a_job_cover_its_merge(forge_office):
    here = forge_office()
    job, pull = await waiting(here)
    await here.home.approve(pull.action_id)
    await here.drain()
    assert here.job(job).state == "DONE"
    anchored, _ = anchored_at(here.app.db.reader)
    assert anchored == last_link(here.app.db.reader)[0]


async def test_an_edit_that_a_merge_did_not_overwrite_is_said(forge_office):
    here = forge_office()
    job, pull = await waiting(here)
    await here.home.approve(pull.action_id)
    (here.app.workspace / "notes").mkdir(exist_ok=True)
    (here.app.workspace / "notes/a.md").write_text("the owner's own\n")
    await here.drain()
    assert (here.app.workspace / "notes/a.md").read_text() == "the owner's own\n"
    reason = "Its pull request is merged, but 1 file keeps your own edit instead: notes/a.md."
    assert (here.job(job).state, here.job(job).reason) == ("DONE", reason)


async def test_labels_of_many_files_take_a_few_gits_and_not_one_for_each(forge_office):
    here = forge_office()
    _, pull = await waiting(here)
    forge = LocalForge(here.app)
    many = [Written(f"intel/{number}.md", b"%d" % number) for number in range(300)]
    head = forge.repository.commit(pull.base_sha, many, "many", BOT, 1_800_000_000)
    tainted = msgspec.structs.replace(pull, head_sha=head, taint=("untrusted:web",))
    running, started = forge.repository._git, []

    def watched(*args, **more):
        started.append(args[0])
        return running(*args, **more)

    forge.repository._git = watched
    forge.record_merge(tainted, head)
    assert len(started) < 10, "one git for many files"
    (here.app.workspace / "intel/299.md").write_bytes(b"299")
    assert here.app.root.labels.labels_of("intel/299.md") == ("untrusted:web",)
