"""Whatever is wrong at GitHub is held and told, never failed: nothing is lost, and it goes on when that is over."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from coilclaw.features.forge.github.mirror import GitHubMirror
from coilclaw.features.forge.pulls import Pulls
from coilclaw.sandbox.bot_repository import Written
from coilclaw.sandbox.fake_github import GitHubReply, HostedPull


def sent(bot):
    return [path for _, path in bot.fake.writes() if "access_tokens" not in path]


def told(status, message):
    return GitHubReply(status=status, body={"message": message})


@pytest.mark.parametrize(
    ("asked", "answer", "said"),
    [
        ("POST /app/installations", told(403, "This installation has been suspended"), "suspended"),
        ("POST /app/installations", told(401, "A JSON web token could not be decoded"), "decoded"),
        ("GET .*/git/ref/heads/main", told(500, "oops"), "not well"),
        ("GET .*/git/ref/heads/main", GitHubReply(cut=True), "cannot be reached"),
        ("GET .*/git/ref/heads/main", told(403, "Resource not accessible by integration"), "not accessible"),
        ("POST .*/git/trees", told(422, "Validation Failed"), "Validation Failed"),
        ("POST .*/pulls", told(422, "Validation Failed"), "Validation Failed"),
        ("POST .*/git/refs", told(409, "Git Repository is empty."), "empty"),
        ("GET .*/pulls[?]", told(502, "bad gateway"), "not well"),
    ],
)
async def test_a_fault_is_told_and_the_next_look_goes_on(hub, asked, answer, said):
    bot = hub()
    job = await bot.job()
    bot.fake.instead.append((asked, answer))
    assert said in await bot.sync()
    assert bot.pull(job).state == "OPEN"
    assert await bot.sync() == ""
    assert len(bot.fake.pulls) == 1


async def test_a_repository_that_was_renamed_or_deleted_is_not_written_to(hub):
    bot = hub()
    await bot.job()
    bot.fake.name = "owner/elsewhere"
    assert await bot.sync() != ""
    assert sent(bot) == []
    bot.fake.name = "owner/bot"
    assert await bot.sync() == ""
    assert len(bot.fake.pulls) == 1


async def test_a_clock_that_is_wrong_is_told_and_sends_nothing(hub):
    bot = hub()
    await bot.job()
    right = bot.app.clock
    bot.app.clock = lambda: right() + timedelta(hours=2)
    assert "no token for the App" in await bot.sync()
    assert sent(bot) == []


async def test_main_that_was_forced_elsewhere_is_held(hub):
    bot = hub()
    await bot.sync()
    here = bot.here_main()
    tree = bot.fake.hosted.git("rev-parse", "refs/heads/main^{tree}").decode().strip()
    who = "Stranger <s@example.test> 1700000000 +0000"
    forced = bot.fake.hosted.put_raw(f"tree {tree}\nauthor {who}\ncommitter {who}\n\nanother root\n".encode())
    bot.fake.hosted.move("heads/main", forced, force=True)
    before = sent(bot)
    assert "no merge of yours" in await bot.sync()
    assert bot.here_main() == here
    assert sent(bot) == before


async def test_a_repository_that_was_renamed_is_told_with_its_remedy(hub):
    bot = hub()
    await bot.job()
    moved = GitHubReply(
        status=301, body={"message": "Moved Permanently", "url": "https://api.github.com/repositories/1"}
    )
    bot.fake.instead.append(("GET /repos/owner/bot/git/ref/heads/main", moved))
    assert "forge.github.repository" in await bot.sync()
    assert sent(bot) == []


async def test_main_that_was_set_back_there_is_not_pushed_again(hub):
    """Whoever took commits back on GitHub did so for a reason; the bot does not undo that."""
    bot = hub()
    await bot.sync()
    before = bot.there_main()
    (bot.app.workspace / "mine.md").write_text("mine\n")
    assert await bot.sync() == ""
    assert bot.there_main() == bot.here_main() != before
    bot.fake.hosted.move("heads/main", before, force=True)
    for _ in range(2):
        assert "set back" in await bot.sync()
        assert bot.there_main() == before
    bot.fake.hosted.move("heads/main", bot.here_main(), force=True)  # the owner pushes it again
    assert await bot.sync() == ""


async def test_commits_that_somebody_pushed_to_a_branch_of_ours_are_told_and_merge_nothing(hub):
    bot = hub()
    job = await bot.job()
    await bot.sync()
    pushed = stranger_commit(bot, bot.pull(job))
    assert "commits that are not ours" in await bot.sync()
    bot.fake.review(1, "owner-token")
    await bot.sync()
    assert (bot.pull(job).state, bot.fake.pulls[1].state) == ("OPEN", "open")
    await bot.changed(job)
    assert "commits that are not ours" in await bot.sync()
    assert bot.fake.hosted.ref(f"heads/{bot.pull(job).branch}") == pushed  # it may be the owner's own


async def test_what_the_owner_merges_with_commits_of_their_own_is_taken_in(hub):
    bot = hub()
    job = await bot.job()
    await bot.sync()
    stranger_commit(bot, bot.pull(job))
    commit = bot.fake.merge(1, "owner-token")
    assert await bot.sync() == ""
    assert bot.here_main() == bot.there_main() == commit
    assert (bot.pull(job).state, bot.pull(job).merged_sha) == ("MERGED", commit)
    assert await bot.sync() == ""


def stranger_commit(bot, pull):
    hosted = bot.fake.hosted
    tree = hosted.git("rev-parse", f"{pull.head_sha}^{{tree}}").decode().strip()
    who = "Somebody <s@example.test> 1700000000 +0000"
    text = f"tree {tree}\nparent {pull.head_sha}\nauthor {who}\ncommitter {who}\n\nmore\n"
    pushed = hosted.put_raw(text.encode())
    hosted.move(f"heads/{pull.branch}", pushed, force=True)
    return pushed


@pytest.mark.parametrize("what", ["closed", "merged", "open"])
async def test_a_pull_request_that_was_opened_and_not_written_down_is_found_whatever_became_of_it(hub, what):
    """kill -9 between the answer and our row; meanwhile the owner was there."""
    bot = hub()
    job = await bot.job()

    def killed(point):
        if point == "github_made":
            raise KeyboardInterrupt

    bot.app.reached = killed
    with pytest.raises(KeyboardInterrupt):
        await bot.sync()
    bot.app.reached = lambda _: None
    assert (len(bot.fake.pulls), bot.row(job)) == (1, None)
    if what == "closed":
        bot.fake.pulls[1].state = "closed"
    elif what == "merged":
        bot.fake.merge(1, "owner-token")
    await bot.sync()
    assert await bot.sync() == ""
    assert len(bot.fake.pulls) == 1
    assert "coilclaw" in bot.fake.pulls[1].labels
    assert bot.pull(job).state == {"closed": "CLOSED", "merged": "MERGED", "open": "OPEN"}[what]


async def test_another_repository_in_the_settings_starts_anew(hub):
    """What was remembered of one repository says nothing about another: its #1 is somebody else's."""
    bot = hub()
    job = await bot.job()
    await bot.sync()
    assert bot.row(job).remote == 1
    bot.fake.pulls.clear()
    bot.fake.name = "owner/other"
    bot.fake.hosted.git("update-ref", "-d", f"refs/heads/{bot.pull(job).branch}")
    github = replace(bot.app.config.forge.github, repository="owner/other")
    bot.app.config = replace(bot.app.config, forge=replace(bot.app.config.forge, github=github))
    bot.mirror = GitHubMirror(bot.app, bot.here.background.conveyor)
    owner = bot.fake.accounts["owner-token"]
    bot.fake.pulls[1] = HostedPull(number=1, head="x", base="main", title="x", body="", author=owner, state="closed")
    assert await bot.sync() == ""
    assert bot.pull(job).state == "OPEN"
    assert bot.row(job).remote == 2


async def test_what_is_closed_here_is_closed_there_and_opened_again_with_it(hub):
    bot = hub()
    bot.fake.pulls.clear()
    pull = await plain(bot)
    assert await bot.sync() == ""
    await Pulls(bot.app, bot.here.background.conveyor).close(pull.number, "not now")
    assert await bot.sync() == ""
    assert bot.fake.pulls[1].state == "closed"
    before = sent(bot)
    assert await bot.sync() == ""
    assert sent(bot) == before
    await Pulls(bot.app, bot.here.background.conveyor).reopen(pull.number)
    assert await bot.sync() == ""
    assert (len(bot.fake.pulls), bot.fake.pulls[1].state) == (1, "open")
    assert await bot.sync() == ""
    assert bot.mirror._pulls.forge.find(pull.number).state == "OPEN"


async def plain(bot):
    forge = bot.mirror._pulls.forge
    pull = forge.open_plain("mine/1", [Written("a.md", b"text\n")], "A pull request", "One file.")
    await forge.check(pull)
    return pull


@pytest.mark.parametrize("point", ["github_branch", "github_made", "github_opened"])
async def test_a_kill_at_any_point_of_opening_leaves_one_whole_pull_request(hub, point):
    bot = hub()
    job = await bot.job()

    def killed(at):
        if at == point:
            raise KeyboardInterrupt

    bot.app.reached = killed
    with pytest.raises(KeyboardInterrupt):
        await bot.sync()
    bot.app.reached = lambda _: None
    assert await bot.sync() == ""
    (there,) = bot.fake.pulls.values()
    assert ("coilclaw" in there.labels, bot.fake.head_of(there)) == (True, bot.pull(job).head_sha)
    assert [each["conclusion"] for each in bot.fake.checks] == ["success"]
