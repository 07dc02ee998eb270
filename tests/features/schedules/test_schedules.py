"""Schedules over HTTP: declared in the registry, changed by several at once, started by hand, previewed."""

import asyncio
import json
from datetime import timedelta

import pytest

from coilclaw.features.schedules.registry_edit import adding
from coilclaw.features.schedules.schedule_entry import new_entry
from coilclaw.features.schedules.scheduler import Scheduler
from coilclaw.features.schedules.store.schedules import load_schedule, set_mark
from coilclaw.gate.turn import Turn
from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.packets.ids import stamp
from coilclaw.server.events.part import events_part
from coilclaw.store.actions import list_actions
from tests.features.jobs.work_home import at_work, calls, code_of, state, until, working
from tests.server.follower import Follower
from tests.server.parts import work_part
from tests.server.site import served, unlimited

DAILY = {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "goal": "Say hello"}


async def add(site, key=None, **body):
    headers = {"Idempotency-Key": key} if key else {}
    return await site.http.post("/v1/schedules", json={**DAILY, **body}, headers=headers)


def refused(answer):
    """It does not fit the document, or makes no sense here."""
    assert (answer.status_code, answer.json()["code"]) in ((400, "BAD_REQUEST"), (422, "UNFIT")), answer.text


def registry(home):
    return json.loads((home.workspace / "cron" / "jobs.json").read_text())


def entries(home):
    return {job["job_id"]: job for job in registry(home)["jobs"]}


async def test_a_schedule_is_declared_in_the_file_and_told_in_words(sample):
    home = sample()
    async with at_work(home) as site:
        answer = await add(
            site,
            steps=["look", "say"],
            constraints={"allowed_tools": ["time", "artifact_put"], "max_files_changed": 0},
            evidence=["greeting"],
            overlap="queue_one",
            catch_up_window="2h",
            max_failures=3,
        )
        assert answer.status_code == 201, answer.text
        made = answer.json()
        assert made["schedule_id"] == "say-hello"
        assert answer.headers["etag"] == f'"{made["hash"]}"'
        assert (made["state"], made["trigger"], made["cron"]) == ("waits", "cron", "0 9 * * 1-5")
        assert "9:00 AM" in made["cron_summary"]
        assert len(made["next_runs_utc"]) == len(made["next_runs_local"]) == 5
        assert made["next_run_local"].endswith("9:00 AM Europe/Berlin")
        assert made["options"] == {
            "misfire": "run_once", "catch_up_window": "2h", "overlap": "queue_one", "stagger": "0s", "max_failures": 3,
        }  # fmt: skip
        assert (made["steps"], made["evidence"]) == (["look", "say"], ["greeting"])
        assert made["constraints"]["max_files_changed"] == 0
        entry = entries(home)["say-hello"]
        assert entry["job_spec"]["intent"] == "Say hello"
        assert entry["cron_summary"] == made["cron_summary"]
        listed = (await site.http.get("/v1/schedules")).json()
        assert (listed["registry_broken"], listed["registry_changed"], listed["unreadable"]) == (None, False, [])
        assert listed["items"] == [{name: made[name] for name in listed["items"][0]}]
        assert (await site.http.get("/v1/schedules/say-hello")).json() == made
        (event,) = last_events(home.app.db.reader, Wanted(event_type="schedule_added"), 10)
        assert (event.entity_id, event.payload["by"]) == ("say-hello", "device:dev_test")


async def test_intervals_and_single_times_are_declared_too(sample):
    async with at_work(sample()) as site:
        every = (await site.http.post("/v1/schedules", json={"every": "90m", "goal": "a"})).json()
        assert (every["trigger"], every["interval"], every["timezone"]) == ("interval", "1h30m", "UTC")
        at = await site.http.post(
            "/v1/schedules", json={"trigger": "at", "at": "2099-12-01T09:00", "timezone": "Asia/Tokyo", "goal": "b"}
        )
        assert at.json()["next_run_utc"] == "2099-12-01T00:00:00Z"
        off = (await site.http.post("/v1/schedules", json={"interval": "2h", "goal": "c", "enabled": False})).json()
        assert (off["state"], off["next_run_utc"], off["next_runs_utc"]) == ("disabled", None, [])


REFUSED = [
    ({"goal": "x"}, "when"),
    ({"cron": "* * * * *", "goal": "x"}, "zone"),
    ({"cron": "* * * * *", "timezone": "UTC"}, "goal"),
    ({"cron": "* * * * *", "timezone": "UTC", "goal": "x", "sop": "y"}, "either"),
    ({"cron": "* * * * *", "every": "1h", "timezone": "UTC", "goal": "x"}, "exclude"),
    ({"trigger": "at", "every": "1h", "goal": "x"}, "at"),
    ({"cron": "5/15 * * * *", "timezone": "UTC", "goal": "x"}, "5-59/15"),
    ({"cron": "* * * *", "timezone": "UTC", "goal": "x"}, "five"),
    ({"cron": "\0", "timezone": "UTC", "goal": "x"}, "cron"),
    ({"cron": "* * * * *", "timezone": "Europe/Berln", "goal": "x"}, "Europe/Berlin"),
    ({"cron": "* * * * *", "timezone": "../../etc/passwd", "goal": "x"}, "zone"),
    ({"every": "5s", "goal": "x"}, "1m"),
    ({"every": "soon", "goal": "x"}, "90m"),
    ({"at": "2001-01-01T00:00", "timezone": "UTC", "goal": "x"}, "passed"),
    ({"every": "1h", "goal": "a\0b"}, "NUL"),
    ({"every": "1h", "sop": "nope"}, "procedure"),
    ({"every": "1h", "goal": "x", "schedule_id": "not a name"}, "job_id"),
    ({"every": "1h", "goal": "x", "schedule_id": "followup_1"}, "follow-up"),
    ({"every": "1h", "goal": "x", "constraints": {"allowed_tools": ["file_reed"]}}, "file_read"),
    ({"every": "1h", "goal": "x", "constraints": {"max_prz": 1}}, "max_prz"),
    ({"every": "1h", "goal": "x", "catch_up_window": "long"}, "long"),
    ({"every": "1h", "goal": "x", "unknown": 1}, "unknown"),
]


async def test_what_is_invalid_is_refused_with_the_right_spelling_and_changes_nothing(sample):
    home = sample()
    async with at_work(home) as site:
        before = (home.workspace / "cron" / "jobs.json").read_bytes()
        for body, words in REFUSED:
            answer = await site.http.post("/v1/schedules", json=body)
            refused(answer)
            assert words in answer.json()["detail"] + answer.json().get("remedy", ""), answer.text
        assert (home.workspace / "cron" / "jobs.json").read_bytes() == before
        assert (await site.http.get("/v1/schedules")).json()["items"] == []
        assert (home.statuses(), home.receipts()) == ([], [])


async def test_an_edit_changes_what_it_names_and_leaves_the_rest(sample):
    home = sample()
    async with at_work(home) as site:
        made = (await add(site, steps=["a", "b"], constraints={"max_prs": 1}, stagger="10m")).json()
        url = "/v1/schedules/say-hello"

        async def edit(**body):
            answer = await site.http.patch(url, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        moved = await edit(cron="30 7 * * *")
        assert (moved["cron"], moved["goal"], moved["steps"]) == ("30 7 * * *", "Say hello", ["a", "b"])
        assert moved["next_run_utc"] != made["next_run_utc"]
        assert (await edit(goal="Say bye"))["goal"] == "Say bye"
        assert (await edit(constraints={"max_files_changed": 2}))["constraints"]["max_prs"] is None
        bare = await edit(steps=[], constraints={}, stagger=None, evidence=[])
        assert (bare["steps"], bare["options"]["stagger"]) == ([], "0s")
        assert bare["next_run_utc"] == moved["next_run_utc"]
        turned = await edit(trigger="interval", interval="2h")
        assert (turned["trigger"], turned["cron"], turned["interval"]) == ("interval", None, "2h")
        assert "schedule_cron" not in entries(home)["say-hello"]
        refused(await site.http.patch(url, json={}))
        refused(await site.http.patch(url, json={"cron": "* * * *"}))
        refused(await site.http.patch(url, json={"trigger": "cron"}))
        refused(await site.http.patch(url, json={"goal": "x", "sop": "y"}))
        assert (await site.http.get(url)).json()["interval"] == "2h"


async def test_switching_a_schedule_off_and_on(sample):
    home = sample()
    async with at_work(home) as site:
        await add(site)
        url = "/v1/schedules/say-hello"
        off = (await site.http.patch(url, json={"enabled": False})).json()
        assert (off["state"], off["next_run_utc"]) == ("disabled", None)
        on = (await site.http.patch(url, json={"enabled": True})).json()
        assert on["state"] == "waits"
        home.app.db.write_now(
            lambda tx: tx.execute(
                "UPDATE schedules SET paused_reason = 'it failed', next_run_utc = NULL, due_at = NULL"
            )
        )
        assert (await site.http.get(url)).json()["state"] == "paused"
        assert (await site.http.patch(url, json={"enabled": True})).json()["state"] == "waits"
        names = [event.event_type for event in last_events(home.app.db.reader, Wanted(entity_id="say-hello"), 10)]
        assert names == ["schedule_added", "schedule_disabled", "schedule_enabled", "schedule_enabled"]


async def test_an_edit_of_what_is_another_by_now_is_refused(sample):
    async with at_work(sample()) as site:
        first = (await add(site)).json()["hash"]
        url = "/v1/schedules/say-hello"
        second = (await site.http.patch(url, json={"goal": "b", "if_hash": first})).json()["hash"]
        assert second != first
        late = await site.http.patch(url, json={"goal": "c", "if_hash": first})
        assert code_of(late, 412) == "CHANGED_MEANWHILE"
        late = await site.http.patch(url, json={"goal": "c"}, headers={"If-Match": f'"{first}"'})
        assert code_of(late, 412) == "CHANGED_MEANWHILE"
        assert code_of(await site.http.delete(url, headers={"If-Match": f'"{first}"'}), 412) == "CHANGED_MEANWHILE"
        assert (await site.http.patch(url, json={"goal": "c"}, headers={"If-Match": f'"{second}"'})).status_code == 200
        assert (await site.http.patch(url, json={"goal": "d"}, headers={"If-Match": "*"})).json()["goal"] == "d"
        assert (await site.http.delete(url)).status_code == 204


async def test_of_many_edits_of_the_same_state_one_wins_and_no_other_is_lost_unsaid(sample):
    home = sample()
    async with at_work(home) as site:
        made = (await add(site)).json()
        url = "/v1/schedules/say-hello"
        answers = await asyncio.gather(
            *(site.http.patch(url, json={"goal": f"goal {n}", "if_hash": made["hash"]}) for n in range(8))
        )
        assert sorted(answer.status_code for answer in answers) == [200, *[412] * 7]
        (won,) = [answer.json() for answer in answers if answer.status_code == 200]
        assert (await site.http.get(url)).json()["goal"] == won["goal"]
        added = await asyncio.gather(*(add(site, goal="Same words") for _ in range(6)))
        assert {answer.status_code for answer in added} == {201}
        assert len({answer.json()["schedule_id"] for answer in added}) == 6
        assert len(entries(home)) == 7


async def test_names_are_unique_and_the_same_request_declares_one(sample):
    home = sample()
    async with at_work(home) as site:
        first = (await add(site, key="k", schedule_id="mine")).json()
        assert code_of(await add(site, schedule_id="mine"), 409) == "SCHEDULE_EXISTS"
        home.app.db.write_now(lambda tx: tx.execute("DELETE FROM requests"))
        again = await add(site, key="k", schedule_id="mine")
        assert (again.status_code, again.json()["hash"]) == (201, first["hash"])
        assert list(entries(home)) == ["mine"]


async def test_lists_continue_where_they_ended_and_follow_ups_stand_apart(sample):
    home = sample()
    turn = Turn("turn_1", "conv_1", "chat", ("untrusted:example.com",))
    await home.call("schedule_followup", turn, "k", goal="look again", in_minutes=30)
    async with at_work(home) as site:
        for name in ("a", "b", "c", "d", "e"):
            await add(site, schedule_id=name)
        home.app.db.write_now(lambda tx: tx.execute("UPDATE schedules SET payload_json = '{' WHERE schedule_id = 'b'"))
        first = (await site.http.get("/v1/schedules", params={"limit": 2})).json()
        assert [each["schedule_id"] for each in first["items"]] == ["a"]
        assert [each["schedule_id"] for each in first["unreadable"]] == ["b"]
        (followup,) = first["followups"]
        assert (followup["origin"], followup["goal"], followup["labels"]) == (
            "followup", "look again", ["untrusted:example.com"],
        )  # fmt: skip
        second = (await site.http.get("/v1/schedules", params={"limit": 2, "cursor": first["next_cursor"]})).json()
        assert [each["schedule_id"] for each in second["items"]] == ["c", "d"]
        assert (second["followups"], second["unreadable"]) == ([], [])
        third = (await site.http.get("/v1/schedules", params={"cursor": second["next_cursor"]})).json()
        assert ([each["schedule_id"] for each in third["items"]], third["next_cursor"]) == (["e"], None)
        url = f"/v1/schedules/{followup['schedule_id']}"
        assert (await site.http.get(url)).json()["goal"] == "look again"
        assert code_of(await site.http.patch(url, json={"goal": "x"}), 409) == "IS_FOLLOWUP"
        assert code_of(await site.http.post(f"{url}/run-now"), 409) == "IS_FOLLOWUP"
        assert (await site.http.delete(url)).status_code == 204
        assert code_of(await site.http.get(url), 404) == "NOT_FOUND"


async def test_trouble_with_the_file_is_told_and_nothing_is_written_over_it(sample):
    home = sample()
    async with at_work(home) as site:
        await add(site)
        path = home.workspace / "cron" / "jobs.json"
        good = path.read_bytes()
        path.write_bytes(b'{"version": 1, "jobs": [')
        listed = (await site.http.get("/v1/schedules")).json()
        assert "cron/jobs.json, line 1" in listed["registry_broken"]
        assert [each["schedule_id"] for each in listed["items"]] == ["say-hello"]
        assert code_of(await add(site, schedule_id="other"), 409) == "REGISTRY_BROKEN"
        assert code_of(await site.http.delete("/v1/schedules/say-hello"), 409) == "REGISTRY_BROKEN"
        assert path.read_bytes() == b'{"version": 1, "jobs": ['
        path.write_bytes(good.replace(b"Say hello", b"Say hi"))
        listed = (await site.http.get("/v1/schedules")).json()
        assert (listed["registry_broken"], listed["registry_changed"]) == (None, True)
        stale = (await site.http.get("/v1/schedules/say-hello")).json()["hash"]
        refused = await site.http.patch("/v1/schedules/say-hello", json={"goal": "x", "if_hash": stale})
        assert code_of(refused, 412) == "CHANGED_MEANWHILE"


async def test_unknown_schedules_are_not_there(sample):
    async with at_work(sample()) as site:
        for name in ("nope", "a%00b", "%ff", "x" * 400):
            url = f"/v1/schedules/{name}"
            assert (await site.http.get(url)).status_code == 404
            assert (await site.http.patch(url, json={"enabled": True})).status_code == 404
            assert (await site.http.delete(url)).status_code == 404
            assert (await site.http.post(f"{url}/run-now")).status_code == 404
            assert (await site.http.get(f"{url}/runs")).status_code == 404


@pytest.mark.slow
async def test_a_run_by_hand_is_worked_on_and_told_in_the_history(sample):
    home = sample()
    home.script({"text": "hello"})
    async with at_work(home) as site, working(site):
        before = (await add(site)).json()
        url = "/v1/schedules/say-hello"
        answer = await site.http.post(f"{url}/run-now", headers={"Idempotency-Key": "now"})
        assert answer.status_code == 201, answer.text
        started = answer.json()
        assert (started["run"]["cause"], started["run"]["state"]) == ("manual", "STARTED")
        done = await state(site, started["job_id"], "DONE")
        assert done["schedule_id"] == "say-hello"
        home.app.db.write_now(lambda tx: tx.execute("DELETE FROM requests"))
        again = (await site.http.post(f"{url}/run-now", headers={"Idempotency-Key": "now"})).json()
        assert again["run"]["run_instance_id"] == started["run"]["run_instance_id"]

        async def ended():
            (run,) = (await site.http.get(f"{url}/runs")).json()["items"]
            return run if run["outcome"] else None

        run = await until(ended, "the end of the run")
        assert (run["outcome"], run["job_id"]) == ("DONE", started["job_id"])
        after = (await site.http.get(url)).json()
        assert after["last_run"]["status"] == "DONE"
        assert after["next_run_utc"] == before["next_run_utc"]
        assert (after["runs"][0]["run_instance_id"], after["running"]) == (run["run_instance_id"], [])


@pytest.mark.slow
async def test_whoever_follows_the_events_hears_that_a_run_is_settled_when_it_is(sample):
    home = sample()
    home.script({"text": "hello"})
    async with served(home, work_part, events_part, rates=unlimited()) as site, working(site):
        await add(site)
        async with Follower(site.port, site.token, "?topics=schedule") as follower:
            await follower.until(lambda f: f.named("hello"))
            started = (await site.http.post("/v1/schedules/say-hello/run-now")).json()
            await follower.until(lambda f: [e for e in f.named("schedule") if e["type"] == "schedule_run_settled"])
            (run,) = (await site.http.get("/v1/schedules/say-hello/runs")).json()["items"]
            assert (run["state"], run["outcome"]) == ("ENDED", "DONE")
            told = [event for event in follower.named("schedule") if event["id"] == "say-hello"]
            assert [event["type"] for event in told] == ["schedule_run", "schedule_run_settled"]
            assert told[-1]["data"] == {
                "schedule_id": "say-hello",
                "run_instance_id": run["run_instance_id"],
                "outcome": "DONE",
                "job_id": started["job_id"],
            }


async def test_many_runs_by_hand_at_once_each_make_a_job_and_the_history_continues_by_pages(sample):
    async with at_work(sample()) as site:
        await add(site)
        url = "/v1/schedules/say-hello"
        answers = await asyncio.gather(*(site.http.post(f"{url}/run-now") for _ in range(9)))
        assert {answer.status_code for answer in answers} == {201}
        made = {answer.json()["run"]["run_instance_id"] for answer in answers}
        assert len(made) == len({answer.json()["job_id"] for answer in answers}) == 9
        seen, cursor = [], None
        for _ in range(5):
            params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
            page = (await site.http.get(f"{url}/runs", params=params)).json()
            seen += [run["run_instance_id"] for run in page["items"]]
            cursor = page["next_cursor"]
        assert (set(seen), len(seen), cursor) == (made, 9, None)
        assert len((await site.http.get(url)).json()["running"]) == 9


@pytest.mark.slow
async def test_a_schedule_removed_while_a_run_is_on_lets_the_run_end(sample):
    home = sample()
    home.script(calls(("file_write", {"path": "a.txt", "content": "x"})), {"text": "written"})
    async with at_work(home) as site, working(site):
        await add(site)
        url = "/v1/schedules/say-hello"
        job_id = (await site.http.post(f"{url}/run-now")).json()["job_id"]
        waits = await state(site, job_id, "WAITING_APPROVAL")
        assert (await site.http.delete(url)).status_code == 204
        assert (await site.http.delete(url)).status_code == 404
        assert entries(home) == {}
        await home.approve(waits["waiting"][0]["action_id"])
        assert (await state(site, job_id, "DONE"))["answer"] == "written"

        async def ended():
            (run,) = (await site.http.get(f"{url}/runs")).json()["items"]
            return run["outcome"]

        assert await until(ended, "the end of the run") == "DONE"
        assert load_schedule(home.app.db.reader, "say-hello") is None


# The gate


def text_of(home):
    return (home.workspace / "cron" / "jobs.json").read_bytes()


def in_table(home):
    return home.app.db.reader.execute("SELECT schedule_id, declared_hash FROM schedules ORDER BY 1").fetchall()


async def every_edit(site):
    """One of each kind of edit, one after the other."""
    return [
        await add(site, schedule_id="other"),
        await site.http.patch("/v1/schedules/say-hello", json={"goal": "Say bye"}),
        await site.http.delete("/v1/schedules/say-hello"),
    ]


async def test_every_edit_is_an_action_with_a_receipt_that_holds_the_very_bytes(sample):
    home = sample()
    async with at_work(home) as site:
        written = []
        assert (await add(site)).status_code == 201
        written.append(text_of(home))
        for send in (
            lambda: site.http.patch("/v1/schedules/say-hello", json={"goal": "Say bye"}),
            lambda: site.http.delete("/v1/schedules/say-hello"),
        ):
            assert (await send()).status_code in (200, 204)
            written.append(text_of(home))
        assert home.statuses() == ["EXECUTED"] * 3
        assert [receipt.status for receipt in home.receipts()] == ["allowed"] * 3
        actions = list(reversed(list_actions(home.app.db.reader, None, 10)))
        for action, data in zip(actions, written, strict=True):
            args = json.loads(action.call.args_bytes)
            assert (args["path"], args["content"].encode()) == ("cron/jobs.json", data)
            assert (action.call.tool, action.source, action.decision.lane) == ("file_write", "gateway", "A")
            assert action.approved_by == "device:dev_test"
        changes = last_events(home.app.db.reader, Wanted(entity_id="say-hello"), 10)
        assert [(event.event_type, event.payload["by"]) for event in changes] == [
            ("schedule_added", "device:dev_test"),
            ("schedule_edited", "device:dev_test"),
            ("schedule_removed", "device:dev_test"),
        ]
        listed = (await site.http.get("/v1/schedules")).json()
        assert (listed["registry_broken"], listed["registry_changed"], listed["items"]) == (None, False, [])


async def test_while_everything_is_stopped_no_edit_is_made_and_no_run_begins(sample):
    home = sample()
    async with at_work(home) as site:
        await add(site)
        before = (text_of(home), in_table(home))
        home.app.estop.engage("", stamp(home.app.clock()))
        for answer in await every_edit(site):
            assert code_of(answer, 403) == "ESTOP"
            assert answer.json()["remedy"]
        run = await site.http.post("/v1/schedules/say-hello/run-now", headers={"Idempotency-Key": "k"})
        assert code_of(run, 409) == "ESTOP"
        assert (text_of(home), in_table(home)) == before
        assert home.statuses() == ["EXECUTED", *["REJECTED"] * 3]
        assert [receipt.status for receipt in home.receipts()] == ["allowed", *["denied"] * 3]
        assert (await site.http.get("/v1/schedules/say-hello/runs")).json()["items"] == []


async def test_with_readonly_autonomy_no_edit_is_made(sample):
    home = sample(security__autonomy="readonly")
    await switch_on_by_hand(home)
    async with at_work(home) as site:
        before = (text_of(home), in_table(home))
        for answer in await every_edit(site):
            assert code_of(answer, 403) == "AUTONOMY_READONLY"
            assert "supervised" in answer.json()["remedy"]
        assert (text_of(home), in_table(home)) == before
        assert home.statuses() == ["REJECTED"] * 3
        assert [receipt.status for receipt in home.receipts()] == ["denied"] * 3
        run = await site.http.post("/v1/schedules/say-hello/run-now")
        assert run.status_code == 201  # its job is held to readonly itself


async def switch_on_by_hand(home):
    """A schedule as the owner declares one at the terminal."""
    entry = new_entry("say-hello", {"interval": "1h", "goal": "Say hello"}, home.app.clock(), [], enabled=True)
    await Scheduler(home.app).edit(adding(entry))


async def test_a_policy_that_closes_the_folder_closes_it_to_edits_over_http_too(sample):
    home = sample()
    rule = {"id": "no-cron", "when": {"path": "cron/**"}, "verdict": "deny", "reason": "Schedules stay as they are."}
    (home.workspace / "policies" / "cron.json").write_text(json.dumps({"version": 1, "rules": [rule]}))
    await switch_on_by_hand(home)
    async with at_work(home) as site:
        before = (text_of(home), in_table(home))
        for answer in await every_edit(site):
            assert code_of(answer, 403) == "POLICY_RULE"
            assert "Schedules stay as they are." in answer.json()["detail"]
        assert (text_of(home), in_table(home)) == before
        assert home.statuses() == ["REJECTED"] * 3


async def test_in_full_autonomy_an_edit_needs_no_second_step(sample):
    home = sample(security__autonomy="full")
    async with at_work(home) as site:
        assert (await add(site)).status_code == 201
        assert home.statuses() == ["EXECUTED"]
        assert list(entries(home)) == ["say-hello"]


async def test_a_request_that_comes_again_after_a_crash_finds_what_it_wrote(sample):
    """Between the effect and the table: the file is written, and nobody took it over."""
    home = sample()
    async with at_work(home) as site:
        await add(site, key="k")

        def crashed(tx):
            tx.execute("DELETE FROM requests")
            tx.execute("DELETE FROM idempotency WHERE tool_name = 'request:schedule'")
            tx.execute("DELETE FROM schedules")
            tx.execute("UPDATE meta SET value = '' WHERE key = 'schedules.taken'")

        home.app.db.write_now(crashed)
        again = await add(site, key="k")
        assert (again.status_code, again.json()["schedule_id"]) == (201, "say-hello")
        assert list(entries(home)) == ["say-hello"]
        assert home.statuses() == ["EXECUTED"]


async def test_a_worker_leaves_a_file_to_the_edit_that_is_taking_it_over(sample):
    home = sample()
    async with at_work(home) as site:
        await add(site)
        clockwork = Scheduler(home.app)
        tick = clockwork.dispatcher(site.background).tick
        await tick()
        async with clockwork.being_written():
            path = home.workspace / "cron" / "jobs.json"
            path.write_bytes(path.read_bytes().replace(b"Say hello", b"Say bye"))
            await tick()
            assert load_schedule(home.app.db.reader, "say-hello").payload.intent == "Say hello"
        await tick()
        assert load_schedule(home.app.db.reader, "say-hello").payload.intent == "Say bye"


async def test_a_worker_does_not_wait_for_ever_for_an_edit_that_died(sample):
    home = sample()
    async with at_work(home) as site:
        await add(site)
        tick = Scheduler(home.app).dispatcher(site.background).tick
        await tick()
        long_ago = stamp(home.app.clock() - timedelta(minutes=2))
        home.app.db.write_now(lambda tx: set_mark(tx, "writing", long_ago))
        path = home.workspace / "cron" / "jobs.json"
        path.write_bytes(path.read_bytes().replace(b"Say hello", b"Say bye"))
        await tick()
        assert load_schedule(home.app.db.reader, "say-hello").payload.intent == "Say bye"


async def test_over_http_there_are_only_so_many_schedules(sample):
    home = sample()
    async with at_work(home) as site:
        await add(site)
        one = registry(home)
        job = one["jobs"][0]
        one["jobs"] = [job, *({**job, "job_id": f"job-{number}", "enabled": False} for number in range(499))]
        (home.workspace / "cron" / "jobs.json").write_text(json.dumps(one))
        await Scheduler(home.app).dispatcher(site.background).tick()
        refusal = await add(site, schedule_id="one-too-many")
        assert code_of(refusal, 422) == "TOO_MANY_SCHEDULES"
        assert home.statuses() == ["EXECUTED"]
        assert (await site.http.delete("/v1/schedules/job-0")).status_code == 204
        assert (await add(site, schedule_id="one-more")).status_code == 201


async def test_a_file_too_large_for_one_write_is_not_even_proposed(sample):
    home = sample()
    async with at_work(home) as site:
        path = home.workspace / "cron" / "jobs.json"
        path.write_text(json.dumps({"version": 1, "jobs": [], "notes": "x" * (1 << 20)}))
        assert code_of(await add(site), 422) == "REGISTRY_TOO_LARGE"
        assert home.statuses() == []


# Preview


async def look(site, **body):
    answer = await site.http.post("/v1/schedules/preview", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_preview_tells_words_notes_and_runs_in_both_clocks(sample):
    async with at_work(sample()) as site:
        told = await look(site, cron="30 2 * * *", timezone="Europe/Berlin", after="2026-03-27T12:00:00Z", count=3)
        assert (told["valid"], told["faults"]) == (True, [])
        assert "2:30 AM" in told["cron_summary"]
        assert told["cron_notes"]
        assert told["next_runs_utc"] == ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        assert told["next_runs_local"][1] == "2026-03-29 3:00 AM Europe/Berlin"
        every = await look(site, every="90m")
        assert (every["valid"], len(every["next_runs_utc"])) == (True, 5)
        once = await look(site, at="2099-01-01 08:00", timezone="America/New_York")
        assert once["next_runs_utc"] == ["2099-01-01T13:00:00Z"]
        assert (await look(site, trigger="cron", cron="0 9 * * *", every="", timezone="UTC"))["valid"]


FAULTY = [
    ({}, ["trigger", "timezone"], "cron, interval or at"),
    ({"cron": "", "timezone": "UTC"}, ["trigger"], "cron"),
    ({"cron": "*/90 * * * *", "timezone": "UTC"}, ["cron"], "*/"),
    ({"cron": "* 22-2 * * *", "timezone": "UTC"}, ["cron"], "22-23,0-2"),
    ({"cron": "bad", "timezone": "Berlin"}, ["timezone", "cron"], "Europe/Berlin"),
    ({"cron": "0 9 * * *"}, ["timezone"], "Europe/Berlin"),
    ({"interval": "1x"}, ["interval"], "90m"),
    ({"every": "1s"}, ["interval"], "1m"),
    ({"at": "tomorrow", "timezone": "UTC"}, ["at"], "RFC 3339"),
    ({"at": "2001-01-01T00:00:00Z", "timezone": "UTC"}, ["at"], "future"),
    ({"trigger": "at", "timezone": "UTC", "cron": "* * * * *"}, ["at"], "at"),
    ({"cron": "0 9 * * *", "every": "1h", "timezone": "UTC"}, ["trigger"], "trigger"),
    ({"every": "1h", "after": "whenever"}, ["after"], "RFC 3339"),
    ({"cron": "\0\x1b[31m", "timezone": "\0"}, ["timezone", "cron"], ""),
    ({"cron": "0 0 31 2 *", "timezone": "UTC"}, ["cron"], ""),
]


async def test_a_preview_names_the_field_and_the_right_spelling(sample):
    async with at_work(sample()) as site:
        for body, fields, words in FAULTY:
            told = await look(site, **body)
            assert not told["valid"]
            assert [each["field"] for each in told["faults"]] == fields
            assert (told["fault"], told["remedy"]) == (told["faults"][0]["fault"], told["faults"][0]["remedy"])
            assert any(words in each["fault"] + each["remedy"] for each in told["faults"]), told
            assert told["next_runs_utc"] == told["next_runs_local"] == []


async def test_a_preview_speaks_as_people_do_and_offers_what_was_meant(sample):
    async with at_work(sample()) as site:
        told = await look(site, cron="0 9 1,15 * 5", timezone="Europe/Berlin")
        said = "On the 1st and 15th of each month, and every Friday, at 09:00 (Europe/Berlin)."
        assert told["plain_summary"] == said
        assert told["plain_notes"][0].startswith("Dates and weekdays both count")
        city = await look(site, cron="0 9 * * *", timezone="berlin")
        assert [each["meant"] for each in city["faults"]] == [["Europe/Berlin"]]
        past = await look(site, at="2020-01-01 09:00", timezone="Europe/Berlin")
        assert past["fault"] == "Wed 1 Jan 2020 09:00 (Europe/Berlin) has passed."
        gap = await look(site, at="2099-03-29 02:30", timezone="Europe/Berlin")
        assert gap["plain_summary"] == "Once, on Sun 29 Mar 2099 03:00 (Europe/Berlin)."
        (note,) = gap["plain_notes"]
        assert note.startswith("02:30 does not exist on that day")
        assert note.endswith("it runs at 03:00.")
        assert (await look(site, at="2099-03-29 03:30", timezone="Europe/Berlin"))["plain_notes"] == []


async def test_a_preview_of_the_rarest_day_comes_at_once_and_of_nonsense_is_refused(sample):
    async with at_work(sample()) as site:
        told = await look(site, cron="0 0 29 2 *", timezone="UTC", count=50, after="2026-01-01T00:00:00Z")
        assert len(told["next_runs_utc"]) == 50
        far = await look(site, cron="0 0 1 1 *", timezone="UTC", after="8999-12-31T00:00:00Z", count=50)
        assert far["valid"]
        for body in ({"count": 0}, {"count": 51}, {"cron": 5}, {"cron": "x" * 500}, {"nope": 1}):
            assert code_of(await site.http.post("/v1/schedules/preview", json=body), 400) == "BAD_REQUEST"
