"""The owner's files: read without following any link, written through the gate."""

import asyncio
from contextlib import suppress

from coilclaw.features.owner_files.listed_files import FolderListing, listed_folder
from coilclaw.features.owner_files.undone import undo_of_action, undo_of_path
from coilclaw.features.owner_files.views import LARGEST, Edited, OwnerFile, PutFile
from coilclaw.features.owner_files.vouching import instead, vouch_call
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import Action, ToolCall
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.ports import Restore
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.server.problems import Trouble
from coilclaw.server.redacting import Redacting
from coilclaw.server.serving import Serving
from coilclaw.store.actions import result_of
from coilclaw.store.projects import project_of
from coilclaw.store.tx import Tx

MOST_NAMES = 1000


class OwnerFiles:
    """Policies, skills and the system prompt, as they lie in the workspace."""

    def __init__(self, serving: Serving) -> None:
        self._app = serving.runtime
        self._core = serving.core
        self._calls = OwnerCalls(serving.runtime, serving.core.conveyor)
        self._one_at_a_time = asyncio.Lock()

    def read(self, path: str, largest: int) -> bytes | None:
        """The content of a workspace file; None unless it is a regular file of at most so many bytes."""
        from coilclaw.sandbox.files import read_existing

        return read_existing(self._app.workspace, path, largest)

    def labels(self, path: str) -> list[str]:
        """Untrusted sources a workspace file may stem from."""
        return list(self._app.root.labels.labels_of(path))

    def folders(self, path: str) -> list[str]:
        """The names of the folders in a workspace folder, sorted, links left out."""
        from coilclaw.sandbox.files import FileGrant, WorkspaceFiles

        grant = FileGrant(asked=path, root=str(self._app.workspace), relative=path, writable=False)
        with suppress(ToolError):
            entries = WorkspaceFiles((grant,)).list(path, limit=MOST_NAMES)
            return [entry.name for entry in entries if entry.kind == "dir"]
        return []

    async def put(self, path: str, data: PutFile, *, by: str, key: str | None) -> Edited:
        """Propose to write the file, as the owner; what needs no more than the owner's word is written at once."""
        if len(data.content.encode()) > LARGEST:
            raise UsageError(f"a file has at most {LARGEST} bytes.", remedy="Split it.")
        async with self._one_at_a_time:  # or else two edits of the same text would both find it as they read it
            return await self._put(path, data, by, key)

    async def _put(self, path: str, data: PutFile, by: str, key: str | None) -> Edited:
        call = ToolCall.of("file_write", {"path": path, "content": data.content})
        known = await self._calls.known(call, key)  # an earlier try of this very request changes what the file holds
        if known is not None:
            return self._edited(path, await self._calls.go_on(known, by=by), by)
        self._must_be(path, data.if_sha256)
        return self._edited(path, await self._calls.make(call, by=by, key=key), by)

    async def look(self, path: str, *, by: str, key: str | None) -> Action:
        """Have a workspace file read for the owner, through the gate; the action as it stands."""
        call = ToolCall.of("file_show", {"path": path})
        known = await self._calls.known(call, key)
        return known if known is not None else await self._calls.make(call, by=by, key=key)

    def folder(self, path: str) -> FolderListing | None:
        """What is in a folder of the workspace; None when there is none."""
        return listed_folder(self._app, path)

    def undone(self, action: Action | None, path: str) -> Restore | None:
        """What would take back an action's write, or the last one of a file; None when nothing of it is kept."""
        return undo_of_path(self._app, path) if action is None else undo_of_action(self._app, action)

    def vouch_call(self, path: str) -> ToolCall | None:
        """The call that vouches for a workspace file as it is labelled now; None when it has no label of its own."""
        return vouch_call(self._app, path)

    def instead_of_vouching(self, path: str) -> str:
        """What to do where there is nothing to vouch for."""
        return instead(self._app.root.labels, path)

    async def propose(self, call: ToolCall, *, by: str, key: str | None) -> Action:
        """Propose what is the owner's own. It waits until it is approved for itself."""
        return await self._calls.make(call, by=by, key=key, at_once=False)

    async def propose_undo(self, wanted: Restore, of: Action | None, *, by: str, key: str | None) -> Action:
        """Propose to take something back, where it was written; which action that was is kept."""
        call = ToolCall.of("undo", wanted.args())
        if of is None:
            return await self.propose(call, by=by, key=key)
        project_id = project_of(self._core.db.reader, of.thread_id)

        def also(tx: Tx, undo: Action) -> None:
            add_event(tx, self._app.clock, "tool_undo_proposed", undo.action_id, {"of": of.action_id})

        return await self._calls.make(call, by=by, key=key, at_once=False, project_id=project_id, also=also)

    def earlier(self, tool: str, key: str | None) -> Action | None:
        """What an earlier request with this key proposed."""
        return self._calls.earlier(tool, key)

    def _must_be(self, path: str, wanted: str | None) -> None:
        if wanted is None:
            return
        there = self.read(path, LARGEST)
        if wanted != ("" if there is None else sha256_hex(there)):
            raise Trouble(
                412, "FILE_CHANGED", f"{path} is not what it was when you read it.", remedy="Read it again, then edit."
            )

    def _edited(self, path: str, action: Action, by: str) -> Edited:
        result = result_of(self._core.db.reader, action.action_id)
        waits = action.status == "PENDING"
        return Edited(
            action_id=action.action_id,
            path=path,
            status=action.status,
            needs=self._core.approvals.owner.needed(self._core.db.reader, action.decision.lane, by) if waits else "",
            decision=action.decision,
            code=result.code if result is not None else "",
            message=result.output if result is not None else "It waits for the owner.",
        )


async def owner_file(redacting: Redacting, files: OwnerFiles, path: str, largest: int) -> OwnerFile | None:
    """A file as it may be shown; None when there is none. What is no text is shown as far as it is."""
    data = files.read(path, largest)
    if data is None:
        return None
    labels = files.labels(path)

    def made() -> OwnerFile:
        content = data.decode("utf-8", "replace")
        shown = redacting.said(content)
        return OwnerFile(
            path=path,
            size=len(data),
            sha256=sha256_hex(data),
            content=shown,
            redacted=shown != content or content.encode() != data,
            labels=labels,
        )

    return await redacting.aside(made)
