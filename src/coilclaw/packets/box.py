"""What may run in a box, with what, and how it ended."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

Tier: TypeAlias = Literal["A", "B", "C", "unsafe"]
BoxEnd: TypeAlias = Literal[
    "exited", "signalled", "timeout", "stopped", "output_limit", "memory_limit", "cpu_limit", "process_limit",
    "write_limit", "left_behind",
]  # fmt: skip
"""`left_behind`: the command exited, but a process it had started was still running and had to be killed."""
OutputName: TypeAlias = Literal["stdout", "stderr"]
OnOutput: TypeAlias = Callable[[OutputName, bytes], None]
"""Receives a command's output as it arrives, in the event loop; it must neither block nor raise."""


class BoxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on everything a process can exhaust."""

    wall_seconds: float | None = 15.0
    """None means no limit, which only an open box may request."""
    cpu_seconds: int | None = 15
    """Per process; None means no limit, which only an open box may request."""
    memory_bytes: int = 1 << 30
    processes: int = 128
    output_bytes: int = 1 << 20
    """What a command may write to both streams together; for an open box, the maximum length of a line."""
    kept_bytes: int = 1 << 20
    """What is kept of each stream of a command; of a longer one, its beginning and its end."""
    file_bytes: int = 64 << 20
    write_bytes: int = 4 << 30
    """Total writes to the workspace's file system; /tmp and /dev/shm have their own sizes. What other programs
    write to that file system meanwhile counts too, so a box that stays open for hours needs more."""
    open_files: int = 256
    address_space: bool = True
    """Without a control group, whether to limit address space too. Programs that reserve far more than they use
    (WebAssembly, some garbage collectors) do not start then; memory in use is limited either way."""


class BrokerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what one box can do through its broker. The defaults are for one command; see `BROKER_FOR_HOURS`."""

    head_seconds: float = 10.0
    """For the whole of a request's head and body, or of a TLS client's first message."""
    idle_seconds: float = 30.0
    request_seconds: float = 120.0
    bytes_in: int = 64 << 20
    """To the box, across all its requests."""
    bytes_out: int = 16 << 20
    body_bytes: int = 1 << 20
    """Of one plain request."""
    connections: int = 32
    """At a time; further ones wait."""
    requests: int = 512


BROKER_FOR_HOURS = BrokerLimits(
    idle_seconds=600.0, request_seconds=3600.0, bytes_in=8 << 30, bytes_out=2 << 30, connections=64, requests=100_000
)
"""For a box that is open for hours and streams from a model: thinking may take minutes, an answer an hour."""


class BoxMount(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of this machine that is visible inside too.

    It does not overlap the workspace or another mount, except that one may be inside another mounted folder, on a real
    file or folder of the same kind: directly, if that folder is writable. If both show the same files and one of them
    is writable, it must be on its own place there. It can be neither renamed nor removed from inside. While such a box
    starts, no other box may write to the outer folder.
    """

    source: str
    """Absolute, without links; never inside or around a path that boxes hide."""
    at: str
    """Absolute, and not in the paths that every box has: /usr, /proc, /dev, /tmp and the like."""
    writable: bool


class BoxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a box is given. What is not named here does not exist inside."""

    command: str | tuple[str, ...]
    """Shell text run by /bin/sh -c, or an argv."""
    workspace: str
    """The workspace on this machine; it has the same path inside."""
    cwd: str
    """Absolute, inside the workspace."""
    read_only: tuple[str, ...] = ()
    """Paths inside the workspace that may be read but not written (they may not exist yet)."""
    hidden: tuple[str, ...] = ()
    """Paths inside the workspace that are absent in the box."""
    workspace_writable: bool = True
    workspace_noexec: bool = False
    allowed_binaries: tuple[str, ...] | None = None
    """None means the system's programs, except the forbidden ones."""
    forbidden_binaries: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    domains: tuple[str, ...] = ()
    """Granted domains; empty means no network at all."""
    broker: BrokerLimits = BrokerLimits()
    """Limits on traffic to and from the granted domains."""
    mounts: tuple[BoxMount, ...] = ()
    listeners: tuple[int, ...] = ()
    """Ports on its own loopback that the opener of the box serves from outside."""
    routed: bool = False
    """Whether it reaches public addresses directly, behind a guard that rejects all others (see sandbox/route.py)."""
    local_sockets: bool = False
    """Whether processes inside may talk to each other through socket files, as tmux does. The box could also dial one
    that a program outside made in a folder it is given, so these must be folders of its own."""
    stdin: bytes = b""
    limits: BoxLimits = BoxLimits()


class BoxResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a boxed command ended, and what was kept of each stream, up to the limit.

    For an open box, `stdout` is what followed its last complete line and `stderr` the end of that stream.
    """

    end: BoxEnd
    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    tier: Tier
    reason: str = ""
    """One sentence unless the end is `exited`."""
    hint: str = ""
    """What to do about a program that the command did not find."""
    lendable: str = ""
    """The folder that the owner can lend to boxes so that it would be found."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the doctor: what was tested, by its behaviour, and what to do if it failed."""

    name: str
    state: Literal["ok", "warn", "fail", "info"]
    detail: str
    remedy: str = ""
