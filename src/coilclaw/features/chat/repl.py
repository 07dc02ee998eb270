"""The conversation at the terminal: history, multi-line editing, streamed answers, slash commands."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from coilclaw.cli.background import see_out
from coilclaw.cli.output import counted, knows_signs, moment, print_line, print_rows, print_wrapped
from coilclaw.cli.project_choice import begin_thread, must_be_there
from coilclaw.cli.terminal import Terminal
from coilclaw.cli.yolo_warning import warn_of_yolo
from coilclaw.features.chat.background_jobs import BackgroundJobs
from coilclaw.features.chat.held_back import held_words, how_to_show, show_held
from coilclaw.features.chat.models import ConversationModels
from coilclaw.features.chat.post_message import coded, post, take_up
from coilclaw.features.chat.slash_commands import resumed, show_about, show_last, show_words, undo_last
from coilclaw.features.chat.store.turns import OVER, answer_of, asked_together, load_turn, notice_of
from coilclaw.features.chat.turn_ends import waiting_words
from coilclaw.features.chat.turn_view import shown
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import new_id
from coilclaw.packets.text import visible
from coilclaw.store.projects import load_project, project_of
from coilclaw.store.threads import title_of

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from coilclaw.agent.loop import Agent
    from coilclaw.config import Config
    from coilclaw.gate.conveyor import Approver
    from coilclaw.runtime import Runtime
    from coilclaw.store.projects import Project

FOLLOW_SECONDS = 1.0
CANCELLED = (
    "Cancelled. Your message and every finished step are kept; an answer that was not finished is dropped."
    " Say how to go on."
)
HELP = {
    "/help": "this list",
    "/tools": "list this channel's tools",
    "/memory WORDS": "search past conversations",
    "/policy": "autonomy and boundaries in force",
    "/background GOAL": "create a job in this conversation; it runs in the background",
    "/model [NAME]": "who answers in this conversation, or have another configured model answer",
    "/context": "how full the model's window is",
    "/compact": "sum up the oldest part of this conversation now",
    "/resume [NUMBER]": "list earlier conversations, or continue one",
    "/undo": "take back what was written last",
    "/approvals": "what waits for your approval",
    "/plan": "the agent's plan in this conversation",
    "/cost": "tokens this conversation used, and what they cost",
    "/answers": "what you said yes to from now on",
    "/jobs": "recent jobs and their state",
    "/approve-history": "approvals of this conversation and your answers",
    "/new": "start a new conversation",
    "/exit": "quit (or Ctrl-D)",
}


class Repl:
    """The terminal as a channel, for one sitting."""

    name = "cli"
    supports_draft_updates = True

    def __init__(
        self,
        app: "Runtime",
        thread: str,
        *,
        assume_yes: bool,
        approve: "Approver | None" = None,
        project: "Project | None" = None,
    ) -> None:
        self._app = app
        self._thread = thread
        self._project = project
        self._terminal = Terminal(assume_yes=assume_yes, edits=True, place=partial(asked_together, app.db.reader))
        self._conveyor = app.conveyor(approve or self._terminal.approve, self._terminal.ask)
        self._made: tuple[Config, Agent] = (app.config, self._make())
        self._models = ConversationModels(app)
        self._aside = BackgroundJobs(app, self)
        self._waiting: set[str] = set()
        """Turns of this sitting that wait for an answer given elsewhere."""

    @property
    def _agent(self) -> "Agent":
        """The agent, as the configuration has it now."""
        self._app.live.refresh()
        if self._made[0] is not self._app.config:
            self._made = self._app.config, self._make()
        return self._made[1]

    def _make(self) -> "Agent":
        from coilclaw.features.chat.agent import agent_of

        return agent_of(self._app, self._conveyor)

    async def start(self, stop: asyncio.Event) -> None:
        """Talk until the owner leaves, or `stop` is set between two messages."""
        who, autonomy = self._models.name_of(self._thread), self._app.config.security.autonomy
        warn_of_yolo(self._app)
        print_wrapped(f"CoilClaw – {who} answers, autonomy {autonomy}. /help for help.")
        if self._project is not None:
            print_wrapped(f"Working in {self._project.name}: {self._project.path}")
        print_wrapped(f"Conversation {self._thread}. Enter sends, Alt-Enter adds a line, Ctrl-C stops what runs.")
        await self._conveyor.recover()
        show_last(self._app, self._thread)
        follow = asyncio.ensure_future(self._follow())
        try:
            await self._interruptible(self._go_on(), CANCELLED)
            await self._talk(_session(self._app), stop)
        finally:
            follow.cancel()
            await self._aside.close()
            await see_out(self._app)

    async def _follow(self) -> None:
        """Show how turns ended that waited for an answer in the panel; the server goes on with them."""
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            await self._tell_ended()

    async def _tell_ended(self) -> None:
        """Say the answers of turns that waited, or why there is none."""
        for turn_id in list(self._waiting):
            db = self._app.db.reader
            turn = load_turn(db, turn_id)
            if turn is None or turn.state in OVER:
                self._waiting.discard(turn_id)
            if turn is None or turn.state not in OVER:
                continue
            last = answer_of if turn.state == "ANSWERED" else notice_of
            if words := last(db, turn.thread_id, turn_id):
                told = visible(self._app.redact(words))
                if turn.state == "ANSWERED" and turn.thread_id == self._thread:
                    show_words(told, of_owner=False)
                else:
                    await self.send(turn.thread_id, told)

    async def send(self, conversation_id: str, text: str) -> None:
        """Show a line above the prompt; of another conversation with its name."""
        print_line(text if conversation_id == self._thread else f"({conversation_id}) {text}")

    async def _go_on(self) -> None:
        """What a process that died left of this conversation comes first."""
        with shown(self._app, self._thread) as out:
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
                    text = (await session.prompt_async("› " if knows_signs(sys.stdout) else "> ")).strip()
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

    async def turn(self, text: str, write: Callable[[str], object] | None = None) -> None:
        """One turn that Ctrl-C ends without ending the sitting."""
        begin_thread(self._app, self._thread, self._project)
        await self._interruptible(self._answered(text, write), CANCELLED)

    async def _interruptible(self, work: Coroutine[object, object, None], cancelled: str) -> None:
        """Something that Ctrl-C ends without ending the sitting."""
        task = asyncio.ensure_future(work)
        stopped = False

        def interrupted() -> None:
            """Once stops the call that runs, and the agent is told; once more, or where none runs, ends it all."""
            nonlocal stopped
            sys.stderr.write("\n")  # behind a prompt, what is said next would go on in its row
            if stopped or not self._conveyor.attempts.stop_calls():
                task.cancel()
            stopped = True

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, interrupted)
        try:
            await task
        except asyncio.CancelledError:
            print_wrapped(cancelled, style="yellow")
        except CoilclawError as error:
            print_line(f"\n{coded(error)}", style="red")
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _answered(self, text: str, write: Callable[[str], object] | None) -> None:
        with shown(self._app, self._thread, write) as out:
            reply = await post(self._agent, self._app, self._thread, text, out)
            out.finish(waiting_words(self._app, reply.turn_id) if reply.ending == "pending" else reply.text)
        if reply.ending == "pending":
            self._waiting.add(reply.turn_id)
        await self._aside.take_in(reply.outcomes)
        await self._offer_held(reply.turn_id)

    async def _offer_held(self, turn_id: str) -> None:
        """What may not be sent after reading untrusted content can be looked at and answered here and now."""
        words = held_words(self._app, turn_id)
        if not words:
            return
        which = "it" if words.startswith("1 ") else "them"
        if not await self._terminal.wants(f"{words} Show {which} to approve? [s]how / [n]o", word="show"):
            print_line("It keeps. To see it later, run:" if which == "it" else "They keep. To see them later, run:")
            print_line(how_to_show(self._app, turn_id).partition("\n")[2])
            return
        for told in await show_held(self._app, self._conveyor, turn_id):
            print_line(visible(self._app.redact(told)))

    async def _command(self, text: str) -> bool:
        """Run a slash command; True means leave."""
        name, _, rest = text.partition(" ")
        if name in ("/exit", "/quit"):
            return True
        await self._interruptible(self._run_command(name, rest), CANCELLED if name == "/resume" else "Cancelled.")
        return False

    async def _run_command(self, name: str, rest: str) -> None:
        try:
            if name == "/background":
                begin_thread(self._app, self._thread, self._project)
                await self._aside.begin(rest.strip(), self._thread)
            elif name == "/model":
                await self._model(rest.strip())
            elif name == "/resume":
                await self._resume(rest.strip())
            elif name == "/undo":
                project_id = "" if self._project is None else self._project.project_id
                await undo_last(self._app, project_id, self._terminal.approve)
            elif name == "/compact":
                print_line("Summing up …")
                done = await self._agent.compact(self._thread)
                print_line(f"Summed up {counted(done, 'message')}." if done else "There is nothing to sum up yet.")
            elif not show_about(name, self._app, self._conveyor, self._thread):
                self._show(name, rest)
        except CoilclawError as error:
            print_line(str(error), style="red")

    def _folder(self) -> str:
        return str(self._app.workspace) if self._project is None else self._project.path

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
                print_line(f"autonomy: {rules.autonomy}\nworkspace: {self._folder()}")
                print_line(f"workspace only: {'yes' if rules.workspace_only else 'no'}\npolicy hash: {rules.hash[:16]}")
                if rules.broken:
                    print_line(f"BROKEN: {rules.broken}", style="red")
            case "/context":
                use = self._agent.context_use(self._thread)
                full = use.prompt + use.tools + use.messages
                print_line(f"about {full:,} of {use.window:,} tokens ({100 * full // use.window} %)")
                print_line(f"prompt {use.prompt:,}, tools {use.tools:,}, messages {use.messages:,}")
                if use.summarised:
                    print_line(f"{counted(use.summarised, 'earlier message')} summed up")
                if use.owner_left_out:
                    print_line(f"{counted(use.owner_left_out, 'message')} of yours did not fit into the summary")
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

    async def _resume(self, number: str) -> None:
        thread = resumed(self._app, number)
        if thread is None:
            return
        kept = project_of(self._app.db.reader, thread)
        if kept:
            must_be_there(self._app, kept)
        self._project = load_project(self._app.db.reader, kept) if kept else None
        self._thread = thread
        print_line(f"Conversation {thread}: {self._app.redact(title_of(self._app.db.reader, thread))}")
        show_last(self._app, thread)
        await self._go_on()

    async def _model(self, name: str) -> None:
        if name:
            await self._models.choose(self._thread, name, "cli")
        print_line(f"{self._models.name_of(self._thread)} answers here. Configured: {', '.join(self._models.names)}.")

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


async def converse(app: "Runtime", thread: str, *, assume_yes: bool, project: "Project | None" = None) -> int:
    """Open the conversation, in a project or the workspace."""
    await Repl(app, thread, assume_yes=assume_yes, project=project).start(asyncio.Event())
    sys.stdout.write("\n")
    return 0
