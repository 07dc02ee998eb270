"""How people really use it: by keyboard alone, with motion turned off, while the server goes and comes back."""

import re

import pytest

from tests.panel.acts import approve, begin_talk, is_done, say, settle_in
from tests.panel.house import WEEKLY
from tests.panel.window import Look

pytestmark = pytest.mark.slow

FOCUSED = """() => {
    const each = document.activeElement, style = getComputedStyle(each);
    const name = each.getAttribute('aria-label') ?? each.labels?.[0]?.textContent ?? each.textContent;
    const ring = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0)
        || [each.parentElement, each.parentElement?.parentElement]
            .some((around) => around && getComputedStyle(around).boxShadow !== 'none');
    return {name: name.trim().replace(/\\s+/g, ' '), tag: each.tagName, ring};
}"""

MOVING = """() => [...document.querySelectorAll('*')].filter((each) => {
    const style = getComputedStyle(each);
    return [style.transitionDuration, style.animationName === 'none' ? '0s' : style.animationDuration]
        .some((list) => list.split(',').some((time) => parseFloat(time) * (time.includes('ms') ? 1 : 1000) > 1));
}).length"""


def tab_to(w, name):
    """Press Tab until that has the focus; what has it on the way can be seen to have it."""
    for _ in range(80):
        w.page.keyboard.press("Tab")
        at = w.page.evaluate(FOCUSED)
        assert at["ring"] or at["tag"] == "BODY", f"{at} has the focus, and nothing shows it"
        if re.fullmatch(name, at["name"]):
            return
    pytest.fail(f"{name} cannot be reached with Tab")


def test_a_run_of_a_procedure_is_looked_at_by_keyboard_alone(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    house.put_sop("weekly", WEEKLY)
    house.run("sop", "run", "weekly", code=4)
    w.open("#/work")
    w.settled()
    tab_to(w, "Procedures")
    w.page.keyboard.press("Enter")
    w.sees("1 of 3 steps finished")
    tab_to(w, "Result")
    w.page.keyboard.press("Enter")
    w.sees("sops/")
    tab_to(w, "Its action: step look")
    w.page.keyboard.press("Enter")
    w.arrives(r"/work/actions/act_\w+")


def test_an_approval_and_a_refusal_are_given_by_keyboard_alone(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    keys = w.page.keyboard
    w.open("#/chat/new")
    w.settled()
    tab_to(w, "Message")
    keys.type("Write the shopping list")
    keys.press("Enter")
    w.page.get_by_role("link", name="Review and answer").wait_for()
    tab_to(w, "Review and answer")
    keys.press("Enter")
    w.page.get_by_role("heading", name="What would happen").wait_for()
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve", exact=True).wait_for()
    tab_to(w, "Approve")
    keys.press("Space")
    is_done(w, "shopping.md")
    begin_talk(w, "Tell accounting the total of November")
    w.click("Review and answer", role="link")
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve with passkey").wait_for()
    keys.press("r")
    w.page.get_by_role("dialog").wait_for()
    assert w.page.evaluate(FOCUSED)["name"] == "Reason"
    w.scene("reject")
    keys.press("Escape")
    w.page.get_by_role("dialog").wait_for(state="hidden")
    keys.press("r")
    keys.type("Not before Friday")
    keys.press("Enter")
    w.sees("Rejected.")
    assert house.received() == []


def test_motion_stops_when_it_is_not_wanted(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    assert w.page.evaluate(MOVING) > 0
    w.page.emulate_media(reduced_motion="reduce")
    for place in ("#/", "#/chat/new", "#/approvals", "#/work/jobs/new", "#/settings"):
        w.go(place)
        w.settled()
        assert w.page.evaluate(MOVING) == 0, place


def test_an_answer_that_takes_too_long_is_stopped(house, window):
    w = window(Look("desktop", "dark"))
    settle_in(w)
    begin_talk(w, "Take your time with this")
    w.page.get_by_label("Stop this answer").wait_for()
    w.scene("thinking")
    w.page.get_by_label("Stop this answer").click()
    w.page.get_by_label("Stop this answer").wait_for(state="detached")
    say(w, "What is on today?")
    w.sees("Nothing else is due before Friday.")


def test_the_panel_outlives_the_server_and_continues_when_it_is_back(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    begin_talk(w, "Write the shopping list")
    w.click("Review and answer", role="link")
    card = w.arrives(r"/approvals/([\w-]+)")[1]
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text("Approve", exact=True).wait_for()
    w.page.evaluate("() => navigator.serviceWorker.ready.then(() => null)")
    house.down()
    w.sees("CoilClaw cannot be reached")
    w.page.locator("button[disabled]").get_by_text("Approve", exact=True).wait_for()
    w.sees("They are not queued")
    w.scene("server-gone")
    w.open("#/approvals")
    w.sees("CoilClaw cannot be reached")
    w.sees("As it was")
    w.sees("shopping.md")
    house.up()
    w.page.get_by_text("CoilClaw cannot be reached").first.wait_for(state="hidden")
    w.go(f"#/approvals/{card}")
    approve(w, passkey=False)
    is_done(w, "shopping.md")
