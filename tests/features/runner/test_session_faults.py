"""Sessions that are stopped, lost, replaced or misconfigured at the worst moment."""

import asyncio
import os
import signal

import msgspec
import pytest

from coilclaw.config.runner import Org, Plan, Plans, Repo
from coilclaw.features.runner import follower
from coilclaw.features.runner.attach import TwoScreens
from coilclaw.features.runner.repo_choice import find_source
from coilclaw.features.runner.spec import RepoRef
from coilclaw.features.runner.terminal_filter import TerminalFilter
from coilclaw.packets.errors import ToolError
from tests.features.runner.session_world import REPO, until

pytestmark = pytest.mark.slow


async def test_one_that_is_stopped_while_it_starts_leaves_no_box(sessions_of_a_home):
    world = sessions_of_a_home()
    starting, go_on = asyncio.Event(), asyncio.Event()
    start = world.sessions.keepers.start

    async def held(order):
        starting.set()
        await go_on.wait()
        return await start(order)

    world.sessions.keepers.start = held
    async with world.serving() as site:
        asked = asyncio.ensure_future(site.http.post("/runner/v1/sessions", json={"repo": REPO}))
        await starting.wait()
        session_id = world.newest()
        await site.http.post(f"/runner/v1/sessions/{session_id}/stop")
        go_on.set()
        await asked
        await until(lambda: world.row(session_id).state == "COMPLETED")
        assert world.row(session_id).code == "STOPPED"
        await until(lambda: world.sessions.keepers.running() == ())


async def test_a_keeper_that_no_row_knows_is_ended(sessions_of_a_home, monkeypatch):
    monkeypatch.setattr(follower, "ORPHAN_SECONDS", 0.0)
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
    await world.sessions.record_end(session_id, "INTERRUPTED", "As if its start was cut off.", None)
    assert world.sessions.keepers.running() == (session_id,)
    async with world.serving():
        await until(lambda: world.sessions.keepers.running() == ())


async def test_a_queued_one_that_may_no_longer_start_ends_and_the_others_are_followed(sessions_of_a_home):
    world = sessions_of_a_home(
        orgs={"acme": Org(plan="enterprise", repos=("*",), providers=("*",))}, plans=Plans(enterprise=Plan(sessions=1))
    )
    async with world.serving() as site:
        first = await world.start(site, org_id="acme")
        queued = await world.start(site, org_id="acme", queue=True)
        world.app.config = msgspec.structs.replace(world.app.config, orgs={})
        await until(lambda: world.row(queued).state == "FAILED")
        assert world.row(queued).code == "START_FAILED"
        await site.http.post(f"/runner/v1/sessions/{first}/input", json={"data": "exit", "mode": "line"})
        await until(lambda: world.row(first).state == "COMPLETED")


async def test_one_with_network_that_ended_unfollowed_ends(sessions_of_a_home):
    world = sessions_of_a_home()
    world.allow("example.com")
    async with world.serving() as site:
        session_id = await world.start(site, policy={"network": {"mode": "open"}})
        await world.sample.approve(world.row(session_id).action_id)
        await until(lambda: world.row(session_id).state == "RUNNING")
    await world.sessions.type_in(session_id, "exit 4", line=True)
    keeper = await world.sessions.keepers.attach(session_id)
    await keeper.ended()
    await keeper.close()
    async with world.serving():
        await until(lambda: world.row(session_id).state == "COMPLETED")
        assert world.row(session_id).exit_code == 4


async def test_what_a_program_does_not_read_is_refused_and_blocks_nobody(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        await world.sessions.type_in(session_id, "stty raw -echo; sleep 1000", line=True)
        await until(lambda: "sleep 1000" in world.sessions.recorded_text(session_id))
        asked = [
            site.http.post(f"/runner/v1/sessions/{session_id}/input", json={"data": "é" * 60_000}) for _ in range(4)
        ]
        answers = await asyncio.gather(*asked)
        assert {(each.status_code, each.json()["code"]) for each in answers if each.status_code != 204} == {
            (409, "NOT_READ")
        }
        assert (await site.http.post(f"/runner/v1/sessions/{session_id}/stop")).status_code == 200


async def test_time_after_a_keeper_died_is_not_billed(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
    keeper = await world.sessions.keepers.attach(session_id)
    os.kill(keeper.pid, signal.SIGKILL)
    await keeper.close()
    world.app.db.write_now(
        lambda tx: tx.execute("UPDATE coding_sessions SET metered_at = '2026-01-01T00:00:00.000Z'") and None
    )
    async with world.serving():
        await until(lambda: world.row(session_id).state == "FAILED")
        assert world.row(session_id).agent_seconds < 600


async def test_all_events_are_told_and_files_once_over_a_restart(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        await world.sessions.type_in(session_id, "for i in $(seq 1 30); do echo $i > f$i; done", line=True)
        await until(lambda: len(world.events(session_id, "FILE_TOUCHED")) == 30)
        await until(lambda: world.row(session_id).files_touched == 30)
    async with world.serving() as site:
        await world.sessions.type_in(session_id, "echo more > g; exit", line=True)
        await until(lambda: world.row(session_id).state == "COMPLETED")
        paths = [each.data["path"] for each in world.events(session_id, "FILE_TOUCHED")]
        assert len(paths) == len(set(paths)) == 31
        assert world.row(session_id).files_touched == 31


def test_a_folder_named_like_another_repository_is_not_taken_for_it(sample, tmp_path):
    home = sample(repos={"alpha": Repo(path=tmp_path / "beta"), "beta": Repo(path=tmp_path / "gamma")})
    assert find_source(home.app, RepoRef(name="beta")).path == str(tmp_path / "gamma")
    with pytest.raises(ToolError, match="no repository"):
        find_source(home.app, RepoRef(name="gamma"))


def test_no_spelling_leaves_our_screen():
    for spelling in (b"\x1b[?25;1049l", b"\x1b[?047l", b"\x1b[?1049;25l", b"\x1b[?01049l"):
        shown = TwoScreens().feed(TerminalFilter().feed(spelling + b"x"))
        assert b"49" not in shown, spelling
        assert b"47" not in shown, spelling
