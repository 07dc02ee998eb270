"""The whole story, from a code in a terminal to work by the clock, on a phone by day and on a desk by night."""

import re

import pytest

from tests.panel.acts import (
    approve,
    begin_talk,
    clear_stop,
    first_passkey,
    is_done,
    menu,
    new_job,
    new_schedule,
    pair,
    say,
    stop_everything,
)
from tests.panel.house import LIST, REPORT, SECRET
from tests.panel.window import Look

pytestmark = pytest.mark.slow

LOOKS = [Look("phone", "light"), Look("desktop", "dark")]
"""Each size and each light once; test_screens looks at every screen in all four."""

STREAMED = """() => {
    window.__heard = [];
    new MutationObserver(() => {
        const now = document.querySelector('.now .prose');
        if (now?.textContent) window.__heard.push(now.textContent);
    }).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_an_owner_pairs_talks_approves_plans_stops_and_reads_on_without_the_network(look, house, window):
    w = window(look)
    comes_in(w, house)
    thread = talks(w)
    write = a_file_write_asks(w, house, thread)
    a_webhook_asks(w, house)
    the_receipt_is_there(w, write)
    a_schedule_is_made(w)
    a_job_asks(w, house)
    everything_stops(w, house)
    the_network_goes(w)


def comes_in(w, house):
    w.open("")
    w.page.get_by_label("Pairing code").wait_for()
    w.scene("01-pair")
    pair(w, house.server.code, typed=w.look.size == "desktop")
    w.page.get_by_role("heading", name="Add your passkey").wait_for()
    w.scene("02-passkey")
    first_passkey(w)
    assert len(w.authenticator.credentials()) == 1
    w.page.get_by_role("heading", name="Get to your first approved action").wait_for()
    w.scene("03-first-steps")


def talks(w):
    thread = begin_talk(w, "Good morning!")
    w.sees("Hello, and welcome.")
    w.page.evaluate(STREAMED)
    say(w, "What is on today?")
    w.sees("Nothing else is due before Friday.")
    w.page.get_by_label("Stop this answer").wait_for(state="detached")
    heard = w.page.evaluate("window.__heard")
    assert any("from your notes" in each for each in heard), "the answer was not shown while it came in"
    assert w.page.locator(".prose strong").get_by_text("today").is_visible()
    w.scene("04-chat")
    return thread


def a_file_write_asks(w, house, thread):
    say(w, "Write the shopping list")
    w.click("Review and answer", role="link")
    action = w.arrives(r"/approvals/([\w-]+)")[1]
    w.page.get_by_role("heading", name="What would happen").wait_for()
    if w.look.size == "phone":
        w.click("Back", role="link", exact=True)  # to where it was asked, not to a list
        w.arrives(rf"/chat/{thread}")
        w.click("Review and answer", role="link")
        w.arrives(rf"/approvals/{action}")
    w.sees("coffee beans")
    w.sees(re.compile(r"2[34] h \d\d min left"))  # how long the question stands
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve", exact=True).wait_for()
    w.scene("05-file-write-asks")
    assert not (house.workspace / "shopping.md").exists()
    approve(w, passkey=False)
    is_done(w, "shopping.md")
    assert (house.workspace / "shopping.md").read_text() == LIST
    w.scene("06-approved")
    w.go(f"#/chat/{thread}")
    call = w.page.get_by_role("list", name="Tool calls")
    call.get_by_text("Done").wait_for()
    call.get_by_text("Write 52 bytes to shopping.md.").click()
    call.get_by_text("Receipt", exact=True).wait_for()
    call.get_by_text("Wrote 52 bytes to shopping.md.").wait_for()
    assert not w.page.get_by_text("approval needed").is_visible()
    w.scene("06-chat-with-receipt")
    call.get_by_role("link", name=action).click()
    w.arrives(rf"/audit/story/{action}")
    return action


def a_webhook_asks(w, house):
    begin_talk(w, "Tell accounting the total of November")
    w.click("Review and answer", role="link")
    w.page.get_by_role("button", name="Approve with passkey").wait_for()
    w.sees("Leaves this machine")
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve with passkey").wait_for()
    w.scene("07-webhook-asks")
    assert SECRET not in w.page.content()
    before = w.authenticator.credentials()[0]["signCount"]
    approve(w, passkey=True)
    is_done(w, "accounting")
    assert w.authenticator.credentials()[0]["signCount"] > before
    assert house.received() == [{"month": "November", "total": "1284.50"}]


def the_receipt_is_there(w, action):
    menu(w, "Audit")
    w.click("Receipts", role="link", exact=True)
    w.arrives(r"/audit/receipts")
    w.scene("08-receipts")
    w.go(f"#/work/actions/{action}")
    w.page.get_by_role("heading", name="Receipts").wait_for()
    w.sees("in the chain")
    w.scene("09-action")
    w.go(f"#/audit/story/{action}")
    w.page.get_by_role("list", name="Story").wait_for()
    w.scene("10-story")


def a_schedule_is_made(w):
    new_schedule(w, "Write the weekly report", "0 9 * * 1-5", "weekday")
    w.scene("11-schedule-new")
    w.click("Create schedule")
    w.sees("The schedule was saved.")
    w.page.get_by_role("switch").wait_for()
    w.scene("12-schedule")


def a_job_asks(w, house):
    job = new_job(w, "Write the weekly report to notes/week.md")
    w.page.get_by_role("heading", name="It waits for your answer").wait_for()
    w.scene("13-job-asks")
    w.click("Review and answer", role="link")
    w.page.get_by_role("heading", name="What would happen").wait_for()
    approve(w, passkey=False)
    is_done(w, "week.md")
    assert (house.workspace / "notes" / "week.md").read_text() == REPORT
    w.go(f"#/work/jobs/{job}")
    w.sees("Every step of the plan is done.")
    w.scene("14-job-done")


def everything_stops(w, house):
    stop_everything(w, "Just trying it")
    w.scene("15-stopped")
    house.run("estop", "--status", code=5)
    clear_stop(w)
    house.run("estop", "--status")
    menu(w, "Overview")
    w.sees("Nothing is waiting for you")
    w.scene("16-overview")


def the_network_goes(w):
    menu(w, "Schedules")
    w.sees("write-the-weekly-report")
    w.settled()
    w.page.evaluate("() => navigator.serviceWorker.ready.then(() => null)")
    w.context.set_offline(True)
    w.page.reload()
    w.sees("CoilClaw cannot be reached")
    w.sees("As it was")
    w.sees("write-the-weekly-report")
    w.scene("17-offline")
    w.context.set_offline(False)
    w.page.get_by_text("CoilClaw cannot be reached").first.wait_for(state="hidden")
