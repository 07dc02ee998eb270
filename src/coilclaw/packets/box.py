"""What may run in a box, with what, and how it ended."""

from typing import Literal, TypeAlias

import msgspec

Tier: TypeAlias = Literal["A", "B", "C", "unsafe"]
BoxEnd: TypeAlias = Literal[
    "exited", "signalled", "timeout", "stopped", "output_limit", "memory_limit", "cpu_limit", "process_limit",
    "left_behind",
]  # fmt: skip
"""`left_behind`: it ended by itself, but something it had started was still running and had to be ended."""


class BoxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on everything a process can use up."""

    wall_seconds: float = 15.0
    cpu_seconds: int = 15
    memory_bytes: int = 1 << 30
    processes: int = 128
    output_bytes: int = 1 << 20
    file_bytes: int = 64 << 20
    open_files: int = 256


class BoxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a box is given. What is not named here does not exist inside."""

    command: str | tuple[str, ...]
    """Shell text run by /bin/sh -c, or an argv."""
    workspace: str
    """The workspace on this machine; inside, it stands at the same path."""
    cwd: str
    """Absolute, inside the workspace."""
    read_only: tuple[str, ...] = ()
    """Paths inside the workspace that may be read but not written (they may not exist yet)."""
    hidden: tuple[str, ...] = ()
    """Paths inside the workspace that are not there at all."""
    workspace_writable: bool = True
    workspace_noexec: bool = False
    allowed_binaries: tuple[str, ...] | None = None
    """None means the system's, less the forbidden ones."""
    forbidden_binaries: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    domains: tuple[str, ...] = ()
    """Granted domains; empty means no network at all."""
    stdin: bytes = b""
    limits: BoxLimits = BoxLimits()


class BoxResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a boxed command ended; the streams are whatever was captured up to the cap."""

    end: BoxEnd
    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    tier: Tier
    reason: str = ""
    """One sentence when the end is anything but `exited`."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the doctor: what was tried, by behaviour, and what to do when it failed."""

    name: str
    state: Literal["ok", "warn", "fail", "info"]
    detail: str
    remedy: str = ""
