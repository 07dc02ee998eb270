"""The database file: opening, migrating, one writer thread, and commits shared by concurrent writes."""

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from coilclaw.packets.errors import StorageError
from coilclaw.store.durable import full_disk
from coilclaw.store.lock import FairLock, Patience, Wait, held_error
from coilclaw.store.schema import fit

if TYPE_CHECKING:
    from coilclaw.store.holder import Holder

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
"""Runs inside a write transaction; it must not commit, block or keep the connection."""

BATCH = 64
BUSY_SECONDS = 30.0
_BUSY_LOOK_SECONDS = 0.25
"""How long SQLite waits for a program that bypasses our lock, before we find out who it is."""


class _Job(msgspec.Struct):
    work: Work[object]
    done: Future[object] | asyncio.Future[object]


def _deliver(answers: list[tuple[asyncio.Future[object], object, Exception | None]]) -> None:
    """Deliver a batch's outcomes to the callers that still wait, in their own loop."""
    for future, result, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def storage_error(error: sqlite3.Error, path: Path) -> StorageError:
    """One sentence for an SQLite error, with what to do."""
    text = str(error)
    if "not a database" in text or "malformed" in text:
        return StorageError(
            f"{path} is not a valid SQLite database ({text}).",
            remedy="Move it aside and run `coilclaw init`, or restore it from a backup; receipts remain in the log.",
        )
    if "full" in text or ("I/O" in text and _no_space(path)):
        return full_disk(path)
    if "readonly" in text or "unable to open" in text:
        return StorageError(
            f"{path} cannot be written ({text}).", remedy="Check the owner and mode of the home and its files."
        )
    if "locked" in text or "busy" in text:
        from coilclaw.store.holder import database_holder

        return held_error(str(path), database_holder(path, path))
    return StorageError(f"the database {path} failed: {text}.", remedy="Run `coilclaw doctor`.")


def _no_space(path: Path) -> bool:
    """SQLite reports 'disk I/O error' if there is no space to grow its shared memory."""
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False


class Connection(sqlite3.Connection):
    """A connection with the key that authenticates our rows."""

    row_key: bytes | None = None
    """The MAC key; None if rows have no MACs."""
    vouched: bool = False
    """Whether a row with a MAC may have been written that is not counted outside the database yet."""


class Vouch(Protocol):
    """Authenticates what is written; called in the writer thread, holding the lock."""

    def prepare(self, connection: Connection, /) -> None:
        """Before the first write of this process; if it fails, nothing is written."""
        ...

    def begun(self, connection: Connection, /) -> tuple[int, bytes]:
        """At the start of every transaction; its result is passed to `ending`."""
        ...

    def ending(self, connection: Connection, begun: tuple[int, bytes], /) -> None:
        """Before the transaction is committed."""
        ...

    def written(self, connection: Connection, /) -> None:
        """After the commit, before any caller gets its result."""
        ...


def _connect(path: Path, busy: float = BUSY_SECONDS) -> Connection:
    connection = sqlite3.connect(path, timeout=busy, isolation_level=None, check_same_thread=False, factory=Connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _is_busy(error: sqlite3.Error) -> bool:
    return "locked" in str(error) or "busy" in str(error)


def _tell_nobody(_: str) -> None:
    """Discards the message."""


def _tell_everybody(error: Exception) -> None:
    """Reports uncaught errors of threads."""
    threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))


class Database:
    """One SQLite file. Reads go straight to `reader`; writes go through the writer thread and are durable when done.

    Take `reader` anew in each thread: it has a connection for every one of them.
    """

    def __init__(
        self,
        path: Path,
        locks: Path,
        *,
        patience: Patience | None = None,
        waiting: Callable[[str], None] = _tell_nobody,
    ) -> None:
        """`waiting` is told who blocks our writes, if that takes a while."""
        self.path = path
        self.held_by = ""
        """Who blocks our writes now, in words; empty if nobody does."""
        self._patience = patience or Patience()
        self._waiting = waiting
        self._lock_file = locks / "database.lock"
        self._lock = FairLock(
            locks / "database", what=str(path), patience=self._patience, who=self._holder, tell=self._wait_told
        )
        self._jobs: deque[_Job] = deque()
        self._calls: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """Wakes the writer: True means that there may be jobs, False that there will be no more."""
        self._calling: set[asyncio.AbstractEventLoop] = set()
        """Loops that will wake the writer once they have run what is ready; each for its own jobs."""
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._readers: dict[threading.Thread, Connection] = {}
        self._closed = False
        self._after_commit: Callable[[sqlite3.Connection], None] | None = None
        self._tell: Callable[[Exception], None] = _tell_everybody
        self._vouch: Vouch | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.repaired = fit(self.reader, self._lock, path)
            """What had to be added to the schema when the file was opened."""
        except sqlite3.Error as error:
            raise storage_error(error, path) from error
        except OSError as error:
            raise StorageError(f"{path.parent} cannot be created ({error.strerror}).") from error

    @property
    def reader(self) -> Connection:
        """This thread's connection. On a shared one a read would see the moment at which the first of the reads that
        are under way began: a thread could miss what it has just written."""
        return self._readers.get(threading.current_thread()) or self._open_reader()

    def _open_reader(self) -> Connection:
        with self._starting:
            if self._closed:
                raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
            for ended in [thread for thread in self._readers if not thread.is_alive()]:
                self._readers.pop(ended).close()
            made = self._readers[threading.current_thread()] = _connect(self.path)
        return made

    def _holder(self) -> "Holder | None":
        from coilclaw.store.holder import database_holder

        return database_holder(self.path, self._lock_file)

    def _wait_told(self, words: str) -> None:
        self.held_by = words
        if words:
            self._waiting(words)

    def after_commit(
        self, hook: Callable[[sqlite3.Connection], None], tell: Callable[[Exception], None] | None = None
    ) -> None:
        """Call `hook` in the writer thread, still holding the lock, after every commit.

        If it fails, the writes are durable and their callers succeed; its error goes to `tell`.
        """
        self._after_commit = hook
        self._tell = tell or _tell_everybody

    def vouch_with(self, vouch: Vouch) -> None:
        """Set what authenticates writes."""
        self._vouch = vouch

    def submit(self, work: Work[T]) -> Future[T]:
        """Queue a write; the future is done when it is durable, or carries why it is not."""
        done: Future[T] = Future()
        self._put(_Job(work, done))  # pyright: ignore[reportArgumentType]
        self._calls.put(True)
        return done

    async def write(self, work: Work[T]) -> T:
        """Write and wait until it is durable. Cancelling the caller does not undo the write."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._put(_Job(work, done))  # pyright: ignore[reportArgumentType]
        if loop not in self._calling:  # other ready tasks may write too: wake the writer after them
            self._calling.add(loop)
            loop.call_soon(self._call, loop)
        return await done

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        self._calling.discard(loop)
        self._calls.put(True)

    def _put(self, job: _Job) -> None:
        if self._thread is None:
            with self._starting:  # two writers would share one lock, which then excludes nobody
                if self._thread is None:
                    thread = threading.Thread(target=self._write_forever, name="writer", daemon=True)
                    thread.start()
                    self._thread = thread
        self._jobs.append(job)

    @property
    def is_writing(self) -> bool:
        """Whether the writer was ever used and may still be working."""
        return self._thread is not None

    def write_now(self, work: Work[T]) -> T:
        """Write and wait, from code without an event loop."""
        return self.submit(work).result()

    def close(self) -> None:
        """Finish queued writes and close the file."""
        if self._thread is not None:
            self._calls.put(False)
            self._thread.join()
            self._thread = None
        with self._starting:
            self._closed = True
            for reader in self._readers.values():
                reader.close()
            self._readers.clear()
        self._lock.close()

    def _write_forever(self) -> None:
        connection: Connection | None = None
        prepared: Vouch | None = None
        called = True
        while called:
            called = self._calls.get()
            for batch in self._batches():
                try:
                    connection = connection or _connect(self.path, _BUSY_LOOK_SECONDS)
                    with self._lock:
                        if self._vouch is not None and prepared is not self._vouch:
                            self._vouch.prepare(connection)
                            prepared = self._vouch
                        self._begin(connection)
                        self.held_by = ""
                        self._commit(connection, batch)
                except Exception as error:  # delivered to the caller; the writer itself must survive
                    self._fail(batch, error)
        if connection is not None:
            connection.close()

    def _batches(self) -> Iterator[list[_Job]]:
        """The queued jobs, in order; later ones trigger their own wake-up."""
        waiting = len(self._jobs)
        for start in range(0, waiting, BATCH):
            yield [self._jobs.popleft() for _ in range(min(BATCH, waiting - start))]

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction; a program that bypasses our lock may still be writing."""
        tired = bool(self.held_by)  # we gave up on a holder, and no write has succeeded since
        with Wait(str(self.path), self._patience, self._holder, self._wait_told) as wait:
            while True:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    if not _is_busy(error):
                        raise
                    wait.go_on(tired=tired)
                else:
                    return

    def _commit(self, connection: Connection, batch: list[_Job]) -> None:
        """One transaction for the batch, one savepoint per write, results delivered after the commit."""
        vouch = self._vouch
        results: list[tuple[_Job, object, Exception | None]] = []
        try:
            begun = None if vouch is None else vouch.begun(connection)
            for job in batch:
                self._run_one(connection, job, results)
            if vouch is not None and begun is not None:
                vouch.ending(connection, begun)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        try:
            for hook in (None if vouch is None else vouch.written, self._after_commit):
                self._call_hook(hook, connection)
        finally:
            self._answer(results)

    def _call_hook(self, hook: Callable[[Connection], None] | None, connection: Connection) -> None:
        try:
            if hook is not None:
                hook(connection)
        except Exception as error:  # the writes are durable, but the failure must be reported
            self._tell(error)

    def _answer(self, results: list[tuple[_Job, object, Exception | None]]) -> None:
        """One wake-up per waiting loop, however many of its writes are done."""
        waiting: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[object], object, Exception | None]]] = {}
        for job, result, error in results:
            if isinstance(job.done, asyncio.Future):
                waiting.setdefault(job.done.get_loop(), []).append((job.done, result, error))
            elif not job.done.done():
                job.done.set_result(result) if error is None else job.done.set_exception(error)
        for loop, answers in waiting.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(_deliver, answers)

    def _run_one(
        self, connection: sqlite3.Connection, job: _Job, results: list[tuple[_Job, object, Exception | None]]
    ) -> None:
        connection.execute("SAVEPOINT one")
        try:
            result = job.work(connection)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError):
                raise  # the disk or the file failed: roll back the whole batch
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
            results.append((job, None, error))
            return
        connection.execute("RELEASE one")
        results.append((job, result, None))

    def _fail(self, batch: list[_Job], error: Exception) -> None:
        failure = error
        if isinstance(error, OSError):
            failure = StorageError(f"writing {self.path} failed ({error.strerror}).", remedy="Check the disk.")
        elif isinstance(error, sqlite3.Error):
            failure = storage_error(error, self.path)
        self._answer([(job, None, failure) for job in batch])
