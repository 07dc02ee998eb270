"""A home in a folder, opened in process: the real wiring, with a box that runs nothing and an owner who agrees."""

import asyncio
from pathlib import Path

import msgspec

from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.config import Home, load
from coilclaw.gate.conveyor import Conveyor, Outcome
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.canonical import Json, JsonObject
from coilclaw.packets.card import Answer, Card
from coilclaw.packets.decision import Autonomy
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Box, Provider
from coilclaw.runtime import Runtime
from coilclaw.runtime.extensions import NO_EXTENSIONS, Extensions
from coilclaw.sandbox.fake_box import FakeBox


async def _agree(_: Card) -> Answer:
    return Answer(approved=True)


def _silent(level: str, event: str, fields: dict[str, Json]) -> None:
    pass


class _Boxed(Runtime):
    """The App, with a box that plays its answer at once, unless told otherwise: what remains is the gate."""

    _fake = FakeBox()
    real_boxes = False
    given: Provider | None = None

    def open_box(self) -> Box:
        return super().open_box() if self.real_boxes else self._fake

    def provider(self, name: str = "") -> Provider:
        return self.given or super().provider(name)


class BenchHome:
    """An App on a fresh home."""

    def __init__(
        self,
        folder: Path,
        *,
        autonomy: Autonomy = "supervised",
        script: Path | None = None,
        provider: Provider | None = None,
        extensions: Extensions = NO_EXTENSIONS,
    ) -> None:
        home = Home(folder / "home")
        environ = {"HOME": str(folder / "user"), **({"COILCLAW_MOCK_SCRIPT": str(script)} if script else {})}
        make_home(home)
        config = load(home, environ).config
        make_parts(home, config)
        make_workspace(home, config.workspace_dir)
        config = msgspec.structs.replace(
            config,
            security=msgspec.structs.replace(config.security, autonomy=autonomy),
            budgets=msgspec.structs.replace(
                config.budgets, tool_calls_per_minute=100_000, open_proposals=100_000, daily_tokens=1_000_000_000
            ),
        )
        self.app = _Boxed(home, config, environ, _silent, extensions=extensions)
        self.app.given = provider
        self.database = config.memory.path
        self._number = 0

    def conveyor(self) -> Conveyor:
        """The conveyor, with an owner who agrees to everything."""
        return self.app.conveyor(_agree)

    async def call(self, conveyor: Conveyor, tool: str, args: JsonObject) -> Outcome:
        """One call from proposal to receipt."""
        self._number += 1
        turn = Turn("turn_bench", "", "cli")
        action = conveyor.intake.propose(ToolCall.of(tool, args), turn, f"key-{self._number}")
        outcome = await conveyor.carry(action, turn, stored=False)
        if not outcome.result.success:
            raise ToolError(f"{tool} was not let through, so nothing can be measured: {outcome.result.output}")
        return outcome

    async def one_by_one(self, conveyor: Conveyor, tool: str, args: JsonObject, times: int) -> None:
        """Calls one after the other."""
        for _ in range(times):
            await self.call(conveyor, tool, args)

    async def at_once(self, conveyor: Conveyor, tool: str, args: JsonObject, times: int) -> None:
        """The same calls side by side."""
        await asyncio.gather(*(self.call(conveyor, tool, args) for _ in range(times)))

    def close(self) -> None:
        """Give everything back."""
        self.app.close()
