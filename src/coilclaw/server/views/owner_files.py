"""The owner's files over HTTP: policies, skills, the system prompt. Whoever writes one goes through the gate."""

from typing import Annotated, Protocol, runtime_checkable

import msgspec
from litestar import Response
from litestar.openapi.datastructures import ResponseSpec

from coilclaw.packets.action import Action, Status
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.decision import Decision
from coilclaw.server.core import Core
from coilclaw.server.problems import Trouble, problems
from coilclaw.server.redacting import Redacting

LARGEST = 128 << 10
"""Such files are read by people, and redacted whole before they are shown: that takes its time."""

MEND_ON_THE_MACHINE = (
    "No device can mend it, because what the broken file forbade is not known: on the machine, edit the file that is"
    " named here in the workspace, or move it out of policies/. `coilclaw policy show` says when it holds."
)
"""While a policy file is broken, only reads run; that holds for its own repair too."""

PLAIN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$(?!\n)"
"""What a new skill may be called."""
POLICY_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,74}\.json$(?!\n)"
"""What a new policy file may be called."""


class OwnerFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the owner as it is now."""

    path: str
    """Where it is in the workspace."""
    size: int
    """In bytes."""
    sha256: str
    """Hand it back as `if_sha256` when you replace the file. Empty when there is no file yet."""
    content: str
    redacted: bool
    """Something in it looks like a secret, or is no text, and is not shown: writing this back would lose it."""
    labels: list[str]
    """Untrusted sources its content may stem from."""


class PutFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole new content of a file."""

    content: Annotated[str, msgspec.Meta(max_length=LARGEST)]
    if_sha256: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] | None = None
    """The hash of the file this replaces, empty when there must be none yet; null to replace whatever is there."""


class Edited(msgspec.Struct, frozen=True, kw_only=True):
    """Where a change of a file stands: it is an action like any other."""

    action_id: str
    path: str
    status: Status
    """EXECUTED: it is written. PENDING: it waits for the owner's approval. APPROVED: it is about to be written."""
    needs: str
    """What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing."""
    decision: Decision
    code: str
    message: str


@runtime_checkable
class FileDesk(Protocol):
    """The owner's files, as the App hands them out."""

    def read(self, path: str, largest: int) -> bytes | None:
        """What a workspace file holds; None when it is no plain file of at most so many bytes. No link is followed."""
        ...

    def labels(self, path: str) -> list[str]:
        """Untrusted sources a workspace file may stem from."""
        ...

    def folders(self, path: str) -> list[str]:
        """The names of the folders in a workspace folder, sorted, links left out."""
        ...

    async def put(self, path: str, data: PutFile, *, by: str, key: str | None) -> Edited:
        """Propose to write the file, as the owner; what needs no more than the owner's word is written at once."""
        ...

    async def look(self, path: str, *, by: str, key: str | None) -> Action:
        """Have a workspace file read for the owner, through the gate; the action as it stands."""
        ...


async def owner_file(redacting: Redacting, files: FileDesk, path: str, largest: int) -> OwnerFile | None:
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


PUT_ANSWERS = {
    200: ResponseSpec(data_container=Edited, description="It is written.", generate_examples=False),
    **problems(404, 409, 412),
}


def answer_edited(core: Core, edited: Edited) -> Response[Edited]:
    """200 when it is written, 202 when it will be or waits for the owner; anything else is an error."""
    decision = edited.decision
    edited = msgspec.structs.replace(
        edited,
        message=core.said(edited.message),
        decision=msgspec.structs.replace(decision, reasons=tuple(core.said(each) for each in decision.reasons)),
    )
    if edited.status in ("PENDING", "APPROVED"):
        return Response(edited, status_code=202)
    if edited.status == "EXECUTED":
        return Response(edited, status_code=200)
    told = f"{edited.path} was not written ({edited.action_id}): {edited.message}"
    remedy = MEND_ON_THE_MACHINE if edited.code == "POLICY_BROKEN" else " ".join(edited.decision.recommended_changes)
    if edited.status == "REJECTED":
        raise Trouble(403, edited.code or "DENIED", told, remedy=remedy)
    raise Trouble(409, edited.code or "NOT_WRITTEN", told, remedy="See what is in the way, then send it again.")
