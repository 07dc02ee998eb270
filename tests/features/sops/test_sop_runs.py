"""Runs of procedures over HTTP: those begun at a terminal, seen as they go on, wait and end."""

import pytest

from coilclaw.features.chat.feature import chat_part
from coilclaw.features.sops.procedures import Procedures
from coilclaw.server.events.part import events_part
from coilclaw.store.actions import load_action
from tests.features.jobs.work_home import at_work, code_of, state, working
from tests.server.follower import Follower
from tests.server.parts import queue_part, work_part
from tests.server.site import served, unlimited

THREE = """
name = "three"
description = "Looks, asks, writes."

[[steps]]
id = "look"
kind = "tool"
tool = "file_list"
args = { path = "." }
on_failure = "continue"

[[steps]]
id = "ask"
kind = "approval"
prompt = "Write it down?"

[[steps]]
id = "never"
kind = "tool"
tool = "file_list"
args = { path = "." }
when = "look.failed"
"""
BROKEN = """
name = "broken"

[[steps]]
id = "read"
kind = "tool"
tool = "file_read"
args = { path = "nowhere.md" }
"""


def put_sop(home, text):
    name = text.split('"')[1]
    folder = home.workspace / "sops" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SOP.toml").write_text(text)
    return name


async def begun(home, text):
    """A run as the terminal begins one, taken along until it stops."""
    procedures = Procedures(home.app, patient=False)
    run = await procedures.start(put_sop(home, text))
    return (await procedures.go_on(run.run_id)).run.run_id


async def one(site, run_id):
    answer = await site.http.get(f"/v1/sop-runs/{run_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_run_begun_at_the_terminal_is_shown_with_its_step_and_the_approval_it_waits_for(sample):
    home = sample()
    run_id = await begun(home, THREE)
    async with served(home, queue_part, work_part, rates=unlimited()) as site:
        shown = await one(site, run_id)
        assert (shown["name"], shown["state"], shown["working"]) == ("three", "WAITING", False)
        assert (shown["step"], shown["of"], shown["step_id"]) == (2, 3, "ask")
        assert shown["job_id"] is None
        (question,) = shown["waiting"]
        assert "Write it down?" in question["summary"]
        steps = {each["id"]: each for each in shown["steps"]}
        assert {name: each["state"] for name, each in steps.items()} == {
            "look": "SUCCEEDED",
            "ask": "WAITING",
            "never": "TO_DO",
        }
        assert steps["ask"]["action_id"] == question["action_id"]
        assert (steps["look"]["action_status"], steps["ask"]["action_status"]) == ("EXECUTED", "PENDING")
        assert "sops" in steps["look"]["output"]
        (listed,) = (await site.http.get("/v1/sop-runs")).json()["items"]
        assert listed == {name: shown[name] for name in listed}
        waiting = (await site.http.get(f"/v1/approvals/{question['action_id']}")).json()
        assert waiting["action_id"] == question["action_id"]


async def test_a_run_started_at_the_terminal_is_not_a_conversation_of_the_owner(sample):
    home = sample()
    run_id = await begun(home, THREE)
    async with served(home, work_part, chat_part, rates=unlimited()) as site:
        thread_id = (await one(site, run_id))["thread_id"]
        talks = (await site.http.get("/v1/chat/threads", params={"talks": "true"})).json()["items"]
        every = (await site.http.get("/v1/chat/threads")).json()["items"]
        assert (talks, [each["thread_id"] for each in every]) == ([], [thread_id])


async def test_a_run_that_was_answered_elsewhere_says_so_and_then_how_it_ended(sample):
    home = sample()
    run_id = await begun(home, THREE)
    async with at_work(home) as site:
        (question,) = (await one(site, run_id))["waiting"]
        action = load_action(home.app.db.reader, question["action_id"])
        await home.app.approvals(site.serving.core.conveyor).approve(action, by="terminal", digest=action.digest)
        answered = await one(site, run_id)
        assert (answered["answered"], answered["waiting"]) == (True, [])
        await home.app.executor(site.serving.core.conveyor).run_due()
        await Procedures(home.app, patient=False).go_on(run_id)
        over = await one(site, run_id)
        assert (over["state"], over["answered"], over["step"], over["of"]) == ("DONE", False, 3, 3)
        assert over["reason"] == "Every step has ended."
        assert over["steps"][2]["state"] == "SKIPPED"


async def test_a_run_that_failed_tells_at_which_step_and_why(sample):
    home = sample()
    run_id = await begun(home, BROKEN)
    async with at_work(home) as site:
        shown = await one(site, run_id)
        assert (shown["state"], shown["step_id"]) == ("FAILED", "read")
        assert shown["steps"][0]["state"] == "FAILED"
        assert shown["steps"][0]["code"]


async def test_a_run_that_was_cut_off_at_the_terminal_says_that_nobody_works_on_it(sample):
    home = sample()
    run = await Procedures(home.app).start(put_sop(home, THREE))
    async with at_work(home) as site:
        shown = await one(site, run.run_id)
        assert (shown["state"], shown["working"], shown["step"]) == ("RUNNING", False, 1)
        assert {each["state"] for each in shown["steps"]} == {"TO_DO"}


async def test_runs_come_in_pages_the_newest_first_and_by_state(sample):
    home = sample()
    runs = [await begun(home, text) for text in (THREE, BROKEN, THREE)]
    async with at_work(home) as site:
        seen, cursor = [], None
        while True:
            asked = {"limit": 1, **({"cursor": cursor} if cursor else {})}
            page = (await site.http.get("/v1/sop-runs", params=asked)).json()
            seen += [each["run_id"] for each in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == runs[::-1]
        failed = (await site.http.get("/v1/sop-runs", params={"state": "FAILED"})).json()["items"]
        assert [each["run_id"] for each in failed] == [runs[1]]
        assert code_of(await site.http.get("/v1/sop-runs", params={"cursor": "WzFd"}), 422) == "BAD_CURSOR"
        assert code_of(await site.http.get("/v1/sop-runs", params={"state": "FINE"}), 400) == "BAD_REQUEST"


@pytest.mark.slow
async def test_the_runs_of_jobs_are_among_all_and_not_among_those_begun_at_a_terminal(sample):
    home = sample()
    alone = await begun(home, THREE)
    async with at_work(home) as site, working(site):
        made = (await site.http.post("/v1/sops/three/run")).json()
        await state(site, made["job_id"], "WAITING_APPROVAL")
        every = (await site.http.get("/v1/sop-runs")).json()["items"]
        assert {each["job_id"] for each in every} == {None, made["job_id"]}
        mine = (await site.http.get("/v1/sop-runs", params={"alone": "true"})).json()["items"]
        assert [each["run_id"] for each in mine] == [alone]


async def test_a_row_that_cannot_be_read_does_not_stop_the_others(sample):
    home = sample()
    first, second = await begun(home, THREE), await begun(home, THREE)
    home.app.db.write_now(lambda tx: tx.execute("UPDATE sop_runs SET sop_json = '{' WHERE run_id = ?", (second,)))
    async with at_work(home) as site:
        assert [each["run_id"] for each in (await site.http.get("/v1/sop-runs")).json()["items"]] == [first]
        assert (await site.http.get(f"/v1/sop-runs/{second}")).status_code == 503


async def test_secrets_do_not_leave_with_a_run_not_even_half_of_one(sample):
    home = sample()
    secret = "s3cr3t-value-of-mine-that-is-long"
    run_id = await begun(home, THREE)
    home.app.redactor.register("TOKEN", secret)
    output = "x" * 1990 + secret + "y" * 5000

    def tamper(tx):
        tx.execute("UPDATE sop_steps SET output = ? WHERE step_id = 'look'", (output,))
        tx.execute("UPDATE sop_runs SET reason = ?", (f"saw {secret}",))

    home.app.db.write_now(tamper)
    async with at_work(home) as site:
        for url in ("/v1/sop-runs", f"/v1/sop-runs/{run_id}"):
            text = (await site.http.get(url)).text
            assert "s3cr3t" not in text
            assert "[redacted:TOKEN]" in text
        look = (await one(site, run_id))["steps"][0]
        assert (look["cut"], len(look["output"])) == (True, 2000)


async def test_unknown_runs_are_not_there_and_nobody_unpaired_sees_any(sample):
    async with at_work(sample()) as site:
        for name in ("sop_nope", "a%00b", "%ff", "..", "x" * 500):
            assert (await site.http.get(f"/v1/sop-runs/{name}")).status_code == 404
        for url in ("/v1/sop-runs", "/v1/sop-runs/x"):
            assert (await site.bare.get(url)).status_code == 401
            assert (await site.http.post(url)).status_code == 405


async def test_what_happens_to_a_run_is_told_to_those_who_follow_runs_and_to_those_who_follow_jobs(sample):
    home = sample()
    async with served(home, work_part, events_part) as site:
        run_id = await begun(home, THREE)
        for topic in ("sop", "job"):
            async with Follower(site.port, site.token, f"?topics={topic}&after=0") as follower:
                await follower.until(lambda f: len(f.named("sop")) >= 4)
                told = follower.named("sop")
                assert {each["id"] for each in told} == {run_id}
                assert [each["type"] for each in told] == ["sop_started", "sop_step", "sop_step", "sop_state"]
