"""The follower: in the server, it reads every session's terminal, records and publishes it, meters, and sees the end.

Sessions do not need it: their keepers go on without. It begins where the recording ends, so what happened meanwhile is
read then, as far as the keeper still has it; the rest is told as a gap.
"""

import asyncio
import contextlib
import math
import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.runner.box import domains_for
from coilclaw.features.runner.checkouts import Checkout, CheckoutChange
from coilclaw.features.runner.event import touched_file
from coilclaw.features.runner.fetching import in_thread
from coilclaw.features.runner.guard import ProgramGuard
from coilclaw.features.runner.live import LiveSession
from coilclaw.features.runner.questions import PushAnswers
from coilclaw.features.runner.sessions import FROM_NOW, OverPlan, Sessions, sessions_of
from coilclaw.features.runner.states import BEGINNING, ENDED, LIVE
from coilclaw.features.runner.store import (
    Session,
    events_after,
    load_session,
    move,
    needed_session,
    say,
    session_is_over,
    sessions_in,
    tick,
)
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, ToolError, UsageError
from coilclaw.packets.text import visible
from coilclaw.runtime.session_network import listeners_served
from coilclaw.sandbox.keepers import AttachedTerminal, KeeperEnd, KeeperLost
from coilclaw.store.actions import load_action, result_of
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.features.runner.hub import Hub
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

LOOK_SECONDS = 0.5
TICK_SECONDS = 15.0
RETRY_SECONDS = 10.0
ORPHAN_SECONDS = 30.0
QUIET_SECONDS = 1.0
"""The checkout is looked at when the terminal has been quiet for this long."""
LOOKS_AT_ONCE = 2
MOST_TOLD = 10_000
MOST_TOUCHED = 200
"""So many files are told singly at once, and then `TOUCHED_A_SECOND`."""
TOUCHED_A_SECOND = 5.0
LARGE_PIECE = 8 << 10
ROOM_SECONDS = 30.0
"""How often the room of all checkouts is measured, at most."""


class Follower:
    """Follows the sessions of one home."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor", sessions: Sessions, hub: "Hub") -> None:
        self._app = app
        self._conveyor = conveyor
        self._sessions = sessions
        self._hub = hub
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._looking = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._turn = asyncio.Lock()
        self._nudged = asyncio.Event()
        self._retry: dict[str, float] = {}
        """When to try again to follow a session that could not be followed."""
        self._answers = PushAnswers(app)
        self._swept = 0.0
        self._measure_at = 0.0
        self._full: dict[str, str] = {}
        """Sessions that were stopped because they filled the disk, and what to say about it."""

    def nudge(self) -> None:
        """There is a new session."""
        self._nudged.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Follow whatever runs until told to stop; then leave the sessions to themselves."""
        ending, measuring = asyncio.ensure_future(stop.wait()), None
        try:
            while not stop.is_set():
                self._nudged.clear()
                try:
                    await self._look()
                    await self._answers.look()
                    await self._end_orphans()
                    if self._tasks and (measuring is None or measuring.done()) and time.monotonic() >= self._measure_at:
                        measuring = asyncio.ensure_future(self._watch_room())
                except Exception as error:  # a busy or full database may be better in a moment
                    self._app.warn(f"Sessions cannot be looked at: {self._app.redact(str(error))}")
                nudged = asyncio.ensure_future(self._nudged.wait())
                await asyncio.wait({ending, nudged}, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                nudged.cancel()
        finally:
            ending.cancel()
            tasks = [*self._tasks.values(), *([] if measuring is None else [measuring])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self) -> None:
        for session_id, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[session_id]
                if not task.cancelled() and (error := task.exception()) is not None:
                    self._retry[session_id] = time.monotonic() + RETRY_SECONDS
                    self._app.warn(f"Session {session_id} cannot be followed: {self._app.redact(str(error))}")
        for session in sessions_in(self._app.db.reader, LIVE | BEGINNING):
            try:
                await self._see_to(session)
            except Exception as error:  # whatever is wrong with one session, the others are followed
                self._app.warn(f"Session {session.session_id}: {self._app.redact(str(error))}")

    async def _see_to(self, session: Session) -> None:
        parent = session.spec.parent_id
        if parent and session.state != "STOPPING" and session_is_over(self._app.db.reader, parent):
            await self._sessions.stop(session.session_id)  # nobody is left to use it
        if session.session_id in self._tasks:
            self._hub.catch_up(session)
        elif session.state not in LIVE:
            await self._bring_on(session)
        elif time.monotonic() >= self._retry.get(session.session_id, 0.0):
            self._tasks[session.session_id] = asyncio.ensure_future(self.follow(session))

    async def _end_orphans(self) -> None:
        """End keepers that no session in the database knows any more."""
        if time.monotonic() - self._swept < ORPHAN_SECONDS:
            return
        self._swept = time.monotonic()
        for name in await asyncio.to_thread(self._sessions.keepers.running):
            session = load_session(self._app.db.reader, name)
            if session is None or session.state in ENDED:
                await self._sessions.keepers.end(name)

    async def _watch_room(self) -> None:
        """Stop the session that takes most of the disk, while all of them together take more than they may."""
        began = time.monotonic()
        try:
            used, most = await in_thread(self._sessions.checkouts.usage), self._app.config.runner.disk_bytes
            running = [each for each in self._tasks if each not in self._full]
            if used > most and running:
                sizes = {each: await in_thread(partial(self._sessions.checkouts.size_of, each)) for each in running}
                await self._stop_full(max(sizes, key=sizes.__getitem__))
        except (CoilclawError, OSError) as error:
            self._app.warn(f"The room of sessions cannot be measured: {self._app.redact(str(error))}")
        now = time.monotonic()
        self._measure_at = now + max(ROOM_SECONDS, 10 * (now - began))

    async def _stop_full(self, session_id: str) -> None:
        keeper = await self._sessions.keepers.attach(session_id, FROM_NOW)
        if keeper is None:
            return
        try:
            self._full[session_id] = "The sessions together took more than runner.disk_bytes, and this one most of it."
            await keeper.resume()
            await keeper.stop(0.0)
        finally:
            await keeper.close()

    async def _bring_on(self, session: Session) -> None:
        """Start a queued session when there is room; end one whose start is over though it does not run."""
        action = load_action(self._app.db.reader, session.action_id)
        if action is not None and action.status in ("PENDING", "APPROVED"):
            return
        if session.state == "CREATED" and action is not None and action.status == "EXECUTED":
            await self._start_queued(session)
            return
        result = None if action is None else result_of(self._app.db.reader, action.action_id)
        reason = "Its start was interrupted." if result is None else result.output
        await self._sessions.record_end(session.session_id, "INTERRUPTED", reason, None)

    async def _start_queued(self, session: Session) -> None:
        def take(tx: Tx) -> Session | None:
            self._sessions.check_room(tx, session.spec, self._sessions.org(session.spec))
            return move(tx, self._app.clock, session.session_id, "PREPARING_WORKSPACE")

        try:
            taken = await self._app.db.write(take)
        except OverPlan:
            return
        except (ToolError, UsageError) as error:  # its organization may no longer use that
            await self._sessions.record_end(session.session_id, "START_FAILED", str(error), None)
            return
        if taken is not None:
            self._tasks[session.session_id] = asyncio.ensure_future(self._launch(taken))

    async def _launch(self, session: Session) -> None:
        with contextlib.suppress(CoilclawError):  # its row says why
            await self._sessions.launch(session)

    async def follow(self, session: Session) -> None:
        """Follow one session to its end, and record that."""
        keeper = None
        try:
            live = await in_thread(lambda: self._hub.open(session))  # it reads all that was recorded
            following = Following(self._app, self._sessions, session, live, self._looking, self._turn, self._conveyor)
            keeper = await self._sessions.keepers.attach(session.session_id, live.attach_at, follow=True)
            ended = None if keeper is None else await self._read(following, live, keeper)
            if ended is not None and (full := self._full.pop(session.session_id, "")):
                ended = msgspec.structs.replace(ended, end="write_limit", reason=full)
            await following.settle(None if ended is None else ended.seconds)
            self._app.reached("session_ending")
            over = await self._sessions.end(
                self._conveyor, session.session_id, ended, terminal=live.recording.digest(), files=following.files
            )
            self._app.reached("session_ended")
            self._hub.catch_up(over)
            if keeper is not None and ended is not None:
                await keeper.finish()
        finally:
            self._hub.close(session.session_id)
            if keeper is not None:
                await keeper.close()

    async def _read(self, following: "Following", live: LiveSession, keeper: AttachedTerminal) -> KeeperEnd | None:
        await self._hub.attached(live.session_id, keeper)
        self._app.reached("session_followed")
        keeper.on_change = lambda: live.resized(keeper.rows, keeper.columns)
        return await following.run(keeper)


class Following:
    """One session, from where its recording ends to its own end."""

    def __init__(
        self,
        app: "Runtime",
        sessions: Sessions,
        session: Session,
        live: LiveSession,
        looking: asyncio.Semaphore,
        turn: asyncio.Lock,
        conveyor: "Conveyor",
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._id = session.session_id
        self._checkout: Checkout | None = session.checkout
        self._domains = domains_for(app, session.spec)
        self._live = live
        self._guard = ProgramGuard(app, conveyor, sessions, session)
        self._looking = looking
        self._turn = turn
        self._bytes = 0
        """Written to the terminal since the last tick."""
        self._touched: set[str] = set()
        """Files that changed since the last tick."""
        self._seen: dict[str, CheckoutChange] = {}
        self._told: dict[str, object] | None = None
        """The files that an earlier server told of, each with how it changed."""
        if session.files_touched:
            told = events_after(app.db.reader, session, 0, MOST_TOLD)
            changed = (each.data for each in told if each.type == "FILE_TOUCHED" and each.data["reason"] != "read")
            self._told = {str(each["path"]): each["status"] for each in changed}
        self._wrote = asyncio.Event()
        self._pause = QUIET_SECONDS
        self._may_tell = float(MOST_TOUCHED)
        self._told_at = time.monotonic()

    @property
    def files(self) -> int:
        """How many files differ from what was checked out."""
        return len(self._seen)

    async def run(self, keeper: AttachedTerminal) -> KeeperEnd | None:
        """Until the session ends; None if its keeper died. Cancelling leaves it to itself."""
        begun = self._live.recording.raw_offset  # what comes before it was counted
        watching = (self._meter(), self._look_after_activity(), self._guard.watch())
        beside = [asyncio.ensure_future(each) for each in watching]
        try:
            async with listeners_served(self._app, keeper, self._domains, self._guard.served()):
                async for offset, data in keeper.output():
                    self._bytes += max(0, min(len(data), offset + len(data) - begun))
                    await feed_in_turn(self._live, offset, data, self._turn)
                    self._app.reached("session_recorded")
                    self._wrote.set()
            return await keeper.ended()
        except KeeperLost:
            return None
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def settle(self, seconds: float | None) -> None:
        """A last look and a last tick. Time after its end, or after its keeper died, is nobody's."""
        await self._look()
        session = needed_session(self._app.db.reader, self._id)
        most = 0 if seconds is None else max(0, math.ceil(seconds) - session.agent_seconds)
        await self._tick(most=most)

    async def _meter(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self._tick()
            except CoilclawError as error:  # what was used is told with the next one
                self._app.warn(f"Session {self._id} cannot be metered now: {self._app.redact(str(error))}")

    async def _tick(self, *, most: int | None = None) -> None:
        self._live.settle()  # what is counted must be recorded, or it would be counted again after a restart
        written, touched = self._bytes, set(self._touched)
        await self._app.db.write(
            lambda tx: tick(tx, self._app.clock, self._id, terminal_bytes=written, files=len(touched), most=most)
        )
        self._bytes -= written
        self._touched -= touched

    async def _look_after_activity(self) -> None:
        while True:
            await self._wrote.wait()
            while self._wrote.is_set():  # a program that writes without a pause is looked at now and then
                self._wrote.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await self._wrote.wait()
                        await asyncio.sleep(self._pause)
                        self._wrote.clear()
            await self._look()

    async def _look(self) -> None:
        """Tell which files differ now; a look that takes long is repeated less often."""
        if self._checkout is None:
            return
        async with self._looking:
            began = time.monotonic()
            try:
                changes = await self._sessions.checkouts.changes(self._checkout)
            except CoilclawError:  # a repository that the session broke: nothing can be told about it
                return
            self._pause = max(QUIET_SECONDS, 5 * (time.monotonic() - began))
        found = {each.path: each for each in changes}
        if self._told is not None:  # by the server before: not told again
            told, self._told = self._told, None
            self._seen = {path: each for path, each in found.items() if told.get(self._shown(path)) == each.status}
        if found == self._seen:
            return
        fresh = {path: each.status for path, each in found.items() if self._seen.get(path) != each}
        fresh |= {path: "" for path in self._seen if path not in found}  # as it was checked out again
        self._seen = found
        self._touched.update(fresh)
        now = time.monotonic()
        self._may_tell = min(MOST_TOUCHED, self._may_tell + (now - self._told_at) * TOUCHED_A_SECOND)
        self._told_at = now
        touched = [self._file(path, status) for path, status in fresh.items()]
        await self._app.db.write(lambda tx: self._tell(tx, touched, changes))
        self._may_tell -= min(int(self._may_tell), len(fresh))

    def _tell(self, tx: Tx, touched: list[dict[str, Json]], changes: tuple[CheckoutChange, ...]) -> None:
        session, most = needed_session(tx, self._id), int(self._may_tell)
        for each in touched[:most]:
            session = say(tx, self._app.clock, session, "FILE_TOUCHED", each)
        summary: dict[str, Json] = {
            "changed_files": len(changes),
            "added": sum(each.added for each in changes),
            "removed": sum(each.removed for each in changes),
            "more": max(0, len(touched) - most),
        }
        say(tx, self._app.clock, session, "DIFF_SUMMARY", summary)

    def _shown(self, path: str) -> str:
        return self._app.redact(visible(path))

    def _file(self, path: str, status: str) -> dict[str, Json]:
        """A file that was written, or whose difference is gone."""
        return touched_file(self._shown(path), "write" if status else "diff", status)


async def feed_in_turn(live: LiveSession, offset: int, data: bytes, turn: asyncio.Lock) -> None:
    """Feed a session; between two large pieces, of whichever sessions, what is typed gets through."""
    async with turn if len(data) > LARGE_PIECE else contextlib.nullcontext():
        live.feed(offset, data)
        await asyncio.sleep(0)


async def see_end(app: "Runtime", session_id: str) -> Session:
    """Wait until a session that was stopped is over; where no server follows it, do that here."""
    from coilclaw.features.runner.hub import Hub
    from coilclaw.packets.card import nobody
    from coilclaw.server.server_lock import running_address

    sessions = sessions_of(app)
    if running_address(app.home.locks_dir) is None:
        follower = Follower(app, app.conveyor(nobody), sessions, Hub(app, sessions))
        session = sessions.get(session_id)
        if session.state in LIVE:
            await follower.follow(session)
    while (session := sessions.get(session_id)).state not in ENDED:
        await asyncio.sleep(0.1)
    return session
