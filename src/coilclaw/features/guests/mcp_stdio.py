"""The wire to an MCP server in an open box: one JSON-RPC message per line."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from coilclaw.features.guests.mcp_client import GuestFault, Kind, Receive
from coilclaw.packets.box import BoxResult, BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import OpenBox

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

TOLD = 500
"""Characters of a program's last words on standard error."""


class StdioWire:
    """Speaks to the program in a box that the caller opened; closing the wire ends the box."""

    def __init__(
        self, box: OpenBox, *, redact: Callable[[str], str] = lambda text: text, grace_seconds: float = 2.0
    ) -> None:
        """`grace_seconds` is how long the program may take to exit by itself after its input has ended.

        `redact` is applied to its last words before they are cut: half a secret would not be found.
        """
        self._box = box
        self._redact = redact
        self._grace = grace_seconds
        self._reading: asyncio.Task[None] | None = None

    async def open(self, receive: Receive, ended: Callable[[GuestFault], None]) -> None:
        """Read lines from now on. The program waits for us in its own write, so a flood costs no memory."""
        self._reading = asyncio.ensure_future(self._read(receive, ended))

    async def send(self, message: bytes, *, kind: Kind, seconds: float) -> None:
        """Write one line; it is written whole even if the caller is cancelled meanwhile."""
        try:
            await self._box.send(message)
        except ToolError as error:
            if error.code == "TOO_LARGE":
                raise GuestFault(error.message, remedy=error.remedy, code=error.code, begun=False) from error
            raise GuestFault("It ended before it read the whole request.", code="GUEST_OVER") from error

    def agreed(self, protocol: str) -> None:
        """Lines are the same in every version."""

    async def close(self) -> None:
        """End its input, wait a moment for its exit, and kill what is left."""
        try:
            async with asyncio.timeout(self._grace):
                await self._box.end_input()
                await self._box.wait()
        except TimeoutError:
            pass
        finally:
            await self._box.close()
            if self._reading is not None:
                await asyncio.wait({self._reading})

    async def _read(self, receive: Receive, ended: Callable[[GuestFault], None]) -> None:
        fault = GuestFault("Reading from it failed.", code="GUEST_OVER")
        try:
            async for line in self._box.lines():
                if line.strip():
                    await receive(line)
            fault = _over(await self._result(), self._redact)
        except GuestFault as error:  # it broke the protocol: nothing it says later can be trusted
            fault = error
        finally:
            ended(fault)
            await self._box.close()

    async def _result(self) -> BoxResult:
        """How it ended; a program that closes its output but goes on is ended."""
        try:
            async with asyncio.timeout(self._grace):
                return await self._box.wait()
        except TimeoutError:
            return await self._box.close()


def _over(result: BoxResult, redact: Callable[[str], str]) -> GuestFault:
    why = f"It exited with code {result.exit_code}." if result.end == "exited" else f"It ended: {result.reason}"
    told = redact(result.stderr.decode("utf-8", "replace")).strip()[-TOLD:]
    return GuestFault(f"{why} It wrote: {told}" if told else why, code="GUEST_OVER")


class BoxedWire:
    """A wire to a box that is opened when the client starts."""

    def __init__(self, app: "Runtime", spec: BoxSpec) -> None:
        self._app = app
        self._spec = spec
        self._wire: StdioWire | None = None

    async def open(self, receive: Receive, ended: Callable[[GuestFault], None]) -> None:
        box = self._app.open_box()
        if self._spec.domains:
            from coilclaw.sandbox.box import reaching

            box = reaching(box, self._app.transport)
        opened = await box.open(self._spec, stopped=self._app.estop.wait)
        self._wire = StdioWire(opened, redact=self._app.redact)
        await self._wire.open(receive, ended)

    async def send(self, message: bytes, *, kind: Kind, seconds: float) -> None:
        assert self._wire is not None  # noqa: S101 - a client opens its wire first
        await self._wire.send(message, kind=kind, seconds=seconds)

    def agreed(self, protocol: str) -> None:
        if self._wire is not None:
            self._wire.agreed(protocol)

    async def close(self) -> None:
        if self._wire is not None:
            await self._wire.close()
