"""A whole day with a phone alone: once its code is scanned, only its screen is pressed and no command is typed."""

import re

import pytest

from tests.panel.acts import approve, begin_talk, clear_stop, is_done, menu, say, settle_in, stop_everything
from tests.panel.house import LIST, House
from tests.panel.window import Look, Window

pytestmark = pytest.mark.slow

EVENING = [
    {"match": "evening round", "text": "I look.", "tool_calls": [
        {
            "tool": "reach_out",
            "args": {"reason": "clarification_needed", "message": "Shall I order bread for Friday?"},
            "justification": "Only the owner knows.",
        },
    ]},
    {"match": "evening round", "text": "I asked about the bread."},
]  # fmt: skip


@pytest.fixture
def house(tmp_path):
    """A home with a second model to change to."""
    made = House(tmp_path, script=EVENING, environ={"COILCLAW_PROVIDERS_MODELS_OTHER_KIND": "mock"})
    yield made
    made.close()


def test_a_day_is_lived_with_a_phone_alone(browser, house):
    w = Window(browser, house, Look("phone", "light"), still=True)
    # A window that forgets everything may not subscribe to push: it is told while the panel is open.
    w.context.add_init_script("delete window.PushManager")
    settle_in(w, typed=False)
    it_shall_tell(w, house)
    talks_and_takes_back(w, house)
    is_told_and_approves(w, house)
    another_model_answers(w)
    a_model_is_added(w)
    a_setting_is_changed(w)
    work_by_the_clock_reaches_out(w)
    stops_and_goes_on(w)
    w.close()


def it_shall_tell(w, house):
    w.context.grant_permissions(["notifications"], origin=house.origin)
    section(w, "Notifications")
    w.click("Tell me on this device")
    w.sees("This device tells you")
    w.scene("day-notifications")


def section(w, name):
    """Open a section of the settings by its line."""
    menu(w, "Settings")
    w.page.get_by_role("link", name=re.compile(f"^{name}")).filter(visible=True).first.click()
    w.page.get_by_role("heading", name=name, exact=True).filter(visible=True).wait_for()


def talks_and_takes_back(w, house):
    begin_talk(w, "What is on today?")
    w.sees("Nothing else is due before Friday.")
    say(w, "Write the shopping list")
    approve(w, passkey=False)  # where it was asked
    w.sees("as soon as you say yes.")
    assert (house.workspace / "shopping.md").read_text() == LIST
    w.click("Undo", exact=True)
    approve(w, passkey=False)
    w.sees("Taken back.")
    assert not (house.workspace / "shopping.md").exists()
    w.scene("day-taken-back")


def is_told_and_approves(w, house):
    begin_talk(w, "Tell accounting the total of November")
    w.page.get_by_role("link", name="Review and answer").wait_for()
    section(w, "Notifications")
    w.click(re.compile("Something waits for your approval"), role="link")
    w.sees("Leaves this machine")
    approve(w, passkey=True)
    is_done(w, "accounting")
    assert house.received() == [{"month": "November", "total": "1284.50"}]


def another_model_answers(w):
    section(w, "Models")
    w.click("Let this one answer")
    approve(w, passkey=True)
    w.page.get_by_role("heading", name=re.compile("^other.*Answers")).wait_for()
    w.scene("day-another-model")


def a_model_is_added(w):
    section(w, "Models")
    w.page.locator("summary", has_text="Add a model").click()
    w.page.get_by_label("Where it runs").select_option("openai-compatible")
    w.page.get_by_label("Address").fill("http://127.0.0.1:9/v1")
    w.page.get_by_label("Model", exact=True).fill("my-model")
    w.page.get_by_label("Let it answer from now on").uncheck()
    w.scene("day-new-model")
    w.click("Propose it")
    w.sees("[providers.models.server]")
    approve(w, passkey=True)
    w.page.get_by_role("heading", name="server", exact=True).wait_for()
    w.sees("my-model")


def a_setting_is_changed(w):
    section(w, "What it may do")
    w.page.locator("summary", has_text="Change").first.click()
    w.page.get_by_label("Autonomy", exact=True).first.select_option("full")
    w.click("Propose this change")
    w.sees('autonomy = "full"')
    approve(w, passkey=True)
    w.sees("It works in the workspace by itself")
    w.scene("day-setting")


def work_by_the_clock_reaches_out(w):
    menu(w, "Schedules")
    w.click("New schedule", role="link")
    w.page.get_by_label("Goal of each run").fill("The evening round")
    for day in ("Sat", "Sun"):
        w.click(day)
    w.page.get_by_label("Time of day").fill("18:30")
    w.page.get_by_label("Time of day").press("Tab")
    w.click("Create schedule")
    w.sees("The schedule was saved.")
    w.click("Run now")
    w.page.get_by_role("link", name=re.compile("Done\\s*Started by hand")).wait_for()
    section(w, "Notifications")
    w.click(re.compile("The agent has something to tell you"), role="link")
    w.sees("Shall I order bread for Friday?")
    w.scene("day-reached-out")


def stops_and_goes_on(w):
    stop_everything(w, "Enough for today")
    w.scene("day-stopped")
    clear_stop(w)
    menu(w, "Overview")
    w.sees("Nothing is waiting for you")
    w.scene("day-over")
