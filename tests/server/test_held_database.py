"""A process that is stopped with the write lock in its hands: the server answers, says who it is, and ESTOP holds."""

import asyncio
import signal

from tests.server.house import events, house
from tests.store.holders import stopped_writer

TRIES = 600
"""A tenth of a second apart: more than any machine needs."""


async def until(seen):
    for _ in range(TRIES):
        if await seen():
            return
        await asyncio.sleep(0.1)
    raise AssertionError


async def test_health_and_estop_answer_while_a_stopped_process_holds_the_lock(sample):
    home = sample()
    async with house(home) as site:
        with stopped_writer(home.app.config.memory.path, home.app.home.locks_dir) as child:
            told = (await site.http.post("/v1/estop", json={}, headers={"Idempotency-Key": "k"})).json()
            assert (told["engaged"], told["recorded"]) == (True, False)
            assert home.app.estop.engaged()

            async def waits():
                return (await site.bare.get("/health")).json()["database"] == "waiting"

            await until(waits)
            assert f"process {child.pid} " in (await site.http.get("/status")).json()["waiting_for"]
            assert events(home, "estop_engaged") == []
            child.send_signal(signal.SIGCONT)

            async def recorded():
                return (await site.http.get("/v1/estop")).json()["recorded"]

            await until(recorded)
        assert events(home, "estop_engaged") == [{"by": "device:dev_test", "reason": "by device:dev_test"}]
        assert (await site.bare.get("/health")).json()["database"] == "ok"
