"""Grants: a Context holding exactly what one allowed call may use."""

import asyncio
import math
import os
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import TypeAlias
from urllib.parse import quote

import msgspec

from coilclaw.gate.background import BackgroundCommands, runs_beside
from coilclaw.gate.callers import is_runtime_only
from coilclaw.gate.decision_input import BACKGROUND, BY_HAND, Policy, mailed
from coilclaw.gate.facts import Inspected
from coilclaw.gate.paths import UPLOADS, PathFact, box_read_only, sight_of, starts_work
from coilclaw.gate.policy_match import hidden_paths
from coilclaw.gate.root import Root
from coilclaw.gate.running import RunningCommands
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action, Source
from coilclaw.packets.box import BoxLimits, BoxResult, BoxSpec
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import EffectUncertain, ToolError
from coilclaw.packets.http import FetchRequest, HttpRequest, HttpResponse
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import Constraints, Starter
from coilclaw.packets.ports import Box, Context, Memory, Notes, Tool, Touches, Transport
from coilclaw.packets.search import SearchFound, SearchQuery
from coilclaw.sandbox.files import FileGrant, WorkspaceFiles
from coilclaw.sandbox.toolchains import lent

PAGE_BYTES = 2 * 1024 * 1024
"""The largest page, in bytes; only its readable text is passed on, at most 50 KB."""

OFFLINE = (("npm_config_offline", "true"), ("PIP_RETRIES", "0"), ("UV_OFFLINE", "1"), ("CARGO_NET_OFFLINE", "true"))
"""What a box without network tells package managers, so that they fail at once instead of trying for minutes."""
OUTPUT_BYTES = 2 << 30
"""Bytes of output after which a command counts as endless; little of it is kept, so it costs only time."""
OUTPUT_KEPT = (64 << 10) - 256
"""What is kept of each stream: as much as a result shows, less the line that says how much is missing."""

HINT_BYTES = 8 << 10
"""How much of the end of each stream is looked through for a program that was not found."""


async def _read_page(response: HttpResponse) -> str:
    from coilclaw.airlock.readable import readable_text

    return await asyncio.to_thread(readable_text, response.body, response.header("content-type"))


def _releaser(root: Root) -> Callable[[str, dict[str, str]], Awaitable[list[str]]]:
    async def release(action_id: str, files: dict[str, str]) -> list[str]:
        return await asyncio.to_thread(root.quarantine.release, action_id, files)

    return release


def _committer(inspected: Inspected) -> Callable[[str], Awaitable[str]]:
    from coilclaw.gate.committing import committer

    return committer(inspected)


def _searcher(inspected: Inspected, policy: Policy, source: Source) -> Callable[[SearchQuery], Awaitable[SearchFound]]:
    from coilclaw.gate.searching import searcher

    return searcher(inspected, policy.rules, source)


def _must_be_alone(path: PathFact) -> bool:
    """Whether no command may run meanwhile: what replaces or moves a mount of its box would bare what is under it."""
    from coilclaw.sandbox.relocate import is_folder_state

    taken = bool(path.state) and (is_folder_state(path.state) or path.path_class == "guarded")
    return taken or path.path_class in ("owner", "executed")


def _protects_memory(inspected: Inspected) -> bool:
    """Whether a command may not write what is kept as memory: what strangers wrote gets there only if the owner was
    asked, which takes a command that names the place."""
    facts = inspected.facts
    named = any(path.write and path.path_class == "informal" for path in facts.paths)
    return not named and bool(mailed((*facts.fresh, *facts.inherited)))


def _protects_schedules(action: Action, inspected: Inspected) -> bool:
    """Whether a command may not write what begins turns: only where it names that, for which the owner was asked."""
    named = any(path.write and starts_work(path.relative) for path in inspected.facts.paths)
    return not named and action.source not in BY_HAND


def _keeps_notes(tool: Tool | None) -> bool:
    """Whether a tool works on our own rows; what the runtime does for itself begins there, such as an upload."""
    return tool is not None and (tool.destination == "internal" or is_runtime_only(tool))


def _starter(turn: Turn) -> Starter:
    job = turn.job
    return Starter(
        turn_id=turn.turn_id,
        fresh=turn.fresh,
        inherited=turn.inherited,
        constraints=Constraints() if job is None else job.constraints,
        generation=0 if job is None else job.generation,
        job_id=None if job is None else job.job_id,
        skills=turn.skills,
    )


def _is_as_declared(request: FetchRequest, declared: FetchRequest) -> bool:
    """Whether a request is the declared one; a body that is made later is the tool's to make."""
    later = msgspec.structs.replace(declared, body=request.body) if declared.made_later else declared
    return request == later


def _follows(request: FetchRequest, declared: FetchRequest) -> bool:
    """Whether a GET may follow from what a declared request brings: the same name, at the same origin."""
    same = (request.principal, request.identity) == (declared.principal, declared.identity)
    plain = request.method == "GET" and request.purpose != "effect" and not request.body
    return same and plain and _origin(request.url) == _origin(declared.url)


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])


FollowUp: TypeAlias = Callable[[str, datetime | None, int | None], Awaitable[tuple[str, str]]]


class Limits:
    """How long a call may take, and how much it may bring in or write."""

    def __init__(
        self, *, tool_seconds: float, shell_seconds: float, shell_writes: int, http_seconds: float, max_bytes: int
    ) -> None:
        self.tool_seconds = tool_seconds
        self.shell_seconds = shell_seconds
        self.shell_writes = shell_writes
        self.http_seconds = http_seconds
        self.max_bytes = max_bytes

    def command_seconds(self, touches: Touches) -> float:
        """How long the command of a call may run: as long as the call says, or as the configuration has it."""
        return self.shell_seconds if touches.seconds is None else float(touches.seconds)

    def seconds_for(self, touches: Touches) -> float:
        """How long a call may take. A command has its own limit; what surrounds it has a tool's."""
        waits = self.command_seconds(touches) if touches.command is not None else float(touches.seconds or 0)
        return self.tool_seconds + waits


class Granter:
    """Hands out contexts. The box and the network are opened only when a call needs them."""

    def __init__(
        self,
        *,
        policy: Callable[[], Policy],
        limits: Callable[[], Limits],
        clock: Clock,
        memory: Memory,
        open_box: Callable[[], Box],
        transport: Callable[[tuple[tuple[str, ...], ...]], Transport],
        headers: Callable[[str], tuple[tuple[str, str], ...]],
        send_as: Callable[[Transport, HttpRequest], Awaitable[HttpResponse]],
        notes: Callable[[Action, Turn], Notes],
        follow_up: Callable[[Action, Turn], FollowUp],
        ask_owner: Callable[[str], Awaitable[str]] | None,
        running: RunningCommands,
        background: BackgroundCommands,
    ) -> None:
        self._policy = policy
        self._limits = limits
        self._clock = clock
        self._memory = memory
        self._open_box = open_box
        self._transport = transport
        self._headers = headers
        self._send_as = send_as
        self._notes = notes
        self._follow_up = follow_up
        self._ask_owner = ask_owner
        self._running = running
        self._background = background

    @property
    def limits(self) -> Limits:
        """How much a call may take, as the configuration has it now."""
        return self._limits()

    def grant(self, action: Action, inspected: Inspected, turn: Turn, release: Callable[[], None]) -> Context:
        """The context for one call, from what was decided about it; `release` comes before a command or a message."""
        touches = inspected.touches
        transport = lambda: self._transport(inspected.narrowing)  # noqa: E731 - opened only when something is sent
        guarded = bool(inspected.taint) or action.source in BACKGROUND
        return Context(
            source=action.source,
            source_id=action.source_id,
            thread_id=action.thread_id,
            clock=self._clock,
            idempotency_key=action.idempotency_key,
            action_id=action.action_id,
            timeout_seconds=self.limits.seconds_for(touches),
            files=self._workspace_files(action, inspected) if touches.reads or touches.writes else None,
            run_command=self._runner(action, inspected, transport, release, guarded=guarded)
            if touches.command
            else None,
            fetch=self._fetcher(action, inspected, transport, release),
            inputs=inspected.inputs,
            edited=inspected.edited,
            notes=self._notes(action, turn) if _keeps_notes(inspected.tool) or touches.guest else None,
            read_page=_read_page if touches.principal == "web_open" else None,
            command_status=partial(self._background.status, action) if touches.handle is not None else None,
            command_stop=partial(self._background.stop, action) if touches.handle is not None else None,
            search=_searcher(inspected, self._policy(), action.source) if touches.searches else None,
            restore=self._restorer(inspected),
            commit=_committer(inspected) if touches.commits is not None else None,
            release=_releaser(inspected.root) if touches.releases is not None else None,
            follow_up=self._follow_up(action, turn) if action.call.tool == "schedule_followup" else None,
            starter=_starter(turn) if _keeps_notes(inspected.tool) else None,
            memory=self._memory,
            ask_owner=self._ask_owner,
            during=partial(self._running.during, action) if touches.guest else None,
        )

    def _restorer(self, inspected: Inspected) -> Callable[[], Awaitable[list[tuple[str, bool]]]] | None:
        """Each file that was brought back or, when the second is False, removed."""
        wanted = inspected.touches.restores
        if wanted is None:
            return None
        unkept = bool(inspected.facts.irreversible)
        may = inspected.root.undoing.may_restore(wanted, tainted=bool(inspected.taint))

        async def restore() -> list[tuple[str, bool]]:
            """Runs in a thread, which cannot be cancelled: we signal it to stop and wait for it."""
            stop = threading.Event()
            back = inspected.root.snapshots.restore
            held = inspected.root.places.held_by_boxes
            work = asyncio.ensure_future(
                asyncio.to_thread(back, wanted.snapshot, may, stop.is_set, unkept=unkept, held_by_boxes=held)
            )
            try:
                done = await asyncio.shield(work)
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait({work})
                done = work.result()  # what it did by then is what happened
            return [(change.path, change.entry is not None) for change in done]

        return restore

    def _workspace_files(self, action: Action, inspected: Inspected) -> WorkspaceFiles:
        return WorkspaceFiles(self._files(inspected), sha256_hex(action.idempotency_key.encode())[:12])

    def _files(self, inspected: Inspected) -> tuple[FileGrant, ...]:
        grants: list[FileGrant] = []
        for path in inspected.facts.paths:
            if path.boxed:
                continue
            inside = path.relative is not None
            grants.append(
                FileGrant(
                    asked=path.asked,
                    root=str(inspected.root.folder) if inside else "/",
                    relative=path.relative if path.relative is not None else path.absolute.lstrip("/"),
                    writable=path.write,
                    alone=path.write and _must_be_alone(path),
                    state=path.state,
                )
            )
        return tuple(grants)

    def _runner(
        self,
        action: Action,
        inspected: Inspected,
        transport: Callable[[], Transport],
        release: Callable[[], None],
        *,
        guarded: bool,
    ) -> Callable[[str], Awaitable[BoxResult]]:
        granted = inspected.touches

        async def run(command: str) -> BoxResult:
            if command != granted.command:
                raise ValueError("a tool ran a command other than the one that was decided")
            root = inspected.root
            workspace = str(root.folder)
            forbidden = tuple(sorted(self._policy().forbidden_commands))
            mounts, path = lent(root.places.toolchains, forbidden)
            spec = BoxSpec(
                command=command,
                workspace=workspace,
                cwd=workspace,
                read_only=box_read_only(
                    root.places,
                    root.quarantine.repositories(action.action_id),
                    guarded=guarded,
                    starting=_protects_schedules(action, inspected),
                    informal=_protects_memory(inspected),
                ),
                workspace_writable=not inspected.facts.only_reads,
                hidden=self._hidden(inspected),
                forbidden_binaries=forbidden,
                environment=(*_environment(path), *(() if granted.domains else OFFLINE)),
                mounts=mounts,
                domains=granted.domains,
                limits=self._box_limits(granted),
            )
            box = self._open_box()
            if granted.domains:
                from coilclaw.sandbox.box import reaching

                box = reaching(box, transport())
            with self._running.during(action, background=runs_beside(action, inspected)) as on_output:
                result = await box.run(spec, released=release, on_output=on_output)
            return result if inspected.taint or granted.domains else _with_hint(result, root)

        return run

    def _box_limits(self, granted: Touches) -> BoxLimits:
        """Wall-clock time limits a command: within it a process may use every core."""
        seconds = self.limits.command_seconds(granted)
        return BoxLimits(
            wall_seconds=seconds,
            cpu_seconds=math.ceil(seconds) * (os.cpu_count() or 1),
            write_bytes=self.limits.shell_writes,
            output_bytes=OUTPUT_BYTES,
            kept_bytes=OUTPUT_KEPT,
        )

    def _hidden(self, inspected: Inspected) -> tuple[str, ...]:
        """Paths that a policy rule denies to every tool are hidden from a command; only what exists can be hidden."""
        root = inspected.root
        paths = (root.folder / name for name in hidden_paths(self._policy().rules))
        hidden = tuple(str(path) for path in paths if path.exists() and not path.is_symlink())
        if not inspected.facts.without_uploads:
            return hidden
        if not root.has_uploads:
            raise ToolError(
                f"the folder {UPLOADS} was moved or replaced meanwhile.",
                remedy="Try again.", code="UPLOADS_MOVED", begun=False,
            )  # fmt: skip
        return (*hidden, str(root.folder / UPLOADS))

    def _fetcher(
        self, action: Action, inspected: Inspected, transport: Callable[[], Transport], release: Callable[[], None]
    ) -> Callable[[FetchRequest], Awaitable[HttpResponse]]:
        """Makes the declared requests, each once. A redirect is the airlock's to judge, never a new request."""
        left = list(inspected.touches.requests)
        further = sum(each.further for each in left)
        sent = False

        async def fetch(request: FetchRequest) -> HttpResponse:
            nonlocal sent, further
            declared = next((each for each in left if _is_as_declared(request, each)), None)
            if declared is not None:
                left.remove(declared)
            elif further > 0 and any(_follows(request, each) for each in inspected.touches.requests):
                further -= 1
            else:
                # what was sent before may have had its effect, which a plain failure would deny
                error = EffectUncertain if sent else ToolError
                raise error("the call was not granted this request.", code="NOT_GRANTED", begun=sent)
            if request.purpose == "effect":
                release()
                sent = True
            made = self._request(action, inspected, request)
            return await (self._send_as(transport(), made) if made.identity else transport().send(made))

        return fetch

    def _request(self, action: Action, inspected: Inspected, request: FetchRequest) -> HttpRequest:
        """A declared request as it goes out, with what only the gate knows: key, credentials and limits."""
        target, url = request.target, request.url
        headers: tuple[tuple[str, str], ...] = (("Content-Type", request.content_type),) if request.content_type else ()
        if request.purpose == "lookup":
            url = url.replace("{key}", quote(action.idempotency_key, safe=""))
        elif target is not None:
            headers += ((target.key_header, action.idempotency_key),)
        asked = inspected.facts.url
        return HttpRequest(
            principal=request.principal,
            method=request.method,
            url=url,
            headers=(*headers, *self._headers(f"webhook:{target.name}" if target else request.principal)),
            body=inspected.inputs[0] if request.body is None else request.body,
            timeout_seconds=target.timeout_seconds if target else self.limits.http_seconds,
            max_bytes=request.max_bytes or (PAGE_BYTES if request.principal == "web_open" else self.limits.max_bytes),
            identity=request.identity,
            same_host=target is None and (asked is None or asked.stays),
        )


def _with_hint(result: BoxResult, root: Root) -> BoxResult:
    """How a command ended, and what to do about a program that it did not find.

    Not in a tainted turn, nor with a network: what untrusted content may have brought up is not put into the
    owner's mouth.
    """
    said = result.stdout[-HINT_BYTES:] + b"\n" + result.stderr[-HINT_BYTES:]
    if b"not found" not in said and b"No such file" not in said:
        return result
    from coilclaw.sandbox.missing_programs import missing_program

    missing = missing_program(said.decode("utf-8", "replace"), sight_of(root.places, os.environ))
    return result if missing is None else msgspec.structs.replace(result, hint=missing.said, lendable=missing.folder)


def _environment(path: str) -> tuple[tuple[str, str], ...]:
    return (("PATH", path), ("LANG", "C.UTF-8"), ("GIT_OPTIONAL_LOCKS", "0"))
