"""Proves an installed coding program by its behaviour, on a terminal and without a screen.

What it is allowed runs; what it is denied, a connection that breaks, and silence do not.
"""

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.features.runner.adapters.contract import (
    HOOK_PORT,
    PROGRAM_FOLDER,
    TALK_PORT,
    Adapter,
    CliPlace,
    HookAsk,
    HookDecision,
)
from coilclaw.features.runner.adapters.known import PlacedProgram
from coilclaw.features.runner.adapters.placing import put_in_place, put_with_relay
from coilclaw.features.runner.adapters.scripted_model import ScriptedModel
from coilclaw.packets.box import BoxLimits, BoxMount, BoxSpec

if TYPE_CHECKING:
    from coilclaw.packets.ports import OpenBox
    from coilclaw.runtime.runtime import Runtime

Manner: TypeAlias = Literal["allow", "deny", "reset", "silence"]
Mode: TypeAlias = Literal["terminal", "structured"]
MANNERS: tuple[Manner, ...] = ("allow", "deny", "reset", "silence")
MODES: tuple[Mode, ...] = ("terminal", "structured")
SECONDS = 120.0
QUIET_SECONDS = 3.0
"""A program without a screen waits as long as it must: after this long without an answer it has not gone on."""
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
    mode: Mode = "terminal"

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
        self.waits = asyncio.Event()
        """Never set: its hook gives up by itself."""
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


class ProofTalk:
    """Talks to a program without a screen, and is the desk that answers in one manner only."""

    def __init__(self, adapter: Adapter, manner: Manner, model: ScriptedModel, place: CliPlace) -> None:
        self._adapter = adapter
        self._manner = manner
        self._model = model
        self._place = place
        self._cut: asyncio.StreamWriter | None = None
        self.waits = asyncio.Event()
        """It has asked, and gets no answer."""
        self.asked = False

    async def serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from coilclaw.features.runner.structured.conversation import SoFar, StructuredTalk, driver_of
        from coilclaw.features.runner.structured.serving import RelayWire

        if port != TALK_PORT:
            await self._model.serve(port, reader, writer)
            return
        wire, self._cut = RelayWire(reader, writer), writer
        hello = await wire.hello()
        so_far = SoFar(answered=hello.answered, shown=hello.shown)
        await StructuredTalk(wire, driver_of(self._adapter.name), self._place, self, so_far).run()
        if not wire.lost:
            await wire.end(0)

    async def answer(self, ask: HookAsk) -> HookDecision:
        self.asked = self.asked or MARK in ask.command
        if self.asked and self._manner in ("reset", "silence"):
            self.waits.set()
            if self._manner == "reset" and self._cut is not None:
                self._cut.transport.abort()
            await asyncio.sleep(SECONDS)
        return HookDecision(allow=self._manner == "allow", reason="This is a test.")

    def was_allowed(self, ask: HookAsk) -> bool:
        del ask
        return self._manner == "allow"

    def is_awaited(self) -> bool:
        return False


async def prove(
    app: "Runtime",
    adapter: Adapter,
    programs: Path | None,
    *,
    modes: tuple[Mode, ...] = MODES,
    manners: tuple[Manner, ...] = MANNERS,
    verb: str = "run",
) -> tuple[ProofResult, ...]:
    """Every manner in every mode, one after the other, each in a box and a folder of its own.

    `verb` is what the shipped fake does with the command; real programs are given it by their model.
    """
    return tuple([await _proved(app, adapter, programs, mode, each, verb) for mode in modes for each in manners])


async def _proved(
    app: "Runtime", adapter: Adapter, programs: Path | None, mode: Mode, manner: Manner, verb: str
) -> ProofResult:
    base = Path(app.config.sessions_dir)
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix=".proof-", dir=base.resolve()))
    model = ScriptedModel(f"touch {MARK}")
    place = _place(str(folder / "work"), f"{verb}{':' if mode == 'structured' else ''} touch {MARK}")
    put = put_with_relay if mode == "structured" else put_in_place
    answers = ProofTalk(adapter, manner, model, place) if mode == "structured" else _Answers(adapter, manner, model)
    try:
        mark = folder / "work" / MARK
        mark.parent.mkdir()
        spec = _spec(app, put(adapter, place, folder / ".home", programs), folder)
        opened = await app.open_box().open(spec, stopped=app.estop.wait, serve=answers.serve)
        try:
            await _until_settled(opened, model, mark, manner, answers.waits)
        finally:
            await opened.close()
        return ProofResult(manner=manner, asked=answers.asked, ran=mark.exists(), mode=mode)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _place(work: str, prompt: str) -> CliPlace:
    from coilclaw.features.runner.box import HOME

    return CliPlace(
        home=HOME, cwd=work, checkout=work, program=PROGRAM_FOLDER, prompt=prompt, wait_seconds=_SOON, headless=True
    )


def _spec(app: "Runtime", placed: PlacedProgram, folder: Path) -> BoxSpec:
    from coilclaw.features.runner.box import ENVIRONMENT, HOME

    work = str(folder / "work")
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


async def _until_settled(
    opened: "OpenBox", model: ScriptedModel, mark: Path, manner: Manner, waits: asyncio.Event
) -> None:
    """Until the program has gone on, whichever way, or has ended."""

    async def read_on() -> None:
        with contextlib.suppress(Exception):
            async for _ in opened.lines():
                pass
        await opened.wait()

    async def wait_long() -> None:
        await waits.wait()
        await asyncio.sleep(QUIET_SECONDS)

    reading = asyncio.ensure_future(read_on())
    told, waited = asyncio.ensure_future(model.told.wait()), asyncio.ensure_future(wait_long())
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await opened.end_input()
                await asyncio.wait({reading, told, waited}, return_when=asyncio.FIRST_COMPLETED)
                while manner == "allow" and not mark.exists() and not reading.done():
                    await asyncio.sleep(0.05)
    finally:
        for task in (reading, told, waited):
            task.cancel()
        await asyncio.gather(reading, told, waited, return_exceptions=True)
