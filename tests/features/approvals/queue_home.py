"""A home whose actions wait, one webhook with the receiver at its other end, and helpers that speak of them."""

import asyncio
import threading
from contextlib import contextmanager
from datetime import timedelta

from coilclaw.config.schema import Executor, Webhook
from coilclaw.packets.card import Answer
from coilclaw.sandbox.fake_receiver import Receiver, serve
from coilclaw.store.actions import load_action
from tests.home import Sample

CARD_FIELDS = {
    "tool_name", "human_summary", "target_entity", "risk_class", "preview_or_diff", "source_type", "expires_at",
    "risk", "risk_word", "lane", "reasons", "provenance", "marked", "digest", "seen", "args", "action_id", "status",
    "created_at", "thread_id", "job_id", "proof", "secretive", "asked",
}  # fmt: skip


class QueueHome:
    """What waits stays waiting, and time is the test's."""

    def __init__(self, folder, server, receiver, **overrides):
        hook = Webhook(url=f"http://127.0.0.1:{server.server_port}/in", timeout_seconds=5.0)
        self.receiver = receiver
        self.home = Sample(
            folder, webhooks={"door": hook}, executor=Executor(max_attempts=3, backoff_seconds=0.05), **overrides
        )
        self.home.owner.answer = Answer(approved=None)
        self._later = timedelta(0)
        real = self.home.app.clock
        self.home.app.clock = lambda: real() + self._later
        self._keys = 0

    def wait(self, **time):
        """Let time pass."""
        self._later += timedelta(**time)

    def load(self, action_id):
        """The stored action."""
        return load_action(self.home.app.db.reader, action_id)

    async def propose(self, tool, turn=None, **args):
        """Something that waits; its id."""
        self._keys += 1
        outcome = await self.home.call(tool, turn=turn, key=f"k{self._keys}", **args)
        assert outcome.pending, outcome.result.output
        return outcome.action.action_id

    async def write(self, path="a.txt", content="hello\n"):
        """A file that waits to be written (lane A)."""
        return await self.propose("file_write", path=path, content=content)

    async def send(self, **payload):
        """A message that waits to be sent (lane B)."""
        return await self.propose("webhook_send", target="door", payload=payload)

    async def status(self, action_id, wanted):
        """Wait until an action stands there."""
        for _ in range(8000):
            if self.load(action_id).status == wanted:
                return self.load(action_id)
            await asyncio.sleep(0.005)
        raise AssertionError(f"{action_id} is {self.load(action_id).status}")


@contextmanager
def queue_home(folder, *, slow=0.0, **overrides):
    """A home with a receiver that counts what it gets."""
    receiver = Receiver(folder / "received.jsonl", deduplicates=False, lookup=False)
    server = serve(receiver, slow=slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = QueueHome(folder, server, receiver, **overrides)
    try:
        yield made
    finally:
        made.home.close()
        server.shutdown()
        server.server_close()


async def approve(site, action_id, **changes):
    """Read the card, then say yes to it."""
    card = (await site.http.get(f"/v1/approvals/{action_id}")).json()
    body = {"digest": card["digest"], "seen": card["seen"], **changes}
    return await site.http.post(f"/v1/approvals/{action_id}/approve", json=body)


def code_of(answer, status):
    """The code of a problem, which must have this status and say what to do or why."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    told = answer.json()
    assert told["status"] == status
    assert told["detail"]
    return told["code"]
