"""Work in the background: watched, called off, sent on, failed with a reason, and settled where nobody saw the end."""

import base64
import contextlib
import hashlib
import json
import re

import pytest

from tests.panel.acts import approve, begin_talk, in_another_tab, menu, new_job, settle_in
from tests.panel.house import House
from tests.panel.receivers import Moody
from tests.panel.window import Look

pytestmark = pytest.mark.slow

FIGURES = "month,total\nOctober,1190.00\nNovember,1284.50\n"
NOTE = "See the figures.\n"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

SCRIPT = [
    {"match": "the figures", "text": "I put them together.", "tool_calls": [
        {"tool": "artifact_put", "args": {"name": "figures.csv", "kind": "data", "content": FIGURES}},
    ]},
    {"match": "the figures", "tool_calls": [
        {"tool": "file_write", "args": {"path": "figures.md", "content": NOTE}, "justification": "To find them again."},
    ]},
    {"match": "the figures", "text": "They are **there**."},
    {"match": "the scan", "tool_calls": [
        {"tool": "file_write", "args": {"path": "scan.png", "content": "to come\n"}, "justification": "Its place."},
    ]},
    {"match": "the scan", "text": "Its place is taken."},
    {"match": "a summary", "text": "There is nothing to sum up."},
    {"match": "a shaky thing", "error": "unavailable"},
    {"match": "a shaky thing", "text": "It stood in the end."},
    {"match": "a long book", "text": "One chapter more.", "usage": {"input_tokens": 700, "output_tokens": 100}},
    {"match": "the torn line", "tool_calls": [
        {"tool": "webhook_send", "args": {"target": "accounting", "payload": {"mood": "torn"}}, "justification": "Go."},
    ]},
    {"match": "the torn line", "text": "It goes out once you say yes."},
]  # fmt: skip


@pytest.fixture
def house(tmp_path):
    with contextlib.closing(House(tmp_path, script=SCRIPT, receiver=Moody)) as made:
        yield made


def downloaded(w, name):
    """Press a link to the API; the name it is saved under and its bytes."""
    with w.page.expect_download() as got:
        w.click(name, role="link")
    return got.value.suggested_filename, got.value.path().read_bytes()


def story(w):
    return w.page.get_by_role("list", name="What happened")


def test_a_job_is_watched_to_its_end_and_what_it_left_is_taken_home(house, window):
    w = window(Look("phone", "dark"))
    settle_in(w)
    new_job(w, "Prepare the figures of November")
    w.page.evaluate("window.__here = true")
    story(w).get_by_text("Asked you and waits").wait_for()
    asked = w.page.get_by_role("link", name=re.compile("^Review")).get_attribute("href")
    in_another_tab(w, asked, "Approve")
    story(w).get_by_text("Done", exact=True).wait_for()
    w.sees("They are there.")
    assert w.page.evaluate("window.__here"), "the page was loaded anew"
    assert downloaded(w, "Download figures.csv")[1] == FIGURES.encode()
    w.click("Show figures.md")
    shown = w.page.get_by_role("dialog")
    shown.get_by_text(NOTE.strip().splitlines()[0]).wait_for()
    w.scene("job-file")
    shown.get_by_role("button", name="Close").last.click()
    w.page.get_by_text("Evidence", exact=True).click()
    w.page.get_by_role("list", name="Files as it left them").wait_for()
    w.scene("job-evidence")
    manifest = json.loads(downloaded(w, "Download the manifest")[1])
    assert {each["path"]: each["sha256"] for each in manifest["files"]} == {
        "figures.md": hashlib.sha256(NOTE.encode()).hexdigest()
    }
    w.sees(manifest["manifest_hash"][:8])


def test_a_file_is_shown_as_text_or_picture_or_told_as_what_it_is(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    new_job(w, "Keep a place for the scan")
    in_another_tab(w, w.page.get_by_role("link", name=re.compile("^Review")).get_attribute("href"), "Approve")
    story(w).get_by_text("Done", exact=True).wait_for()
    there = house.workspace / "scan.png"
    shown = shown_file(w, there, PNG)
    shown.get_by_text("PNG image").wait_for()
    shown.get_by_text(f"{len(PNG)} B", exact=True).wait_for()
    shown.get_by_text(hashlib.sha256(PNG).hexdigest()[:8]).wait_for()
    shown.get_by_text(hashlib.sha256(b"to come\n").hexdigest()[:8]).wait_for()
    picture = shown.get_by_role("img", name=f"scan.png, {len(PNG)} B")
    picture.wait_for()
    assert picture.get_attribute("src").startswith("data:image/png;base64,")
    assert picture.evaluate("async (each) => { await each.decode(); return each.naturalWidth }") == 1
    w.scene("file-picture")
    shown = shown_file(w, there, PNG[:33] + b"but nothing that could be drawn")
    shown.get_by_text("It begins like a picture, but the browser cannot draw it.").wait_for()
    shown = shown_file(w, there, b"PK\x03\x04" + bytes(40))
    shown.get_by_text("ZIP archive").wait_for()
    shown.get_by_text("Open it on the machine that CoilClaw runs on.").wait_for()
    w.scene("file-no-text")
    assert shown.locator("img").count() == 0
    shown = shown_file(w, there, b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    shown.get_by_text("<script>alert(1)</script>").wait_for()
    assert shown.locator("img").count() == 0
    shown = shown_file(w, there, b"0123456789abcdef\n" * 10_000)
    shown.get_by_text("This is only its first part, 131 kB.").wait_for()
    w.scene("file-first-part")
    shown = shown_file(w, there, b"0123456789abcdef\n" * 20_000)
    shown.get_by_text("This is only its first part, 131 kB.").wait_for()
    shown.get_by_text("340 kB").wait_for()


def shown_file(w, path, data):
    """What the panel shows of a file that holds this by now."""
    path.write_bytes(data)
    open_one = w.page.get_by_role("dialog").get_by_role("button", name="Close").last
    if open_one.is_visible():
        open_one.click()
    w.click(f"Show {path.name}")
    return w.page.get_by_role("dialog")


def test_a_job_is_called_off_one_fails_and_one_is_sent_on(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    called_off(w)
    fails(w)
    sent_on(w)
    by_state(w)


def called_off(w):
    new_job(w, "Write the weekly report to notes/week.md")
    w.page.get_by_role("heading", name="It waits for your answer").wait_for()
    w.click("Cancel job")
    w.page.get_by_label("Reason (optional)").fill("Next week will do")
    w.scene("job-cancel")
    w.click("Cancel the job")
    w.sees("The job was cancelled.")
    w.sees("It was cancelled.")
    w.page.get_by_role("heading", name="It waits for your answer").wait_for(state="detached")
    w.sees("Next week will do")
    w.scene("job-cancelled")
    menu(w, "Approvals")
    w.sees("Nothing is waiting for you")


def fails(w):
    menu(w, "Work")
    w.click("New job", role="link")
    w.page.get_by_label("Goal", exact=True).fill("Write a summary")
    w.page.get_by_text("Limits", exact=True).click()
    w.page.get_by_label("It must leave").fill("summary")
    w.click("Start job")
    w.arrives(r"/work/jobs/(?!new)([\w-]+)")
    w.sees(re.compile("evidence missing: summary", re.I))
    w.sees("It could not be finished.")
    w.scene("job-failed")
    w.click("Try it as a new job", role="link")
    w.page.wait_for_function("() => document.querySelector('textarea')?.value === 'Write a summary'")
    assert w.page.get_by_label("It must leave").input_value() == "summary"


def sent_on(w):
    new_job(w, "Balance a shaky thing")
    w.sees(re.compile("The last step failed. It is retried"))
    w.scene("job-tried-again")
    w.click("Resume now")
    w.sees("It stood in the end.")
    story(w).get_by_text("You resumed it").wait_for()
    w.scene("job-sent-on")


def by_state(w):
    menu(w, "Work")
    states = w.page.get_by_role("navigation", name="Jobs by state")
    for state, goal in {"Done": "shaky thing", "Failed": "summary", "Cancelled": "weekly report"}.items():
        states.get_by_role("link", name=re.compile(f"{state}\\s*1")).click()
        w.sees(re.compile(goal))
    w.scene("jobs-cancelled")


def test_a_job_pauses_when_the_day_is_spent_and_continues_when_there_is_more(house, window):
    house.down()
    house.environ["COILCLAW_BUDGETS_DAILY_TOKENS"] = "500"
    house.up()
    w = window(Look("desktop", "dark"))
    settle_in(w)
    menu(w, "Work")
    w.click("New job", role="link")
    w.page.get_by_label("Goal", exact=True).fill("Write a long book")
    w.page.get_by_label("Steps (optional)").fill("Begin a long book\nEnd a long book")
    w.click("Start job")
    job = w.arrives(r"/work/jobs/(?!new)([\w-]+)")[1]
    w.sees("Today's budget is used up.")
    w.sees("1 of 2 steps done")
    w.scene("job-paused")
    w.click("Resume now")
    w.sees("It continues now.")
    story(w).get_by_text("Postponed").wait_for()
    w.sees("Today's budget is used up.")
    house.down()
    house.environ["COILCLAW_BUDGETS_DAILY_TOKENS"] = "100000"
    house.up()
    w.open(f"#/work/jobs/{job}")
    w.click("Resume now")
    w.sees("Every step of the plan is done.")
    w.scene("job-after-pause")


def test_an_end_that_nobody_saw_is_settled_by_the_owners_word(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    begin_talk(w, "Send it along the torn line")
    w.click("Review and answer", role="link")
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve with passkey").wait_for()
    approve(w, passkey=True)
    w.sees(re.compile("Outcome unknown: "))
    menu(w, "Work")
    w.click("Actions", role="link", exact=True)
    w.sees("1 outcome unknown: record how it ended")
    w.scene("actions-unknown")
    w.page.get_by_role("heading", name="The outcome is unknown").wait_for()
    w.scene("action-unknown")
    w.page.get_by_role("radio", name=re.compile("^Do it again")).check()
    w.sees("it may happen twice")
    w.click("Do it again with passkey")
    w.sees("It is being done again.")
    w.sees("It was started 2 times.")
    assert len(house.received()) == 2
    w.page.get_by_role("radio", name=re.compile("^It happened")).check()
    before = w.authenticator.credentials()[0]["signCount"]
    w.click("Record it with passkey")
    w.sees("Recorded: it happened.")
    assert w.authenticator.credentials()[0]["signCount"] > before
    w.page.get_by_role("heading", name="The outcome is unknown").wait_for(state="detached")
    w.sees("Done. A receipt was written.")
    w.page.get_by_role("list", name="Story").get_by_text("You said how it ended").nth(1).wait_for()
    assert "owner_" not in w.page.get_by_role("list", name="Story").inner_text()
    w.scene("action-settled")
    assert len(house.received()) == 2
