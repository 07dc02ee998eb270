# ruff: noqa: PTH111 - kernel paths and descriptors; pathlib adds nothing here
"""Choosing a box: the best tier whose walls hold when tried, or a refusal that says what is missing."""

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from coilclaw.packets.box import BoxResult, BoxSpec, Probe, Tier
from coilclaw.packets.errors import BoxUnavailable, CoilclawError, UsageError
from coilclaw.packets.ports import Box, Serve, Transport
from coilclaw.sandbox.abandoned import end_abandoned
from coilclaw.sandbox.namespaced_box import NamespacedBox, Tools
from coilclaw.sandbox.probes import in_own_loop, probe_box, probe_directory, quick_faults

if TYPE_CHECKING:
    from coilclaw.airlock.broker.broker import Broker
    from coilclaw.sandbox.opened import RunningBox
    from coilclaw.sandbox.unboxed import PlainBox

_INSTALL = "Install bubblewrap 0.8 or later, or allow unprivileged user namespaces; `coilclaw doctor` shows each wall."

_Real: TypeAlias = "NamespacedBox | PlainBox"
_Candidate: TypeAlias = tuple[str, Tier, bool]
"""A name for messages, the tier, and whether it has namespaces."""
_CANDIDATES: tuple[_Candidate, ...] = (
    ("bubblewrap", "A", True),
    ("namespaces", "B", True),
    ("Landlock alone", "B", False),
)


def tools(bwrap: str | None = None, python: str | None = None) -> Tools:
    """The programs boxes are built with, found where they usually are unless given."""
    places = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
    found = bwrap or next((place for place in places if os.access(place, os.X_OK)), "")
    return Tools(bwrap=found, python=python or sys.executable)


def open_box(
    *, hide: tuple[str, ...], owned: tuple[str, ...] = (), unsafe: bool = False, prefer: Tier | None = None,
    bwrap: str | None = None, python: str | None = None,
) -> Box:  # fmt: skip
    """The best box that passes its probe, which is run before the first command; `prefer` takes that tier or none.

    `hide` names paths of this machine that must never be visible inside, `owned` those that no mount may show: the
    owner's workspace, whose rules hold only where it is the workspace of the box. Raises BoxUnavailable with the
    remedy, here when no tier can exist and at the first use when none holds. Only `unsafe` gives a box without walls.
    What an earlier process left behind is ended first.
    """
    end_abandoned()
    used = tools(bwrap, python)
    hide = tuple(os.path.normpath(os.path.expanduser(path)) for path in hide)
    if unsafe:
        if prefer not in {None, "unsafe"}:
            raise UsageError(f"Tier {prefer} and unsafe exclude each other.", remedy="Choose one of them.")
        from coilclaw.sandbox.unboxed import PlainBox

        return PlainBox("unsafe", hide=hide, tools=used)
    if prefer == "unsafe":
        raise UsageError("A box without walls is only given on request.", remedy="Pass --unsafe if you mean it.")
    if prefer == "C":
        raise BoxUnavailable("Tier C is not part of this version.", remedy=_INSTALL)
    candidates = [one for one in _CANDIDATES if prefer in {None, one[1]} and (one[1] != "A" or used.bwrap)]
    if not candidates:
        raise BoxUnavailable("bubblewrap is not installed.", remedy=_INSTALL)
    return ChosenBox(candidates, hide=hide, tools=used, owned=owned)


def _made(candidate: _Candidate, hide: tuple[str, ...], used: Tools, owned: tuple[str, ...] = ()) -> "_Real":
    _, tier, namespaces = candidate
    if not namespaces:
        from coilclaw.sandbox.unboxed import PlainBox

        return PlainBox("B", hide=hide, tools=used)
    return NamespacedBox("A" if tier == "A" else "B", hide=hide, tools=used, owned=owned)


class ChosenBox:
    """Settles on a tier when it is first used, by trying the walls once; after that it never changes."""

    def __init__(
        self, candidates: list[_Candidate], *, hide: tuple[str, ...], tools: Tools, owned: tuple[str, ...] = ()
    ) -> None:
        self._candidates = candidates
        self._hide = hide
        self._owned = owned
        self._tools = tools
        self._box: _Real | None = None

    async def _settle(self, workspace: str) -> "_Real":
        if self._box is not None:
            return self._box
        failures: list[str] = []
        remedy = ""
        for candidate in self._candidates:
            try:
                box = _made(candidate, self._hide, self._tools, self._owned)
                faults = await quick_faults(box, workspace, self._hide, namespaces=candidate[2])
                if not faults:
                    self._box = box
                    return box
            except BoxUnavailable as error:
                faults, remedy = [error.message], remedy or error.remedy
            failures.append(f"{candidate[0]}: {'; '.join(faults)}")
        tried = " | ".join(failures)
        raise BoxUnavailable(f"No box holds here ({tried}), so nothing is run.", remedy=remedy or _INSTALL)

    @property
    def tier(self) -> Tier:
        """Which kind of walls it has; tries them if nothing ran yet."""
        if self._box is not None:
            return self._box.tier
        with probe_directory() as workspace:
            return in_own_loop(lambda: self._settle(workspace)).tier

    async def run(
        self, spec: BoxSpec, broker: "Callable[[BoxSpec], Broker] | None" = None,
        released: Callable[[], None] | None = None,
    ) -> BoxResult:  # fmt: skip
        """Run to the end. Cancelling kills everything inside before the cancellation is passed on."""
        if self._box is None:  # no wall is tried for a spec that is refused anyway; later on the box refuses it
            from coilclaw.sandbox.admission import admit

            admit(spec, brokered=broker is not None)
        box = await self._settle(os.path.normpath(spec.workspace))
        if isinstance(box, NamespacedBox):
            return await box.run(spec, broker, released)
        _needs_no_network(spec)
        return await box.run(spec, released=released)

    async def open(
        self, spec: BoxSpec, broker: "Callable[[BoxSpec], Broker] | None" = None, *,
        stopped: Callable[[], Awaitable[None]], serve: Serve | None = None, released: Callable[[], None] | None = None,
    ) -> "RunningBox":  # fmt: skip
        """Start a command that is talked to; it lives until it is closed or stopped, and no longer than we do."""
        if self._box is None:
            from coilclaw.sandbox.admission import admit

            admit(spec, brokered=broker is not None, lasting=True, served=serve is not None)
        box = await self._settle(os.path.normpath(spec.workspace))
        if isinstance(box, NamespacedBox):
            return await box.open(spec, broker, stopped=stopped, serve=serve, released=released)
        _needs_no_network(spec)
        return await box.open(spec, stopped=stopped, serve=serve, released=released)

    def probes(self) -> list[Probe]:
        """Try each wall by behaviour."""
        return probe_tiers(hide=self._hide, bwrap=self._tools.bwrap, python=self._tools.python)


def _needs_no_network(spec: BoxSpec) -> None:
    if spec.domains:
        raise BoxUnavailable("Without a network namespace a box cannot be held to its domains.", remedy=_INSTALL)


class ReachingBox:
    """A box whose specs may grant domains: each run gets a broker of its own, and reaches nothing else."""

    def __init__(self, box: ChosenBox | NamespacedBox, broker: "Callable[[BoxSpec], Broker]") -> None:
        self._box = box
        self._broker = broker

    @property
    def tier(self) -> Tier:
        """The walls are those of the box it is made from."""
        return self._box.tier

    async def run(self, spec: BoxSpec, *, released: Callable[[], None] | None = None) -> BoxResult:
        """Run to the end. Cancelling kills everything inside before the cancellation is passed on."""
        return await self._box.run(spec, self._broker, released)

    async def open(
        self, spec: BoxSpec, *, stopped: Callable[[], Awaitable[None]], serve: Serve | None = None,
        released: Callable[[], None] | None = None,
    ) -> "RunningBox":  # fmt: skip
        """Start a command that is talked to; it lives until it is closed or stopped, and no longer than we do."""
        return await self._box.open(spec, self._broker, stopped=stopped, serve=serve, released=released)

    def probes(self) -> list[Probe]:
        """Try each wall by behaviour."""
        return self._box.probes()


def reaching(box: Box, transport: Transport) -> Box:
    """The box with a way out by this airlock, for the domains its specs grant.

    Where box or transport cannot do that the box comes back as it is, and a real one refuses such specs.
    """
    from coilclaw.airlock.broker.broker import Broker
    from coilclaw.airlock.transport import Airlock

    if not isinstance(box, ChosenBox | NamespacedBox) or not isinstance(transport, Airlock):
        return box
    return ReachingBox(box, lambda spec: Broker(transport, spec.domains, spec.broker))


def probe_tiers(*, hide: tuple[str, ...] = (), bwrap: str | None = None, python: str | None = None) -> list[Probe]:
    """One line a probe for the doctor: every tier, and what the limits rest on, each by behaviour."""
    used = tools(bwrap, python)
    hide = tuple(os.path.normpath(os.path.expanduser(path)) for path in hide)
    probes = [_user(), _landlock(), _limits()]
    for candidate in _CANDIDATES:
        if candidate[1] == "A" and not used.bwrap:
            probes.append(Probe(name="tier A", state="warn", detail="bubblewrap is not installed", remedy=_INSTALL))
        elif candidate[2] or not any(probe.name == "tier B" and probe.state == "ok" for probe in probes):
            probes += _tier(candidate, hide, used)
    probes.append(_broker(hide, used))
    probes.append(Probe(name="tier C", state="info", detail="rootless Podman is not part of this version"))
    return probes


def _tier(candidate: _Candidate, hide: tuple[str, ...], used: Tools) -> list[Probe]:
    try:
        box = _made(candidate, hide, used)
    except CoilclawError as error:
        return [Probe(name=f"tier {candidate[1]}", state="fail", detail=error.message, remedy=error.remedy)]
    return probe_box(box, hide, namespaces=candidate[2])


def _broker(hide: tuple[str, ...], used: Tools) -> Probe:
    from coilclaw.airlock.broker.probe import probe_broker

    candidates = [one for one in _CANDIDATES if one[1] != "A" or used.bwrap]
    return probe_broker(ChosenBox(candidates, hide=hide, tools=used))


def _user() -> Probe:
    uid = os.geteuid()
    if uid:
        detail = f"uid {uid}; boxes run as the same, in a namespace of their own"
        return Probe(name="runtime user", state="ok", detail=detail)
    from coilclaw.sandbox.idmap import box_uid

    try:
        detail = f"root; boxes run as uid {box_uid()}, the workspace lent to it"
    except BoxUnavailable as error:
        return Probe(name="runtime user", state="fail", detail=error.message, remedy=error.remedy)
    return Probe(name="runtime user", state="ok", detail=detail)


def _landlock() -> Probe:
    from coilclaw.sandbox import landlock
    from coilclaw.sandbox.unboxed import NEEDED_LANDLOCK

    known = landlock.version()
    if known >= NEEDED_LANDLOCK:
        return Probe(name="landlock", state="ok", detail=f"version {known}")
    detail = f"version {known}: cannot keep signals inside" if known else "not offered by this kernel"
    return Probe(name="landlock", state="warn", detail=detail, remedy="Mounts hold tier B; Linux 6.12 adds the rest.")


def _limits() -> Probe:
    from coilclaw.packets.box import BoxLimits
    from coilclaw.sandbox.limits import Group, find_group_home

    home = find_group_home()
    try:
        if home is not None:
            Group(home, BoxLimits()).remove()
            return Probe(name="limits", state="ok", detail=f"control groups v{home.version} for memory and processes")
        why = "no control group can be written"
    except OSError as error:
        why = f"control groups cannot be set: {error.strerror}"
    return Probe(
        name="limits", state="warn", detail=f"{why}; resource limits, and memory watched from outside",
        remedy="Start CoilClaw in a delegated group: systemd-run --user --scope -p Delegate=yes.",
    )  # fmt: skip
