"""A send that was held back after reading untrusted content: shown to the owner in place, answered there, sent once."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest

from coilclaw.config.schema import Executor, Webhook
from coilclaw.features.chat.agent import agent_of
from coilclaw.features.chat.held_back import held_words, how_to_show, show_held
from coilclaw.features.chat.post_message import post
from coilclaw.packets.card import nobody
from coilclaw.sandbox.fake_receiver import Receiver, serve
from coilclaw.store.actions import load_action, waiting_actions
from coilclaw.store.held_back import held_back, reproposed_actions
from tests.features.chat.talking import messages, say, until, when
from tests.features.conftest import calls
from tests.features.jobs.test_adversary import a_site
from tests.home import Sample
from tests.server.site import served_whole

SENT = {"to": "ann", "text": "Thursday is fine"}


class Mailbox:
    """A home that reads mail from a site and answers through a webhook, and every press of its owner, counted."""

    def __init__(self, home, url, received):
        self.home = home
        self.url = url
        self._received = received
        self.clicks = 0

    def script(self, *, reads=True, after="I could not send it."):
        """Read the mail, answer it, and say how that went."""
        read = (calls(("http", {"url": f"{self.url}/mail"})),) if reads else ()
        self.home.script(*read, calls(("webhook_send", {"target": "door", "payload": SENT})), {"text": after})

    def received(self):
        lines = self._received.read_text().splitlines() if self._received.exists() else []
        return [json.loads(json.loads(line)["body"]) for line in lines]

    async def press(self, site, path, body=None):
        """One press of a button in the panel."""
        self.clicks += 1
        return await site.http.post(path, json=body or {})

    async def approve(self, site, action_id):
        card = (await site.http.get(f"/v1/approvals/{action_id}")).json()
        answer = {"digest": card["digest"], "seen": card["seen"]}
        assert (await self.press(site, f"/v1/approvals/{action_id}/approve", answer)).status_code == 200
        return card

    async def send_call(self, site, thread):
        """The call in question as the conversation shows it."""
        said = await messages(site, thread)
        return next((call for each in said for call in each["calls"] if call["tool"] == "webhook_send"), None)


@contextmanager
def mailbox(folder, autonomy="full", **more):
    file = folder / "received.jsonl"
    door = serve(Receiver(file, deduplicates=False, lookup=False))
    threading.Thread(target=door.serve_forever, daemon=True).start()
    with a_site() as url:
        home = Sample(
            folder / "s",
            security__autonomy=autonomy,
            security__allowed_domains=(url,),
            webhooks={"door": Webhook(url=f"http://127.0.0.1:{door.server_port}/in", timeout_seconds=5.0)},
            executor=Executor(max_attempts=3, backoff_seconds=0.01),
            **{"approvals__lane_b_proof": "token", **more},
        )
        try:
            yield Mailbox(home, url, file)
        finally:
            home.close()
            door.shutdown()
            door.server_close()


async def turn_of(box, text="read this mail and answer it"):
    """The turn at a terminal where nobody is asked; its id."""
    agent = agent_of(box.home.app, box.home.app.conveyor(nobody))
    return (await post(agent, box.home.app, "conv_1", text, None)).turn_id


async def test_a_turn_that_continues_after_an_approval_is_still_the_one_that_read_the_mail(tmp_path):
    with mailbox(tmp_path, autonomy="supervised") as box:
        box.home.script(
            calls(("http", {"url": f"{box.url}/mail"})),
            calls(("file_write", {"path": "notes.txt", "content": "Thursday"})),
            calls(("webhook_send", {"target": "door", "payload": SENT})),
            {"text": "I could not send it."},
        )
        async with served_whole(box.home) as site:
            posted = await say(site, "read this mail, note the day and answer it")
            await until(site, posted["turn_id"], "WAITING")
            (noting,) = waiting_actions(box.home.app.db.reader, 10)
            await box.approve(site, noting.action_id)
            while await box.send_call(site, posted["thread_id"]) is None:
                await asyncio.sleep(0.05)
            await until(site, posted["turn_id"])
            call = await box.send_call(site, posted["thread_id"])
            assert (call["status"], call["code"]) == ("REJECTED", "POLICY_BLOCKED_UNTRUSTED_TURN")
        assert (box.home.workspace / "notes.txt").read_text() == "Thursday"
        assert box.received() == []


@pytest.mark.slow
@pytest.mark.parametrize("reads", [False, True])
async def test_from_the_request_to_the_sent_answer_it_takes_show_and_yes(tmp_path, reads):
    with mailbox(tmp_path) as box:
        box.script(reads=reads)
        async with served_whole(box.home) as site:
            box.clicks = 1  # the message itself
            posted = await say(site, "read this mail and answer it")
            turn = await until(site, posted["turn_id"])
            call = await box.send_call(site, posted["thread_id"])
            if call["status"] == "REJECTED":
                assert (turn["state"], call["code"], call["lane"]) == ("ANSWERED", "POLICY_BLOCKED_UNTRUSTED_TURN", "B")
                assert call["reproposed_id"] is None
                made = (await box.press(site, f"/v1/actions/{call['action_id']}/repropose")).json()
                assert made["status"] == "PENDING"
                call = await box.send_call(site, posted["thread_id"])
                assert (call["reproposed_id"], call["reproposed_status"]) == (made["action_id"], "PENDING")
                card = await box.approve(site, made["action_id"])
                assert card["provenance"]
                assert card["thread_id"] == posted["thread_id"]
            elif call["status"] == "PENDING":
                await box.approve(site, call["action_id"])
            await when(lambda: box.received() == [SENT])
            assert box.clicks <= 1 + 2


@pytest.mark.slow
async def test_what_came_of_it_is_told_in_the_conversation_in_place_of_the_held_back_line(tmp_path):
    with mailbox(tmp_path) as box:
        box.script()
        async with served_whole(box.home) as site:
            posted = await say(site)
            await until(site, posted["turn_id"], "ANSWERED")
            assert held_words(box.home.app, posted["turn_id"]) == (
                "1 action was held back because this conversation read untrusted content."
            )
            call = await box.send_call(site, posted["thread_id"])
            made = (await box.press(site, f"/v1/actions/{call['action_id']}/repropose")).json()
            assert held_words(box.home.app, posted["turn_id"]) == ""
            await box.approve(site, made["action_id"])
            await when(lambda: load_action(box.home.app.db.reader, made["action_id"]).status == "EXECUTED")
            last = (await messages(site, posted["thread_id"]))[-1]
            assert (last["role"], last["action_id"]) == ("system", made["action_id"])
            assert last["content"].startswith(f"webhook_send ({made['action_id']}): ")
            assert (await box.send_call(site, posted["thread_id"]))["reproposed_status"] == "EXECUTED"


async def test_two_devices_that_ask_for_it_at_once_get_the_same_card(tmp_path):
    with mailbox(tmp_path) as box:
        box.script()
        turn_id = await turn_of(box)
        (held,) = held_back(box.home.app.db.reader, turn_id)
        action = load_action(box.home.app.db.reader, held)
        approvals = [box.home.app.approvals(box.home.app.conveyor(nobody)) for _ in range(4)]
        made = await asyncio.gather(*(each.repropose(action, key=f"key_{n}") for n, each in enumerate(approvals)))
        assert len({each.action_id for each in made}) == 1
        await approvals[0].reject(made[0], reason="not like this")
        later = await approvals[0].repropose(action)
        assert later.action_id != made[0].action_id
        assert reproposed_actions(box.home.app.db.reader, (turn_id,))[held].action_id == later.action_id


async def test_what_the_model_writes_offers_nothing(tmp_path):
    with mailbox(tmp_path) as box:
        box.home.script({"text": "1 action was held back. POLICY_BLOCKED_UNTRUSTED_TURN. Show it to approve?"})
        turn_id = await turn_of(box)
        assert (held_words(box.home.app, turn_id), how_to_show(box.home.app, turn_id)) == ("", "")


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
async def test_at_a_terminal_it_is_shown_and_sent_with_a_yes(tmp_path, autonomy):
    with mailbox(tmp_path, autonomy) as box:
        box.script()
        conveyor = box.home.conveyor()  # an owner who says yes
        reply = await post(agent_of(box.home.app, conveyor), box.home.app, "conv_1", "read and answer", None)
        (held,) = held_back(box.home.app.db.reader, reply.turn_id)
        asked = len(box.home.owner.cards)
        assert how_to_show(box.home.app, reply.turn_id).endswith(f"\n  coilclaw actions repropose {held}")
        (told,) = await show_held(box.home.app, conveyor, reply.turn_id)
        assert told.startswith("webhook_send: ")
        (card,) = box.home.owner.cards[asked:]
        assert card.provenance
        assert box.received() == [SENT]
        row = box.home.app.db.reader.execute("SELECT role, content FROM messages ORDER BY seq DESC LIMIT 1").fetchone()
        assert row[0] == "system"
        assert row[1].startswith("webhook_send (act_")
        assert await show_held(box.home.app, conveyor, reply.turn_id) == []


async def test_where_nothing_may_be_written_nothing_is_sent_by_showing_it(tmp_path):
    with mailbox(tmp_path) as box:
        box.script()
        turn_id = await turn_of(box)
        home = Sample(tmp_path / "s", security__autonomy="readonly")
        (told,) = await show_held(home.app, home.conveyor(), turn_id)
        assert "Denied." in told
        assert home.owner.cards == []
        assert box.received() == []
        home.close()


@pytest.mark.slow
async def test_a_card_of_a_conversation_that_was_deleted_is_carried_out_and_has_its_receipt(tmp_path):
    with mailbox(tmp_path) as box:
        box.script()
        async with served_whole(box.home) as site:
            posted = await say(site)
            await until(site, posted["turn_id"], "ANSWERED")
            call = await box.send_call(site, posted["thread_id"])
            gone = await site.http.delete(f"/v1/chat/threads/{posted['thread_id']}")
            assert gone.status_code == 204
            made = (await box.press(site, f"/v1/actions/{call['action_id']}/repropose")).json()
            await box.approve(site, made["action_id"])
            await when(lambda: load_action(box.home.app.db.reader, made["action_id"]).status == "EXECUTED")
            assert box.received() == [SENT]
            assert box.home.receipts()[-1].status == "allowed"


@pytest.mark.slow
async def test_a_turn_that_waits_for_another_call_continues_once_that_and_what_was_shown_are_answered(tmp_path):
    with mailbox(tmp_path, "supervised") as box:
        send, keep = (
            ("webhook_send", {"target": "door", "payload": SENT}),
            ("file_write", {"path": "a", "content": "a"}),
        )
        box.home.script(calls(("http", {"url": f"{box.url}/mail"})), calls(send, keep), {"text": "all is done"})
        async with served_whole(box.home) as site:
            posted = await say(site)
            call = None
            while call is None:
                turn = await until(site, posted["turn_id"])
                assert turn["state"] == "WAITING"
                call = await box.send_call(site, posted["thread_id"])
                for card in (await site.http.get("/v1/approvals")).json()["items"] if call is None else ():
                    await box.approve(site, card["action_id"])
            await box.press(site, f"/v1/actions/{call['action_id']}/repropose")
            waiting = (await site.http.get("/v1/approvals")).json()["items"]
            assert sorted(card["tool_name"] for card in waiting) == ["file_write", "webhook_send"]
            for card in waiting:
                await box.approve(site, card["action_id"])
            turn = await until(site, posted["turn_id"], "ANSWERED", "STOPPED", "FAILED")
            assert (turn["state"], turn["answer"], box.received()) == ("ANSWERED", "all is done", [SENT])
