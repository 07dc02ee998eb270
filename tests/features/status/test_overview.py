"""The overview over HTTP: counted from what really happened, and the same however it is counted."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from coilclaw.config.schema import Price
from coilclaw.features.status.store import OverviewReader, count_day, first_row
from coilclaw.gate.turn import Turn
from coilclaw.packets.card import Answer
from coilclaw.packets.ids import new_id, stamp
from coilclaw.store.usage import add_usage, day_began
from tests.features.jobs.work_home import at_work, code_of, state, working


async def overview(site, **params):
    answer = await site.http.get("/v1/overview", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_empty_home_has_an_overview_of_zeros(sample):
    async with at_work(sample()) as site:
        today = {datetime.now(UTC).date().isoformat()}
        told = await overview(site)
        today.add(datetime.now(UTC).date().isoformat())
        assert len(told["days"]) == 30
        assert told["days"][-1]["day"] in today
        assert told["since"] == told["days"][0]["day"]
        assert told["verdicts"] == {"allow": 0, "ask": 0, "deny": 0}
        assert told["approvals"]["median_wait_seconds"] is None
        assert told["evidence"] == {"looked_at": 0, "complete": 0, "percent": None}
        assert told["schedules"]["success_percent"] is None
        assert set(told["waiting"].values()) == {0}
        assert told["estop"] is False


@pytest.mark.slow
async def test_what_really_happened_is_counted(sample):
    home = sample()
    home.app.config = msgspec.structs.replace(
        home.app.config, prices={"mock": Price(input_per_million=1.0, output_per_million=2.0)}
    )
    home.script({"text": "done"})
    async with at_work(home) as site, working(site):
        done = (await site.http.post("/v1/jobs", json={"goal": "x"})).json()["job_id"]
        await site.http.post("/v1/jobs", json={"goal": "x", "constraints": {"allowed_tools": ["no_such"]}})
        await state(site, done, "DONE")
        gone = await site.http.post("/v1/schedules", json={"every": "1h", "goal": "x"})
        run = (await site.http.post(f"/v1/schedules/{gone.json()['schedule_id']}/run-now")).json()
        await state(site, run["job_id"], "DONE")
        home.owner.answer = Answer(approved=None)
        turn = Turn("turn_1", "", "cli")
        await home.call("time", turn, "k0")
        yes, no, late, _ = [
            (await home.call("file_write", turn, f"k{n}", path=f"{n}.txt", content="x")).action for n in range(1, 5)
        ]
        await home.call("file_read", turn, "k9", path="/etc/passwd")
        await home.approve(yes.action_id)
        approvals = home.app.approvals(home.conveyor())
        await approvals.reject(no, reason="no")
        home.app.db.write_now(
            lambda tx: tx.execute(
                "UPDATE proposed_actions SET status = 'REJECTED', rejection_reason = 'expired' WHERE action_id = ?",
                (late.action_id,),
            )
        )
        home.app.db.write_now(lambda tx: tx.execute("UPDATE schedule_runs SET state = 'ENDED', outcome = 'DONE'"))
        told = await overview(site, days=2)
    today = told["days"][-1]
    assert (today["completed"], today["failed"], today["cancelled"], today["open"]) == (2, 1, 0, 0)
    assert today["input_tokens"] > 0
    assert today["cost_millionths"] == today["input_tokens"] + 2 * today["output_tokens"]
    assert told["verdicts"] == {"allow": 1, "ask": 4, "deny": 1}, "the schedule was the owner's own doing"
    assert told["risks"] == {"R0": 1, "R1": 0, "R2": 4, "R3": 1}
    answers = told["approvals"]
    assert [answers[name] for name in ("asked", "approved", "rejected", "expired", "waiting")] == [4, 1, 1, 1, 1]
    assert answers["median_wait_seconds"] >= 0
    tools = {each["tool"]: each for each in told["tools"]}
    assert (tools["file_write"]["calls"], tools["file_write"]["executed"], tools["file_write"]["waiting"]) == (5, 2, 1)
    assert (told["schedules"]["succeeded"], told["schedules"]["success_percent"]) == (1, 100.0)
    assert told["evidence"] == {"looked_at": 3, "complete": 3, "percent": 100.0}
    assert told["waiting"]["approvals"] == 1
    assert told["budget"]["used_today"] == today["input_tokens"] + today["output_tokens"]


async def test_a_job_without_what_it_had_to_leave_is_not_complete(sample):
    home = sample()
    home.script({"text": "done, without any"})
    async with at_work(home) as site, working(site):
        made = (await site.http.post("/v1/jobs", json={"goal": "x", "evidence": ["report"]})).json()
        await state(site, made["job_id"], "FAILED")
        assert (await overview(site))["evidence"] == {"looked_at": 1, "complete": 0, "percent": 0.0}


async def test_days_out_of_bounds_are_refused(sample):
    async with at_work(sample()) as site:
        for days in (0, -1, 367, "many", 10**30):
            assert code_of(await site.http.get("/v1/overview", params={"days": days}), 400) == "BAD_REQUEST"
        assert len((await overview(site, days=366))["days"]) == 366


def add_jobs(db, clock, count, *, state="DONE"):
    def write(tx):
        now = stamp(clock())
        tx.execute("INSERT INTO users VALUES ('owner', '', ?) ON CONFLICT DO NOTHING", (now,))
        tx.execute(
            "INSERT INTO threads VALUES ('c', 'owner', 'cli', '', ?, ?, NULL) ON CONFLICT DO NOTHING", (now, now)
        )
        for _ in range(count):
            at = clock()
            tx.execute(
                "INSERT INTO jobs (job_id, thread_id, user_id, goal, state, budget_json, created_at, updated_at)"
                " VALUES (?, 'c', 'owner', 'x', ?, '{}', ?, ?)",
                (new_id("job", at), state, stamp(at), stamp(at)),
            )

    db.write_now(write)


def test_every_row_is_counted_on_its_own_day_whatever_lies_between(db, clock):
    expected = {}
    for number in (3, 0, 5, 1, 0, 0, 2):
        if number:
            add_jobs(db, clock, number)
        expected[day_began(clock())[:10]] = {"DONE": number} if number else {}
        clock.advance(days=1)
    db.write_now(lambda tx: tx.execute("DELETE FROM jobs WHERE rowid IN (2, 5)"))  # gaps change nothing
    expected["2026-03-01"], expected["2026-03-03"] = {"DONE": 2}, {"DONE": 4}
    counted = OverviewReader(db.path, clock).count(8)
    assert {day.day: day.jobs for day in counted.days} == {**expected, "2026-03-08": {}}
    assert first_row(db.reader, "jobs", "2000-01-01") == 1
    assert first_row(db.reader, "jobs", "2100-01-01") == 12
    assert first_row(db.reader, "schedule_runs", "2000-01-01") == 1


def test_a_day_that_is_long_over_is_counted_again_after_a_while(db, clock):
    add_jobs(db, clock, 1, state="WAITING_APPROVAL")
    clock.advance(days=10)
    add_jobs(db, clock, 1, state="EXECUTING")
    almanac = OverviewReader(db.path, clock)

    def states():
        counted = almanac.count(11)
        return counted.days[0].jobs, counted.days[-1].jobs

    assert states() == ({"WAITING_APPROVAL": 1}, {"EXECUTING": 1})
    db.write_now(lambda tx: tx.execute("UPDATE jobs SET state = 'DONE'"))
    assert states() == ({"WAITING_APPROVAL": 1}, {"DONE": 1})
    clock.advance(minutes=11)
    assert states() == ({"DONE": 1}, {"DONE": 1})


def test_tokens_fall_on_the_day_they_were_spent(db, clock):
    for _ in range(3):
        db.write_now(
            lambda tx: add_usage(
                tx, clock, thread_id="c", turn_id="t", job_id=None, provider="p", model="m", input_tokens=10,
                output_tokens=5, estimated=False,
            )
        )  # fmt: skip
        clock.advance(hours=12)
    days = [sum(row.input_tokens for row in day.usage) for day in OverviewReader(db.path, clock).count(3).days]
    assert days == [10, 20, 0]


def test_a_decision_that_nobody_can_read_is_passed_over(db, clock):
    def write(tx):
        now = stamp(clock())
        tx.execute("INSERT INTO users VALUES ('owner', '', ?)", (now,))
        tx.execute(
            "INSERT INTO proposed_actions (action_id, user_id, source, source_id, tool, args_json, args_hash,"
            " risk_class, lane, idempotency_key, digest, taint_json, decision_json, status, expires_at, created_at,"
            " updated_at) VALUES ('act_1', 'owner', 'cli', 'x', 'time', '{}', '', 'READ', 'A', 'k', '', '[]', '{',"
            " 'EXECUTED', ?, ?, ?)",
            (now, now, now),
        )

    db.write_now(write)
    day = count_day(db.reader, day_began(clock()), day_began(clock() + timedelta(days=1)))
    assert (day.verdicts, day.tools) == ({}, {"time": {"EXECUTED": 1}})
