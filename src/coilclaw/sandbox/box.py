# ruff: noqa: PTH111 - kernel paths and descriptors; pathlib adds nothing here
"""Chooses a box: the best tier whose isolation passes its probes, or a refusal that says what is missing."""

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from coilclaw.packets.box import BoxResult, BoxSpec, OnOutput, Probe, Tier
from coilclaw.packets.errors import BoxTooSlow, BoxUnavailable, CoilclawError, UsageError
from coilclaw.packets.ports import Box, Serve, Transport
from coilclaw.sandbox import podman
from coilclaw.sandbox.abandoned import end_abandoned
from coilclaw.sandbox.namespaced_box import NamespacedBox, Tools
from coilclaw.sandbox.probes import in_own_loop, probe_box, probe_directory, quick_faults

if TYPE_CHECKING:
    from coilclaw.airlock.broker.broker import Broker
    from coilclaw.sandbox.opened import RunningBox
    from coilclaw.sandbox.unboxed import PlainBox

_INSTALL = "Install bubblewrap 0.8 or later, or allow unprivileged user namespaces; `coilclaw doctor` shows each wall."

_Real: TypeAlias = "NamespacedBox | PlainBox"


class _Candidate(NamedTuple):
    name: str
    """For messages."""
    tier: Tier
    namespaces: bool


_CANDIDATES = (
    _Candidate("bubblewrap", "A", namespaces=True),
    _Candidate("namespaces", "B", namespaces=True),
    _Candidate("Landlock alone", "B", namespaces=False),
)
_CONTAINER = _Candidate("Podman", "C", namespaces=True)
_NO_PODMAN = "Install the packages podman, crun and python3."


def tools(bwrap: str | None = None, python: str | None = None) -> Tools:
    """The programs that build boxes, in their usual places unless given."""
    places = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
    found = bwrap or next((place for place in places if os.access(place, os.X_OK)), "")
    return Tools(bwrap=found, python=python or sys.executable, podman=podman.program())


def open_box(
    *, hide: tuple[str, ...], owned: tuple[str, ...] = (), unsafe: bool = False, prefer: Tier | None = None,
    container: bool = False, bwrap: str | None = None, python: str | None = None,
) -> Box:  # fmt: skip
    """The best box that passes its probe, which runs before the first command; `prefer` selects that tier or none.

    `container` tries Podman before the others: it takes longer to start, which only pays for what runs for hours.

    `hide` names paths of this machine that must never be visible inside, `owned` paths that no mount may show: the
    owner's workspace, whose rules apply only if it is the workspace of the box. Raises BoxUnavailable with the
    remedy: here if no tier is possible, at the first use if none passes. Only `unsafe` gives a box without isolation.
    Leftovers of earlier processes are ended first.
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
        raise UsageError(
            "A box without isolation must be requested explicitly.", remedy="Pass --unsafe if you mean it."
        )
    candidates = [one for one in _CANDIDATES if prefer in {None, one.tier} and (one.tier != "A" or used.bwrap)]
    if (prefer == "C" or container) and used.podman:
        candidates = [_CONTAINER, *candidates]
    if not candidates:
        what, remedy = ("Podman", _NO_PODMAN) if prefer == "C" else ("bubblewrap", _INSTALL)
        raise BoxUnavailable(f"{what} is not installed.", remedy=remedy)
    return ChosenBox(candidates, hide=hide, tools=used, owned=owned)


def _made(candidate: _Candidate, hide: tuple[str, ...], used: Tools, owned: tuple[str, ...] = ()) -> "_Real":
    if not candidate.namespaces:
        from coilclaw.sandbox.unboxed import PlainBox

        return PlainBox("B", hide=hide, tools=used)
    if candidate.tier == "unsafe":
        raise BoxUnavailable("A box without isolation has no namespaces.", remedy=_INSTALL)
    return NamespacedBox(candidate.tier, hide=hide, tools=used, owned=owned)


class ChosenBox:
    """Chooses a tier at its first use, by probing once; after that it never changes."""

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
        slow: BoxTooSlow | None = None
        remedy = ""
        for candidate in self._candidates:
            try:
                box = _made(candidate, self._hide, self._tools, self._owned)
                faults = await quick_faults(box, workspace, self._hide, namespaces=candidate.namespaces)
                if not faults:
                    self._box = box
                    return box
            except BoxTooSlow as error:
                faults, slow = [error.message], error
            except BoxUnavailable as error:
                faults, remedy = [error.message], remedy or error.remedy
            failures.append(f"{candidate.name}: {'; '.join(faults)}")
        if slow is not None:
            raise slow  # what works is not known yet, so the next use asks again
        tried = " | ".join(failures)
        raise BoxUnavailable(f"No box works here ({tried}), so nothing is run.", remedy=remedy or _INSTALL)

    @property
    def tier(self) -> Tier:
        """The kind of isolation; probes it if nothing ran yet."""
        if self._box is not None:
            return self._box.tier
        with probe_directory() as workspace:
            return in_own_loop(lambda: self._settle(workspace)).tier

    async def run(
        self, spec: BoxSpec, broker: "Callable[[BoxSpec], Broker] | None" = None,
        released: Callable[[], None] | None = None, on_output: OnOutput | None = None,
    ) -> BoxResult:  # fmt: skip
        """Run to the end. Cancelling kills everything inside before the cancellation propagates."""
        if self._box is None:  # do not probe for a spec that is refused anyway; later the box refuses it
            from coilclaw.sandbox.admission import admit

            admit(spec, brokered=broker is not None)
        box = await self._settle(os.path.normpath(spec.workspace))
        if isinstance(box, NamespacedBox):
            return await box.run(spec, broker, released, on_output)
        _needs_no_network(spec)
        return await box.run(spec, released=released, on_output=on_output)

    async def open(
        self, spec: BoxSpec, broker: "Callable[[BoxSpec], Broker] | None" = None, *,
        stopped: Callable[[], Awaitable[None]], serve: Serve | None = None, released: Callable[[], None] | None = None,
    ) -> "RunningBox":  # fmt: skip
        """Start a program to talk to; it lives until it is closed or stopped, and no longer than this process."""
        if self._box is None:
            from coilclaw.sandbox.admission import admit

            admit(spec, brokered=broker is not None, lasting=True, served=serve is not None)
        box = await self._settle(os.path.normpath(spec.workspace))
        if isinstance(box, NamespacedBox):
            return await box.open(spec, broker, stopped=stopped, serve=serve, released=released)
        _needs_no_network(spec)
        return await box.open(spec, stopped=stopped, serve=serve, released=released)

    def probes(self) -> list[Probe]:
        """Test each wall by its behaviour."""
        return probe_tiers(hide=self._hide, bwrap=self._tools.bwrap, python=self._tools.python)


def _needs_no_network(spec: BoxSpec) -> None:
    if spec.domains or spec.routed:
        raise BoxUnavailable("Without a network namespace a box cannot be limited to its domains.", remedy=_INSTALL)


class ReachingBox:
    """A box whose specs may grant domains: each run gets its own broker, and reaches nothing else."""

    def __init__(self, box: ChosenBox | NamespacedBox, broker: "Callable[[BoxSpec], Broker]") -> None:
        self._box = box
        self._broker = broker

    @property
    def tier(self) -> Tier:
        """The tier of the underlying box."""
        return self._box.tier

    async def run(
        self, spec: BoxSpec, *, released: Callable[[], None] | None = None, on_output: OnOutput | None = None
    ) -> BoxResult:
        """Run to the end. Cancelling kills everything inside before the cancellation propagates."""
        return await self._box.run(spec, self._broker, released, on_output)

    async def open(
        self, spec: BoxSpec, *, stopped: Callable[[], Awaitable[None]], serve: Serve | None = None,
        released: Callable[[], None] | None = None,
    ) -> "RunningBox":  # fmt: skip
        """Start a program to talk to; it lives until it is closed or stopped, and no longer than this process."""
        return await self._box.open(spec, self._broker, stopped=stopped, serve=serve, released=released)

    def probes(self) -> list[Probe]:
        """Test each wall by its behaviour."""
        return self._box.probes()


def reaching(box: Box, transport: Transport) -> Box:
    """The box with access through this airlock, for the domains its specs grant.

    If box or transport cannot do that, the box is returned unchanged, and a real one refuses such specs.
    """
    from coilclaw.airlock.broker.broker import Broker
    from coilclaw.airlock.transport import Airlock

    if not isinstance(box, ChosenBox | NamespacedBox) or not isinstance(transport, Airlock):
        return box
    return ReachingBox(box, lambda spec: Broker(transport, spec.domains, spec.broker))


def probe_tiers(*, hide: tuple[str, ...] = (), bwrap: str | None = None, python: str | None = None) -> list[Probe]:
    """One line per probe for the doctor: every tier, and the basis of the limits, each by its behaviour."""
    used = tools(bwrap, python)
    hide = tuple(os.path.normpath(os.path.expanduser(path)) for path in hide)
    probes = [_user(), _landlock(), _limits()]
    for candidate in _CANDIDATES:
        if candidate.tier == "A" and not used.bwrap:
            probes.append(Probe(name="tier A", state="warn", detail="bubblewrap is not installed", remedy=_INSTALL))
        elif candidate.namespaces or not any(probe.name == "tier B" and probe.state == "ok" for probe in probes):
            probes += _tier(candidate, hide, used)
    probes.append(_broker(hide, used))
    if not used.podman:
        detail = "Podman or crun is not installed; only `coilclaw evolve` would use it"
        return [*probes, Probe(name="tier C", state="info", detail=detail)]
    # It is an addition to the others, so its faults are no reason to refuse them.
    container = _tier(_CONTAINER, hide, used)
    return [*probes, *(msgspec.structs.replace(one, state="warn") if one.state == "fail" else one for one in container)]


def _tier(candidate: _Candidate, hide: tuple[str, ...], used: Tools) -> list[Probe]:
    try:
        box = _made(candidate, hide, used)
    except CoilclawError as error:
        return [Probe(name=f"tier {candidate.tier}", state="fail", detail=error.message, remedy=error.remedy)]
    return probe_box(box, hide, namespaces=candidate.namespaces)


def _broker(hide: tuple[str, ...], used: Tools) -> Probe:
    from coilclaw.sandbox.broker_probe import probe_broker

    candidates = [one for one in _CANDIDATES if one.tier != "A" or used.bwrap]
    return probe_broker(ChosenBox(candidates, hide=hide, tools=used))


def _user() -> Probe:
    uid = os.geteuid()
    if uid:
        detail = f"uid {uid}; boxes run as the same user, in their own namespace"
        return Probe(name="runtime user", state="ok", detail=detail)
    from coilclaw.sandbox.idmap import box_uid

    try:
        detail = f"root; boxes run as uid {box_uid()}, with the workspace mapped to it"
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
