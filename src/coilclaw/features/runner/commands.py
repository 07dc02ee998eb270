"""coilclaw session: start a boxed terminal in a checkout, watch it, join it, leave it, find it again."""

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, get_args

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, moment, print_json, print_line, print_result, print_rows, tell
from coilclaw.features.runner.adapters.contract import Provider
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import visible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coilclaw.features.runner.sessions import Sessions
    from coilclaw.features.runner.spec import Size, StartSession
    from coilclaw.features.runner.store import Session
    from coilclaw.gate.conveyor import Outcome
    from coilclaw.runtime import Runtime


@click.group()
def session() -> None:
    """Coding sessions: a boxed terminal in a checkout of its own. Watch, join, leave, find again."""


@session.command(short_help="Start a shell or a coding program in a new checkout of a repository.")
@click.argument("repo")
@click.option("--ref", default="", help="The branch to begin from; without it, the repository's current one.")
@click.option("--commit", default="", help="A commit instead of a branch.")
@click.option("--room", default="", metavar="FOLDER", help="The folder of the repository to begin in.")
@click.option("--read", "read_only", is_flag=True, help="The checkout cannot be changed.")
@click.option("--network", is_flag=True, help="Let it reach the domains that the configuration allows. This asks.")
@click.option(
    "--provider",
    type=click.Choice(get_args(Provider)),
    default="shell",
    show_default=True,
    help="What runs in it: a shell for you, or a coding program.",
)
@click.option("--structured", is_flag=True, help="The coding program has no screen: it does the task and ends.")
@click.option("--task", "goal", default="", help="What a coding program is to do: its first prompt.")
@click.option("--accept", "acceptance", multiple=True, help="When the task is done; may be given several times.")
@click.option("--allow", multiple=True, metavar="PROGRAM", help="Only these programs run without asking.")
@click.option("--deny", multiple=True, metavar="PROGRAM", help="Programs that are never run.")
@click.option("--title", default="", help="What it is for.")
@click.option("--org", default="self", help="For whom it runs.")
@click.option("--conversation", "thread_id", default="", metavar="ID", help="The conversation that it belongs to.")
@click.option("--job", "job_id", default="", metavar="ID", help="The job that it belongs to.")
@click.option("--queue", is_flag=True, help="Wait for a free place if the plan has none.")
@click.option("--detach", "-d", is_flag=True, help="Do not show it.")
@json_option
def start(
    repo: str, ref: str, commit: str, room: str, read_only: bool, network: bool, provider: Provider,
    structured: bool, goal: str, acceptance: tuple[str, ...], allow: tuple[str, ...], deny: tuple[str, ...], title: str,
    org: str, thread_id: str, job_id: str, queue: bool, detach: bool, as_json: bool,
) -> int:  # fmt: skip
    """Start a boxed shell in a new checkout of REPO: a name from `coilclaw repo list`, a project, or its folder.

    With `--provider` a coding program works on the `--task`, and asks you before it does what no list allows.

    It has a branch of its own and no network. At a terminal you are in it at once; Ctrl-b d leaves it running.
    """
    from coilclaw.features.runner.spec import CheckoutRef, Network, SessionPolicy, Size, StartSession, Task

    if provider == "shell" and (goal or acceptance):
        raise UsageError("a shell cannot do a task.", remedy="Name who does it: --provider codex, claude or gemini.")
    with opened() as app:
        from coilclaw.features.runner.repo_choice import named_repo, room_in

        here = sys.stdin.isatty() and sys.stdout.isatty()
        if here and (code := _offer_to_add(app, repo)):
            return code
        wanted = StartSession(
            org_id=org,
            repo=named_repo(app, repo),
            checkout=CheckoutRef(type="commit" if commit else "branch", ref=commit or ref),
            room_path=room or room_in(repo),
            provider=provider,
            structured=structured,
            task=Task(title=title, goal=goal, acceptance=acceptance),
            policy=SessionPolicy(
                network=Network(mode="open" if network else "restricted"),
                shell_allowlist=allow or None,
                shell_denylist=deny,
            ),
            mode="read" if read_only else "write",
            size=_size() if here else Size(),
            queue=queue,
            thread_id=thread_id,
            job_id=job_id,
        )
        code, started = _start(app, wanted)
        if started is None:
            return code
        if as_json:
            _print_sessions(app, [started], as_json=True)
        else:
            where = "" if started.checkout is None else f" in {started.checkout.path}"
            tell(f"Session {started.session_id} is {started.state}{where}.", err=True)
        if here and not detach and not as_json and started.state == "RUNNING":
            return _join(app, started.session_id, read_only=False)
        return code


def _offer_to_add(app: "Runtime", typed: str) -> int:
    """Add the folder that was typed in place, if it is a new repository and the owner says so."""
    from coilclaw.features.runner.repo_choice import unlisted_folder
    from coilclaw.features.runner.repo_commands import add_repository
    from coilclaw.features.runner.sources import git_dir_of

    folder = unlisted_folder(app, typed)
    if folder is None:
        return 0
    git_dir_of(folder)  # which says so if it is none
    asked = f"{visible(folder)} is not one of your repositories yet. Add it?"
    if not click.confirm(asked, default=False, prompt_suffix=" ", err=True):
        return 0  # what follows says how to add it
    code = add_repository(app, folder)
    app.live.refresh(at_once=True)
    return code


def _size() -> "Size":
    from coilclaw.features.runner.attach import size_of
    from coilclaw.features.runner.spec import Size

    rows, columns = size_of(sys.stdin.fileno())
    return Size(rows=max(2, rows), columns=max(2, columns))


def _start(app: "Runtime", wanted: "StartSession") -> "tuple[int, Session | None]":
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words, waits_for
    from coilclaw.features.runner.store import load_session

    sessions = _sessions(app)
    session_id = sessions.new_id()
    call = sessions.start_call(session_id, wanted)
    outcome = asyncio.run(run_tool(app, call, yes=True, source="gateway"))
    if outcome.pending:
        tell(waits_for(app, outcome.action), err=True)
        asyncio.run(sessions.wait_for_owner(session_id, wanted, action_id=outcome.action.action_id, by="terminal"))
    started = load_session(app.db.reader, session_id)
    if not outcome.pending and (not outcome.result.success or started is None):
        print_result(result_words(outcome.result), success=False)
    return exit_code(outcome), started


@session.command("pr", short_help="Take the commits of a session out, as a pull request.")
@click.argument("session_id")
@click.option("--title", default="", help="The title; by default that of its task, or its newest commit's.")
def pull_request(session_id: str, title: str) -> int:
    """Take the commits of a session out, as a pull request. This asks you.

    Every commit is read first: a known secret stops it, changed dependencies are named, and files that a forge runs on
    its own need your proof.
    """
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words, waits_for
    from coilclaw.features.runner.leaving import push_call
    from coilclaw.features.runner.questions import tell_push

    with opened() as app:

        async def carried() -> "Outcome":
            call = await push_call(app, _sessions(app), _whole_id(app, session_id), title)
            return await run_tool(app, call, yes=False, source="gateway", also=partial(tell_push, app))

        outcome = asyncio.run(carried())
        if outcome.pending:
            tell(waits_for(app, outcome.action), err=True)
        else:
            print_result(result_words(outcome.result), success=outcome.result.success)
        return exit_code(outcome)


@session.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that ended long ago.")
@click.option("--conversation", "thread_id", default="", metavar="ID", help="Only those of this conversation.")
@click.option("--job", "job_id", default="", metavar="ID", help="Only those of this job.")
@json_option
def list_all(everything: bool, thread_id: str, job_id: str, as_json: bool) -> None:
    """List sessions, those that wait for you first."""
    from coilclaw.features.runner.states import ENDED
    from coilclaw.features.runner.store import sessions_before

    with opened() as app:
        found = sessions_before(app.db.reader, None, 10_000, thread_id=thread_id, job_id=job_id)
        if not everything:
            found = [each for place, each in enumerate(found) if place < _NEWEST or each.state not in ENDED]
        _print_sessions(app, found, as_json=as_json)


@session.command(short_help="Show which session began which.")
@click.argument("session_id", default="")
@json_option
def tree(session_id: str, as_json: bool) -> None:
    """Show which session began which: all of them, or the family of one. Stopping one stops those below it."""
    from coilclaw.features.runner.family_tree import in_order
    from coilclaw.features.runner.store import sessions_before
    from coilclaw.features.runner.store.family import family_of
    from coilclaw.features.runner.views import session_view

    with opened() as app:
        db = app.db.reader
        found = sessions_before(db, None, 1000)[::-1]
        if session_id:
            found = family_of(db, _sessions(app).get(_whole_id(app, session_id)))
        views = in_order([session_view(app, each) for each in found])
        if as_json:
            print_json([each for _, each in views])
            return
        rows = [
            (f"{'  ' * depth}{each.session_id}", each.repo.name, each.provider, each.code or each.state,
             each.task.title, moment(each.created_at))
            for depth, each in views
        ]  # fmt: skip
        columns = ("session", "repository", "program", "state", "for", "started")
        print_rows(rows, columns, empty="There are no sessions. Start one with `coilclaw session start REPO`.")


_NEWEST = 30
_ORDER = {"WAITING_FOR_APPROVAL": 0, "RUNNING": 1, "PAUSED_BY_HUMAN": 2, "STOPPING": 3, "COMPLETED": 9, "FAILED": 9}


def _print_sessions(app: "Runtime", found: "list[Session]", *, as_json: bool) -> None:
    from coilclaw.features.runner.views import session_view

    views = [session_view(app, each) for each in found]
    views.sort(key=lambda each: 0 if each.waiting else _ORDER.get(each.state, 4))
    if as_json:
        print_json(views)
        return
    rows = [
        (each.session_id, each.repo.name, each.provider, each.state if not each.code else f"{each.state} ({each.code})",
         each.task.title, moment(each.created_at))
        for each in views
    ]  # fmt: skip
    empty = "There are no sessions. Start one with `coilclaw session start REPO`."
    print_rows(rows, ("session", "repository", "program", "state", "for", "started"), empty=empty)


@session.command(short_help="Join a session at this terminal.")
@click.argument("session_id")
@click.option("--read-only", is_flag=True, help="Only watch; nothing that is typed arrives.")
def attach(session_id: str, read_only: bool) -> int:
    """Join a session at this terminal: what is typed arrives there. Ctrl-b d leaves it running.

    Several may join at once; the smallest terminal decides the size. Secrets, and sequences that would touch your
    clipboard, title or window, are left out.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("joining a session needs a terminal.", remedy="In a pipe: `coilclaw session watch`, `send`.")
    with opened() as app:
        return _join(app, _whole_id(app, session_id), read_only=read_only)


def _join(app: "Runtime", session_id: str, *, read_only: bool) -> int:
    from coilclaw.features.runner.attach import DETACHED, SafeOutput, attach_terminal, keeper_of

    async def join() -> str:
        keeper = await keeper_of(app, session_id)
        try:
            asked = "Its processes are paused, so nothing that you type would arrive. Let them go on?"
            if keeper.paused and not read_only and click.confirm(asked, default=True, prompt_suffix=" ", err=True):
                await _sessions(app).resume(session_id)
            return await attach_terminal(keeper, SafeOutput(app), read_only=read_only)
        finally:
            await keeper.close()

    words = asyncio.run(join())
    tell(f"{words} `coilclaw session attach {session_id}` joins it again." if words == DETACHED else words)
    return 0


@session.command(short_help="Print what a session writes, until it ends.")
@click.argument("session_id")
def watch(session_id: str) -> int:
    """Follow a session without a key of yours arriving there: at a terminal as it looks, in a pipe as plain text."""
    with opened() as app:
        session_id = _whole_id(app, session_id)
        if sys.stdin.isatty() and sys.stdout.isatty():
            return _join(app, session_id, read_only=True)

        async def follow() -> None:
            from coilclaw.features.runner.attach import SafeOutput, keeper_of
            from coilclaw.features.runner.recording import PlainText

            keeper = await keeper_of(app, session_id)
            try:
                shown, plain = SafeOutput(app), PlainText()
                async for _, data in keeper.output():
                    tell(plain.feed(shown.feed(data)), nl=False)
            finally:
                await keeper.close()

        asyncio.run(follow())
        return 0


@session.command(short_help="Type a line into a session.")
@click.argument("session_id")
@click.argument("text")
@click.option("--raw", is_flag=True, help="Send exactly this, without Enter.")
def send(session_id: str, text: str, raw: bool) -> int:
    """Type a line into a session, with Enter after it."""
    return _act(session_id, lambda sessions, found: sessions.type_in(found, text, line=not raw), "Sent.")


@session.command()
@click.argument("session_id")
def pause(session_id: str) -> int:
    """Stop every process of a session until it is resumed."""
    return _act(session_id, lambda sessions, found: sessions.pause(found), "Paused. `coilclaw session resume` goes on.")


@session.command()
@click.argument("session_id")
def resume(session_id: str) -> int:
    """Let a paused session go on."""
    return _act(session_id, lambda sessions, found: sessions.resume(found), "It goes on.")


@session.command(short_help="End a session; its checkout stays.")
@click.argument("session_id")
def stop(session_id: str) -> int:
    """Ask a session to end, and those that it began; what does not end within five seconds is killed.

    Its checkout stays until `rm`.
    """

    async def work(sessions: "Sessions", found: str) -> None:
        from coilclaw.features.runner.follower import see_end
        from coilclaw.features.runner.store.family import below

        await sessions.stop(found)
        for each in (found, *(child.session_id for child in below(sessions.app.db.reader, found))):
            await see_end(sessions.app, each)

    return _act(session_id, work, "Stopped. Its checkout is kept until `coilclaw session rm`.")


@session.command(short_help="Remove the checkout and recording of a session that is over.")
@click.argument("session_id")
def rm(session_id: str) -> int:
    """Remove the checkout and the recording of a session that is over. Its receipts stay."""
    return _act(session_id, lambda sessions, found: sessions.remove(found), "Removed.")


@session.command(short_help="Print what was recorded of a session's terminal.")
@click.argument("session_id")
@click.option("--cast", is_flag=True, help="In asciicast v2, for players, instead of plain text.")
def logs(session_id: str, cast: bool) -> None:
    """Print what was recorded of a session's terminal, without secrets."""
    from coilclaw.features.runner.recording import Recorded
    from coilclaw.features.runner.states import ENDED
    from coilclaw.server.server_lock import running_address

    with opened() as app:
        sessions, whole = _sessions(app), _whole_id(app, session_id)
        recorded = Recorded(sessions.recording_file(whole))
        tell(b"".join(recorded.asciicast()).decode() if cast else recorded.text(), nl=False)
        if sessions.get(whole).state not in ENDED and running_address(app.home.locks_dir) is None:
            print_line("It runs, but is recorded only while `coilclaw up` does; see it now: attach, watch.", err=True)


@session.command(short_help="Show what a session changed.")
@click.argument("session_id")
@click.argument("path", default="")
@click.option("--stat", is_flag=True, help="Only the names of the files.")
@json_option
def diff(session_id: str, path: str, stat: bool, as_json: bool) -> None:
    """Show what differs from the commit that was checked out: git reads it in a box."""
    with opened() as app:
        sessions = _sessions(app)
        found = sessions.get(_whole_id(app, session_id))
        if found.checkout is None:
            raise UsageError("that session has no checkout.", remedy="It was removed, or never made.")
        checkout = found.checkout
        if stat or as_json:
            from coilclaw.features.runner.views import change_view

            changes = [change_view(app, each) for each in asyncio.run(sessions.checkouts.changes(checkout))]
            if as_json:
                print_json(changes)
                return
            rows = [(each.path, each.status, f"+{each.added}", f"-{each.removed}") for each in changes]
            print_rows(rows, ("file", "what", "added", "removed"), empty="Nothing differs.")
            return
        patch = asyncio.run(sessions.checkouts.diff(checkout, path or None))
        tell(app.redact(patch.decode("utf-8", "replace")) or "Nothing differs.")


@session.command(short_help="Export the audit of an organization, or check an export.")
@click.argument("org", default="self")
@click.option(
    "--check", "file", type=click.File("rb"), help="Compare an export with the ledger instead; `-` for standard input."
)
def audit(org: str, file: BinaryIO | None) -> int:
    """Print everything that the ledger holds about the sessions of ORG, as JSON lines: events, then receipts.

    Nothing of other organizations is among it; without ORG it is your own sessions. --check says whether an export is
    still what the ledger holds, and verifies the ledger itself; exit 6 if not.
    """
    from coilclaw.features.runner.org_audit import export_lines, head_of, org_known

    with opened() as app:
        if file is not None:
            return _check_export(app, file)
        if not org_known(app, org):
            from coilclaw.packets.names import did_you_mean

            remedy = did_you_mean(org, [*app.config.orgs, "self"])
            raise UsageError(f"there is no organization {org[:80]!r}.", remedy=remedy or "See [orgs.NAME].")
        if sys.stdout.isatty():  # its lines are exact, so what others named stands in them as it is
            raise UsageError("an export is for a file.", remedy=f"Run `coilclaw session audit {org} > FILE`.")
        for line in export_lines(app.db.reader, head_of(app.db.reader, app.clock, org), app.redactor.value):
            sys.stdout.buffer.write(line)
    return 0


def _check_export(app: "Runtime", file: BinaryIO) -> int:
    from coilclaw.features.runner.org_audit import difference
    from coilclaw.ledger.live_verify import verify_live

    differs = difference(app.db.reader, file, app.redactor.value)
    report = verify_live(app.config.memory.path, app.config.receipts.path, app.signing_key)
    if differs:
        print_line(f"The export does not agree with the ledger: {differs}.", style="red")
    if not report.valid:
        print_line("The ledger itself is broken; see `coilclaw receipt verify`.", style="red")
    if differs or not report.valid:
        return 6
    print_line("The export agrees with the ledger, and the ledger is intact.", style="green")
    return 0


def _act(session_id: str, work: "Callable[[Sessions, str], Awaitable[object]]", words: str) -> int:
    with opened() as app:

        async def act() -> None:
            await work(_sessions(app), _whole_id(app, session_id))

        asyncio.run(act())
        tell(words)
    return 0


def _sessions(app: "Runtime") -> "Sessions":
    from coilclaw.features.runner.sessions import sessions_of

    return sessions_of(app)


def _whole_id(app: "Runtime", given: str) -> str:
    """A session by its id, by the beginning or the end of it, or `last`."""
    from coilclaw.features.runner.store import sessions_before

    known = [each.session_id for each in sessions_before(app.db.reader, None, 10_000)]
    if given == "last" and known:
        return known[0]
    found = [each for each in known if each == given] or [
        each for each in known if each.startswith(given) or each.endswith(given)
    ]
    if len(found) != 1:
        why = "there is no session" if not found else f"{counted(len(found), 'session')} are called"
        raise UsageError(f"{why} {given[:80]!r}.", remedy="See `coilclaw session list`.")
    return found[0]
