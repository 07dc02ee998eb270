"""Work by the clock: told in words while it is typed, switched off and on, started by hand, changed and taken away."""

import re
import time

import pytest

from tests.panel.acts import approve, in_another_tab, is_done, menu, new_schedule, say, settle_in
from tests.panel.house import PATIENCE
from tests.panel.window import Look

pytestmark = pytest.mark.slow

NAME = "what-is-on-today"


def test_a_schedule_is_written_run_by_hand_switched_changed_and_deleted(house, window):
    w = window(Look("phone", "dark"))
    settle_in(w)
    menu(w, "Schedules")
    w.sees("No schedules yet")
    w.scene("schedules-none")
    told_while_typing(w)
    nonsense_is_refused(w)
    both_clocks_and_notes(w)
    run_by_hand(w)
    off_and_on(w)
    changed(w)
    deleted(w)


def told_while_typing(w):
    w.click("New schedule", role="link")
    w.page.get_by_label("Goal of each run").fill("What is on today?")
    by_days_and_time(w)
    w.page.get_by_text("Advanced", exact=True).click()
    cron = w.page.get_by_label("Calendar (cron)")
    cron.fill("0 9 * * 1")
    w.sees(re.compile("Monday at 9:00 AM"))
    cron.press("End")
    cron.press_sequentially("-5")
    w.sees(re.compile("weekday", re.I))
    w.click("Hourly")
    w.sees(re.compile("hour", re.I))


def by_days_and_time(w):
    for day in ("Tue", "Wed", "Thu"):
        w.click(day)
    w.page.get_by_label("Time of day").fill("07:15")
    w.page.get_by_label("Time of day").press("Tab")
    assert w.page.get_by_label("Calendar (cron)").input_value() == "15 7 * * 1,5"
    w.settled()
    w.scene("schedule-days")


def nonsense_is_refused(w):
    cron = w.page.get_by_label("Calendar (cron)")
    cron.fill("99 9 * * *")
    w.sees("This is not a time yet")
    w.sees(re.compile("99"))
    w.settled()
    w.scene("schedule-nonsense")
    w.click("Create schedule")
    assert cron.evaluate("(field) => document.activeElement === field")
    assert "new" in w.page.url
    zone = w.page.get_by_label("Time zone")
    cron.fill("30 2 * * *")
    zone.fill("Europe/Atlantis")
    w.sees(re.compile("Atlantis"))
    w.page.locator('[aria-invalid="true"]').wait_for()
    zone.fill("Europe/Berlin")
    w.page.locator('[aria-invalid="true"]').wait_for(state="detached")


def both_clocks_and_notes(w):
    zone = w.page.get_by_label("Time zone")
    zone.fill("berlin")  # the city is enough
    w.page.get_by_role("columnheader", name="Europe/Berlin").wait_for()
    zone.blur()
    assert zone.input_value() == "Europe/Berlin"
    note = w.page.get_by_role("note")
    note.get_by_text("Notes").wait_for()
    clocks = w.page.get_by_role("table")
    clocks.get_by_role("columnheader", name="Europe/Berlin").wait_for()
    clocks.get_by_role("columnheader", name="UTC", exact=True).wait_for()
    clocks.get_by_text("02:30").first.wait_for()
    assert clocks.get_by_role("row").nth(1).inner_text().split("\t")[1].strip() in ("00:30", "01:30")
    w.scene("schedule-notes")
    w.click("Create schedule")
    w.sees("The schedule was saved.")
    w.arrives(rf"/schedules/{NAME}")
    w.page.get_by_role("note").get_by_text("Notes").wait_for()
    w.sees("It has not run yet.")
    w.scene("schedule-made")


def run_by_hand(w):
    w.click("Run now")
    w.sees("Started.")
    run = w.page.get_by_role("link", name=re.compile("Done\\s*Started by hand"))
    run.get_by_text("Here is today, from your notes:").wait_for()
    run.click()
    w.arrives(r"/work/jobs/([\w-]+)")
    w.page.get_by_role("heading", name="What is on today?", exact=True).wait_for()
    w.sees("Nothing else is due before Friday.")
    w.sees("Every step of the plan is done.")
    w.click(NAME, role="link")
    w.arrives(rf"/schedules/{NAME}")
    w.page.get_by_role("link", name=re.compile("Done\\s*Started by hand")).wait_for()
    w.scene("schedule-history")


def off_and_on(w):
    switch = w.page.get_by_role("switch")
    switch.click()
    w.sees("It is off. A run in progress continues.")
    w.sees("None while it is off.")
    assert switch.get_attribute("aria-checked") == "false"
    w.scene("schedule-off")
    switch.click()
    w.sees("It runs again.")
    w.page.get_by_role("columnheader", name="Europe/Berlin").wait_for()
    assert switch.get_attribute("aria-checked") == "true"


def changed(w):
    w.click("Edit", role="link", exact=True)
    w.page.get_by_role("heading", name=f"Edit {NAME}").wait_for()
    assert w.page.get_by_label("Calendar (cron)").input_value() == "30 2 * * *"
    w.page.get_by_text("Interval", exact=True).click()
    w.page.get_by_label("Every", exact=True).fill("soon")
    w.sees("This is not a time yet")
    w.page.get_by_label("Every", exact=True).fill("90m")
    w.sees("Every 1h30m")
    w.settled()
    w.scene("schedule-edit")
    w.click("Save changes")
    w.sees("The schedule was saved.")
    w.arrives(rf"/schedules/{NAME}")
    w.page.locator("code").get_by_text("1h30m").wait_for()


def deleted(w):
    w.click("Delete", exact=True)
    w.scene("schedule-delete")
    w.click("Keep it")
    w.page.get_by_role("dialog").wait_for(state="hidden")
    w.click("Delete", exact=True)
    w.click("Delete it")
    w.sees("The schedule was deleted.")
    w.sees("No schedules yet")


def test_a_run_is_told_as_over_without_anybody_asking_again_and_again(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    new_schedule(w, "Write the weekly report", "0 9 * * 1-5", re.compile("weekday", re.I))
    w.click("Create schedule")
    w.sees("The schedule was saved.")
    w.page.clock.install()
    w.open("#/schedules/write-the-weekly-report")  # anew: every timer of the page is one that can be run
    w.click("Run now")
    w.page.get_by_role("link", name=re.compile("Under way\\s*Started by hand")).wait_for()
    question = waiting(house)
    w.settled()
    asked = len(w.asked)
    w.page.clock.run_for(12_000)
    w.settled()
    assert [url for url in w.asked[asked:] if "/v1/schedules/" in url] == []
    in_another_tab(w, f"#/approvals/{question}", "Approve")
    w.page.get_by_role("link", name=re.compile("Done\\s*Started by hand")).wait_for()
    w.go("#/audit")
    w.sees("Run of a schedule ended")


def waiting(house):
    """What waits for the owner, once something does."""
    deadline = time.monotonic() + PATIENCE
    while not (found := re.search(r"\bact_\w+", house.run("approvals", "list"))):
        assert time.monotonic() < deadline
    return found[0]


def test_a_schedule_and_a_conversation_work_in_a_project(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    folder = house.folder / "shop"
    folder.mkdir()
    w.go("#/settings/projects")
    w.page.get_by_text("Add a project", exact=True).click()
    w.page.get_by_label("Folder", exact=True).fill("shop")
    w.sees("Give the whole path")
    w.page.get_by_label("Folder", exact=True).fill("/etc")
    w.click("Propose it")
    w.sees("part of the system")
    w.page.get_by_label("Folder", exact=True).fill(str(folder))
    w.scene("project-new")
    w.click("Propose it")
    w.sees("Its files will count as untrusted")
    approve(w, passkey=True)
    is_done(w, "shop")
    w.go("#/settings/projects")
    w.sees("Not vouched for")
    w.scene("project-untrusted")
    w.click("Vouch for it")
    approve(w, passkey=True)
    is_done(w, "shop")

    w.go("#/chat/new")
    w.page.get_by_label("Works in").select_option("shop")
    w.scene("chat-project")
    say(w, "Good morning!")
    w.sees("Project shop")
    say(w, "Write the shopping list")
    approve(w, passkey=False)
    w.sees("as soon as you say yes.")
    assert (folder / "shopping.md").exists()
    w.click("Undo")
    approve(w, passkey=False)
    w.sees("Taken back.")
    assert not (folder / "shopping.md").exists()

    w.go("#/schedules?new")
    w.page.get_by_label("Goal of each run").fill("What is on today?")
    w.page.get_by_label("Works in").select_option("shop")
    w.scene("schedule-project")
    w.click("Create schedule")
    w.arrives(f"/schedules/{NAME}")
    w.sees("Project shop")
    w.click("Edit", role="link", exact=True)
    w.page.get_by_label("Works in").select_option("")
    w.click("Save changes")
    w.arrives(f"/schedules/{NAME}")
    w.page.get_by_text("Project shop").wait_for(state="detached")

    w.page.get_by_label("Works in").wait_for(state="detached")
    w.go("#/settings/projects")
    w.sees("1 conversation")
    w.scene("projects-one")
    w.click("Remove", exact=True)
    w.sees("The files stay as they are.")
    w.page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    w.sees("No projects yet")
    assert folder.is_dir()
