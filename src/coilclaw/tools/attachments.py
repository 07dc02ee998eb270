"""attachment_save: saves a file that the owner uploaded to the workspace. Only an upload calls it, never a model."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL, untrusted
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Files, ToolOutput, Touches
from coilclaw.tools.declare import tool

MAX_BYTES = 2 * 1024 * 1024
LABEL = untrusted("attachment")
"""The author of an uploaded file is unknown, so the gate does not treat it as the owner's words."""


class SaveArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of attachment_save."""

    artifact_id: Annotated[
        str, msgspec.Meta(description="The artifact with the uploaded bytes.", min_length=1, max_length=100)
    ]
    path: Annotated[
        str,
        msgspec.Meta(
            description="Where to put them: below attachments/, without names that begin with a dot.",
            pattern=r"^attachments(/[^/.\x00][^/\x00]*)+$",
            max_length=1024,
        ),
    ]
    sha256: Annotated[str, msgspec.Meta(description="SHA-256 of the bytes.", pattern=r"^[0-9a-f]{64}$")]


# It always asks, so that it never runs without the uploader's approval.
@tool(
    SaveArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=True,
    always_ask=True,
    touches=lambda args: Touches(reads=(args.path,), writes=(args.path,)),
    summary=lambda args: f"Save the uploaded file {args.path}.",
    callers=frozenset({"gateway"}),
)
async def attachment_save(args: SaveArgs, context: Context) -> ToolOutput:
    """Save a file that the owner uploaded; only an upload can call it."""
    if context.notes is None or context.files is None:
        raise ToolError("no upload was granted to this call.", code="NOT_GRANTED", begun=False)
    found = context.notes.get_artifact(args.artifact_id)
    if found is None or found[1] != LABEL or sha256_hex(found[0]) != args.sha256:
        raise ToolError(
            "the uploaded bytes are gone or have changed.",
            remedy="Upload the file again.",
            code="NO_SUCH_UPLOAD",
            begun=False,
        )
    data = found[0]
    if not _is_there(context.files, args.path, data):
        context.files.write(args.path, data)
    return ToolOutput(text=f"Saved {len(data)} bytes to {args.path}.", label=INTERNAL, metadata={"bytes": len(data)})


def _is_there(files: Files, path: str, data: bytes) -> bool:
    """Whether an earlier attempt already wrote these bytes; a different file with that name is never replaced."""
    try:
        same = files.read(path, max_bytes=MAX_BYTES) == data
    except ToolError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return False
        if error.code != "FILE_TOO_LARGE":
            raise
        same = False
    if not same:
        raise ToolError(f"{path} already exists.", remedy="Use another name.", code="FILE_EXISTS", begun=False)
    return True
