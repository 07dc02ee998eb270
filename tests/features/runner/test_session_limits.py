"""What a session may use while it runs, what its viewers may decide, and what a long history costs."""

import msgspec
import pytest

from coilclaw.features.runner import follower
from coilclaw.features.runner.hub import Hub
from coilclaw.features.runner.spec import StartSession
from coilclaw.features.runner.store import add_session, events_after, needed_session, say
from tests.features.runner.session_world import REPO, until


def test_events_after_a_number_are_found_without_reading_those_before(sample):
    made = sample()
    spec = msgspec.convert({"repo": REPO}, StartSession)

    def write(tx):
        for name in ("sess_a", "sess_b"):
            add_session(tx, made.app.clock, name, spec, action_id="act_1", by="owner")
        for number in range(600):
            for name in ("sess_a", "sess_b") if number % 3 else ("sess_b",):
                say(tx, made.app.clock, needed_session(tx, name), "ALERT_RAISED", {"code": str(number)})

    made.app.db.write_now(write)
    db = made.app.db.reader
    session = needed_session(db, "sess_a")
    assert session.seq == 400
    for after in (-1, 0, 1, 2, 199, 398, 399, 400, 1000):
        found = [each.seq for each in events_after(db, session, after, 1000)]
        assert found == list(range(max(0, after) + 1, 401))
    assert [each.seq for each in events_after(db, session, 100, 3)] == [101, 102, 103]
    decoded = []
    db.set_trace_callback(decoded.append)
    list(events_after(db, session, 390, 100))
    db.set_trace_callback(None)
    assert len(decoded) < 20


@pytest.mark.slow
async def test_a_viewer_that_leaves_no_longer_decides_the_size(sessions_of_a_home):
    world = sessions_of_a_home()
    session_id = None
    async with world.serving() as site:
        session_id = await world.start(site)
        own = await world.sessions.keepers.attach(session_id)
        await own.resize(50, 150)
        server = await world.sessions.keepers.attach(session_id)
        hub = Hub(world.app, world.sessions)
        await hub.attached(session_id, server)
        access = hub.access()
        await access.resize(session_id, "phone", 20, 40)
        await access.resize(session_id, "tablet", 30, 30)
        await until(lambda: (own.rows, own.columns) == (20, 30))
        await access.resize(session_id, "tablet", 0, 0)
        await until(lambda: (own.rows, own.columns) == (20, 40))
        await access.resize(session_id, "phone", 0, 0)
        await until(lambda: (own.rows, own.columns) == (50, 150))
        await own.close()
        await server.close()


@pytest.mark.slow
async def test_the_session_that_fills_the_disk_is_stopped(sessions_of_a_home, monkeypatch):
    monkeypatch.setattr(follower, "ROOM_SECONDS", 0.2)
    world = sessions_of_a_home()
    async with world.serving() as site:
        modest, greedy = await world.start(site), await world.start(site)
        runner = msgspec.structs.replace(world.app.config.runner, disk_bytes=48 << 20)
        world.app.config = msgspec.structs.replace(world.app.config, runner=runner)
        line = "head -c 64M /dev/zero > $HOME/much; sleep 600"
        await site.http.post(f"/runner/v1/sessions/{greedy}/input", json={"data": line, "mode": "line"})
        await until(lambda: world.row(greedy).state == "FAILED")
        assert world.row(greedy).code == "LIMIT"
        assert "disk_bytes" in world.row(greedy).reason
        assert world.row(modest).state == "RUNNING"


@pytest.mark.slow
async def test_files_that_change_all_the_time_are_told_up_to_a_rate(sessions_of_a_home, monkeypatch):
    monkeypatch.setattr(follower, "MOST_TOUCHED", 20)
    monkeypatch.setattr(follower, "TOUCHED_A_SECOND", 0.0)
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        for batch in "ab":
            line = f"for n in $(seq 15); do echo {batch} > {batch}$n; done; echo done"
            await site.http.post(f"/runner/v1/sessions/{session_id}/input", json={"data": line, "mode": "line"})
            wanted = 15 if batch == "a" else 30
            await until(lambda wanted=wanted: any(
                each.data["changed_files"] == wanted for each in world.events(session_id, "DIFF_SUMMARY")
            ))  # fmt: skip
        assert len(world.events(session_id, "FILE_TOUCHED")) == 20
        assert sum(each.data["more"] for each in world.events(session_id, "DIFF_SUMMARY")) == 10
