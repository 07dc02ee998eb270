"""Grants: a Context holding exactly what one allowed call may use."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from coilclaw.gate.callers import is_runtime_only
from coilclaw.gate.case import BACKGROUND, Policy
from coilclaw.gate.facts import Inspected, only_reads
from coilclaw.gate.paths import box_read_only, may_restore
from coilclaw.gate.policy_match import hidden_paths
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action
from coilclaw.packets.box import BoxLimits, BoxResult, BoxSpec
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.http import HttpRequest, HttpResponse, Principal, SendTarget
from coilclaw.packets.ids import Clock
from coilclaw.packets.ports import Box, Context, Memory, Notes, Tool, Touches, Transport
from coilclaw.sandbox.files import FileGrant, WorkspaceFiles

if TYPE_CHECKING:
    from coilclaw.sandbox.snapshot import Snapshots


PAGE_BYTES = 2 * 1024 * 1024
"""What a page may weigh; only its readable text goes on, at most 50 KB."""


async def _read_page(response: HttpResponse) -> str:
    from coilclaw.sandbox.airlock.readable import readable_text

    return await asyncio.to_thread(readable_text, response.body, response.header("content-type"))


def _keeps_notes(tool: Tool | None) -> bool:
    """Whether a tool works on our own rows; what the runtime does for itself begins there, such as an upload."""
    return tool is not None and (tool.destination == "internal" or is_runtime_only(tool))


FollowUp: TypeAlias = Callable[[str, datetime | None, int | None], Awaitable[tuple[str, str]]]


class Limits:
    """How long a call may take."""

    def __init__(self, *, tool_seconds: float, shell_seconds: float, http_seconds: float, max_bytes: int) -> None:
        self.tool_seconds = tool_seconds
        self.shell_seconds = shell_seconds
        self.http_seconds = http_seconds
        self.max_bytes = max_bytes


class Granter:
    """Hands out contexts. The box and the way out are opened only when a call needs them."""

    def __init__(
        self,
        *,
        workspace: Path,
        snapshots: Callable[[], "Snapshots"],
        policy: Callable[[], Policy],
        warn: Callable[[str], None],
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
        self._policy = policy
        self._warn = warn
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

    def grant(self, action: Action, inspected: Inspected, turn: Turn) -> Context:
        """The context for one call, from what was decided about it."""
        touches = inspected.touches
        narrowing = turn.job.constraints.allowed_domains if turn.job is not None else None
        transport = lambda: self._transport(narrowing)  # noqa: E731 - opened only when something is sent
        guarded = bool(inspected.taint) or action.source in BACKGROUND
        getter = sender = asker = None
        if touches.target is not None:
            sender, asker = (
                self._sender(action, touches.target, transport),
                self._asker(action, touches.target, transport),
            )
        elif touches.url and touches.principal:
            getter = self._getter(touches.url, touches.principal, transport)
        return Context(
            source=action.source,
            thread_id=action.thread_id,
            clock=self._clock,
            idempotency_key=action.idempotency_key,
            timeout_seconds=self.limits.tool_seconds,
            files=self._workspace_files(action, inspected) if touches.reads or touches.writes else None,
            run_command=self._runner(touches, transport, guarded=guarded) if touches.command else None,
            http_get=getter,
            send=sender,
            look_up=asker,
            inputs=inspected.inputs,
            notes=self._notes(action, turn) if _keeps_notes(inspected.tool) else None,
            read_page=_read_page if touches.principal == "web_open" else None,
            restore=self._restore if action.call.tool == "undo" else None,
            follow_up=self._follow_up(action, turn) if action.call.tool == "schedule_followup" else None,
            memory=self._memory,
            ask_owner=self._ask_owner,
        )

    async def keep(self, inspected: Inspected, turn: Turn, stopped: Callable[[], bool]) -> None:
        """Before a turn's first writing command, keep the workspace as it is, unless everything is stopped already."""
        command = inspected.facts.command
        if turn.kept or command is None or only_reads(command) or stopped():
            return
        turn.kept = True
        try:
            note = f"before {turn.turn_id}: {command.text[:80]}"
            turn.snapshot = await asyncio.to_thread(self._snapshots().take, note, stopped)
        except Exception as error:  # the call is claimed by now: nothing here may keep it from its end
            self._warn(f"the workspace could not be kept for `coilclaw undo`: {error}")

    async def _restore(self, snapshot_id: str) -> list[str]:
        """In a thread, which no cancellation reaches: it is told to stop, and waited for."""
        stop = threading.Event()
        restore = asyncio.to_thread(self._snapshots().restore, snapshot_id, may_restore, stop.is_set)
        work = asyncio.ensure_future(restore)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait({work})
            return work.result()  # what it did by then is what happened

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
                    alone=path.write and path.path_class == "owner",
                )
            )
        return tuple(grants)

    def _runner(
        self, granted: Touches, transport: Callable[[], Transport], *, guarded: bool
    ) -> Callable[[str], Awaitable[BoxResult]]:
        async def run(command: str) -> BoxResult:
            if command != granted.command:
                raise ValueError("a tool ran another command than the one that was decided on")
            workspace = str(self.workspace)
            spec = BoxSpec(
                command=command,
                workspace=workspace,
                cwd=workspace,
                read_only=box_read_only(self.workspace, guarded=guarded),
                hidden=self._hidden(),
                forbidden_binaries=self._forbidden,
                environment=(("LANG", "C.UTF-8"), ("GIT_OPTIONAL_LOCKS", "0")),
                domains=granted.domains,
                limits=BoxLimits(wall_seconds=self.limits.shell_seconds),
            )
            if not granted.domains:
                return await self._open_box().run(spec)
            from coilclaw.sandbox.box import reaching

            return await reaching(self._open_box(), transport()).run(spec)

        return run

    def _hidden(self) -> tuple[str, ...]:
        """What a policy rule denies to everything is not there for a command; only what exists can be hidden."""
        names = hidden_paths(self._policy().rules)
        paths = (self.workspace / name for name in names)
        return tuple(str(path) for path in paths if path.exists() and not path.is_symlink())

    def _getter(
        self, granted: str, principal: Principal, transport: Callable[[], Transport]
    ) -> Callable[[str], Awaitable[HttpResponse]]:
        async def get(url: str) -> HttpResponse:
            if url != granted:
                raise ValueError("a tool asked for another address than the one that was decided on")
            return await transport().send(
                HttpRequest(
                    principal=principal,
                    method="GET",
                    url=url,
                    headers=self._headers(principal),
                    timeout_seconds=self.limits.http_seconds,
                    max_bytes=PAGE_BYTES if principal == "web_open" else self.limits.max_bytes,
                )
            )

        return get

    def _sender(
        self, action: Action, target: SendTarget, transport: Callable[[], Transport]
    ) -> Callable[[bytes, str], Awaitable[HttpResponse]]:
        async def send(body: bytes, content_type: str) -> HttpResponse:
            key = (target.key_header, action.idempotency_key)
            return await transport().send(
                HttpRequest(
                    principal="webhook",
                    method="POST",
                    url=target.url,
                    headers=(("Content-Type", content_type), key, *self._headers(f"webhook:{target.name}")),
                    body=body,
                    timeout_seconds=target.timeout_seconds,
                    max_bytes=self.limits.max_bytes,
                )
            )

        return send

    def _asker(
        self, action: Action, target: SendTarget, transport: Callable[[], Transport]
    ) -> Callable[[], Awaitable[HttpResponse]] | None:
        if not target.lookup_url:
            return None

        async def look_up() -> HttpResponse:
            from urllib.parse import quote

            return await transport().send(
                HttpRequest(
                    principal="webhook",
                    method="GET",
                    url=target.lookup_url.replace("{key}", quote(action.idempotency_key, safe="")),
                    headers=self._headers(f"webhook:{target.name}"),
                    timeout_seconds=target.timeout_seconds,
                    max_bytes=self.limits.max_bytes,
                )
            )

        return look_up
