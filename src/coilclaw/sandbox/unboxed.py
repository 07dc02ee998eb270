# ruff: noqa: PTH110 - kernel paths and descriptors; pathlib adds nothing here
"""Boxes without namespaces: only Landlock and the filter (the minimum of tier B), or nothing (tier unsafe).

Without namespaces a box cannot mask anything below a visible directory, remove a program, make the workspace
noexec or map it for root: such specs are refused. Nor does it have a /tmp, and `stat` still shows names and
sizes of files that cannot be opened. It enforces: the system read-only, the workspace, no other file, no socket, no
signal to a foreign process.
"""

import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Literal

from coilclaw.packets.box import BoxResult, BoxSpec, OnOutput, Probe
from coilclaw.packets.errors import BoxUnavailable
from coilclaw.packets.ports import Serve
from coilclaw.sandbox.admission import admit, refusal
from coilclaw.sandbox.capture import Capture
from coilclaw.sandbox.guard import hold, inside
from coilclaw.sandbox.layout import command_line, environment
from coilclaw.sandbox.limits import Groups
from coilclaw.sandbox.monitor import Launch
from coilclaw.sandbox.monitor_pipes import RELEASE, MonitorPipes
from coilclaw.sandbox.namespaced_box import Tools, handed, launcher_command, order
from coilclaw.sandbox.opened import RunningBox, open_running
from coilclaw.sandbox.pipes import Pipes
from coilclaw.sandbox.seccomp import filter_bytes, this_machine
from coilclaw.sandbox.supervise import Supervision

NEEDED_LANDLOCK = 6
"""The first version that also confines signals; before it a box could kill this program."""
_READ_AND_RUN = (
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32", "/etc/alternatives", "/etc/ld.so.cache",
    "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
)  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def _shown(path: str) -> bool:
    return any(inside(path, shown) for shown in _READ_AND_RUN) and os.path.lexists(path)


class PlainBox:
    """Runs commands under limits, with Landlock and the filter (B) or without either (unsafe)."""

    def __init__(self, tier: Literal["B", "unsafe"], *, hide: tuple[str, ...], tools: Tools) -> None:
        self._tier: Literal["B", "unsafe"] = tier
        self._hide = hide
        self._tools = tools
        self._groups = Groups()

    @property
    def tier(self) -> Literal["B", "unsafe"]:
        """Its actual tier."""
        return self._tier

    def probes(self) -> list[Probe]:
        """Test each wall by its behaviour."""
        from coilclaw.sandbox.probes import probe_box

        if self._tier == "unsafe":
            return [Probe(name="box", state="warn", detail="unsafe: commands run without isolation, as you",
                          remedy="Leave --unsafe out.")]  # fmt: skip
        return probe_box(self, self._hide, namespaces=False)

    async def run(
        self, spec: BoxSpec, *, released: Callable[[], None] | None = None, on_output: OnOutput | None = None
    ) -> BoxResult:
        """Run to the end. Cancelling kills everything started before the cancellation propagates."""
        admit(spec)
        return await self._run(spec, Capture(spec.stdin, spec.limits, on_output), released)

    async def open(
        self, spec: BoxSpec, *, stopped: Callable[[], Awaitable[None]], serve: Serve | None = None,
        released: Callable[[], None] | None = None,
    ) -> RunningBox:  # fmt: skip
        """Start a program to talk to; it lives until it is closed or stopped, and no longer than this process."""
        admit(spec, lasting=True, served=serve is not None)
        return await open_running(spec.limits.output_bytes, lambda pipes: self._run(spec, pipes, released), stopped)

    async def _run(self, spec: BoxSpec, streams: Capture | Pipes, released: Callable[[], None] | None) -> BoxResult:
        if spec.listeners or any(each.writable or each.at != each.source for each in spec.mounts):
            raise refusal(
                "Without namespaces a box has no mounts and no separate network.",
                "Allow unprivileged user namespaces, or install bubblewrap; see `coilclaw doctor`.", "BOX_CANNOT_HOLD",
            )  # fmt: skip
        if self._tier == "B":
            await self._can_hold(spec)
        with contextlib.ExitStack() as held:
            wires = MonitorPipes()
            held.callback(wires.close)
            writable = spec.workspace_writable
            data = order(
                status=wires.report, gate=wires.gate, cwd=os.path.normpath(spec.cwd), argv=command_line(spec),
                environment={**environment(spec), "HOME": spec.workspace, **dict(spec.environment)},
                rules=self._rules(spec.workspace, writable=writable) if self._tier == "B" else [],
                filter=filter_bytes(this_machine(), "none") if self._tier == "B" else b"",
            )  # fmt: skip
            descriptor = held.enter_context(handed(data))
            launch = Launch(
                argv=launcher_command(self._tools.python, "plain", descriptor),
                descriptors=(*wires.handed, descriptor), wires=wires, word=RELEASE,
                workspace=spec.workspace,
                tier=self._tier, walls="none",
            )  # fmt: skip
            group = self._groups.make(spec.limits)
            held.callback(self._groups.take_away, group)
            return await Supervision(
                launch,
                limits=spec.limits,
                streams=streams,
                seat=None,
                group=group,
                check=lambda: None,
                released=released,
            ).run()

    async def _can_hold(self, spec: BoxSpec) -> None:
        if os.geteuid() == 0:
            raise BoxUnavailable(
                "Root cannot map its workspace without user namespaces.", remedy="Run CoilClaw as an ordinary user."
            )
        with contextlib.closing(await hold(spec, self._hide)) as guard:
            masks = bool(guard.guarded)
        asked = {
            "protected paths inside the workspace": masks,
            "a noexec workspace": spec.workspace_noexec,
            "hidden paths of the system": any(_shown(path) for path in self._hide),
            "folders of programs": bool(spec.mounts),
            "a choice of programs": spec.allowed_binaries is not None or bool(spec.forbidden_binaries),
        }
        for what, wanted in asked.items():
            if wanted:
                raise refusal(
                    f"Without user namespaces a box here cannot provide {what}.",
                    "Allow unprivileged user namespaces, or install bubblewrap; see `coilclaw doctor`.",
                    "BOX_CANNOT_HOLD",
                )

    def _rules(self, workspace: str, *, writable: bool) -> list[tuple[str, int]]:
        from coilclaw.sandbox import landlock

        known = landlock.version()
        if known < NEEDED_LANDLOCK:
            raise BoxUnavailable(
                f"Landlock {known or 'is absent'} cannot keep signals inside a box.",
                remedy="Allow unprivileged user namespaces, or use Linux 6.12 or later.",
            )
        reads = landlock.READS | landlock.EXECUTE
        rules = [(path, reads) for path in _READ_AND_RUN if os.path.exists(path)]
        rules += [(path, landlock.READ_FILE | landlock.WRITE_FILE) for path in _DEVICES if os.path.exists(path)]
        return [*rules, (workspace, reads | (landlock.writes(known) if writable else 0))]
