"""The server's end of a structured program: its relay is on the other, in the box."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.runner.adapters.known import adapter_of
from coilclaw.features.runner.structured.conversation import LINE_BYTES, SoFar, StructuredTalk, driver_of
from coilclaw.packets.canonical import Json

if TYPE_CHECKING:
    from coilclaw.features.runner.hooks import HookDesk
    from coilclaw.features.runner.store import Session
    from coilclaw.runtime.runtime import Runtime

_HEAD = struct.Struct(">IB")
_HELLO_BYTES = 32 << 20
_BYTES_A_MINUTE = 256 << 20
"""Reading holds up the whole server for a moment: a program that says more is read more slowly."""
TASK_FAILED = 3
"""How a relay ends whose program said that it could not do its task: as good a program as any may."""
_BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, asyncio.IncompleteReadError, OSError, ValueError)


class RelayHello(msgspec.Struct, frozen=True):
    """What a relay tells first."""

    answered: dict[int, bool] = {}
    shown: int = 0
    forgot: bool = False
    """It could not keep everything that the program said."""


class _Ended(msgspec.Struct, frozen=True):
    status: int = 0
    stderr: str = ""


class RelayWire:
    """One connection of a relay. Whoever it is, it is that session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ended: _Ended | None = None
        self.lost = False
        """The connection broke before the program had ended."""
        self.on_note: Callable[[str], None] = lambda _: None
        self.on_line: Callable[[], None] = lambda: None
        self._read = 0
        self._since = time.monotonic()

    async def hello(self) -> RelayHello:
        """How far the server before came; raises ValueError on anything else."""
        kind, content = await self._frame(_HELLO_BYTES)
        if kind != "H":
            raise ValueError("not a relay")
        return msgspec.json.decode(content, type=RelayHello, strict=False)

    async def lines(self) -> AsyncIterator[bytes]:
        """What the program says, to its end or until the relay is gone."""
        try:
            while True:
                kind, content = await self._frame(LINE_BYTES)
                if kind == "L":
                    self.on_line()
                    yield content
                elif kind == "T":
                    self.on_note(content.decode("utf-8", "replace")[:4000])
                elif kind == "X":
                    self._ended = msgspec.json.decode(content, type=_Ended)
                    return
        except _BROKEN:
            self.lost = True

    async def _frame(self, most: int) -> tuple[str, bytes]:
        length, kind = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
        if length > most:
            raise ValueError("too long")
        content = await self._reader.readexactly(length)
        self._read += length
        while self._read > _BYTES_A_MINUTE * max(1.0, (time.monotonic() - self._since) / 60):
            await asyncio.sleep(1.0)
        return chr(kind), content

    async def send(self, lines: bytes, *, about: int, yes: bool, note: bool = False) -> None:
        """Lines for the program, in one piece, and which of its lines they answer."""
        await self._write("M", {"about": about, "yes": yes, "note": note, "line": f"{lines.decode()}\n"})

    async def show(self, text: str) -> None:
        """A line for the terminal."""
        await self._write("S", {"text": text})

    async def heard(self, number: int) -> None:
        """A line was dealt with."""
        await self._write("A", {"about": number})

    async def end(self, status: int) -> None:
        """Nothing more is wanted of the program."""
        await self._write("E", {"status": status})

    async def _write(self, kind: str, content: Json) -> None:
        data = msgspec.json.encode(content)
        self._writer.write(_HEAD.pack(len(data), ord(kind)) + data)
        await self._writer.drain()

    async def close(self) -> str:
        """How the program ended, in words; the relay stays."""
        if self._ended is None:
            return "."
        return f" (status {self._ended.status}). {self._ended.stderr}"


class ServedTalk:
    """Talks to the program of one session, while a server follows it."""

    def __init__(
        self, app: "Runtime", session: "Session", desk: "HookDesk", unguarded: Callable[[str], Awaitable[None]]
    ) -> None:
        self._app = app
        self._session = session
        self._desk = desk
        self._unguarded = unguarded

    async def serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One relay, until its program has ended or the connection breaks: then it comes again."""
        del port
        from coilclaw.features.runner.adapters.placing import place_of
        from coilclaw.features.runner.box import room_of

        session, wire = self._session, RelayWire(reader, writer)
        adapter = adapter_of(session.spec.provider)
        assert adapter is not None  # noqa: S101 - a shell has no desk
        assert session.checkout is not None  # noqa: S101 - it runs
        try:
            hello = await wire.hello()
        except _BROKEN:
            return
        if hello.forgot:
            await wire.show("The server was started anew, and this talk is too long to be gone on with.")
            await wire.end(1)
            return
        place = place_of(self._app, adapter, session, room_of(session.checkout, session.spec.room_path))
        so_far = SoFar(answered=hello.answered, shown=hello.shown)
        talk = StructuredTalk(wire, driver_of(adapter.name), place, self._desk, so_far)

        def note(text: str) -> None:
            talk.note(text)
            self._desk.line_arrived()

        wire.on_note, wire.on_line = note, self._desk.called
        outcome = await talk.run()
        if outcome.code == "UNGUARDED":
            await self._unguarded(outcome.text)
        elif not wire.lost:
            if outcome.code != "FINISHED":
                await talk.say(f"It failed: {outcome.text}")
            await wire.end({"FINISHED": 0, "FAILED": TASK_FAILED}.get(outcome.code, 1))
            await reader.read(1)  # until it has gone: the next connection would be the same talk again
