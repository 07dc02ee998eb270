"""What was claimed comes to its end, however often whoever asked is cancelled."""

import asyncio

import pytest

from coilclaw.gate.uncancellable import uncancellable


async def test_without_a_cancellation_it_gives_what_the_work_gives():
    async def work(cut):
        await asyncio.sleep(0)
        return "done"

    assert await uncancellable(work) == "done"


async def test_what_the_work_raises_is_raised():
    async def work(cut):
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await uncancellable(work)


@pytest.mark.parametrize("times", [1, 5])
async def test_a_cancellation_ends_the_call_and_what_follows_it_is_done_first(times):
    told, under_way, after = [], asyncio.Event(), asyncio.Event()

    async def work(cut):
        call = asyncio.ensure_future(asyncio.sleep(3600))
        cut.over(call)
        under_way.set()
        await asyncio.wait({call})
        told.append(call.cancelled())
        await after.wait()
        told.append("written")

    running = asyncio.ensure_future(uncancellable(work))
    await under_way.wait()
    for _ in range(times):
        running.cancel()
        await asyncio.sleep(0.001)
    assert not running.done()
    after.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert told == [True, "written"]


async def test_a_call_that_would_begin_after_the_cancellation_is_over_at_once():
    under_way, seen = asyncio.Event(), []

    async def work(cut):
        under_way.set()
        await asyncio.sleep(0.01)
        seen.append(cut.asked)
        call = asyncio.ensure_future(asyncio.sleep(3600))
        cut.over(call)
        await asyncio.wait({call})

    running = asyncio.ensure_future(uncancellable(work))
    await under_way.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == [True]


async def test_what_breaks_after_the_cancellation_is_not_lost():
    under_way = asyncio.Event()

    async def work(cut):
        under_way.set()
        await asyncio.sleep(0.01)
        raise OSError("the disk")

    running = asyncio.ensure_future(uncancellable(work))
    await under_way.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await running
    assert isinstance(raised.value.__cause__, OSError)
