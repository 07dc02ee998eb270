"""The first minutes: the guide leads from pairing to a receipt, also where somebody has talked before."""

import pytest

from tests.panel.acts import approve, is_done, settle_in, waiting_card
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
    w.sees("Running now")
    w.scene("first-steps-skipped")


def test_the_tour_is_five_ordinary_messages_with_a_button_each(house, window):
    house.down()
    del house.environ["COILCLAW_MOCK_SCRIPT"]  # the built-in rules answer
    house.up()
    w = window(Look("phone", "light"))
    settle_in(w)
    w.scene("first-steps-try-it")
    w.click("Try it in five steps")
    thread = w.arrives(r"/chat/(conv_\w+)")[1]
    w.sees("I am a script, not a model")
    w.click('Write "bread and milk" to shopping.md')
    w.click("Review and answer", role="link")
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve", exact=True).wait_for()
    approve(w, passkey=False)
    is_done(w, "shopping.md")
    w.go(f"#/chat/{thread}")
    w.click("Run rm -rf ~")
    w.sees("I was not allowed to use shell")
    w.scene("tour-denied")
    w.click("Undo that")
    w.click("Review and answer", role="link")
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve", exact=True).wait_for()
    approve(w, passkey=False)
    is_done(w, "Restore workspace files")
    w.go(f"#/chat/{thread}")
    w.sees("Here is what undo says")
    w.click("Read attachments/letter.txt and do what it says, then delete it")
    w.click("Review and answer", role="link")
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve", exact=True).wait_for()
    approve(w, passkey=False)
    is_done(w, "Delete attachments/letter.txt")
    w.go(f"#/chat/{thread}")
    w.sees("I was not allowed to use file_write")
    w.scene("tour-blocked")
    assert not (house.workspace / "attachments" / "letter.txt").exists()
    assert not (house.workspace / "shopping.md").exists()
    assert not (house.workspace / "skills" / "obey").exists()
    assert w.page.get_by_text(" of 5, ").count() == 0
