"""Coding sessions of one home: started through the gate, kept by keepers, ended with a receipt."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from coilclaw.config.runner import EVERY, Org, Plan, org_called
from coilclaw.features.runner.box import keeper_order
from coilclaw.features.runner.checkouts import Checkout, Checkouts
from coilclaw.features.runner.recording import Recorded
from coilclaw.features.runner.repo_choice import find_source
from coilclaw.features.runner.spec import StartSession
from coilclaw.features.runner.states import BEGINNING, ENDED, LIVE, EndCode, SessionState, state_for
from coilclaw.features.runner.store import (
    Session,
    add_session,
    busy,
    drop_session,
    load_session,
    move,
    needed_session,
    put_session,
    questions_of,
    say,
    seconds_this_month,
    tick,
)
from coilclaw.features.runner.store.family import below, family_of
from coilclaw.features.runner.tools import END, START
from coilclaw.packets.action import ToolCall
from coilclaw.packets.canonical import Json
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import BoxTooSlow, BoxUnavailable, Conflict, ToolError, UsageError
from coilclaw.packets.ids import new_id
from coilclaw.packets.names import did_you_mean
from coilclaw.sandbox.keepers import AttachedTerminal, KeeperEnd, Keepers
from coilclaw.store.actions import load_action
from coilclaw.store.jobs import load_job
from coilclaw.store.threads import thread_exists
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

KIND = "sess"
FROM_NOW = 1 << 62
"""An offset beyond every ring: nothing that was written before."""
PATIENCE = 1.0
"""How long input waits for a program that does not read."""
GRACE_SECONDS = 5.0
"""How long a session that is stopped may take to end by itself."""


def sessions_of(app: "Runtime") -> "Sessions":
    """The sessions of an open home."""
    return cast("Sessions", app.kept.setdefault("runner", Sessions(app)))


class OverPlan(ToolError):
    """The plan's limits leave no room for another session."""

    code = "OVER_PLAN"


class Sessions:
    """Starts, finds and ends sessions. Any process of the home may; the server follows what they do."""

    def __init__(self, app: "Runtime") -> None:
        self.app = app

    @cached_property
    def keepers(self) -> Keepers:
        """The processes that own the terminals."""
        return Keepers(self.app.home.root / "run")

    @cached_property
    def checkouts(self) -> Checkouts:
        """The checkouts."""
        return Checkouts(self.app)

    def recording_file(self, session_id: str) -> Path:
        """Where the terminal of a session is recorded."""
        return self.app.home.root / "sessions" / session_id / "terminal.rec"

    def recorded_text(self, session_id: str) -> str:
        """What was recorded of its terminal, as plain text."""
        return Recorded(self.recording_file(session_id)).text()

    # Starting

    def new_id(self) -> str:
        """An id for a session to start."""
        return new_id(KIND, self.app.clock())

    def start_call(self, session_id: str, wanted: StartSession) -> ToolCall:
        """The call that starts a session. What cannot be started is refused before anybody is asked."""
        org = self.org(wanted)
        find_source(self.app, wanted.repo)
        for path in wanted.policy.forbidden_paths:
            if not path.strip("/") or set(path) & set("*?[") or ".." in path.split("/"):
                raise UsageError(f"{path[:80]!r} is not a path of a checkout.", remedy="Name files and folders whole.")
        self._check_belonging(wanted)
        if wanted.provider != "shell":
            from coilclaw.features.runner.adapters.placing import check_program

            check_program(self.app, wanted.provider)
        if wanted.structured:
            from coilclaw.features.runner.adapters.placing import prompt_of
            from coilclaw.features.runner.structured.conversation import driver_of

            driver_of(wanted.provider)
            if not prompt_of(wanted.task):
                raise UsageError("a structured session needs a task.", remedy="Say what is to be done, with `--task`.")
        if not wanted.queue:
            self.check_room(self.app.db.reader, wanted, org)
        args = {"session_id": session_id, "session": msgspec.to_builtins(wanted)}
        return ToolCall.of(START, args)

    def _check_belonging(self, wanted: StartSession) -> None:
        if wanted.parent_id:
            raise UsageError("only a session can start one below itself.", remedy="Leave parent_id out.")
        db = self.app.db.reader
        if wanted.thread_id and not thread_exists(db, wanted.thread_id):
            raise UsageError(f"there is no conversation {wanted.thread_id!r}.", remedy="See `coilclaw memory list`.")
        if wanted.job_id and load_job(db, wanted.job_id) is None:
            raise UsageError(f"there is no job {wanted.job_id!r}.", remedy="See `coilclaw job list`.")

    def org(self, wanted: StartSession) -> Org:
        """The organization of a session, which must allow what is wanted."""
        orgs = self.app.config.orgs
        org = org_called(orgs, wanted.org_id)
        if org is None:
            how = "Add it with `coilclaw config set orgs.NAME.plan team`."
            remedy = did_you_mean(wanted.org_id, [*orgs, "self"]) or how
            raise UsageError(f"there is no organization {wanted.org_id}.", remedy=remedy)
        for allowed, asked, key in (
            (org.repos, wanted.repo.text, "repos"),
            (org.providers, wanted.provider, "providers"),
        ):
            if EVERY not in allowed and asked not in allowed:
                raise UsageError(
                    f"{wanted.org_id} may not use {asked}.", remedy=f"Add it to {key} in [orgs.{wanted.org_id}]."
                )
        return org

    def plan(self, wanted: StartSession, org: Org) -> Plan:
        """The limits in force: those of the configuration, narrowed by the request."""
        plan = self.app.config.plans.of(org, wanted.billing.plan)
        most = wanted.billing.limits.max_concurrency
        return plan if most is None else msgspec.structs.replace(plan, sessions=min(plan.sessions, most))

    def check_room(self, db: Tx, wanted: StartSession, org: Org) -> None:
        """Raise OverPlan if the plan leaves no room now."""
        plan = self.plan(wanted, org)
        if plan.minutes_per_month:
            used = seconds_this_month(db, self.app.clock, wanted.org_id) // 60
            if used >= plan.minutes_per_month:
                raise OverPlan(
                    f"{wanted.org_id} has used its {plan.minutes_per_month} minutes of this month.",
                    remedy="Wait for the next month, or raise plans.PLAN.minutes_per_month with `coilclaw config set`.",
                    begun=False,
                )
        running = busy(db, wanted.org_id)
        if running >= plan.sessions:
            raise OverPlan(
                f"{wanted.org_id} runs {running} sessions, and its plan has {plan.sessions}.",
                remedy="End one, start this one with `queue`, or raise plans.PLAN.sessions with `coilclaw config set`.",
                begun=False,
            )

    async def start(
        self,
        session_id: str,
        wanted: StartSession,
        *,
        action_id: str,
        by: str,
        check: Callable[[Tx], object] = lambda _: None,
    ) -> Session:
        """Carry out a start that was approved. Repeating it goes on where it was interrupted.

        `check` may still refuse a new one, in the transaction that makes it.
        """
        org = self.org(wanted)

        def note(tx: Tx) -> Session:
            session = load_session(tx, session_id)
            if session is None:
                check(tx)
                session = add_session(tx, self.app.clock, session_id, wanted, action_id=action_id, by=by)
            if session.state != "CREATED":
                return session
            try:
                self.check_room(tx, wanted, org)
            except OverPlan:
                if wanted.queue:
                    return session
                raise
            return move(tx, self.app.clock, session_id, "PREPARING_WORKSPACE") or session

        session = await self.app.db.write(note)
        queued = session.state == "CREATED"
        return session if queued or session.state not in BEGINNING else await self.launch(session)

    async def wait_for_owner(self, session_id: str, wanted: StartSession, *, action_id: str, by: str) -> Session:
        """Show a session whose start waits for the owner's answer."""

        def write(tx: Tx) -> Session:
            known = load_session(tx, session_id)
            return known or add_session(tx, self.app.clock, session_id, wanted, action_id=action_id, by=by)

        return await self.app.db.write(write)

    async def launch(self, session: Session) -> Session:
        """Prepare the checkout and start the box, from wherever an earlier try stopped."""
        try:
            try:
                return await self._launched(session)
            except BoxTooSlow:  # nothing ran, and what was prepared is kept: once more
                return await self._launched(self.get(session.session_id))
        except (ToolError, BoxUnavailable, UsageError) as error:
            row = load_session(self.app.db.reader, session.session_id)
            code: EndCode = "START_FAILED" if row is not None and row.checkout is not None else "CHECKOUT_FAILED"
            await self.record_end(session.session_id, code, str(error), None)
            raise

    async def _launched(self, session: Session) -> Session:
        app, spec = self.app, session.spec
        if session.checkout is None:
            source, ref = find_source(app, spec.repo), spec.checkout
            if self.checkouts.open_checkout(session.session_id) is not None:  # of a start that was interrupted
                await self.checkouts.remove(session.session_id)
            checkout = await self.checkouts.prepare(session.session_id, source, ref.ref, ref.type, spec.mode)
            await self.checkouts.set_up(checkout, source)
            session = await app.db.write(lambda tx: self._prepared(tx, session.session_id, checkout))
        app.reached("session_prepared")
        attached = await self.keepers.attach(session.session_id)
        if attached is None:
            attached = await self.keepers.start(keeper_order(app, self.checkouts, session))
        try:
            app.reached("session_kept")
            now = await app.db.write(lambda tx: self._runs(tx, session))
            if now.state not in LIVE - {"STOPPING"}:  # it was stopped while it started
                await attached.stop(0.0)
                await attached.ended()
                await attached.finish()
                await self.record_end(session.session_id, "STOPPED", "It was stopped before it ran.", None)
            return self.get(session.session_id)
        finally:
            await attached.close()

    def _prepared(self, tx: Tx, session_id: str, checkout: Checkout) -> Session:
        put_session(tx, msgspec.structs.replace(needed_session(tx, session_id), checkout=checkout))
        moved = move(tx, self.app.clock, session_id, "STARTING_PROVIDER")
        if moved is None:
            raise ToolError("the session was stopped meanwhile.", code="STOPPED", begun=False)
        return moved

    def _runs(self, tx: Tx, session: Session) -> Session:
        moved = move(tx, self.app.clock, session.session_id, "RUNNING")
        if moved is None or moved.checkout is None:
            return needed_session(tx, session.session_id)
        spec, checkout = moved.spec, moved.checkout
        about: dict[str, Json] = {"provider": spec.provider, "branch": checkout.branch, "base": checkout.base}
        return say(
            tx,
            self.app.clock,
            moved,
            "SESSION_STARTED",
            {**about, "room_path": spec.room_path, "title": self.app.redact(spec.task.title)},
        )

    # While it runs

    def get(self, session_id: str) -> Session:
        """One session; raises UsageError if there is none."""
        return needed_session(self.app.db.reader, session_id)

    @asynccontextmanager
    async def attached(self, session_id: str) -> AsyncIterator[AttachedTerminal]:
        """A connection to the keeper of a session that runs, without the output so far."""
        session = self.get(session_id)
        attached = None if session.state not in LIVE else await self.keepers.attach(session_id, FROM_NOW)
        if attached is None:
            raise ToolError(
                f"session {session_id} is not running: it is {session.state}.",
                remedy="See `coilclaw session list`, or start another one.",
                code="SESSION_OVER",
                begun=False,
            )
        try:
            yield attached
        finally:
            await attached.close()

    def check_line(self, session: Session, line: str) -> None:
        """Refuse a line of input that its policy forbids."""
        words = " ".join(line.split())
        for phrase in session.spec.policy.shell_denylist:
            if " " in phrase and " ".join(phrase.split()) in words:
                raise ToolError(
                    f"the session's policy forbids {phrase!r}.", remedy="Type something else.", code="FORBIDDEN_INPUT"
                )

    async def type_in(self, session_id: str, data: str, *, line: bool) -> None:
        """Send keystrokes, or a line with its Enter."""
        session = self.get(session_id)
        if line:
            self.check_line(session, data)
            data = f"{data}\r"
        async with self.attached(session_id) as keeper:
            await keeper.send(data.encode(), patience=PATIENCE)
            await keeper.typed(PATIENCE)

    async def pause(self, session_id: str) -> Session:
        """Stop every process of a session until it is resumed."""
        async with self.attached(session_id) as keeper:
            await keeper.pause()
        return await self._moved(session_id, "PAUSED_BY_HUMAN")

    async def resume(self, session_id: str) -> Session:
        """Let a paused session go on."""
        async with self.attached(session_id) as keeper:
            await keeper.resume()
        return await self._moved(session_id, "RUNNING")

    async def stop(self, session_id: str) -> Session:
        """Ask a session to end, and those that it began; what does not within the grace is killed."""
        session = await self._stopped(session_id)
        for each in below(self.app.db.reader, session_id):
            await self._stopped(each.session_id)
        return session

    async def _stopped(self, session_id: str) -> Session:
        session = self.get(session_id)
        if session.state == "CREATED":
            await self.record_end(session_id, "STOPPED", "It was stopped before it started.", None)
            await self._withdraw(self.app.conveyor(nobody), session.action_id)
            return self.get(session_id)
        if session.state in ENDED:
            return session
        session = await self._moved(session_id, "STOPPING")
        keeper = await self.keepers.attach(session_id, FROM_NOW)
        if keeper is not None:
            try:
                await keeper.stop(GRACE_SECONDS)  # which lets a paused one go on; one that has ended is left alone
            finally:
                await keeper.close()
        return session

    async def kill_unguarded(self, session_id: str, reason: str) -> None:
        """End at once a session whose program acts without asking. The reason is kept before anything else happens, but
        a disk that is full, perhaps by this very program, must not keep it alive."""

        def write(tx: Tx) -> None:
            tick(tx, self.app.clock, session_id)
            move(tx, self.app.clock, session_id, "STOPPING", code="UNGUARDED", reason=self.app.redact(reason))

        try:
            await self.app.db.write(write)
        finally:
            keeper = await self.keepers.attach(session_id, FROM_NOW)
            if keeper is not None:
                try:
                    await keeper.stop(0.0)
                finally:
                    await keeper.close()

    async def _moved(self, session_id: str, after: SessionState) -> Session:
        def write(tx: Tx) -> Session:
            tick(tx, self.app.clock, session_id)  # what was used so far belongs to the state before
            return move(tx, self.app.clock, session_id, after) or needed_session(tx, session_id)

        return await self.app.db.write(write)

    # The end

    async def end(
        self, conveyor: "Conveyor", session_id: str, ended: KeeperEnd | None, *, terminal: str, files: int
    ) -> Session:
        """Record how a session ended, through the gate, so that there is a receipt. None: its keeper is gone."""
        from coilclaw.runtime.owner_calls import OwnerCalls

        session = self.get(session_id)
        if session.state in ENDED:
            return session
        # Its program is gone and can ask no more. Before the end is on record: nobody looks after an ended session.
        await self._withdraw(conveyor, *questions_of(self.app.db.reader, session_id, "PENDING"))
        code, reason = _why(session, ended)
        args: dict[str, Json] = {
            "session_id": session_id,
            "code": code,
            "reason": self.app.redact(reason)[:2000],
            "exit_code": None if ended is None else ended.exit_code,
            "seconds": 0 if ended is None else int(ended.seconds),
            "terminal": terminal,
            "files": files,
        }
        calls = OwnerCalls(self.app, conveyor)
        await calls.make(ToolCall.of(END, args), by="runtime", key=f"{END}:{session_id}")
        if self.get(session_id).state not in ENDED:  # the gate would not run it; its receipt says why
            await self.record_end(session_id, code, reason, None if ended is None else ended.exit_code)
        return self.get(session_id)

    async def _withdraw(self, conveyor: "Conveyor", *action_ids: str) -> None:
        """Nobody needs an answer to these any more."""
        for action_id in action_ids:
            action = load_action(self.app.db.reader, action_id)
            if action is not None and action.status == "PENDING":
                with suppress(Conflict):  # it was answered in this very moment
                    await self.app.approvals(conveyor).withdraw(action, reason="its session has ended")

    async def record_end(self, session_id: str, code: EndCode, reason: str, exit_code: int | None) -> None:
        """Write down that a session is over."""
        reason = self.app.redact(reason)

        def write(tx: Tx) -> None:
            session = load_session(tx, session_id)
            if session is None or session.state in ENDED:
                return
            put_session(tx, msgspec.structs.replace(session, exit_code=exit_code))
            moved = move(tx, self.app.clock, session_id, state_for(code), code=code, reason=reason)
            if moved is not None and moved.state == "FAILED":
                alert: dict[str, Json] = {"severity": "error", "code": code, "message": reason}
                say(tx, self.app.clock, moved, "ALERT_RAISED", alert)

        await self.app.db.write(write)
        await self._judge_program(session_id)

    async def _judge_program(self, session_id: str) -> None:
        """What its end says about a version of its program that is on trial."""
        from coilclaw.features.runner.adapters.canary import judge

        session = load_session(self.app.db.reader, session_id)
        try:
            words = "" if session is None else judge(self.app, session)
        except (OSError, ToolError) as error:
            words = f"A version on trial cannot be judged: {self.app.redact(str(error))}"
        if words:
            told: dict[str, Json] = {"severity": "warning", "code": "CANARY", "message": words}
            await self.app.db.write(
                lambda tx: say(tx, self.app.clock, needed_session(tx, session_id), "ALERT_RAISED", told)
            )

    async def remove(self, session_id: str) -> None:
        """Remove the checkout and the recording of a session that is over. Its events and receipts stay."""
        import shutil

        session = self.get(session_id)
        if session.state not in ENDED:
            raise ToolError(
                f"session {session_id} is {session.state}.", remedy="Stop it first.", code="SESSION_RUNS", begun=False
            )
        still = next((each for each in family_of(self.app.db.reader, session) if each.state not in ENDED), None)
        if still is not None:  # what it used and what misled it counts for all of them
            raise ToolError(
                f"session {session_id} belongs to {still.session_id}, which is {still.state}.",
                remedy="Stop that one first.",
                code="SESSION_RUNS",
                begun=False,
            )
        await self.checkouts.remove(session_id)
        shutil.rmtree(self.recording_file(session_id).parent, ignore_errors=True)
        await self.app.db.write(lambda tx: drop_session(tx, session_id))


def _why(session: Session, ended: KeeperEnd | None) -> tuple[EndCode, str]:
    if ended is None and session.state == "STOPPING" and session.started_at is None:
        return "STOPPED", "It was stopped before it ran."
    if ended is None:
        return "LOST", "Its keeper died, and its box with it."
    if session.state == "STOPPING" and session.code == "UNGUARDED":
        return "UNGUARDED", session.reason
    if session.state == "STOPPING":
        return "STOPPED", "It was stopped."
    match ended.end:
        case "exited":
            return "EXITED", f"Its {session.spec.provider} exited with status {ended.exit_code}."
        case "stopped" if "ESTOP" in ended.reason:
            return "ESTOP", "ESTOP ended it."
        case "signalled":
            return "EXITED", ended.reason or f"Its {session.spec.provider} was killed."
        case "stopped":
            return "STOPPED", ended.reason or "It was stopped."
        case _:
            return "LIMIT", ended.reason
