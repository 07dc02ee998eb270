"""Pull requests of sessions are merged into the owner's repository, by the owner's word and as a whole."""

import msgspec
import pytest

from coilclaw.features.forge.commands_pr import pr
from coilclaw.features.forge.feature import forge_chores
from coilclaw.features.forge.store import pulls_before
from coilclaw.packets.errors import UsageError
from coilclaw.sandbox.git import have_git
from coilclaw.store.actions import load_action
from tests.features.forge.session_pull_world import SessionPullWorld
from tests.features.runner.repo_world import git
from tests.missing import lacks

pytestmark = pytest.mark.slow


@pytest.fixture
async def world(sample):
    if not have_git():
        lacks("git", "Install the package git.")
    made = SessionPullWorld(sample)
    yield made
    await made.close()


async def test_merge_waits_for_the_owner_and_reaches_the_checked_out_branch(world):
    before = world.head()
    pull = await world.opened({"made.txt": "made\n", "src/a.py": "a = 2\n"})
    assert (pull.repository, pull.target, pull.state) == ("site", "main", "OPEN")
    action = await world.asked(pull)
    assert (action.status, action.decision.lane, action.decision.verdict) == ("PENDING", "B", "ask")
    card = world.conveyor.intake.card(action).preview_or_diff
    assert "main of site" in card
    assert "+a = 2" in card
    assert world.head() == before
    result = await world.approved(action)
    assert result.success, result
    merged = world.pull()
    assert (merged.state, merged.merged_sha) == ("MERGED", world.head())
    assert git(world.folder, "rev-parse", "HEAD^1", "HEAD^2").split() == [before, pull.head_sha]
    assert (world.folder / "src/a.py").read_text() == "a = 2\n"
    assert world.status() == ""
    git(world.folder, "fsck", "--strict", "--no-dangling")
    body = git(world.folder, "log", "-1", "--format=%B")
    assert f"Session: {pull.session_id}" in body
    assert "Approved-By: terminal" in body
    repeated = await world.pulls.forge_of(merged).merge(merged.number, merged.head_sha, "", "")
    assert repeated.merged_sha == merged.merged_sha


async def test_work_of_a_session_is_asked_about_where_jobs_make_no_pull_requests(world):
    forge = msgspec.structs.replace(world.app.config.forge, enabled=False)
    world.app.config = msgspec.structs.replace(world.app.config, forge=forge)
    pull = await world.opened({"made.txt": "made\n"})
    for chore in forge_chores(world.app, world.conveyor):
        await chore.run()
    assert world.pulls.question(world.pull(pull.number)).status == "PENDING"


async def test_changes_of_the_owner_in_the_way_are_refused_with_a_remedy(world):
    pull = await world.opened({"src/a.py": "a = 2\n"})
    action = await world.asked(pull)
    (world.folder / "src/a.py").write_text("a = 3\n")
    before = world.head()
    result = await world.approved(action)
    assert (result.success, result.code) == (False, "MERGE_REFUSED")
    assert "src/a.py is changed" in result.output
    assert "stash" in result.output
    assert (world.folder / "src/a.py").read_text() == "a = 3\n"
    assert (world.head(), world.pull().state) == (before, "OPEN")
    git(world.folder, "checkout", "-q", "--", ".")
    assert (await world.approved(await world.asked(pull))).success
    assert world.status() == ""


async def test_branch_that_moved_is_checked_again_and_merged(world):
    pull = await world.opened({"made.txt": "made\n"})
    action = await world.asked(pull)
    (world.folder / "README.md").write_text("more\n")
    git(world.folder, "commit", "-qam", "more")
    newer = world.head()
    assert (await world.approved(action)).success
    assert git(world.folder, "rev-parse", "HEAD^1") == newer
    assert (world.folder / "README.md").read_text() == "more\n"


async def test_conflict_is_a_failed_check_and_no_question(world):
    pull = await world.opened({"README.md": "theirs\n"})
    (world.folder / "README.md").write_text("mine\n")
    git(world.folder, "commit", "-qam", "mine")
    assert await world.asked(pull) is None
    (check,) = world.pull().checks
    assert not check.passed
    assert "README.md" in check.summary


@pytest.mark.parametrize("case", ["link", "base"])
async def test_links_out_and_histories_that_differ_do_not_merge(world, case):
    if case == "link":
        session = await world.session()
        from pathlib import Path

        Path(session.checkout.path, "out").symlink_to("/etc/passwd")
        pull = await world.opened(session=session)
    else:
        git(world.folder, "checkout", "-q", "-b", "side")
        (world.folder / "side.txt").write_text("side\n")
        git(world.folder, "add", ".")
        git(world.folder, "commit", "-qm", "side")
        side = world.head("side")
        git(world.folder, "checkout", "-q", "main")
        pull = await world.opened(checkout={"type": "commit", "ref": side})
        assert pull.target == "main"
    assert await world.asked(pull) is None
    assert [check.passed for check in world.pull().checks].count(False) == 1


async def test_newer_commits_withdraw_the_question_about_older_ones(world):
    session = await world.session()
    pull = await world.opened({"made.txt": "one\n"}, session=session)
    action = await world.asked(pull)
    again = await world.opened({"made.txt": "two\n"}, session=session)
    assert (again.number, again.action_id, again.checks) == (pull.number, None, ())
    assert load_action(world.app.db.reader, action.action_id).status == "REJECTED"
    assert (await world.approved(await world.asked(again))).success
    assert (world.folder / "made.txt").read_text() == "two\n"


async def test_workflows_need_proof_and_dependencies_are_named(world):
    pull = await world.opened({".github/workflows/ci.yml": "on: push\n", "package.json": "{}\n"})
    action = await world.asked(pull)
    assert action.decision.lane == "C"
    assert "deps_add" in world.conveyor.intake.card(action).preview_or_diff


@pytest.mark.parametrize(
    ("files", "auto", "draft", "merged"),
    [
        ({"made.txt": "x\n"}, True, False, True),
        ({"made.txt": "x\n"}, False, False, False),
        ({"package.json": "{}\n"}, True, False, False),
        ({".github/x.yml": "x\n"}, True, False, False),
        ({"made.txt": "x\n"}, True, True, False),
    ],
)
async def test_only_an_enabled_repository_merges_without_a_question(world, files, auto, draft, merged):
    world.configure(auto_merge=auto)
    await world.opened(files, draft=draft)
    before = world.head()
    await world.pulls.settle_plain()
    assert (world.pull().state == "MERGED", world.head() != before) == (merged, merged)
    waits = world.pulls.question(world.pull()) is not None
    assert waits == (not merged and not draft)


async def test_session_whose_policy_asks_before_a_merge_is_not_merged_without_a_question(world):
    world.configure(auto_merge=True)
    await world.opened(policy={"requires_approval_for": ["merge"]})
    await world.pulls.settle_plain()
    assert world.pull().state == "OPEN"
    assert world.pulls.question(world.pull()) is not None


async def test_yolo_and_whitelist_are_for_jobs_alone(world):
    from datetime import timedelta

    from coilclaw.store.yolo import set_yolo

    world.app.db.write_now(lambda tx: set_yolo(tx, world.app.clock() + timedelta(hours=1)))
    await world.opened()
    await world.pulls.settle_plain()
    assert world.pull().state == "OPEN"


async def test_session_that_may_be_misled_puts_no_question_by_itself(world):
    world.configure(vouched=False)
    pull = await world.opened()
    assert pull.taint
    await world.pulls.settle_plain()
    assert world.pull().action_id is None
    assert (await world.asked(pull)).status == "PENDING"  # the owner opened it by hand


async def test_what_misled_earlier_commits_misleads_with_the_later_ones(world):
    world.configure(vouched=False)
    pull = await world.opened()
    world.configure(vouched=True)
    session = world.sessions.get(pull.session_id)
    world.work(session, {"more.txt": "more\n"})
    await world.pushed(pull.session_id)
    later = world.pull()
    assert later.head_sha != pull.head_sha
    assert (later.taint, later.dormant) == (pull.taint, True)


async def test_draft_is_shown_and_not_asked_about_until_it_is_ready(world):
    pull = await world.opened(draft=True)
    await world.pulls.settle_plain()
    assert world.pull().action_id is None
    ready = await world.pulls.ready(pull.number)
    assert not ready.draft
    await world.pulls.settle_plain()
    assert world.pulls.question(world.pull()) is not None


async def test_rejected_pull_request_is_closed_and_its_work_stays(world):
    pull = await world.opened()
    action = await world.asked(pull)
    await world.app.approvals(world.conveyor).reject(action, by="terminal", reason="no")
    await world.pulls.settle_plain()
    assert world.pull().state == "CLOSED"
    assert (await world.pulls.reopen(pull.number)).state == "OPEN"
    with pytest.raises(UsageError):
        await world.pulls.revert(pull.number)


async def test_repository_that_is_gone_is_said_once(world):
    await world.opened()
    from msgspec.structs import replace

    world.app.config = replace(world.app.config, repos={})
    await world.pulls.settle_plain()
    pull = world.pull()
    assert pull.dormant
    assert "site" in pull.reason
    assert await world.pulls.settle_plain() == 0


async def test_removed_session_leaves_its_pull_request_to_be_merged(world):
    pull = await world.opened()
    await world.sessions.checkouts.remove(pull.session_id)
    await world.sessions.checkouts.prune()
    assert (await world.approved(await world.asked(pull))).success
    assert [each.state for each in pulls_before(world.app.db.reader, ("MERGED",), None, 9)] == ["MERGED"]


def test_ready_is_a_command():
    assert "ready" in pr.commands


async def test_closing_one_that_is_merged_says_so(world):
    pull = await world.opened()
    action = await world.asked(pull)
    before = world.app.reached

    def killed(point):
        if point == "pr_merged":
            raise KeyboardInterrupt

    world.app.reached = killed
    with pytest.raises(KeyboardInterrupt):
        await world.pulls.forge_of(pull).try_merge(world.pull())
    world.app.reached = before
    assert world.pull().state == "OPEN", "whoever merged it was killed before its row said so"
    with pytest.raises(UsageError, match="is MERGED"):
        await world.pulls.close(pull.number, "")
    assert (world.pull().state, world.pull().merged_sha, world.pull().reason) == ("MERGED", world.head(), "")
    assert action.status == "PENDING"


async def test_reason_why_one_could_not_be_asked_about_goes_with_the_question(world):
    await world.opened()
    from msgspec.structs import replace

    repos = world.app.config.repos
    world.app.config = replace(world.app.config, repos={})
    await world.pulls.settle_plain()
    world.app.config = replace(world.app.config, repos=repos)
    await world.pulls.ready(world.pull().number)
    assert world.pull().reason
    assert (await world.approved(await world.asked(world.pull()))).success
    assert (world.pull().state, world.pull().reason) == ("MERGED", "")
