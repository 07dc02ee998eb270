"""Whatever is wrong at GitHub is held and told, never failed: nothing is lost, and it goes on when that is over."""

from datetime import timedelta

import pytest

from coilclaw.sandbox.fake_github import GitHubReply


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
