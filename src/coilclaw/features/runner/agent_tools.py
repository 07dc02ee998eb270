"""session_spawn, session_send, session_wait and session_result: the agent uses coding sessions of its own.

A conversation or job sees only the sessions that it began. Whatever they show was written by others.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from coilclaw.features.runner.spec import CheckoutRef, Network, SessionPolicy, StartSession, Task
from coilclaw.features.runner.states import ENDED, LIVE
from coilclaw.packets.action import INTERNAL, Label, untrusted
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line, visible
from coilclaw.store.tx import Tx
from coilclaw.tools.declare import tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.features.runner.sessions import Sessions
    from coilclaw.features.runner.store import Session
    from coilclaw.runtime.runtime import Runtime

MOST_OPEN = 5
"""Sessions that one conversation or job may have open."""
MOST_IN_ALL = 20
"""And that it may begin until the owner removes some."""
LONGEST_WAIT = 300
QUIET_SECONDS = 2.0
LOOK_SECONDS = 0.2
SCREEN = 4000
"""Characters of its terminal that are told."""
DIFFERENCE = 30_000
FILES = 200

SessionName = Annotated[str, msgspec.Meta(description="The session's id.", pattern="^sess_[0-9a-z]{10,40}$")]
Line = Annotated[str, msgspec.Meta(max_length=4000)]
Lines = Annotated[tuple[Line, ...], msgspec.Meta(max_length=100)]


class SpawnArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of session_spawn."""

    repo: Annotated[str, msgspec.Meta(description="One of the owner's repositories.", min_length=1, max_length=200)]
    goal: Annotated[Line, msgspec.Meta(description="What is to be done, complete in itself.")] = ""
    title: Annotated[str, msgspec.Meta(description="A few words for lists.", max_length=200)] = ""
    constraints: Annotated[Lines, msgspec.Meta(description="What must hold meanwhile.")] = ()
    acceptance: Annotated[Lines, msgspec.Meta(description="How to see that it is done.")] = ()
    provider: Annotated[
        str, msgspec.Meta(description="The program in the terminal; the shell by default.", max_length=40)
    ] = "shell"
    branch: Annotated[
        str, msgspec.Meta(description="The branch to begin at; the repository's current one.", max_length=200)
    ] = ""
    room: Annotated[str, msgspec.Meta(description="The folder of the repository to begin in.", max_length=200)] = ""
    network: Annotated[bool, msgspec.Meta(description="Reach the hosts on the owner's list; none by default.")] = False


class SendArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of session_send."""

    session_id: SessionName
    line: Annotated[str, msgspec.Meta(description="A line to type, with its Enter.", max_length=4000)]


class WaitArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of session_wait."""

    session_id: SessionName
    until: Annotated[
        Literal["end", "quiet"],
        msgspec.Meta(description="`end`: it ended or asks the owner. `quiet`: also when its terminal is quiet."),
    ] = "quiet"
    seconds: Annotated[int, msgspec.Meta(description="At most so long.", ge=1, le=LONGEST_WAIT)] = 60


class ResultArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of session_result."""

    session_id: SessionName


def agent_tools(home: "Callable[[], Runtime]") -> tuple[Tool, ...]:
    """The tools of sessions that models may call."""
    return (_make_spawn(home), _make_send(home), _make_wait(home), _make_result(home))


# Beginning one


def _make_spawn(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: SpawnArgs) -> Touches:
        from coilclaw.features.runner.box import domains_for
        from coilclaw.features.runner.words import start_words

        app = home()
        try:
            wanted = _wanted(app, args)
        except ToolError as error:  # the call will say so too
            return Touches(subject=args.repo, says=str(error))
        return Touches(subject=args.repo, domains=domains_for(app, wanted), says=start_words(app, wanted, spawned=True))

    @tool(
        SpawnArgs,
        effect="WRITE",
        destination="machine",
        idempotent=True,  # a repeat goes on with the session of the same action
        always_ask=False,
        touches=touches,
        summary=lambda args: f"Open a {one_line(args.provider)} in a checkout of {one_line(args.repo)}",
    )
    async def session_spawn(args: SpawnArgs, context: Context) -> ToolOutput:
        """Open a boxed terminal in a checkout of its own of one of the owner's repositories. Type into it with
        session_send, wait with session_wait, and see what it changed with session_result."""
        from coilclaw.features.runner.lineage import caller_of
        from coilclaw.features.runner.sessions import sessions_of
        from coilclaw.features.runner.store import session_of_action

        app = home()
        wanted, sessions = _wanted(app, args), sessions_of(app)
        known, parent = session_of_action(app.db.reader, context.action_id), caller_of(app, context)
        if known is not None:
            session_id, wanted = known.session_id, known.spec
        else:
            session_id, wanted = sessions.new_id(), _in_room(app.db.reader, context, parent, wanted)
            sessions.start_call(session_id, msgspec.structs.replace(wanted, parent_id=""))  # refused before it is begun
        try:
            session = await sessions.start(
                session_id,
                wanted,
                action_id=context.action_id,
                by="agent" if parent is None else parent.session_id,
                check=lambda tx: _in_room(tx, context, parent, wanted),
            )
        except ToolError as error:
            if error.code not in _QUOTING:
                raise
            label = untrusted(f"repo:{wanted.repo.text}")  # git and set-up commands quote what is in it
            return ToolOutput(text=str(error), label=label, success=False, code=error.code)
        text = f"Session {session.session_id} is {session.state}."
        return ToolOutput(text=text, label=INTERNAL, metadata={"session_id": session.session_id})

    return session_spawn


_QUOTING = frozenset({"CLONE_FAILED", "SETUP_FAILED", "CHECKOUT_FAILED", "REF_GONE", "DIFF_FAILED"})
"""Errors that quote what a repository's own files or commands had to say."""


def _wanted(app: "Runtime", args: SpawnArgs) -> StartSession:
    """What the call asks for, as the owner would ask for it."""
    from coilclaw.features.runner.repo_choice import named_repo, repo_ref
    from coilclaw.features.runner.sources import source_called

    try:
        repo = named_repo(app, args.repo)
    except UsageError:  # its words would tell a model which folders this machine has
        repo = repo_ref(source_called(app, args.repo))
    task = Task(
        title=one_line(args.title or args.goal)[:200],
        goal=args.goal,
        constraints=args.constraints,
        acceptance=args.acceptance,
    )
    wanted = StartSession(
        repo=repo,
        checkout=CheckoutRef(ref=args.branch),
        room_path=args.room,
        task=task,
        policy=SessionPolicy(network=Network(mode="open" if args.network else "restricted")),
    )
    structured = args.provider != "shell"  # no model reads a screen
    try:
        return msgspec.convert(
            {**msgspec.to_builtins(wanted), "provider": args.provider, "structured": structured}, StartSession
        )
    except msgspec.ValidationError as error:
        raise ToolError(f"these arguments cannot start a session: {error}.", code="BAD_SESSION", begun=False) from error


def _in_room(db: Tx, context: Context, parent: "Session | None", wanted: StartSession) -> StartSession:
    """Refuse one more than a conversation, job or session may have; what a session begins is within it."""
    from coilclaw.features.runner.lineage import child_of
    from coilclaw.features.runner.store import sessions_begun_by

    if parent is not None:
        return child_of(db, parent.session_id, wanted)
    begun = sessions_begun_by(db, context.thread_id)
    still = [each for each in begun if each.state not in ENDED]
    if len(still) >= MOST_OPEN:
        raise _refused(
            f"this conversation has {len(still)} sessions open.", "Wait for one to end first.", "TOO_MANY_SESSIONS"
        )
    if len(begun) >= MOST_IN_ALL:
        raise _refused(
            f"this conversation has begun {len(begun)} sessions.",
            "The owner can remove old ones with `coilclaw session rm`.",
            "TOO_MANY_SESSIONS",
        )
    return wanted


# Using one


def _make_send(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: SendArgs) -> Touches:
        from coilclaw.features.runner.box import domains_for
        from coilclaw.features.runner.store import load_session

        app = home()
        session = load_session(app.db.reader, args.session_id)
        # Whatever is typed can leave by what the session reaches: each line is judged like a command with network.
        domains = () if session is None else domains_for(app, session.spec)
        return Touches(subject=args.session_id, domains=domains, says=args.line)

    @tool(
        SendArgs,
        effect="WRITE",
        destination="machine",
        idempotent=False,
        always_ask=False,
        touches=touches,
        summary=lambda args: f"Type into {args.session_id}: {one_line(args.line)[:200]}",
    )
    async def session_send(args: SendArgs, context: Context) -> ToolOutput:
        """Type a line into a session that this conversation began."""
        sessions, session = _own(home(), args.session_id, context)
        await sessions.type_in(session.session_id, args.line, line=True)
        return ToolOutput(text="Typed. session_wait shows what it answers.", label=INTERNAL)

    return session_send


def _make_wait(home: "Callable[[], Runtime]") -> Tool:
    @tool(
        WaitArgs,
        effect="READ",
        destination="internal",
        idempotent=True,
        always_ask=False,
        touches=lambda args: Touches(subject=args.session_id, seconds=args.seconds + 30),
        summary=lambda args: f"Wait for {args.session_id}",
    )
    async def session_wait(args: WaitArgs, context: Context) -> ToolOutput:
        """Wait for a session that this conversation began; returns its state and the end of its terminal."""
        app = home()
        sessions, session = _own(app, args.session_id, context)
        state = await _waited(app, sessions, session, args)
        return ToolOutput(
            text=f"It is {state}.\n{_screen(sessions, session.session_id)}",
            label=_label(session),
            metadata={"state": state},
        )

    return session_wait


async def _waited(app: "Runtime", sessions: "Sessions", session: "Session", args: WaitArgs) -> str:
    from coilclaw.features.runner.store import shown_state

    until = time.monotonic() + args.seconds
    seen, since = -1, time.monotonic()
    while True:
        session = sessions.get(session.session_id)
        state = shown_state(app.db.reader, session)
        now = time.monotonic()
        if state in ENDED or state == "WAITING_FOR_APPROVAL" or now >= until:
            return state
        size = _size(sessions, session.session_id)
        if size != seen:
            seen, since = size, now
        elif args.until == "quiet" and session.state in LIVE and now - since >= QUIET_SECONDS:
            return state
        await asyncio.sleep(LOOK_SECONDS)


def _size(sessions: "Sessions", session_id: str) -> int:
    try:
        return sessions.recording_file(session_id).stat().st_size
    except OSError:
        return 0


def _make_result(home: "Callable[[], Runtime]") -> Tool:
    @tool(
        ResultArgs,
        effect="READ",
        destination="internal",
        idempotent=True,
        always_ask=False,
        touches=lambda args: Touches(subject=args.session_id),
        summary=lambda args: f"See what {args.session_id} did",
    )
    async def session_result(args: ResultArgs, context: Context) -> ToolOutput:
        """See what a session that this conversation began has changed, and the end of its terminal."""
        from coilclaw.features.runner.store import shown_state

        app = home()
        sessions, session = _own(app, args.session_id, context)
        state = shown_state(app.db.reader, session)
        lines = [f"It is {state}.{f' {one_line(session.reason)}' if session.reason else ''}"]
        if session.checkout is not None:
            changes = await sessions.checkouts.changes(session.checkout)
            lines += [f"{each.status} {one_line(each.path)}" for each in changes[:FILES]] or ["It changed no file."]
            if len(changes) > FILES:
                lines.append(f"… and {len(changes) - FILES} more files.")
            patch = visible(app.redact((await sessions.checkouts.diff(session.checkout)).decode("utf-8", "replace")))
            lines.append(patch[:DIFFERENCE] + ("\n… the rest of the difference is cut." if patch[DIFFERENCE:] else ""))
        lines.append(_screen(sessions, session.session_id))
        return ToolOutput(text="\n".join(lines), label=_label(session), metadata={"state": state, "code": session.code})

    return session_result


def _own(app: "Runtime", session_id: str, context: Context) -> "tuple[Sessions, Session]":
    """A session that the same conversation, job or session began; any other is as if it did not exist."""
    from coilclaw.features.runner.lineage import caller_of
    from coilclaw.features.runner.sessions import sessions_of
    from coilclaw.features.runner.store import load_session
    from coilclaw.store.actions import load_action

    session, parent = load_session(app.db.reader, session_id), caller_of(app, context)
    action = None if session is None else load_action(app.db.reader, session.action_id)
    if parent is not None:
        own = session is not None and session.spec.parent_id == parent.session_id
    else:
        own = action is not None and bool(context.thread_id) and action.thread_id == context.thread_id
    if session is None or not own:
        raise _refused("this conversation began no such session.", "Begin one with session_spawn.", "NO_SUCH_SESSION")
    return sessions_of(app), session


def _screen(sessions: "Sessions", session_id: str) -> str:
    """The end of its recorded terminal, which is redacted already."""
    text = visible(sessions.recorded_text(session_id)).rstrip()
    if not text:
        return "Nothing of its terminal is recorded yet; a running server (`coilclaw up`) records it."
    return f"{'…' if len(text) > SCREEN else ''}{text[-SCREEN:]}"


def _label(session: "Session") -> Label:
    return f"untrusted:{session.session_id}"


def _refused(message: str, remedy: str, code: str) -> ToolError:
    return ToolError(message, remedy=remedy, code=code, begun=False)
