"""The doctor on accounts: tokens, scopes, and that the owner's own account never sends."""

import asyncio

from coilclaw.airlock import google
from coilclaw.features.mail.accounts import READ, google_accounts
from coilclaw.features.mail.probes import mail_probes
from tests.features.mail.accounts_harness import OWNER
from tests.features.mail.mail_harness import connect


async def probed(home, *, ask=True):
    found = await asyncio.to_thread(mail_probes, home.app, ask=ask)
    return {each.name: each for each in found}


async def test_connected_accounts_are_asked_for_a_token(mail_home, google):
    found = await probed(mail_home)
    assert [each.state for each in found.values()] == ["ok", "ok", "ok"], found
    assert OWNER in found["google user"].detail
    assert len(google.asked("/token")) == 2
    google.requests.clear()
    await probed(mail_home, ask=False)
    assert google.requests == []


async def test_withdrawn_permission_and_missing_scopes_are_told(mail_home, google):
    connect(mail_home.app, google, "user", OWNER, (READ,))
    assert "not allowed: write drafts, see calendars" in (await probed(mail_home))["google user"].detail
    google.end_all()
    token = await google_accounts(mail_home.app).bearer("bot")
    mail_home.app.oauth._held.clear()
    found = await probed(mail_home)
    assert "coilclaw google connect --identity bot" in found["google bot"].remedy
    assert token not in str(found)


async def test_a_hole_in_the_airlock_is_a_fault(mail_home, monkeypatch):
    shapes = {**google.SHAPES, "user": google.SHAPES["bot"]}
    monkeypatch.setattr(google, "SHAPES", shapes)
    found = await probed(mail_home, ask=False)
    assert found["user never sends"].state == "fail"
    assert "the airlock (drafts/send)" in found["user never sends"].detail


async def test_not_connected_says_how(mail_home):
    for identity in ("user", "bot"):
        await google_accounts(mail_home.app).disconnect(identity)
    found = await probed(mail_home)
    assert found["google user"].state == "info"
    assert found["user never sends"].state == "ok"
