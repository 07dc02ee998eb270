"""A home with a scripted MCP server behind the fake box, looked at and approved as the owner would."""

import json

from coilclaw.config.mcp import McpServer
from coilclaw.features.guests.owner_guests import OwnerGuests
from coilclaw.features.guests.store import load_guest
from coilclaw.gate.turn import Turn
from coilclaw.sandbox.fake_box import FakeBox
from tests.features.guests.mcp_harness import Scripted, answer

NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"], "additionalProperties": False}
ADD = {"name": "add", "description": "Adds one.", "inputSchema": NUMBERS, "annotations": {"readOnlyHint": True}}
KEEP = {"name": "Keep", "description": "Keeps a word.", "inputSchema": {"type": "object"}}


class Guest:
    """The guest `sum` of a home, which offers whatever the test says."""

    def __init__(self, sample, *, tools=(ADD, KEEP), kind="stdio", server=None, **overrides):
        self.tools = list(tools)
        self.answers = []
        self.calls = []
        given = {"command": ("true",)} if kind == "stdio" else {}
        self.server = McpServer(kind=kind, **{**given, **(server or {})})
        self.home = sample(mcp__servers={"sum": self.server}, **overrides)
        self.app = self.home.app
        self.scripted = Scripted(
            tools__list=lambda message: [answer(message["id"], {"tools": self.tools})], tools__call=self._called
        )
        self.home.box = FakeBox(reply=self.scripted.reply)
        self.owner = OwnerGuests(self.app)

    def _called(self, message):
        self.calls.append(message["params"])
        if not self.answers:
            return [answer(message["id"], {"content": [{"type": "text", "text": "fine"}]})]
        made = self.answers.pop(0)
        return made(message) if callable(made) else [answer(message["id"], made)]

    async def look(self):
        return await self.hand(self.owner.look_call("sum"))

    async def approve(self, **classes):
        looked = await self.look()
        assert looked.result.success, looked.result.output
        seen = load_guest(self.app.db.reader, "sum").seen
        made = await self.hand(
            self.owner.approve_call("sum", classes or {"add": "reads", "Keep": "writes"}, seen.digest)
        )
        assert made.result.success, made.result.output
        self.home.owner.cards.clear()

    async def hand(self, call):
        """A call of the owner's own."""
        return await self.home.call(
            call.tool, Turn("turn_hand", "", "gateway"), key=None, **json.loads(call.args_bytes)
        )

    async def call(self, tool="sum.add", turn=None, **args):
        self.app.refresh()
        return await self.home.call(tool, turn or Turn("turn_1", "", "chat"), **args)

    async def close(self):
        await self.app.leave()
