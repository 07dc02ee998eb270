"""A job's change in the panel: read by file, sent back, merged where it is read, and taken back."""

import contextlib
import re

import pytest

from tests.panel.acts import menu, new_job, settle_in
from tests.panel.house import REPORT, House
from tests.panel.window import Look

pytestmark = pytest.mark.slow


@pytest.fixture
def house(tmp_path):
    with contextlib.closing(House(tmp_path, environ={"COILCLAW_FORGE_ENABLED": "true"})) as made:
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
    w.page.get_by_label("What shall be different").fill("Leave it as it is today.")
    w.click("Send to the job")
    w.sees("The job continues with your words.")
    w.sees("It is merged when you approve it, and not before.")
    w.scene("pull-again")

    w.click("Review and answer")
    press(w, re.compile("^Approve"))
    w.sees("It is merged, and the workspace holds what it changed.")
    assert (house.workspace / "notes" / "week.md").read_text() == REPORT
    w.page.get_by_role("list", name="What happened").get_by_text("Merged change put in force").wait_for()
    w.scene("pull-merged")

    w.click("Revert")
    w.arrives("/work/pulls/2")
    w.page.get_by_role("list", name="What it changes").get_by_text("Removed").first.wait_for()
    w.click("Close", exact=True)
    w.page.get_by_label("Why (optional)").fill("It may stay.")
    w.click("Close it")
    w.sees("It was closed without merging.")
    w.go("#/work/pulls")
    over = w.page.get_by_role("list", name="Merged or closed").get_by_role("listitem")
    over.nth(1).wait_for()
    w.scene("pulls-over")
