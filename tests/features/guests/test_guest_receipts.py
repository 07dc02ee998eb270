"""Starts and ends of guests have receipts of their own, and what a guest reports meanwhile is shown with its call."""

import asyncio
import json

import pytest

from coilclaw.features.guests.guests import guests_of
from coilclaw.ledger.chain import find_receipts
from coilclaw.ledger.verify import verify_all
from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from tests.features.guests.mcp_harness import answer, notification, said
from tests.features.guests.world import Guest


@pytest.fixture
async def guest(sample):
    made = Guest(sample)
    await made.approve()
    yield made
    await made.close()


def deeds(guest):
    return [receipt for receipt in guest.home.receipts() if receipt.tool in ("guest_start", "guest_end")]


def told(guest, event):
    rows = guest.app.db.reader.execute("SELECT payload_json FROM audit_log WHERE event_type = ?", (event,)).fetchall()
    return [json.loads(row[0]) for row in rows]


async def until(true):
    async with asyncio.timeout(280):
        while not true():
            await asyncio.sleep(0.01)


async def test_each_start_and_end_has_a_receipt_and_the_start_names_the_call(guest):
    done = await guest.call(a=1)
    await guest_end(guest)
    start, end = deeds(guest)
    assert (start.tool, start.status, start.code) == ("guest_start", "allowed", "GUEST_STARTED")
    assert (start.cause, start.action_id) == (done.action.action_id, "")
    assert (end.tool, end.status, end.code, end.cause) == ("guest_end", "allowed", "GUEST_ENDED", "")
    (begun,) = told(guest, "guest_started")
    assert (begun.pop("receipt_id"), start.result_hash) == (start.id, sha256_hex(canonical_bytes(begun)))
    assert start.digest == end.digest == begun["pin"]
    assert start in find_receipts(guest.app.db.reader, done.action.action_id)


async def guest_end(guest):
    await guests_of(guest.app).servers.close()


async def test_the_chain_and_every_action_verify_with_them(guest):
    await guest.call(a=1)
    await guest_end(guest)
    report = verify_all(guest.app.db.reader, guest.app.config.receipts.path, guest.app.signing_key)
    assert report.valid, report
    assert len(deeds(guest)) == 2


async def test_a_receipt_of_a_start_cannot_be_dropped(guest):
    await guest.call(a=1)
    await guest_end(guest)
    await guest.app.db.write(lambda tx: tx.execute("DELETE FROM receipts WHERE action_id = ''"))
    report = verify_all(guest.app.db.reader, guest.app.config.receipts.path, guest.app.signing_key)
    assert not report.valid


async def test_a_start_that_fails_has_a_receipt(guest):
    guest.scripted.reactions["initialize"] = lambda message: [answer(message["id"], {"protocolVersion": "1999-01-01"})]
    assert not (await guest.call(a=1)).result.success
    (start,) = deeds(guest)
    assert (start.tool, start.status, start.code) == ("guest_start", "failed", "GUEST_VERSION")


async def test_an_end_that_nobody_waited_for_is_noticed_and_has_a_receipt(guest):
    await guest.call(a=1)
    guest.home.box.opened[-1].end("exited", "", 1)
    await until(lambda: len(deeds(guest)) == 2)
    end = deeds(guest)[-1]
    assert (end.tool, end.status, end.code) == ("guest_end", "failed", "GUEST_OVER")


async def test_reports_of_progress_are_live_output_of_the_call(guest):
    pieces = []
    guest.app.commands.watch(pieces.append)
    shown = "".join
    held = asyncio.Event()

    def slowly(message):
        token = message["params"]["_meta"]["progressToken"]
        box = guest.home.box.opened[-1]

        async def later():
            await held.wait()
            box._lines.put_nowait(answer(message["id"], said("done")))

        guest.later = asyncio.ensure_future(later())
        return [
            notification("progress", progressToken=token, progress=1, total=2, message="half\nway \x1b[31m"),
            notification("progress", progressToken=token, progress=2, total=2),
        ]

    guest.answers = [slowly]
    calling = asyncio.ensure_future(guest.call(a=1))
    await until(lambda: "2/2" in shown(piece.piece for piece in pieces))  # before the call has ended
    assert not calling.done()
    held.set()
    done = await calling
    assert {piece.action_id for piece in pieces} == {done.action.action_id}
    text = shown(piece.piece for piece in pieces)
    assert "\x1b" not in text
    assert len(text.strip().splitlines()) == 2
