"""Many readers at once: idle, busy, stuck, coming back all the time, and through a crash of the server."""

import asyncio
import os
import re
import resource
import signal
import sys
import time
from pathlib import Path

import pytest

from coilclaw.ledger.audit import last_number
from coilclaw.server.door.rates import Rates
from coilclaw.server.events.part import events_part
from tests.missing import lacks
from tests.server.events.test_events import happen, with_streams
from tests.server.follower import Follower
from tests.server.site import enrol, served

pytestmark = pytest.mark.slow

COILCLAW = Path(sys.executable).with_name("coilclaw")
LONG = 240
"""Only ends what would hang."""


def unlimited():
    return Rates(time.monotonic, per_minute=1_000_000)


@pytest.fixture
def many_files():
    """Both ends of a thousand connections are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3000:
        lacks(f"room for 3000 open files ({hard} are allowed)", "Raise the limit: ulimit -n.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def opened(site, number, query="", last=None):
    followers = [Follower(site.port, site.token, query, last) for _ in range(number)]
    for at in range(0, number, 50):
        await asyncio.gather(*(follower.open() for follower in followers[at : at + 50]))
    return [follower.read() for follower in followers]


async def all_close(followers):
    await asyncio.gather(*(follower.close() for follower in followers))


async def test_a_thousand_idle_streams_stay_open_while_requests_are_served(sample, many_files):
    home, kept = sample(), []
    async with served(home, with_streams(kept, most=1200, heartbeat_seconds=1), rates=unlimited()) as site:
        followers = await opened(site, 1000)
        for follower in followers:
            await follower.until(lambda f: f.named("hello"), LONG)
        for _ in range(200):
            assert (await site.http.get("/v1/openapi.json")).status_code == 200
        for follower in followers:
            await follower.until(lambda f: f.comments, LONG)
        assert len(kept[0]) == 1000
        last = await happen(home)
        for follower in followers:
            await follower.reach(last, LONG)
            assert follower.numbers() == [last]
        assert not any(follower.ended for follower in followers)
        await all_close(followers)


async def test_a_thousand_events_reach_a_hundred_readers_each_once_and_in_order(sample):
    home = sample()
    async with served(home, events_part, rates=unlimited()) as site:
        followers = await opened(site, 100)
        for _ in range(100):
            last = await happen(home, 10)
        for follower in followers:
            await follower.reach(last, LONG)
            assert follower.numbers() == list(range(1, 1001))
        await all_close(followers)


async def test_one_stuck_reader_among_many_hurts_nobody(sample):
    home, kept = sample(), []
    part = with_streams(kept, most=100, heartbeat_seconds=1, stuck_seconds=1)
    async with served(home, part, rates=unlimited()) as site:
        stuck = await Follower(site.port, site.token).open()  # and never reads on
        stuck._writer.transport.pause_reading()
        followers = await opened(site, 20)
        for _ in range(200):
            last = await happen(home, 5, "job_state", "job_1", {"evidence": ["x" * 10_000]})
            await followers[0].reach(last, LONG)
        for follower in followers:
            await follower.reach(last, LONG)
            assert follower.numbers() == list(range(1, last + 1))
        async with asyncio.timeout(LONG):
            while len(kept[0]) > 20:
                await asyncio.sleep(0.05)
        await all_close([*followers, stuck])


async def test_a_flood_of_readers_who_come_back_all_the_time_loses_nobody_anything(sample):
    home = sample()
    async with served(home, events_part, rates=unlimited()) as site:
        total = 600

        async def restless(number):
            """Hangs up after every few events, and comes back where it was."""
            last, numbers = 0, []
            while last < total:
                async with Follower(site.port, site.token, last=last) as follower:
                    await follower.until(lambda f: len(f.numbers()) > number % 7 or f.last == total, LONG)
                    numbers += follower.numbers()
                    last = follower.last
            return numbers

        (steady,) = await opened(site, 1)
        coming = [asyncio.ensure_future(restless(number)) for number in range(40)]
        for _ in range(total // 4):
            last = await happen(home, 4)
            await steady.reach(last, LONG)
        whole = list(range(1, total + 1))
        assert all(numbers == whole for numbers in await asyncio.gather(*coming))
        assert steady.numbers() == whole
        await steady.close()


class Up:
    """`coilclaw up` in a process of its own, killed and started again on the same port."""

    def __init__(self, home):
        self.home = home
        self.port = 0
        self.process = None

    async def start(self):
        environ = {**os.environ, "HOME": str(self.home.folder / "user"), "COILCLAW_HOME": str(self.home.home.root)}
        self.process = await asyncio.create_subprocess_exec(
            COILCLAW, "up", "--addr", f"127.0.0.1:{self.port}",
            env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(LONG):
            told = ""
            while "http://localhost:" not in told:
                told = (await self.process.stdout.readline()).decode()
                assert told, "it ended before it listened"
        self.port = int(re.search(r"http://localhost:(\d+)/", told)[1])

    async def kill(self):
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@pytest.fixture
async def up():
    """Makes servers, and sees to it that none outlives the test."""
    made = []

    def make(home):
        made.append(Up(home))
        return made[-1]

    yield make
    for server in made:
        if server.process is not None and server.process.returncode is None:
            await server.kill()


async def follow_through(server, token, numbers, over):
    """Follow, and come back after every end with the last id, until told that it is over."""
    last = 0
    while True:
        follower = Follower(server.port, token, last=last)
        try:
            async with follower:
                await follower.until(lambda f: f.ended or (over and f.last >= over[0]), LONG)
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.02)
        numbers += follower.numbers()
        last = follower.last
        if over and last >= over[0]:
            return


async def test_kill_9_of_the_server_loses_and_doubles_nothing_for_those_who_come_back(sample, up):
    home = sample()
    token = enrol(home)
    server, over, heard = up(home), [], [[] for _ in range(10)]
    await server.start()
    following = [asyncio.ensure_future(follow_through(server, token, numbers, over)) for numbers in heard]
    for _ in range(2):
        for _ in range(40):
            await happen(home, 3)
            await asyncio.sleep(0.005)
        await server.kill()
        await happen(home, 20)
        await server.start()
    server.process.terminate()  # with streams open, it ends as if there were none
    assert await server.process.wait() == 0
    await server.start()
    over.append(last_number(home.app.db.reader) + 1)
    await happen(home)
    await asyncio.gather(*following)
    for numbers in heard:
        assert len(numbers) >= over[0]
        assert numbers == list(range(1, len(numbers) + 1))
