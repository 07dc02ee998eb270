"""Schedules of an open home: the registry in the workspace, the dispatcher, and the worker's chore."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.jobs.job_spec import objections
from coilclaw.features.schedules.dispatcher import Dispatcher
from coilclaw.features.schedules.launch import Terms, project_fault
from coilclaw.features.schedules.registry import REGISTRY, REGISTRY_BYTES, Declared, Registry, read_registry
from coilclaw.features.schedules.registry_edit import Edit, edit_registry
from coilclaw.features.schedules.registry_lock import registry_lock
from coilclaw.features.schedules.store.schedules import SopPayload, get_mark, project_name, set_mark
from coilclaw.features.schedules.sync import MOST_HINTS, Source, Sync, apply, good_hashes
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.errors import Conflict, StorageError, ToolError, UsageError
from coilclaw.packets.ids import from_stamp, stamp
from coilclaw.packets.job import JobSpec
from coilclaw.store.job_history import standing_of
from coilclaw.store.jobs import JobBudget, load_job
from coilclaw.store.tx import Tx
from coilclaw.work.worker import Chore, Log

if TYPE_CHECKING:
    from coilclaw.features.jobs.background import Background
    from coilclaw.runtime import Runtime

LOOK_SECONDS = 1.0
"""How often a worker looks; a look at nothing is one indexed query and one stat."""

LOUD = frozenset({"schedule_registry_broken", "schedule_paused", "schedule_hint"})
"""What the owner should hear of at any level of the log."""

WRITING = timedelta(seconds=60)
"""How long a worker leaves the file to a process that announced a write, which may have died."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """The registry as an edit would have it; nothing is written yet."""

    data: bytes
    written: datetime | None
    """When the file it was made from was last written."""


class _Drafted(Exception):
    """No error: it ends an edit before its effect."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


class Scheduler:
    """The parts of scheduling over one App."""

    def __init__(self, app: "Runtime", say: Log | None = None) -> None:
        self._app = app
        self._quietly = say or app.observe

    def _say(self, event: str, fields: dict[str, Json]) -> None:
        self._quietly(event, fields)
        if event in LOUD:
            name = fields.get("schedule_id")
            words = fields.get("message") or f"schedule {name} is paused: {fields.get('reason')}."
            self._app.warn(str(words))

    # The file

    def source(self) -> Source:
        """The registry in the workspace, opened without following any link."""
        return Source(
            read=self._read,
            stamp=self._stamp,
            labels=lambda: self._app.root.labels.labels_of(REGISTRY),
            held=self._held,
            written=self._written,
            redact=self._app.redact,
        )

    def _read(self) -> bytes | None:
        from coilclaw.sandbox.files import read_existing

        return read_existing(self._app.workspace, REGISTRY, REGISTRY_BYTES)

    def _stamp(self) -> tuple[int, ...] | None:
        try:
            seen = (self._app.workspace / REGISTRY).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return (error.errno or 0,)
        return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns

    def _held(self) -> bool:
        from coilclaw.store.labels import held_labels

        return bool(held_labels(self._app.db.reader, ""))

    def _written(self) -> datetime | None:
        try:
            return datetime.fromtimestamp((self._app.workspace / REGISTRY).lstat().st_mtime, UTC)
        except (OSError, OverflowError, ValueError):  # it does not exist, or its time is invalid
            return None

    def objections(self, declared: Declared) -> list[str]:
        """Why a run of a schedule could not begin, as the workspace and the configuration are now."""
        from coilclaw.features.jobs.background import Background
        from coilclaw.features.sops.procedures import Procedures

        payload = declared.payload
        found: list[str] = []
        if fault := project_fault(self._app.db.reader, project_name(payload)):
            found.append(fault)
        if isinstance(payload, SopPayload):
            try:
                Procedures(self._app).load(payload.sop)
            except UsageError as error:
                found.append(str(error))
        spec = JobSpec(job_id="", intent="", constraints=payload.constraints, outputs=payload.outputs)
        return [*found, *objections(spec, Background(self._app).rules())]

    def write(self, data: bytes) -> None:
        """Replace the registry: written aside, made durable, renamed into place."""
        from coilclaw.sandbox.files import FileGrant, WorkspaceFiles

        root = os.fspath(self._app.workspace)
        grant = FileGrant(asked=REGISTRY, root=root, relative=REGISTRY, writable=True)
        try:
            WorkspaceFiles((grant,)).write(REGISTRY, data)
        except ToolError as error:
            raise StorageError(str(error), remedy="Nothing was changed.") from error

    async def edit(
        self,
        edit: Edit,
        in_transaction: Callable[[Tx], None] | None = None,
        by: str = "cli",
        write: Callable[[bytes], None] | None = None,
    ) -> Registry:
        """Change the registry and take it over, in one transaction with whatever else belongs to it; a call writes the
        file by what it was granted."""

        def work(tx: Tx) -> Registry:
            written_by = write or self.write
            registry = edit_registry(tx, self._app.clock, self.source(), written_by, edit, self.objections, by)
            if in_transaction is not None:
                in_transaction(tx)
            return registry

        async with self.editing():
            registry = await self._app.db.write(work)
        for hint in registry.hints[:MOST_HINTS]:
            self._say("schedule_hint", {"message": hint})
        return registry

    def editing(self) -> AbstractAsyncContextManager[None]:
        """Held by every edit of ours from reading the file to having taken it over."""
        return registry_lock(self._app.home.locks_dir)

    # Edits that others write

    async def draft(self, edit: Edit) -> Draft:
        """What an edit would make of the file, with every objection raised that an edit would raise."""

        def stop_here(data: bytes) -> None:
            raise _Drafted(data)

        def work(tx: Tx) -> Draft:
            written = self._written()
            try:
                edit_registry(tx, self._app.clock, self.source(), stop_here, edit, self.objections)
            except _Drafted as made:
                return Draft(data=made.data, written=written)
            raise AssertionError("an edit ends by writing")  # pragma: no cover

        return await self._app.db.write(work)

    @asynccontextmanager
    async def being_written(self) -> AsyncIterator[None]:
        """Meanwhile, workers leave the file alone: the writer loads it itself."""
        now = stamp(self._app.clock())
        await self._app.db.write(lambda tx: set_mark(tx, "writing", now))
        try:
            yield
        finally:
            await self._app.db.write(lambda tx: set_mark(tx, "writing", ""))

    async def take(self, draft: Draft, in_transaction: Callable[[Tx], None] | None, by: str) -> None:
        """Take over a draft that was written, in one transaction with whatever else belongs to it."""

        def work(tx: Tx) -> tuple[str, ...]:
            if self._read() != draft.data:
                raise Conflict(
                    f"{REGISTRY} has changed since this request wrote it.", remedy="Check its current content."
                )
            registry = read_registry(draft.data, good_hashes(tx), self._app.redact)
            done = apply(tx, self._app.clock, registry, sha256_hex(draft.data), by=by, written=draft.written)
            if in_transaction is not None:
                in_transaction(tx)
            set_mark(tx, "writing", "")
            return (*registry.hints, *done.hints)

        for hint in (await self._app.db.write(work))[:MOST_HINTS]:
            self._say("schedule_hint", {"message": hint})

    def _patient(self) -> Source:
        """The registry for a worker: as it was, as long as somebody is writing it."""
        last: list[tuple[int, ...] | None] = []

        def look() -> tuple[int, ...] | None:
            now = self._stamp()
            if last and now != last[0] and self._is_being_written():
                return last[0]
            last[:] = [now]
            return now

        return msgspec.structs.replace(self.source(), stamp=look)

    def _is_being_written(self) -> bool:
        since = get_mark(self._app.db.reader, "writing")
        return bool(since) and abs(self._app.clock() - from_stamp(since)) < WRITING

    # The dispatcher

    def dispatcher(self, background: "Background") -> Dispatcher:
        """What makes jobs of schedules that are due."""
        app = self._app

        def terms() -> Terms:
            config = app.config
            return Terms(
                budget=JobBudget(tokens=config.budgets.job_tokens, steps=config.jobs.max_steps),
                max_hours=config.jobs.max_hours,
                redact=app.redact,
            )

        async def withdraw(job_id: str) -> None:
            job = load_job(app.db.reader, job_id)
            waiting = {} if job is None else standing_of(app.db.reader, job.turn_id)
            for action in waiting.values():
                if action.status == "PENDING" and not action.held:
                    await background.withdraw(action.action_id, "its job was replaced by a newer run")

        return Dispatcher(
            db=app.db,
            clock=app.clock,
            sync=Sync(db=app.db, clock=app.clock, source=self._patient(), say=self._say, objections=self.objections),
            terms=terms,
            stopped=app.estop.engaged,
            hash_file=background.hash_file,
            withdraw=withdraw,
            say=self._say,
            elsewhere=lambda: app.config.forge.kind == "github" and app.config.forge.github.execute == "actions",
        )

    def chore(self, background: "Background") -> Chore:
        """The dispatcher as something a worker does now and then."""
        return Chore(name="schedules", every=LOOK_SECONDS, run=self.dispatcher(background).tick)
