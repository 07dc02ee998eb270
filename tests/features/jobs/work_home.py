"""A served home in which work moves on: a real worker beside the server, and words for waiting on it."""

import asyncio
from contextlib import asynccontextmanager

from coilclaw.features.notifications.feature import notifier_chore
from coilclaw.features.schedules.scheduler import Scheduler
from tests.server.parts import work_part
from tests.server.site import served, unlimited


def calls(*tools, **more):
    """An answer of the model that calls tools."""
    return {"tool_calls": [{"tool": tool, "args": args} for tool, args in tools], **more}


def at_work(sample):
    """The parts of work, served without limits on how often."""
    return served(sample, work_part, rates=unlimited())


@asynccontextmanager
async def working(site, *, chores=True):
    """A worker in the same process, as `coilclaw up` has it."""
    app, background = site.sample.app, site.background
    extra = (Scheduler(app).chore(background), notifier_chore(app)) if chores else ()
    stop = asyncio.Event()
    with background.named() as name:
        work = asyncio.ensure_future(background.worker(name, chores=extra, grace_seconds=2.0).run(stop))
        try:
            yield
        finally:
            stop.set()
            await work


async def until(look, what="it"):
    """Wait until a look finds something; what it found."""
    for _ in range(4000):
        found = await look()
        if found:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} never came")


async def state(site, job_id, *wanted):
    """Wait until a job stands in one of these states; the job."""

    async def look():
        job = (await site.http.get(f"/v1/jobs/{job_id}")).json()
        return job if job["state"] in wanted else None

    return await until(look, f"{job_id} as {wanted}")


def code_of(answer, status):
    """The code of a problem, which must have this status."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"].startswith("application/problem+json")
    told = answer.json()
    assert told["detail"]
    return told["code"]
