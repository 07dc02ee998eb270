"""A flood of questions: its true number everywhere, what leaves the machine found in it, the rest refused together."""

import contextlib
import re
import sqlite3

import pytest

from tests.panel.acts import begin_talk, menu, settle_in
from tests.panel.window import PATIENCE, Look

pytestmark = pytest.mark.slow

WRITES = 129


def flood(house):
    """Many more questions like the one about a file, with the same end: before that of what was asked later."""
    with contextlib.closing(sqlite3.connect(house.home / "memory.sqlite", timeout=30)) as db, db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(proposed_actions)")]
        db.row_factory = sqlite3.Row
        first = db.execute("SELECT * FROM proposed_actions WHERE status = 'PENDING' AND lane = 'A'").fetchone()
        begins = first["action_id"][:-4] + ("a" if first["action_id"][-4] != "a" else "b")  # not one that exists
        for number in range(1, WRITES):
            row = {
                **{name: first[name] for name in columns},
                "action_id": f"{begins}{number:03}",
                "idempotency_key": f"flood{number}",
                "args_json": first["args_json"].replace("shopping.md", f"shopping-{number:03}.md"),
            }
            db.execute(
                f"INSERT INTO proposed_actions ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                tuple(row[name] for name in columns),
            )


def still_waiting(house):
    with contextlib.closing(sqlite3.connect(house.home / "memory.sqlite", timeout=30)) as db:
        rows = db.execute("SELECT lane, count(*) FROM proposed_actions WHERE status = 'PENDING' GROUP BY lane")
        return dict(rows.fetchall())


@pytest.mark.parametrize("look", [Look("phone", "light"), Look("desktop", "dark")], ids=str)
def test_in_a_flood_nothing_is_buried_and_all_of_it_is_refused_at_once(look, house, window):
    w = window(look)
    settle_in(w)
    begin_talk(w, "Write my shopping list")
    w.sees("I will write it down.")
    w.sees("Review and answer")
    begin_talk(w, "Tell accounting the total")
    w.sees("I can tell them.")
    w.sees("Review and answer")
    flood(house)
    w.open("#/")
    counted(w)
    page_by_page(w)
    what_leaves_is_found(w)
    refused_together(w, house)


def waiting(w):
    return w.page.get_by_role("list", name="Waiting").get_by_role("listitem")


def counted(w):
    """Everywhere the same number, and it is the true one."""
    menu(w, "Approvals")
    w.page.wait_for_function("() => document.title.startsWith('(130) ')")
    link = w.page.get_by_role("navigation", name="Main").filter(visible=True).get_by_role("link", name="Approvals")
    assert "130 wait for you" in link.inner_text()
    menu(w, "Overview")
    w.click("Not now")  # the first steps
    w.page.get_by_role("link", name="See all 130").click()
    w.arrives(r"/approvals(?:/[\w-]+)?")
    if w.look.size == "desktop":
        w.sees("1 of 130")


def page_by_page(w):
    w.sees("50 of 130 are here, the soonest to expire first.")
    waiting(w).nth(49).wait_for()
    assert waiting(w).count() == 50
    w.scene("queue-flooded")
    w.click("Show more")
    w.sees("100 of 130 are here, the soonest to expire first.")
    w.click("Show more")
    waiting(w).nth(129).wait_for()
    assert w.page.get_by_role("button", name="Show more").count() == 0
    assert "accounting" in waiting(w).last.inner_text()


def what_leaves_is_found(w):
    kinds = w.page.get_by_role("group", name="Kinds")
    assert [" ".join(each.split()) for each in kinds.get_by_role("button").all_inner_texts()] == [
        "All 130",
        "Leaves this machine 1",
    ]
    kinds.get_by_role("button", name="Leaves this machine 1").click()
    waiting(w).nth(1).wait_for(state="detached")
    assert "accounting" in waiting(w).inner_text()
    assert kinds.get_by_role("button", name="Leaves this machine").get_attribute("aria-pressed") == "true"
    w.scene("queue-what-leaves")
    kinds.get_by_role("button", name="All 130").click()
    waiting(w).nth(49).wait_for()


def refused_together(w, house):
    assert w.page.get_by_role("button", name=re.compile("Approve all", re.I)).count() == 0
    w.click("Reject all 129 of this conversation")
    dialog = w.page.get_by_role("dialog")
    dialog.get_by_text("Each of the 129 that wait now is rejected").wait_for()
    dialog.get_by_label("Reason").fill("Far too many")
    w.scene("queue-reject-all")
    dialog.get_by_role("button", name="Reject all 129", exact=True).click()
    dialog.get_by_text(re.compile(r"Rejecting: [1-9]\d* of 129")).wait_for()
    dialog.get_by_role("button", name="Stop here").click()
    dialog.get_by_text(re.compile(r"Stopped\. \d+ of 129 were rejected, the others still wait\.")).wait_for()
    w.scene("queue-reject-stopped")
    left = still_waiting(house)["A"]
    assert 0 < left < WRITES
    dialog.get_by_role("button", name="Close").last.click()
    w.click(f"Reject all {left} of this conversation")
    dialog.get_by_label("Reason").fill("Far too many")
    dialog.get_by_role("button", name=f"Reject all {left}", exact=True).click()
    dialog.get_by_text(f"{left} were rejected.").wait_for(timeout=5 * PATIENCE)  # each is an answer with its receipt
    w.scene("queue-rejected-all")
    dialog.get_by_role("button", name="Close").last.click()
    waiting(w).nth(1).wait_for(state="detached")
    assert still_waiting(house) == {"B": 1}
    assert list(house.workspace.glob("shopping*")) == []
    w.page.wait_for_function("() => document.title.startsWith('(1) ')")
