"""A device that waits to be let in sees what changes elsewhere, and says what to do when nobody can vouch for it."""

import pytest

from tests.panel.acts import pair, settle_in
from tests.panel.window import Look

pytestmark = pytest.mark.slow


@pytest.fixture
def two(house, window):
    """One device with a passkey, and one that has none and waits."""
    first = window(Look("desktop", "light"))
    settle_in(first)
    second = window(Look("phone", "light"))
    pair(second, house.new_code(), typed=False)
    second.page.get_by_role("heading", name="Confirm this device").wait_for()
    return first, second


def confirm_there(first):
    """Let the other device in from the one that is trusted."""
    first.go("#/settings/devices")
    first.click("Confirm", exact=True)
    first.sees("Confirmed: it may connect.")


def lose_passkey(first):
    """Take the only passkey away."""
    first.go("#/settings/passkeys")
    first.click("Remove", exact=True)
    first.sees("It is your only passkey.")
    first.click("Remove it")
    first.page.get_by_role("heading", name="Add your passkey").wait_for()
    first.click("Later")


def test_a_device_without_the_passkey_is_told_how_to_get_in_and_let_in_from_another(two):
    first, second = two
    second.authenticator.verifies(False)
    second.click("Confirm with passkey")
    second.page.get_by_role("alert").wait_for()
    second.page.get_by_text("My passkey is on another device").click()
    second.sees("Settings, Devices")
    second.page.get_by_text("My passkey is lost").click()
    second.sees("coilclaw passkeys remove ID")
    second.scene("confirm-help")
    first.go("#/settings/devices")
    first.page.get_by_text("Waiting for confirmation").wait_for()
    first.scene("devices-one-waits")
    confirm_there(first)
    second.page.get_by_role("navigation", name="Main").filter(visible=True).wait_for()


def test_when_the_last_passkey_is_gone_a_device_that_waits_says_so_and_another_lets_it_in(two):
    first, second = two
    lose_passkey(first)
    second.sees("Your last passkey was removed")
    second.scene("confirm-no-passkey")
    assert second.page.get_by_role("button", name="Confirm with passkey").count() == 0
    confirm_there(first)
    second.page.get_by_role("heading", name="Add your passkey").wait_for()


def test_when_the_last_passkey_is_gone_a_device_that_waits_can_be_paired_again(house, two):
    first, second = two
    lose_passkey(first)
    second.click("Pair again with a new code")
    second.page.get_by_label("Pairing code").wait_for()
    pair(second, house.new_code(), typed=False)
    second.page.get_by_role("heading", name="Add your passkey").wait_for()
