"""Owner files over HTTP: the system prompt, and the workspace's files listed, shown, taken back and vouched for."""

from typing import Annotated, Literal

import msgspec
from litestar import Controller, Response, get, post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from coilclaw.features.approvals.views import redacted
from coilclaw.features.owner_files.listed_files import FolderListing
from coilclaw.features.owner_files.owner_files import OwnerFiles, owner_file
from coilclaw.features.owner_files.shown_file import ShowFile, ShownFile, shown_file
from coilclaw.features.owner_files.views import (
    PUT_ANSWERS,
    Edited,
    OwnerFile,
    PutFile,
    answer_edited,
)
from coilclaw.packets.action import Action, Status
from coilclaw.packets.canonical import parse_object, sha256_hex
from coilclaw.packets.errors import UsageError
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.server.redacting import Redacting
from coilclaw.store.actions import load_action

FILE = "SYSTEM.md"
READ_BYTES = 256 * 1024
"""The agent goes on without a longer one."""


class SystemPromptController(Controller):
    """The system prompt."""

    path = "/v1/system-prompt"
    tags = ("settings",)

    @get(operation_id="getSystemPrompt")
    async def show(
        self, owner_files: NamedDependency[OwnerFiles], file_redacting: NamedDependency[Redacting]
    ) -> OwnerFile:
        """What the owner tells the agent about itself; empty when there is no file."""
        empty = OwnerFile(path=FILE, size=0, sha256="", content="", redacted=False, labels=[])
        return await owner_file(file_redacting, owner_files, FILE, READ_BYTES) or empty

    @put(operation_id="putSystemPrompt", status_code=202, responses=PUT_ANSWERS)
    async def replace(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        owner_files: NamedDependency[OwnerFiles],
        data: JSONBody[PutFile],
        request_key: NamedDependency[str | None],
    ) -> Response[Edited]:
        """Propose a new system prompt. It waits for the owner's passkey."""
        if len(data.content.encode()) > READ_BYTES:
            raise UsageError(
                "a system prompt has at most 256 KB.", remedy="Shorten it; skills hold what is rarely used."
            )
        return answer_edited(core, await owner_files.put(FILE, data, by=caller.by, key=request_key))


class ShownFiles(Controller):
    """What the agent left in the workspace."""

    path = "/v1/files/show"
    tags = ("files",)

    @post("/", operation_id="showFile", summary="Show a workspace file", status_code=200, responses=problems(403, 409))
    async def show(
        self,
        core: NamedDependency[Core],
        file_redacting: NamedDependency[Redacting],
        caller: NamedDependency[Caller],
        owner_files: NamedDependency[OwnerFiles],
        data: JSONBody[ShowFile],
        request_key: NamedDependency[str | None],
    ) -> ShownFile:
        """What a workspace file is, its text (the first 128 KiB of it) or the bytes of a small picture. It is read
        through the gate, by the rules that hold for the agent, and leaves a receipt."""
        action = await owner_files.look(data.path, by=caller.by, key=request_key)
        return await shown_file(core, file_redacting, owner_files, data.path, action)


LARGEST_VOUCHED = 64 << 20
"""A file beyond this many bytes is vouched for at the terminal."""
FolderPath = Annotated[str, QueryParameter(max_length=4096, description="Below the workspace; empty for all of it.")]


class UndoWrite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be taken back: what an action wrote, or the last writing of a file."""

    action_id: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """An action that wrote in the workspace. Empty when a path is named."""
    path: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    """A file of the workspace. Empty when an action is named."""


class UndoProposed(msgspec.Struct, frozen=True, kw_only=True):
    """An undo that waits for the owner: its card names every file."""

    action_id: str
    status: Status
    scope: Literal["write", "turn"]
    """`write`: only what was asked for. `turn`: everything since the turn began, where one write cannot be told."""


class VouchFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file the owner vouches for, as they were shown it."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$(?!\n)")]
    """Of what was shown: nobody vouches for what they have not seen."""


class VouchProposed(msgspec.Struct, frozen=True, kw_only=True):
    """A vouching that waits for the owner's proof: its card names every label that goes."""

    action_id: str
    status: Status
    needs: str
    """What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing."""


class WorkspaceFileRoutes(Controller):
    """What lies in the workspace."""

    path = "/v1/files"
    tags = ("files",)

    @get("/list", operation_id="listFiles", summary="A folder of the workspace", responses=problems(404))
    async def list_folder(
        self,
        core: NamedDependency[Core],
        file_redacting: NamedDependency[Redacting],
        owner_files: NamedDependency[OwnerFiles],
        folder: FolderPath = "",
    ) -> FolderListing:
        """Names, kinds and sizes in one folder. Nothing is opened: showing a file is an action of its own."""
        found = await file_redacting.aside(lambda: owner_files.folder(folder))
        if found is None:
            raise NotThere("such folder", "See GET /v1/files/list; a link is not followed.")
        return await file_redacting.aside(lambda: redacted(core, found))

    @post("/undo", operation_id="undoWrite", summary="Propose an undo", status_code=201, responses=problems(404, 409))
    async def undo(
        self,
        core: NamedDependency[Core],
        file_redacting: NamedDependency[Redacting],
        caller: NamedDependency[Caller],
        owner_files: NamedDependency[OwnerFiles],
        data: JSONBody[UndoWrite],
        request_key: NamedDependency[str | None],
    ) -> UndoProposed:
        """Propose to take back what one action wrote, or the last writing of a file. Where nobody can tell the files of
        that one write, everything since its turn began goes back. It waits for a yes to its card, which names every
        file."""
        if bool(data.action_id) == bool(data.path):
            raise Trouble(422, "UNFIT", "name an action or a path, and not both.", remedy="Send one of them.")
        earlier = owner_files.earlier("undo", request_key)
        if earlier is not None:
            return _undo_proposed(earlier)
        action = load_action(core.db.reader, data.action_id) if data.action_id else None
        if data.action_id and action is None:
            raise NotThere("such action", "See GET /v1/actions.")
        wanted = await file_redacting.aside(lambda: owner_files.undone(action, data.path))
        if wanted is None:
            raise Trouble(
                409,
                "NOTHING_KEPT",
                "nothing is kept from before that, so it cannot be undone from here.",
                remedy="See `coilclaw undo --list` on the machine; for a project, add --project.",
            )
        return _undo_proposed(await owner_files.propose_undo(wanted, action, by=caller.by, key=request_key))

    @post("/vouch", operation_id="vouchForFile", summary="Vouch for a file", status_code=201, responses=problems(409))
    async def vouch(
        self,
        core: NamedDependency[Core],
        file_redacting: NamedDependency[Redacting],
        caller: NamedDependency[Caller],
        owner_files: NamedDependency[OwnerFiles],
        data: JSONBody[VouchFile],
        request_key: NamedDependency[str | None],
    ) -> VouchProposed:
        """Propose that what a labelled file holds counts as the owner's from now on. It waits, like all that governs
        the agent, for the owner's passkey."""
        made = owner_files.earlier("file_vouch", request_key)
        if made is None:
            seen = await file_redacting.aside(lambda: owner_files.read(data.path, LARGEST_VOUCHED))
            if seen is None or sha256_hex(seen) != data.sha256:
                raise Trouble(
                    409, "FILE_CHANGED", "the file is not what you were shown.", remedy="Look at it again, then vouch."
                )
            call = await file_redacting.aside(lambda: owner_files.vouch_call(data.path))
            if call is None:
                remedy = owner_files.instead_of_vouching(data.path)
                raise Trouble(409, "NOT_LABELLED", "the file has no label of its own.", remedy=remedy)
            made = await owner_files.propose(call, by=caller.by, key=request_key)
        need = core.approvals.owner.needed(core.db.reader, made.decision.lane, caller.by)
        return VouchProposed(
            action_id=made.action_id, status=made.status, needs=need if made.status == "PENDING" else ""
        )


def _undo_proposed(action: Action) -> UndoProposed:
    paths = parse_object(action.call.args_bytes).get("paths")
    return UndoProposed(action_id=action.action_id, status=action.status, scope="write" if paths else "turn")
