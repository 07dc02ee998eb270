"""Conversations: named, found, stopped and forgotten, with files from the owner's device and words of others marked."""

import re

import pytest

from tests.panel.acts import approve, begin_talk, menu, say, settle_in
from tests.panel.window import Look

pytestmark = pytest.mark.slow

PICTURE = bytes(range(256)) * 8


def test_conversations_are_named_found_and_forgotten(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    first = begin_talk(w, "What is on today?")
    w.sees("Nothing else is due before Friday.")
    named(w, first)
    attached(w, house)
    second = begin_talk(w, "Good morning!")
    w.sees("Hello, and welcome.")
    found(w)
    forgotten(w, second)


def named(w, thread):
    w.click("Rename this conversation")
    w.page.get_by_label("Title", exact=True).fill("Plans of the week")
    w.scene("chat-rename")
    w.click("Save")
    w.page.get_by_role("heading", name="Plans of the week").wait_for()
    w.page.reload()
    w.page.get_by_role("heading", name="Plans of the week").wait_for()
    assert w.place == f"/chat/{thread}"


def attached(w, house):
    with w.page.expect_file_chooser() as chooser:
        w.page.get_by_role("button", name="Attach a file to the workspace").click()
    chooser.value.set_files(
        [
            {"name": "scan.bin", "mimeType": "application/octet-stream", "buffer": PICTURE},
            {"name": "huge.bin", "mimeType": "application/octet-stream", "buffer": bytes(3 * 1024 * 1024)},
        ]
    )
    w.sees("huge.bin is larger than 2 MB.")
    w.sees("attachments/scan.bin")
    w.scene("chat-attaching")
    say(w, "Keep this for me, and today?")
    w.page.locator(".own .file").get_by_text("attachments/scan.bin").wait_for()
    assert (house.workspace / "attachments" / "scan.bin").read_bytes() == PICTURE
    assert not (house.workspace / "attachments" / "huge.bin").exists()


def found(w):
    menu(w, "Chat")
    field = w.page.get_by_role("searchbox", name="Find a conversation")
    listed = w.page.get_by_role("list", name="Conversations")
    field.fill("plans")
    listed.get_by_role("link", name="Good morning").wait_for(state="detached")
    listed.get_by_role("link", name="Plans of the week").wait_for()
    w.scene("chat-found")
    field.fill("no such thing")
    w.sees("No conversation has that in its title.")
    field.fill("")
    listed.get_by_role("link", name="Good morning").wait_for()


def forgotten(w, thread):
    w.go(f"#/chat/{thread}")
    w.sees("Hello, and welcome.")
    w.click("Delete this conversation")
    w.scene("chat-forget")
    w.page.get_by_role("dialog").get_by_role("button", name=re.compile("^Delete")).click()
    w.sees("Deleted.")
    w.arrives(r"/chat(/new)?")
    w.page.get_by_role("list", name="Conversations").get_by_role("link", name="Good morning").wait_for(state="detached")
    w.go(f"#/chat/{thread}")
    w.sees("This conversation is gone")
    w.scene("chat-gone")


def test_words_are_kept_while_an_answer_is_stopped(house, window):
    w = window(Look("phone", "dark"))
    settle_in(w)
    begin_talk(w, "Take your time with this")
    stop = w.page.get_by_label("Stop this answer")
    stop.wait_for()
    w.page.get_by_label("Message", exact=True).fill("What is on today?")
    stop.click()
    stop.wait_for(state="detached")
    assert w.page.get_by_label("Message", exact=True).input_value() == "What is on today?"
    w.scene("chat-stopped")
    w.click("Send")
    w.sees("Nothing else is due before Friday.")


def test_the_list_does_not_say_for_ever_that_something_waits(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    for answer in ("Approve", "Reject"):
        thread = begin_talk(w, "Write the shopping list")
        listed = w.page.get_by_role("list", name="Conversations").get_by_role("link").first
        listed.get_by_text("1 waits for you").wait_for()
        w.click("Review and answer", role="link")
        w.click(answer, exact=True)
        if answer == "Reject":
            w.click("Reject it")
        w.arrives(f"/chat/{thread}")
        listed.get_by_text("1 waits for you").wait_for(state="detached")
        listed.get_by_text("as soon as you say yes.").wait_for()  # the turn goes on once it has its answer
    w.scene("chat-list-ends")


def test_a_yes_from_now_on_is_listed_with_its_uses_and_revoked(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    begin_talk(w, "Write the shopping list")
    w.click("Yes, and from now on…")
    w.scene("from-now-on")
    w.page.get_by_role("dialog").get_by_role("button", name="Until I revoke it").last.click()
    w.sees("as soon as you say yes.")
    begin_talk(w, "Write the shopping list")
    w.sees("as soon as you say yes.")
    assert w.page.get_by_role("button", name="Approve", exact=True).count() == 0, "nobody was asked again"
    w.go("#/settings/answers")
    w.sees("used 1 time")
    w.scene("answers-one")
    w.click("Revoke", exact=True)
    w.sees("No standing answers")
    begin_talk(w, "Write the shopping list")
    w.page.get_by_role("button", name="Approve", exact=True).first.wait_for()


def test_one_question_is_answered_where_it_was_asked_and_undone_there(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    thread = begin_talk(w, "Write the shopping list")
    w.page.locator(".call .detail article").wait_for()
    w.sees("You asked:")
    assert w.page.get_by_role("button", name="Newest messages").count() == 0, "nothing lies over a card"
    w.scene("chat-asks-here")
    approve(w, passkey=False)
    w.sees("as soon as you say yes.")
    assert w.place == f"/chat/{thread}", "nobody had to go anywhere"
    assert w.page.get_by_text("file_write").count() == 1, "what was approved is told once, where it was asked for"
    assert (house.workspace / "shopping.md").exists()
    w.scene("chat-written")
    w.click("Undo")
    w.page.locator(".call .detail article").wait_for()
    w.scene("chat-undo-asks")
    w.page.reload()
    w.page.locator(".call .detail article").wait_for()
    approve(w, passkey=False)
    w.sees("Taken back.")
    w.page.reload()
    w.sees("Taken back.")
    assert w.page.get_by_role("link", name="Open shopping.md").count() == 0, "it is not there any more"
    assert w.page.get_by_role("button", name="Undo", exact=True).count() == 0
    w.scene("chat-undone")
    assert not (house.workspace / "shopping.md").exists()


def test_a_card_in_a_conversation_stays_while_the_conversation_is_read_again(house, window):
    """What comes and goes under a thumb is not what the thumb meant."""
    w = window(Look("phone", "light"))
    settle_in(w)
    begin_talk(w, "Write the shopping list")
    card = w.page.locator(".call .detail article")
    card.wait_for()
    card.evaluate("each => { each.dataset.looked = 'at' }")
    with w.page.expect_response(lambda answer: answer.url.endswith("/messages") or "/messages?" in answer.url):
        w.click("Rename this conversation")
        w.page.get_by_role("dialog").get_by_role("textbox").fill("Shopping")
        w.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    w.page.get_by_role("heading", name="Shopping", exact=True).wait_for()
    w.settled()
    assert card.get_attribute("data-looked") == "at", "it was taken away and put there anew"
    approve(w, passkey=False)
    w.sees("as soon as you say yes.")


def test_a_call_that_nobody_had_to_approve_is_said_to_run(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    begin_talk(w, "Please count to ten")
    w.page.get_by_role("log", name="Output so far").get_by_text("one").wait_for()
    w.scene("chat-runs")
    assert w.page.locator(".call .state").inner_text() == "Running"
    assert w.page.locator(".thinking").inner_text() == "Running"
    assert w.page.get_by_text("Approved, not done yet").count() == 0
    w.click("Stop")
    w.page.locator(".thinking").wait_for(state="detached")


def test_a_host_that_was_allowed_meanwhile_is_not_offered_again(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    thread = begin_talk(w, "Find the opening hours")
    w.click("Allow the host shop.example")
    w.arrives(r"/approvals/([\w-]+)")
    approve(w, passkey=True)
    w.sees("Done: ")
    w.go(f"#/chat/{thread}")
    w.sees("shop.example is allowed by now. Ask again.")
    assert w.page.get_by_role("button", name="Allow the host").count() == 0
    w.scene("chat-allowed-meanwhile")


def test_a_message_is_asked_again_and_edited_first(house, window):
    w = window(Look("desktop", "dark"))
    settle_in(w)
    begin_talk(w, "Good morning!")
    w.sees("Hello, and welcome.")
    w.click("Ask again")
    w.page.locator("article.own").nth(1).wait_for()
    w.page.get_by_label("Edit and ask again").first.click()
    w.page.get_by_label("Your message").fill("What is on today?")
    w.scene("chat-editing")
    w.click("Ask this instead")
    w.sees("Nothing else is due before Friday.")
    assert w.page.get_by_label("Who answers").count() == 0, "there is one model, and nothing to choose"
    with (house.home / "config.toml").open("a", encoding="utf-8") as file:
        file.write('\n[providers.models.other]\nkind = "mock"\n')
    house.down()
    house.up()
    w.page.reload()
    with w.page.expect_response(lambda answer: answer.request.method not in ("GET", "HEAD") and answer.ok):
        w.page.get_by_label("Who answers").select_option("other")
    w.page.reload()
    w.sees("Nothing else is due before Friday.")
    assert w.page.get_by_label("Who answers").input_value() == "other"
    w.scene("chat-model")


def test_an_empty_conversation_offers_only_what_the_mock_understands(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    w.go("#/chat/new")
    w.click("What time is it?")
    assert w.page.get_by_label("Message", exact=True).input_value() == "What time is it?"
    assert w.page.get_by_text("Remind me every weekday").count() == 0
    w.scene("chat-ideas-of-the-mock")
