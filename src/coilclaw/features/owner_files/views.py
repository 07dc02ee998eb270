"""The owner's files over HTTP: policies, skills, the system prompt. Every write goes through the gate."""

from typing import Annotated

import msgspec
from litestar import Response
from litestar.openapi.datastructures import ResponseSpec

from coilclaw.packets.action import Status
from coilclaw.packets.decision import Decision
from coilclaw.server.core import Core
from coilclaw.server.problems import Trouble, problems

LARGEST = 128 << 10
"""Such files are read by people, and redacted whole before they are shown: that takes its time."""

MEND_ON_THE_MACHINE = (
    "It cannot be repaired from a device, because what the broken file denied is unknown: on the machine, edit the file"
    " named here in the workspace, or move it out of policies/. `coilclaw policy show` reports when it is valid."
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


PUT_ANSWERS = {
    200: ResponseSpec(data_container=Edited, description="It was written.", generate_examples=False),
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
    raise Trouble(409, edited.code or "NOT_WRITTEN", told, remedy="Resolve what blocks it, then send it again.")
