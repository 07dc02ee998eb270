# ruff: noqa: PTH118, PTH120 - kernel paths and descriptors; pathlib adds nothing here
"""A box with walls: tiers A and B. Both show the same inside; they differ in what builds it."""

import contextlib
import marshal
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.packets.box import BoxResult, BoxSpec, Probe
from coilclaw.packets.errors import BoxUnavailable, ConfigError
from coilclaw.sandbox import stage
from coilclaw.sandbox.admission import admit, refusal
from coilclaw.sandbox.binaries import Programs, allow, forbid, freshness
from coilclaw.sandbox.bubblewrap import Arguments, scratches
from coilclaw.sandbox.guard import Guard
from coilclaw.sandbox.idmap import IdentityMaps, box_uid
from coilclaw.sandbox.layout import HOME, INSIDE_ID, Step, command_line, environment, steps_for
from coilclaw.sandbox.limits import Group, Groups
from coilclaw.sandbox.seat import LentSeat
from coilclaw.sandbox.seccomp import filter_bytes, this_machine
from coilclaw.sandbox.supervise import Launch, Supervision
from coilclaw.sandbox.wires import Wires

if TYPE_CHECKING:
    from coilclaw.sandbox.broker.broker import Broker
    from coilclaw.sandbox.broker.door import Door

LAUNCHER = os.path.join(os.path.dirname(__file__), "launcher.py")


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """The programs boxes are built with."""

    bwrap: str
    python: str


def order(**fields: object) -> bytes:
    """What the launcher reads: plain values only."""
    return marshal.dumps({"parent": os.getpid(), **fields})


def launcher_command(python: str, mode: str, descriptor: int) -> list[str]:
    """How the launcher is started: isolated, without site packages."""
    return [python, "-I", "-S", LAUNCHER, mode, str(descriptor)]


@contextlib.contextmanager
def handed(data: bytes) -> Iterator[int]:
    """A descriptor from which a program we start reads these bytes."""
    descriptor = os.memfd_create("coilclaw", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


class WalledBox:
    """Runs commands behind namespaces, mounts and a system-call filter, as an unprivileged uid."""

    def __init__(self, tier: Literal["A", "B"], *, hide: tuple[str, ...], tools: Tools) -> None:
        self._tier: Literal["A", "B"] = tier
        self._hide = hide
        self._tools = tools
        self._programs: dict[tuple[object, ...], Programs] = {}
        self._groups = Groups()
        self._maps: IdentityMaps | None = None
        if os.geteuid() == 0:
            self._maps = IdentityMaps(python=tools.python, launcher=LAUNCHER, uid=box_uid())

    @property
    def tier(self) -> Literal["A", "B"]:
        """A is bubblewrap's, B our own launcher's."""
        return self._tier

    def probes(self) -> list[Probe]:
        """Try each wall by behaviour."""
        from coilclaw.sandbox.probes import probe_box

        return probe_box(self, self._hide)

    async def run(self, spec: BoxSpec, broker: "Callable[[tuple[str, ...]], Broker] | None" = None) -> BoxResult:
        """Run to the end. Cancelling kills everything inside before the cancellation is passed on.

        A spec that grants domains needs `broker`, which makes the one thing that can then be reached from inside.
        """
        admit(spec, brokered=broker is not None)
        try:
            serving = broker(spec.domains) if broker is not None and spec.domains else None
        except ConfigError as error:
            raise refusal(f"The domains cannot be granted: {error.message}.", error.remedy) from error
        guard = Guard(spec, self._hide)
        seat = None if self._maps is None else LentSeat()
        group = self._groups.make(spec.limits)
        try:
            try:
                return await self._run(spec, guard, seat, group, serving)
            finally:
                if serving is not None:
                    await serving.close()
        finally:
            if seat is not None:
                seat.close()
            self._groups.take_away(group)
            guard.close()

    async def _run(
        self, spec: BoxSpec, guard: Guard, seat: LentSeat | None, group: Group | None, broker: "Broker | None"
    ) -> BoxResult:
        staged = self._maps is not None or (self._tier == "A" and spec.workspace_noexec)
        source = stage.WORKSPACE if staged else os.path.realpath(spec.workspace)
        steps = steps_for(
            spec, guarded=guard.guarded, hide=self._hide, programs=self._programs_for(spec), source=source
        )
        prepare = None
        if self._maps is not None:
            prepare = partial(self._take_seat, spec, guard, steps, self._maps, group)
        with contextlib.ExitStack() as held:
            door = None if broker is None else self._door(broker, held)
            launch = self._launch(spec, steps, source, held, door)
            return await Supervision(
                launch, limits=spec.limits, stdin=spec.stdin, seat=seat, group=group, prepare=prepare, door=door
            ).run()

    def _door(self, broker: "Broker", held: contextlib.ExitStack) -> "Door":
        """Our launcher hands its listener out by itself; into bubblewrap's boxes somebody must go."""
        from coilclaw.sandbox.broker.door import Door

        door = Door(broker.serve, python=self._tools.python if self._tier == "A" else None)
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
        self, spec: BoxSpec, guard: Guard, steps: tuple[Step, ...], maps: IdentityMaps, group: Group | None
    ) -> None:
        """In root's thread: a private mount namespace with the workspace lent, and for bubblewrap no root any more."""
        from coilclaw.sandbox import syscalls

        owner = guard.owner
        userns = maps.descriptor(owner.st_uid, owner.st_gid)
        try:
            if group is not None:
                group.join()
            syscalls.unshare(syscalls.CLONE_FS | syscalls.CLONE_NEWNS)
            noexec = spec.workspace_noexec
            workspace = os.path.realpath(spec.workspace)
            stage.prepare(workspace, userns=userns, noexec=noexec, scratches=scratches(steps))
            if self._tier == "A":
                syscalls.thread_becomes(maps.uid, maps.uid)
        except OSError as error:
            raise BoxUnavailable(
                f"Root cannot lend {spec.workspace} to a box: {error.strerror}.",
                remedy="Put the workspace on a file system with identity-mapped mounts (ext4, xfs, btrfs),"
                " or run CoilClaw as an ordinary user.",
            ) from error

    def _launch(
        self, spec: BoxSpec, steps: tuple[Step, ...], source: str, held: contextlib.ExitStack, door: "Door | None"
    ) -> Launch:
        wires = Wires(holding=self._tier == "A")
        held.callback(wires.close)
        if self._tier == "A":
            argv, descriptors = self._bubblewrap(spec, steps, source, wires, held)
        else:
            argv, descriptors = self._launcher(spec, steps, wires, held, -1 if door is None else door.channel)
        return Launch(
            argv=argv, descriptors=(*wires.handed, *descriptors),
            wires=wires, tier=self._tier, walls="namespaces", uid=self._uid,
            becomes=self._uid if self._tier == "B" else -1,
        )  # fmt: skip

    @property
    def _uid(self) -> int:
        return -1 if self._maps is None else self._maps.uid

    def _bubblewrap(
        self, spec: BoxSpec, steps: tuple[Step, ...], source: str, wires: Wires, held: contextlib.ExitStack
    ) -> tuple[list[str], tuple[int, ...]]:
        arguments = Arguments()
        held.callback(arguments.close)
        argv = arguments.command(
            self._tools.bwrap, steps, environment=_environment(spec), cwd=os.path.normpath(spec.cwd),
            argv=command_line(spec), program=_filter(spec), status=wires.report,
            release=wires.release, workspace=(os.path.normpath(spec.workspace), source), lifeline=wires.lifeline,
        )  # fmt: skip
        if self._maps is not None or not spec.workspace_noexec:
            return argv, tuple(arguments.descriptors)
        data = order(
            status=wires.report, workspace=os.path.realpath(spec.workspace), scratches=scratches(steps), argv=argv
        )
        descriptor = held.enter_context(handed(data))
        return launcher_command(self._tools.python, "stage", descriptor), (*arguments.descriptors, descriptor)

    def _launcher(
        self, spec: BoxSpec, steps: tuple[Step, ...], wires: Wires, held: contextlib.ExitStack, listener: int
    ) -> tuple[list[str], tuple[int, ...]]:
        writable = ["/tmp", HOME, "/dev"]  # noqa: S108 - inside the box
        writable += [os.path.normpath(spec.workspace)] if spec.workspace_writable else []
        data = order(
            status=wires.report, release=wires.release, uid=self._uid, gid=self._uid, inside_id=INSIDE_ID,
            base=stage.BASE if self._maps is None else stage.ROOT, steps=msgspec.to_builtins(steps),
            writable=writable, filter=_filter(spec), cwd=os.path.normpath(spec.cwd), argv=command_line(spec),
            environment=_environment(spec), listener=listener,
        )  # fmt: skip
        descriptor = held.enter_context(handed(data))
        handed_out = (descriptor,) if listener < 0 else (descriptor, listener)
        return launcher_command(self._tools.python, "walls", descriptor), handed_out


def _filter(spec: BoxSpec) -> bytes:
    return filter_bytes(this_machine(), "stream" if spec.domains else "inet")


def _environment(spec: BoxSpec) -> dict[str, str]:
    if not spec.domains:
        return environment(spec)
    from coilclaw.sandbox.broker.broker import proxy_environment

    return {**environment(spec), **proxy_environment()}
