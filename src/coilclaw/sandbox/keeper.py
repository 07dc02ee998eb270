"""The keeper of one session: a small process, forked from the nursery, that owns a terminal and the box on it.

It outlives the server. Its own death is the end of its box: what builds a box dies with the process that started it.
After the box has ended it stays, with the last of the output and how it ended, until somebody says `finish`.
"""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable

import msgspec

from coilclaw.packets.box import BoxResult, BoxSpec
from coilclaw.packets.errors import BoxUnavailable, CoilclawError, ToolError
from coilclaw.sandbox.accepting import HeldListeners
from coilclaw.sandbox.box import tools
from coilclaw.sandbox.box_listener import PORT
from coilclaw.sandbox.idmap import IdentityMaps
from coilclaw.sandbox.keeper_clients import Client, Desk, unknown
from coilclaw.sandbox.keeper_wire import (
    ENDED,
    FAILED,
    ORDER,
    STATE,
    SUFFIX,
    WELCOME,
    Failure,
    Frames,
    Hello,
    KeeperEnd,
    KeeperOrder,
    KeeperRequest,
    SocketFolder,
    TerminalEnd,
    TerminalState,
    Welcome,
    check_order,
    check_size,
    engaged,
    is_ours,
    packed,
)
from coilclaw.sandbox.namespaced_box import NamespacedBox, Tools, identity_maps
from coilclaw.sandbox.opened import RunningStreams
from coilclaw.sandbox.process_tree import children, descendants
from coilclaw.sandbox.seccomp import filter_bytes, this_machine
from coilclaw.sandbox.terminal import BoxTerminal

POLL_SECONDS = 0.1
_ORDER_SECONDS = 10.0
_LOOK_SECONDS = 10.0
_KEPT_SECONDS = 24 * 3600.0
_REDRAW_SECONDS = 0.1
_LONGEST_GRACE = 60.0
_GOODBYE_SECONDS = 0.1
"""For the answer to get out."""
_MOST_CLIENTS = 64
_ROUNDS = 2000
_STOPPING_SECONDS = 0.001
STOP, DONE = b"s", b"d"
"""What the nursery says when ESTOP was engaged, and what it is answered once the box is dead."""
_KEYS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Inherited(msgspec.Struct, frozen=True, kw_only=True):
    """What every keeper has from its nursery."""

    folder: str
    watched: tuple[str, ...]
    """Where ESTOP is looked for on our behalf."""
    tools: Tools
    maps: IdentityMaps | None


def keep(starter: socket.socket, nursery: socket.socket, inherited: Inherited) -> None:
    """Be a keeper, from the order to the end."""
    os.setsid()
    for number in _KEYS:
        signal.signal(number, _pass_over)  # not ignored: what we start would inherit that
    with open("/proc/self/comm", "w") as name:  # noqa: PTH123 - a kernel path
        name.write("coilclaw-keeper")
    starter.settimeout(_ORDER_SECONDS)
    try:
        order = _received(starter)
    except (OSError, ValueError, msgspec.DecodeError):
        return  # nobody to answer
    asyncio.run(_keep(order, starter, nursery, inherited))


def rehearse(folder: str, estop: tuple[str, ...], python: str) -> Inherited:
    """Do once, before any keeper is forked, what every keeper does first: then they share what that leaves."""
    used = tools(python=python)
    maps = None
    with contextlib.suppress(CoilclawError):  # each keeper will find out, and say so
        if os.geteuid() == 0:
            maps = identity_maps(used)
            maps.descriptor(0, os.getegid())
    spec = BoxSpec(command="", workspace="", cwd="")
    order = KeeperOrder(session_id="", spec=spec, tier="A", hide=(), owned=(), estop=(), rows=1, columns=1)
    for sockets in ("inet", "stream"):
        filter_bytes(this_machine(), sockets)
    for _ in range(3):
        Frames().feed(packed(ORDER, order))
        msgspec.msgpack.decode(msgspec.msgpack.encode(order), type=KeeperOrder)
        asyncio.run(asyncio.to_thread(tools, python=python))
        with contextlib.suppress(CoilclawError):
            NamespacedBox("A", hide=(), tools=used, maps=maps)
    return Inherited(folder=folder, watched=estop, tools=used, maps=maps)


def _pass_over(_number: int, _frame: object) -> None:
    """A key was pressed before anything in the box could take it."""


def _received(starter: socket.socket) -> KeeperOrder:
    frames = Frames()
    while True:
        data = starter.recv(1 << 16)
        if not data:
            raise OSError("it hung up")
        for kind, payload in frames.feed(data):
            if kind == ORDER:
                return msgspec.msgpack.decode(payload, type=KeeperOrder)


async def _keep(order: KeeperOrder, starter: socket.socket, nursery: socket.socket, inherited: Inherited) -> None:
    try:
        keeper = Keeper(order, SocketFolder(inherited.folder), nursery, watched=order.estop == inherited.watched)
        await keeper.start(starter, inherited)
    except (CoilclawError, OSError) as error:
        failure = Failure.of(error) if isinstance(error, CoilclawError) else Failure(message=f"It failed: {error}.")
        with contextlib.suppress(OSError):
            starter.settimeout(1)
            starter.sendall(packed(FAILED, failure))
        return
    await keeper.finished.wait()
    keeper.close()


class Keeper:
    """One session."""

    def __init__(self, order: KeeperOrder, folder: SocketFolder, nursery: socket.socket, *, watched: bool) -> None:
        check_order(order)
        self._loop = asyncio.get_running_loop()
        self._order = order
        self._folder = folder
        self._nursery = nursery
        self._estop = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._size = order.rows, order.columns
        self._terminal = BoxTerminal(order.rows, order.columns, self._take)
        ports = (*((PORT,) if order.spec.domains else ()), *order.spec.listeners)
        self._listeners = HeldListeners(ports)
        self._desk = Desk(
            welcome=self._welcome, request=self._request, type_in=self._terminal.write,
            listeners=lambda: self._listeners.held, hold_back=self._terminal.hold_back, resized=self._resized,
        )  # fmt: skip
        self._stopped: list[int] = []
        """The processes that are stopped because of a pause, outer ones first."""
        self._paused = False
        self._asked_to_stop = False
        self._end: KeeperEnd | None = None
        self._running: RunningStreams | None = None
        self.finished = asyncio.Event()
        self._door: socket.socket | None = None
        nursery.setblocking(False)
        self._loop.add_reader(nursery, self._hear_nursery)
        if not watched:
            self._watch()

    async def start(self, starter: socket.socket, inherited: Inherited) -> None:
        """Open the box; the process that ordered it becomes the first client."""
        tier = self._order.tier
        if tier not in {"A", "B"}:
            raise BoxUnavailable(
                "A session needs a box with namespaces.", remedy="Run `coilclaw doctor` to see what is missing."
            )
        self._door = self._listen()
        try:
            box = NamespacedBox(
                "A" if tier == "A" else "B", hide=self._order.hide, owned=self._order.owned, tools=inherited.tools,
                maps=inherited.maps,
            )  # fmt: skip
            self._running = await box.open_terminal(
                self._order.spec, self._terminal, self._listeners, stopped=self._estop_engaged,
                released=lambda: self._may_begin(starter),
            )  # fmt: skip
        except BaseException:
            self.close()
            raise
        self._running.task.add_done_callback(self._over)
        self._admit(starter).greet(Hello())
        self._door.setblocking(False)
        self._look_for_name()
        self._loop.add_reader(self._door, self._accept)

    def _look_for_name(self) -> None:
        """A session that nobody can reach any more, because its home was removed, has no reason to go on."""
        if self._door is None:
            return
        try:
            os.stat(f"{self._order.session_id}{SUFFIX}", dir_fd=self._folder.descriptor)
        except FileNotFoundError:
            self._terminal.stop("stopped", "Its home is gone.")
            self._loop.call_later(_GOODBYE_SECONDS, self.finished.set)
        else:
            self._loop.call_later(_LOOK_SECONDS, self._look_for_name)

    def _listen(self) -> socket.socket:
        name = f"{self._order.session_id}{SUFFIX}"
        for _ in range(3):
            try:
                return self._folder.listen(name)
            except FileExistsError:
                other = self._folder.dial(name)
                if other is not None:
                    other.close()
                    break
        raise ToolError(
            f"The session {self._order.session_id} is already kept.", remedy="Attach to it.", code="SESSION_EXISTS",
            begun=False,
        )  # fmt: skip

    def _may_begin(self, starter: socket.socket) -> None:
        """The last check: the process that ordered it is still connected, and nothing is stopped."""
        if engaged(self._order.estop):
            raise ToolError("ESTOP is engaged.", remedy="Clear ESTOP first.", code="ESTOP", begun=False)
        starter.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            if not starter.recv(1, socket.MSG_PEEK):
                raise ToolError("The process that started this session is gone.", code="CANCELLED", begun=False)

    # -- ESTOP

    def _hear_nursery(self) -> None:
        try:
            word = self._nursery.recv(16)
        except BlockingIOError:
            return
        except OSError:
            word = b""
        if word:
            self._estop.set()
        else:  # it is gone, and we are on our own
            self._loop.remove_reader(self._nursery)
            self._watch()

    def _watch(self) -> None:
        if self._watching is None:
            self._watching = self._loop.create_task(self._look_for_estop())

    async def _look_for_estop(self) -> None:
        while not engaged(self._order.estop):
            await asyncio.sleep(POLL_SECONDS)
        self._estop.set()

    async def _estop_engaged(self) -> None:
        await self._estop.wait()

    # -- clients

    def _accept(self) -> None:
        if self._door is None:
            return
        try:
            connection, _ = self._door.accept()
        except OSError:
            return
        if len(self._desk.clients) >= _MOST_CLIENTS or not is_ours(connection):
            connection.close()
        else:
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> Client:
        client = Client(connection, self._desk)
        self._desk.clients.append(client)
        return client

    def _take(self, data: bytes) -> None:
        self._desk.take(data)

    def _welcome(self, client: Client) -> None:
        rows, columns = self._size
        ring = self._desk.ring
        client.say(packed(WELCOME, Welcome(
            first=ring.first, next=ring.next, at=client.at, rows=rows, columns=columns, paused=self._paused,
            pid=os.getpid(), ports=self._listeners.ports,
        )))  # fmt: skip
        if self._end is not None:
            client.say(packed(ENDED, TerminalEnd(end=self._end, next=ring.next)))

    def _request(self, client: Client, request: KeeperRequest) -> None:
        known: dict[str, Callable[[Client, KeeperRequest], None]] = {
            "resize": self._resize, "redraw": self._redraw, "pause": self._pause, "resume": self._resume,
            "stop": self._stop, "finish": self._finish, "no_screen": self._no_screen,
        }  # fmt: skip
        try:
            act = known.get(request.what)
            if act is None:
                raise unknown(request.what)
            act(client, request)
        except CoilclawError as error:
            client.answer(request.number, error)
        else:
            client.answer(request.number)

    def _tell_state(self) -> None:
        rows, columns = self._size
        self._desk.say(packed(STATE, TerminalState(rows=rows, columns=columns, paused=self._paused)))

    # -- the size

    def _resize(self, client: Client, request: KeeperRequest) -> None:
        check_size(request.rows, request.columns)
        client.size = request.rows, request.columns
        self._resized()

    def _no_screen(self, client: Client, _request: KeeperRequest) -> None:
        client.size = None
        self._resized()

    def _resized(self) -> None:
        """The smallest screen wins; after the last has left, its size stays."""
        size = self._desk.size() or self._size
        if size != self._size:
            self._size = size
            self._terminal.resize(*size)
            self._tell_state()

    def _redraw(self, _client: Client, _request: KeeperRequest) -> None:
        """One row less and back, with a moment between, or programs would see that nothing has changed."""
        rows, columns = self._size
        self._terminal.resize(rows - 1 if rows > 1 else rows + 1, columns)
        self._loop.call_later(_REDRAW_SECONDS, lambda: self._terminal.resize(*self._size))

    # -- its processes

    def _inside(self) -> list[int]:
        """Everything in the box but its first process, outer ones first."""
        firsts = [first for each in children(os.getpid()) for first in children(each)]
        return [pid for first in firsts for pid in descendants(first)]

    def _pause(self, _client: Client, _request: KeeperRequest) -> None:
        """Stop every process that runs: a shell before its jobs, so that it does not see them stop."""
        self._must_run()
        inside: list[int] = []
        for _ in range(_ROUNDS):
            inside = self._inside()
            moving = [pid for pid in inside if not _stands_still(pid, asked=pid in self._stopped)]
            if inside and not moving:  # empty: the first process has yet to start the command, which would then run
                break
            for pid in moving:
                _signal(pid, signal.SIGSTOP)
            self._stopped += [pid for pid in moving if pid not in self._stopped]
            time.sleep(_STOPPING_SECONDS)  # a signal takes a moment: until then it may start another process
        else:
            self._let_run()
            why = "Its processes start faster than they can be stopped." if inside else "Its program has yet to start."
            raise ToolError(why, remedy="Try again in a moment, or stop the session.", code="CANNOT_PAUSE")
        self._paused = True
        self._tell_state()

    def _resume(self, _client: Client, _request: KeeperRequest) -> None:
        """Let the same processes run again: a job the user had suspended stays so."""
        self._must_run()
        self._let_run()
        if self._paused:
            self._paused = False
            self._tell_state()

    def _let_run(self) -> None:
        inside = set(self._inside())
        while self._stopped:
            pid = self._stopped.pop()  # inner ones first: their shell finds them running
            if pid in inside:
                _signal(pid, signal.SIGCONT)

    def _stop(self, client: Client, request: KeeperRequest) -> None:
        """Hang up, as when a window is closed, and after the grace kill what is left."""
        if self._end is not None:
            return
        self._asked_to_stop = True
        if self._paused:
            self._resume(client, request)
        for pid in self._inside():
            _signal(pid, signal.SIGHUP)
            _signal(pid, signal.SIGCONT)
        grace = min(max(request.grace, 0.0), _LONGEST_GRACE)
        self._loop.call_later(grace, lambda: self._terminal.stop("stopped", "It was stopped."))

    def _finish(self, _client: Client, _request: KeeperRequest) -> None:
        if self._end is None:
            raise ToolError("The session still runs.", remedy="Stop it first.", code="STILL_RUNNING")
        self._take_name_away()
        self._loop.call_later(_GOODBYE_SECONDS, self.finished.set)

    def _must_run(self) -> None:
        if self._end is not None:
            raise ToolError("The session has ended.", remedy="Start a new one.", code="BOX_OVER")

    # -- the end

    def _over(self, task: "asyncio.Future[BoxResult]") -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            reason = "It was cancelled." if error is None else str(error)
            self._end = KeeperEnd(end="signalled", exit_code=128 + signal.SIGKILL, reason=reason, seconds=0.0)
        else:
            result = task.result()
            end, reason = result.end, result.reason
            if self._asked_to_stop and end in {"exited", "signalled"}:
                end, reason = "stopped", "It was stopped."
            self._end = KeeperEnd(end=end, exit_code=result.exit_code, reason=reason, seconds=result.seconds)
        self._desk.say(packed(ENDED, TerminalEnd(end=self._end, next=self._desk.ring.next)))
        with contextlib.suppress(OSError):
            self._nursery.send(DONE)
        if self._watching is not None:
            self._watching.cancel()
        self._loop.call_later(_KEPT_SECONDS, self.finished.set)

    def close(self) -> None:
        """Take the name away and hang up on everyone."""
        self._take_name_away()
        if self._watching is not None:
            self._watching.cancel()
        for client in tuple(self._desk.clients):
            client.close()

    def _take_name_away(self) -> None:
        if self._door is not None:
            self._loop.remove_reader(self._door)
            self._folder.remove(f"{self._order.session_id}{SUFFIX}")
            self._door.close()
            self._door = None


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _stands_still(pid: int, *, asked: bool) -> bool:
    """Whether it is stopped or dead, or waits in the kernel and will stop before it does anything else."""
    still = {b"T", b"t", b"Z", b"X"} | ({b"D"} if asked else set[bytes]())
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as source:  # noqa: PTH123 - a kernel path
            return source.read(4096).rpartition(b")")[2].split()[0] in still
    except (OSError, IndexError):
        return True
