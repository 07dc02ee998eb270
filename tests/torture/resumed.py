"""Kill processes at each boundary of a turn that waits and goes on: nothing is lost, nothing is done or said twice."""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from coilclaw.app import EXTENSIONS
from coilclaw.config import Channels, CliChannel, Home, load
from coilclaw.features.chat.store.turns import OVER, open_turns, waiting_turns
from coilclaw.features.chat.turn_record import TurnRecord
from coilclaw.features.chat.turns import Turns
from coilclaw.gate.conveyor import Outcome
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.card import nobody
from coilclaw.packets.chat import ChatResponse, ProposedCall, ProviderCapabilities
from coilclaw.packets.ports import ToolOutput, Touches
from coilclaw.runtime import Runtime
from coilclaw.store.actions import waiting_actions
from coilclaw.tools.declare import tool
from tests.torture.chamber import await_child, child

POINTS = ("answered", "claimed", "asked", "proposed", "waiting", "begun", "done", "finishing", "finished", "answering",
          "ended")  # fmt: skip
"""From the owner's answer on: the turn is taken in hand, the model is asked, its next calls are proposed, wait, are
carried out; the last word is being kept, and is kept."""
AROUND_EFFECT = frozenset({"begun", "done", "finishing"})
"""Killed there, nobody can know whether a call had its effect: the owner is asked, and nothing is repeated."""
LATER = frozenset({"proposed", "waiting"})
"""Reached in the first round too, before anything is resumed; those are not meant."""
ROUNDS = 2
TOGETHER = 2
"""Calls of one answer."""
TICKS = "ticks"


class Resumed(msgspec.Struct):
    """What came of killing at one boundary."""

    how: str
    kills: int = 0
    turns: int = 0
    unknown: int = 0
    """Turns with a call that was cut around its effect: the model is told so, and nothing is repeated."""
    lost: int = 0
    twice: int = 0
    said: list[str] = []


class TickArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One effect that is counted."""

    key: str


class Steps:
    """A model that makes two rounds of two calls each, by what the conversation tells, and then ends."""

    name = "steps"
    capabilities = ProviderCapabilities(tool_calls=True, streaming=False, local=True)

    def __init__(self, reached: Callable[[str], None]) -> None:
        self._reached = reached

    async def chat(self, request: Any, on_text: Any = None) -> ChatResponse:
        last = max(at for at, message in enumerate(request.messages) if _is_message(message))
        made = sum(message.role == "tool" for message in request.messages[last:])
        if made:
            self._reached("asked")
        name = request.messages[last].content.rpartition("count ")[2]
        if made >= ROUNDS * TOGETHER:
            return ChatResponse(final_text=f"done {name}", provider="steps", model="steps")
        calls = tuple(
            ProposedCall(call_id="", tool="tick", arguments=f'{{"key": "{name}-{made + number}"}}')
            for number in range(TOGETHER)
        )
        return ChatResponse(final_text="", tool_calls=calls, provider="steps", model="steps")


def _is_message(message: Any) -> bool:
    return message.role == "user" and "count " in message.content


class Recorded(TurnRecord):
    """The record of turns, which says when a boundary was reached."""

    def __init__(self, app: Runtime, reached: Callable[[str], None]) -> None:
        super().__init__(app)
        self._reached = reached

    async def resume(self, turn: Any, worker: str) -> bool:
        resumed = await super().resume(turn, worker)
        if resumed:
            self._reached("claimed")
        return resumed

    def answered(self, tx: Any, turn: Any, ending: str) -> None:
        super().answered(tx, turn, ending)
        if ending == "answered":
            self._reached("answering")


def _open(base: Path, reached: Callable[[str], None]) -> tuple[Runtime, Turns]:
    home, environ = Home(base / "home"), {"HOME": str(base / "user")}
    config = load(home, environ).config
    budgets = msgspec.structs.replace(config.budgets, tool_calls_per_minute=100_000, open_proposals=100_000)
    channels = Channels(cli=CliChannel(tools_allow=("*", "tick")))
    config = msgspec.structs.replace(config, budgets=budgets, channels=channels)
    app = Runtime(home, config, environ, lambda level, event, fields: None, reached=reached, extensions=EXTENSIONS)
    app.tools["tick"] = _tick(base)
    app.provider = lambda name="": Steps(reached)
    turns = Turns(app, app.conveyor(nobody))
    turns._record = Recorded(app, reached)
    return app, turns


def _tick(base: Path) -> Any:
    async def tick(args: TickArgs, context: Any) -> ToolOutput:
        """Have an effect that is counted."""
        descriptor = os.open(base / TICKS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{args.key}\n".encode())
        os.close(descriptor)
        return ToolOutput(text=f"ticked {args.key}", label=INTERNAL)

    return tool(
        TickArgs,
        effect="WRITE",
        destination="machine",
        idempotent=False,
        always_ask=True,
        touches=lambda _: Touches(),
        summary=lambda args: f"Tick {args.key}",
    )(tick)


async def _go_on(app: Runtime, turns: Turns, reached: Callable[[str], None], *, answers: bool) -> None:
    """What a process does until nothing is left to do: take up, go on, and be the owner who says yes."""
    for _ in range(50):
        await turns._conveyor.recover()
        await turns.recover()
        while (claimed := await turns._claim(())) is not None:
            await claimed.run(asyncio.Event())
            reached("ended")
        await app.executor(turns._conveyor).run_due()
        waiting = waiting_actions(app.db.reader, 100) if answers else []
        for action in reversed(waiting):
            answered = await app.approvals(turns._conveyor).approve(action, by="terminal", digest=action.digest)
            assert not isinstance(answered, Outcome), answered.result.output
            await turns._conveyor.execute(answered)
        if waiting:
            reached("answered")
        if not waiting and not open_turns(app.db.reader) and not (answers and waiting_turns(app.db.reader)):
            return


def _live(base: Path, name: str, point: str, which: int) -> str:
    """A whole life, killed when a boundary is reached for that time."""
    left = which

    def reached(at: str) -> None:
        nonlocal left
        left -= at == point
        if at == point and left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def live() -> None:
        app, turns = _open(base, reached)
        if name:
            await turns.post(None, f"count {name}")
        await _go_on(app, turns, reached, answers=True)
        turns.close()
        app.close()

    asyncio.run(live())
    return ""


def _race(base: Path) -> str:
    """One of several processes that go on with whatever was answered; none of them answers."""

    async def live() -> None:
        app, turns = _open(base, lambda _: None)
        await _go_on(app, turns, lambda _: None, answers=False)
        turns.close()
        app.close()

    asyncio.run(live())
    return ""


def kill_resumed(base: Path, template: Path, point: str, kills: int, seed: int) -> Resumed:
    """Kill that often at a boundary, each followed by fresh processes; several at once for `race`."""
    shutil.copytree(template, base, symlinks=True)
    chance = random.Random(seed)
    tally = Resumed(point)
    names: list[str] = []
    while tally.kills < kills and len(names) < 5 * kills + 10:
        names.append(f"n{len(names)}")
        if point == "race":
            await_child(*child(lambda: _live(base, names[-1], "answered", 0)))
            for pid, reading in [child(lambda: _race(base)) for _ in range(3)]:
                await_child(pid, reading)
            tally.kills += 1
        else:
            which = chance.randrange(TOGETHER) + (TOGETHER if point in LATER else 0)
            tally.kills += await_child(*child(lambda which=which: _live(base, names[-1], point, which)))[0]
        await_child(*child(lambda: _live(base, "", "", 0)))
    if tally.kills < kills:
        tally.said.append(f"{point} was reached only {tally.kills} times")
    app, turns = _open(base, lambda _: None)
    _judge(tally, app, base, names)
    turns.close()
    app.close()
    return tally


def _judge(tally: Resumed, app: Runtime, base: Path, names: list[str]) -> None:
    ticks = (base / TICKS).read_text().split() if (base / TICKS).exists() else []
    db = app.db.reader
    actions = db.execute("SELECT json_extract(args_json, '$.key'), status FROM proposed_actions WHERE tool = 'tick'")
    stands: dict[str, list[str]] = {}
    for key, status in actions:
        stands.setdefault(key, []).append(status)
    for name in names:
        turns = db.execute(
            "SELECT t.turn_id, t.state, (SELECT count(*) FROM messages m WHERE m.turn_id = t.turn_id"
            " AND m.role = 'assistant' AND m.tool_calls = '[]'), (SELECT count(*) FROM audit_log a"
            " WHERE a.entity_id = t.turn_id AND a.event_type = 'turn_ended') FROM turns t"
            " JOIN messages u ON u.message_id = t.message_id WHERE u.content = ?",
            (f"count {name}",),
        ).fetchall()
        tally.turns += len(turns)
        keys = [f"{name}-{number}" for number in range(ROUNDS * TOGETHER)]
        unknown = any("UNKNOWN" in stands.get(key, ()) for key in keys)
        tally.unknown += unknown
        if unknown and tally.how not in AROUND_EFFECT:
            _wrong(tally, "lost", f"{name} has an unknown end: {[stands.get(key) for key in keys]}")
        for turn_id, state, answers, ends in turns:
            if state not in OVER or (state != "ANSWERED" and not unknown):
                _wrong(tally, "lost", f"{turn_id} of {name} is {state}")
            if answers > 1 or ends > 1:
                _wrong(tally, "twice", f"{turn_id} of {name} has {answers} answers and {ends} ends")
            if state == "ANSWERED" and not unknown and any(stands.get(key) != ["EXECUTED"] for key in keys):
                _wrong(tally, "lost", f"{name} is answered and its calls are {[stands.get(key) for key in keys]}")
        for key in keys:
            if len(stands.get(key, ())) > 1 or ticks.count(key) > 1:
                _wrong(tally, "twice", f"{key} was proposed as {stands.get(key)} and had {ticks.count(key)} effects")
            if stands.get(key) == ["EXECUTED"] and ticks.count(key) != 1:
                _wrong(tally, "lost", f"{key} is EXECUTED and had no effect")
            if key in ticks and stands.get(key, ["none"])[0] not in ("EXECUTED", "UNKNOWN"):
                _wrong(tally, "lost", f"{key} had its effect and is {stands.get(key)}")


def _wrong(tally: Resumed, kind: str, what: str) -> None:
    setattr(tally, kind, getattr(tally, kind) + 1)
    tally.said.append(f"{tally.how}: {what}")


def table(tallies: list[Resumed]) -> str:
    """The tallies as a markdown table."""
    head = ("resumed turn killed at", "kills", "turns", "unknown", "lost", "twice")
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    lines += [f"| {t.how} | {t.kills} | {t.turns} | {t.unknown} | {t.lost} | {t.twice} |" for t in tallies]
    return "\n".join(lines)
