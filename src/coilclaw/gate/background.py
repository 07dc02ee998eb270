"""Background commands: they run beside the turn or the job that started them, until they end or are ended.

The process that claimed one takes it to its receipt, as a task. Other processes see its row, and end it by a file
beside the locks, which that process looks for as it looks for ESTOP. See docs/decisions/0025.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from coilclaw.gate.facts import Inspected
from coilclaw.gate.outcomes import Outcome, too_many_running
from coilclaw.gate.records import Record, Refused, Write
from coilclaw.gate.running import RunningCommands
from coilclaw.gate.uncancellable import CancelRequest
from coilclaw.packets.action import INTERNAL, RUNNING, Action, Label, ToolResult, untrusted
from coilclaw.packets.canonical import parse_object
from coilclaw.packets.errors import StorageError, ToolError
from coilclaw.packets.ids import Clock, from_stamp
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import CommandState
from coilclaw.store.actions import load_action, result_of
from coilclaw.store.database import Database
from coilclaw.store.running import count_running, running_actions, running_since
from coilclaw.store.tx import Tx

MOST = 4
"""Background commands of one conversation or job at a time."""
SHOWN = 16_000
"""Characters of output that are shown at once."""
LOOK_SECONDS = 0.2
"""How often we check whether another process wants a command ended, or has ended one."""
STOP_SECONDS = 10.0
"""How long a caller waits when it ends a command of another process; the command ends even if that takes longer."""
_WAITS = {"PENDING": "waits for approval and has not started", "APPROVED": "is approved and has not started"}


def runs_beside(action: Action, inspected: Inspected) -> bool:
    """Whether a call goes on in the background: where a conversation or job can ask for it later, and no procedure."""
    return inspected.touches.background and bool(action.thread_id) and action.source != "sop"


def told_running(action: Action, inspected: Inspected) -> ToolResult:
    """The immediate answer to the model. From now on outside content may reach the workspace, so its label counts."""
    text = (
        f"It runs in the background. Its handle is {action.action_id}: command_status shows how it stands and what it"
        " wrote, command_stop ends it."
    )
    labels = [untrusted(place.host or "network") for place in inspected.facts.domains]
    label = join_labels(labels) if labels else INTERNAL
    return ToolResult(success=True, output=text, code=RUNNING, label=label, fresh=bool(labels))


def beginning(action: Action, running: ToolResult, before: Write | None, record: Record | None) -> Write:
    """What is written with the claim of one: that it runs, as its call's answer, unless too many do."""

    def write(tx: Tx) -> None:
        if count_running(tx, action) > MOST:
            raise Refused(too_many_running(MOST))
        if before is not None:
            before(tx)
        if record is not None:
            record(tx, running)

    return write


class _Kept(msgspec.Struct, frozen=True):
    action: Action
    label: Callable[[], Label]
    cut: CancelRequest
    """Ends it. Its task is never cancelled: one that had not begun yet would leave no receipt."""
    task: "asyncio.Future[Outcome]"


class BackgroundCommands:
    """The background commands of a process, and the way to those of others. One for a process."""

    def __init__(
        self,
        *,
        db: Callable[[], Database],
        commands: RunningCommands,
        clock: Clock,
        folder: Path,
        warn: Callable[[str], None],
    ) -> None:
        self._db = db
        self._commands = commands
        self._clock = clock
        self._folder = folder
        self._warn = warn
        self._kept: dict[str, _Kept] = {}
        self._watch: asyncio.Future[None] | None = None

    # In this process

    def start(
        self, action: Action, label: Callable[[], Label], work: Callable[[CancelRequest], Awaitable[Outcome]]
    ) -> None:
        """Let the work run to its end on its own, whatever happens; `label` gives the labels of its output."""
        self._stop_file(action.action_id).unlink(missing_ok=True)  # of an earlier attempt, whose process died
        cut = CancelRequest()
        task = asyncio.ensure_future(work(cut))
        self._kept[action.action_id] = _Kept(action, label, cut, task)
        task.add_done_callback(lambda done: self._over(action.action_id, done))
        if self._watch is None or self._watch.done():
            self._watch = asyncio.ensure_future(self._watch_stops())

    def _over(self, action_id: str, task: "asyncio.Future[Outcome]") -> None:
        del self._kept[action_id]
        with suppress(OSError):
            self._stop_file(action_id).unlink(missing_ok=True)
        if not task.cancelled() and (error := task.exception()) is not None:
            what = str(error) if isinstance(error, StorageError) else type(error).__name__
            self._warn(f"the end of the background command {action_id} could not be recorded: {what}")

    @property
    def here(self) -> tuple[Action, ...]:
        """Those that run in this process."""
        return tuple(kept.action for kept in self._kept.values())

    async def wait(self) -> None:
        """Return when none runs here any more."""
        while tasks := {kept.task for kept in self._kept.values()}:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """End what runs here, each with its receipt."""
        while self._kept:
            for kept in self._kept.values():
                kept.cut.ask()
            await asyncio.wait({kept.task for kept in self._kept.values()})
        if self._watch is not None:
            self._watch.cancel()

    async def _watch_stops(self) -> None:
        while self._kept:
            for action_id, kept in list(self._kept.items()):
                if not kept.cut.asked and self._stop_file(action_id).exists():
                    kept.cut.ask()
            await asyncio.sleep(LOOK_SECONDS)

    def _stop_file(self, action_id: str) -> Path:
        return self._folder / f"{action_id}.stop"

    # In whatever process

    async def status(self, asker: Action, handle: str, seconds: float) -> CommandState:
        """How a command of the asker's conversation or job stands; while it runs, after at most so many seconds."""
        action = self._of(asker, handle)
        await self._ended(action.action_id, seconds)
        return self._state(action.action_id)

    async def stop(self, asker: Action, handle: str) -> CommandState:
        """End a command of the asker's conversation or job."""
        action = self._of(asker, handle)
        await self.end(action.action_id)
        return self._state(action.action_id)

    async def end(self, action_id: str) -> bool:
        """End a background command, wherever it runs; False when it has not ended by now, or it does not run."""
        kept = self._kept.get(action_id)
        if kept is not None:
            kept.cut.ask()
            await asyncio.wait({kept.task})
            return True
        if running_since(self._db().reader, action_id) is None:
            return False
        file = self._stop_file(action_id)
        file.touch(mode=0o600)
        ended = await self._ended(action_id, STOP_SECONDS)
        if ended:
            file.unlink(missing_ok=True)
        return ended

    async def end_turn(self, turn_id: str) -> None:
        """End the background commands of a turn or a job."""
        running = running_actions(self._db().reader, turn_id)
        await asyncio.gather(*(self.end(action.action_id) for action in running))

    def _of(self, asker: Action, handle: str) -> Action:
        action = load_action(self._db().reader, handle)
        if action is None or not _is_background(action) or _place(action) != _place(asker):
            raise ToolError(
                f"there is no background command {handle} in this conversation or job.",
                remedy="Use the handle that shell gave here.",
                code="NO_SUCH_COMMAND",
                begun=False,
            )
        return action

    async def _ended(self, action_id: str, seconds: float) -> bool:
        """Wait at most so many seconds; whether it has ended."""
        kept = self._kept.get(action_id)
        if kept is not None:
            await asyncio.wait({kept.task}, timeout=seconds)
            return kept.task.done()
        time = asyncio.get_running_loop().time
        until = time() + seconds
        while running_since(self._db().reader, action_id) is not None:
            if time() >= until:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    def _state(self, action_id: str) -> CommandState:
        db = self._db().reader
        since = running_since(db, action_id)
        if since is not None:
            seconds = int((self._clock() - from_stamp(since)).total_seconds())
            kept = self._kept.get(action_id)
            if kept is None:
                words = f"is running for {seconds} seconds, in another process: its output is shown when it has ended"
                return CommandState(running=True, words=words, output="", label=INTERNAL)
            text = self._commands.text_of(action_id)[-SHOWN:]
            return CommandState(
                running=True, words=f"is running for {seconds} seconds", output=text, label=kept.label()
            )
        action, result = load_action(db, action_id), result_of(db, action_id)
        if action is None or result is None or action.status in _WAITS:
            words = _WAITS.get(action.status if action is not None else "", "is not on record")
            return CommandState(running=False, words=words, output="", label=INTERNAL)
        text = result.output if len(result.output) <= SHOWN else f"…{result.output[-SHOWN:]}"
        return CommandState(running=False, words=_ended_words(action, result), output=text, label=result.label)


def _is_background(action: Action) -> bool:
    return action.call.tool == "shell" and parse_object(action.call.args_bytes).get("background") is True


def _place(action: Action) -> tuple[str, str, str | None]:
    """Where an action belongs: a job, a conversation, or nothing but its own turn."""
    return ("" if action.thread_id else action.turn_id, action.thread_id, action.job_id)


def _ended_words(action: Action, result: ToolResult) -> str:
    took = result.metadata.get("seconds")
    after = f" after {took:.0f} seconds" if isinstance(took, int | float) else ""
    if action.status == "EXECUTED":
        return f"has ended{after} with exit 0"
    how = f"{result.code}, exit {result.exit}" if result.exit is not None else result.code
    return f"has ended{after}, {action.status.lower()} ({how})"
