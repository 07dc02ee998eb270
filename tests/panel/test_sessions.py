"""A coding session in the panel: started, typed into, found again after the server was killed, looked through."""

import contextlib
import json
import re

import pytest

from tests.panel.acts import approve, begin_talk, is_done, menu, settle_in
from tests.panel.coding import end_sessions, put_repo, shows, types
from tests.panel.house import House
from tests.panel.window import Look

pytestmark = pytest.mark.slow


@pytest.fixture
def house(tmp_path):
    with contextlib.closing(House(tmp_path, environ={"COILCLAW_RUNNER_FAKE_PROVIDER": "true"})) as made:
        put_repo(made)
        yield made
        end_sessions(made)


def open_sessions(w):
    menu(w, "Work")
    w.click("Sessions", role="link")


@pytest.mark.parametrize("look", [Look("desktop", "dark"), Look("phone", "light")], ids=str)
def test_a_session_is_started_typed_into_and_found_again(house, window, look):
    w = window(look)
    settle_in(w)
    open_sessions(w)
    w.sees("No sessions yet")
    w.click(re.compile("^New session"), role="link")
    w.page.get_by_label("What it is for").fill("Look around")
    w.scene("session-new")
    w.click("Start")
    w.sees("Look around")
    shows(w, "site")
    types(w, "echo typed-$((6*7)); printf '\\033[31mred\\033[0m\\n'; echo new > other.txt\n")
    shows(w, "typed-42")
    w.scene("session")

    # The server is killed while the owner types; the session goes on, and nothing is lost.
    types(w, "for i in $(seq 1 60); do echo line-$i; sleep 0.1; done; echo all-$((40+2))\n")
    shows(w, "line-5")
    house.server.kill()
    w.sees("The connection was lost.")
    house.up()
    shows(w, "all-42")
    w.page.get_by_text("Text", exact=True).click()
    w.page.get_by_text("all-42").first.wait_for()
    told = re.findall(r"^line-(\d+)$", w.page.inner_text("main"), re.MULTILINE)
    assert told == [str(number) for number in range(1, 61)]

    w.page.get_by_text("Changes", exact=True).click()
    w.sees("other.txt")
    w.page.get_by_text("other.txt").click()
    w.scene("session-changes")

    w.page.get_by_text("Terminal", exact=True).click()
    w.click("End", exact=True)
    w.page.get_by_role("dialog").get_by_role("button", name="End", exact=True).click()
    w.sees("This is what was recorded.")
    w.scene("session-over")


@pytest.mark.parametrize("look", [Look("desktop", "light"), Look("phone", "dark")], ids=str)
def test_a_session_of_a_conversation_is_answered_in_place_and_found_from_there(house, window, look):
    config = house.home / "config.toml"
    config.write_text(config.read_text().replace("[security]\n", '[security]\nallowed_domains = ["example.com"]\n', 1))
    w = window(look)
    settle_in(w)
    begin_talk(w, "hello")
    w.page.get_by_role("link", name="New session").click()
    w.page.get_by_label("What it is for").fill("With a network")
    w.page.get_by_label("Network").select_option("open")
    w.click("Start")
    w.sees("It can reach example.com.")
    w.sees("Waiting for you")
    w.scene("session-waits")
    w.page.get_by_text("About", exact=True).click()
    w.page.get_by_role("link", name="Open the conversation").click()
    w.page.get_by_role("link", name="With a network").wait_for()
    w.scene("session-of-a-conversation")


HOSTILE = (
    "printf '\\033]0;owned\\007\\033]2;owned\\007\\033]52;c;b3duZWQ=\\007\\033[3;0;0t\\033[8;5;5t\\033[21t'; "
    "printf '\\033[6n\\033[c\\033]10;?\\007\\033P$qm\\033\\\\'; "
    "printf '\\033]8;;https://evil.example\\007here\\033]8;;\\007'; "
    "IFS= read -r -t 2 -d '' typed; echo answered-${#typed}-bytes"
)  # fmt: skip
"""Titles, the clipboard, the window, questions that a terminal answers by typing, a link."""


def test_output_reaches_nothing_beyond_the_terminal_and_a_phone_has_its_keys(house, window):
    w = window(Look("phone", "dark"))
    settle_in(w)
    w.context.grant_permissions(["clipboard-read", "clipboard-write"])
    house.run("session", "start", "site", "-d", "--title", "Hostile")
    open_sessions(w)
    w.click(re.compile("^Hostile"), role="link")
    shows(w, "$")
    w.page.evaluate("navigator.clipboard.writeText('mine')")
    title = w.page.title()
    types(w, HOSTILE + "\n")
    shows(w, "answered-0-bytes")
    assert (w.page.title(), w.page.evaluate("navigator.clipboard.readText()")) == (title, "mine")
    assert w.page.locator(".xterm-rows a, .xterm-rows [href]").count() == 0
    assert len(w.context.pages) == 1

    types(w, "sleep 3600\n")
    w.click("Ctrl", exact=True)
    types(w, "c")
    types(w, "echo first-$((6*7))\n")
    shows(w, "first-42")
    types(w, "clear\n")
    w.click("Up", exact=True)
    w.click("Up", exact=True)
    types(w, "\n")
    shows(w, "first-42")


def begin_work(house, *lines):
    """A session of the shipped fake program with a script; its id."""
    task = ("--task", "\n".join(lines), "--title", "Mend it", "--accept", "make test succeeds")
    told = house.run("session", "start", "site", "--provider", "fake", "--detach", "--json", *task)
    return json.loads(told)[0]["session_id"]


@pytest.mark.parametrize("look", [Look("desktop", "light"), Look("phone", "dark")], ids=str)
def test_a_program_is_answered_beside_its_terminal_and_its_log_is_read(house, window, look):
    w = window(look)
    settle_in(w)
    session_id = begin_work(
        house, "run echo on-the-list", "run git push", "run cargo add left-pad", "run frobnicate --now",
        "say all-asked", "sleep 600",
    )  # fmt: skip
    w.go(f"#/work/sessions/{session_id}")
    asked = w.page.get_by_role("region", name="What it asks")
    asked.get_by_role("heading", name=re.compile("cargo add left-pad")).wait_for()
    shows(w, "on-the-list")
    w.scene("session-asks")
    approve(w, passkey=False)
    asked.get_by_role("heading", name=re.compile("frobnicate --now")).wait_for()
    w.click("Reject", exact=True)
    w.page.get_by_label("Reason").fill("Not in this checkout")
    w.click("Reject it")
    shows(w, "all-asked")
    asked.wait_for(state="hidden")

    w.page.get_by_text("Log", exact=True).click()
    log = w.page.get_by_role("list", name="Log").get_by_role("listitem")
    log.nth(3).wait_for()
    told = log.all_inner_texts()
    for line, words in zip(told, (("frobnicate", "Rejected", "Not in this checkout"), ("cargo add", "Done", "Approved"),
                                  ("git push", "Denied"), ("echo on-the-list", "Done")), strict=True):  # fmt: skip
        assert [each for each in words if each not in line] == [], told
    w.scene("session-log")
    w.page.get_by_text("Task", exact=True).click()
    w.sees("make test succeeds")
    w.sees("Nothing has checked this yet.")
    w.scene("session-task")


@pytest.mark.parametrize("look", [Look("desktop", "light"), Look("phone", "dark")], ids=str)
def test_what_a_session_committed_is_taken_out_and_merged_without_a_terminal(house, window, look):
    w = window(look)
    settle_in(w)
    lines = ("write made.txt text", "run git add .", "run git commit -qm one", "say all-committed", "sleep 600")
    w.go(f"#/work/sessions/{begin_work(house, *lines)}")
    shows(w, "all-committed")
    w.page.get_by_text("Changes", exact=True).click()
    w.sees("made.txt")
    w.scene("session-take")
    w.click("Make a pull request")
    w.sees("Leaves its session")
    w.scene("session-leaves")
    approve(w, passkey=True)
    is_done(w, "Open a pull request")
    w.go("#/work/pulls/1")
    w.sees("It is merged when you approve it, and not before.")
    w.scene("session-pull")
    approve(w, passkey=True)
    w.sees("It is merged into main of site.")
    w.scene("session-merged")
    assert (house.folder / "site" / "made.txt").read_text() == "text"


@pytest.mark.parametrize("look", [Look("desktop", "dark"), Look("phone", "light")], ids=str)
def test_a_terminal_is_searched_copied_from_and_replayed_from_any_moment(house, window, look):
    w = window(look)
    w.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=house.origin)
    settle_in(w)
    open_sessions(w)
    w.click(re.compile("^New session"), role="link")
    w.sees("Nothing leaves its copy until you take its commits out")
    w.click("Start")
    shows(w, "site")
    types(w, "for i in $(seq 1 90); do echo needle-$i-; done; sleep 2; echo after-$((40+2))\n")
    shows(w, "after-42")

    w.page.get_by_label("Search the terminal").fill("nowhere to be found")
    w.click("Later", exact=True)
    w.sees("Not found.")
    w.page.get_by_label("Search the terminal").fill("needle-7-")
    w.click("Earlier", exact=True)
    w.page.get_by_text("Not found.").wait_for(state="hidden")
    shows(w, "needle-7-")  # it was scrolled out of sight
    w.click("Copy", exact=True)
    w.sees("Copied.")
    assert w.page.evaluate("navigator.clipboard.readText()") == "needle-7-"
    w.scene("session-search")

    w.page.get_by_text("Replay", exact=True).click()
    slider = w.page.get_by_label("Position in the recording")
    shows(w, "after-42")
    slider.fill("0")
    w.page.wait_for_function("() => !document.querySelector('.xterm-rows').innerText.includes('after-42')")
    slider.fill(slider.get_attribute("max"))
    shows(w, "after-42")
    w.scene("session-replay")
