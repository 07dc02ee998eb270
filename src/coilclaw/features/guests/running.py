"""The MCP servers that run for this process: started at their first call, compared with their pins, ended when idle.

Each start and each end is an audit event. A server that crashed is started again by a later call, after a pause that
grows; a call that was in flight is never repeated here.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.guests.mcp_client import (
    CallResult,
    GuestFault,
    GuestUnauthorized,
    Kind,
    McpClient,
    McpWire,
    Receive,
)
from coilclaw.features.guests.mcp_messages import ListedTool
from coilclaw.features.guests.names import alike, tool_fault
from coilclaw.features.guests.offer import (
    CLAIMS,
    DESCRIPTION,
    GuestGrant,
    GuestOffer,
    OfferedTool,
    Pin,
    grant_of,
    withheld,
)
from coilclaw.features.guests.program import find_program, folder_mounts, must_be_apart
from coilclaw.features.guests.schemas import schema_fault
from coilclaw.features.guests.store import load_guest, put_fault, put_seen
from coilclaw.ledger.audit import add_event
from coilclaw.packets.box import BROKER_FOR_HOURS, BoxLimits, BoxMount, BoxSpec
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, ToolError
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
_ENDED = ("GUEST_OVER", "GUEST_PROTOCOL")
"""Codes of faults after which nothing more can be said to a guest."""


class _Running:
    """One server that runs, and what it offers now."""

    def __init__(self, client: McpClient, version: str, grant: GuestGrant) -> None:
        self.client = client
        self.version = version
        self.grant = grant
        self.withheld: dict[str, str] = {}
        self.calls = 0
        self.idle: asyncio.TimerHandle | None = None
        self.watch: asyncio.Task[None] | None = None

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
        *,
        idle_seconds: float,
    ) -> CallResult:
        """Call a pinned tool; ToolError if the guest is not what was pinned, GuestFault if it breaks off.

        If it had ended before it heard of the call, it is started again, once.
        """
        place = self._places.setdefault(pin.offer.name, _Place())
        for last in (False, True):
            try:
                return await self._call(place, pin, tool, arguments, idle_seconds)
            except GuestUnauthorized as fault:
                if last or fault.begun or not place.token:  # begun: the call was taken, only its answer was refused
                    raise
                place.rejected, place.token = place.token, ""
            except GuestFault as fault:
                if last or fault.begun or fault.code not in _ENDED or place.crashes > 1:
                    raise
        raise AssertionError

    async def _call(
        self, place: _Place, pin: Pin, tool: OfferedTool, arguments: dict[str, Json], idle_seconds: float
    ) -> CallResult:
        name = pin.offer.name
        async with place.lock:
            running = await self._started(place, pin)
            if running.idle is None:
                self._rest(place, name, running, idle_seconds)  # also if this call is not made in the end
            if running.client.tools_changed:
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
            result = await running.client.call(tool.original, arguments, seconds=pin.offer.grant.call_seconds)
        except GuestFault as fault:
            if fault.code in _ENDED:
                await self._crashed(place, name, running, fault)
            raise
        else:
            place.crashes = 0
            return result
        finally:
            running.calls -= 1
            if not running.calls and place.running is running:
                self._rest(place, name, running, idle_seconds)

    async def look(self, name: str, server: "McpServer") -> GuestOffer:
        """Start a server, see what it offers, and end it."""
        client, grant = await self._open(name, server)
        try:
            info = await client.start()
            return await _offer(self._app, client, name, info.version, grant)
        finally:
            await client.close()

    async def close(self) -> None:
        """End everything that runs."""
        for name, place in list(self._places.items()):
            async with place.lock:
                await self._end(place, name, "this process ends")
        if self._ending:
            await asyncio.wait(self._ending)

    # Starting

    async def _started(self, place: _Place, pin: Pin) -> _Running:
        name = pin.offer.name
        if place.running is not None and place.pin != pin.digest:
            await self._end(place, name, "it was approved anew")
            place.crashes = 0
        if place.running is not None:
            return place.running
        left = place.not_before - time.monotonic()
        if left > 0:
            raise ToolError(
                f"{name} ended unexpectedly and rests for {left:.0f} more seconds.",
                remedy="Try again then; `coilclaw mcp log` tells why it ended.",
                code="GUEST_RESTS",
                begun=False,
            )
        server = self._app.config.mcp.servers.get(name)
        if server is None:
            raise ToolError(f"there is no [mcp.servers.{name}] any more.", code="GUEST_GONE", begun=False)
        try:
            running = await self._start(name, server, pin)
        except CoilclawError as error:
            self._pause(place)
            await self._note("guest_failed", name, {"why": self._app.redact(str(error))[:500]}, fault=str(error))
            if isinstance(error, GuestFault):
                error.begun = False
            raise
        place.running, place.pin = running, pin.digest
        running.watch = asyncio.ensure_future(self._watch(place, running, pin))
        return running

    async def _start(self, name: str, server: "McpServer", pin: Pin) -> _Running:
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
            running = _Running(client, info.version, grant)
            await self._compare(running, pin)
            version = self._app.redact(info.version)[:100]
            await self._note("guest_started", name, {"pin": pin.digest, "version": version})
        except BaseException:
            await client.close()
            raise
        return running

    async def _open(self, name: str, server: "McpServer") -> tuple[McpClient, GuestGrant]:
        """A client that is not started yet, and what the guest is given."""
        if server.kind == "http":
            return McpClient(self._http_wire(name, server), seconds=START_SECONDS), grant_of(server, "")
        program = await asyncio.to_thread(find_program, server.command, self._app.environ.get("PATH", "/usr/bin:/bin"))
        grant = grant_of(server, program.digest)
        spec = self._spec(name, server, program.argv)
        must_be_apart(program.mounts, worked_in(self._app))
        mounts = (*program.mounts, *granted_folders(self._app, server.read, server.write))
        spec = msgspec.structs.replace(spec, mounts=mounts)
        return McpClient(_Boxed(self._app, spec), seconds=START_SECONDS), grant

    def _spec(self, name: str, server: "McpServer", argv: tuple[str, ...]) -> BoxSpec:
        folder = guest_folder(self._app, name)
        return BoxSpec(
            command=argv,
            workspace=str(folder),
            cwd=str(folder),
            environment=(*own_environment(folder), *secrets_of(self._app, server.env)),
            domains=server.domains,
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

        return HttpWire(transport, server.url, headers=headers)

    # What it offers now

    async def _compare(self, running: _Running, pin: Pin) -> None:
        name = pin.offer.name
        seen = await _offer(self._app, running.client, name, running.version, running.grant)
        running.withheld = withheld(pin, seen)
        if seen.digest != pin.offer.digest:
            await self._app.db.write(lambda tx: put_seen(tx, seen))
            if running.withheld:
                await self._note("guest_changed", name, {"tools": [*running.withheld]})

    async def _compare_again(self, place: _Place, running: _Running, pin: Pin) -> None:
        try:
            await self._compare(running, pin)
        except GuestFault as fault:
            if fault.code in _ENDED:
                await self._crashed(place, pin.offer.name, running, fault)
            raise

    # Ending

    def _rest(self, place: _Place, name: str, running: _Running, seconds: float) -> None:
        running.idle = asyncio.get_running_loop().call_later(seconds, self._end_idle, place, name, running)

    def _end_idle(self, place: _Place, name: str, running: _Running) -> None:
        async def end() -> None:
            async with place.lock:
                if place.running is running and not running.calls:
                    await self._end(place, name, "it was idle")

        task = asyncio.ensure_future(end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _watch(self, place: _Place, running: _Running, pin: Pin) -> None:
        """End it once the owner switched it off or took something back, in whichever process."""
        while place.running is running:
            await asyncio.sleep(WATCH_SECONDS)
            if self._is_in_force(pin):
                continue
            async with place.lock:
                if place.running is running:
                    await self._end(place, pin.offer.name, "the owner does not let it in any more")

    def _is_in_force(self, pin: Pin) -> bool:
        from coilclaw.features.guests.guests import guests_of
        from coilclaw.features.guests.probes import must_be_listed

        try:
            row = load_guest(self._app.db.reader, pin.offer.name)
            must_be_listed(self._app, pin.offer.grant)
        except Exception:  # fail closed: a later call starts it again, if it may
            return False
        is_pinned = row is not None and row.enabled and row.pin == pin
        return is_pinned and guests_of(self._app).is_configured(pin)

    async def _crashed(self, place: _Place, name: str, running: _Running, fault: GuestFault) -> None:
        if place.running is running:
            place.running = None
            running.rest_no_more()
            self._pause(place)
            with suppress(CoilclawError):
                await running.client.close()
            await self._note("guest_ended", name, {"why": self._app.redact(fault.message)[:300]})

    def _pause(self, place: _Place) -> None:
        place.crashes += 1
        place.not_before = time.monotonic() + min(2.0 ** (place.crashes - 1), LONGEST_PAUSE) * (place.crashes > 1)

    async def _end(self, place: _Place, name: str, why: str) -> None:
        running, place.running = place.running, None
        if running is None:
            return
        running.rest_no_more()
        with suppress(CoilclawError):
            await running.client.close()
        await self._note("guest_ended", name, {"why": why})

    async def _note(self, event: str, name: str, fields: dict[str, Json], *, fault: str | None = None) -> None:
        def write(tx: Tx) -> None:
            if fault is not None:
                put_fault(tx, name, self._app.redact(fault))
            add_event(tx, self._app.clock, event, name, fields)

        await self._app.db.write(write)


class _Boxed:
    """A wire to a box that is opened when the client starts."""

    def __init__(self, app: "Runtime", spec: BoxSpec) -> None:
        self._app = app
        self._spec = spec
        self._wire: McpWire | None = None

    async def open(self, receive: Receive, ended: Callable[[GuestFault], None]) -> None:
        from coilclaw.features.guests.mcp_stdio import StdioWire

        box = self._app.open_box()
        if self._spec.domains:
            from coilclaw.sandbox.box import reaching

            box = reaching(box, self._app.transport)
        opened = await box.open(self._spec, stopped=self._app.estop.wait)
        self._wire = StdioWire(opened)
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


def guest_folder(app: "Runtime", name: str) -> Path:
    """The guest's own folder, outside the home, which no box sees, and outside the workspace."""
    from coilclaw.config.mcp import guests_dir

    folder = guests_dir(app.config.workspace_dir) / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def own_environment(folder: Path) -> tuple[tuple[str, str], ...]:
    """What every guest finds. Compiled code beside a program is not part of its hash, so Python must not look there."""
    return (("LANG", "C.UTF-8"), ("HOME", str(folder)), ("PYTHONPYCACHEPREFIX", str(folder / ".pycache")))


def worked_in(app: "Runtime") -> list[Path]:
    """The folders that calls of the agent, or of guests, can change."""
    from coilclaw.config.mcp import guests_dir
    from coilclaw.store.projects import open_projects

    projects = [Path(project.path) for project in open_projects(app.db.reader)]
    return [app.config.workspace_dir, app.config.trees_dir, guests_dir(app.config.workspace_dir), *projects]


def granted_folders(app: "Runtime", read: tuple[str, ...], write: tuple[str, ...]) -> tuple[BoxMount, ...]:
    """The owner's folders that a guest is given; a UsageError if it cannot be given one of them."""
    mounts = folder_mounts(read, write, app.user_home)
    must_be_apart(mounts, worked_in(app) if mounts else ())
    return mounts


def secrets_of(app: "Runtime", names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Named secrets as environment variables; one that is missing is an error with the remedy."""
    found: list[tuple[str, str]] = []
    for name in names:
        value = app.keyring.get(name, "")
        if not value:
            raise ToolError(
                f"the secret {name} is not set.",
                remedy=f"Store it with `coilclaw secret set {name}`.",
                code="SECRET_MISSING",
                begun=False,
            )
        found.append((name, value))
    return tuple(found)


async def _offer(app: "Runtime", client: McpClient, name: str, version: str, grant: GuestGrant) -> GuestOffer:
    """What a started server offers, in the order of names; what cannot be let in is told."""
    tools: list[OfferedTool] = []
    faults: list[str] = []
    listed = await client.list_tools()
    twins = alike(tool.name for tool in listed)
    for tool in sorted(listed, key=lambda each: each.name):
        fault = tool_fault(tool.name) or schema_fault(tool.input_schema)
        if not fault and tool.output_schema is not None:
            fault = schema_fault(tool.output_schema)
        if tool.name in twins:
            fault = "its name looks like that of another tool"
        if _tells_a_secret(app, tool):
            fault = "it repeats one of your secrets"
        if fault:
            faults.append(f"{app.redact(tool.name)[:80]}: {fault}")
            continue
        offered = OfferedTool(
            original=tool.name,
            description=tool.description[:DESCRIPTION],
            parameters=tool.input_schema,
            output=tool.output_schema,
            claims={key: tool.annotations[key] for key in CLAIMS if isinstance(tool.annotations.get(key), bool)},
        )
        tools.append(offered)
    version = app.redact(version)[:100]
    return GuestOffer(name=name, version=version, grant=grant, tools=tuple(tools), faults=tuple(faults))


def _tells_a_secret(app: "Runtime", tool: ListedTool) -> bool:
    """Whether a registered secret stands in what would be stored, and sent to models with every request."""
    words = f"{tool.name}\n{tool.description}\n{msgspec.json.encode((tool.input_schema, tool.output_schema)).decode()}"
    return app.redactor.registered(words) != words
