"""Procedures begun at the terminal, watched from the panel: they come, ask, go on and end without anybody asking."""

import json
import time

import pytest

from tests.panel.acts import approve, menu, settle_in
from tests.panel.house import MISSING, WEEKLY
from tests.panel.window import Look

pytestmark = pytest.mark.slow


def begin(house, name, code):
    return json.loads(house.run("sop", "run", name, "--json", code=code))["run_id"]


def test_a_procedure_is_run_with_a_button_and_asks_where_it_is_watched(house, window):
    w = window(Look("phone", "dark"))
    settle_in(w)
    house.put_sop("weekly", WEEKLY)
    w.go("#/work/procedures")
    w.click("Run weekly", exact=True)
    w.arrives(r"/work/jobs/job_\w+")
    w.page.get_by_role("link", name="Review and answer").first.click()
    w.sees("Keep a copy of this week's notes?")
    approve(w, passkey=False)
    deadline = time.monotonic() + 120
    while json.loads(house.run("job", "list", "--json"))[0]["state"] != "DONE":
        assert time.monotonic() < deadline
        w.page.wait_for_timeout(500)


@pytest.mark.parametrize("look", [Look("phone", "light"), Look("desktop", "dark")], ids=str)
def test_a_run_begun_at_the_terminal_is_seen_as_it_asks_continues_and_ends(house, window, look):
    w = window(look)
    settle_in(w)
    house.put_sop("weekly", WEEKLY)
    menu(w, "Work")
    w.click("Procedures", role="link")
    w.arrives("/work/procedures")
    w.sees("No runs yet")
    w.scene("procedures-none")

    run_id = begin(house, "weekly", 4)
    if look.size == "phone":  # a wide window looks at the first by itself
        w.page.get_by_role("list", name="In progress").get_by_role("link").click()
    w.arrives(f"/work/procedures/{run_id}")
    w.page.get_by_role("heading", name="It waits for your answer").wait_for()
    w.sees("1 of 3 steps finished")
    w.scene("procedure-asks")
    w.page.get_by_role("link", name="Review and answer").click()
    approve(w, passkey=False)
    w.arrives(f"/work/procedures/{run_id}")
    w.sees("3 of 3 steps finished")
    w.scene("procedure-done")
    assert w.page.locator("ol > li").nth(2).get_by_text("Done", exact=True).is_visible()
    w.page.get_by_role("link", name="Its action: step look").click()
    w.arrives(r"/work/actions/act_\w+")


def test_a_run_that_failed_says_at_which_step_and_is_remembered_offline(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    house.put_sop("tidy", MISSING)
    run_id = begin(house, "tidy", 1)
    w.open(f"#/work/procedures/{run_id}")
    w.page.get_by_role("heading", name="Why").wait_for()
    w.sees("Step read failed")
    w.scene("procedure-failed")
    house.down()
    w.sees("CoilClaw cannot be reached.")
    w.open(f"#/work/procedures/{run_id}")
    w.sees("Step read failed")
    assert w.page.get_by_text("As it was").filter(visible=True).count() >= 2
    w.scene("procedure-offline")


def test_a_run_that_the_owner_refused_has_not_failed_and_what_is_left_of_it_was_not_begun(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    house.put_sop("weekly", WEEKLY)
    run_id = begin(house, "weekly", 4)
    w.go(f"#/work/procedures/{run_id}")
    w.page.get_by_role("link", name="Review and answer").click()
    w.click("Reject", exact=True)
    w.click("Reject it")
    w.arrives(f"/work/procedures/{run_id}")
    w.sees("You said no to one of its steps")
    w.sees("Not started")
    assert w.page.get_by_text("Failed", exact=True).count() == 0
    assert w.page.get_by_text("To do", exact=True).count() == 0
    w.scene("procedure-refused")
    w.go("#/work/procedures")
    w.sees("You said no")
    w.sees("coilclaw sop run NAME")
    w.scene("procedures-how")
    w.go("#/work/actions")
    w.page.get_by_role("list", name="Actions").wait_for()
    w.scene("actions-filters")
