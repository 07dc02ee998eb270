"""A house in which things have happened: something was said, done, planned, and two things wait."""

import json
from dataclasses import dataclass

from tests.features.owner_files.test_picture_size import SAMPLES
from tests.panel.acts import approve, begin_talk, is_done, new_job, new_schedule, say, settle_in
from tests.panel.house import MISSING, WEEKLY

SETTINGS = (
    "policy", "answers", "policies", "skills", "prompt", "projects", "guests", "programs", "providers", "usage",
    "devices", "passkeys", "accounts", "notices", "estop", "doctor", "appearance",
)  # fmt: skip


@dataclass(frozen=True)
class Traces:
    """What can be looked at, by its id."""

    thread: str
    asking: str
    done: str
    waiting: str
    job: str
    run: str
    schedule: str = "write-the-weekly-report"

    def screens(self):
        """Every screen there is: a name, and where it is."""
        named = {
            "overview": "#/",
            "figures": "#/overview/figures",
            "files": "#/files",
            "file": "#/files/shopping.md",
            "file-picture": "#/files/pictures%2Fdot.png",
            "file-huge": "#/files/huge.bin",
            "approvals": "#/approvals",
            "approval": f"#/approvals/{self.waiting}",
            "approval-over": f"#/approvals/{self.done}",
            "chat": "#/chat",
            "chat-new": "#/chat/new",
            "thread": f"#/chat/{self.thread}",
            "thread-asks": f"#/chat/{self.asking}",
            "jobs": "#/work/jobs",
            "jobs-done": "#/work/jobs?state=done",
            "job": f"#/work/jobs/{self.job}",
            "job-new": "#/work/jobs/new",
            "sessions": "#/work/sessions",
            "session-new": "#/work/sessions/new",
            "patrols": "#/work/patrols",
            "evolve": "#/work/evolve",
            "intel": "#/work/intel",
            "pulls": "#/work/pulls",
            "pull": "#/work/pulls/1",
            "procedures": "#/work/procedures",
            "procedure": f"#/work/procedures/{self.run}",
            "actions": "#/work/actions",
            "action": f"#/work/actions/{self.done}",
            "schedules": "#/schedules",
            "schedule-new": "#/schedules?new",
            "schedule": f"#/schedules/{self.schedule}",
            "schedule-edit": f"#/schedules/{self.schedule}?edit",
            "audit": "#/audit",
            "receipts": "#/audit/receipts",
            "story": f"#/audit/story/{self.done}",
            "settings": "#/settings",
            "nowhere": "#/nowhere",
        }
        return {**named, **{f"settings-{name}": f"#/settings/{name}" for name in SETTINGS}}


def left_in_the_workspace(workspace):
    """A picture, a name that turns letters around, a link that leads away, a file nobody should load."""
    (workspace / "pictures").mkdir()
    (workspace / "pictures" / "dot.png").write_bytes(SAMPLES["png"])
    (workspace / "bill\u202efdp.exe").write_text("not a bill\n")
    (workspace / "away").symlink_to("/etc")
    with (workspace / "huge.bin").open("wb") as file:
        file.truncate(1 << 30)


def live_in(window):
    """Pair, talk, approve one thing, leave two waiting, plan something."""
    settle_in(window)
    thread = begin_talk(window, "What is on today?")
    window.sees("Nothing else is due before Friday.")
    say(window, "Write the shopping list")
    window.click("Review and answer", role="link")
    done = window.arrives(r"/approvals/([\w-]+)")[1]
    approve(window, passkey=False)
    is_done(window, "shopping.md")
    asking = begin_talk(window, "Write the shopping list once more")
    window.page.get_by_role("link", name="Review and answer").wait_for()
    begin_talk(window, "Tell accounting the total of November")
    window.click("Review and answer", role="link")
    waiting = window.arrives(r"/approvals/([\w-]+)")[1]
    new_schedule(window, "Write the weekly report", "0 9 * * 1-5", "weekday")
    window.click("Create schedule")
    window.sees("The schedule was saved.")
    job = new_job(window, "Write the weekly report to notes/week.md")
    window.page.get_by_role("heading", name="It waits for your answer").wait_for()
    left_in_the_workspace(window.house.workspace)
    window.house.put_sop("tidy", MISSING)
    window.house.run("sop", "run", "tidy", code=1)
    window.house.put_sop("weekly", WEEKLY)
    run = json.loads(window.house.run("sop", "run", "weekly", "--json", code=4))["run_id"]
    window.go("#/settings/notices")  # the last of what comes by itself: later it would move what is looked at
    window.sees("Keep a copy of this week's notes?")
    return Traces(thread=thread, asking=asking, done=done, waiting=waiting, job=job, run=run)
