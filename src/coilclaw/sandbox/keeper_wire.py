"""What keepers, their nursery and their clients say to each other, over sockets in a folder that is ours alone.

A frame is a length (4 bytes), a kind (1 byte) and a payload. Kinds and fields that a side does not know are ignored, so
that a newer server can talk to an older keeper, which may run for days.
"""

import os
import re
import socket
import stat
import struct
from typing import Final, Literal, TypeAlias

import msgspec

from coilclaw.packets.box import BoxEnd, BoxSpec, Tier
from coilclaw.packets.errors import BoxUnavailable, CoilclawError, ToolError

VERSION: Final = 1
NURSERY: Final = "nursery.sock"
SUFFIX: Final = ".sock"
WINDOW: Final = 256 << 10
"""How far output may be ahead of what its reader has taken."""
UNTYPED: Final = 64 << 10
"""How much one client may type ahead of what the terminal has taken."""
CHUNK: Final = 64 << 10
LONGEST: Final = 1 << 20
"""Bytes of a frame."""
MOST_ROWS, MOST_COLUMNS = 1000, 2000

# from a client
HELLO, ORDER, TAKE, INPUT, REQUEST = range(1, 6)
# from a keeper, or for the first one from the nursery
ACCEPTED, WELCOME, FAILED, OUTPUT, STATE, TYPED, ENDED, ANSWER, LENT = range(65, 74)

_HEAD = struct.Struct("=IB")
OFFSET = struct.Struct("=Q")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PEER = struct.Struct("=3i")

What: TypeAlias = Literal["resize", "redraw", "pause", "resume", "stop", "finish", "no_screen"]


class KeeperOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A session to start: its box, its terminal, and where ESTOP may lie."""

    session_id: str
    spec: BoxSpec
    tier: Tier
    hide: tuple[str, ...]
    owned: tuple[str, ...]
    estop: tuple[str, ...]
    """Every path whose existence stops everything."""
    rows: int
    columns: int


class KeeperEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a session's box ended."""

    end: BoxEnd
    exit_code: int
    reason: str
    seconds: float


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first word of a client."""

    version: int = VERSION
    offset: int | None = None
    """Where its output begins; None for the oldest that is kept."""
    follow: bool = False
    """The terminal is held back if this client falls behind."""
    lend: bool = False
    """It wants the listeners and nothing else."""


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a session when a client came."""

    version: int = VERSION
    first: int
    next: int
    at: int
    """Where its output begins."""
    rows: int
    columns: int
    paused: bool
    pid: int
    ports: tuple[int, ...]


class TerminalState(msgspec.Struct, frozen=True, kw_only=True):
    """What changed for everyone."""

    rows: int
    columns: int
    paused: bool


class TerminalEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The box is over, and its output has this end."""

    end: KeeperEnd
    next: int


class KeeperRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done, with a number that its answer repeats."""

    number: int
    what: str
    rows: int = 0
    columns: int = 0
    grace: float = 0.0


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error on its way to the client."""

    message: str
    remedy: str = ""
    code: str = ""
    unavailable: bool = False
    begun: bool = True

    @classmethod
    def of(cls, error: CoilclawError) -> "Failure":
        """The error as it travels."""
        return cls(
            message=error.message, remedy=error.remedy, code=getattr(error, "code", ""),
            unavailable=isinstance(error, BoxUnavailable), begun=getattr(error, "begun", False),
        )  # fmt: skip

    def error(self) -> CoilclawError:
        """The error as it is raised."""
        if self.unavailable:
            return BoxUnavailable(self.message, remedy=self.remedy)
        return ToolError(self.message, remedy=self.remedy, code=self.code, begun=self.begun)


class KeeperAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request."""

    number: int
    failure: Failure | None = None


def frame(kind: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return _HEAD.pack(len(payload), kind) + payload


def packed(kind: int, value: msgspec.Struct) -> bytes:
    """One frame with a struct in it."""
    return frame(kind, msgspec.msgpack.encode(value))


class Frames:
    """Splits what arrives into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The complete frames so far; ValueError if one is too long."""
        self._data += data
        found: list[tuple[int, bytes]] = []
        at = 0
        while len(self._data) - at >= _HEAD.size:
            size, kind = _HEAD.unpack_from(self._data, at)
            if size > LONGEST:
                raise ValueError("a frame is too long")
            end = at + _HEAD.size + size
            if end > len(self._data):
                break
            found.append((kind, bytes(self._data[at + _HEAD.size : end])))
            at = end
        if at:
            del self._data[:at]
        return found


def engaged(paths: tuple[str, ...]) -> bool:
    """Whether everything must stop. Only a clear 'no such file' at every path means no (as in gate/estop.py)."""
    for path in (*paths, *paths[:1]):  # a stop may be moved back meanwhile
        try:
            os.lstat(path)
        except FileNotFoundError:
            continue
        except OSError:
            return True
        return True
    return False


def check_order(order: KeeperOrder) -> None:
    """Refuse a name that is not one, and a size that no screen has."""
    if not _NAME.fullmatch(order.session_id) or f"{order.session_id}{SUFFIX}" == NURSERY:
        raise ToolError(f"{order.session_id!r} cannot name a session.", code="BAD_SESSION", begun=False)
    if not order.estop:
        raise ToolError("A session needs to know where ESTOP may lie.", code="BAD_SESSION", begun=False)
    check_size(order.rows, order.columns)


def is_name(name: str) -> bool:
    """Whether it can be the id of a session."""
    return _NAME.fullmatch(name) is not None


def check_size(rows: int, columns: int) -> None:
    """Refuse a size that no screen has."""
    if not 1 <= rows <= MOST_ROWS or not 1 <= columns <= MOST_COLUMNS:
        raise ToolError(
            f"A terminal cannot have {rows} rows and {columns} columns.",
            remedy=f"Use 1 to {MOST_ROWS} rows and 1 to {MOST_COLUMNS} columns.", code="BAD_SIZE", begun=False,
        )  # fmt: skip


class SocketFolder:
    """The folder of the sockets, opened: names in it may then be longer than a socket's address."""

    def __init__(self, path: str, *, make: bool = False) -> None:
        """Refuses a folder that others could put something into; FileNotFoundError if there is none."""
        if make:
            os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103 - a kernel path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(self.descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            self.close()
            raise ToolError(
                f"{path} is not a folder that only you can open, so no session can be kept there.",
                remedy=f"Run `chmod 700 {path}`.", code="BAD_FOLDER", begun=False,
            )  # fmt: skip

    def address(self, name: str) -> str:
        """The address of a socket in it."""
        return f"/proc/self/fd/{self.descriptor}/{name}"

    def listen(self, name: str) -> socket.socket:
        """A listening socket that only we can reach; it has its name only once it listens."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        hidden = f".{name}.{os.getpid()}"
        self.remove(hidden)
        try:
            made.bind(self.address(hidden))
            os.chmod(hidden, 0o600, dir_fd=self.descriptor)
            made.listen(128)
            os.link(hidden, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor, follow_symlinks=False)
        except BaseException:
            made.close()
            raise
        finally:
            self.remove(hidden)
        return made

    def dial(self, name: str) -> socket.socket | None:
        """A connection; None if nobody listens there any more, whose socket is removed."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            made.connect(self.address(name))
        except FileNotFoundError:
            made.close()
            return None
        except ConnectionRefusedError:
            made.close()
            if name != NURSERY:  # another one may have just taken that place; whoever holds its lock clears it
                self.remove(name)
            return None
        except BaseException:
            made.close()
            raise
        return made

    def remove(self, name: str) -> None:
        """Remove a socket, if it is there."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            return

    def close(self) -> None:
        """Close it."""
        os.close(self.descriptor)


def is_ours(connection: socket.socket) -> bool:
    """Whether the other end is one of our processes, as the kernel knows it."""
    _, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return uid == os.geteuid()
