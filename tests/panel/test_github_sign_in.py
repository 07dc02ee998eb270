"""A second device that comes in by the owner's account at GitHub, and waits for the passkey."""

import contextlib

import pytest

from coilclaw.sandbox.fake_github import OWNER_ID
from coilclaw.sandbox.fake_github_sign_in import CLIENT_ID, CLIENT_SECRET, FakeSignIn
from tests.panel.acts import settle_in
from tests.panel.house import House
from tests.panel.window import Look

pytestmark = pytest.mark.slow


@pytest.fixture
def there(tmp_path):
    with FakeSignIn(tmp_path / "hosted.git") as fake:
        yield fake


@pytest.fixture
def house(tmp_path, there):
    environ = {
        "COILCLAW_FORGE_KIND": "github", "COILCLAW_FORGE_GITHUB_REPOSITORY": there.name,
        "COILCLAW_FORGE_GITHUB_OWNER_ID": str(OWNER_ID), "COILCLAW_FORGE_GITHUB_API_URL": there.base_url,
        "COILCLAW_FORGE_GITHUB_TOKEN_ENV": "BOT_TOKEN", "BOT_TOKEN": "x" * 40, "SIGN_IN": CLIENT_SECRET,
        "COILCLAW_FORGE_GITHUB_SIGN_IN_CLIENT_ID": CLIENT_ID, "COILCLAW_FORGE_GITHUB_SIGN_IN_SECRET_ENV": "SIGN_IN",
    }  # fmt: skip
    with contextlib.closing(House(tmp_path, script=[], environ=environ)) as made:
        yield made


def test_the_owners_account_brings_a_device_as_far_as_the_passkey(window, there):
    first = window(Look("desktop", "light"))
    first.open("")
    first.page.get_by_label("Pairing code").wait_for()
    assert first.page.get_by_role("button", name="Sign in with GitHub").count() == 0  # there is no passkey yet
    settle_in(first)
    second = window(Look("phone", "dark"))
    second.open("")
    second.click("Sign in with GitHub")
    second.sees("You are signed in with GitHub.")
    assert "code=" not in second.page.url
    (left,) = [url for url in second.asked if url.startswith(there.base_url)]  # the one page of somebody else's
    second.asked.remove(left)
    second.scene("pair-github")
    second.click("Pair", exact=True)
    second.page.get_by_role("heading", name="Confirm this device").wait_for()
    first.go("#/settings/devices")
    first.click("Confirm", exact=True)
    second.page.get_by_role("navigation", name="Main").filter(visible=True).wait_for()
