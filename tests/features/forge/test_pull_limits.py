"""How many pull requests jobs may open: a job with those it started, and all of them in a day."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from coilclaw.config.schema import Budgets
from coilclaw.features.forge.forge import LocalForge, TooManyPulls
from coilclaw.features.forge.store import add_pull, new_pull, opened_by, pull_of_job
from coilclaw.features.jobs.job_requests import Request
from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import PullRequest
from coilclaw.packets.ids import utc_now
from coilclaw.packets.job import Constraints, Starter
from coilclaw.sandbox.bot_repository import Written
from coilclaw.store.jobs import list_jobs, load_job
from tests.features.conftest import calls


def writes(name):
    return calls(("file_write", {"path": f"notes/{name}.md", "content": f"{name}\n"}))


@pytest.fixture
def forge_office(office):
    return lambda **overrides: office(**{"forge__enabled": True, **overrides})


def limited(here, job, most):
    """Give a job a number of pull requests."""
    spec = msgspec.structs.replace(job.spec, constraints=Constraints(max_prs=most))
    here.app.db.write_now(
        lambda tx: tx.execute(
            "UPDATE jobs SET spec_json = ? WHERE job_id = ?", (msgspec.json.encode(spec).decode(), job.job_id)
        )
    )


async def test_a_job_that_a_job_started_counts_against_its_number(forge_office):
    here = forge_office()
    here.home.script(writes("a"), {"text": "done"})
    first = await here.create("write a note")
    limited(here, first, 1)
    starter = Starter(
        turn_id=first.turn_id, fresh=(), inherited=(), constraints=Constraints(), generation=0, job_id=first.job_id
    )
    request = Request(goal="write it again", thread_id="conv_child", channel="cli", starter=starter)
    child = await here.background.desk().create(request)
    assert child.spec.parent_id == first.job_id
    await here.drain()
    jobs = [load_job(here.app.db.reader, each.job_id) for each in (first, child)]
    opened = [job for job in jobs if pull_of_job(here.app.db.reader, job.job_id)]
    refused = [job for job in jobs if job not in opened]
    assert [(job.state, "max_prs is 1" in job.reason) for job in refused] == [("FAILED", True)]
    assert [job.state for job in opened] == ["WAITING_APPROVAL"]
    assert opened_by(here.app.db.reader, first.job_id) == 1
    limited(here, first, 2)
    again = await here.background.desk().create(request)
    await here.drain()
    head = pull_of_job(here.app.db.reader, again.job_id).head_sha
    repository = LocalForge(here.app).repository
    name = next(path for path in repository.entries(head) if path.endswith(f"{again.job_id}.md"))
    assert f'parent_id: "{first.job_id}"\n' in repository.read(head, name).decode()


async def test_what_a_job_starts_names_it(forge_office):
    here = forge_office()
    here.home.script(calls(("job_start", {"goal": "look around"})), {"text": "done"})
    first = await here.create("have it done")
    with here.background.named() as name:  # no more than the first steps: the other would start a third
        await here.background.worker(name, slots=1, only={first.job_id}).drain(asyncio.Event())
    (child,) = (job for job in list_jobs(here.app.db.reader, None, 10) if job.job_id != first.job_id)
    assert child.spec.parent_id == first.job_id


async def test_the_days_number_holds_for_jobs_and_never_for_the_owner(forge_office):
    here = forge_office(budgets=here_budgets(1))
    here.home.script(writes("a"), {"text": "a"}, writes("b"), {"text": "b"})
    first = await here.create("write a")
    await here.drain()
    second = await here.create("write b")
    await here.drain()
    assert pull_of_job(here.app.db.reader, first.job_id) is not None
    assert pull_of_job(here.app.db.reader, second.job_id) is None
    assert here.job(second).state not in ("FAILED", "DONE"), "it is tried again later"
    with pytest.raises(TooManyPulls):
        LocalForge(here.app).publish(here.job(second))
    assert LocalForge(here.app).open_plain("revert/9", [Written("notes/c.md", b"c\n")], "t", "b") is not None


async def test_a_finished_job_without_room_waits_for_it_and_pays_for_no_further_step(office):
    hours = [0.0]
    here = office(lambda: utc_now() + timedelta(hours=hours[0]), forge__enabled=True, budgets=here_budgets(0))
    here.home.script(writes("a"), {"text": "one"}, {"text": "two"}, {"text": "three"})
    job = await here.create("write a")
    for hours[0] in (0, 1.1, 2.2, 80):  # jobs.max_hours is 72
        await here.drain()
    assert [text for role, text in here.said(job) if role == "assistant" and text] == ["one"]
    assert "within a day, which is the limit" in here.job(job).reason
    here.app.config = msgspec.structs.replace(here.app.config, budgets=here_budgets(1))
    hours[0] = 82
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL"
    assert pull_of_job(here.app.db.reader, job.job_id) is not None


async def test_what_keeps_a_pull_request_from_being_opened_costs_no_further_step(forge_office):
    here = forge_office(executor__backoff_seconds=0.001)
    here.home.script(writes("a"), {"text": "one"}, {"text": "two"})
    job = await here.create("write a")
    broken = [True]

    def breaks(what):
        if what == "pr_branch" and broken:
            broken.pop()
            raise ToolError("git failed.")

    here.app.reached = breaks
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL", here.job(job).reason
    assert [text for role, text in here.said(job) if role == "assistant" and text] == ["one"]


async def test_a_number_that_a_session_takes_first_is_not_in_the_jobs_file(forge_office):
    here = forge_office()
    here.home.script(writes("a"), {"text": "one"})
    made = msgspec.structs.replace(
        new_pull(branch="b", base_sha="", head_sha="", title="t", body="", risk="R2", labels=()),
        repository="/elsewhere",
    )

    def taken(what):
        if what == "pr_branch" and not here.app.db.reader.execute("SELECT 1 FROM pull_requests").fetchone():
            here.app.db.write_now(lambda tx: add_pull(tx, here.app.clock, made))

    here.app.reached = taken
    job = await here.create("write a")
    await here.drain()
    pull = pull_of_job(here.app.db.reader, job.job_id)
    repository = LocalForge(here.app).repository
    name = next(path for path in repository.entries(pull.head_sha) if path.endswith(f"{job.job_id}.md"))
    assert pull.number == 2
    assert "\npr: 2\n" in repository.read(pull.head_sha, name).decode()


async def test_two_that_race_for_the_last_place_open_one(forge_office):
    here = forge_office(budgets=here_budgets(2))
    here.home.script(*(step for name in "abcd" for step in (writes(name), {"text": name})))
    jobs = [await here.create(f"write {name}") for name in "abcd"]
    await here.drain()
    waiting = [job for job in jobs if pull_of_job(here.app.db.reader, job.job_id) is None]
    assert len(waiting) == 2
    forge = LocalForge(here.app)
    here.app.db.write_now(lambda tx: tx.execute("UPDATE pull_requests SET opened_at = '2020' WHERE number = 1"))

    publishing = (asyncio.to_thread(forge.publish, here.job(job)) for job in waiting)
    done = await asyncio.gather(*publishing, return_exceptions=True)
    assert {type(each) for each in done} == {PullRequest, TooManyPulls}


async def test_two_workers_that_publish_one_job_open_one_and_agree_on_its_head(forge_office):
    here = forge_office(budgets=here_budgets(0))  # its steps are done, and nothing is open yet
    here.home.script(writes("a"), {"text": "a"})
    job = await here.create("write a")
    await here.drain()
    here.app.config = msgspec.structs.replace(here.app.config, budgets=here_budgets(10))
    publishing = (asyncio.to_thread(LocalForge(here.app).publish, here.job(job)) for _ in range(4))
    pulls = await asyncio.gather(*publishing)
    assert {pull.number for pull in pulls} == {1}
    forge = LocalForge(here.app)
    kept = forge.find(1)
    assert kept.head_sha == forge.repository.resolve(f"refs/heads/{kept.branch}")
    assert kept.head_sha == forge.repository.resolve("refs/pull/1/head")


async def test_a_number_that_a_session_takes_meanwhile_leads_to_its_own_alone(forge_office):
    here = forge_office()
    forge = LocalForge(here.app)
    made = msgspec.structs.replace(
        new_pull(branch="b", base_sha="", head_sha="", title="t", body="", risk="R2", labels=()),
        repository="/elsewhere",
    )

    def taken(what):
        if what == "pr_branch":
            here.app.db.write_now(lambda tx: add_pull(tx, here.app.clock, made))

    here.app.reached = taken
    pull = forge.open_plain("ledger-export", [Written("audit/2026/01/01.jsonl", b"{}\n")], "Export", "b")
    assert pull.number == 2
    assert forge.repository.references("refs/pull") == {"refs/pull/2/head": pull.head_sha}


async def test_a_pull_request_that_is_refused_leaves_no_number_behind(forge_office):
    here = forge_office(budgets=here_budgets(0))
    here.home.script(writes("a"), {"text": "a"})
    await here.create("write a")
    await here.drain()
    assert LocalForge(here.app).repository.references("refs/pull") == {}


async def test_two_workers_that_open_one_without_a_job_agree_on_its_head(forge_office):
    here = forge_office()
    forge = LocalForge(here.app)
    versions = [[Written("audit/2026/01/01.jsonl", f"{n}\n".encode())] for n in range(6)]
    opening = (asyncio.to_thread(forge.open_plain, "ledger-export", files, "Export", "b") for files in versions)
    pulls = await asyncio.gather(*opening)
    assert {pull.number for pull in pulls} == {1}
    kept = forge.find(1)
    assert kept.head_sha == forge.repository.resolve(f"refs/heads/{kept.branch}")
    assert kept.head_sha == forge.repository.resolve("refs/pull/1/head")


def here_budgets(most):
    return Budgets(prs_per_day=most)
