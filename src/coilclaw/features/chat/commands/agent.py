"""coilclaw agent."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened, thread_of
from coilclaw.cli.output import print_json, print_result, tell
from coilclaw.features.chat.post_message import coded
from coilclaw.packets.errors import ProviderError, UsageError

if TYPE_CHECKING:
    from coilclaw.agent.loop import Reply
    from coilclaw.runtime import Runtime


def _only_with_m(_ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> None:
    """A message that stands there by itself is not guessed at: the option is named."""
    if words:
        import shlex

        raise UsageError("pass the message with -m.", remedy=f"Run `coilclaw agent -m {shlex.quote(' '.join(words))}`.")


@click.command()
@click.option("-m", "--message", help="One message; the answer goes to stdout. `-` reads it from stdin.")
@click.option("-c", "--conversation", "thread_id", help="Continue this conversation instead of starting a new one.")
@click.option("--yes", is_flag=True, help="Approve lane A actions of untainted turns without asking.")
@click.option("--unsafe", is_flag=True, help="Run commands without a box. This is announced, logged and receipted.")
@click.option("--json", "as_json", is_flag=True, help="With -m: print the whole outcome as JSON.")
@click.argument("words", nargs=-1, expose_value=False, metavar="", callback=_only_with_m)
def agent(message: str | None, thread_id: str | None, yes: bool, unsafe: bool, as_json: bool) -> int:
    """Talk to the agent. Without -m a conversation opens; /help lists its commands.

    With -m the exit code is 0 when there was an answer, even if calls inside were denied.
    """
    with opened(unsafe=unsafe) as app:
        if not app.config.channels.cli.enabled:
            raise UsageError("the terminal channel is switched off.", remedy="Set channels.cli.enabled = true.")
        thread = thread_of(app, thread_id)
        app.announce("cli")
        if message is None:
            if not sys.stdin.isatty():
                raise UsageError("a conversation needs a terminal.", remedy="Use -m MESSAGE, or -m - to read stdin.")
            from coilclaw.features.chat.repl import converse

            return asyncio.run(converse(app, thread, assume_yes=yes))
        text = _stdin() if message == "-" else message
        try:
            stream = not as_json and sys.stdout.isatty()
            reply = asyncio.run(_one_turn(app, thread, text, yes=yes, stream=stream, known=thread_id is not None))
        except ProviderError as error:
            raise _told(app, thread, error, as_json=as_json) from error
        _show(reply, as_json=as_json)
    return 0


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
    from coilclaw.features.chat.post_message import TextOut, post, take_up

    terminal = Terminal(assume_yes=yes)
    conveyor = app.conveyor(terminal.approve, terminal.ask if terminal.interactive else None)
    await app.executor(conveyor).tidy()
    out = TextOut(app.redactor) if stream else None
    agent = agent_of(app, conveyor)
    if known:
        await take_up(agent, app, thread, conveyor, None, lambda words: tell(words, err=True))
    reply = await post(agent, app, thread, text, out)
    if out is not None:
        out.finish(reply.text)
    return reply


def _show(reply: "Reply", *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "conversation_id": reply.thread_id,
                "turn_id": reply.turn_id,
                "text": reply.text,
                "ending": reply.ending,
                "provider": reply.provider,
                "model": reply.model,
                "tokens": reply.tokens,
                "actions": [
                    {
                        "action_id": outcome.action.action_id,
                        "tool": outcome.action.call.tool,
                        "status": outcome.receipt.status if outcome.receipt else "pending",
                        "code": outcome.result.code or outcome.action.decision.code,
                        "receipt_id": outcome.receipt.id if outcome.receipt else None,
                    }
                    for outcome in reply.outcomes
                ],
            }
        )
    elif not sys.stdout.isatty():
        print_result(reply.text, success=True)
