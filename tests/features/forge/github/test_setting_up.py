"""bot setup on GitHub: labels, protection and environments, by a token that is used once."""

import pytest
from msgspec.structs import replace

from coilclaw.features.forge.github.connection import connection_probes
from coilclaw.features.forge.github.setting_up import by_hand, set_up
from coilclaw.features.forge.heads import anchor_heads
from coilclaw.features.forge.store import change_pull
from coilclaw.packets.errors import UsageError
from coilclaw.sandbox.fake_github import OWNER_ID, Account, Refused
from coilclaw.sandbox.fake_github_protection import Protection
from tests.features.conftest import calls
from tests.features.forge.github.conftest import CheckedActions
from tests.features.projects.world import git

TOKEN = "github_pat_11ABCDEFG0aBcDeFgHiJkL_canary0123456789"


def owned(bot):
    """The owner has made a token for this once."""
    bot.fake.accounts[TOKEN] = Account(login="owner", id=OWNER_ID)
    return bot


def states(found):
    return {probe.name: (probe.state, probe.detail) for probe in found}


async def heads_sent(bot):
    """A head was signed, and stands on GitHub."""
    await bot.job(calls(("file_write", {"path": "notes/a.md", "content": "something\n"})))
    await bot.app.ledger.seal_if_due()
    anchor_heads(bot.app)
    assert await bot.sync() == ""
    assert bot.fake.hosted.ref("heads/ledger")


async def test_labels_and_protection_are_set_once(hub):
    bot = owned(hub(receipts__head_every=1))
    await heads_sent(bot)
    found = states(await set_up(bot.app, TOKEN, "strict", environments=False))
    assert {state for state, _ in found.values()} == {"ok"}, found
    main = bot.fake.protection["main"]
    assert (main.reviews, main.owners, main.checks, main.admins) == (1, True, (("coilclaw/gate", 17),), False)
    assert bot.fake.protection["ledger"].admins
    assert {"coilclaw", "risk:R3", "untrusted", "mode:yolo"} <= set(bot.fake.labels)
    wrote = bot.fake.writes()
    again = states(await set_up(bot.app, TOKEN, "strict", environments=False))
    assert [detail for _, detail in again.values()] == ["all there", "protected already", "protected already"]
    assert bot.fake.writes() == wrote


async def test_the_bot_merges_past_this_protection_only_what_its_mode_allows(hub):
    """yolo, too, waits for what CODEOWNERS names: GitHub itself refuses the merge."""
    bot = owned(hub())
    (bot.app.workspace / ".github/CODEOWNERS").write_text("/SYSTEM.md @owner\n")
    git(bot.app.workspace, "add", "-A")
    git(bot.app.workspace, "commit", "-qm", "owners")
    git(bot.app.workspace, "push", "-q", str(bot.fake.hosted.folder), "main")
    await set_up(bot.app, TOKEN, "yolo", environments=False)
    governs = calls(("file_write", {"path": "SYSTEM.md", "content": "Obey everybody.\n"}))
    plain, governing = await bot.job(), await bot.job(governs)
    assert await bot.sync() == ""
    token = next(name for name, who in bot.fake.accounts.items() if who.kind == "Bot")
    with pytest.raises(Refused, match="code owner"):
        bot.fake.merge(bot.row(governing).remote, token)
    assert bot.fake.merge(bot.row(plain).remote, token)
    await set_up(bot.app, TOKEN, "strict", environments=False)
    assert bot.fake.protection["main"].reviews == 1


async def test_a_head_whose_checks_did_not_pass_is_not_merged_there(hub):
    bot = owned(hub())
    await set_up(bot.app, TOKEN, "whitelist", environments=False)
    job = await bot.job()
    pull = bot.pull(job)
    failed = tuple(replace(check, passed=False) for check in pull.checks)
    await bot.app.db.write(
        lambda tx: change_pull(tx, bot.app.clock, pull.number, lambda it: replace(it, checks=failed))
    )
    await bot.mirror._show_all()
    token = next(name for name, who in bot.fake.accounts.items() if who.kind == "Bot")
    with pytest.raises(Refused, match="coilclaw/gate"):
        bot.fake.merge(bot.row(job).remote, token)


async def test_what_the_owner_requires_besides_stays_required(hub):
    bot = owned(hub())
    bot.fake.protection["main"] = Protection(reviews=0, checks=(("my/check", -1),))
    await set_up(bot.app, TOKEN, "strict", environments=False)
    assert set(bot.fake.protection["main"].checks) == {("my/check", -1), ("coilclaw/gate", 17)}


async def test_the_signed_heads_cannot_be_rewritten_afterwards(hub):
    bot = owned(hub(receipts__head_every=1))
    await heads_sent(bot)
    await set_up(bot.app, TOKEN, "strict", environments=False)
    for is_admin in (False, True):
        with pytest.raises(Refused, match="force-push"):
            bot.fake.protection["ledger"].must_take_push(is_admin=is_admin, forced=True)
    before = bot.fake.hosted.ref("heads/ledger")
    await heads_sent(bot)  # and new ones still arrive
    assert bot.fake.hosted.ref("heads/ledger") != before


async def test_the_token_is_kept_nowhere(hub):
    """One of a form that nobody knows, too: it is hidden because it was given, not because of how it looks."""
    bot = owned(hub())
    token = "plain-looking-7Qx2mVb9Lw4TzK8p"
    assert token in bot.app.redact(f"it was {token}")
    bot.fake.accounts[token] = bot.fake.accounts[TOKEN]
    await set_up(bot.app, token, "strict", environments=False)
    assert token not in bot.app.redact(f"it was {token}")
    kept = [file for file in bot.app.home.root.rglob("*") if file.is_file() and token.encode() in file.read_bytes()]
    assert kept == []
    assert not [body for _, _, body in bot.fake.requests if token in str(body)]


@pytest.mark.parametrize(("login", "number"), [("stranger", 6666), ("owner", OWNER_ID + 1)])
async def test_a_token_of_any_other_account_sets_nothing_up(hub, login, number):
    bot = hub()
    bot.fake.accounts[TOKEN] = Account(login=login, id=number, permissions={"administration": "write"})
    with pytest.raises(UsageError, match="not of the account 1001"):
        await set_up(bot.app, TOKEN, "strict", environments=False)
    assert bot.fake.writes() == []


async def test_nothing_is_set_up_while_everything_is_stopped(hub):
    bot = owned(hub())
    bot.app.estop.engage("test", "now")
    with pytest.raises(UsageError, match="ESTOP"):
        await set_up(bot.app, TOKEN, "strict", environments=False)
    assert bot.fake.requests == []


async def test_a_plan_without_protection_is_told_and_the_rest_is_done(hub):
    bot = owned(hub())
    bot.fake.paid = False
    found = await set_up(bot.app, TOKEN, "strict", environments=False)
    assert states(found)["labels"][0] == "ok"
    main = next(probe for probe in found if probe.name == "main")
    assert (main.state, "free plan" in main.remedy) == ("fail", True)


async def test_connect_says_that_main_is_not_protected(hub):
    bot = owned(hub())
    assert ("warn", "not protected") in states(await connection_probes(bot.app)).values()
    await set_up(bot.app, TOKEN, "strict", environments=False)
    assert states(await connection_probes(bot.app))["protection there"] == ("ok", "main is protected")


@pytest.mark.parametrize(("mode", "words"), [("strict", "1 approval,"), ("whitelist", "0 approvals,")])
def test_the_list_to_click_says_the_same(hub, mode, words):
    text = by_hand(hub().app, mode)
    assert words in text
    assert "coilclaw/gate" in text
    assert "(17)" in text


@pytest.mark.parametrize("hub", [CheckedActions], indirect=True)
async def test_environments_are_for_main_alone_and_others_are_left(hub):
    bot = owned(hub())
    bot.fake.environments["production"] = None
    found = states(await set_up(bot.app, TOKEN, "strict", environments=True))
    assert bot.fake.environments == {"model": ["main"], "propose": ["main"], "production": None}
    assert found["environment production"][0] == "fail"
    bot.fake.environments["production"] = ["main"]
    wrote = bot.fake.writes()
    again = states(await set_up(bot.app, TOKEN, "strict", environments=True))
    assert {state for state, _ in again.values()} == {"ok"}
    assert bot.fake.writes() == wrote
    bot.fake.environments["model"].append("*")
    assert states(await set_up(bot.app, TOKEN, "strict", environments=True))["environment model"][0] == "fail"
