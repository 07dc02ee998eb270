"""The client made from the OpenAPI document, against the real server: what the document says is what is answered."""

import asyncio

import pytest

from tests.server import client as api
from tests.server.site import served_whole


async def ended(client, turn_id):
    for _ in range(400):
        turn = await client.get_turn(turn_id)
        if turn.state not in ("QUEUED", "RUNNING"):
            return turn
        await asyncio.sleep(0.05)
    raise AssertionError(turn)


async def status_of(client, action_id, wanted):
    for _ in range(400):
        found = await client.get_action(action_id)
        if found.action.status == wanted:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(found)


async def test_a_conversation_an_approval_and_its_receipt_by_typed_calls(sample):
    home = sample()
    async with served_whole(home) as site:
        client = api.Client(site.http)
        assert (await client.get_sign_in()).way == "bearer"
        thread = await client.create_thread(api.NewThread(title="shopping"), idempotency_key="one")
        again = await client.create_thread(api.NewThread(title="shopping"), idempotency_key="one")
        assert again.thread_id == thread.thread_id
        posted = await client.post_message(thread.thread_id, api.NewMessage(text="write bread and milk to shopping.md"))
        assert (await ended(client, posted.turn_id)).state == "WAITING"
        (card,) = (await client.list_approvals(status="pending")).items
        answered = await client.approve_action(card.action_id, api.Approve(digest=card.digest, seen=card.seen))
        assert answered is not None
        await status_of(client, card.action_id, "EXECUTED")
        assert (home.workspace / "shopping.md").read_text().strip() == "bread and milk"
        assert [each.receipt.status for each in (await client.list_receipts(action_id=card.action_id)).items] == [
            "allowed"
        ]
        assert (await client.verify_receipts()).valid


async def test_a_refusal_carries_its_problem(sample):
    async with served_whole(sample()) as site:
        client = api.Client(site.http)
        with pytest.raises(api.Refused) as refused:
            await client.get_job("job_nope")
        assert (refused.value.status, refused.value.code) == (404, "NOT_FOUND")
