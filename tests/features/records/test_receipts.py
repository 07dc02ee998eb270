"""Receipts over HTTP: listed, shown against their place, verified while others write."""

import asyncio

from coilclaw.packets.receipt import GENESIS
from tests.features.approvals.queue_home import code_of, queue_home
from tests.server.parts import queue_part
from tests.server.site import served

SEED_FIELDS = {
    "id", "timestamp", "conversation_id", "tool", "args_hash", "result_hash", "status", "risk", "previous_hash",
    "receipt_hash",
}  # fmt: skip


async def make_receipts(q, count=5):
    for number in range(count):
        await q.home.call("file_list", key=f"r{number}", path=".")
    await q.home.call("no_such_tool", key="d")
    return [receipt.id for receipt in q.home.receipts()]


async def ids(site, **params):
    answer = await site.http.get("/v1/receipts", params=params)
    assert answer.status_code == 200, answer.text
    return [item["receipt"]["id"] for item in answer.json()["items"]]


async def test_receipts_are_listed_newest_first_and_by_what_they_are(tmp_path):
    with queue_home(tmp_path) as q:
        made = await make_receipts(q)
        denied = q.home.receipts()[-1]
        async with served(q.home, queue_part) as site:
            assert await ids(site) == made[::-1]
            assert await ids(site, status="denied") == [denied.id]
            assert await ids(site, status="unknown") == []
            assert await ids(site, tool="file_list") == made[-2::-1]
            assert await ids(site, action_id=denied.action_id) == [denied.id]
            assert await ids(site, action_id=denied.action_id, status="allowed") == []
            seen, cursor = [], None
            for _ in range(3):
                params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
                page = (await site.http.get("/v1/receipts", params=params)).json()
                seen += page["items"]
                cursor = page["next_cursor"]
            assert [item["number"] for item in seen] == [6, 5, 4, 3, 2, 1]
            assert cursor is None


async def test_the_gateway_lists_the_newest(tmp_path):
    with queue_home(tmp_path) as q:
        made = await make_receipts(q)
        async with served(q.home, queue_part) as site:
            answer = (await site.http.get("/receipts", params={"limit": 2})).json()
            assert [receipt["id"] for receipt in answer] == made[:-3:-1]
            assert set(answer[0]) >= SEED_FIELDS
            assert code_of(await site.http.get("/receipts", params={"limit": 0}), 400) == "BAD_REQUEST"


async def test_one_receipt_is_held_against_its_place(tmp_path):
    with queue_home(tmp_path) as q:
        made = await make_receipts(q)
        async with served(q.home, queue_part) as site:
            for key in (made[2], "3"):
                told = (await site.http.get(f"/v1/receipts/{key}")).json()
                assert (told["number"], told["receipt"]["id"]) == (3, made[2])
                assert (told["holds"], told["faults"]) == (True, [])
            first = (await site.http.get("/v1/receipts/1")).json()
            assert first["receipt"]["previous_hash"] == GENESIS
            assert first["holds"] is True
            edit = "UPDATE receipts SET line = replace(line, '\"allowed\"', '\"denied\"') WHERE seq = 2"
            await q.home.app.db.write(lambda tx: tx.execute(edit))
            assert (await site.http.get("/v1/receipts/2")).json()["holds"] is False
            await q.home.app.db.write(lambda tx: tx.execute("UPDATE receipts SET receipt_hash = 'x' WHERE seq = 3"))
            assert len((await site.http.get("/v1/receipts/4")).json()["faults"]) == 1
            await q.home.app.db.write(lambda tx: tx.execute("UPDATE receipts SET line = '{' WHERE seq = 5"))
            damaged = (await site.http.get("/v1/receipts/5")).json()
            assert (damaged["receipt"], damaged["holds"]) == (None, False)
            for key in ("0", "7", "-1", "receipt-", "²"):
                assert code_of(await site.http.get(f"/v1/receipts/{key}"), 404) == "NOT_FOUND"


async def test_the_chain_at_a_glance_remembers_the_last_verification(tmp_path):
    with queue_home(tmp_path) as q:
        await make_receipts(q)
        async with served(q.home, queue_part) as site:
            head = (await site.http.get("/v1/receipts/head")).json()
            assert (head["size"], head["hash"]) == (6, q.home.receipts()[-1].receipt_hash)
            assert head["verified"] is None
            found = (await site.http.post("/v1/receipts/verify")).json()
            assert (found["valid"], found["receipts"], found["broken"]) == (True, 6, None)
            assert (await site.http.get("/v1/receipts/head")).json()["verified"] == found
            edit = "UPDATE receipts SET line = replace(line, '\"allowed\"', '\"denied\"') WHERE seq = 2"
            await q.home.app.db.write(lambda tx: tx.execute(edit))
            broken = (await site.http.post("/v1/receipts/verify")).json()
            assert broken["valid"] is False
            assert (broken["broken"]["receipt"], broken["broken"]["kind"]) == (2, "forged")
            assert (await site.http.get("/v1/receipts/head")).json()["verified"]["valid"] is False


async def test_an_edited_log_is_named_with_its_first_broken_link(tmp_path):
    with queue_home(tmp_path) as q:
        await make_receipts(q)
        log = q.home.app.config.receipts.path
        lines = log.read_text().splitlines(keepends=True)
        lines[2] = lines[2].replace('"allowed"', '"denied"')
        log.write_text("".join(lines))
        async with served(q.home, queue_part) as site:
            found = (await site.http.post("/v1/receipts/verify")).json()
            assert (found["broken"]["receipt"], found["broken"]["kind"], found["receipts"]) == (3, "edited", 2)


async def test_a_damaged_head_is_a_break_not_an_accident(tmp_path):
    with queue_home(tmp_path) as q:
        await make_receipts(q)
        insert = "INSERT INTO ledger_heads (size, line) VALUES (99, '{')"
        await q.home.app.db.write(lambda tx: tx.execute(insert))
        async with served(q.home, queue_part) as site:
            found = (await site.http.post("/v1/receipts/verify")).json()
            assert (found["valid"], found["broken"]["kind"]) == (False, "edited")
            assert (await site.http.get("/v1/receipts/head")).json()["sealed_at"] is None


async def test_whoever_asks_while_it_is_verified_gets_the_same_answer(tmp_path):
    with queue_home(tmp_path) as q:
        await make_receipts(q)
        async with served(q.home, queue_part) as site:
            answers = await asyncio.gather(*(site.http.post("/v1/receipts/verify") for _ in range(6)))
            found = [answer.json() for answer in answers]
            assert {answer.status_code for answer in answers} == {200}
            assert all(each["valid"] for each in found)
            assert len({each["at"] for each in found}) < 6
