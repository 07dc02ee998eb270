"""Ports between rooms: Protocols with a second implementation or a shipped fake."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import BinaryIO, Literal, Protocol, TypeAlias

import msgspec

from coilclaw.packets.action import Identity, Label, Source
from coilclaw.packets.box import BoxResult, BoxSpec, OnOutput, Probe, Tier
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatRequest, ChatResponse, ProviderCapabilities
from coilclaw.packets.decision import Destination, RiskClass
from coilclaw.packets.errors import ToolError
from coilclaw.packets.http import FetchRequest, HttpRequest, HttpResponse, Principal
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import Starter
from coilclaw.packets.search import SearchFound, SearchQuery
from coilclaw.packets.touches import Edit as Edit  # noqa: PLC0414 -- these four are part of the ports
from coilclaw.packets.touches import Permit as Permit  # noqa: PLC0414
from coilclaw.packets.touches import Restore as Restore  # noqa: PLC0414
from coilclaw.packets.touches import Touches as Touches  # noqa: PLC0414


class Provider(Protocol):
    """A model that answers."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        ...

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What it can do."""
        ...

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer once. A provider that streams also passes text to `on_text` piece by piece."""
        ...


class Channel(Protocol):
    """Where people talk to the agent: the terminal, or the server's conversations."""

    @property
    def name(self) -> str:
        """The source name of its messages."""
        ...

    @property
    def supports_draft_updates(self) -> bool:
        """Whether an answer is shown while it is being written."""
        ...

    async def start(self, stop: asyncio.Event) -> None:
        """Receive messages and answer them until `stop` is set or the person leaves."""
        ...

    async def send(self, conversation_id: str, text: str) -> None:
        """Post a message to a conversation that does not answer one."""
        ...


class StreamedResponse(Protocol):
    """A response whose body is still arriving; the byte limit applies to all of it."""

    status: int
    headers: tuple[tuple[str, str], ...]

    def chunks(self) -> AsyncIterator[bytes]:
        """The decoded body, piece by piece."""
        ...


class Transport(Protocol):
    """Outgoing HTTP: the airlock, or the fake that ships with the package."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send and read the whole response, or raise EgressRefused or TransportError."""
        ...

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send and return the response while it arrives."""
        ...

    async def check(self, url: str, principal: Principal) -> None:
        """Judge an address without sending anything, or raise EgressRefused or TransportError."""
        ...


Serve: TypeAlias = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection to a port inside a box; it is closed when this returns. The caller is not trusted."""


class OpenBox(Protocol):
    """A box that stays open: lines in, lines out, until it is closed, stopped, or ends itself."""

    async def send(self, line: bytes) -> None:
        """Write one line, waiting until the program reads it; raises ToolError if the box has ended."""
        ...

    async def end_input(self) -> None:
        """Close its standard input, so that a program that reads to the end can exit."""
        ...

    def lines(self) -> AsyncIterator[bytes]:
        """Its standard output, line by line, for one reader; the program waits for that reader."""
        ...

    async def wait(self) -> BoxResult:
        """How it ended, once everything inside is dead."""
        ...

    async def close(self) -> BoxResult:
        """Kill everything inside, wait until it is dead, and return how it ended."""
        ...


class Box(Protocol):
    """Where a command can run without doing harm."""

    @property
    def tier(self) -> Tier:
        """The kind of isolation it has."""
        ...

    async def run(
        self, spec: BoxSpec, *, released: Callable[[], None] | None = None, on_output: OnOutput | None = None
    ) -> BoxResult:
        """Run to the end. Cancelling kills everything inside before the cancellation propagates.

        `released` is called once, right before the command can start; if it raises, the command does not start.
        `on_output` receives the command's output while it runs.
        """
        ...

    async def open(
        self,
        spec: BoxSpec,
        *,
        stopped: Callable[[], Awaitable[None]],
        serve: Serve | None = None,
        released: Callable[[], None] | None = None,
    ) -> OpenBox:
        """Start a program to talk to for as long as it lives, which is no longer than this process.

        `stopped` returns when everything must stop (ESTOP), which ends the box. `serve` serves the spec's listeners.
        If it can write its workspace, it holds that workspace's lock, like a command, for as long as it lives:
        give it its own folder (docs/decisions/0019).
        """
        ...

    def probes(self) -> list[Probe]:
        """Test each wall by its behaviour."""
        ...


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One name in a directory."""

    name: str
    kind: str
    """`file`, `dir`, `link` or `other`."""
    size: int


class Files(Protocol):
    """The workspace files a call was granted; any other path is refused."""

    def list(self, path: str, *, limit: int) -> list[FileEntry]:
        """Names under a granted directory."""
        ...

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """The bytes of a granted regular file."""
        ...

    def open(self, path: str) -> BinaryIO:
        """A granted regular file, open for reading; the caller closes it."""
        ...

    def place(self, path: str) -> str:
        """A path granted for reading, relative to its root, without links and dots."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Replace or create a granted file, atomically."""
        ...

    def remove(self, path: str) -> None:
        """Remove a granted file, or a folder with the files granted in it; files changed or added meanwhile stay."""
        ...

    def move(self, path: str, target: str) -> None:
        """Rename a granted file or folder atomically; refused if anything in it changed meanwhile."""
        ...


class MemoryHit(msgspec.Struct, frozen=True, kw_only=True):
    """One matching message from memory."""

    thread_id: str
    message_id: str
    role: str
    created_at: str
    snippet: str
    score: float
    label: Label


class Memory(Protocol):
    """Search in past messages."""

    def search(self, query: str, *, limit: int) -> list[MemoryHit]:
        """Best first."""
        ...


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A stored note."""

    title: str
    content: str
    label: Label
    updated_at: str


class Notes(Protocol):
    """The agent's own notes and artifacts. In a tainted turn, what is stored carries the label."""

    async def write_note(self, title: str, content: str) -> None:
        """Store a note under its title, replacing any note with that title."""
        ...

    def read_note(self, title: str) -> Note | None:
        """The note with that title."""
        ...

    def list_notes(self, *, limit: int) -> list[Note]:
        """Notes without their content, the newest first."""
        ...

    async def put_artifact(self, *, kind: str, name: str, content: bytes, part: int = 0) -> str:
        """Store an artifact and return its id; repeating the call stores it once. A call with several numbers them."""
        ...

    def get_artifact(self, artifact_id: str) -> tuple[bytes, Label] | None:
        """An artifact's bytes and where they came from."""
        ...


Recovery: TypeAlias = Literal["repeat", "lookup", "owner"]
"""What to do about a call with an unknown outcome: repeat it, look it up, or leave it to the owner."""


class CommandState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a background command."""

    running: bool
    words: str
    """Its state, to follow its handle in a sentence."""
    output: str
    """The end of its output so far, redacted and limited."""
    label: Label
    """The label of that output."""


async def _not_granted(request: FetchRequest) -> HttpResponse:
    raise ToolError("no request was granted to this call.", code="NOT_GRANTED", begun=False)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What one call was granted. What is None was not."""

    source: Source
    thread_id: str
    clock: Clock
    idempotency_key: str
    timeout_seconds: float
    action_id: str = ""
    source_id: str = ""
    """The turn, job or session that the call comes from."""
    files: Files | None = None
    run_command: Callable[[str], Awaitable[BoxResult]] | None = None
    fetch: Callable[[FetchRequest], Awaitable[HttpResponse]] = _not_granted
    """Makes a request that the call declared, once; refuses any other with NOT_GRANTED."""
    read_page: Callable[[HttpResponse], Awaitable[str]] | None = None
    """Turns a fetched page into readable text."""
    command_status: Callable[[str, float], Awaitable[CommandState]] | None = None
    """The state of a background command of the same conversation or job; waits up to so many seconds if it runs."""
    command_stop: Callable[[str], Awaitable[CommandState]] | None = None
    """Ends such a command and returns how it ended."""
    search: Callable[[SearchQuery], Awaitable[SearchFound]] | None = None
    """Looks through the files below a granted path, as far as they may be read."""
    restore: Callable[[], Awaitable[list[tuple[str, bool]]]] | None = None
    """Brings back what the call declared: each file that changed, and whether it is back or was removed."""
    release: Callable[[str, dict[str, str]], Awaitable[list[str]]] | None = None
    """Moves a run's quarantined files back; their content must still be what was shown."""
    commit: Callable[[str], Awaitable[str]] | None = None
    """Commits exactly what was shown to the project's repository; returns the commit's id."""
    memory: Memory | None = None
    notes: Notes | None = None
    follow_up: Callable[[str, datetime | None, int | None], Awaitable[tuple[str, str]]] | None = None
    """Plans a follow-up job: its goal, at a time or in so many minutes. Returns its id and its time."""
    starter: Starter | None = None
    """What work started by the call inherits from its turn."""
    inputs: tuple[bytes, ...] = ()
    """The content of the declared inputs when they were hashed."""
    edited: bytes | None = None
    """The new content of the edited input: the bytes that were shown."""
    ask_owner: Callable[[str], Awaitable[str]] | None = None
    during: Callable[[], AbstractContextManager[OnOutput]] | None = None
    """Yields a callback: output that the call passes to it is shown live to watchers, redacted."""


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's result: text for the model, and where that text came from."""

    text: str
    label: Label
    success: bool = True
    code: str = ""
    exit: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    """A command's output, each stream separately; `text` has both."""
    metadata: dict[str, Json] = {}


class Tool(Protocol):
    """Something the agent can call. Everything the gate needs to know is declared, without defaults."""

    name: str
    description: str
    effect: RiskClass
    destination: Destination
    idempotent: bool
    always_ask: bool
    callers: frozenset[Source]
    """The allowed sources of calls."""
    governs: bool
    """Whether every call changes what governs the agent: lane C, whatever its arguments."""
    identities: frozenset[Identity]
    """In whose name it may be called; such a call must say which. Empty for tools that act for nobody."""
    withheld: str
    """Why a call could not succeed now, so that no model is offered it; empty for all but guests' tools."""

    @property
    def parameters(self) -> dict[str, Json]:
        """JSON Schema of the arguments."""
        ...

    @property
    def declaration_hash(self) -> str:
        """Hash of everything declared; a changed tool needs a new approval."""
        ...

    def parse(self, args: bytes) -> msgspec.Struct:
        """The typed arguments, or msgspec.ValidationError."""
        ...

    def acting_as(self, identity: Identity) -> "Tool":
        """The tool in the name of one of its identities; the gate asks for it before anything else."""
        ...

    def touches(self, args: msgspec.Struct) -> Touches:
        """What the call would touch."""
        ...

    async def look_ahead(self, args: msgspec.Struct, *, begun: bool) -> None:
        """Fetch what `touches` needs, for a call that always asks about something external.

        Once it has `begun`, its effect may have changed what would be fetched: what was fetched before stands.
        """
        ...

    def recovery(self, args: msgspec.Struct) -> Recovery:
        """What to do if a call's outcome is unknown."""
        ...

    async def lookup(self, args: msgspec.Struct, context: Context) -> bool | None:
        """Whether the call with this idempotency key was done; None if that cannot be determined now."""
        ...

    def summary(self, args: msgspec.Struct) -> str:
        """One deterministic sentence for the approval card."""
        ...

    async def invoke(self, args: msgspec.Struct, context: Context) -> ToolOutput:
        """Do it."""
        ...
