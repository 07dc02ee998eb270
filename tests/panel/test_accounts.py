"""Accounts in the panel: signed in at Google in another tab, connected with a passkey, disconnected again."""

import contextlib
import re

import httpx
import pytest

from coilclaw.sandbox.fake_google import FakeGoogle
from tests.panel.acts import approve, menu, settle_in
from tests.panel.house import House
from tests.panel.window import Look

pytestmark = pytest.mark.slow

OWNER, BOT = "owner@example.com", "bot@example.com"


def google_variables(fake):
    """The section `[google]` as variables, leading to a fake."""
    return {
        "COILCLAW_GOOGLE_CLIENT_ID": fake.client_id,
        "COILCLAW_GOOGLE_CLIENT_SECRET_ENV": "GOOGLE_CLIENT_SECRET",
        "GOOGLE_CLIENT_SECRET": "fake-google-secret",
        "COILCLAW_GOOGLE_AUTHORIZE_URL": fake.url("/o/oauth2/v2/auth"),
        "COILCLAW_GOOGLE_TOKEN_URL": fake.url("/token"),
        "COILCLAW_GOOGLE_REVOKE_URL": fake.url("/revoke"),
        "COILCLAW_GOOGLE_GMAIL_URL": fake.base_url,
        "COILCLAW_GOOGLE_CALENDAR_URL": fake.base_url,
    }


@pytest.fixture
def fake():
    with FakeGoogle(OWNER, BOT) as made:
        yield made


@pytest.fixture
def house(tmp_path, fake):
    with contextlib.closing(House(tmp_path, environ=google_variables(fake))) as made:
        yield made


def open_accounts(w):
    menu(w, "Settings")
    w.click(re.compile("^Accounts"), role="link")
    w.arrives("/settings/accounts")


def connect(w, nth):
    """Connect an account: a browser on this machine signs in at Google, and the passkey answers."""
    w.page.get_by_role("button", name="Connect …", exact=True).first.click()
    link = w.page.get_by_role("link", name="Sign in at Google")
    link.wait_for()
    assert (link.get_attribute("target"), link.get_attribute("rel")) == ("_blank", "noopener noreferrer")
    w.scene(f"account-sign-in-{nth}")
    ended = httpx.get(link.get_attribute("href"), follow_redirects=True, timeout=280, trust_env=False)
    assert "CoilClaw has the answer." in ended.text
    w.click("Approve the account …")
    w.sees("This waits for your answer.")
    w.scene(f"account-card-{nth}")
    approve(w, passkey=True)


@pytest.mark.parametrize("look", [Look("phone", "dark"), Look("desktop", "light")], ids=str)
def test_accounts_are_connected_and_disconnected_with_the_passkey(house, window, fake, look):
    w = window(look)
    settle_in(w)
    open_accounts(w)
    w.sees("Reads your mail and calendar and writes drafts.")
    w.scene("accounts-new")
    connect(w, 0)
    w.sees(OWNER)
    fake.subject = BOT
    connect(w, 1)
    w.sees(BOT)
    w.scene("accounts-connected")
    w.page.get_by_role("button", name="Disconnect …").nth(1).click()
    w.sees("This waits for your answer.")
    approve(w, passkey=True)
    w.sees("Not connected")
    assert len(fake.asked("/revoke")) == 1
