"""A feature is one folder: the toy is served behind the same door as the others, and the worker does its chore."""

import asyncio

from coilclaw.features.jobs.background import Background
from coilclaw.packets.card import nobody
from tests.features.toy.feature import FEATURE, KNOCKS
from tests.server.site import served_whole


async def test_toy_feature_is_served_behind_the_door(sample):
    KNOCKS.count = 0
    async with served_whole(sample(), FEATURE.part) as site:
        assert (await site.bare.post("/v1/knocks")).status_code == 401
        assert (await site.http.post("/v1/knocks")).json() == {"count": 1}
        assert (await site.http.get("/v1/knocks")).json() == {"count": 1}


async def test_worker_does_the_chore_of_a_toy_feature(sample):
    KNOCKS.count = 2
    runtime = sample().app
    conveyor = runtime.conveyor(nobody)
    worker = Background(runtime, conveyor).worker("toy", chores=FEATURE.chores(runtime, conveyor))
    await worker.drain(asyncio.Event())
    assert KNOCKS.count == 0
