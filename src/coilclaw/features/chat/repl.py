"""The conversation at the terminal: history, multi-line editing, streamed answers, slash commands."""

import asyncio
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from coilclaw.cli.output import moment, print_line, print_rows
from coilclaw.cli.terminal import Terminal
from coilclaw.features.chat.background_jobs import BackgroundJobs
from coilclaw.features.chat.post_message import TextOut, coded, post, take_up
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import new_id

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from coilclaw.agent.loop import Agent
    from coilclaw.gate.conveyor import Approver
    from coilclaw.runtime import Runtime

HELP = {
    "/help": "this list",
    "/tools": "list this channel's tools",
    "/memory WORDS": "search past conversations",
    "/policy": "autonomy and boundaries in force",
    "/background GOAL": "create a job in this conversation; it runs in the background",
    "/jobs": "recent jobs and their state",
    "/approve-history": "approvals of this conversation and your answers",
    "/new": "start a new conversation",
    "/exit": "quit (or Ctrl-D)",
}


class Repl:
    """The terminal as a channel, for one sitting."""

    name = "cli"
    supports_draft_updates = True

    def __init__(self, app: "Runtime", thread: str, *, assume_yes: bool, approve: "Approver | None" = None) -> None:
        from coilclaw.features.chat.agent import agent_of

        self._app = app
        self._thread = thread
        self._terminal = Terminal(assume_yes=assume_yes)
        self._conveyor = app.conveyor(approve or self._terminal.approve, self._terminal.ask)
        self._agent: Agent = agent_of(app, self._conveyor)
        self._aside = BackgroundJobs(app, self)

    async def start(self, stop: asyncio.Event) -> None:
        """Talk until the owner leaves, or `stop` is set between two messages."""
        config = self._app.config
        print_line(
            f"CoilClaw – provider {config.default_provider}, autonomy {config.security.autonomy}. /help for help."
        )
        print_line(f"Conversation {self._thread}. Enter sends, Alt-Enter adds a line, Ctrl-C cancels a call.")
        for outcome in await self._conveyor.recover():
            print_line(
                f"{outcome.action.call.tool} ({outcome.action.action_id}): {outcome.result.output}", style="yellow"
            )
        try:
            await self._go_on()
            await self._talk(_session(self._app), stop)
        finally:
            await self._aside.close()

    async def send(self, conversation_id: str, text: str) -> None:
        """Show a line above the prompt; of another conversation with its name."""
        print_line(text if conversation_id == self._thread else f"({conversation_id}) {text}")

    async def _go_on(self) -> None:
        """What a process that died left of this conversation comes first."""
        out = TextOut(self._app.redactor)
        try:
            await take_up(self._agent, self._app, self._thread, self._conveyor, out, _told_in_yellow)
        except CoilclawError as error:
            print_line(str(error), style="red")
        out.end()

    async def _talk(self, session: "PromptSession[str]", stop: asyncio.Event) -> None:
        from prompt_toolkit.patch_stdout import patch_stdout

        while not stop.is_set():
            if self._app.estop.engaged():
                print_line("ESTOP is engaged: tools are stopped.", style="red")
            try:
                with patch_stdout(raw=True):  # what a job says meanwhile stands above the prompt
                    text = (await session.prompt_async("› ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if not text:
                continue
            if text.startswith("/"):
                if await self._command(text):
                    return
                continue
            await self.turn(text)

    async def turn(self, text: str, write: Callable[[str], object] = sys.stdout.write) -> None:
        """One turn that Ctrl-C ends without ending the sitting."""
        out = TextOut(self._app.redactor, write)
        task = asyncio.ensure_future(post(self._agent, self._app, self._thread, text, out))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, task.cancel)
        try:
            reply = await task
            out.finish(reply.text)
        except asyncio.CancelledError:
            print_line("\ncancelled", style="yellow")
        except CoilclawError as error:
            print_line(f"\n{coded(error)}", style="red")
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _command(self, text: str) -> bool:
        """Run a slash command; True means leave."""
        name, _, rest = text.partition(" ")
        if name in ("/exit", "/quit"):
            return True
        try:
            if name == "/background":
                await self._aside.begin(rest.strip(), self._thread)
            else:
                self._show(name, rest)
        except CoilclawError as error:
            print_line(str(error), style="red")
        return False

    def _show(self, name: str, rest: str) -> None:
        match name:
            case "/help":
                print_rows(list(HELP.items()), ("command", "what it does"), empty="")
            case "/tools":
                allowed = self._app.allowed_tools
                rows = [(t.name, t.effect, t.description) for t in self._app.tools.values() if t.name in allowed]
                print_rows(rows, ("tool", "effect", "what it does"), empty="This channel has no tools.")
            case "/memory":
                self._search(rest.strip())
            case "/policy":
                rules = self._app.policy()
                print_line(f"autonomy: {rules.autonomy}\nworkspace: {self._app.workspace}")
                print_line(f"workspace only: {'yes' if rules.workspace_only else 'no'}\npolicy hash: {rules.hash[:16]}")
                if rules.broken:
                    print_line(f"BROKEN: {rules.broken}", style="red")
            case "/jobs":
                print_rows(self._aside.rows(), ("job", "state", "goal"), empty="There are no jobs.")
            case "/approve-history":
                rows = [
                    (c.tool_name, c.risk_word, c.human_summary, _said(a.approved)) for c, a in self._terminal.history
                ]
                print_rows(rows, ("tool", "risk", "what", "answer"), empty="You have not been asked anything yet.")
            case "/new":
                self._thread = new_id("conv", self._app.clock())
                print_line(f"Conversation {self._thread}.")
            case _:
                from coilclaw.packets.names import did_you_mean

                print_line(f"There is no command {name}. {did_you_mean(name, [each.split()[0] for each in HELP])}")

    def _search(self, query: str) -> None:
        hits = self._app.memory.search(query, limit=10)
        rows = [(hit.thread_id, moment(hit.created_at), hit.snippet) for hit in hits]
        print_rows(rows, ("conversation", "when", "what"), empty="Nothing found.")


def _told_in_yellow(words: str) -> None:
    print_line(words, style="yellow")


def _said(approved: bool | None) -> str:
    return {True: "approved", False: "rejected", None: "waits"}[approved]


def _session(app: "Runtime") -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    class Remembered(FileHistory):
        """What was typed, without secrets."""

        def store_string(self, string: str) -> None:
            super().store_string(app.redactor.text(string))

    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def newline(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    history_file = app.home.logs_dir / "history"
    try:
        history_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        history_file.touch(mode=0o600)
        history: FileHistory | InMemoryHistory = Remembered(str(history_file))
    except OSError:
        history = InMemoryHistory()
    words = WordCompleter([each.split()[0] for each in HELP], sentence=True)
    return PromptSession(
        history=history, multiline=True, key_bindings=keys, completer=words, complete_while_typing=False
    )


async def converse(app: "Runtime", thread: str, *, assume_yes: bool) -> int:
    """Open the conversation."""
    await Repl(app, thread, assume_yes=assume_yes).start(asyncio.Event())
    sys.stdout.write("\n")
    return 0
