"""Jobs and procedures over HTTP: handed in, worked on by a real worker, called off."""

import asyncio

import pytest

from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.store.actions import load_action
from tests.features.jobs.work_home import at_work, calls, code_of, state, working

SOP = """
name = "count"
description = "Counts the files."

[[steps]]
id = "look"
kind = "tool"
tool = "file_list"
args = { path = "." }
"""


async def make(site, key=None, **body):
    headers = {"Idempotency-Key": key} if key else {}
    return await site.http.post("/v1/jobs", json=body, headers=headers)


@pytest.mark.slow
async def test_a_job_from_its_making_to_its_evidence(sample):
    home = sample()
    home.script(calls(("file_list", {"path": "."})), {"text": "three files"})
    async with at_work(home) as site, working(site):
        answer = await make(site, goal="count the files", constraints={"allowed_tools": ["file_list"]})
        assert answer.status_code == 201, answer.text
        made = answer.json()
        assert (made["state"], made["status"]) == ("EXECUTING", "RUNNING")
        done = await state(site, made["job_id"], "DONE")
        assert (done["status"], done["answer"]) == ("COMPLETED", "three files")
        assert done["progress"] == {"done": 1, "of": 1, "calls": 1}
        assert done["spec"]["constraints"]["allowed_tools"] == ["file_list"]
        assert [each["status"] for each in done["evidence"]["receipts"]] == ["allowed"]
        assert [each["kind"] for each in done["artifacts"]] == ["evidence_manifest"]
        assert [each["type"] for each in done["events"]][:2] == ["created", "state"]
        assert done["tokens"] > 0
        (listed,) = (await site.http.get("/v1/jobs")).json()["items"]
        assert listed == {name: done[name] for name in listed}


async def test_what_a_job_waits_for_is_reported_with_it_and_calling_it_off_withdraws_that(sample):
    home = sample()
    home.script(calls(("file_write", {"path": "a.txt", "content": "x"})), {"text": "done"})
    async with at_work(home) as site, working(site):
        job_id = (await make(site, goal="write it")).json()["job_id"]
        waits = await state(site, job_id, "WAITING_APPROVAL")
        (question,) = waits["waiting"]
        assert (question["tool"], question["lane"], question["risk"]) == ("file_write", "A", "R2")
        assert code_of(await site.http.post(f"/v1/jobs/{job_id}/resume"), 409) == "JOB_WAITS"
        ended = await site.http.post(f"/v1/jobs/{job_id}/cancel", json={"reason": "not today"})
        assert (ended.json()["state"], ended.json()["reason"]) == ("CANCELLED", "not today")
        assert home.statuses() == ["REJECTED"]
        again = await site.http.post(f"/v1/jobs/{job_id}/cancel", json={})
        assert (again.status_code, again.json()["reason"]) == (200, "not today")
        assert code_of(await site.http.post(f"/v1/jobs/{job_id}/resume"), 409) == "JOB_ENDED"


async def test_a_packets_id_finds_its_job_and_stands_for_one_content(sample):
    async with at_work(sample()) as site:
        made = (await make(site, job_id="job_x", intent="one thing")).json()
        assert (await site.http.get("/v1/jobs/job_x")).json()["job_id"] == made["job_id"]
        assert (await make(site, job_id="job_x", intent="one thing")).json()["job_id"] == made["job_id"]
        other = await make(site, job_id="job_x", intent="another thing")
        assert code_of(other, 409) == "IDEMPOTENCY_CONFLICT"
        assert (await site.http.post("/v1/jobs/job_x/cancel", json={})).json()["state"] == "CANCELLED"
        assert code_of(await site.http.post("/v1/jobs/job_x/resume"), 409) == "JOB_ENDED"


async def test_a_job_that_the_rules_refuse_comes_back_denied_with_the_reasons(sample):
    async with at_work(sample()) as site:
        answer = await make(site, goal="x", constraints={"allowed_tools": ["file_reed"]})
        assert answer.status_code == 201
        assert (answer.json()["state"], answer.json()["status"]) == ("DENIED", "FAILED")
        assert "file_read" in answer.json()["reason"]
        job_id = answer.json()["job_id"]
        assert code_of(await site.http.post(f"/v1/jobs/{job_id}/cancel", json={}), 409) == "JOB_ENDED"


async def test_lists_are_filtered_by_state_fine_or_coarse_and_continue_where_they_ended(sample):
    async with at_work(sample()) as site:
        open_jobs = [(await make(site, goal=f"goal {n}")).json() for n in range(5)]
        denied = (await make(site, goal="no", constraints={"allowed_tools": ["no_such"]})).json()
        thread = open_jobs[2]["thread_id"]

        async def ids(**params):
            return [each["job_id"] for each in (await site.http.get("/v1/jobs", params=params)).json()["items"]]

        newest = [job["job_id"] for job in reversed(open_jobs)]
        assert await ids() == [denied["job_id"], *newest]
        assert await ids(state="RUNNING") == await ids(state="EXECUTING") == await ids(status="RUNNING") == newest
        assert await ids(status="FAILED") == await ids(state="DENIED") == [denied["job_id"]]
        assert await ids(state="FAILED") == await ids(state="DENIED", status="RUNNING") == []
        assert await ids(thread_id=thread) == [open_jobs[2]["job_id"]]
        assert await ids(since=open_jobs[3]["created_at"]) == [denied["job_id"], *newest[:2]]
        assert await ids(since="1700-01-01T00:00:00Z") == await ids()
        assert await ids(since="9999-01-01T00:00:00Z") == []
        seen, cursor = [], None
        for _ in range(3):
            params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
            page = (await site.http.get("/v1/jobs", params=params)).json()
            seen += [each["job_id"] for each in page["items"]]
            cursor = page["next_cursor"]
        assert seen == await ids()
        assert cursor is None


async def test_a_damaged_row_hides_no_other_job(sample):
    home = sample()
    async with at_work(home) as site:
        first, second = [(await make(site, goal="x")).json()["job_id"] for _ in range(2)]
        home.app.db.write_now(lambda tx: tx.execute("UPDATE jobs SET spec_json = '{' WHERE job_id = ?", (second,)))
        assert [each["job_id"] for each in (await site.http.get("/v1/jobs")).json()["items"]] == [first]
        page = (await site.http.get("/v1/jobs", params={"limit": 1})).json()
        assert (page["items"], page["next_cursor"] is None) == ([], False)
        assert code_of(await site.http.get(f"/v1/jobs/{second}"), 503) == "STORAGE_FAILED"


async def test_the_same_request_makes_one_job_also_after_a_crash_before_its_answer(sample):
    home = sample()
    async with at_work(home) as site:
        first = await make(site, key="k1", goal="once")
        second = await make(site, key="k1", goal="once")
        assert first.json() == second.json()
        # The answer was never kept: the request comes to the handler again.
        home.app.db.write_now(lambda tx: tx.execute("DELETE FROM requests"))
        third = await make(site, key="k1", goal="once")
        assert third.json()["job_id"] == first.json()["job_id"]
        assert len((await site.http.get("/v1/jobs")).json()["items"]) == 1
        assert (await make(site, key="k2", goal="once")).json()["job_id"] != first.json()["job_id"]


REFUSED = [
    {},
    {"goal": "  "},
    {"goal": "a\0b"},
    {"goal": "x", "steps": ["  "]},
    {"goal": "x", "steps": ["a"], "sop": "count"},
    {"goal": "x", "evidence": ["not a name!"]},
    {"goal": "x", "constraints": {"allowed_tool": ["time"]}},
    {"goal": "x", "constraints": {"max_files_changed": -1}},
    {"goal": "x", "constraints": {"max_files_changed": 10**30}},
    {"goal": "x", "sop": "../x"},
    {"goal": "x", "sop": "nope"},
    {"goal": "x", "more": 1},
    {"goal": "ü" * 40_000},
    {"goal": ["x"]},
    [],
]


async def test_what_makes_no_sense_makes_no_job(sample):
    async with at_work(sample()) as site:
        for body in REFUSED:
            assert (await site.http.post("/v1/jobs", json=body)).status_code in (400, 422)
        assert (await site.http.get("/v1/jobs")).json()["items"] == []


async def test_unknown_ids_are_not_there(sample):
    async with at_work(sample()) as site:
        for name in ("job_nope", "a%00b", "%ff", "..", "x" * 500):
            assert (await site.http.get(f"/v1/jobs/{name}")).status_code == 404
            assert (await site.http.post(f"/v1/jobs/{name}/cancel", json={})).status_code == 404
            assert (await site.http.post(f"/v1/jobs/{name}/resume")).status_code == 404
        assert code_of(await make(site, goal="x", thread_id="conv_nope"), 404) == "NOT_FOUND"
        assert code_of(await site.http.get("/v1/jobs", params={"state": "FINE"}), 400) == "BAD_REQUEST"
        assert code_of(await site.http.get("/v1/jobs", params={"since": "yesterday"}), 422) == "BAD_MOMENT"
        assert code_of(await site.http.get("/v1/jobs", params={"cursor": "WzFd"}), 422) == "BAD_CURSOR"


@pytest.mark.slow
async def test_a_job_continues_in_the_conversation_it_is_given(sample):
    home = sample()
    home.script({"text": "done"})
    async with at_work(home) as site, working(site):
        first = (await make(site, goal="one")).json()
        await state(site, first["job_id"], "DONE")
        second = (await make(site, goal="two", thread_id=first["thread_id"])).json()
        assert second["thread_id"] == first["thread_id"]
        assert (await state(site, second["job_id"], "DONE"))["answer"] == "done"
        listed = (await site.http.get("/v1/jobs", params={"thread_id": first["thread_id"]})).json()["items"]
        assert [each["job_id"] for each in listed] == [second["job_id"], first["job_id"]]


async def test_two_who_call_a_job_off_at_once_both_hear_that_it_is(sample):
    home = sample()
    async with at_work(home) as site:
        job_id = (await make(site, goal="x")).json()["job_id"]
        url = f"/v1/jobs/{job_id}/cancel"
        answers = await asyncio.gather(*(site.http.post(url, json={"reason": str(n)}) for n in range(8)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["reason"] for answer in answers}) == 1
        ends = [event for event in last_events(home.app.db.reader, Wanted(entity_id=job_id), 100)
                if event.event_type == "job_state" and event.payload["to"] == "CANCELLED"]  # fmt: skip
        assert len(ends) == 1


async def test_secrets_do_not_leave_with_a_job(sample):
    home = sample()
    home.app.redactor.register("TOKEN", "s3cr3t-value-of-mine")
    async with at_work(home) as site:
        job_id = (await make(site, goal="use s3cr3t-value-of-mine")).json()["job_id"]
        home.app.db.write_now(
            lambda tx: tx.execute("UPDATE jobs SET reason = 'saw s3cr3t-value-of-mine' WHERE job_id = ?", (job_id,))
        )
        for url in ("/v1/jobs", f"/v1/jobs/{job_id}"):
            text = (await site.http.get(url)).text
            assert "s3cr3t" not in text
            assert "[redacted:TOKEN]" in text


async def test_nobody_unpaired_sees_or_makes_jobs(sample):
    async with at_work(sample()) as site:
        for method, url in (("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("GET", "/v1/jobs/x"), ("GET", "/v1/sops")):
            assert (await site.bare.request(method, url)).status_code == 401


# Procedures


def put_sop(home, name, text):
    folder = home.workspace / "sops" / name
    folder.mkdir(parents=True)
    (folder / "SOP.toml").write_text(text)


async def test_procedures_are_listed_with_their_steps_or_with_what_is_wrong(sample):
    home = sample()
    put_sop(home, "count", SOP)
    put_sop(home, "broken", 'name = "broken"\n[[steps]]\nid = "x"\nkind = "tool"\ntool = "nope"\n')
    async with at_work(home) as site:
        items = {each["name"]: each for each in (await site.http.get("/v1/sops")).json()["items"]}
        assert items["count"]["valid"]
        assert items["count"]["steps"] == [{"id": "look", "kind": "tool", "tool": "file_list"}]
        assert not items["broken"]["valid"]
        assert items["broken"]["faults"][0]["step"] == "x"
        page = (await site.http.get("/v1/sops", params={"limit": 1})).json()
        assert [each["name"] for each in page["items"]] == [sorted(items)[0]]
        assert page["next_cursor"]
        assert code_of(await site.http.post("/v1/sops/broken/run"), 409) == "SOP_BROKEN"
        assert code_of(await site.http.post("/v1/sops/nope/run"), 404) == "NOT_FOUND"
        assert (await site.http.post("/v1/sops/..%2fx/run")).status_code == 404


@pytest.mark.slow
async def test_a_procedure_runs_as_a_job(sample):
    home = sample()
    put_sop(home, "count", SOP)
    async with at_work(home) as site, working(site):
        headers = {"Idempotency-Key": "run-1"}
        answer = await site.http.post("/v1/sops/count/run", headers=headers)
        assert answer.status_code == 201, answer.text
        done = await state(site, answer.json()["job_id"], "DONE", "FAILED")
        assert (done["state"], done["sop"], done["progress"]["of"]) == ("DONE", "count", 1)
        home.app.db.write_now(lambda tx: tx.execute("DELETE FROM requests"))
        again = await site.http.post("/v1/sops/count/run", headers=headers)
        assert again.json()["job_id"] == done["job_id"]


@pytest.mark.slow
async def test_the_plan_of_a_job_that_follows_a_procedure_is_what_its_progress_counts(sample):
    home = sample()
    ask = '[[steps]]\nid = "ask"\nkind = "approval"\nprompt = "Go on?"\n'
    again = SOP[SOP.index("[[steps]]") :].replace("look", "again")
    put_sop(home, "count", SOP + ask + again)
    async with at_work(home) as site, working(site):
        made = (await site.http.post("/v1/sops/count/run")).json()
        waits = await state(site, made["job_id"], "WAITING_APPROVAL", "FAILED")
        assert (waits["progress"]["done"], waits["progress"]["of"]) == (1, 3)
        assert [step["step_id"] for step in waits["plan"]["steps"]] == ["look", "ask", "again"]


@pytest.mark.slow
async def test_the_calls_of_a_job_that_follows_a_procedure_are_those_the_gate_saw_wherever_they_are_reported(sample):
    home = sample()
    ask = '[[steps]]\nid = "ask"\nkind = "approval"\nprompt = "Go on?"\n'
    again = SOP[SOP.index("[[steps]]") :].replace("look", "again")
    put_sop(home, "count", SOP + ask + again)
    async with at_work(home) as site, working(site):
        made = (await site.http.post("/v1/sops/count/run")).json()
        waits = await state(site, made["job_id"], "WAITING_APPROVAL", "FAILED")
        assert waits["progress"]["calls"] == len(home.statuses()) == 2
        (question,) = waits["waiting"]
        action = load_action(home.app.db.reader, question["action_id"])
        await home.app.approvals(site.serving.core.conveyor).approve(action, by="terminal", digest=action.digest)
        done = await state(site, made["job_id"], "DONE", "FAILED")
        told = [each["payload"]["calls"] for each in done["events"] if each["type"] == "step"]
        assert (done["state"], done["progress"]["calls"], told) == ("DONE", 3, [1, 1, 1])
        assert len(home.statuses()) == 3
