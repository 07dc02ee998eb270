"""The first minutes: the guide leads from pairing to a receipt, also where somebody has talked before."""

import pytest

from tests.panel.acts import approve, settle_in, waiting_card
from tests.panel.house import LIST
from tests.panel.window import Look

pytestmark = pytest.mark.slow


def test_the_guide_leads_to_a_first_approved_action_and_its_story(house, window):
    house.run("agent", "-m", "Good morning!")  # as scripts/up does: a conversation is there already
    w = window(Look("phone", "light"))
    settle_in(w)
    w.page.get_by_label("What you ask for").wait_for()
    w.click("Ask", exact=True)
    w.click("Review and approve", role="link")
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve", exact=True).wait_for()
    approve(w, passkey=False)
    w.click("Show the story", role="link")
    w.page.get_by_role("list", name="Story").wait_for()
    assert (house.workspace / "shopping.md").read_text() == LIST
    w.click("Back", role="link", exact=True)
    w.click("Done", exact=True)
    w.sees("Nothing is waiting for you")


def test_who_says_no_to_the_first_proposal_can_ask_for_another_and_who_wants_no_guide_skips_it(house, window):
    w = window(Look("desktop", "dark"))
    settle_in(w)
    w.click("Ask", exact=True)
    w.page.get_by_role("link", name="Review and approve").wait_for()
    waiting_card(w, "shopping.md")
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Reject", exact=True).click()
    w.click("Reject it")
    w.sees("Rejected.")
    w.go("#/")
    w.click("Ask for something else")
    w.page.get_by_label("What you ask for").wait_for()
    w.scene("first-steps-again")
    w.click("Not now")
    w.sees("Did the work get done?")
    w.scene("first-steps-skipped")
