"""Sockets between rooms: a Protocol stands here only where a second implementation exists or ships as a fake."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

import msgspec

from coilclaw.packets.action import Label, Source
from coilclaw.packets.box import BoxResult, BoxSpec, Probe, Tier
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatRequest, ChatResponse, ProviderCapabilities
from coilclaw.packets.decision import Destination, RiskClass
from coilclaw.packets.errors import ToolError
from coilclaw.packets.http import FetchRequest, HttpRequest, HttpResponse, Principal, SendTarget
from coilclaw.packets.ids import Clock


class Provider(Protocol):
    """A model that answers."""

    @property
    def name(self) -> str:
        """The name it has in the configuration."""
        ...

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What it can do."""
        ...

    async def chat(self, request: ChatRequest, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer once. Text is also handed to `on_text` piece by piece where the provider can stream."""
        ...


class Channel(Protocol):
    """Where people talk to the agent. The terminal is one, the conversations the server holds are another."""

    @property
    def name(self) -> str:
        """The name that messages from here carry."""
        ...

    @property
    def supports_draft_updates(self) -> bool:
        """Whether an answer is shown while it is still being written."""
        ...

    async def start(self, stop: asyncio.Event) -> None:
        """Take messages in and answer them until `stop` is set or the person leaves."""
        ...

    async def send(self, conversation_id: str, text: str) -> None:
        """Say something in a conversation that is not the answer to a message."""
        ...


class StreamedResponse(Protocol):
    """A response whose body is still arriving; the byte cap holds over the whole of it."""

    status: int
    headers: tuple[tuple[str, str], ...]

    def chunks(self) -> AsyncIterator[bytes]:
        """The decoded body, piece by piece."""
        ...


class Transport(Protocol):
    """The way out for HTTP. The airlock is one; the fake that ships with the package is another."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send and read the whole answer, or raise EgressRefused or TransportError."""
        ...

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send and hand the answer over while it arrives."""
        ...


Serve: TypeAlias = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Answers one connection to a port inside a box; it is closed when this returns. Who dials is not to be trusted."""


class OpenBox(Protocol):
    """A box that stays open: lines in, lines out, until it is closed, stopped, or over by itself."""

    async def send(self, line: bytes) -> None:
        """Write one line, waiting while nobody inside reads; raises ToolError when the box is over."""
        ...

    async def end_input(self) -> None:
        """Close its standard input: a program that reads to the end can end by itself."""
        ...

    def lines(self) -> AsyncIterator[bytes]:
        """Its standard output, line by line, for one reader; it waits for that reader."""
        ...

    async def wait(self) -> BoxResult:
        """How it ended, once everything inside is dead."""
        ...

    async def close(self) -> BoxResult:
        """End everything inside, wait until it is dead, and say how it ended."""
        ...


class Box(Protocol):
    """A place where a command can run and do no harm."""

    @property
    def tier(self) -> Tier:
        """Which kind of walls it has."""
        ...

    async def run(self, spec: BoxSpec, *, released: Callable[[], None] | None = None) -> BoxResult:
        """Run to the end. Cancelling kills everything inside before the cancellation is passed on.

        `released` is called once, right before anything of the command can begin; what it raises keeps it from that.
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
        """Start a command that is talked to for as long as it lives; it lives no longer than this process.

        `stopped` returns when everything must stop (ESTOP), and that ends it. `serve` answers the spec's listeners.
        Where it can write its workspace it keeps that workspace's lock, as a command does, for as long as it lives:
        give it a folder of its own (docs/decisions/0019).
        """
        ...

    def probes(self) -> list[Probe]:
        """Try each wall by behaviour."""
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

    def write(self, path: str, data: bytes) -> None:
        """Replace or create a granted file, atomically."""
        ...


class MemoryHit(msgspec.Struct, frozen=True, kw_only=True):
    """One remembered message that matches."""

    thread_id: str
    message_id: str
    role: str
    created_at: str
    snippet: str
    score: float
    label: Label


class Memory(Protocol):
    """Search over what was said before."""

    def search(self, query: str, *, limit: int) -> list[MemoryHit]:
        """Best first."""
        ...


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note as it is kept."""

    title: str
    content: str
    label: Label
    updated_at: str


class Notes(Protocol):
    """The agent's own notes and artifacts. What is kept while untrusted content is about carries its label."""

    async def write_note(self, title: str, content: str) -> None:
        """Keep a note under its title; a note of that title is replaced."""
        ...

    def read_note(self, title: str) -> Note | None:
        """The note of that title."""
        ...

    def list_notes(self, *, limit: int) -> list[Note]:
        """Notes without their content, the newest first."""
        ...

    async def put_artifact(self, *, kind: str, name: str, content: bytes) -> str:
        """Keep an artifact; the same call again keeps it once. Returns its id."""
        ...

    def get_artifact(self, artifact_id: str) -> tuple[bytes, Label] | None:
        """An artifact's bytes and where they came from."""
        ...


Recovery: TypeAlias = Literal["repeat", "lookup", "owner"]
"""What to do about a call whose end nobody knows: do it again, look whether it was done, or leave it to the owner."""


class Touches(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would touch, read from its arguments before anything is decided."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    """Files whose content is part of the effect: an approval binds what they hold."""
    command: str | None = None
    domains: tuple[str, ...] = ()
    """What the command would reach, through its box's broker."""
    requests: tuple[FetchRequest, ...] = ()
    """Every request the call would make: one, and the lookup that tells whether it arrived."""
    says: str | None = None
    """What the owner is asked, where the question is all there is."""
    public: bool = False
    """It brings nothing that was kept: the time, or what the owner answers."""
    restores: str | None = None
    """The snapshot whose files it would bring back; empty for the last one."""
    releases: str | None = None
    """The action whose held files it would put in place."""

    def __post_init__(self) -> None:
        # The first is judged and shown to the owner. Whatever else went out would do so unseen.
        for request in self.requests[1:]:
            if request.purpose != "lookup" or request.target is None or request.target != self.target:
                raise ValueError("a call declares one request, and at most lookups at the same named target")

    @property
    def url(self) -> str | None:
        """The address that is decided on and shown."""
        return self.requests[0].url if self.requests else None

    @property
    def principal(self) -> Principal | None:
        """In whose name the address would be asked for."""
        return self.requests[0].principal if self.requests else None

    @property
    def target(self) -> SendTarget | None:
        """The owner's named place, where the call sends to one."""
        return self.requests[0].target if self.requests else None

    @property
    def sends(self) -> bool:
        """Whether the call has its effect by a request."""
        return any(request.purpose == "effect" for request in self.requests)


async def _not_granted(request: FetchRequest) -> HttpResponse:
    raise ToolError("no request was granted to this call.", code="NOT_GRANTED", begun=False)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What one call was granted. What is None was not."""

    source: Source
    thread_id: str
    clock: Clock
    idempotency_key: str
    timeout_seconds: float
    files: Files | None = None
    run_command: Callable[[str], Awaitable[BoxResult]] | None = None
    fetch: Callable[[FetchRequest], Awaitable[HttpResponse]] = _not_granted
    """Makes a request that the call declared, once; refuses any other with NOT_GRANTED."""
    read_page: Callable[[HttpResponse], Awaitable[str]] | None = None
    """Turns a fetched page into readable text."""
    restore: Callable[[str], Awaitable[list[tuple[str, bool]]]] | None = None
    """Brings workspace files back from a snapshot: each that changed, and whether it is back or was removed."""
    release: Callable[[str, dict[str, str]], Awaitable[list[str]]] | None = None
    """Puts files that are held of a run where they stood; they must still hold what was shown."""
    memory: Memory | None = None
    notes: Notes | None = None
    follow_up: Callable[[str, datetime | None, int | None], Awaitable[tuple[str, str]]] | None = None
    """Plans a job of the agent's own: its goal, at a time or in so many minutes. Gives its id and its time."""
    inputs: tuple[bytes, ...] = ()
    """The content of the declared inputs, as it was when it was hashed."""
    ask_owner: Callable[[str], Awaitable[str]] | None = None


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool hands back: text for the model, and where that text came from."""

    text: str
    label: Label
    success: bool = True
    code: str = ""
    exit: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    """What a command wrote, each stream by itself; `text` holds both."""
    metadata: dict[str, Json] = {}


class Tool(Protocol):
    """Something the agent can ask for. Everything the gate needs to know is declared, nothing is defaulted."""

    name: str
    description: str
    effect: RiskClass
    destination: Destination
    idempotent: bool
    always_ask: bool
    opens_pr: bool
    """Whether it opens a pull request, of which a day allows only so many."""
    callers: frozenset[Source]
    """Where calls of it may come from."""

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

    def touches(self, args: msgspec.Struct) -> Touches:
        """What the call would touch."""
        ...

    def recovery(self, args: msgspec.Struct) -> Recovery:
        """What to do when nobody knows how a call ended."""
        ...

    async def lookup(self, args: msgspec.Struct, context: Context) -> bool | None:
        """Whether the call with this idempotency key was done; None when that cannot be told now."""
        ...

    def summary(self, args: msgspec.Struct) -> str:
        """One deterministic sentence for the approval card."""
        ...

    async def invoke(self, args: msgspec.Struct, context: Context) -> ToolOutput:
        """Do it."""
        ...
