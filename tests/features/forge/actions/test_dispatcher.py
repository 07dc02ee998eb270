"""The dispatcher of Actions: late, doubled and missed ticks start nothing twice, nor does a local one beside it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from coilclaw.features.forge.actions import remote_jobs
from coilclaw.features.forge.actions.ci_dispatch import TRAIL
from coilclaw.features.forge.actions.remote_jobs import RemoteJobs, run_claim
from coilclaw.features.schedules.dispatcher import ELSEWHERE
from coilclaw.features.schedules.scheduler import Scheduler
from coilclaw.packets.errors import EffectUncertain
from coilclaw.packets.job import JobPacket
from coilclaw.sandbox.fake_github import GitHubReply
from tests.conftest import TestClock

BEFORE = datetime(2026, 3, 1, 8, 55, tzinfo=UTC)


async def test_a_slot_is_started_once_however_often_the_dispatcher_runs(desk):
    desk = desk()
    assert await desk.tick(BEFORE) == "0 started, 0 already claimed."
    late = BEFORE + timedelta(minutes=37)
    assert await desk.tick(late) == "1 started, 0 already claimed."
    for minutes in (0, 10, 20):
        await desk.tick(late + timedelta(minutes=minutes))
    assert desk.started() == 1
    assert desk.fake.hosted.ref(run_claim("daily:2026-03-01T09:00:00Z").removeprefix("refs/"))


async def test_two_dispatchers_at_the_same_moment_start_one_run(desk):
    desk = desk()
    await desk.tick(BEFORE)
    trail = desk.fake.hosted.ref(TRAIL.removeprefix("refs/"))
    now = BEFORE + timedelta(minutes=10)
    await desk.tick(now)
    desk.fake.hosted.move(TRAIL.removeprefix("refs/"), trail, force=True)  # the second read it before the first wrote
    assert await desk.tick(now) == "0 started, 1 already claimed."
    assert desk.started() == 1


async def test_a_new_schedule_runs_nothing_from_before_it_was_there(desk):
    desk = desk()
    await desk.tick(BEFORE + timedelta(hours=5))
    assert desk.started() == 0


async def test_missed_days_are_one_run_and_the_trail_says_why(desk):
    desk = desk()
    await desk.tick(BEFORE)
    await desk.tick(BEFORE + timedelta(days=3, minutes=10))
    assert desk.started() == 1
    jobs = RemoteJobs(desk.app)
    told = json.loads((await jobs.commit_files(await jobs.ref(TRAIL)))["tick.json"])
    daily = told["schedules"]["daily"]
    assert told["started"] == ["daily:2026-03-04T09:00:00Z"]
    assert daily["skipped"][0]["slots"] == 3
    assert {"cron_summary", "cron_notes", "next_runs_utc", "next_runs_local"} <= set(daily)
    assert daily["next_runs_utc"][0].startswith("2026-03-05T09:00")


async def test_a_dispatcher_that_died_after_its_claim_is_left_to_start_it_for_a_while(desk):
    desk = desk()
    await desk.tick(BEFORE)
    now = BEFORE + timedelta(minutes=10)
    desk.fake.instead.append((r"POST .*/dispatches", GitHubReply(status=503, body={"message": "away"})))
    with pytest.raises(EffectUncertain):
        await desk.tick(now)
    assert await desk.tick(now) == "0 started, 1 already claimed."  # whoever claimed it may still be at it
    assert desk.started() == 0


async def test_a_claim_whose_run_never_started_is_started_after_a_while_and_then_never_again(desk, monkeypatch):
    desk = desk()
    jobs = RemoteJobs(desk.app)
    packet = JobPacket(job_id="job_x", intent="Look.")
    desk.fake.instead.append((r"POST .*/dispatches", GitHubReply(status=503, body={"message": "away"})))
    with pytest.raises(EffectUncertain):
        await jobs.hand_in(packet, run_claim("a:b"))
    assert not await jobs.hand_in(packet, run_claim("a:b"))
    monkeypatch.setattr(remote_jobs, "GRACE", timedelta(0))
    assert await jobs.hand_in(packet, run_claim("a:b"))
    assert not await jobs.hand_in(packet, run_claim("a:b"))
    assert desk.started() == 1


async def test_the_local_dispatcher_leaves_the_schedules_to_actions(desk):
    clock = TestClock()
    desk = desk(clock)
    app = desk.app
    dispatcher = Scheduler(app).dispatcher(desk.here.background)
    await dispatcher.tick()
    clock.advance(days=2)
    await dispatcher.tick()
    rows = app.db.reader.execute("SELECT state, reason, job_id FROM schedule_runs").fetchall()
    assert rows
    assert {tuple(row) for row in rows if row[0] != "SKIPPED" or row[2]} == set()
    assert any(row[1] == ELSEWHERE for row in rows)
