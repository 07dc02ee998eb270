# ruff: noqa: PTH118, PTH120 - kernel paths and descriptors; pathlib adds nothing here
"""A box with namespaces: tiers A, B and C. All have the same inside; they differ in what builds it."""

import contextlib
import marshal
import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.packets.box import BoxLimits, BoxResult, BoxSpec, OnOutput, Probe
from coilclaw.packets.errors import BoxUnavailable, ConfigError
from coilclaw.packets.ports import Serve
from coilclaw.sandbox import mount_namespace
from coilclaw.sandbox.admission import admit, refusal
from coilclaw.sandbox.binaries import Programs, allow, forbid, freshness
from coilclaw.sandbox.bubblewrap import Arguments, scratches
from coilclaw.sandbox.capture import Capture
from coilclaw.sandbox.guard import Guard, hold
from coilclaw.sandbox.idmap import IdentityMaps, box_uid
from coilclaw.sandbox.layout import HOME, INSIDE_ID, TMP_BYTES, Step, command_line, environment, steps_for
from coilclaw.sandbox.limits import Group, Groups
from coilclaw.sandbox.monitor import Launch
from coilclaw.sandbox.monitor_pipes import RELEASE, MonitorPipes
from coilclaw.sandbox.mounts import Pins
from coilclaw.sandbox.opened import RunningBox, RunningStreams, open_running, open_streams
from coilclaw.sandbox.pipes import Pipes
from coilclaw.sandbox.root_thread import RootThread
from coilclaw.sandbox.route import missing
from coilclaw.sandbox.seccomp import filter_bytes, this_machine
from coilclaw.sandbox.supervise import StillAlive, Supervision
from coilclaw.sandbox.terminal import BoxTerminal

if TYPE_CHECKING:
    from coilclaw.airlock.broker.broker import Broker
    from coilclaw.sandbox.accepting import Accepting, HeldListeners
    from coilclaw.sandbox.proxy_socket import ProxySocket

_CONNECTIONS = 32
"""Connections at a time to one listener of a box; more wait."""
NO_ROUTE = "Install the packages podman, crun, slirp4netns and nftables; /dev/net/tun must be there."
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
LAUNCHER = os.path.join(os.path.dirname(__file__), "launcher.py")


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """The programs that build boxes."""

    bwrap: str
    python: str
    podman: str = ""


def order(**fields: object) -> bytes:
    """What the launcher reads: plain values only."""
    return marshal.dumps({"parent": os.getpid(), **fields})


def launcher_command(python: str, mode: str, descriptor: int) -> list[str]:
    """How the launcher is started: isolated, without site packages."""
    return [python, "-I", "-S", LAUNCHER, mode, str(descriptor)]


@contextlib.contextmanager
def handed(data: bytes) -> Iterator[int]:
    """A descriptor from which a started program reads these bytes."""
    descriptor = os.memfd_create("coilclaw", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def identity_maps(tools: Tools) -> IdentityMaps:
    """What root maps its workspaces with."""
    return IdentityMaps(python=tools.python, launcher=LAUNCHER, uid=box_uid())


class NamespacedBox:
    """Runs commands behind namespaces, mounts and a system-call filter, as an unprivileged uid."""

    def __init__(
        self, tier: Literal["A", "B", "C"], *, hide: tuple[str, ...], tools: Tools, owned: tuple[str, ...] = (),
        maps: IdentityMaps | None = None,
    ) -> None:  # fmt: skip
        """`owned` are paths that no mount may show, because their rules only apply to a workspace.

        `maps` are those that root has already.
        """
        self._tier: Literal["A", "B", "C"] = tier
        self._hide = hide
        self._unmountable = (*hide, *owned)
        self._tools = tools
        self._programs: dict[tuple[object, ...], Programs] = {}
        self._groups = Groups()
        self._maps: IdentityMaps | None = None
        if os.geteuid() == 0:
            self._maps = maps or identity_maps(tools)

    @property
    def tier(self) -> Literal["A", "B", "C"]:
        """A is bubblewrap's, B our own launcher's, C Podman's within the latter."""
        return self._tier

    def probes(self) -> list[Probe]:
        """Test each wall by its behaviour."""
        from coilclaw.sandbox.probes import probe_box

        return probe_box(self, self._hide)

    async def run(
        self, spec: BoxSpec, broker: "Callable[[BoxSpec], Broker] | None" = None,
        released: Callable[[], None] | None = None, on_output: OnOutput | None = None,
    ) -> BoxResult:  # fmt: skip
        """Run to the end. Cancelling kills everything inside before the cancellation propagates.

        A spec that grants domains needs `broker`, which creates the only thing that can be reached from inside.
        """
        admit(spec, brokered=broker is not None)
        served = self._served(spec, broker, None)
        return await self._run_alone(spec, Capture(spec.stdin, spec.limits, on_output), served, released)

    async def open(
        self, spec: BoxSpec, broker: "Callable[[BoxSpec], Broker] | None" = None, *,
        stopped: Callable[[], Awaitable[None]], serve: Serve | None = None, released: Callable[[], None] | None = None,
    ) -> RunningBox:  # fmt: skip
        """Start a program to talk to; it lives until it is closed or stopped, and no longer than this process."""
        admit(spec, brokered=broker is not None, lasting=True, served=serve is not None)
        served = self._served(spec, broker, serve)
        return await open_running(
            spec.limits.output_bytes, lambda pipes: self._run_alone(spec, pipes, served, released), stopped
        )

    async def open_terminal(
        self, spec: BoxSpec, terminal: BoxTerminal, listeners: "HeldListeners", *,
        stopped: Callable[[], Awaitable[None]], released: Callable[[], None] | None = None,
    ) -> RunningStreams:  # fmt: skip
        """Start a program on a terminal; it lives until it is closed or stopped, and no longer than this process.

        Its listeners, the broker's among them if it has domains, are only held: others accept and serve them.
        """
        admit(spec, brokered=True, lasting=True, served=True)
        held = listeners if listeners.ports else None
        if self._maps is not None:
            terminal.lend(self._maps.uid)
        return await open_streams(terminal, self._run_alone(spec, terminal, held, released), stopped)

    def _served(
        self, spec: BoxSpec, broker: "Callable[[BoxSpec], Broker] | None", serve: Serve | None
    ) -> "Accepting | None":
        """The server of the ports that can be dialled from inside."""
        served: dict[int, tuple[Serve, int]] = {}
        try:
            if broker is not None and spec.domains:
                from coilclaw.sandbox.box_listener import PORT

                served[PORT] = broker(spec).serve, spec.broker.connections
        except ConfigError as error:
            raise refusal(f"The domains cannot be granted: {error.message}.", error.remedy) from error
        if serve is not None:
            served.update(dict.fromkeys(spec.listeners, (serve, _CONNECTIONS)))
        if not served:
            return None
        from coilclaw.sandbox.accepting import Accepting

        return Accepting(served)

    async def _run_alone(
        self, spec: BoxSpec, streams: Capture | Pipes | BoxTerminal, served: "Accepting | HeldListeners | None",
        released: Callable[[], None] | None,
    ) -> BoxResult:  # fmt: skip
        """Run while pinning the protected paths and the sources of mounts."""
        guard = await hold(spec, self._hide, lasting=not isinstance(streams, Capture))
        try:
            with contextlib.closing(Pins(spec, self._unmountable)) as pins:
                result = await self._run_bounded(spec, guard, pins, streams, served, released)
        except StillAlive:
            raise  # keep the lock too: nothing it could write may be replaced
        except BaseException:
            guard.close()
            raise
        guard.close()
        return result

    async def _run_bounded(
        self, spec: BoxSpec, guard: Guard, pins: Pins, streams: Capture | Pipes | BoxTerminal,
        served: "Accepting | HeldListeners | None", released: Callable[[], None] | None,
    ) -> BoxResult:  # fmt: skip
        seat = None if self._maps is None else RootThread()
        group = self._groups.make(self._limits(spec))
        try:
            with contextlib.ExitStack() as held:
                supervision = self._supervision(spec, guard, pins, seat, group, streams, served, released, held)
                return await supervision.run()
        finally:
            try:
                if served is not None:
                    await served.close()
            finally:
                if seat is not None:
                    seat.close()
                self._groups.take_away(group)

    def _supervision(
        self, spec: BoxSpec, guard: Guard, pins: Pins, seat: RootThread | None, group: Group | None,
        streams: Capture | Pipes | BoxTerminal, served: "Accepting | HeldListeners | None",
        released: Callable[[], None] | None, held: contextlib.ExitStack,
    ) -> Supervision:  # fmt: skip
        if self._tier == "C" and (why := _beyond_podman(spec, guard)):
            raise refusal(f"Podman cannot {why} in a container.", "Run it in another tier.", "BOX_CANNOT_HOLD")
        if spec.routed and (why := missing() if self._tier == "C" else "Podman"):
            raise BoxUnavailable(f"A box with a route needs {why}.", remedy=NO_ROUTE)
        staged = self._maps is not None or (self._tier == "A" and spec.workspace_noexec)
        source = mount_namespace.WORKSPACE if staged else os.path.realpath(spec.workspace)
        mounts = tuple(mount_namespace.mounted(n) if staged else mount.source for n, mount in enumerate(spec.mounts))
        steps = steps_for(
            spec,
            guarded=guard.guarded,
            hide=self._hide,
            programs=self._programs_for(spec),
            source=source,
            mounts=mounts,
            container=self._tier == "C",
        )
        prepare = None
        if self._maps is not None:
            prepare = partial(self._take_seat, spec, guard, pins, steps, self._maps, group)
        door = None if served is None else self._door(served, spec, held)
        launch = self._launch(spec, steps, source, held, door, terminal=isinstance(streams, BoxTerminal))

        def check() -> None:
            pins.check()
            guard.check()

        return Supervision(
            launch, limits=self._limits(spec), streams=streams, seat=seat, group=group, check=check, released=released,
            prepare=prepare, door=door,
        )  # fmt: skip

    def _limits(self, spec: BoxSpec) -> BoxLimits:
        """Those of the whole box. Podman has threads of its own; the container is held to the spec's limit."""
        if self._tier != "C":
            return spec.limits
        from coilclaw.sandbox.podman import OWN_TASKS

        return msgspec.structs.replace(spec.limits, processes=spec.limits.processes + OWN_TASKS)

    def _door(self, served: "Accepting | HeldListeners", spec: BoxSpec, held: contextlib.ExitStack) -> "ProxySocket":
        """Our launcher passes its listeners out; bubblewrap's boxes need a helper that enters them."""
        from coilclaw.sandbox.proxy_socket import ProxySocket

        what = "domains" if spec.domains else "listeners"
        door = ProxySocket(served, what=what, python=self._tools.python if self._tier == "A" else None)
        held.callback(door.close)
        return door

    def _programs_for(self, spec: BoxSpec) -> Programs:
        if spec.allowed_binaries is None and not spec.forbidden_binaries:
            return Programs()
        shell = isinstance(spec.command, str)
        key = (spec.allowed_binaries, spec.forbidden_binaries, shell, *freshness())
        if key not in self._programs:
            self._programs.clear()
            if spec.allowed_binaries is None:
                self._programs[key] = forbid(spec.forbidden_binaries)
            else:
                names = tuple(name for name in spec.allowed_binaries if name not in spec.forbidden_binaries)
                self._programs[key] = allow(names, shell=shell)
        return self._programs[key]

    def _take_seat(
        self, spec: BoxSpec, guard: Guard, pins: Pins, steps: tuple[Step, ...], maps: IdentityMaps,
        group: Group | None,
    ) -> None:  # fmt: skip
        """In root's thread: a private mount namespace with the mapped workspace, and for bubblewrap without root."""
        from coilclaw.sandbox import syscalls

        def lent(owner: os.stat_result) -> int:
            return maps.descriptor(owner.st_uid, owner.st_gid)

        try:
            trees = _trees(spec, lent(guard.owner), [lent(pins.owner(mount.source)) for mount in spec.mounts])
            if group is not None:
                group.join()
            syscalls.unshare(syscalls.CLONE_FS | syscalls.CLONE_NEWNS)
            mount_namespace.prepare(trees, scratches(steps))
            if self._tier == "A":
                syscalls.thread_becomes(maps.uid, maps.uid)
        except OSError as error:
            raise BoxUnavailable(
                f"Root cannot map {spec.workspace} into a box: {error.strerror}.",
                remedy="Put the workspace on a file system with identity-mapped mounts (ext4, xfs, btrfs),"
                " or run CoilClaw as an ordinary user.",
            ) from error

    def _launch(
        self,
        spec: BoxSpec,
        steps: tuple[Step, ...],
        source: str,
        held: contextlib.ExitStack,
        door: "ProxySocket | None",
        *,
        terminal: bool,
    ) -> Launch:
        # what a shell on a terminal leaves behind ends with it, so its monitor need not be held back
        wires = MonitorPipes(holding=self._tier == "A" and not terminal)
        held.callback(wires.close)
        if self._tier == "A":
            argv, descriptors = self._bubblewrap(spec, steps, source, wires, held, terminal=terminal)
        else:
            argv, descriptors = self._launcher(spec, steps, wires, held, door, terminal=terminal)
        return Launch(
            argv=argv, descriptors=(*wires.handed, *descriptors),
            wires=wires, word=_filter(spec) if self._tier == "A" else RELEASE,
            workspace=spec.workspace, tier=self._tier, walls="namespaces", uid=self._uid,
            becomes=-1 if self._tier == "A" else self._uid,
        )  # fmt: skip

    @property
    def _uid(self) -> int:
        return -1 if self._maps is None else self._maps.uid

    def _bubblewrap(
        self, spec: BoxSpec, steps: tuple[Step, ...], source: str, wires: MonitorPipes, held: contextlib.ExitStack,
        *, terminal: bool,
    ) -> tuple[list[str], tuple[int, ...]]:  # fmt: skip
        arguments = Arguments()
        held.callback(arguments.close)
        argv = arguments.command(
            self._tools.bwrap, steps, environment=_environment(spec), cwd=os.path.normpath(spec.cwd),
            argv=command_line(spec), gate=wires.gate, status=wires.report,
            workspace=(os.path.normpath(spec.workspace), source), lifeline=wires.lifeline,
            terminal=terminal,
        )  # fmt: skip
        if self._maps is not None or not spec.workspace_noexec:
            return argv, tuple(arguments.descriptors)
        trees = _trees(spec, -1, [-1] * len(spec.mounts))
        data = order(status=wires.report, trees=trees, scratches=scratches(steps), argv=argv)
        descriptor = held.enter_context(handed(data))
        return launcher_command(self._tools.python, "stage", descriptor), (*arguments.descriptors, descriptor)

    def _launcher(
        self,
        spec: BoxSpec,
        steps: tuple[Step, ...],
        wires: MonitorPipes,
        held: contextlib.ExitStack,
        door: "ProxySocket | None",
        *,
        terminal: bool,
    ) -> tuple[list[str], tuple[int, ...]]:
        listener, ports = (-1, ()) if door is None else (door.channel, door.ports)
        writable = ["/tmp", HOME, "/dev"]  # noqa: S108 - inside the box
        writable += [os.path.normpath(spec.workspace)] if spec.workspace_writable else []
        shown = [(mount.at, mount.writable) for mount in spec.mounts]
        writable += [at for at, may_write in shown if may_write]
        pod = self._tier == "C"
        data = order(
            status=wires.report, gate=wires.gate, uid=self._uid, gid=self._uid, inside_id=0 if pod else INSIDE_ID,
            podman=self._tools.podman if pod else "", user=INSIDE_ID, processes=spec.limits.processes,
            tmp_bytes=TMP_BYTES, routed=spec.routed,
            mounts=[(os.path.normpath(spec.workspace), spec.workspace_writable), *shown],
            base=mount_namespace.BASE if self._maps is None else mount_namespace.ROOT, steps=msgspec.to_builtins(steps),
            writable=writable, filter=_filter(spec), cwd=os.path.normpath(spec.cwd), argv=command_line(spec),
            environment=_environment(spec), listener=listener, ports=ports, terminal=terminal,
        )  # fmt: skip
        descriptor = held.enter_context(handed(data))
        handed_out = (descriptor,) if listener < 0 else (descriptor, listener)
        return launcher_command(self._tools.python, "walls", descriptor), handed_out


def _beyond_podman(spec: BoxSpec, guard: Guard) -> str:
    """What a spec asks for that tier C does not do: it has whole mounts, read-only or writable."""
    if guard.guarded:
        return "protect or hide paths within the workspace"
    if spec.workspace_noexec or spec.allowed_binaries is not None or spec.forbidden_binaries:
        return "restrict programs"
    if any(set(place) & set(":,") for place in (spec.workspace, *(mount.at for mount in spec.mounts))):
        return "mount a path with a colon or a comma"
    return ""


def _trees(spec: BoxSpec, userns: int, of_mounts: list[int]) -> list[tuple[str, str, int, bool]]:
    """The trees of the stage: the workspace and every mount, each with its id mapping."""
    workspace = (os.path.realpath(spec.workspace), mount_namespace.WORKSPACE, userns, spec.workspace_noexec)
    numbered = enumerate(zip(spec.mounts, of_mounts, strict=True))
    mounts = [
        (mount.source, mount_namespace.mounted(n), each, spec.workspace_noexec and mount.writable)
        for n, (mount, each) in numbered
    ]
    return [workspace, *mounts]


def _filter(spec: BoxSpec) -> bytes:
    sockets = "stream" if (spec.domains or spec.listeners) and not spec.routed else "inet"
    return filter_bytes(this_machine(), sockets, local=spec.local_sockets)


def _environment(spec: BoxSpec) -> dict[str, str]:
    if not spec.domains:
        return environment(spec)
    from coilclaw.sandbox.box_listener import HOST, PORT

    return {**environment(spec), **dict.fromkeys(_PROXY_VARIABLES, f"http://{HOST}:{PORT}")}
