"""A job works in a tree of its own and ends in one pull request; the owner's answer decides what becomes of it."""

import stat
import threading
from pathlib import Path

import msgspec
import pytest

from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.job_work import JobWork
from coilclaw.features.forge.store import pull_of_job
from coilclaw.features.jobs.checkpoint import read_checkpoint, write_checkpoint
from coilclaw.gate.turn import Turn
from coilclaw.sandbox.bot_repository import BotRepository
from coilclaw.sandbox.fake_box import FakeBox
from coilclaw.sandbox.fast_import import ForgeRefused
from coilclaw.store.actions import list_actions, load_action
from coilclaw.store.job_trees import load_tree
from tests.features.conftest import calls
from tests.features.projects.world import git

WRITES = calls(("file_write", {"path": "notes/a.md", "content": "by the job\n"}))


def pull_of(here, job):
    return pull_of_job(here.app.db.reader, job.job_id)


@pytest.fixture
def forge_office(office):
    return lambda **overrides: office(**{"forge__enabled": True, **overrides})


async def test_a_job_writes_its_tree_unasked_and_waits_for_its_merge(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "I wrote the note."})
    job = await here.create("write a note")
    await here.drain()
    job = here.job(job)
    assert job.state == "WAITING_APPROVAL"
    assert not (here.app.workspace / "notes/a.md").exists()
    pull = pull_of(here, job)
    assert (pull.state, pull.risk, pull.branch) == ("OPEN", "R2", f"job/{job.job_id}")
    forge = LocalForge(here.app)
    assert forge.repository.read(pull.head_sha, "notes/a.md") == b"by the job\n"
    names = {change.path for change in forge.changes(pull)}
    assert {f"audit/evidence/{job.job_id}.json", f"audit/jobs/{job.job_id}.jsonl"} <= names
    action = load_action(here.app.db.reader, pull.action_id)
    assert (action.call.tool, action.status, action.decision.lane) == ("pr_merge", "PENDING", "B")


async def test_a_jobs_tree_is_private_plain_files_without_a_repository(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "I wrote the note."})
    job = await here.create("write a note")
    await here.drain()
    tree = Path(load_tree(here.app.db.reader, job.job_id).folder)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (tree, tree.parent)] == [0o700, 0o700]
    assert not tree.is_relative_to(here.app.workspace)
    assert (tree / "SYSTEM.md").is_file()
    assert not (tree / ".git").exists()


async def test_a_job_runs_commands_unasked_in_its_tree_without_network(forge_office):
    here = forge_office()
    here.home.box = FakeBox()
    here.home.script(calls(("shell", {"command": "make notes"})), WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    tree = load_tree(here.app.db.reader, job.job_id)
    assert [(spec.workspace, spec.domains) for spec in here.home.box.specs] == [(tree.folder, ())]
    assert [each.call.tool for each in list_actions(here.app.db.reader, "PENDING", 10)] == ["pr_merge"]


async def test_a_pull_request_is_labelled_by_what_it_is(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    assert pull_of(here, job).labels == ("coilclaw", "risk:R2", "intent:GENERAL", "mode:strict")


async def test_a_goal_that_is_one_word_of_capitals_is_the_intent_and_no_input_is(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("SELF_REVIEW_INTEL", inputs={"intent": "FORGED"})
    await here.drain()
    assert "intent:SELF_REVIEW_INTEL" in pull_of(here, job).labels


async def test_a_job_whose_only_files_cannot_be_committed_has_failed_and_says_why(forge_office):
    here = forge_office()
    here.home.script(calls(("file_write", {"path": "notes/a:b.md", "content": "x\n"})), {"text": "I wrote it."})
    job = await here.create("write a note")
    await here.drain()
    assert here.job(job).state == "FAILED"
    assert "notes/a:b.md" in here.job(job).reason


async def test_what_killed_processes_left_of_trees_goes_with_their_jobs(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    folder = here.app.config.trees_dir
    for name in (f".new-{job.job_id}", f".new-{job.job_id}.git", ".old-job_gone", ".new-job_gone.git"):
        (folder / name).mkdir()
    LocalForge(here.app).tidy()
    left = sorted(each.name for each in folder.iterdir())
    assert left == [f".new-{job.job_id}", f".new-{job.job_id}.git", job.job_id], "it may be at work"
    await here.home.approve(pull_of(here, job).action_id)
    await here.drain()
    LocalForge(here.app).tidy()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("part", ["head", "diff"])
async def test_only_the_very_change_that_was_approved_is_merged(forge_office, part):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    forge = LocalForge(here.app)
    main, args = forge.bot.main(), forge.merge_args(pull_of(here, job))
    bound = {key: args[key] for key in ("number", "head", "diff", "checks")}
    with pytest.raises(ForgeRefused) as refused:
        await forge.merge(**{**bound, part: "0" * len(bound[part])})
    assert refused.value.code == "CHANGED_MEANWHILE"
    assert (forge.bot.main(), pull_of(here, job).state) == (main, "OPEN")


async def test_a_yes_does_not_hold_when_main_moved_and_the_checks_are_others(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    forge = LocalForge(here.app)
    args = forge.merge_args(pull_of(here, job))
    (here.app.workspace / "mine.md").write_text("main moves\n")
    with pytest.raises(ForgeRefused, match="other checks"):
        await forge.merge(args["number"], args["head"], args["diff"], "0" * 64)
    assert pull_of(here, job).state == "OPEN"


async def test_a_branch_that_the_owner_deleted_loses_nothing(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    pull = pull_of(here, job)
    git(here.app.workspace, "branch", "-D", pull.branch)
    git(here.app.workspace, "-c", "gc.reflogExpireUnreachable=now", "gc", "--quiet", "--prune=now")
    await here.home.approve(pull.action_id)
    await here.drain()
    assert here.job(job).state == "DONE", here.job(job).reason
    assert (here.app.workspace / "notes/a.md").read_text() == "by the job\n"


async def test_a_yes_holds_when_main_moved_and_the_checks_run_again(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "I wrote the note."})
    job = await here.create("write a note")
    await here.drain()
    pull = pull_of(here, job)
    repository = LocalForge(here.app).repository
    assert repository.references(f"refs/pull/{pull.number}") == {f"refs/pull/{pull.number}/head": pull.head_sha}
    (here.app.workspace / "mine.md").write_text("by the owner\n")
    await here.home.approve(pull.action_id)
    await here.drain()
    assert (here.job(job).state, pull_of(here, job).state) == ("DONE", "MERGED")
    kept = [(here.app.workspace / name).read_text() for name in ("mine.md", "notes/a.md")]
    assert kept == ["by the owner\n", "by the job\n"]
    rows = here.app.db.reader.execute("SELECT event_type FROM audit_log WHERE event_type LIKE 'pr_%' ORDER BY seq")
    events = [kind for (kind,) in rows]
    assert list(dict.fromkeys(events)) == ["pr_opened", "pr_checked", "pr_merged", "pr_deployed"]
    assert events.count("pr_checked") == 2


async def test_a_yes_merges_deploys_and_ends_the_job(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "I wrote the note."})
    job = await here.create("write a note")
    await here.drain()
    await here.home.approve(pull_of(here, job).action_id)
    await here.drain()
    job = here.job(job)
    assert job.state == "DONE", job.reason
    pull = pull_of(here, job)
    assert pull.state == "MERGED"
    assert pull.deployed_at
    assert (here.app.workspace / "notes/a.md").read_text() == "by the job\n"
    assert git(here.app.workspace, "status", "--porcelain") == ""
    tree = load_tree(here.app.db.reader, job.job_id)
    assert tree.removed_at is not None
    log = git(here.app.workspace, "log", "-1", "--format=%B")
    assert f"Job: {job.job_id}" in log
    assert f"Action: {pull.action_id}" in log
    assert here.states(job)[-5:] == ["PR_OPENED", "WAITING_APPROVAL", "MERGED", "DEPLOYED", "DONE"]


async def test_a_job_that_changes_nothing_is_done_without_a_pull_request(forge_office):
    here = forge_office()
    here.home.script({"text": "Nothing to do."})
    job = await here.create("look around")
    await here.drain()
    assert here.job(job).state == "DONE"
    assert pull_of(here, job) is None


async def test_a_no_closes_it_and_cancels_the_job(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    action = load_action(here.app.db.reader, pull_of(here, job).action_id)
    await here.app.approvals(here.home.conveyor()).reject(action, reason="not like this")
    await here.drain()
    assert here.job(job).state == "CANCELLED"
    assert "not like this" in here.job(job).reason
    assert pull_of(here, job).state == "CLOSED"
    assert not (here.app.workspace / "notes/a.md").exists()


async def test_readonly_denies_writes_in_a_tree_too(forge_office):
    here = forge_office(security__autonomy="readonly")
    here.home.script(WRITES, {"text": "could not"})
    job = await here.create("write a note")
    await here.drain()
    assert here.job(job).state == "DONE"
    assert pull_of(here, job) is None


async def test_what_governs_may_be_proposed_and_needs_the_owners_proof(forge_office):
    here = forge_office()
    here.home.script(calls(("file_write", {"path": "SYSTEM.md", "content": "be brief\n"})), {"text": "proposed"})
    job = await here.create("shorten the prompt")
    await here.drain()
    pull = pull_of(here, job)
    assert pull.risk == "R3"
    assert load_action(here.app.db.reader, pull.action_id).decision.lane == "C"
    assert (here.app.workspace / "SYSTEM.md").read_text() != "be brief\n"


async def test_whitelisted_paths_merge_by_themselves(forge_office):
    here = forge_office(forge__merge_mode="whitelist")
    here.home.script(calls(("file_write", {"path": "intel/2026-11/x.md", "content": "news\n"})), {"text": "done"})
    job = await here.create("write intel")
    await here.drain()
    assert here.job(job).state == "DONE", here.job(job).reason
    assert (here.app.workspace / "intel/2026-11/x.md").read_text() == "news\n"
    assert load_action(here.app.db.reader, pull_of(here, job).action_id).decision.code == "MERGE_MODE"


async def test_a_conflict_wakes_the_job_to_resolve_it(forge_office):
    here = forge_office()
    here.home.script(
        calls(("file_write", {"path": "COMMS.md", "content": "job\n"})),
        {"text": "done"},
        calls(("file_write", {"path": "COMMS.md", "content": "both\n"})),
        {"text": "resolved"},
    )
    job = await here.create("rewrite comms")
    await here.drain()
    (here.app.workspace / "COMMS.md").write_text("owner\n")
    await here.home.approve(pull_of(here, job).action_id)
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL", here.job(job).reason
    pull = pull_of(here, job)
    assert pull.rounds == 1
    await here.home.approve(pull.action_id)
    await here.drain()
    assert here.job(job).state == "DONE", here.job(job).reason
    assert (here.app.workspace / "COMMS.md").read_text() == "both\n"


async def test_conflicts_wake_a_job_three_times_and_never_a_fourth(forge_office):
    here = forge_office()
    steps = [(calls(("file_write", {"path": "COMMS.md", "content": f"job {n}\n"})), {"text": "done"}) for n in range(5)]
    here.home.script(*(each for step in steps for each in step))
    job = await here.create("rewrite comms")
    await here.drain()
    rounds = []
    for number in range(4):
        (here.app.workspace / "COMMS.md").write_text(f"owner {number}\n")
        await here.home.approve(pull_of(here, job).action_id)
        await here.drain()
        rounds.append(pull_of(here, job).rounds)
    assert rounds == [1, 2, 3, 3]
    pull = pull_of(here, job)
    assert (pull.state, pull.dormant, pull.action_id) == ("OPEN", True, None)
    assert here.job(job).state == "WAITING_APPROVAL", here.job(job).reason
    assert BotRepository(here.app.workspace).read(pull.head_sha, "COMMS.md") == b"job 3\n", "it worked four times"
    await here.drain()
    assert pull_of(here, job).rounds == 3


async def test_a_merge_whose_rules_do_not_load_is_taken_back(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    pull = pull_of(here, job)
    before = LocalForge(here.app).bot.main()
    forge = LocalForge(here.app)
    args = forge.merge_args(pull)
    merged = await forge.merge(pull.number, args["head"], args["diff"], args["checks"])
    assert merged.state == "MERGED"
    (here.app.workspace / "policies" / "mine.json").write_text("{broken")
    work = JobWork(here.app, here.home.conveyor())
    assert "taken back" in await work.deploy(here.job(job))
    assert not (here.app.workspace / "notes/a.md").exists()
    assert list((here.app.workspace / "audit/evidence").iterdir()), "what is on record stays"
    assert "taken back" in pull_of(here, job).reason
    assert "taken back" in await work.deploy(here.job(job)), "it is not deployed by a second try"
    repository = forge.repository
    assert repository.leads_to(before, forge.bot.main())
    assert "Revert" in git(here.app.workspace, "log", "--format=%s", "main")


async def test_a_tainted_job_cannot_touch_what_steers_or_governs(forge_office):
    here = forge_office(security__autonomy="full")
    here.home.script(
        calls(
            ("file_write", {"path": "SYSTEM.md", "content": "obey\n"}),
            ("file_write", {"path": "skills/x/SKILL.md", "content": "obey\n"}),
            ("file_write", {"path": "notes/ok.md", "content": "ok\n"}),
        ),
        {"text": "done"},
    )
    job = await here.create("summarise", thread="conv_tainted")
    checkpoint = msgspec.structs.replace(read_checkpoint(job.checkpoint), inherited=("untrusted:web",))
    here.app.db.write_now(
        lambda tx: tx.execute(
            "UPDATE jobs SET checkpoint_blob = ?, checkpoint_label = ? WHERE job_id = ?",
            (write_checkpoint(checkpoint), "untrusted:web", job.job_id),
        )
    )
    await here.drain()
    pull = pull_of(here, job)
    names = {change.path for change in LocalForge(here.app).changes(pull)}
    assert "notes/ok.md" in names
    assert not {"SYSTEM.md", "skills/x/SKILL.md"} & names
    assert pull.taint == ("untrusted:web",)
    assert "untrusted" in pull.labels
    await here.home.approve(pull.action_id)
    await here.drain()
    assert here.job(job).state == "DONE", here.job(job).reason
    assert here.app.root.labels.labels_of("notes/ok.md") == ("untrusted:web",)


@pytest.mark.parametrize("source", ["chat", "job", "cli"])
async def test_a_model_that_proposes_a_merge_is_denied_whatever_it_names(forge_office, source):
    here = forge_office(security__autonomy="full")
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    pull = pull_of(here, job)
    args = LocalForge(here.app).merge_args(pull)
    for key, wrong in enumerate((args, {**args, "number": 999}, {**args, "head": "0" * 40})):
        outcome = await here.home.call("pr_merge", Turn("turn_x", "conv_x", source), f"key-{key}", **wrong)
        assert outcome.result.code == "TOOL_NOT_ALLOWED", outcome.result
    assert pull_of(here, job).state == "OPEN"
    assert here.home.owner.cards == []


async def test_a_broken_repository_breaks_no_list_of_approvals(forge_office):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    pull = pull_of(here, job)
    (here.app.workspace / ".git" / "objects" / pull.head_sha[:2] / pull.head_sha[2:]).unlink(missing_ok=True)
    for pack in (here.app.workspace / ".git" / "objects" / "pack").glob("*"):
        pack.unlink()
    del here.app.tools  # what git said before is not asked for again
    card = here.home.conveyor().intake.card(load_action(here.app.db.reader, pull.action_id))
    assert "Nothing would be merged" in card.preview_or_diff


async def test_a_card_asks_git_once_and_beside_the_event_loop(forge_office, monkeypatch):
    here = forge_office()
    here.home.script(WRITES, {"text": "done"})
    job = await here.create("write a note")
    await here.drain()
    action = load_action(here.app.db.reader, pull_of(here, job).action_id)
    del here.app.tools  # as in a process that was just started
    asked = []
    git_of = BotRepository._git

    def watched(repository, *args, **more):
        asked.append(threading.current_thread() is threading.main_thread())
        return git_of(repository, *args, **more)

    monkeypatch.setattr(BotRepository, "_git", watched)
    intake = here.home.conveyor().intake
    first = await intake.shown(action)
    assert asked
    assert not any(asked), "the event loop waited for git"
    asked.clear()
    for _ in range(3):
        assert (await intake.shown(action)).preview_or_diff == first.preview_or_diff
        assert intake.card(action).preview_or_diff == first.preview_or_diff
    assert asked == []
    assert "+by the job" in first.preview_or_diff
