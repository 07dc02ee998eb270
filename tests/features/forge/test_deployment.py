"""After a deployment the runtime works with what was merged; what does not load is taken back, whoever made it."""

import json
import os

import pytest

from coilclaw.features.forge.deployment import load_faults, put_in_place
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import load_pull, pull_of_job
from coilclaw.features.schedules.scheduler import Scheduler
from coilclaw.features.schedules.store.schedules import schedule_ids
from coilclaw.features.sops.sop_files import SopFiles
from coilclaw.packets.forge import MAIN
from coilclaw.sandbox.bot_repository import Written
from tests.features.conftest import calls
from tests.features.projects.world import git

SOP = """name = "look"
description = "Look around"

[[steps]]
id = "list"
kind = "tool"
tool = "file_list"
args = { path = "." }
"""
SCHEDULE = {
    "version": 1,
    "jobs": [
        {
            "job_id": "weekly", "enabled": True, "timezone": "UTC", "schedule_cron": "0 9 * * 1",
            "cron_summary": "Every Monday at 9:00 AM UTC.", "job_spec": {"intent": "Say hello."},
        }
    ],
}  # fmt: skip
POLICY = {
    "version": 1,
    "rules": [{"id": "no-secrets", "when": {"path": "secret/**"}, "verdict": "deny", "reason": "x"}],
}


@pytest.fixture
def here(office):
    return office(forge__enabled=True)


async def merged(here, files, *, unchecked=False):
    """A pull request without a job with these files, merged but not deployed yet."""
    forge = LocalForge(here.app)
    pull = forge.open_plain("export", [Written(path, data) for path, data in files.items()], "Files", "b")
    pull = await forge.check(pull)
    if unchecked:  # as if a check had overlooked it
        passed = tuple(type(each)(name=each.name, passed=True, summary="") for each in pull.checks)
        here.app.db.write_now(
            lambda tx: tx.execute(
                "UPDATE pull_requests SET checks_json = ? WHERE number = ?",
                (json.dumps([{"name": each.name, "passed": True, "summary": ""} for each in passed]), pull.number),
            )
        )
        pull = forge.find(pull.number)
    args = forge.merge_args(pull)
    return await forge.merge(pull.number, args["head"], args["diff"], args["checks"])


async def test_schedules_policies_and_procedures_of_a_merge_are_read_again(here):
    files = {
        "cron/jobs.json": json.dumps(SCHEDULE).encode(),
        "sops/look/SOP.toml": SOP.encode(),
        "policies/more.json": json.dumps(POLICY).encode(),
        "skills/greet/SKILL.md": b"---\nname: greet\ndescription: Greets people.\n---\n\nSay hello.\n",
    }
    written = calls(*(("file_write", {"path": path, "content": data.decode()}) for path, data in files.items()))
    here.home.script(written, {"text": "done"})
    before = here.app.policy().hash
    job = await here.create("teach yourself to greet")
    await here.drain()
    pull = pull_of_job(here.app.db.reader, job.job_id)
    assert pull.action_id, pull.checks
    await here.home.approve(pull.action_id)
    await here.drain()
    assert here.job(job).state == "DONE", here.job(job).reason
    assert here.app.policy().hash != before
    assert "no-secrets" in {rule.id for rule in here.app.policy().rules}
    assert SopFiles(here.app).read("look").read.faults == ()
    assert list(load_faults(here.app, files)) == []
    await Scheduler(here.app).dispatcher(here.background).tick()
    assert "weekly" in schedule_ids(here.app.db.reader)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("cron/jobs.json", b'{"version": 1, "jobs": [{"job_id": "x"}]}'),
        ("sops/bad/SOP.toml", b"nothing = here\n"),
        ("skills/bad/SKILL.md", b"\xff\xfe"),
        ("policies/bad.json", b"{"),
    ],
)
async def test_what_does_not_load_is_taken_back_without_a_job_too(here, path, data):
    place = here.app.workspace / path
    before = place.read_bytes() if place.exists() else None
    pull = await merged(here, {path: data, "notes/kept.md": b"x\n"}, unchecked=True)
    (here.app.workspace / "mine.md").write_text("since\n")
    assert await Pulls(here.app, here.background.conveyor).settle_plain() == 1
    after = place.read_bytes() if place.exists() else None
    assert after == before
    assert not (here.app.workspace / "notes/kept.md").exists()
    assert (here.app.workspace / "mine.md").read_text() == "since\n"
    done = load_pull(here.app.db.reader, pull.number)
    assert (done.state, bool(done.deployed_at)) == ("MERGED", True)
    assert "taken back" in done.reason
    assert path.split("/")[-2] in done.reason or os.path.basename(path) in done.reason
    assert git(here.app.workspace, "status", "--porcelain") == ""
    assert here.app.policy().broken == ""


async def test_a_merge_question_without_a_job_takes_back_what_does_not_load(here):
    forge = LocalForge(here.app)
    pull = forge.open_plain("export", [Written("sops/bad/SOP.toml", b"nothing = here\n")], "Files", "b")
    pulls = Pulls(here.app, here.background.conveyor)
    assert (await pulls.ask(pull.number)).action_id is None, "its checks fail"


async def test_a_kill_after_the_revert_is_remembered(here):
    pull = await merged(here, {"skills/bad/SKILL.md": b"\xff"}, unchecked=True)

    class Killed(BaseException):
        pass

    def killed(point):
        if point == "pr_taken_back":
            raise Killed

    here.app.reached = killed
    with pytest.raises(Killed):
        await put_in_place(here.app, LocalForge(here.app), pull)
    here.app.reached = lambda point: None
    said = await put_in_place(here.app, LocalForge(here.app), pull)
    assert "taken back" in said
    assert not (here.app.workspace / "skills/bad/SKILL.md").exists()
    log = git(here.app.workspace, "log", "--format=%s", MAIN)
    assert log.count("Revert #") == 1
