"""coilclaw agent."""

import asyncio
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import click
import msgspec

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened, thread_of
from coilclaw.cli.output import print_json, print_result, tell
from coilclaw.cli.project_choice import begin_thread, chosen_project, must_be_there
from coilclaw.features.chat.post_message import coded
from coilclaw.packets.errors import ProviderError, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from coilclaw.agent.loop import Reply
    from coilclaw.gate.conveyor import Outcome
    from coilclaw.runtime import Runtime
    from coilclaw.store.projects import Project


def _only_with_m(_ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> None:
    """A message that stands there by itself is not guessed at: the option is named."""
    if words:
        import shlex

        raise UsageError("pass the message with -m.", remedy=f"Run `coilclaw agent -m {shlex.quote(' '.join(words))}`.")


@click.command()
@click.option("-m", "--message", help="One message; the answer goes to stdout. `-` reads it from stdin.")
@click.option("-c", "--conversation", "thread_id", help="Continue this conversation, or `last`; not a new one.")
@click.option("--continue", "go_on", is_flag=True, help="Continue the last conversation of this terminal: `-c last`.")
@click.option(
    "--model",
    metavar="NAME",
    help="The configured provider that answers in this conversation from now on.",
    shell_complete=completion.providers,
)
@click.option(
    "--yes", is_flag=True, help="Do not ask about what stays on this machine, unless untrusted content was read."
)
@click.option("--unsafe", is_flag=True, help="Run commands without a box. This is announced, logged and receipted.")
@click.option("--project", "named", help="Work in this project; otherwise in the one this is started in, if any.")
@click.option("--no-project", is_flag=True, help="Work in the workspace, wherever this is started.")
@click.option("--json", "as_json", is_flag=True, help="With -m: print the whole outcome as JSON.")
@click.argument("words", nargs=-1, expose_value=False, metavar="", callback=_only_with_m)
def agent(
    message: str | None,
    thread_id: str | None,
    go_on: bool,
    model: str | None,
    yes: bool,
    unsafe: bool,
    named: str | None,
    no_project: bool,
    as_json: bool,
) -> int:
    """Talk to the agent. Without -m a conversation opens; /help lists its commands.

    With -m the exit code is 0 when there was an answer, even if calls inside were denied.
    """
    with opened(unsafe=unsafe) as app:
        if not app.config.channels.cli.enabled:
            how = "Run `coilclaw config set channels.cli.enabled true`."
            raise UsageError("the terminal channel is switched off.", remedy=how)
        if go_on and thread_id not in (None, "last"):
            raise UsageError("--continue and -c name two conversations.", remedy="Use one of them.")
        if go_on or thread_id == "last":
            thread_id = _last_thread(app)
        thread = thread_of(app, thread_id)
        project = _project_of(app, thread_id, "" if no_project and named is None else named)
        if model is not None:
            from coilclaw.features.chat.models import ConversationModels

            begin_thread(app, thread, project)
            asyncio.run(ConversationModels(app).choose(thread, model, "cli"))
        app.announce("cli")
        if message is None:
            if not sys.stdin.isatty():
                raise UsageError("a conversation needs a terminal.", remedy="Use -m MESSAGE, or -m - to read stdin.")
            from coilclaw.features.chat.repl import converse

            return asyncio.run(converse(app, thread, assume_yes=yes, project=project))
        text = _stdin() if message == "-" else message
        try:
            stream = not as_json and sys.stdout.isatty()
            begin_thread(app, thread, project)
            if project is not None and not as_json:
                tell(f"Working in {project.name} ({project.path}).", err=True)
            one = _one_turn(app, thread, text, yes=yes, stream=stream, known=thread_id is not None)
            asyncio.run(_shown(app, one, "" if project is None else project.name, as_json=as_json))
        except ProviderError as error:
            raise _told(app, thread, error, as_json=as_json) from error
    return 0


def _last_thread(app: "Runtime") -> str:
    """The conversation that was talked in last at a terminal."""
    from coilclaw.store.threads import list_threads

    for thread in list_threads(app.db.reader, 1000):
        if thread.channel == "cli" and thread.messages:
            return thread.thread_id
    raise UsageError("there is no earlier conversation to continue.", remedy="Run `coilclaw agent` to start one.")


async def _shown(app: "Runtime", turn: "Awaitable[Reply]", project: str, *, as_json: bool) -> None:
    """Show the answer, then wait for what still runs in the background: it would end with this process."""
    from coilclaw.cli.background import see_out

    try:
        _show(app, await turn, project, as_json=as_json)
    finally:
        await see_out(app)


def _project_of(app: "Runtime", thread_id: str | None, named: str | None) -> "Project | None":
    """The project to work in; a conversation that is there keeps its own, wherever this is started."""
    if thread_id is None:
        return chosen_project(app, named, here=True)
    from coilclaw.store.projects import load_project, project_of

    kept = project_of(app.db.reader, thread_id)
    project = load_project(app.db.reader, kept) if kept else None
    if named is not None and named != ("" if project is None else project.name):
        where = "the workspace" if project is None else f"project {project.name}"
        raise UsageError(f"{thread_id} works in {where}.", remedy="Start a new conversation to work elsewhere.")
    if kept:
        must_be_there(app, kept)
    return project


def _told(app: "Runtime", thread: str, error: ProviderError, *, as_json: bool) -> ProviderError:
    """The error as it is said, also as JSON; output that could not be read is told by its code."""
    from coilclaw.features.chat.turn_ends import failure

    if as_json:
        ended, _ = failure(error, app.redactor.text)
        print_json({"conversation_id": thread, "ending": "failed", "code": ended.code, "error": ended.reason})
    return coded(error)


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read(64 << 20).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError("the message on stdin is not UTF-8 text.") from error


async def _one_turn(app: "Runtime", thread: str, text: str, *, yes: bool, stream: bool, known: bool) -> "Reply":
    from coilclaw.cli.terminal import Terminal
    from coilclaw.features.chat.agent import agent_of
    from coilclaw.features.chat.post_message import post, take_up
    from coilclaw.features.chat.store.turns import asked_together
    from coilclaw.features.chat.turn_ends import waiting_words
    from coilclaw.features.chat.turn_view import shown

    terminal = Terminal(assume_yes=yes, edits=True, place=partial(asked_together, app.db.reader))
    conveyor = app.conveyor(terminal.approve, terminal.ask if terminal.interactive else None)
    await app.executor(conveyor).tidy()
    agent = agent_of(app, conveyor)
    if known:
        await take_up(agent, app, thread, conveyor, None, lambda words: tell(words, err=True))
    with shown(app, thread) if stream else nullcontext() as out:
        reply = await post(agent, app, thread, text, out)
        if reply.ending == "pending":
            reply = msgspec.structs.replace(reply, text=waiting_words(app, reply.turn_id))
        if out is not None:
            out.finish(reply.text)
    return reply


def _without_receipt(outcome: "Outcome") -> str:
    return "running" if outcome.running else "pending"


def _show(app: "Runtime", reply: "Reply", project: str, *, as_json: bool) -> None:
    from coilclaw.features.chat.held_back import how_to_show
    from coilclaw.features.chat.turn_ends import nobody_runs
    from coilclaw.store.held_back import held_back

    if as_json:
        print_json(
            {
                "conversation_id": reply.thread_id,
                "project": project,
                "turn_id": reply.turn_id,
                "text": reply.text,
                "ending": reply.ending,
                "provider": reply.provider,
                "model": reply.model,
                "tokens": reply.tokens,
                "held_back": held_back(app.db.reader, reply.turn_id),
                "actions": [
                    {
                        "action_id": outcome.action.action_id,
                        "tool": outcome.action.call.tool,
                        "status": outcome.receipt.status if outcome.receipt else _without_receipt(outcome),
                        "code": outcome.result.code or outcome.action.decision.code,
                        "receipt_id": outcome.receipt.id if outcome.receipt else None,
                    }
                    for outcome in reply.outcomes
                ],
            }
        )
        return
    if not sys.stdout.isatty():
        print_result(reply.text, success=True)
    if held := how_to_show(app, reply.turn_id):
        tell(held, err=True)
    if words := nobody_runs(app, reply.outcomes, ("job_start", "schedule_add")):
        tell(words, err=True)
