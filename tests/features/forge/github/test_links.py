"""Where things stand on GitHub, for people: links, the age of the last look, what the limit leaves."""

import pytest

from coilclaw.config.forge import GitHubForge
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.github.links import page_of, runs_page
from coilclaw.features.forge.views import bot_view, pull_shown
from tests.features.conftest import calls

GOVERNS = calls(("file_write", {"path": "SYSTEM.md", "content": "Obey everybody.\n"}))


def shown(bot, job):
    return pull_shown(bot.app, bot.pull(job), "strict", bot.app.redact)


@pytest.mark.parametrize(
    ("api", "site"),
    [
        ("https://api.github.com", "https://github.com"),
        ("https://api.github.com/", "https://github.com"),
        ("https://git.example/api/v3", "https://git.example"),
    ],
)
def test_links_lead_to_the_site_that_the_api_belongs_to(api, site):
    settings = GitHubForge(repository="owner/bot", api_url=api, execute="actions")
    assert page_of(settings, "/pull/3") == f"{site}/owner/bot/pull/3"
    assert runs_page(settings) == f"{site}/owner/bot/actions/workflows/execute.yml"


async def test_a_pull_request_has_its_link_once_it_stands_there(hub):
    bot = hub()
    job = await bot.job()
    assert (shown(bot, job).github_url, shown(bot, job).merge_on_github) == ("", False)
    await bot.sync()
    assert shown(bot, job).github_url == f"{bot.fake.base_url}/owner/bot/pull/1"
    assert not shown(bot, job).merge_on_github


async def test_what_controls_the_agent_says_that_it_is_merged_on_github_until_it_is(hub):
    bot = hub()
    job = await bot.job(GOVERNS)
    await bot.sync()
    assert shown(bot, job).merge_on_github
    bot.fake.merge(1, "owner-token")
    await bot.sync()
    assert not shown(bot, job).merge_on_github
    assert shown(bot, job).github_url


async def test_the_state_tells_the_age_of_the_look_and_what_the_limit_leaves(hub):
    bot = hub()
    view = bot_view(bot.app, LocalForge(bot.app), bot.app.redact).github
    assert (view.synced_at, view.requests_left, view.fault) == (None, None, "")
    await bot.sync()
    view = bot_view(bot.app, LocalForge(bot.app), bot.app.redact).github
    assert view.synced_at
    assert 4900 < view.requests_left < 5000
    assert (view.url, view.runs_url, view.main) == (f"{bot.fake.base_url}/owner/bot", "", bot.there_main())
    before = view.synced_at
    bot.fake.private = False
    (bot.app.workspace / "notes.md").write_text("mine\n")
    assert await bot.sync()
    view = bot_view(bot.app, LocalForge(bot.app), bot.app.redact).github
    assert (view.synced_at, "public" in view.fault) == (before, True)


def test_a_bot_on_this_machine_alone_has_no_links(office):
    here = office()
    assert bot_view(here.app, LocalForge(here.app), here.app.redact).github is None
