"""The desk that answers the hooks of a session's program. Every question that matters becomes an action.

The listener is the box's own, so whoever connects is that session. Nothing it says can widen anything: it can ask, be
denied, or be killed for not asking. No answer is a no, so a server that dies in the middle has denied.
"""

import asyncio
import hashlib
import posixpath
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.runner import session_tools as tools
from coilclaw.features.runner.adapters.contract import HookAsk, HookDecision
from coilclaw.features.runner.adapters.known import adapter_of
from coilclaw.features.runner.event import EventType, touched_file
from coilclaw.features.runner.questions import tell_answer, tell_question
from coilclaw.features.runner.store import (
    Session,
    asked_before,
    load_session,
    needed_session,
    questions_of,
    say,
    was_let,
)
from coilclaw.features.runner.tests_run import counts_of, is_test_run
from coilclaw.packets.action import Action, ToolCall, ToolResult
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.ids import new_id
from coilclaw.packets.text import one_line, visible
from coilclaw.store.actions import load_action
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor, Outcome
    from coilclaw.runtime.runtime import Runtime

CONNECTIONS = 32
"""At a time; further ones wait, and are denied by their own deadline."""
GUARD_SECONDS = 20.0
"""Within this time of its start a program must have called its hook."""
HEAD_BYTES = 4096
QUESTION_BYTES = 1 << 20
"""Reading one holds up the whole server, so a program must not make it read much."""
READ_SECONDS = 10.0
BEAT_SECONDS = 5.0
"""While an answer is thought about, this often a byte says so."""
LOOK_SECONDS = 0.2
NEEDS_YOU = "NEEDS_YOU"
MOST_TESTS = 100
MOST_READ = 1000  # files that a session is told to read, each once
REST_SECONDS = 10.0
"""A program that is done, or waits for the keyboard, for this long needs somebody."""
A_MINUTE = 60.0
MOST_A_MINUTE = 300
CALLS_A_MINUTE = 1500
"""Whatever they are about: results and notices are no questions."""
BYTES_A_MINUTE = 32 << 20
KNOWN_CALLS = 20_000
MOST_WAITING = 16
"""Questions of one session that may wait for the owner."""
TOLD_SECONDS = 30.0
"""How long a line that was typed into its terminal may take to reach a program without a screen."""
_UNREADABLE = (
    ValueError, KeyError, TypeError, TimeoutError, RecursionError, asyncio.IncompleteReadError,
    asyncio.LimitOverrunError,
)  # fmt: skip


class HookDesk:
    """Answers for one session, while a server follows it."""

    def __init__(
        self,
        app: "Runtime",
        conveyor: "Conveyor",
        session: Session,
        unguarded: Callable[[str], Awaitable[None]],
        guarded: Path,
        tell: Callable[[str], Awaitable[None]],
    ) -> None:
        adapter = adapter_of(session.spec.provider)
        if adapter is None:
            raise ValueError("a shell has no hooks")
        self._app = app
        self._conveyor = conveyor
        self._id = session.session_id
        self._adapter = adapter
        self._unguarded = unguarded
        self._tell = tell
        """Types a line into its terminal."""
        self._news: list[str] = []
        """Approvals that its program was not waiting for any more."""
        self._told_at: float | None = None
        """When one of them was typed; None once it has arrived."""
        self._awaited: set[str] = set()
        self._guarded = guarded
        """A file that is there once the program has called."""
        self._answers: dict[str, bool] = {}
        """By call: whether it was allowed. A result of any other was not announced."""
        self._asked: deque[float] = deque()
        self._called: deque[tuple[float, int]] = deque()
        """When, and how many bytes."""
        self.heard = asyncio.Event()
        """Its program has called at least once."""
        if guarded.exists():
            self.heard.set()
        self.idle = False
        """It has said that it is done, and waits for the keyboard."""
        self._tests: dict[str, tuple[str, float]] = {}
        """Test runs that were allowed and have told no result yet: the command, and since when."""
        self._read: set[str] = set()  # files of its checkout, as told of
        self._rests: float | None = None
        """Since when it is done or waits for the keyboard; None while it works, or once that was told."""
        self._open = set(questions_of(app.db.reader, session.session_id, "PENDING", "APPROVED"))

    # The wire

    async def serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One question, HTTP/1.0. What cannot be read is denied."""
        del port
        try:
            async with asyncio.timeout(READ_SECONDS):
                length = await _read_head(reader, self._adapter.name)
                if not self._takes(length):
                    raise ValueError("too much")
                ask = self._adapter.read(await _read_body(reader, length))
        except _UNREADABLE:
            await _write_answer(writer, HookDecision(allow=False, reason="The question could not be read."))
            return
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n")
        answering = asyncio.ensure_future(self.answer(ask))
        try:
            while not answering.done():
                await asyncio.wait({answering}, timeout=BEAT_SECONDS)
                if not answering.done():
                    writer.write(b" ")
                    await writer.drain()
            writer.write(msgspec.json.encode(answering.result()))
            await writer.drain()
        finally:
            answering.cancel()

    # The answer

    def called(self) -> None:
        """Its program speaks to us, as it must soon after its start."""
        if not self.heard.is_set():
            self._guarded.touch()
            self.heard.set()

    async def answer(self, ask: HookAsk) -> HookDecision:
        """Yes or no, whatever the program. Whatever goes wrong is a no."""
        self.called()
        self.idle = ask.kind == "done"
        self._rests = time.monotonic() if ask.kind in ("done", "waiting") else None
        self._app.reached("hook_asked")
        try:
            decision = await self._answer(ask)
        except CoilclawError as error:
            decision = HookDecision(allow=False, reason=self._app.redact(str(error)))
        except Exception as error:  # a fault of ours must not become the program's leave
            self._app.warn(f"A question of session {self._id} failed: {type(error).__name__}.")
            decision = HookDecision(allow=False, reason="The question could not be answered.")
        if ask.kind in ("command", "write", "fetch", "read", "other"):
            while len(self._answers) >= KNOWN_CALLS:
                del self._answers[next(iter(self._answers))]
            self._answers[ask.call_id] = decision.allow
        await self._tell_tests(ask, allowed=decision.allow)
        if ask.kind == "read" and decision.allow:
            await self._tell_reads(ask.paths)
        self._app.reached("hook_decided")
        return decision

    async def _tell_reads(self, paths: tuple[str, ...]) -> None:
        """Say which files its program reads, so that whoever looks on sees where it works."""
        checkout = needed_session(self._app.db.reader, self._id).checkout
        root = "" if checkout is None else checkout.path
        for each in paths if root else ():
            path = posixpath.relpath(posixpath.join(root, each), root)
            if not path.startswith("..") and path not in self._read and len(self._read) < MOST_READ:
                self._read.add(path)
                await self._say("FILE_TOUCHED", touched_file(self._app.redact(visible(path)), "read", ""))

    async def _tell_tests(self, ask: HookAsk, *, allowed: bool) -> None:
        """Say that the program runs tests, and what they counted."""
        if ask.kind == "command" and allowed and ask.call_id and is_test_run(ask.command):
            while len(self._tests) >= MOST_TESTS:
                del self._tests[next(iter(self._tests))]
            command = self._app.redact(one_line(ask.command))[:400]
            self._tests[ask.call_id] = command, time.monotonic()
            await self._say("TEST_RUN_STARTED", {"command": command})
        elif ask.kind == "result" and ask.call_id in self._tests:
            command, since = self._tests.pop(ask.call_id)
            counts: dict[str, Json] = msgspec.to_builtins(counts_of(ask.text))
            told: dict[str, Json] = {"command": command, **counts, "seconds": round(time.monotonic() - since, 3)}
            await self._say("TEST_RUN_FINISHED", told)

    async def _say(self, kind: EventType, told: dict[str, Json]) -> None:
        try:
            await self._app.db.write(lambda tx: say(tx, self._app.clock, needed_session(tx, self._id), kind, told))
        except CoilclawError as error:  # an event must not become the answer
            self._app.warn(f"Session {self._id}: {self._app.redact(str(error))}")

    async def saw_result(self, call_id: str, tool: str) -> None:
        """A result reached the model, or the program told of one: it must have been allowed."""
        if not call_id or self._answers.get(call_id) is True:
            return
        if not was_let(self._app.db.reader, self._id, call_id):
            how = "was not allowed" if call_id in self._answers else "had not asked for"
            await self._unguarded(f"Its program told the result of {tool[:60]}, which it {how}.")

    def was_allowed(self, ask: HookAsk) -> bool:
        """Whether a call was allowed, by whichever server."""
        if self._answers.get(ask.call_id) is True or was_let(self._app.db.reader, self._id, ask.call_id):
            return True
        return call_for(self._app, needed_session(self._app.db.reader, self._id), ask) is None

    def is_awaited(self) -> bool:
        """Whether its program, which is done, may still hear of an answer of the owner."""
        self.idle = True
        on_its_way = self._told_at is not None and time.monotonic() - self._told_at < TOLD_SECONDS
        return bool(self._open or self._news or on_its_way)

    def line_arrived(self) -> None:
        """A line that was typed has reached a program without a screen."""
        self._told_at = None

    async def _answer(self, ask: HookAsk) -> HookDecision:
        if ask.kind in ("begin", "done", "waiting"):
            return HookDecision(allow=True)
        if ask.kind == "result":
            await self.saw_result(ask.call_id, ask.tool)
            return HookDecision(allow=True)
        if not self._within_rate():
            return HookDecision(allow=False, reason="This session asks too much. Wait a minute.")
        if self._app.estop.engaged():
            return HookDecision(allow=False, reason="ESTOP is engaged.")
        session = needed_session(self._app.db.reader, self._id)
        call = call_for(self._app, session, ask)
        decision = HookDecision(allow=True) if call is None else await self._through_gate(session, call)
        return await self._once_unpaused(decision)

    def _within_rate(self) -> bool:
        now = time.monotonic()
        while self._asked and now - self._asked[0] > A_MINUTE:
            self._asked.popleft()
        self._asked.append(now)
        return len(self._asked) <= MOST_A_MINUTE

    def _takes(self, length: int) -> bool:
        """Whether a call of this length may be read: not more than a program needs."""
        now = time.monotonic()
        while self._called and now - self._called[0][0] > A_MINUTE:
            self._called.popleft()
        taken = length + sum(each for _, each in self._called)
        if len(self._called) >= CALLS_A_MINUTE or taken > BYTES_A_MINUTE:
            return False
        self._called.append((now, length))
        return True

    async def _through_gate(self, session: Session, call: ToolCall) -> HookDecision:
        from coilclaw.gate.turn import Turn

        intake = self._conveyor.intake
        turn = Turn(self._id, "", "session", fresh=tools.session_taint(self._app, session))
        action = await intake.proposed(call, turn, new_id("key", self._app.clock()))
        known = asked_before(self._app.db.reader, self._id, action.call.tool, action.call.args_hash)
        if known is not None:
            return await self._wait(known)
        if len(questions_of(self._app.db.reader, self._id, "PENDING")) >= MOST_WAITING:
            return HookDecision(allow=False, reason="Too many questions of this session wait for the owner already.")
        outcome = await self._conveyor.carry(action, turn, stored=False, record=self._requested(action))
        if outcome.pending:
            self._open.add(action.action_id)
            return await self._wait(action.action_id)
        allowed = outcome.action.status == "EXECUTED" and outcome.result.success
        return HookDecision(allow=allowed, reason="" if allowed else outcome.result.output[:4000])

    async def carry(self, call: ToolCall) -> "Outcome":
        """Put a call that is more than a leave through the gate; one that waits is told as a question of it."""
        from coilclaw.gate.turn import Turn

        session = needed_session(self._app.db.reader, self._id)
        if session.state != "RUNNING":
            raise ToolError("the session is paused or ends.", code="SESSION_OVER", begun=False)
        if len(questions_of(self._app.db.reader, self._id, "PENDING")) >= MOST_WAITING:
            raise ToolError(
                "too many questions of this session wait for the owner already.", code="TOO_MANY_QUESTIONS", begun=False
            )
        turn = Turn(self._id, "", "session", fresh=tools.session_taint(self._app, session))
        action = await self._conveyor.intake.proposed(call, turn, new_id("key", self._app.clock()))
        outcome = await self._conveyor.carry(action, turn, stored=False, record=self._requested(action))
        if outcome.pending:
            self._open.add(action.action_id)
        return outcome

    async def _wait(self, action_id: str) -> HookDecision:
        """Until the owner answers, or the time is over. A yes is used up here, with its receipt."""
        self._awaited.add(action_id)
        try:
            return await self._answered(action_id)
        finally:
            self._awaited.discard(action_id)

    async def _answered(self, action_id: str) -> HookDecision:
        until = time.monotonic() + self._app.config.runner.approval_wait_seconds
        while time.monotonic() < until:
            action = load_action(self._app.db.reader, action_id)
            if action is None or self._app.estop.engaged():
                return HookDecision(allow=False, reason="ESTOP is engaged." if action else "The question is gone.")
            if action.status == "APPROVED" and not self._paused():
                outcome = await self._conveyor.execute(action, asked=True)
                if outcome is not None and outcome.action.status == "EXECUTED" and outcome.result.success:
                    return HookDecision(allow=True)
                why = "Its approval was already used." if outcome is None else outcome.result.output[:4000]
                return HookDecision(allow=False, reason=why)
            if action.status not in ("PENDING", "APPROVED"):
                why = action.rejection_reason or action.status
                return HookDecision(allow=False, reason=f"The owner did not allow it: {why}"[:4000])
            await asyncio.sleep(LOOK_SECONDS)
        return HookDecision(
            allow=False,
            reason=f"Not yet, {action_id}: the owner has not answered. Go on with something else; once it is approved,"
            " the same call with exactly the same arguments is allowed once.",
        )

    def _paused(self) -> bool:
        session = load_session(self._app.db.reader, self._id)
        return session is None or session.state != "RUNNING"

    async def _once_unpaused(self, decision: HookDecision) -> HookDecision:
        """A pause holds every answer; one that lasts longer than a question may wait denies."""
        until = time.monotonic() + self._app.config.runner.approval_wait_seconds
        while self._paused():
            session = load_session(self._app.db.reader, self._id)
            if session is None or session.state != "PAUSED_BY_HUMAN" or time.monotonic() > until:
                return HookDecision(allow=False, reason="The session is paused or ends.")
            await asyncio.sleep(LOOK_SECONDS)
        return decision

    # Events

    def _requested(self, action: Action) -> Callable[[Tx, ToolResult], None]:
        def record(tx: Tx, result: ToolResult) -> None:
            if result.code != "APPROVAL_NEEDED":
                return
            category = category_of(self._app, needed_session(tx, self._id), action.call)
            tell_question(tx, self._app, self._id, action, category, self._conveyor.intake.in_short(action.call))

        return record

    async def watch(self, since: float) -> None:
        """Kill what never asks, and tell which questions were answered, for as long as the session is followed."""
        guarded = asyncio.ensure_future(self._first_call(since))
        try:
            while True:
                try:
                    await self._tell_answers()
                    await self._tell_rest()
                except Exception as error:  # a busy or full database must not end the watch
                    self._app.warn(f"Session {self._id}: {self._app.redact(str(error))}")
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            guarded.cancel()

    async def _tell_answers(self) -> None:
        for action_id in sorted(self._open):
            action = load_action(self._app.db.reader, action_id)
            if action is None or action.status != "PENDING":
                if action is not None:
                    await self._resolved(action)
                self._open.discard(action_id)
        await self._pass_on()

    async def _tell_rest(self) -> None:
        """Say once that its program needs somebody: it is done, or waits for the keyboard."""
        if self._rests is None or time.monotonic() - self._rests < REST_SECONDS or self._paused():
            return
        self._rests = None
        words = "Its program is done or waits for you."
        told: dict[str, Json] = {"severity": "info", "code": NEEDS_YOU, "message": words}
        await self._say("ALERT_RAISED", told)

    async def _pass_on(self) -> None:
        """Tell a program that waits for the keyboard which of its questions the owner allowed meanwhile."""
        while self.idle and self._news:
            told = self._news.pop(0)
            self.idle = False
            self._told_at = time.monotonic()
            await self._tell(f"The owner approved {told}: you may do exactly that now, once.")

    async def _first_call(self, since: float) -> None:
        left = max(0.0, GUARD_SECONDS - since)
        try:
            async with asyncio.timeout(left):
                await self.heard.wait()
        except TimeoutError:
            await self._unguarded(f"Its program did not call its hook within {GUARD_SECONDS:.0f} seconds.")

    async def _resolved(self, action: Action) -> None:
        await self._app.db.write(lambda tx: tell_answer(tx, self._app, self._id, action.action_id))
        if action.status == "APPROVED" and action.action_id not in self._awaited:
            self._news.append(action.action_id)


# Pure


def call_for(app: "Runtime", session: Session, ask: HookAsk) -> ToolCall | None:
    """The action that a question is; None for what only reads in the box."""
    about: dict[str, Json] = {"session_id": session.session_id, "tool": ask.tool[:200]}
    key = ask.call_id[:200]
    text = app.redact(ask.text) if len(ask.text) <= tools.LONGEST // 4 else ""
    match ask.kind:
        case "command":
            name = tools.COMMAND
            if tools.command_category(ask.command, tools.deploys_of(app, session)) == "deploy":
                name = tools.DEPLOY
            return ToolCall.of(name, {**about, "command": ask.command}, call_id=key)
        case "write":
            digest = hashlib.sha256(ask.text.encode("utf-8", "surrogatepass")).hexdigest()
            return ToolCall.of(
                tools.WRITE, {**about, "paths": list(ask.paths), "text": text, "sha256": digest}, call_id=key
            )
        case "fetch":
            return ToolCall.of(tools.FETCH, {**about, "address": ask.address}, call_id=key)
        case "read" if tools.names_secret(ask.paths):
            return ToolCall.of(tools.SECRET, {**about, "paths": list(ask.paths)}, call_id=key)
        case "read":
            return None
        case _:
            # bound word for word: what was redacted would be the same for other words, and a known secret is refused
            words = ask.text if text else hashlib.sha256(ask.text.encode("utf-8", "surrogatepass")).hexdigest()
            return ToolCall.of(tools.COMMAND, {**about, "command": "", "text": words}, call_id=key)


def category_of(app: "Runtime", session: Session, call: ToolCall) -> tools.Category:
    """What an approval is about."""
    match call.tool:
        case tools.SECRET:
            return "secrets"
        case tools.DEPLOY:
            return "deploy"
        case tools.FETCH:
            return "network"
        case tools.WRITE:
            return "write"
        case name if name not in (tools.COMMAND, tools.DEPLOY):
            return "command"
        case _:
            args = msgspec.json.decode(call.args_bytes, type=tools.SessionCommandArgs)
            return tools.command_category(args.command, tools.deploys_of(app, session))


async def _read_head(reader: asyncio.StreamReader, program: str) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    first, _, rest = head.decode("ascii").partition("\r\n")
    if len(head) > HEAD_BYTES or first.split(" ")[:2] != ["POST", f"/{program}"]:
        raise ValueError("not a question of this program")
    fields = dict(line.lower().split(": ", 1) for line in rest.strip().split("\r\n") if ": " in line)
    length = int(fields["content-length"])
    if not 0 <= length <= QUESTION_BYTES:
        raise ValueError("too long")
    return length


async def _read_body(reader: asyncio.StreamReader, length: int) -> dict[str, object]:
    return msgspec.json.decode(await reader.readexactly(length), type=dict[str, object])


async def _write_answer(writer: asyncio.StreamWriter, decision: HookDecision) -> None:
    writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + msgspec.json.encode(decision))
    await writer.drain()
