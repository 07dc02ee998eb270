"""A job's change in the panel: read by file, sent back, merged where it is read, and taken back."""

import contextlib
import re

import pytest

from tests.panel.acts import approve, menu, new_job, settle_in
from tests.panel.house import REPORT, House
from tests.panel.window import Look

pytestmark = pytest.mark.slow

FINDING = "# Prices\n\n- Coffee is 4 % dearer than in October.\n"
MANY = "mkdir -p notes/few notes/many && seq 7 | split -l 1 - notes/few/n && seq 993 | split -l 1 -a 3 - notes/many/n"
SCRIPT = [
    {"match": "thousand notes", "text": "I write them.", "tool_calls": [
        {"tool": "shell", "args": {"command": MANY}, "justification": "Asked."},
    ]},
    {"match": "thousand notes", "text": "They are in notes."},
    {"match": "coffee prices", "text": "I look it up.", "tool_calls": [
        {"tool": "file_write", "args": {"path": "intel/2026-11/a.md", "content": FINDING}, "justification": "Asked."},
    ]},
    {"match": "coffee prices", "text": "It is in intel."},
]  # fmt: skip


@pytest.fixture
def house(tmp_path):
    with contextlib.closing(House(tmp_path, script=SCRIPT, environ={"COILCLAW_FORGE_ENABLED": "true"})) as made:
        yield made


def press(w, name):
    w.page.get_by_role("button", name=name).filter(visible=True).first.click()


@pytest.mark.parametrize("look", [Look("phone", "light"), Look("desktop", "dark")], ids=str)
def test_a_job_ends_in_a_pull_request_that_is_read_merged_and_taken_back(house, window, look):
    w = window(look)
    settle_in(w)
    menu(w, "Work")
    w.click("Pull requests", role="link")
    w.sees("No pull requests yet")
    w.scene("pulls-none")

    job = new_job(w, "Write the weekly report to notes/week.md")
    w.click("Pull request #1", role="link")
    w.arrives("/work/pulls/1")
    w.sees("It is merged when you approve it, and not before.")
    assert not (house.workspace / "notes" / "week.md").exists()
    files = w.page.get_by_role("list", name="What it changes")
    assert files.get_by_role("listitem").count() == 1
    files.get_by_text("notes/week.md").click()
    files.get_by_text("Nothing is overdue.").wait_for()
    w.page.get_by_text("Records that the runtime wrote").click()
    w.sees(f"audit/evidence/{job}.json")
    w.scene("pull-open")

    w.click("Ask for changes")
    w.page.get_by_label("What should be different").fill("Leave it as it is today.")
    w.click("Send to the job")
    w.sees("The job continues with your words.")
    w.sees("It is merged when you approve it, and not before.")
    w.scene("pull-again")

    w.click("Review and answer")
    press(w, re.compile("^Approve"))
    w.sees("It is merged, and the workspace holds what it changed.")
    assert (house.workspace / "notes" / "week.md").read_text() == REPORT
    story = w.page.get_by_role("list", name="What happened")
    story.get_by_text("Merged change put in force").wait_for()
    assert story.get_by_role("link", name="You asked for it").get_attribute("href").startswith("#/chat/")
    assert story.get_by_role("link", name="Merge approved").get_attribute("href").startswith("#/audit/story/act_")
    w.scene("pull-merged")
    story.scroll_into_view_if_needed()
    w.shoot("pull-story")

    w.click("Revert")
    w.arrives("/work/pulls/2")
    w.page.get_by_role("list", name="What it changes").get_by_text("Removed").first.wait_for()
    w.click("Close", exact=True)
    w.page.get_by_label("Why (optional)").fill("It may stay.")
    w.click("Close it")
    w.sees("It was closed without merging.")
    w.click("Reopen", exact=True)
    w.sees("It is merged when you approve it, and not before.")
    w.click("Close", exact=True)
    w.click("Close it")
    w.sees("It was closed without merging.")
    w.go("#/work/pulls")
    over = w.page.get_by_role("list", name="Merged or closed").get_by_role("listitem")
    over.nth(1).wait_for()
    w.scene("pulls-over")


@pytest.mark.parametrize("look", [Look("phone", "dark"), Look("desktop", "light")], ids=str)
def test_a_thousand_files_are_read_by_folder_and_each_when_it_is_opened(house, window, look):
    house.down()
    house.environ["COILCLAW_SECURITY_AUTONOMY"] = "full"  # one command makes them, once it is approved
    house.up()
    w = window(look)
    settle_in(w)
    job = new_job(w, "Write a thousand notes")
    menu(w, "Approvals")
    if look.size == "phone":
        w.page.get_by_role("link", name=re.compile("mkdir")).first.click()
    approve(w, passkey=False)
    w.open(f"#/work/jobs/{job}")
    w.click("Pull request #1", role="link")
    w.sees("It is merged when you approve it, and not before.")
    asked = len(w.asked)
    files = w.page.get_by_role("list", name="What it changes")
    files.get_by_text("1,000 files").wait_for()
    w.scene("pull-thousand")
    for folder in ("notes", "many"):
        files.get_by_text(folder, exact=True).click()
    notes = files.get_by_text(re.compile(r"^n\w{3}$"))
    notes.nth(992).wait_for()
    assert notes.count() == 993
    files.get_by_text("naab", exact=True).click()
    files.locator(".line.add").first.wait_for()
    assert len([url for url in w.asked[asked:] if "/diff" in url]) == 1, "no difference is read that nobody looks at"
    files.get_by_text("many", exact=True).scroll_into_view_if_needed()
    w.scene("pull-thousand-open")


@pytest.mark.parametrize("look", [Look("phone", "dark"), Look("desktop", "light")], ids=str)
def test_what_merges_unasked_is_chosen_with_a_warning_and_ended_with_one_press(house, window, look):
    w = window(look)
    settle_in(w)
    w.go("#/work/pulls")
    w.sees("You approve every merge.")
    choose(w, "Listed paths")
    w.scene("merge-mode")
    w.click("Continue to the card")
    approve(w, passkey=True)
    w.arrives("/work/pulls")
    w.sees("Listed paths merge without asking you.")

    new_job(w, "Find out about coffee prices")
    w.sees("Pull request #1")
    w.sees("Done", exact=True)
    w.go("#/work/intel")
    if look.size == "phone":
        w.click("a.md", role="link")
    w.sees("Coffee is 4 % dearer than in October.")
    w.scene("intel")

    w.go("#/work/pulls")
    choose(w, "Whatever passes its checks")
    w.sees("Jobs would change your files")
    go_on = w.page.get_by_role("button", name="Continue to the card")
    assert go_on.is_disabled(), "not without the word"
    w.scene("merge-mode-yolo")
    w.page.get_by_label("Type “yolo” to go on").fill("yolo")
    go_on.click()
    approve(w, passkey=True)
    w.sees(re.compile("^Pull requests merge without asking you until"))
    w.scene("yolo")
    w.click("Ask me first")
    w.page.get_by_role("button", name="Ask me first").wait_for(state="detached")
    w.go("#/work/pulls")
    w.sees("You approve every merge.")


def choose(w, mode):
    w.click("Change", exact=True)
    w.page.get_by_role("radio", name=mode).check()
