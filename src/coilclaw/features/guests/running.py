"""The MCP servers that run for this process: started at their first call, compared with their pins, ended when idle.

Each start and each end has a receipt and an audit event. A server that crashed is started again by a later call, after
a pause that grows; a call that was in flight is never repeated here.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.guests.given import guest_folder, own_environment, program_of, secrets_of
from coilclaw.features.guests.listing import offer_of
from coilclaw.features.guests.mcp_client import (
    CallResult,
    GuestFault,
    GuestUnauthorized,
    McpClient,
    McpWire,
)
from coilclaw.features.guests.offer import GuestGrant, GuestOffer, OfferedTool, Pin, grant_of, withheld
from coilclaw.features.guests.pending_calls import withdraw_calls
from coilclaw.features.guests.program import GuestProgram
from coilclaw.features.guests.store import CHANGED, load_guest, put_fault, put_seen
from coilclaw.ledger.audit import add_event
from coilclaw.ledger.chain import OwnDeed
from coilclaw.packets.box import BROKER_FOR_HOURS, BoxLimits, BoxSpec
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.ports import Context
from coilclaw.packets.text import one_line
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.config.mcp import McpServer
    from coilclaw.runtime.runtime import Runtime

START_SECONDS = 60.0
LINE_BYTES = 8 << 20
"""The longest message a server may send."""
LONGEST_PAUSE = 300.0
WATCH_SECONDS = 1.0
"""How often is looked whether the owner still lets a guest in that runs."""
RELIST_SECONDS = 15.0
"""A server over HTTP need not tell that its tools changed, so an older list is asked for again before a call."""
_ENDED = ("GUEST_OVER", "GUEST_PROTOCOL")
"""Codes of faults after which nothing more can be said to a guest."""


class _Running:
    """One server that runs, and what it offers now."""

    def __init__(self, client: McpClient, pin: Pin, version: str, grant: GuestGrant) -> None:
        self.client = client
        self.pin = pin
        self.version = version
        self.grant = grant
        self.withheld: dict[str, str] = {}
        self.listed_at = 0.0
        self.relist_from = 0.0
        """Before this moment it is not asked again for having said that its tools changed."""
        self.calls = 0
        self.idle: asyncio.TimerHandle | None = None
        self.watch: asyncio.Task[None] | None = None

    @property
    def unheard_for(self) -> float:
        """For how many seconds it could not have told that its tools changed."""
        return time.monotonic() - self.listed_at if self.grant.kind == "http" else 0.0

    def rest_no_more(self) -> None:
        """Nobody waits any longer for it to be idle or switched off."""
        if self.idle is not None:
            self.idle.cancel()
        if self.watch is not None and self.watch is not asyncio.current_task():
            self.watch.cancel()


class _Place:
    """What is known about one guest in this process, whether it runs or not."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.running: _Running | None = None
        self.pin = ""
        self.crashes = 0
        self.not_before = 0.0
        self.token = ""
        """The last access token that was sent."""
        self.rejected = ""
        """The one that the server refused: another is fetched before the next request."""


class RunningGuests:
    """Starts, keeps and ends servers."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._places: dict[str, _Place] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def call(
        self,
        pin: Pin,
        tool: OfferedTool,
        arguments: dict[str, Json],
        context: Context,
        *,
        idle_seconds: float,
    ) -> CallResult:
        """Call a pinned tool; ToolError if the guest is not what was pinned, GuestFault if it breaks off.

        If it had ended before it heard of the call, it is started again, once.
        """
        place = self._places.setdefault(pin.offer.name, _Place())
        for last in (False, True):
            try:
                return await self._call(place, pin, tool, arguments, context, idle_seconds)
            except GuestUnauthorized as fault:
                if last or fault.begun or not place.token:  # begun: the call was taken, only its answer was refused
                    raise
                place.rejected, place.token = place.token, ""
            except GuestFault as fault:
                if last or fault.begun or fault.code not in _ENDED or place.crashes > 1:
                    raise
        raise AssertionError

    async def _call(
        self,
        place: _Place,
        pin: Pin,
        tool: OfferedTool,
        arguments: dict[str, Json],
        context: Context,
        idle_seconds: float,
    ) -> CallResult:
        name = pin.offer.name
        async with place.lock:
            running = await self._started(place, pin, context)
            if running.idle is None:
                self._rest(place, running, idle_seconds)  # also if this call is not made in the end
            if running.client.tools_changed or running.unheard_for > RELIST_SECONDS:
                await self._compare_again(place, running, pin)
        if why := running.withheld.get(tool.original):
            raise ToolError(
                f"{name}.{tool.original.lower()} is withheld: {why}.",
                remedy=f"The owner can look at it and approve it: `coilclaw mcp approve {name}`.",
                code="GUEST_CHANGED",
                begun=False,
            )
        running.calls += 1
        if running.idle is not None:
            running.idle.cancel()
        try:
            with _shown_live(context) as on_progress:
                seconds = pin.offer.grant.call_seconds
                result = await running.client.call(tool.original, arguments, seconds=seconds, on_progress=on_progress)
        except GuestFault as fault:
            if fault.code in _ENDED:
                await self._crashed(place, running, fault)
            raise
        else:
            place.crashes = 0
            return result
        finally:
            running.calls -= 1
            if not running.calls and place.running is running:
                self._rest(place, running, idle_seconds)

    async def look(self, name: str, server: "McpServer") -> GuestOffer:
        """Start a server, see what it offers, and end it."""
        client, grant = await self._open(name, server)
        try:
            info = await client.start()
            return await offer_of(self._app, client, name, info.version, grant)
        finally:
            await client.close()

    async def check(self, pin: Pin) -> dict[str, str]:
        """Start a pinned guest, compare it with its pin, and end it; which of its tools would be withheld, and why."""
        if pin.offer.grant.kind == "plugin":
            return await self._check_plugin(pin)
        place = _Place()
        running = await self._started(place, pin, None)
        await self._end(place, "it was only looked at")
        return running.withheld

    async def _check_plugin(self, pin: Pin) -> dict[str, str]:
        from coilclaw.features.guests.plugin_call import start_plugin

        try:
            await start_plugin(self._app, pin)
        except (CoilclawError, asyncio.CancelledError) as error:
            why = self._app.redact(str(error))[:500] or "it was cancelled"
            await self._note("guest_failed", pin, {"why": why}, code=str(getattr(error, "code", "")) or "CANCELLED")
            raise
        await self._note("guest_started", pin, {"pin": pin.digest, "version": ""})
        await self._note("guest_ended", pin, {"why": "it was only looked at"})
        return {}

    async def close(self) -> None:
        """End everything that runs."""
        for place in list(self._places.values()):
            async with place.lock:
                await self._end(place, "this process ends")
        if self._ending:
            await asyncio.wait(self._ending)

    # Starting

    async def _started(self, place: _Place, pin: Pin, context: Context | None) -> _Running:
        name = pin.offer.name
        if place.pin != pin.digest:
            await self._end(place, "it was approved anew")
            place.pin, place.crashes, place.not_before = pin.digest, 0, 0.0
        if place.running is not None:
            return place.running
        left = place.not_before - time.monotonic()
        if left > 0:
            raise ToolError(
                f"{name} ended unexpectedly and is paused for {left:.0f} more seconds.",
                remedy="Try again then; `coilclaw mcp log` says why it ended.",
                code="GUEST_RESTS",
                begun=False,
            )
        server = self._app.config.mcp.servers.get(name)
        if server is None:
            raise ToolError(f"there is no [mcp.servers.{name}] any more.", code="GUEST_GONE", begun=False)
        try:
            running = await self._start(name, server, pin, context)
        except (CoilclawError, asyncio.CancelledError) as error:
            if isinstance(error, GuestFault):  # it ran and broke off; anything else is found out before it runs
                self._pause(place)
            why = self._app.redact(str(error)) or "it was cancelled"
            code = str(getattr(error, "code", "")) or "CANCELLED"
            fault = CHANGED if code == "GUEST_CHANGED" else why
            if fault == CHANGED:
                await self._told_once(name)
            await self._note("guest_failed", pin, {"why": why[:500]}, code=code, fault=fault, context=context)
            if isinstance(error, GuestFault):
                error.begun = False
            raise
        place.running = running
        running.watch = asyncio.ensure_future(self._watch(place, running, pin))
        return running

    async def _start(self, name: str, server: "McpServer", pin: Pin, context: Context | None) -> _Running:
        client, grant = await self._open(name, server)
        if grant != pin.offer.grant:  # nothing of it runs, not even to list its tools
            raise ToolError(
                f"{name} is not what was approved: its program, or what it is given, has changed.",
                remedy=f"The owner can look at it and approve it: `coilclaw mcp approve {name}`.",
                code="GUEST_CHANGED",
                begun=False,
            )
        try:
            info = await client.start()
            running = _Running(client, pin, info.version, grant)
            await self._compare(running, pin)
            version = self._app.redact(info.version)[:100]
            await self._note("guest_started", pin, {"pin": pin.digest, "version": version}, fault="", context=context)
        except BaseException:
            await client.close()
            raise
        return running

    async def _open(self, name: str, server: "McpServer") -> tuple[McpClient, GuestGrant]:
        """A client that is not started yet, and what the guest is given."""
        if server.kind == "http":
            return McpClient(self._http_wire(name, server), seconds=START_SECONDS), grant_of(server, "")
        from coilclaw.features.guests.mcp_stdio import BoxedWire

        program = await asyncio.to_thread(program_of, self._app, server)
        wire = BoxedWire(self._app, self._spec(name, server, program))
        return McpClient(wire, seconds=START_SECONDS), grant_of(server, program.digest)

    def _spec(self, name: str, server: "McpServer", program: GuestProgram) -> BoxSpec:
        folder = guest_folder(self._app, name)
        return BoxSpec(
            command=program.argv,
            workspace=str(folder),
            cwd=str(folder),
            environment=(*own_environment(folder), *secrets_of(self._app, server.env)),
            domains=server.domains,
            mounts=program.mounts,
            broker=BROKER_FOR_HOURS,
            limits=BoxLimits(
                wall_seconds=None,
                cpu_seconds=None,
                memory_bytes=server.memory_mb << 20,
                output_bytes=LINE_BYTES,
                address_space=False,
            ),
        )

    def _http_wire(self, name: str, server: "McpServer") -> McpWire:
        from coilclaw.features.guests.mcp_http import HttpWire
        from coilclaw.runtime.reachable import transport_under

        config = self._app.config
        with_it = msgspec.structs.replace(config.mcp, servers={**config.mcp.servers, name: server})
        transport = transport_under(self._app, msgspec.structs.replace(config, mcp=with_it))

        async def headers() -> tuple[tuple[str, str], ...]:
            found = dict(secrets_of(self._app, tuple(server.headers.values())))
            given = tuple((header, found[secret]) for header, secret in server.headers.items())
            if not server.oauth_hosts:
                return given
            from coilclaw.features.guests.signing_in import bearer

            place = self._places.setdefault(name, _Place())
            signed = await bearer(self._app, name, server.url, place.rejected)
            place.token, place.rejected = signed[1].partition(" ")[2], ""
            return (*given, signed)

        return HttpWire(transport, server.url, headers=headers, listens=True)

    # What it offers now

    async def _compare(self, running: _Running, pin: Pin) -> None:
        name, running.listed_at = pin.offer.name, time.monotonic()
        seen = await offer_of(self._app, running.client, name, running.version, running.grant)
        running.withheld = withheld(pin, seen)

        def write(tx: Tx) -> None:
            row = load_guest(tx, name)
            if row is None or row.seen == seen:
                return
            put_seen(tx, seen)
            before = row.seen or pin.offer
            first = before.tools == pin.offer.tools != seen.tools  # what is not let in may change all day
            if first or (running.withheld and running.withheld != withheld(pin, before)):
                add_event(tx, self._app.clock, "guest_changed", name, {"tools": [*running.withheld]})

        await self._app.db.write(write)
        if running.withheld:
            await withdraw_calls(self._app, name, running.withheld)

    async def _told_once(self, name: str) -> None:
        """Note that a guest's program, or what it is given, changed, when that is new."""

        def write(tx: Tx) -> None:
            row = load_guest(tx, name)
            if row is not None and row.fault != CHANGED:
                add_event(tx, self._app.clock, "guest_changed", name, {"tools": []})

        await self._app.db.write(write)

    async def _compare_again(self, place: _Place, running: _Running, pin: Pin) -> None:
        try:
            await self._compare(running, pin)
        except GuestFault as fault:
            if fault.code in _ENDED:
                await self._crashed(place, running, fault)
            raise

    # Ending

    def _rest(self, place: _Place, running: _Running, seconds: float) -> None:
        running.idle = asyncio.get_running_loop().call_later(seconds, self._end_idle, place, running)

    def _end_idle(self, place: _Place, running: _Running) -> None:
        async def end() -> None:
            async with place.lock:
                if place.running is running and not running.calls:
                    await self._end(place, "it was idle")

        task = asyncio.ensure_future(end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _watch(self, place: _Place, running: _Running, pin: Pin) -> None:
        """End it once the owner switched it off or took something back, in whichever process."""
        while place.running is running:
            await asyncio.sleep(WATCH_SECONDS)
            if running.client.fault is not None:
                await self._crashed(place, running, running.client.fault)
            if self._is_in_force(pin):
                if running.client.tools_changed and time.monotonic() >= running.relist_from:
                    running.relist_from = time.monotonic() + RELIST_SECONDS
                    await self._relist(place, running, pin)
                continue
            why = "everything was stopped" if self._app.estop.engaged() else "the owner does not let it in any more"
            async with place.lock:
                if place.running is running:
                    await self._end(place, why)

    async def _relist(self, place: _Place, running: _Running, pin: Pin) -> None:
        """See what changed, though nobody calls it."""
        async with place.lock:
            if place.running is running and running.client.tools_changed:
                with suppress(CoilclawError):  # the next call says why
                    await self._compare_again(place, running, pin)

    def _is_in_force(self, pin: Pin) -> bool:
        from coilclaw.features.guests.guests import guests_of
        from coilclaw.features.guests.probes import must_be_listed

        try:
            self._app.refresh()  # config.toml may have changed while nobody called
            row = load_guest(self._app.db.reader, pin.offer.name)
            must_be_listed(self._app, pin.offer.grant)
            if self._app.estop.engaged():
                return False
        except Exception:  # fail closed: a later call starts it again, if it may
            return False
        is_pinned = row is not None and row.enabled and row.pin == pin
        return is_pinned and guests_of(self._app).is_configured(pin)

    async def _crashed(self, place: _Place, running: _Running, fault: GuestFault) -> None:
        if place.running is running:
            place.running = None
            running.rest_no_more()
            self._pause(place)
            with suppress(CoilclawError):
                await running.client.close()
            why = self._app.redact(fault.message)[:300]
            await self._note("guest_ended", running.pin, {"why": why}, code=fault.code)

    def _pause(self, place: _Place) -> None:
        place.crashes += 1
        place.not_before = time.monotonic() + min(2.0 ** (place.crashes - 1), LONGEST_PAUSE) * (place.crashes > 1)

    async def _end(self, place: _Place, why: str) -> None:
        running, place.running = place.running, None
        if running is None:
            return
        running.rest_no_more()
        with suppress(CoilclawError):
            await running.client.close()
        await self._note("guest_ended", running.pin, {"why": why})

    async def _note(
        self,
        event: str,
        pin: Pin,
        told: dict[str, Json],
        *,
        code: str = "",
        fault: str | None = None,
        context: Context | None = None,
    ) -> None:
        """Write a start or an end down: a receipt, and an event whose details the receipt's hash covers.

        With a code it failed. What came of it is not the causing call's outcome, which has a receipt of its own.
        """
        app, name = self._app, pin.offer.name
        deed = OwnDeed(
            name="guest_end" if event == "guest_ended" else "guest_start",
            subject={"guest": name, "pin": pin.digest},
            result=told,
            status="failed" if code else "allowed",
            code=code or event.upper(),
            digest=pin.digest,
            policy_hash=app.policy().hash,
            conversation_id="" if context is None else context.thread_id,
            cause="" if context is None else context.action_id,
        )

        def write(tx: Tx) -> None:
            if fault is not None:
                put_fault(tx, name, fault)
            receipt = app.ledger.add_deed(tx, deed)
            add_event(tx, app.clock, event, name, {**told, "receipt_id": receipt.id})

        await app.db.write(write)


@contextmanager
def _shown_live(context: Context) -> Iterator[Callable[[str], None] | None]:
    """Have reports of progress shown with the call, line by line."""
    if context.during is None:
        yield None
        return
    with context.during() as write:
        yield lambda report: write("stdout", f"{one_line(report)}\n".encode("utf-8", "replace"))
