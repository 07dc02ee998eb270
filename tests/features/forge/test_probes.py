"""What the doctor says about the bot's repository."""

import os
from datetime import timedelta

from coilclaw.features.forge.codeowners import codeowners
from coilclaw.features.forge.daily import export_day
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.probes import forge_probes
from coilclaw.features.forge.store import load_pull
from coilclaw.store.yolo import set_yolo
from tests.conftest import TestClock
from tests.features.projects.world import git


def probed(home):
    return {probe.name: probe for probe in forge_probes(home.app, home.app.db.reader)}


def test_a_fresh_home_is_well(sample):
    found = probed(sample(forge__enabled=True))
    assert {probe.state for probe in found.values()} == {"ok"}
    assert "strict" in found["pull requests"].detail


def test_yolo_leftover_trees_and_gaps_in_codeowners_are_told(sample):
    home = sample(forge__enabled=True)
    home.app.db.write_now(lambda tx: set_yolo(tx, home.app.clock() + timedelta(hours=1)))
    (home.app.config.trees_dir / "job_lost").mkdir(parents=True)
    (home.workspace / ".github").mkdir(exist_ok=True)
    (home.workspace / ".github/CODEOWNERS").write_text("/SYSTEM.md @me\n")
    LocalForge(home.app).bot.settle("by hand")
    found = probed(home)
    assert [found[name].state for name in ("pull requests", "trees", "CODEOWNERS")] == ["warn", "warn", "warn"]
    assert "job_lost" in found["trees"].detail
    (home.workspace / ".github/CODEOWNERS").write_text(codeowners("@me"))
    LocalForge(home.app).bot.settle("by hand")
    assert probed(home)["CODEOWNERS"].state == "ok"


def test_a_lock_that_lies_there_for_long_is_told(sample):
    home = sample(forge__enabled=True)
    lock = home.workspace / ".git" / "index.lock"
    lock.touch()
    assert "git locks" not in probed(home), "a git may be at work"
    os.utime(lock, (1, 1))
    assert str(lock) in probed(home)["git locks"].remedy


def test_a_repository_that_cannot_be_worked_with_is_a_fault_with_its_remedy(sample):
    home = sample(forge__enabled=True)
    git(home.workspace, "checkout", "-q", "-b", "other")
    (probe,) = forge_probes(home.app, home.app.db.reader)
    assert (probe.state, "checkout main" in probe.remedy) == ("fail", True)
    (off,) = forge_probes(sample(forge__enabled=False).app, home.app.db.reader)
    assert off.state == "ok"


async def test_an_export_that_nobody_merges_is_told_with_the_remedy(office):
    clock = TestClock()
    here = office(clock, forge__enabled=True)
    app = here.app

    def probe():
        return next(each for each in forge_probes(app, app.db.reader) if each.name == "audit export")

    await here.home.call("file_list", path=".", key="k")
    assert probe().state == "ok"
    clock.advance(days=5)
    told = probe()
    assert told.state == "warn"
    assert "for ever" in told.detail
    assert "coilclaw worker" in told.remedy
    assert await export_day(app, here.background.conveyor) == 1
    told = probe()
    assert (told.state, "`coilclaw pr merge 1`" in told.remedy) == ("warn", True)
    await here.home.approve(load_pull(app.db.reader, 1).action_id)
    assert probe().state == "ok"
