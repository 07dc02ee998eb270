"""Revocable at once: a device that was revoked while its request ran does not get the answer."""

import asyncio
import json

import pytest

from coilclaw.ledger.audit import add_event
from coilclaw.packets.ids import stamp
from coilclaw.store.devices import revoke_device
from tests.features.approvals.queue_home import code_of, queue_home
from tests.features.chat.talking import Slow, talking
from tests.server.parts import queue_part
from tests.server.site import served


async def revoke(home, device_id="dev_test"):
    await home.app.db.write(lambda tx: revoke_device(tx, device_id, stamp(home.app.clock())))


async def asked_by(model):
    while not model.asked:
        await asyncio.sleep(0.005)


async def test_a_revoked_device_does_not_hear_the_answer_it_waited_for(sample):
    home, model = sample(), Slow("the answer")
    async with talking(home, model=model) as site:
        asked = asyncio.ensure_future(site.http.post("/chat", json={"message": "hi"}))
        await asked_by(model)
        await revoke(home)
        model.go(2)
        answer = await asked
        assert code_of(answer, 401) == "UNPAIRED"
        assert "the answer" not in answer.text


@pytest.mark.slow
async def test_a_revoked_device_does_not_hear_that_it_takes_longer_either(sample):
    home, model = sample(), Slow("the answer")
    async with talking(home, model=model) as site:
        asked = asyncio.ensure_future(site.http.post("/chat", json={"message": "hi", "wait_seconds": 3.0}))
        await asked_by(model)
        await revoke(home)
        assert code_of(await asked, 401) == "UNPAIRED"


async def test_a_revoked_device_does_not_hear_why_there_is_no_answer(sample):
    home, model = sample(), Slow("the answer")
    async with talking(home, model=model) as site:
        other = site.device()
        asked = asyncio.ensure_future(site.http.post("/chat", json={"message": "hi"}))
        await asked_by(model)
        await revoke(home)
        turn = home.app.db.reader.execute("SELECT turn_id FROM turns").fetchone()[0]
        assert (await other.post(f"/v1/chat/turns/{turn}/stop")).status_code == 200
        assert code_of(await asked, 401) == "UNPAIRED"


async def test_another_device_still_gets_its_answer(sample):
    home, model = sample(), Slow("the answer")
    async with talking(home, model=model) as site:
        asked = asyncio.ensure_future(site.device().post("/chat", json={"message": "hi"}))
        await asked_by(model)
        await revoke(home)
        model.go(2)
        assert (await asked).json()["text"] == "the answer"


@pytest.mark.slow
async def test_an_export_ends_when_its_device_is_revoked(tmp_path):
    with queue_home(tmp_path) as q:

        def write(tx):
            for _ in range(20_000):
                add_event(tx, q.home.app.clock, "ping", "ent_1", {"note": "n" * 1000})

        q.home.app.db.write_now(write)
        async with (
            served(q.home, queue_part) as site,
            site.http.stream("GET", "/v1/audit/export") as answer,
        ):
            lines = answer.aiter_lines()
            seen = [json.loads(await anext(lines))["seq"]]
            await revoke(q.home)
            async for line in lines:
                seen.append(json.loads(line)["seq"])  # whole lines up to the end
            assert 0 < len(seen) < 20_000
