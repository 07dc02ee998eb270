"""A served home that one can talk to: its turns run beside the server, and the model says what a test lets it say."""

import asyncio
import dataclasses
from contextlib import asynccontextmanager

from coilclaw.features.chat.feature import chat_part
from coilclaw.features.chat.turns import Turns
from coilclaw.packets.chat import ChatResponse, ProposedCall, ProviderCapabilities, Usage
from tests.server.site import served, unlimited


class Slow:
    """A provider whose answers come when the test says so, in the pieces it says."""

    name = "slow"
    capabilities = ProviderCapabilities(tool_calls=True, streaming=True, local=True)

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        """The messages of each request, as (role, content)."""
        self.prompt = ""
        self.tools = ()
        self.at_once = 0
        self.most_at_once = 0
        self._go = asyncio.Semaphore(0)

    def go(self, steps=1):
        """Let the next piece, or the next end of an answer, happen."""
        for _ in range(steps):
            self._go.release()

    async def chat(self, request, on_text=None):
        self.asked.append([(message.role, message.content) for message in request.messages])
        self.prompt = request.system_prompt
        self.tools = {tool.name for tool in request.tools}
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._answer(self.answers.pop(0) if self.answers else "done", on_text)
        finally:
            self.at_once -= 1

    async def _answer(self, answer, on_text):
        pieces, calls = answer if isinstance(answer, tuple) else (answer, ())
        pieces = [pieces] if isinstance(pieces, str) else pieces
        for piece in pieces:
            await self._go.acquire()
            if on_text is not None:
                on_text(piece)
        await self._go.acquire()
        return ChatResponse(
            final_text="".join(pieces),
            tool_calls=tuple(ProposedCall(call_id="", tool=tool, arguments=args) for tool, args in calls),
            usage=Usage(input_tokens=1, output_tokens=1),
            provider="slow",
            model="slow",
        )


@asynccontextmanager
async def talking(sample, *, model=None, running=True, grace=0.05, **options):
    """Serve chat with its turns beside it. `site.turns` are the turns, `site.said` the pieces of text they said."""
    said = []
    made = []
    if model is not None:
        sample.app.provider = lambda name="": model

    def make(serving):
        made.append(
            Turns(serving.runtime, serving.core.conveyor, lambda *piece: said.append(piece), grace_seconds=grace)
        )
        return dataclasses.replace(chat_part(serving, made[0]), beside=(), close=None)  # started and ended below

    stop = asyncio.Event()
    async with served(sample, make, rates=unlimited(), **options) as site:
        site.turns, site.said, site.stop = made[0], said, stop
        site.running = asyncio.ensure_future(site.turns.start(stop)) if running else None
        try:
            yield site
        finally:
            stop.set()
            if site.running is not None:
                await site.running
            site.turns.close()


async def say(site, text="hi", thread=None, **body):
    """Post a message; gives the answer of the route. Without a thread a new one is made."""
    if thread is None:
        thread = (await site.http.post("/v1/chat/threads", json={})).json()["thread_id"]
    posted = await site.http.post(f"/v1/chat/threads/{thread}/messages", json={"text": text, **body})
    assert posted.status_code == 202, posted.text
    return posted.json()


async def turn_of(site, turn_id):
    """A turn as the route shows it."""
    return (await site.http.get(f"/v1/chat/turns/{turn_id}")).json()


async def until(site, turn_id, *states):
    """The turn once it is in one of these states; the test's own time limit bounds the wait."""
    wanted = states or ("WAITING", "ANSWERED", "FAILED", "STOPPED", "INTERRUPTED")
    while True:
        turn = await turn_of(site, turn_id)
        if turn["state"] in wanted:
            return turn
        await asyncio.sleep(0.01)


async def when(condition):
    """Wait until something holds; the test's own time limit bounds the wait."""
    while not condition():
        await asyncio.sleep(0.005)


async def messages(site, thread, **query):
    """The messages of a conversation."""
    return (await site.http.get(f"/v1/chat/threads/{thread}/messages", params=query)).json()["items"]


def events(sample, entity):
    """The audit events of an entity: type and payload. Which skill was looked for is told elsewhere."""
    import json

    rows = sample.app.db.reader.execute(
        "SELECT event_type, payload_json FROM audit_log WHERE entity_id = ?"
        " AND event_type NOT GLOB 'skill_*' ORDER BY seq",
        (entity,),
    )
    return [(kind, json.loads(payload)) for kind, payload in rows]
