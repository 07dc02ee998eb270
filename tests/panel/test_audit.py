"""The ledger: found by what, whom and when, told as a story, taken home, and never silent about a broken chain."""

import contextlib
import json
import re
import sqlite3

import pytest

from tests.panel.acts import MAIN, approve, begin_talk, is_done, menu, settle_in
from tests.panel.window import Look

pytestmark = pytest.mark.slow


def write_the_list(w):
    """One approved action; its id."""
    begin_talk(w, "Write the shopping list")
    w.click("Review and answer", role="link")
    action = w.arrives(r"/approvals/([\w-]+)")[1]
    approve(w, passkey=False)
    is_done(w, "shopping.md")
    return action


def shown(w, words):
    """A line of the ledger."""
    return w.page.locator("summary .words").get_by_text(words, exact=True).first


def lines(w):
    """What the ledger shows, line by line."""
    return w.page.locator("summary .words").all_inner_texts()


def test_the_ledger_is_searched_told_and_taken_home(house, window):
    w = window(Look("desktop", "dark"))
    settle_in(w)
    action = write_the_list(w)
    menu(w, "Audit")
    shown(w, "Action done").wait_for()
    by_what_happened(w)
    by_whom(w, action)
    by_when(w)
    a_story(w, action)
    taken_home(w, house, action)
    verified(w)


def choose(w, label, option):
    w.page.get_by_role("combobox", name=label).select_option(label=option)


ONE_KIND = """() => new Set([...document.querySelectorAll('summary .words')]
    .map((each) => each.textContent)).size === 1"""


def by_what_happened(w):
    choose(w, "What happened", "Action done")
    w.page.wait_for_function(ONE_KIND)
    assert set(lines(w)) == {"Action done"}
    assert "type=tool_completed" in w.place
    w.scene("audit-by-type")
    choose(w, "What happened", "Everything")
    shown(w, "Device paired").wait_for()


def by_whom(w, action):
    field = w.page.get_by_role("searchbox", name="Id of an action, job, conversation or device")
    field.fill(action)
    shown(w, "Device paired").wait_for(state="detached")
    shown(w, "Action proposed").wait_for()
    assert {"Action proposed", "You were asked", "Action approved", "Action done"} <= set(lines(w))
    w.page.locator("summary").filter(has_text="Action done").click()
    w.sees(action)
    w.scene("audit-by-entity")
    field.fill("act_nobody")
    w.sees("Nothing matches this filter")
    w.scene("audit-nothing")
    w.click("Clear filter")
    shown(w, "Device paired").wait_for()
    assert field.input_value() == ""


def by_when(w):
    choose(w, "When", "Last hour")
    shown(w, "Device paired").wait_for()
    choose(w, "When", "From … to …")
    w.page.get_by_label("To", exact=True).fill("2020-01-02T03:04")
    w.sees("Nothing matches this filter")
    w.page.get_by_label("To", exact=True).fill("")
    w.page.get_by_label("From", exact=True).fill("2020-01-02T03:04")
    shown(w, "Device paired").wait_for()
    w.scene("audit-by-time")
    choose(w, "When", "Any time")


def a_story(w, action):
    choose(w, "What happened", "Action approved")
    w.page.locator("summary").filter(has_text="Action approved").click()
    w.click(action, role="link")
    w.arrives(rf"/audit/story/{action}")
    w.sees("All records agree.")
    told = w.page.get_by_role("list", name="Story of an action").inner_text()
    at = [told.index(word) for word in ("Asked", "Decided", "Approved", "Carried out", "Receipt")]
    assert at == sorted(at)
    w.page.get_by_role("link", name=re.compile("^(rcp|rct|rec)_|No\\. 1 in the chain")).first.click()
    w.arrives(r"/audit/receipts/([\w-]+)")
    w.sees("It matches its hash and follows the receipt before it.")
    w.scene("audit-receipt")


def taken_home(w, house, action):
    w.go("#/audit")
    shown(w, "Device paired").wait_for()
    with w.page.expect_download() as got:
        w.click("Download everything", role="link")
    assert re.fullmatch(r"audit-\d{4}-\d\d-\d\d\.jsonl", got.value.suggested_filename)
    events = [json.loads(line) for line in got.value.path().read_text().splitlines()]
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)
    ours = [event["event_type"] for event in events if event["entity_id"] == action]
    known = json.loads(house.run("audit", "list", "--entity", action, "--json"))
    assert ours == [event["event_type"] for event in known]


def verified(w):
    w.click("Verify now")
    w.sees(re.compile("receipts? verified: the chain is valid."))


def test_a_chain_that_was_tampered_with_is_broken_wherever_one_looks(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    action = write_the_list(w)
    menu(w, "Audit")
    w.sees("Receipts intact")
    house.down()
    with contextlib.closing(sqlite3.connect(house.home / "memory.sqlite")) as db, db:
        changed = db.execute("""UPDATE receipts SET line = replace(line, '"allowed"', '"denied"') WHERE seq = 1""")
        assert changed.rowcount == 1
    house.up()
    w.open("#/audit")
    w.page.get_by_role("alert").get_by_text("Stop everything").wait_for()
    w.sees("Receipts broken")
    w.scene("audit-broken")
    w.click("Verify now")
    w.sees("The chain is broken.")
    for screen in (*MAIN, "Schedules", "Settings"):
        menu(w, screen)
        w.page.get_by_role("link", name=re.compile("^Receipts broken")).filter(visible=True).wait_for()
    w.scene("settings-while-broken")
    w.go(f"#/audit/story/{action}")
    w.sees("The records disagree")
    w.scene("story-broken")
    w.go("#/audit/receipts")
    w.click("shopping.md", role="link")
    w.sees("This receipt is invalid.")
    w.scene("receipt-broken")
