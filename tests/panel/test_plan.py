"""A plan is ticked off in the conversation while the agent works; the window's use is shown and freed there."""

import contextlib

import pytest

from tests.panel.acts import begin_talk, say, settle_in
from tests.panel.house import House
from tests.panel.window import Look, Window

pytestmark = pytest.mark.slow

TITLES = ("Read the notes of the week", "Collect what is open", "Write the list", "Ask whether the order is right")


def told(*states):
    steps = [{"title": title, "state": state} for title, state in zip(TITLES, states, strict=True)]
    return {"match": "tidy", "tool_calls": [{"tool": "plan_update", "args": {"steps": steps}}]}


SCRIPT = [
    {**told("doing", "todo", "todo", "todo"), "text": "I make a plan first."},
    told("done", "doing", "todo", "todo"),
    {**told("done", "done", "doing", "dropped"), "delay": 3},
    {"match": "tidy", "delay": 3, "text": "All of it is on the list. " + "There is more to say about each. " * 40},
]


@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_a_plan_is_ticked_off_in_place_and_the_window_is_freed(browser, tmp_path, size):
    with contextlib.closing(House(tmp_path, script=SCRIPT)) as house:
        w = Window(browser, house, Look(size, "light"))
        settle_in(w)
        begin_talk(w, "Please tidy up my week")
        plan = w.page.get_by_role("region", name="Plan")
        w.sees("Working on: Collect what is open")
        plan.get_by_text("1 of 4 done").wait_for()
        w.scene("plan-running")
        plan.get_by_text("2 of 3 done").wait_for()
        w.sees("All of it is on the list.")
        assert plan.count() == 1
        w.scene("plan")
        say(w, "Good morning!")
        w.sees("Hello, and welcome.")
        w.click("How full the model's window is")
        w.sees("tokens go to the model with your next message")
        w.scene("context")
        w.click("Sum up now")
        w.sees("messages summed up")
        w.scene("context-freed")
        w.page.get_by_role("dialog").get_by_role("button", name="Close", exact=True).last.click()
        w.page.locator("article.note summary").get_by_text("summed up").wait_for()
        w.close()
