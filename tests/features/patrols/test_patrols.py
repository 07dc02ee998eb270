"""Patrols from end to end: a seeded bug becomes an alert, and the run after its repair resolves it."""

import shutil

import msgspec
import pytest

from coilclaw.config.schema import Security
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.job_requests import Request
from coilclaw.features.patrols.http_patrols import muted, resolved
from coilclaw.features.patrols.patrol_job import start_patrol
from coilclaw.features.patrols.store import runs_of_job
from coilclaw.features.patrols.target import read_target
from coilclaw.features.patrols.views import run_words
from coilclaw.features.runner.store import usage_of
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.job import Constraints, Starter
from coilclaw.store.actions import load_action
from tests.features.patrols.patrol_world import BUG, MENDED
from tests.missing import lacks

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("tier", ["A", "B"])
async def test_a_seeded_bug_is_found_once_counted_and_resolved_when_it_is_gone(patrol_world, tier):
    world = patrol_world(tier)
    assert world.health() == {"site": None}
    job = await world.patrol()
    assert (job.state, world.run().state) == ("DONE", "failed")
    assert ", 1 finding, " in run_words(world.run())
    (alert,) = world.alerts()
    assert (alert.kind, alert.severity, alert.count, alert.state) == ("test", "error", 1, "open")
    assert alert.evidence["rule"] == "site::test_add"
    assert world.health() == {"site": int(85 * 0.75)}
    events = world.events("test_run_started", "test_run_finished", "alert_raised")
    assert [kind for kind, _ in events] == ["test_run_started", "test_run_finished", "alert_raised"]
    assert {"command", "passed", "failed", "skipped", "seconds"} <= events[1][1].keys()
    assert (events[1][1]["passed"], events[1][1]["failed"]) == (1, 1)
    asked = {"alert_id", "kind", "severity", "building", "fingerprint", "summary", "evidence", "first_seen", "count"}
    assert asked <= events[2][1].keys()
    await world.patrol()
    (again,) = world.alerts()
    assert (again.alert_id, again.count) == (alert.alert_id, 2)
    assert len(world.events("alert_raised")) == 1
    world.commit({"code_of_site.py": MENDED})
    await world.patrol()
    assert (world.alerts()[0].state, world.alerts()[0].resolved_by) == ("resolved", world.run().run_id)
    assert world.health() == {"site": 100}
    world.commit({"code_of_site.py": BUG})
    await world.patrol()
    assert (world.alerts()[0].state, world.alerts()[0].count) == ("open", 3)
    assert len(world.events("alert_raised")) == 2
    assert world.checkouts == []


async def test_every_run_has_a_receipt_and_its_time_is_metered(patrol_world):
    world = patrol_world()
    await world.patrol()
    assert [each.tool for each in world.sample.receipts()] == ["patrol_run"]
    (usage,) = usage_of(world.app.db.reader)
    assert usage.provider == "patrol"
    assert usage.patrol_seconds >= 1
    assert usage.agent_seconds == 0


async def test_tool_that_is_missing_is_no_failure_of_the_repository(patrol_world):
    world = patrol_world(patrols={"test": "python3 -m no_such_module_here -q"})
    await world.patrol()
    assert world.run().state == "error"
    assert "not installed" in world.run().reason
    assert "No module named no_such_module_here" in world.run().reason
    assert world.alerts() == []


async def test_files_that_sessions_are_given_are_not_given_to_patrols(patrol_world):
    world = patrol_world(patrols={})
    (world.folder / ".env").write_text("PASSWORD_OF=somebody\n")
    world.configure(patrols={"test": "ls -a; cat .env; exit 3"}, copy=(".env",))
    await world.patrol()
    assert world.run().state == "failed"
    assert "PASSWORD_OF" not in world.run().output


async def test_the_box_has_no_network_and_sees_nothing_of_the_owners(patrol_world):
    probe = (
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9), 2)' 2>&1 | tail -1;"
        f" ls {'{home}'}; cat /etc/shadow; exit 3"
    )
    world = patrol_world(patrols={})
    world.configure(patrols={"test": probe.format(home=world.app.home.root)})
    await world.patrol()
    assert world.run().state == "failed"
    assert "memory.sqlite" not in world.run().output
    assert "root:" not in world.run().output


async def test_what_a_patrol_writes_stays_in_its_checkout(patrol_world):
    world = patrol_world(patrols={"build": "echo planted >planted; git commit -qam x 2>/dev/null; rm -f README.md"})
    await world.patrol("site build")
    assert world.run().state == "passed", world.run().reason
    assert sorted(each.name for each in world.folder.iterdir() if each.name != ".git") == [
        "README.md",
        "check.py",
        "code_of_site.py",
    ]


async def test_a_run_that_could_not_run_is_no_run_that_passed(patrol_world):
    world = patrol_world(patrols={"test": "python3 check.py", "lint": "no-such-linter --x"})
    await world.patrol()
    job = await world.patrol("site lint")
    assert (job.state, world.run().state) == ("FAILED", "error")
    world.configure(patrols={"test": "sleep 60"}, patrol_timeout_seconds=1.0)
    await world.patrol()
    assert world.run().state == "error"
    (alert,) = world.alerts()
    assert alert.state == "open", "a run that was cut off must not resolve anything"
    world.commit({"code_of_site.py": MENDED})
    world.configure(patrols={"test": "python3 check.py", "lint": "no-such-linter --x"})
    await world.patrol()
    assert world.health()["site"] == 90, "a patrol that cannot run is not healthy"


async def test_an_unaudited_repository_is_never_healthy(patrol_world):
    world = patrol_world(patrols={"deps": "echo No known vulnerabilities found"})
    job = await world.patrol("site deps")
    assert (job.state, world.run().state) == ("DONE", "not_audited")
    assert world.health() == {"site": None}


async def test_a_patrol_with_network_waits_for_the_owner(patrol_world):
    world = patrol_world(
        overrides={"security": Security(allowed_domains=("packages.example",))},
        patrols={"deps": "exit 1"},
        patrol_domains=("packages.example",),
    )
    job = await world.patrol("site deps")
    assert job.state == "WAITING_APPROVAL"
    (action_id,) = msgspec.json.decode(job.checkpoint)["waiting"]
    assert load_action(world.app.db.reader, action_id).decision.lane == "B"
    assert runs_of_job(world.app.db.reader, job.job_id) == []
    await world.app.approvals(world.sample.conveyor()).reject(
        load_action(world.app.db.reader, action_id), reason="no", by="terminal"
    )
    assert (await world.finish(job)).state == "FAILED"


async def test_a_domain_that_is_not_allowed_is_denied(patrol_world):
    world = patrol_world(patrols={"deps": "true"}, patrol_domains=("evil.example",))
    job = await world.patrol("site deps")
    assert job.state == "FAILED"
    assert runs_of_job(world.app.db.reader, job.job_id) == []


async def test_estop_ends_a_patrol_and_nothing_is_resolved(patrol_world):
    import asyncio

    world = patrol_world()
    await world.patrol()
    world.configure(patrols={"test": "sleep 600"})
    job = await start_patrol(world.app, read_target(world.app, "site test"), channel="cli")
    working = asyncio.ensure_future(world.work(job))
    async with asyncio.timeout(280):
        while not [run for run in runs_of_job(world.app.db.reader, job.job_id) if run.state == "running"]:
            await asyncio.sleep(0.05)
    (world.app.home.root / "ESTOP").touch()
    async with asyncio.timeout(280):
        while world.checkouts:
            await asyncio.sleep(0.05)
    (world.app.home.root / "ESTOP").unlink()
    await working
    await world.quests().upkeep()
    assert world.run().state == "error"
    assert [each.state for each in world.alerts()] == ["open"]


async def test_readonly_autonomy_runs_no_patrol(patrol_world):
    world = patrol_world(overrides={"security": Security(autonomy="readonly")})
    job = await world.patrol()
    assert job.state == "FAILED"
    assert world.checkouts == []


async def test_the_agent_cannot_start_a_patrol(patrol_world):
    world = patrol_world()
    outcome = await world.sample.call("patrol_run", run_id="patrol_aaaaaaaaaa1", job_id="", repo="site", room="",
                                      kind="test", command="touch x", ref="", quest_id="", domains=[])  # fmt: skip
    assert outcome.result.code == "TOOL_NOT_ALLOWED"
    starter = Starter(
        turn_id="turn_1", fresh=(), inherited=(), constraints=Constraints(), generation=0, job_id=None, skills=()
    )
    request = Request(
        goal="Patrol.", thread_id="conv_1", channel="cli", inputs={"patrol": "site test"}, starter=starter
    )
    job = await world.work(await Background(world.app).desk().create(request))
    assert job.state == "FAILED"
    assert runs_of_job(world.app.db.reader, job.job_id) == []


async def test_rooms_are_buildings_of_their_own(patrol_world):
    if shutil.which("make") is None:
        lacks("make", "Install the package make.")
    world = patrol_world(patrols={}, patrol_rooms=("a", "b"))
    world.commit({"a/Makefile": "test:\n\tfalse\n", "b/Makefile": "test:\n\ttrue\n"})
    await world.patrol("site all")
    assert {each.room: each.state for each in world.alerts()} == {"a": "open"}
    assert world.health() == {"site/a": 85, "site/b": 100}
    job = await world.patrol("site:gone test")
    assert (job.state, world.run().state) == ("FAILED", "error")


@pytest.mark.parametrize("link", ["/etc", ".."])
async def test_a_room_that_is_a_link_is_none(patrol_world, link):
    world = patrol_world(patrols={"test": "ls"})
    (world.folder / "out").symlink_to(link)
    world.commit({})
    job = await world.patrol("site:out test")
    assert job.state == "FAILED"


async def test_hostile_output_is_bounded_and_redacted(patrol_world):
    secret = "correct-horse-battery-9f3a"
    loud = f"import sys; print('\\x1b[2J' + {secret!r}); print('x' * 30_000_000); sys.exit(1)"
    world = patrol_world(patrols={"lint": "python3 loud.py"})
    world.app.redactor.register("FORGE_TOKEN", secret)
    world.commit({"loud.py": loud})
    await world.patrol("site lint")
    run = world.run()
    assert run.state in ("failed", "error")
    assert len(run.output) <= 16_000
    assert "\x1b" not in run.output
    world.commit({"loud.py": f"import sys; print('\\x1b[2J' + {secret!r}); sys.exit(1)"})
    await world.patrol("site lint")
    everything = str(world.run()) + str(world.alerts()) + str(world.events("alert_raised"))
    assert secret not in everything
    assert "\x1b" not in everything


async def test_a_report_that_is_a_link_or_a_pipe_is_not_read(patrol_world):
    world = patrol_world(patrols={"test": 'ln -s /etc/passwd "$PATROL_REPORT"; exit 1'})
    await world.patrol()
    assert (world.run().format, world.run().state) == ("raw", "failed")
    world.configure(patrols={"test": 'mkfifo "$PATROL_REPORT"; exit 1'})
    await world.patrol()
    assert world.run().format == "raw"


async def test_muted_alerts_count_on_and_come_back(patrol_world):
    world = patrol_world()
    await world.patrol()
    (alert,) = world.alerts()
    now = world.app.clock()
    from datetime import timedelta

    until = now + timedelta(days=1)
    assert (await muted(world.app, alert.alert_id, reason="known", until=until, by="terminal")).state == "muted"
    assert world.health() == {"site": 75}
    await world.patrol()
    assert world.alerts()[0].count == 2
    world.app.clock = lambda: now + timedelta(days=1, minutes=1)
    assert world.health() == {"site": int(85 * 0.75)}
    for reason, wrong in ((" ", until), ("x", now), ("x", now + timedelta(days=800))):
        with pytest.raises(UsageError):
            await muted(world.app, alert.alert_id, reason=reason, until=wrong, by="terminal")
    assert (await resolved(world.app, alert.alert_id, by="terminal")).state == "resolved"
    await world.patrol()
    assert world.alerts()[0].state == "open"


async def test_a_target_that_names_nothing_is_refused(patrol_world):
    world = patrol_world()
    for text, error in (("nowhere test", ToolError), ("site typo", UsageError), ("", UsageError), ("site", UsageError)):
        with pytest.raises(error):
            await world.patrol(text)
    with pytest.raises(UsageError):
        await world.patrol("site:../.. test")


async def test_new_findings_in_every_run_fill_no_disk(patrol_world, monkeypatch):
    from coilclaw.features.patrols import store

    monkeypatch.setattr(store, "MOST_OPEN", 5)
    monkeypatch.setattr(store, "KEPT_RUNS", 2)
    made = "import json, os; print(json.dumps([dict(code=os.urandom(4).hex(), filename='a', message='x')] * 1 + ["
    made += "dict(code=os.urandom(4).hex(), filename='b', message='y') for _ in range(3)])); raise SystemExit(2)"
    world = patrol_world(patrols={"lint": "python3 new.py"})
    world.commit({"new.py": made})
    for _ in range(4):
        await world.patrol("site lint")
    assert world.run().format == "ruff"
    assert len(world.alerts()) == 5
    runs = world.app.db.reader.execute("SELECT count(*) FROM patrol_runs").fetchone()[0]
    assert runs <= 3
