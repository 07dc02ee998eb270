"""What must not stop the dispatcher: rows that cannot be read, zones that are gone, looks that come late, holds."""

import pytest

from coilclaw.features.schedules.catchup import slot_now
from coilclaw.features.schedules.registry_edit import broken_now, changing, edit_registry
from coilclaw.features.schedules.store.schedules import list_schedules, load_schedule, origin_of
from coilclaw.features.schedules.timetable import slot_of, trigger_of
from tests.features.schedules.schedule_world import World, entry

DAMAGES = [
    "payload_json = '{'",
    "labels_json = 'x'",
    """options_json = '{"misfire": 5}'""",
    "timezone = 'Gone/Zone'",
    "counted_from = '0'",
]


@pytest.fixture
def world(db, clock):
    return World(db, clock)


async def two(world):
    world.declare(entry("a"), entry("b"))
    await world.tick()


def damage(world, change):
    world.db.write_now(lambda tx: tx.execute(f"UPDATE schedules SET {change} WHERE schedule_id = 'a'"))


def paused(world, schedule_id="a"):
    look = "SELECT paused_reason FROM schedules WHERE schedule_id = ?"
    return world.db.reader.execute(look, (schedule_id,)).fetchone()[0]


@pytest.mark.parametrize("change", DAMAGES)
async def test_other_zone_rules_pause_what_cannot_be_counted_and_the_others_continue(world, change):
    await two(world)
    damage(world, change)
    world.db.write_now(lambda tx: tx.execute("UPDATE schedules SET tzdata_version = '1999a'"))
    world.restart()
    world.clock.advance(hours=1)
    assert await world.tick() == 1
    assert world.started("b") == ["2026-03-01T13:00:00Z"]
    assert paused(world)
    assert any(event == "schedule_paused" and fields["schedule_id"] == "a" for event, fields in world.said)


async def test_a_clock_that_ran_ahead_is_set_right_beside_a_row_that_cannot_be_read(world):
    await two(world)
    damage(world, "payload_json = '{'")
    world.db.write_now(lambda tx: tx.execute("UPDATE schedules SET counted_from = '2036-01-01T00:00:00Z'"))
    world.restart()
    await world.tick()
    assert load_schedule(world.db.reader, "b").next_run_utc == "2026-03-01T13:00:00Z"


@pytest.mark.parametrize("change", DAMAGES)
async def test_a_run_whose_schedule_cannot_be_read_ends_all_the_same(world, change):
    await two(world)
    world.clock.advance(hours=1)
    await world.tick()
    world.finish()
    damage(world, change)
    world.clock.advance(hours=1)
    await world.tick()
    assert world.runs("a")[0].outcome == "DONE"
    assert len(world.started("b")) == 2


async def test_a_queued_run_of_a_schedule_that_cannot_be_read_is_skipped(world):
    world.declare(entry("a", overlap="queue_one"), entry("b"))
    await world.tick()
    for _ in range(2):
        world.clock.advance(hours=1)
        await world.tick()
    damage(world, "payload_json = '{'")
    world.finish()
    await world.tick()
    assert [run.state for run in world.runs("a")] == ["ENDED", "SKIPPED"]


async def test_a_followup_that_cannot_be_read_goes_with_its_run(world):
    await two(world)
    world.clock.advance(hours=1)
    await world.tick()
    damage(world, "origin = 'followup', payload_json = '{'")
    world.finish()
    await world.tick()
    assert origin_of(world.db.reader, "a") is None


async def test_what_a_run_would_do_next_is_only_for_reading(world):
    await two(world)
    world.clock.advance(hours=1)
    await world.tick()
    world.db.write_now(lambda tx: tx.execute("UPDATE schedule_runs SET next_runs_json = '{'"))
    world.finish()
    await world.tick()
    assert [run.outcome for run in world.runs("b")] == ["DONE"]


@pytest.mark.parametrize("change", DAMAGES)
async def test_an_entry_that_is_edited_is_written_over_a_row_that_cannot_be_read(world, change):
    await two(world)
    damage(world, change)
    world.declare(entry("a", cron="5 * * * *"), entry("b"), entry("c"))
    await world.tick()
    assert load_schedule(world.db.reader, "a").next_run_utc == "2026-03-01T12:05:00Z"
    assert load_schedule(world.db.reader, "c") is not None
    assert world.events("schedule_edited", "a")[0]["before"]


async def test_enabling_a_row_that_cannot_be_read_writes_it_again(world):
    await two(world)
    damage(world, "payload_json = '{'")
    world.clock.advance(hours=1)
    await world.tick()
    assert "schedule enable a" in paused(world)
    rows, broken = list_schedules(world.db.reader, "registry")
    assert ([row.schedule_id for row in rows], [error.schedule_id for error in broken]) == (["b"], ["a"])
    edit = changing("a", {"enabled": True})
    world.db.write_now(lambda tx: edit_registry(tx, world.clock, world.source, world.file, edit))
    assert load_schedule(world.db.reader, "a").next_run_utc == "2026-03-01T14:00:00Z"
    assert paused(world) is None


# Looks that come late, and rows that grow


async def test_a_look_that_comes_a_little_late_misses_nothing(world):
    world.declare(entry("a", cron="10 12 * * *", misfire="skip"))
    await world.tick()
    world.clock.advance(minutes=9, seconds=55)
    await world.tick()
    world.clock.advance(minutes=10, seconds=10)
    await world.tick()
    assert world.started("a") == ["2026-03-01T12:10:00Z"]
    assert world.runs("a")[0].cause == "due"


async def test_a_schedule_that_is_held_up_for_long_leaves_one_row_and_few_events(world):
    world.declare(entry("a", cron="* * * * *"))
    await world.tick()
    for _ in range(100):
        world.clock.advance(minutes=1)
        await world.tick()
    started, skipped = world.runs("a")
    assert started.state == "STARTED"
    assert (skipped.slots, skipped.first_slot) == (99, "2026-03-01T12:02:00Z")
    told = world.events("schedule_skipped", "a")
    assert sorted(event["slots"] for event in told) == [1, 2, 4, 8, 16, 32, 64]
    assert {event["first_slot"] for event in told} == {"2026-03-01T12:02:00Z"}
    world.finish()
    world.clock.advance(minutes=1)
    await world.tick()
    for _ in range(3):
        world.clock.advance(minutes=1)
        await world.tick()
    assert [run.slots for run in world.runs("a")] == [1, 99, 1, 3]


# Zones that move


def test_a_slot_that_new_rules_move_later_is_the_same_slot():
    nine = trigger_of("cron", {"cron": "0 9 * * *"}, "America/Los_Angeles")
    ran = slot_of("2026-03-01T16:00:00Z")  # nine o'clock an hour east of there
    assert slot_now(nine, ran) == slot_of("2026-03-01T17:00:00Z")
    assert slot_now(nine, slot_of("2026-03-01T17:00:00Z")) == slot_of("2026-03-01T17:00:00Z")
    earlier = slot_of("2026-03-01T18:00:00Z")
    assert slot_now(nine, earlier) == earlier
    hourly = trigger_of("cron", {"cron": "0 * * * *"}, "America/Los_Angeles")
    assert slot_now(hourly, ran) == ran
    monthly = trigger_of("cron", {"cron": "0 9 1 * *"}, "America/Los_Angeles")
    assert slot_now(monthly, slot_of("2026-03-15T16:00:00Z")) == slot_of("2026-03-15T16:00:00Z")


async def test_a_daily_run_that_was_done_is_not_done_again_when_its_zone_moves(world):
    world.declare(entry("a", cron="0 9 * * *", timezone="America/Denver"), entry("never", cron="0 9 * * *"))
    await world.tick()
    world.clock.advance(hours=4, minutes=10)
    await world.tick()
    assert world.started("a") == ["2026-03-01T16:00:00Z"]
    world.finish()
    # as if a release had moved the zone an hour west
    damage(world, "timezone = 'America/Los_Angeles'")
    world.db.write_now(lambda tx: tx.execute("UPDATE schedules SET tzdata_version = '1999a'"))
    world.restart()
    await world.tick()
    assert world.row("a").next_run_utc == "2026-03-02T17:00:00Z"
    assert world.row("never").next_run_utc == "2026-03-02T09:00:00Z"


# The file


async def test_a_running_worker_takes_over_what_was_vouched_for(world):
    world.registry["labels"] = ("untrusted:web",)
    world.declare(entry("a"))
    for _ in range(3):
        await world.tick()
    assert world.row("a") is None
    assert len(world.said) == 1
    world.registry["labels"] = ()
    await world.tick()
    assert world.row("a") is not None


async def test_while_a_tainted_command_runs_nobody_is_told_to_vouch(world):
    world.registry.update(labels=("untrusted:web",), held=True)
    world.declare(entry("a"))
    await world.tick()
    (said,) = [fields["message"] for _, fields in world.said]
    assert "labels forget" not in said
    assert "is running" in said
    assert "is running" in str(broken_now(world.source, {}))


async def test_what_would_keep_runs_from_beginning_is_hinted_at(world):
    world.objections = lambda declared: [f"There is no SOP {declared.payload.sop}."]
    world.restart()
    world.declare(entry("a", sop="nosuch"), entry("off", sop="other", enabled=False))
    await world.tick()
    (said,) = [fields["message"] for event, fields in world.said if event == "schedule_hint"]
    assert said == "a: its runs cannot start. There is no SOP nosuch."
    assert world.row("a") is not None
