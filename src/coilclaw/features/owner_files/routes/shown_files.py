"""Showing a file of the workspace: read through the gate, for the owner."""

from litestar import Controller, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from coilclaw.features.owner_files.owner_files import OwnerFiles
from coilclaw.features.owner_files.shown_file import ShowFile, ShownFile, shown_file
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import problems
from coilclaw.server.redacting import Redacting


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
