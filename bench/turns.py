"""Turns: what a round costs beside the call it makes, and what it costs to build the model's context.

CPU time of this process is compared: a round waits for the disk as its call does, and how long depends on the machine.
"""

import asyncio
import time
from collections.abc import Callable, Iterator

import msgspec

from bench.home import BenchHome
from bench.rounds import timings
from bench.row import Plan, Row, alone, beside
from coilclaw.agent.loop import Agent
from coilclaw.features.chat.agent import agent_of
from coilclaw.packets.action import INTERNAL, OWNER
from coilclaw.packets.canonical import JsonObject
from coilclaw.packets.chat import ChatRequest, ChatResponse, ProposedCall, ProviderCapabilities
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import new_id, stamp, utc_now
from coilclaw.packets.job import UserMessage
from coilclaw.store.threads import MessageRow, add_message, ensure_thread
from coilclaw.store.tx import Tx

ROUNDS = 50
MESSAGES = 500


class Calls(msgspec.Struct, frozen=True):
    """Calls of one tool, each another one: a turn that repeats itself is stopped."""

    what: str
    tool: str
    args: Callable[[int], JsonObject]


KINDS = (
    Calls("reads", "file_read", lambda number: {"path": "notes.txt", "offset": number + 1, "limit": 1}),
    Calls("runs a command", "shell", lambda number: {"command": f"touch made{number}.txt"}),
)


class Caller:
    """A model that makes one call a round, and then answers."""

    name = "caller"
    capabilities = ProviderCapabilities(tool_calls=True, streaming=False, local=True, context_window=200_000)

    def __init__(self) -> None:
        self.calls = KINDS[0]

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """The next call, or the last word."""
        made = sum(message.role == "tool" for message in request.messages)
        if made == ROUNDS:
            return ChatResponse(final_text="done", provider=self.name, model="m")
        arguments = msgspec.json.encode(self.calls.args(made)).decode()
        call = ProposedCall(call_id=f"call_{made}", tool=self.calls.tool, arguments=arguments)
        return ChatResponse(final_text="", tool_calls=(call,), provider=self.name, model="m")


def measure(plan: Plan) -> Iterator[Row]:
    """Rounds beside calls, then a long conversation."""
    model = Caller()
    home = BenchHome(plan.folder, autonomy="full", provider=model)
    (home.app.workspace / "notes.txt").write_text("a line\n" * ROUNDS)
    try:
        with asyncio.Runner() as loop:
            for kind in KINDS:
                model.calls = kind
                yield _rounds(plan, home, loop, kind)
        yield _context(plan, home)
    finally:
        home.close()


def _rounds(plan: Plan, home: BenchHome, loop: asyncio.Runner, kind: Calls) -> Row:
    """A round keeps the model's answer before its calls run, so it has a commit more than the call alone."""
    conveyor = home.conveyor()
    agent = agent_of(home.app, conveyor)

    async def calls() -> None:
        for number in range(ROUNDS):
            await home.call(conveyor, kind.tool, kind.args(number))

    def gated() -> float:
        start = time.process_time()
        loop.run(calls())
        return (time.process_time() - start) / ROUNDS

    def turn() -> float:
        start = time.process_time()
        reply = loop.run(agent.turn(_message(new_id("conv", utc_now()))))
        if reply.text != "done" or len(reply.outcomes) != ROUNDS:
            raise ToolError(f"The turn did not make its {ROUNDS} calls: {reply.text}")
        return (time.process_time() - start) / ROUNDS

    found = timings({"call": gated, "round": turn}, plan.rounds)
    return beside(
        "turns", f"a round that {kind.what}, of a turn of {ROUNDS}, CPU", "ms", found["round"].scaled(1e3),
        "the gated call alone", found["call"].scaled(1e3), at_most=1.5,
    )  # fmt: skip


def _message(thread_id: str) -> UserMessage:
    now = utc_now()
    return UserMessage(
        message_id=new_id("msg", now),
        thread_id=thread_id,
        channel="cli",
        source="chat",
        text="look at every line of the notes",
        label=OWNER,
        received_at=stamp(now),
    )


def _context(plan: Plan, home: BenchHome) -> Row:
    home.app.db.write_now(_conversation)
    agent: Agent = agent_of(home.app, home.conveyor())
    times = plan.size(20, 3)

    def built() -> float:
        start = time.process_time()
        for _ in range(times):
            used = agent.context_use("conv_long")
            if used.messages < MESSAGES:
                raise ToolError("The conversation is not all there.")
        return (time.process_time() - start) / times

    found = timings({"built": built}, plan.rounds)
    return alone(
        "turns", f"building the context of {MESSAGES} messages, CPU", "ms", found["built"].scaled(1e3), at_most=5
    )


def _conversation(tx: Tx) -> None:
    """Questions, calls, their results and answers in turn."""
    ensure_thread(tx, utc_now, "conv_long", "cli", "a long one")
    for number in range(MESSAGES):
        role = ("user", "assistant", "tool", "assistant")[number % 4]
        calls = (ProposedCall(call_id=f"c{number}", tool="file_read", arguments='{"path":"notes.txt"}'),)
        add_message(
            tx,
            utc_now,
            MessageRow(
                message_id=f"msg_{number:06d}",
                thread_id="conv_long",
                turn_id=f"turn_{number // 4:06d}",
                role=role,
                content="look around and tell what changed, " * 8,
                label=OWNER if role == "user" else INTERNAL,
                tool_calls=calls if number % 4 == 1 else (),
                tool_call_id=f"c{number - 1}" if role == "tool" else "",
            ),
        )
