"""Notifications over HTTP, made by a real worker out of what really happens."""

import os
import signal
import subprocess

import pytest

from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.store.threads import recent_messages
from tests.acceptance.conftest import HomeAt
from tests.acceptance.conftest import until as wait_until
from tests.features.jobs.work_home import at_work, calls, code_of, state, until, working

FREE = '[security]\nautonomy = "full"\n[budgets]\ntool_calls_per_minute = 100000\n'
FIELDS = {
    "notification_id", "type", "reason", "entity", "entity_id", "thread_id", "job_id", "seen_at", "created_at",
}  # fmt: skip


async def notifications(site, **params):
    answer = await site.http.get("/v1/notifications", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def told(site, count):
    async def look():
        page = await notifications(site)
        return page if len(page["items"]) >= count else None

    return await until(look, f"{count} notifications")


@pytest.mark.slow
async def test_a_job_that_waits_and_then_ends_is_told_by_ids_alone(sample):
    home = sample()
    home.script(calls(("file_write", {"path": "plans.txt", "content": "x"})), {"text": "written"})
    async with at_work(home) as site, working(site):
        assert await notifications(site) == {"items": [], "next_cursor": None, "unseen": 0}
        job = (await site.http.post("/v1/jobs", json={"goal": "write my plans"})).json()
        (first,) = (await told(site, 1))["items"]
        waits = (await state(site, job["job_id"], "WAITING_APPROVAL"))["waiting"]
        assert first.keys() == FIELDS
        assert (first["type"], first["entity"], first["entity_id"]) == (
            "approval_needed", "action", waits[0]["action_id"],
        )  # fmt: skip
        assert (first["thread_id"], first["job_id"]) == (job["thread_id"], job["job_id"])
        await home.approve(waits[0]["action_id"])
        page = await told(site, 2)
        assert (page["unseen"], page["items"][0]["type"], page["items"][0]["entity"]) == (2, "job_completed", "job")
        assert "plans" not in str(page)
        seen = await site.http.post("/v1/notifications/seen", json={"until": page["items"][0]["notification_id"]})
        assert seen.json() == {"seen": 2, "unseen": 0}
        assert all(each["seen_at"] for each in (await notifications(site))["items"])
        assert (await notifications(site, unseen=True))["items"] == []
        (event,) = last_events(home.app.db.reader, Wanted(event_type="notifications_seen"), 10)
        assert event.payload["by"] == "device:dev_test"


async def test_the_agent_reaches_out_from_a_job_and_continues(sample):
    home = sample()
    words = {"reason": "clarification_needed", "message": "Which of the two do you mean?"}
    home.script(calls(("reach_out", words)), {"text": "I asked."})
    async with at_work(home) as site, working(site):
        job = (await site.http.post("/v1/jobs", json={"goal": "guess"})).json()
        done = await state(site, job["job_id"], "DONE")
        assert done["answer"] == "I asked."
        page = await told(site, 2)
        reached = next(each for each in page["items"] if each["type"] == "proactive_reach_out")
        assert (reached["reason"], reached["entity"], reached["job_id"]) == (
            "clarification_needed",
            "job",
            job["job_id"],
        )
        assert "Which" not in str(page)
        said = [row.content for row in recent_messages(home.app.db.reader, job["thread_id"], 50)]
        assert words["message"] in said


@pytest.mark.slow
async def test_pages_continue_and_what_was_seen_stays_seen(sample):
    home = sample()
    async with at_work(home) as site, working(site):
        for _ in range(5):
            await site.http.post("/v1/jobs", json={"goal": "x", "constraints": {"allowed_tools": ["no_such"]}})
        everything = (await told(site, 5))["items"]
        assert {each["type"] for each in everything} == {"job_failed"}
        seen, cursor = [], None
        for _ in range(3):
            page = await notifications(site, limit=2, **({"cursor": cursor} if cursor else {}))
            seen += page["items"]
            cursor = page["next_cursor"]
        assert (seen, cursor) == (everything, None)
        third = everything[2]["notification_id"]
        for _ in range(2):
            answer = await site.http.post("/v1/notifications/seen", json={"until": third})
            assert answer.json()["unseen"] == 2
        unseen = await notifications(site, unseen=True)
        assert [each["notification_id"] for each in unseen["items"]] == [
            each["notification_id"] for each in everything[:2]
        ]


async def test_what_makes_no_sense_is_refused(sample):
    async with at_work(sample()) as site:
        assert code_of(await site.http.post("/v1/notifications/seen", json={"until": "ntf_nope"}), 404) == "NOT_FOUND"
        for body in ({}, {"until": ""}, {"until": 5}, {"until": "x", "more": 1}):
            assert code_of(await site.http.post("/v1/notifications/seen", json=body), 400) == "BAD_REQUEST"
        for params in ({"cursor": "!"}, {"cursor": "WzFd"}, {"cursor": "MTAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMA"}):
            answer = await site.http.get("/v1/notifications", params=params)
            assert answer.status_code in (200, 422)
        assert (await site.http.get("/v1/notifications", params={"limit": 0})).status_code == 400
        assert (await site.bare.get("/v1/notifications")).status_code == 401


def kill(process: "subprocess.Popen[str]") -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
def test_workers_that_are_killed_lose_and_double_no_notification(tmp_path):
    """Real processes: several workers at once, killed again and again while jobs end."""
    home = HomeAt(tmp_path)
    home.ok("init")
    home.configure(FREE)
    env = home.script({"text": "done"})
    jobs = {home.ok("job", "create", f"goal {number}", "--json").json()["job_id"] for number in range(12)}

    def done():
        return len(home.rows("SELECT 1 FROM jobs WHERE state = 'DONE'"))

    try:
        for _ in range(4):
            before = done()
            workers = [home.start("worker", "--jobs", "1", env=env) for _ in range(2)]
            wait_until(lambda before=before: done() > min(before, 11), "another job is done")
            for worker in workers:
                kill(worker)
        home.ok("worker", "--once", env=env)
    finally:
        home.close()
    told = [row[0] for row in home.rows("SELECT entity_id FROM notifications WHERE type = 'job_completed'")]
    assert sorted(told) == sorted(jobs)
    events = home.rows("SELECT entity_id FROM audit_log WHERE event_type = 'notification_added'")
    assert sorted(row[0] for row in events) == sorted(jobs)
