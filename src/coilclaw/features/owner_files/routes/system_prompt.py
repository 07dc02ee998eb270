"""The system prompt over HTTP: the owner's SYSTEM.md. Replacing it is the owner's alone (lane C)."""

from litestar import Controller, Response, get, put
from litestar.di import NamedDependency
from litestar.params import JSONBody

from coilclaw.features.owner_files.owner_files import OwnerFiles, owner_file
from coilclaw.features.owner_files.views import (
    PUT_ANSWERS,
    Edited,
    OwnerFile,
    PutFile,
    answer_edited,
)
from coilclaw.packets.errors import UsageError
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.redacting import Redacting

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
