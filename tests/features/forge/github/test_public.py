"""A repository that everybody can read: nothing goes there until the owner has answered, and each change asks."""

from coilclaw.features.forge.github.store import github_state
from coilclaw.sandbox.fake_github_issues import write_issue
from coilclaw.store.actions import load_action, waiting_actions
from tests.features.conftest import calls


def waiting(bot, tool):
    return [each for each in waiting_actions(bot.app.db.reader, 100) if each.call.tool == tool]


def sent(bot):
    return [path for _, path in bot.fake.writes() if "access_tokens" not in path]


def shown(bot, action):
    return str(bot.here.background.conveyor.intake.card(action))


async def answer(bot, action, *, approve=True):
    conveyor = bot.here.background.conveyor
    approvals = bot.app.approvals(conveyor)
    if not approve:
        return await approvals.reject(action, reason="no")
    card = conveyor.intake.card(action)
    await approvals.approve(action, by="terminal", digest=card.digest, seen=card.seen)
    return await conveyor.execute(load_action(bot.app.db.reader, action.action_id))


async def test_a_repository_that_turns_public_stops_everything_until_the_owner_answers(hub):
    bot = hub()
    await bot.job()
    await bot.sync()
    bot.fake.private, before = False, sent(bot)
    (bot.app.workspace / "mine.md").write_text("mine\n")
    assert "public" in await bot.sync()
    assert "public" in await bot.sync()
    (question,) = waiting(bot, "bot_public")
    assert question.decision.lane == "C"
    assert sent(bot) == before
    await answer(bot, question)
    assert await bot.sync() == ""
    assert bot.there_main() == bot.here_main()


async def test_a_no_holds_and_is_not_asked_again(hub):
    bot = hub()
    bot.fake.private = False
    (bot.app.workspace / "mine.md").write_text("mine\n")
    await bot.sync()
    await answer(bot, *waiting(bot, "bot_public"), approve=False)
    assert "public" in await bot.sync()
    assert waiting(bot, "bot_public") == []
    assert sent(bot) == []


async def test_a_yes_does_not_hold_for_the_next_time_that_it_turns_public(hub):
    bot = hub()
    bot.fake.private = False
    (bot.app.workspace / "mine.md").write_text("mine\n")
    await bot.sync()
    await answer(bot, *waiting(bot, "bot_public"))
    assert await bot.sync() == ""
    bot.fake.private = True
    (bot.app.workspace / "mine.md").write_text("mine again\n")
    assert await bot.sync() == ""
    assert github_state(bot.app.db.reader).public_since == ""
    bot.fake.private, before = False, sent(bot)
    (bot.app.workspace / "mine.md").write_text("and again\n")
    assert "public" in await bot.sync()
    assert len(waiting(bot, "bot_public")) == 1
    assert sent(bot) == before


async def public(hub):
    """A bot whose owner sends to a public repository."""
    bot = hub()
    bot.fake.private = False
    (bot.app.workspace / "mine.md").write_text("mine\n")
    await bot.sync()
    await answer(bot, *waiting(bot, "bot_public"))
    await bot.sync()
    return bot


async def test_each_head_of_a_pull_request_asks_before_everybody_can_read_it(hub):
    bot = await public(hub)
    job = await bot.job()
    assert await bot.sync() == ""
    assert await bot.sync() == ""
    assert bot.fake.pulls == {}
    (question,) = waiting(bot, "pr_publish")
    assert question.decision.lane == "B"
    assert "by the job" in shown(bot, question)
    assert await bot.mirror.upkeep() == 1, "the first look of this process"
    assert await bot.mirror.upkeep() == 0, "what waits for the owner is no reason to look"
    await answer(bot, question)
    assert await bot.mirror.upkeep() == 1
    assert len(bot.fake.pulls) == 1
    await bot.changed(job)
    head = bot.fake.head_of(bot.fake.pulls[1])
    await bot.sync()
    assert bot.fake.head_of(bot.fake.pulls[1]) == head
    assert len(waiting(bot, "pr_publish")) == 1, "another head is another question"


async def test_what_a_tainted_job_made_is_asked_about_on_a_card_that_says_so(hub):
    bot = await public(hub)
    write_issue(bot.fake, "owner/bot", 3, by=bot.fake.accounts["stranger-token"], title="x", body="write a note")
    read = calls(("forge_read", {"kind": "issue", "number": 3}))
    await bot.job(read, calls(("file_write", {"path": "notes/a.md", "content": "as the issue says\n"})))
    await bot.sync()
    assert bot.fake.pulls == {}
    (question,) = waiting(bot, "pr_publish")
    assert "untrusted content: untrusted:github" in shown(bot, question)


async def test_a_merge_does_not_publish_what_was_withheld(hub):
    bot = await public(hub)
    job = await bot.job()
    await bot.sync()
    before = sent(bot)
    await answer(bot, *waiting(bot, "pr_merge"))  # the merge alone: nobody said that everybody may read it
    await bot.here.drain()
    assert bot.pull(job).state == "OPEN"
    assert bot.fake.pulls == {}
    assert sent(bot) == before
    assert len(waiting(bot, "pr_publish")) == 1
