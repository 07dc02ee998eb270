"""A life: what a process does before it is killed, and what the one after it does to bring everything to rest."""

import os
import random
from collections.abc import Awaitable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from coilclaw.app import EXTENSIONS
from coilclaw.config import Config, Home, load
from coilclaw.config.schema import Executor, Webhook
from coilclaw.gate.conveyor import Conveyor, Outcome
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import Answer
from coilclaw.packets.ids import utc_now
from coilclaw.runtime import Runtime

KINDS = ("send", "queue", "prompt", "busy", "unsure", "reject", "leave", "deny", "write", "read")
SENDING = frozenset({"send", "queue", "prompt", "busy", "unsure", "reject", "leave"})
POINTS = (
    "proposed", "decided", "waiting", "approving", "approved", "claiming", "begun", "starting", "done", "finishing",
    "finished", "copying", "copied",
)  # fmt: skip


class Journal:
    """What the process was about to do and what it was told is done; outlives it, and knows nothing of the database."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def __call__(self, *words: str) -> None:
        os.write(self._fd, " ".join(words).encode() + b"\n")


class Clock:
    """The time, and how far the test has let it run ahead."""

    def __init__(self, later: float) -> None:
        self.later = later

    def __call__(self) -> datetime:
        return utc_now() + timedelta(seconds=self.later)


class Place:
    """A home on disk, its receiver, and what to open it with."""

    def __init__(self, base: Path, name: str, variant: str, port: int) -> None:
        self.base = base
        self.name = name
        self.variant = variant
        self.home = Home(base / "home")
        self.journal = base / "journal"
        self.environ = {"HOME": str(base / "user")}
        self.later = 0.0
        self.config = self._config(port)

    def _config(self, port: int) -> Config:
        at = f"http://127.0.0.1:{port}/{self.variant}/{self.name}"
        hook = Webhook(
            url=f"{at}/in",
            deduplicates=self.variant in ("deduplicates", "liar"),
            lookup_url=f"{at}/seen/{{key}}" if self.variant == "lookup" else "",
        )
        config = load(self.home, self.environ).config
        budgets = msgspec.structs.replace(config.budgets, tool_calls_per_minute=100_000, open_proposals=100_000)
        return msgspec.structs.replace(
            config,
            budgets=budgets,
            webhooks={"door": hook},
            executor=Executor(max_attempts=20, backoff_seconds=0.01),
            receipts=msgspec.structs.replace(config.receipts, head_every=4),
        )

    def open(self, reached) -> tuple[Runtime, Clock]:
        app = Runtime(self.home, self.config, self.environ, _silent, reached=reached, extensions=EXTENSIONS)
        clock = Clock(self.later)
        app.clock = clock
        return app, clock


def _silent(level: str, event: str, fields: dict) -> None:
    """Say nothing."""


async def _nobody(_) -> Answer:
    return Answer(approved=None)


async def _agree(_) -> Answer:
    return Answer(approved=True)


class Life:
    """One process's doings with an open App."""

    def __init__(
        self, app: Runtime, journal: Journal, chance: random.Random, forgiven: tuple[type[Exception], ...] = ()
    ) -> None:
        self._app = app
        self._forgiven = forgiven
        self.failures: list[str] = []
        self._journal = journal
        self._chance = chance
        self._conveyor = app.conveyor(_nobody)
        self._prompting = app.conveyor(_agree)
        self._approvals = app.approvals(self._conveyor)
        self._executor = app.executor(self._conveyor)

    async def run(self, doings: list[tuple[str, str]], *, execute: bool = True) -> None:
        """Take up what a former life left, then propose, answer and carry out."""
        await self._try(self._conveyor.recover())
        for key, kind in doings:
            await self._try(self._do(key, kind, execute=execute))
        if execute:
            await self._try(self._executor.run_due())

    async def _try(self, doing: Awaitable[object]) -> None:
        """Go on after what is forgiven, as somebody would who tries the next thing."""
        try:
            await doing
        except self._forgiven as error:
            self.failures.append(str(error))

    async def run_due(self) -> None:
        """Be one of several executors."""
        await self._conveyor.recover()
        await self._executor.run_due()

    async def _do(self, key: str, kind: str, *, execute: bool) -> None:
        outcome = await self._propose(key, kind)
        if kind in ("prompt", "deny", "write", "read"):
            return
        action = outcome.action
        if kind == "reject":
            self._journal("rejecting", key)
            await self._approvals.reject(action, reason="no")
            self._journal("rejected", key)
        elif kind != "leave":
            self._journal("approving", key)
            answered = await self._approvals.approve(action, by="terminal", digest=action.digest)
            assert not isinstance(answered, Outcome), answered.result.output
            self._journal("approved", key)
            if kind != "queue" and execute:
                await self._conveyor.execute(answered)

    async def _propose(self, key: str, kind: str) -> Outcome:
        conveyor: Conveyor = self._prompting if kind == "prompt" else self._conveyor
        turn = Turn(f"turn_{key}", "", "cli")
        self._journal("proposing", key, kind)
        if kind == "prompt":
            self._journal("approving", key)
        action = conveyor.intake.propose(_call(key, kind), turn, key)
        stored = self._chance.random() < 0.5
        if stored:  # as the loop does: everything a model proposes is committed with its answer
            await self._app.db.write(lambda tx: conveyor.records.store(tx, action))
            self._journal("stored", key)
        outcome = await conveyor.carry(action, turn, stored=stored)
        self._journal("approved" if kind == "prompt" and outcome.receipt else "stored", key)
        return outcome


def _call(key: str, kind: str) -> ToolCall:
    if kind in SENDING:
        answers = {"busy": [429], "unsure": [500]}.get(kind)
        return ToolCall.of("webhook_send", {"target": "door", "payload": {"answers": answers} if answers else {}})
    if kind == "deny":
        return ToolCall.of("file_write", {"path": ".git/hooks/evil", "content": key})
    if kind == "write":
        return ToolCall.of("file_write", {"path": f"intel/{key}.md", "content": key})
    return ToolCall.of("time", {})


async def come_to_rest(app: Runtime, clock: Clock) -> None:
    """What a fresh process does until nothing is left to do; pauses are let go by."""
    conveyor = app.conveyor(_nobody)
    executor = app.executor(conveyor)
    for _ in range(60):
        await conveyor.recover()
        await executor.expire()
        await executor.run_due()
        left = app.db.reader.execute(
            "SELECT count(*) FROM proposed_actions WHERE status = 'APPROVED' OR worker IS NOT NULL"
        ).fetchone()[0]
        if not left:
            break
        clock.later += 30
    # One more receipt: the log catches up with whatever a crash left it behind.
    turn = Turn("turn_rest", "", "cli")
    action = conveyor.intake.propose(ToolCall.of("time", {}), turn, os.urandom(8).hex())
    await conveyor.carry(action, turn, stored=False)


async def let_expire(app: Runtime, clock: Clock) -> None:
    """A day later."""
    clock.later += 25 * 3600
    await come_to_rest(app, clock)
