"""What may run in a box, with what, and how it ended."""

from typing import Literal, TypeAlias

import msgspec

Tier: TypeAlias = Literal["A", "B", "C", "unsafe"]
BoxEnd: TypeAlias = Literal[
    "exited", "signalled", "timeout", "stopped", "output_limit", "memory_limit", "cpu_limit", "process_limit",
    "write_limit", "left_behind",
]  # fmt: skip
"""`left_behind`: it ended by itself, but something it had started was still running and had to be ended."""


class BoxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on everything a process can use up."""

    wall_seconds: float | None = 15.0
    """None bounds nothing, which only a box that stays open may ask for."""
    cpu_seconds: int | None = 15
    """Of each process; None bounds nothing, which only a box that stays open may ask for."""
    memory_bytes: int = 1 << 30
    processes: int = 128
    output_bytes: int = 1 << 20
    """What a command may write to both streams; of a box that stays open, what one line may have."""
    file_bytes: int = 64 << 20
    write_bytes: int = 4 << 30
    """What it may write to the workspace's file system in all; its /tmp and /dev/shm have sizes of their own. What
    others take of that file system meanwhile counts too, so a box that stays open for hours needs more."""
    open_files: int = 256
    address_space: bool = True
    """Where no control group holds the memory, whether address space is bounded too. Programs that reserve far more
    than they use (WebAssembly, some garbage collectors) do not start then; memory in use is bounded either way."""


class BrokerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on what one box can do through its broker. The defaults are for one command; see `BROKER_FOR_HOURS`."""

    head_seconds: float = 10.0
    """For the whole of a request's head and body, or of a TLS client's first message."""
    idle_seconds: float = 30.0
    request_seconds: float = 120.0
    bytes_in: int = 64 << 20
    """To the box, over all its requests."""
    bytes_out: int = 16 << 20
    body_bytes: int = 1 << 20
    """Of one plain request."""
    connections: int = 32
    """At a time; more wait."""
    requests: int = 512


BROKER_FOR_HOURS = BrokerLimits(
    idle_seconds=600.0, request_seconds=3600.0, bytes_in=8 << 30, bytes_out=2 << 30, connections=64, requests=100_000
)
"""For a box that is open for hours and streams from a model: a thought may take minutes, an answer an hour."""


class BoxMount(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of this machine that stands inside as well.

    It shares no ground with the workspace or with another mount, except that one may stand directly in another mounted
    folder, on a real file or folder of the same kind. There it can be neither renamed nor removed from inside. While
    such a box starts, no other box may write to the outer folder.
    """

    source: str
    """Absolute, without links; never in, or around, what boxes hide."""
    at: str
    """Absolute, beside what every box has: not in /usr, /proc, /dev, /tmp and their like."""
    writable: bool


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
    broker: BrokerLimits = BrokerLimits()
    """How much may pass to and from the granted domains."""
    mounts: tuple[BoxMount, ...] = ()
    listeners: tuple[int, ...] = ()
    """Ports of its own loopback that are served from outside, by whoever opened the box."""
    stdin: bytes = b""
    limits: BoxLimits = BoxLimits()


class BoxResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a boxed command ended; the streams are whatever was captured up to the cap.

    Of a box that stayed open, `stdout` is what stood behind its last whole line and `stderr` the end of that stream.
    """

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
