"""A home where things of every lane wait, for tests of what proves the owner."""

from datetime import timedelta

import msgspec

from coilclaw.config.schema import Webhook
from coilclaw.packets.card import Answer
from coilclaw.packets.ids import stamp
from coilclaw.store.actions import load_action
from tests.home import Sample

DEVICE = "device:dev_test"


class World:
    """A home whose owner answers when asked, with a webhook for what leaves the machine."""

    def __init__(self, folder, url="http://127.0.0.1:9/in", **overrides):
        self.home = Sample(folder, webhooks={"door": Webhook(url=url, timeout_seconds=2.0)}, **overrides)
        self.app = self.home.app
        self.home.owner.answer = Answer(approved=None)
        real, self.later = self.app.clock, timedelta(0)
        self.app.clock = lambda: real() + self.later
        self.device()

    async def waiting(self, lane="C", key="k1"):
        """An action of this lane that waits."""
        if lane == "B":
            outcome = await self.home.call("webhook_send", key=key, target="door", payload={"text": key})
        else:
            path = "SYSTEM.md" if lane == "C" else "notes.txt"
            outcome = await self.home.call("file_write", key=key, path=path, content=key)
        assert outcome.pending, outcome.result.output
        assert outcome.action.decision.lane == lane
        return self.load(outcome.action.action_id)

    def load(self, action_id):
        return load_action(self.app.db.reader, action_id)

    async def approve(self, action, by=DEVICE, proof=None):
        return await self.app.approvals(self.home.conveyor()).approve(action, by=by, digest=action.digest, proof=proof)

    def events(self, event_type):
        self.app.db.write_now(lambda tx: None)  # what was queued behind a transaction that was taken back
        rows = self.app.db.reader.execute(
            "SELECT payload_json FROM audit_log WHERE event_type = ? ORDER BY seq", (event_type,)
        )
        return [msgspec.json.decode(row[0]) for row in rows]

    def device(self, device_id="dev_test"):
        def write(tx):
            tx.execute("INSERT OR IGNORE INTO users VALUES ('owner', '', 'x')")
            tx.execute(
                "INSERT OR IGNORE INTO devices (device_id, user_id, name, created_at, paired_by)"
                " VALUES (?, 'owner', 'x', ?, 'terminal')",
                (device_id, stamp(self.app.clock())),
            )

        self.app.db.write_now(write)
