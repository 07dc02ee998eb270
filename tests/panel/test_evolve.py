"""The agent that works on itself, in the panel: directed, watched, merged, taken back with a passkey, stopped."""

import contextlib
import re
import subprocess
import time

import pytest

from tests.features.evolve.evolve_world import git
from tests.panel.acts import approve, menu, settle_in
from tests.panel.house import COILCLAW, House
from tests.panel.window import Look

pytestmark = pytest.mark.slow
PATIENCE = 280
BAD = "raise SystemExit('a hidden \u202e word')\n"


@pytest.fixture
def house(tmp_path):
    environ = {"COILCLAW_EVOLVE_LOOK_SECONDS": "1", "COILCLAW_EVOLVE_CONTAINER": "box"}
    with contextlib.closing(House(tmp_path, script=[{"match": "Continue.", "text": "Idle."}], environ=environ)) as made:
        yield made


@pytest.fixture
def agent(house):
    with contextlib.closing(Agent(house)) as made:
        yield made


class Agent:
    """Its home, and what it would do: here somebody else pushes and signals in its place."""

    def __init__(self, house):
        self.house, self.home, self.process = house, house.home / "evolve", None

    def init(self):
        source = self.house.folder / "source"
        source.mkdir()
        (source / "README.md").write_text("The agent.\n")
        self.house.run("evolve", "init", "--from", str(source))

    def up(self):
        self.process = subprocess.Popen([COILCLAW, "evolve", "up"], env=self.house.environ, cwd=self.house.folder)

    def push(self, name, files, report=""):
        """Push a branch, cloned where the agent clones it, and restart into it."""
        place = self.home / "bot" / "agent" / name / "coilclaw"
        place.parent.mkdir(parents=True)
        git(self.home, "clone", "-q", str(self.home / "remote.git"), str(place))
        for file, text in files.items():
            (place / file).write_text(text)
        comms = place / "COMMS.md"
        comms.write_text(comms.read_text().replace("## Reports\n", f"## Reports\n\n{report}\n"))
        git(place, "add", "-A")
        git(place, "commit", "-qm", "Change")
        git(place, "push", "-q", "origin", f"HEAD:refs/heads/agent/{name}")
        self.signal(f"agent/{name}")

    def signal(self, branch):
        (self.home / "bot/.signal/.new").write_text(f"{branch}\n")
        (self.home / "bot/.signal/.new").rename(self.home / "bot/.signal/bootstrap")

    def boots(self):
        return (self.home / "bot/logs/bootstrap.log").read_text()

    def close(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE)


def look_at_it(w):
    """Go to the page as an owner does."""
    menu(w, "Work")
    w.click("Evolve", role="link")
    if w.look.size == "phone":
        w.click(re.compile("^The agent that works on itself"), role="link")


def until(holds, what):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.mark.parametrize("look", [Look("desktop", "light"), Look("phone", "dark")], ids=str)
def test_the_agent_is_directed_watched_merged_taken_back_and_stopped(house, agent, window, look):
    w = window(look)
    settle_in(w)
    menu(w, "Work")
    w.click("Evolve", role="link")
    w.sees("No agent yet")
    w.scene("evolve-none")
    agent.init()
    if look.size == "phone":
        w.click(re.compile("^The agent that works on itself"), role="link")
    starts = w.page.get_by_role("region", name="Starts")
    w.sees("It is started at the terminal")
    w.page.get_by_label("New directive").fill("Say hello in a file")
    w.click("Add", exact=True)
    w.page.get_by_role("region", name="Directives").get_by_text("Say hello in a file").wait_for()
    w.scene("evolve-directed")

    # Nobody presses anything: the page follows what the watcher does.
    agent.up()
    starts.get_by_text("works", exact=True).wait_for(timeout=PATIENCE * 1000)
    agent.push("bad", {"infra/runner.py": BAD})
    starts.get_by_text("back to main").wait_for(timeout=PATIENCE * 1000)
    w.sees("\u27e8U+202E\u27e9")
    w.scene("evolve-fell-back")

    agent.push("good", {"hello.txt": "hello\n"}, "- I wrote hello.txt <b>now</b>")
    until(lambda: "SUCCESS agent/good" in agent.boots(), "it runs")
    agent.signal("main")
    w.page.get_by_text("A merge into main waits for you.").wait_for(timeout=PATIENCE * 1000)
    w.page.get_by_role("region", name="Reports").get_by_text("I wrote hello.txt <b>now</b>").wait_for()
    w.scene("evolve-merge-waits")
    w.click("Look at it", role="link")
    w.sees("+hello")
    w.scene("evolve-merge-card")
    w.page.get_by_role("button", name=re.compile("^Approve")).filter(visible=True).first.click()
    until(lambda: "hello.txt" in git(agent.home / "bot.git", "ls-tree", "--name-only", "main"), "merged")

    look_at_it(w)
    w.page.get_by_role("region", name="Log").get_by_text("The watcher", exact=True).click()
    w.page.get_by_role("region", name="Log").get_by_text("reached SUCCESS").first.wait_for()
    w.scene("evolve-log")

    # Back to the first commit, with the passkey.
    first = git(agent.home / "bot.git", "rev-list", "--max-parents=0", "main")
    w.click("Go back")
    dialog = w.page.get_by_role("dialog")
    dialog.get_by_label("Branch, tag or commit").fill(first[:12])
    w.scene("evolve-back")
    dialog.get_by_role("button", name="Go back").click()
    w.sees(re.compile("Main and all history stay"))
    approve(w, passkey=True)
    until(lambda: "SUCCESS agent/rollback-1" in agent.boots(), "it is back")
    assert "hello.txt" in git(agent.home / "bot.git", "ls-tree", "--name-only", "main")

    look_at_it(w)
    w.page.get_by_text("agent/rollback-1").filter(visible=True).first.wait_for()
    w.click("Stop", exact=True)
    w.page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
    w.page.get_by_text("not up", exact=True).filter(visible=True).first.wait_for()
    assert agent.process.wait(PATIENCE) == 0
    w.scene("evolve-stopped")
