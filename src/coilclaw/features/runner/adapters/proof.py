"""Proves an installed coding program by its behaviour: what the hook allows runs; deny, reset and silence do not."""

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.features.runner.adapters.contract import HOOK_PORT, PROGRAM_FOLDER, Adapter, CliPlace, HookDecision
from coilclaw.features.runner.adapters.placing import put_in_place
from coilclaw.features.runner.adapters.scripted_model import ScriptedModel
from coilclaw.packets.box import BoxLimits, BoxMount, BoxSpec

if TYPE_CHECKING:
    from coilclaw.packets.ports import OpenBox
    from coilclaw.runtime.runtime import Runtime

Manner: TypeAlias = Literal["allow", "deny", "reset", "silence"]
MANNERS: tuple[Manner, ...] = ("allow", "deny", "reset", "silence")
SECONDS = 120.0
MARK = "made-by-a-tool"
_SOON = -10
"""The owner's time in a proof: the hook then gives up after five seconds."""


class ProofResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one manner of answering came to."""

    manner: Manner
    asked: bool
    """Whether the hook was asked about the command at all."""
    ran: bool
    """Whether the command ran."""

    @property
    def holds(self) -> bool:
        """Whether the program did as it was told."""
        return self.asked and self.ran == (self.manner == "allow")


class _Answers:
    """A desk that answers in one manner only."""

    def __init__(self, adapter: Adapter, manner: Manner, model: ScriptedModel) -> None:
        self._adapter = adapter
        self._manner = manner
        self._model = model
        self.asked = False

    async def serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if port != HOOK_PORT:
            await self._model.serve(port, reader, writer)
            return
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        told = msgspec.json.decode(await reader.readexactly(length), type=dict[str, object])
        ask = self._adapter.read(told)
        decision = HookDecision(allow=True)
        if ask.kind not in ("begin", "done", "waiting", "result"):
            self.asked = self.asked or MARK in ask.command
            if self._manner == "reset":
                writer.transport.abort()
                return
            if self._manner == "silence":
                await asyncio.sleep(SECONDS)
            decision = HookDecision(allow=self._manner == "allow", reason="This is a test.")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + msgspec.json.encode(decision))
        await writer.drain()


async def prove(app: "Runtime", adapter: Adapter, programs: Path | None) -> tuple[ProofResult, ...]:
    """Every manner, one after the other, each in a box and a folder of its own."""
    return tuple([await _proved(app, adapter, programs, manner) for manner in MANNERS])


async def _proved(app: "Runtime", adapter: Adapter, programs: Path | None, manner: Manner) -> ProofResult:
    base = Path(app.config.sessions_dir)
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix=".proof-", dir=base.resolve()))
    command = f"touch {MARK}"
    model = ScriptedModel(command)
    answers = _Answers(adapter, manner, model)
    try:
        work = folder / "work"
        work.mkdir()
        spec = _spec(app, adapter, programs, folder, f"run {command}")
        opened = await app.open_box().open(spec, stopped=app.estop.wait, serve=answers.serve)
        try:
            await _until_settled(opened, model, work / MARK, manner)
        finally:
            await opened.close()
        return ProofResult(manner=manner, asked=answers.asked, ran=(work / MARK).exists())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _spec(app: "Runtime", adapter: Adapter, programs: Path | None, folder: Path, prompt: str) -> BoxSpec:
    from coilclaw.features.runner.box import ENVIRONMENT, HOME

    work = str(folder / "work")
    place = CliPlace(
        home=HOME,
        cwd=work,
        checkout=work,
        program=PROGRAM_FOLDER,
        prompt=prompt,
        wait_seconds=_SOON,
        headless=True,
    )
    placed = put_in_place(adapter, place, folder / ".home", programs)
    runner = app.config.runner
    return BoxSpec(
        command=placed.argv,
        workspace=work,
        cwd=work,
        environment=(*ENVIRONMENT, *placed.environment),
        mounts=(BoxMount(source=str(folder / ".home"), at=HOME, writable=True), *placed.mounts),
        listeners=placed.ports,
        limits=BoxLimits(
            wall_seconds=SECONDS,
            cpu_seconds=int(SECONDS),
            memory_bytes=runner.memory_bytes,
            processes=runner.processes,
            open_files=runner.open_files,
            output_bytes=8 << 20,
            address_space=False,
        ),
    )


async def _until_settled(opened: "OpenBox", model: ScriptedModel, mark: Path, manner: Manner) -> None:
    """Until the program has gone on, whichever way, or has ended."""

    async def read_on() -> None:
        with contextlib.suppress(Exception):
            async for _ in opened.lines():
                pass
        await opened.wait()

    reading = asyncio.ensure_future(read_on())
    told = asyncio.ensure_future(model.told.wait())
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await opened.end_input()
                await asyncio.wait({reading, told}, return_when=asyncio.FIRST_COMPLETED)
                while manner == "allow" and not mark.exists() and not reading.done():
                    await asyncio.sleep(0.05)
    finally:
        for task in (reading, told):
            task.cancel()
        await asyncio.gather(reading, told, return_exceptions=True)
