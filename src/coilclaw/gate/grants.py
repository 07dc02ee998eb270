"""Grants: a Context holding exactly what one allowed call may use."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from coilclaw.gate.callers import is_runtime_only
from coilclaw.gate.decision_input import BACKGROUND, Policy
from coilclaw.gate.facts import Inspected
from coilclaw.gate.paths import box_read_only, may_restore, may_restore_tainted
from coilclaw.gate.policy_match import hidden_paths
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action
from coilclaw.packets.box import BoxLimits, BoxResult, BoxSpec
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import EffectUncertain, ToolError
from coilclaw.packets.http import FetchRequest, HttpRequest, HttpResponse
from coilclaw.packets.ids import Clock
from coilclaw.packets.ports import Box, Context, Memory, Notes, Tool, Transport
from coilclaw.sandbox.files import FileGrant, WorkspaceFiles

if TYPE_CHECKING:
    from coilclaw.sandbox.quarantine import Quarantine
    from coilclaw.sandbox.snapshot import Snapshots


PAGE_BYTES = 2 * 1024 * 1024
"""What a page may weigh; only its readable text goes on, at most 50 KB."""


async def _read_page(response: HttpResponse) -> str:
    from coilclaw.airlock.readable import readable_text

    return await asyncio.to_thread(readable_text, response.body, response.header("content-type"))


def _keeps_notes(tool: Tool | None) -> bool:
    """Whether a tool works on our own rows; what the runtime does for itself begins there, such as an upload."""
    return tool is not None and (tool.destination == "internal" or is_runtime_only(tool))


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


class Granter:
    """Hands out contexts. The box and the way out are opened only when a call needs them."""

    def __init__(
        self,
        *,
        workspace: Path,
        snapshots: Callable[[], "Snapshots"],
        quarantine: Callable[[], "Quarantine"],
        policy: Callable[[], Policy],
        forbidden_commands: frozenset[str],
        limits: Limits,
        clock: Clock,
        memory: Memory,
        open_box: Callable[[], Box],
        transport: Callable[[Sequence[str] | None], Transport],
        headers: Callable[[str], tuple[tuple[str, str], ...]],
        notes: Callable[[Action, Turn], Notes],
        follow_up: Callable[[Action, Turn], FollowUp],
        ask_owner: Callable[[str], Awaitable[str]] | None,
    ) -> None:
        self.workspace = workspace
        self._snapshots = snapshots
        self._quarantine = quarantine
        self._policy = policy
        self.limits = limits
        self._forbidden = tuple(sorted(forbidden_commands))
        self._clock = clock
        self._memory = memory
        self._open_box = open_box
        self._transport = transport
        self._headers = headers
        self._notes = notes
        self._follow_up = follow_up
        self._ask_owner = ask_owner

    def grant(self, action: Action, inspected: Inspected, turn: Turn, release: Callable[[], None]) -> Context:
        """The context for one call, from what was decided about it; `release` comes before a command or a message."""
        touches = inspected.touches
        narrowing = turn.job.constraints.allowed_domains if turn.job is not None else None
        transport = lambda: self._transport(narrowing)  # noqa: E731 - opened only when something is sent
        guarded = bool(inspected.taint) or action.source in BACKGROUND
        return Context(
            source=action.source,
            thread_id=action.thread_id,
            clock=self._clock,
            idempotency_key=action.idempotency_key,
            timeout_seconds=self.limits.tool_seconds,
            files=self._workspace_files(action, inspected) if touches.reads or touches.writes else None,
            run_command=self._runner(action, inspected, transport, release, guarded=guarded)
            if touches.command
            else None,
            fetch=self._fetcher(action, inspected, transport, release),
            inputs=inspected.inputs,
            notes=self._notes(action, turn) if _keeps_notes(inspected.tool) else None,
            read_page=_read_page if touches.principal == "web_open" else None,
            restore=self._restorer(inspected) if action.call.tool == "undo" else None,
            release=self._release if touches.releases is not None else None,
            follow_up=self._follow_up(action, turn) if action.call.tool == "schedule_followup" else None,
            memory=self._memory,
            ask_owner=self._ask_owner,
        )

    def _restorer(self, inspected: Inspected) -> Callable[[str], Awaitable[list[tuple[str, bool]]]]:
        """Each file that was brought back or, when the second is False, removed."""
        unkept = bool(inspected.facts.irreversible)
        may = may_restore_tainted if inspected.taint else may_restore

        async def restore(snapshot_id: str) -> list[tuple[str, bool]]:
            """In a thread, which no cancellation reaches: it is told to stop, and waited for."""
            stop = threading.Event()
            going_back = self._snapshots().restore
            work = asyncio.ensure_future(asyncio.to_thread(going_back, snapshot_id, may, stop.is_set, unkept=unkept))
            try:
                done = await asyncio.shield(work)
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait({work})
                done = work.result()  # what it did by then is what happened
            return [(change.path, change.entry is not None) for change in done]

        return restore

    async def _release(self, action_id: str, files: dict[str, str]) -> list[str]:
        return await asyncio.to_thread(self._quarantine().release, action_id, files)

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
                    root=str(self.workspace) if inside else "/",
                    relative=path.relative if path.relative is not None else path.absolute.lstrip("/"),
                    writable=path.write,
                    alone=path.write and path.path_class in ("owner", "executed"),
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
                raise ValueError("a tool ran another command than the one that was decided on")
            workspace = str(self.workspace)
            spec = BoxSpec(
                command=command,
                workspace=workspace,
                cwd=workspace,
                read_only=box_read_only(
                    self.workspace, self._quarantine().repositories(action.action_id), guarded=guarded
                ),
                workspace_writable=not inspected.facts.only_reads,
                hidden=self._hidden(),
                forbidden_binaries=self._forbidden,
                environment=(("LANG", "C.UTF-8"), ("GIT_OPTIONAL_LOCKS", "0")),
                domains=granted.domains,
                limits=BoxLimits(wall_seconds=self.limits.shell_seconds, write_bytes=self.limits.shell_writes),
            )
            if not granted.domains:
                return await self._open_box().run(spec, released=release)
            from coilclaw.sandbox.box import reaching

            return await reaching(self._open_box(), transport()).run(spec, released=release)

        return run

    def _hidden(self) -> tuple[str, ...]:
        """What a policy rule denies to everything is not there for a command; only what exists can be hidden."""
        names = hidden_paths(self._policy().rules)
        paths = (self.workspace / name for name in names)
        return tuple(str(path) for path in paths if path.exists() and not path.is_symlink())

    def _fetcher(
        self, action: Action, inspected: Inspected, transport: Callable[[], Transport], release: Callable[[], None]
    ) -> Callable[[FetchRequest], Awaitable[HttpResponse]]:
        """Makes the declared requests, each once. A redirect is the airlock's to judge, never a new request."""
        left = list(inspected.touches.requests)
        sent = False

        async def fetch(request: FetchRequest) -> HttpResponse:
            nonlocal sent
            if request not in left:
                # what was sent before may have had its effect, which a plain failure would deny
                error = EffectUncertain if sent else ToolError
                raise error("the call was not granted this request.", code="NOT_GRANTED", begun=sent)
            left.remove(request)
            if request.purpose == "effect":
                release()
                sent = True
            return await transport().send(self._request(action, inspected, request))

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
            max_bytes=PAGE_BYTES if request.principal == "web_open" else self.limits.max_bytes,
            same_host=target is None and (asked is None or asked.stays),
        )
