"""Commits on main of GitHub that no merge of this home made: the owner's are taken in, any other asks first."""

from coilclaw.features.forge.github.store import github_state
from coilclaw.store.actions import list_actions
from tests.features.projects.world import git


def opened_by_a_run(bot, path="far.md"):
    """A pull request that a run in Actions opened: this home has never heard of it."""
    hosted = bot.fake.hosted
    main = bot.there_main()
    blob = hosted.git("hash-object", "-w", "--stdin", given=b"from afar\n").decode().strip()
    tree = hosted.git("mktree", given=hosted.git("ls-tree", main) + f"100644 blob {blob}\t{path}\n".encode())
    who = ("-c", "user.name=bot", "-c", "user.email=bot@coilclaw.invalid")
    made = hosted.git(*who, "commit-tree", tree.decode().strip(), "-p", main, "-m", "far").decode().strip()
    hosted.move("heads/job/far", made, force=True)
    body = {"title": "far", "body": "", "head": "job/far", "base": "main"}
    bot.fake.answer("POST", f"/repos/{bot.fake.name}/pulls", body, {"authorization": "Bearer owner-token"})
    return max(bot.fake.pulls)


async def test_what_the_owner_merges_there_of_a_run_in_actions_is_taken_in(hub):
    bot = hub()
    commit = bot.fake.merge(opened_by_a_run(bot), "owner-token")
    assert await bot.sync() == ""
    assert bot.here_main() == commit
    assert git(bot.app.workspace, "show", "refs/heads/main:far.md") == "from afar\n"


async def test_a_run_of_actions_merged_by_somebody_else_is_held(hub):
    bot = hub()
    before = bot.here_main()
    bot.fake.merge(opened_by_a_run(bot), "stranger-token")
    assert "no merge of yours" in await bot.sync()
    assert bot.here_main() == before


async def test_a_merge_of_the_owners_that_brings_more_than_its_branch_is_held(hub):
    """Whoever can push can make a commit with two parents and have a pull request closed by it."""
    bot = hub()
    before, number = bot.here_main(), opened_by_a_run(bot)
    hosted, pull = bot.fake.hosted, bot.fake.pulls[number]
    tree = hosted.git("rev-parse", f"{bot.there_main()}^{{tree}}").decode().strip()
    who = ("-c", "user.name=x", "-c", "user.email=x@y")
    words = ("commit-tree", tree, "-p", before, "-p", bot.fake.head_of(pull), "-m", "evil")
    commit = hosted.git(*who, *words).decode().strip()
    hosted.move("heads/main", commit, force=False)
    pull.state, pull.merge_commit, pull.merged_by = "closed", commit, bot.fake.accounts["owner-token"]
    assert "no merge of yours" in await bot.sync()
    assert bot.here_main() == before


def pushed(bot, tmp_path, text):
    """Somebody with access pushes to main."""
    other = tmp_path / "other"
    if not other.exists():
        git(tmp_path, "clone", "-q", str(bot.fake.hosted.folder), "other")
    (other / "theirs.md").write_text(text)
    git(other, "add", "-A")
    git(other, "commit", "-q", "-m", "theirs")
    git(other, "push", "-q", "origin", "main")
    return bot.there_main()


def questions(bot):
    return [each for each in list_actions(bot.app.db.reader, "PENDING", 20) if each.call.tool == "main_accept"]


async def test_a_held_commit_is_one_question_with_its_difference(hub, tmp_path):
    bot = hub()
    held = pushed(bot, tmp_path, "theirs\n")
    assert "bot accept" in await bot.sync()
    await bot.sync()
    (asked,) = questions(bot)
    assert asked.decision.lane == "C"
    assert "+theirs" in bot.here.background.conveyor.intake.card(asked).preview_or_diff
    await bot.here.home.approve(asked.action_id)
    assert await bot.sync() == ""
    assert bot.here_main() == held


async def test_a_question_that_was_refused_is_not_put_again_and_a_newer_commit_is_another(hub, tmp_path):
    bot = hub()
    pushed(bot, tmp_path, "theirs\n")
    await bot.sync()
    await bot.app.approvals(bot.here.background.conveyor).reject(questions(bot)[0], reason="no")
    await bot.sync()
    assert (questions(bot), bool(github_state(bot.app.db.reader).held)) == ([], True)
    newer = pushed(bot, tmp_path, "more\n")
    await bot.sync()
    assert [newer in each.call.args_bytes.decode() for each in questions(bot)] == [True]


async def test_a_question_about_a_commit_that_main_moved_past_goes_away(hub, tmp_path):
    bot = hub()
    pushed(bot, tmp_path, "theirs\n")
    await bot.sync()
    newer = pushed(bot, tmp_path, "more\n")
    await bot.sync()
    assert [newer in each.call.args_bytes.decode() for each in questions(bot)] == [True]


async def test_a_squash_by_the_owner_asks_and_once_accepted_ends_its_pull_request(hub):
    bot = hub()
    job = await bot.job()
    await bot.sync()
    hosted, pull, here = bot.fake.hosted, bot.fake.pulls[1], bot.here_main()
    tree = hosted.git("rev-parse", f"{bot.fake.head_of(pull)}^{{tree}}").decode().strip()
    who = ("-c", "user.name=owner", "-c", "user.email=o@example.test")
    commit = hosted.git(*who, "commit-tree", tree, "-p", here, "-m", "squashed").decode().strip()
    hosted.move("heads/main", commit, force=False)
    pull.state, pull.merge_commit, pull.merged_by = "closed", commit, bot.fake.accounts["owner-token"]
    assert "bot accept" in await bot.sync()
    assert (bot.here_main(), bot.pull(job).state) == (here, "OPEN")
    await bot.here.home.approve(questions(bot)[0].action_id)
    assert await bot.sync() == ""
    assert (bot.here_main(), bot.pull(job).state) == (commit, "CLOSED")
    assert "another way" in bot.pull(job).reason
    assert await bot.sync() == ""
    await bot.here.drain()
    assert bot.here.job(job).state == "CANCELLED"
