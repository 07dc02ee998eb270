"""What waits for the owner: several in a row, a no with its reason, words of others, and answers from elsewhere."""

import contextlib
import re
import sqlite3

import pytest

from tests.panel.acts import approve, begin_talk, is_done, menu, pair, say, settle_in
from tests.panel.house import House
from tests.panel.receivers import Moody
from tests.panel.window import Look

pytestmark = pytest.mark.slow

FLYER = "Summer party of the house.\nTransfer the deposit to DE44 5001 0517 5407 3249 31 until Friday.\n"
ACCOUNT = "DE44 5001 0517 5407 3249 31"


def write(path, content):
    return {"tool": "file_write", "args": {"path": path, "content": content}, "justification": f"You want {path}."}


def send(payload):
    args = {"target": "accounting", "payload": payload}
    return {"tool": "webhook_send", "args": args, "justification": "You want them to know."}


SCRIPT = [
    {"match": "three notes", "text": "Three of them.", "tool_calls": [
        write("notes/one.md", "First\n"), write("notes/two.md", "Second\n"), write("notes/three.md", "Third\n"),
    ]},
    {"match": "three notes", "text": "Each waits for you."},
    {"match": "a diary", "tool_calls": [write("diary.md", "Dear diary\n")]},
    {"match": "a diary", "text": "It waits for you."},
    {"match": "a novel", "tool_calls": [write("novel.md", "".join(f"chapter {n}\n" for n in range(412)))]},
    {"match": "a novel", "text": "It waits for you."},
    {"match": "the plan", "tool_calls": [write("plan.md", "".join(f"other {n}\n" for n in range(150)))]},
    {"match": "the plan", "text": "It waits for you."},
    {"match": "what became", "text": "I was told: {last_tool_result}"},
    {"match": "the flyer", "text": "I read it first.", "tool_calls": [
        {"tool": "file_read", "args": {"path": "attachments/flyer.txt"}, "justification": "You attached it."},
    ]},
    {"match": "the flyer", "text": "They want a deposit until Friday."},
    {"match": "where to pay", "tool_calls": [
        send({"account": ACCOUNT}),
    ]},
    {"match": "where to pay", "text": "Accounting hears of it once you say yes."},
    {"match": "the partners", "tool_calls": [
        send({"mood": "late"}),
    ]},
    {"match": "the partners", "text": "They hear of it once you say yes."},
]  # fmt: skip


@pytest.fixture
def house(tmp_path):
    with contextlib.closing(House(tmp_path, script=SCRIPT, receiver=Moody)) as made:
        yield made


def waiting(w):
    """What the list shows as waiting, in its order."""
    return w.page.get_by_role("list", name="Waiting").get_by_role("link")


def titles(w):
    return [re.search(r"notes/\w+\.md", each)[0] for each in waiting(w).all_inner_texts()]


def ready(w, button="Approve"):
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text(button, exact=True).wait_for()


@pytest.mark.parametrize("look", [Look("desktop", "light"), Look("phone", "dark")], ids=str)
def test_three_in_a_row_are_answered_without_losing_the_place(look, house, window):
    w = window(look)
    settle_in(w)
    thread = begin_talk(w, "Write three notes")
    w.sees("Three of them.")
    menu(w, "Approvals")
    waiting(w).nth(2).wait_for()
    first, second, third = titles(w)
    waiting(w).nth(1).click()
    w.page.get_by_role("heading", name=second).wait_for()
    w.sees("2 of 3")
    ready(w)
    w.scene("approvals-second-of-three")
    approve(w, passkey=False)
    w.page.get_by_role("heading", name=third).wait_for()
    w.sees("2 of 2")
    is_done(w, second)
    ready(w)
    w.click("Reject", exact=True)
    w.page.get_by_label("Reason").fill("Two are enough")
    w.click("Reject it")
    w.page.get_by_role("heading", name=first).wait_for()
    w.sees("Rejected.")
    ready(w)
    approve(w, passkey=False)
    is_done(w, first)
    w.sees("That was the last one")
    w.scene("approvals-all-answered")
    assert (house.workspace / first).exists()
    assert (house.workspace / second).exists()
    assert not (house.workspace / third).exists()
    the_reason_is_on_record(w, third, thread)


def the_reason_is_on_record(w, refused, thread):
    w.click(refused, role="link")
    w.sees("Two are enough")
    w.scene("approvals-rejected")
    action = w.arrives(r"/approvals/([\w-]+)")[1]
    w.go(f"#/audit/story/{action}")
    w.page.get_by_role("list", name="Story").get_by_text("Two are enough").first.wait_for()
    w.go(f"#/chat/{thread}")
    w.sees("Two are enough")
    say(w, "And what became of it?")
    w.sees(re.compile("I was told: .*Two are enough", re.S))


@pytest.mark.parametrize("still", [False, True], ids=["moving", "still"])
def test_four_taps_in_a_row_approve_exactly_one_and_the_next_shows_that_it_is_not_armed(still, house, window):
    w = window(Look("phone", "light"), still=still)
    settle_in(w)
    begin_talk(w, "Write three notes")
    w.sees("Three of them.")
    menu(w, "Approvals")
    waiting(w).nth(2).wait_for()
    waiting(w).first.click()
    ready(w)
    yes = w.page.get_by_role("button", name="Approve", exact=True).bounding_box()
    for _ in range(4):
        w.page.touchscreen.tap(yes["x"] + yes["width"] / 2, yes["y"] + yes["height"] / 2)
        w.page.wait_for_timeout(300)
    unarmed = w.page.locator("button[aria-disabled=true]").get_by_text("Approve", exact=True)
    unarmed.wait_for()
    w.shoot(f"approval-not-armed-yet-{'still' if still else 'moving'}")
    w.sees("1 of 2")
    ready(w)
    assert len(list((house.workspace / "notes").iterdir())) == 1
    approve(w, passkey=False)
    w.page.get_by_text("1 of 2").wait_for(state="detached")


def test_keys_pressed_in_a_row_approve_exactly_one(house, window):
    w = window(Look("desktop", "dark"))
    settle_in(w)
    begin_talk(w, "Write three notes")
    w.sees("Three of them.")
    menu(w, "Approvals")
    waiting(w).nth(2).wait_for()
    ready(w)
    for _ in range(4):
        w.page.keyboard.press("a")
        w.page.keyboard.press("Enter")
        w.page.wait_for_timeout(300)
    waiting(w).nth(2).wait_for(state="detached")
    ready(w)
    assert waiting(w).count() == 2
    w.page.keyboard.press("Enter")
    waiting(w).nth(1).wait_for(state="detached")


@pytest.mark.parametrize("look", [Look("phone", "light"), Look("desktop", "dark")], ids=str)
def test_what_others_had_a_hand_in_is_marked_from_the_attachment_to_the_card(look, house, window):
    w = window(look)
    settle_in(w)
    menu(w, "Chat")
    w.click("New conversation", role="link")
    attach(w, "flyer.txt", FLYER)
    w.sees("attachments/flyer.txt")
    w.scene("chat-attached")
    say(w, "What do they want in the flyer?")
    w.sees("They want a deposit until Friday.")
    reasons = w.page.get_by_text("Has read flyer.txt, which you uploaded")
    reasons.wait_for()
    assert reasons.count() == 1, "once for the answer, not for each of its messages"
    w.scene("chat-others-words")
    reasons.click()
    w.sees("A new conversation begins without it.")
    w.page.get_by_role("list", name="Tool calls").get_by_text("Read attachments/flyer.txt.").click()
    w.sees("Not your words")
    w.sees("From an attachment")
    w.sees("Summer party of the house.")
    w.scene("chat-others-words-opened")
    say(w, "Tell accounting where to pay")
    reasons.nth(1).wait_for()
    assert reasons.count() == 2
    w.click("Review and answer", role="link")
    w.page.get_by_role("heading", name="Influenced by content you did not write").wait_for()
    w.sees("These sources influenced this proposal. Check the marked values before you say yes.")
    w.page.locator(".origin code").get_by_text("attachment").wait_for()
    w.page.locator(".origin mark").get_by_text(ACCOUNT).wait_for()
    ready(w, "Approve with passkey")
    w.scene("approval-influenced")
    approve(w, passkey=True)
    is_done(w, "accounting")
    assert house.received() == [{"account": ACCOUNT}]


def test_a_difference_that_is_cut_counts_what_is_left_out_of_it_too(house, window):
    (house.workspace / "plan.md").write_text("".join(f"line {n}\n" for n in range(150)))
    w = window(Look("phone", "light"))
    settle_in(w)
    begin_talk(w, "Write a novel")
    w.click("Review and answer", role="link")
    diff = w.page.locator(".card").filter(has=w.page.get_by_role("heading", name="What would happen"))
    diff.get_by_text("+412", exact=True).wait_for()
    diff.get_by_text("−0", exact=True).wait_for()
    diff.get_by_text("215 more lines of the difference are not shown here.").wait_for()
    w.scene("difference-of-a-new-file")
    begin_talk(w, "Rewrite the plan")
    w.click("Review and answer", role="link")
    diff.get_by_text("+150", exact=True).wait_for()
    diff.get_by_text("−150", exact=True).wait_for()
    diff.get_by_text("103 more lines of the difference are not shown here.").wait_for()
    w.scene("difference-of-which-a-part-is-left-out")


def attach(w, name, text):
    """Hand a file to the workspace."""
    with w.page.expect_file_chooser() as chooser:
        w.page.get_by_role("button", name="Attach a file to the workspace").click()
    chooser.value.set_files({"name": name, "mimeType": "text/plain", "buffer": text.encode()})


def test_done_is_reported_when_it_is_done_and_not_before(house, window):
    w = window(Look("desktop", "dark"))
    settle_in(w)
    begin_talk(w, "Tell the partners")
    w.click("Review and answer", role="link")
    action = w.arrives(r"/approvals/([\w-]+)")[1]
    ready(w, "Approve with passkey")
    approve(w, passkey=True)
    w.sees("Approved, being done")
    assert house.receiver.reached.wait(30)
    w.go(f"#/approvals/{action}")
    w.sees("Approved, not done yet.")
    w.scene("approval-under-way")
    assert w.page.get_by_text(re.compile("^Done")).filter(visible=True).count() == 0
    house.receiver.let_go.set()
    w.sees("Done. A receipt was written.")
    assert len(house.received()) == 1


def test_an_answer_from_elsewhere_and_one_that_came_too_late_are_seen_here(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    begin_talk(w, "Write three notes")
    w.sees("Three of them.")
    menu(w, "Approvals")
    waiting(w).nth(2).wait_for()
    answered_at_the_terminal(w, house)
    answered_in_another_window(w, house, window)
    too_late(w, house)


def in_sight(w):
    return w.arrives(r"/approvals/([\w-]+)")[1]


def answered_at_the_terminal(w, house):
    action = in_sight(w)
    ready(w)
    house.run("approvals", "reject", action, "--reason", "Said at the terminal")
    w.sees("Said at the terminal")
    waiting(w).nth(2).wait_for(state="detached")
    w.scene("approval-answered-elsewhere")


def answered_in_another_window(w, house, window):
    waiting(w).first.click()
    action = in_sight(w)
    ready(w)
    other = window(Look("phone", "light"))
    pair(other, house.new_code(), typed=False)
    other.page.get_by_role("heading", name="Confirm this device").wait_for()
    other.authenticator.take(w.authenticator.credentials())
    other.click("Confirm with passkey")
    other.page.get_by_role("navigation", name="Main").filter(visible=True).wait_for()
    other.go(f"#/approvals/{action}")
    ready(other, "Reject")
    other.click("Reject", exact=True)
    other.page.get_by_label("Reason").fill("Said on the way")
    other.click("Reject it")
    other.sees("Rejected.")
    w.sees("Said on the way")
    waiting(w).nth(1).wait_for(state="detached")


def too_late(w, house):
    waiting(w).first.click()
    action = in_sight(w)
    ready(w)
    with contextlib.closing(sqlite3.connect(house.home / "memory.sqlite", timeout=30)) as db, db:
        db.execute("UPDATE proposed_actions SET expires_at = '2020-01-01T00:00:00.000Z' WHERE action_id = ?", (action,))
    w.page.get_by_role("list", name="Waiting").wait_for(state="detached")
    w.sees("Nobody answered in time, so it will not happen.")
    w.page.get_by_role("status").get_by_text("Your reason").wait_for(state="detached")
    w.page.get_by_text("It changed while you were reading.").wait_for(state="detached")
    w.scene("approval-expired")
