"""A repository that is looked after, in the panel: patrols and their trends, alerts, quests, and who works on them."""

import contextlib
import re

import pytest

from tests.features.runner.repo_world import git
from tests.panel.acts import menu, settle_in
from tests.panel.coding import end_sessions, put_repo, shows
from tests.panel.house import House
from tests.panel.window import Look

pytestmark = pytest.mark.slow

CHECK = """
if [ -e mended ]; then fault=''; else fault='<failure message="assert 3 == 1"/>'; fi
cat > "$PATROL_REPORT" <<END
<testsuite><testcase classname="sums" name="test_adds"/>
<testcase classname="sums" name="test_takes_away" file="sums.py" line="7">$fault</testcase></testsuite>
END
[ -e mended ]
"""
PATROLS = '[repos.site.patrols]\ntest = "sh check.sh"\nlint = "echo sums.py:1: a hidden \u202e word; exit 1"\n'


@pytest.fixture
def house(tmp_path):
    with contextlib.closing(House(tmp_path)) as made:
        put_repo(made, PATROLS, {"check.sh": CHECK, "sums.py": "def adds(): ...\n"})
        yield made
        end_sessions(made)


def runs(w, kind):
    return w.page.get_by_role("list", name="Patrols").get_by_role("listitem").filter(has_text=kind)


@pytest.mark.parametrize("look", [Look("desktop", "light"), Look("phone", "dark")], ids=str)
def test_what_a_patrol_finds_is_muted_resolved_and_taken_on(house, window, look):
    w = window(look)
    settle_in(w)
    menu(w, "Work")
    w.click("Patrols", role="link")
    if look.size == "phone":
        w.click(re.compile("^site"), role="link")
    w.sees("Health unknown")
    w.scene("patrols-new")
    w.click("Run all")
    w.sees("1 passed, 1 failed")
    alerts = w.page.get_by_role("region", name="Alerts")
    failed = alerts.get_by_role("listitem").filter(has_text="test_takes_away failed: assert 3 == 1")
    failed.get_by_text("sums.py:7").wait_for()
    w.scene("patrols")

    # What its command wrote is shown as it is, and hides nothing.
    runs(w, "Lint").get_by_role("button", name="Output").click()
    w.sees("\u27e8U+202E\u27e9")
    w.scene("patrols-output")

    # Muted with a reason and an end, then resolved by hand.
    lint = alerts.get_by_role("listitem").filter(has_text="lint failed")
    lint.get_by_role("button", name="Mute").click()
    dialog = w.page.get_by_role("dialog")
    assert dialog.get_by_role("button", name="Mute", exact=True).is_disabled()
    dialog.get_by_label("Why").fill("The linter is wrong")
    dialog.get_by_label("For how long").select_option("30")
    w.scene("alert-mute")
    dialog.get_by_role("button", name="Mute", exact=True).click()
    w.sees("It is muted.")
    alerts.get_by_text("Muted", exact=True).click()
    w.sees(re.compile("Muted until .*: The linter is wrong"))
    lint.get_by_role("button", name="Resolve").click()
    lint.wait_for(state="hidden")

    # An error is on offer as a quest by itself; taking it leads to the session that works on it.
    quests = w.page.get_by_role("region", name="Quests")
    offered = quests.get_by_role("listitem").filter(has_text="test_takes_away").filter(has_text="on offer")
    offered.get_by_role("button", name="Take").click()
    dialog.get_by_text("No coding program is installed here").wait_for()
    w.scene("quest-take")
    dialog.get_by_role("button", name="Take", exact=True).click()
    w.arrives(r"/work/sessions/(sess_[\w-]+)")
    shows(w, "site")
    w.page.get_by_text("Task", exact=True).click()
    w.sees("The test patrol of site passes on your branch.")
    w.scene("quest-session")

    # Dropped again; and once it is mended the trend says so.
    w.go("#/work/patrols/site")
    quests.get_by_role("button", name="Drop").click()
    dialog.get_by_label("Why (optional)").fill("I mend it by hand")
    dialog.get_by_role("button", name="Drop", exact=True).click()
    w.sees("It is dropped.")
    (house.folder / "site" / "mended").write_text("")
    git(house.folder / "site", "add", ".")
    git(house.folder / "site", "commit", "-qm", "mended")
    runs(w, "Tests").get_by_role("button", name="Run: Tests").click()
    w.sees("2 passed, 0 failed")
    w.page.get_by_role("img", name="Past runs, the newest last: failed, passed").wait_for()
    failed.wait_for(state="hidden")
    w.scene("patrols-mended")

    # Every night from now on: a schedule like any other.
    w.click("Run all every night at four")
    w.arrives("/schedules/[\\w-]+")
    w.sees("Patrol site all.")
    w.scene("patrols-nightly")
