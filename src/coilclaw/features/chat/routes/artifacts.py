"""Artifacts: what turns and jobs left, and what was uploaded; always downloaded, never shown as a page."""

import asyncio
from typing import Annotated
from urllib.parse import quote

import msgspec
from litestar import Controller, Response, get
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, JSONBody, PathParameter

from coilclaw.features.chat.routes.lookups import shown_text
from coilclaw.features.chat.store.artifacts import ArtifactRow, artifact_content, load_artifact
from coilclaw.packets.action import Label
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.labels import is_untrusted
from coilclaw.server.core import Core
from coilclaw.server.problems import NotThere, problems

ArtifactId = Annotated[str, PathParameter(max_length=100, description="The artifact.")]
Known = Annotated[
    str | None, HeaderParameter(name="If-None-Match", max_length=1000, description="ETags the client already has.")
]
BINARY = "application/octet-stream"


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact without its bytes."""

    artifact_id: str
    kind: str
    """What it is: message (the whole of a long one), report, upload, …"""
    name: str
    size: int
    sha256: str
    """Of the bytes as they are kept."""
    label: Label
    untrusted: bool
    """Somebody else's words may be in it."""
    thread_id: str | None
    job_id: str | None
    created_at: str


class Artifacts(Controller):
    """Pieces of work that outlive a turn."""

    path = "/v1/artifacts/{artifact_id:str}"
    tags = ("artifacts",)

    @get("/", operation_id="getArtifact", summary="Artifact metadata", responses=problems(404), sync_to_thread=False)
    def one(self, core: NamedDependency[Core], artifact_id: ArtifactId) -> Artifact:
        """Artifact metadata."""
        row = _found(core, artifact_id)
        return Artifact(
            artifact_id=row.artifact_id,
            kind=shown_text(core, row.kind),
            name=shown_text(core, row.name),
            size=row.size,
            sha256=row.sha256,
            label=row.label,
            untrusted=is_untrusted(row.label),
            thread_id=row.thread_id,
            job_id=row.job_id,
            created_at=row.created_at,
        )

    @get(
        "/content",
        operation_id="getArtifactContent",
        summary="Download an artifact",
        media_type=BINARY,
        responses={
            200: ResponseSpec(data_container=bytes, generate_examples=False, media_type=BINARY, description="Bytes."),
            **problems(404),
        },
    )
    async def content(
        self, core: NamedDependency[Core], artifact_id: ArtifactId, known: Known = None
    ) -> Response[bytes]:
        """The bytes of an artifact, as a download. Text leaves without secrets, anything else as it is."""
        row = _found(core, artifact_id)
        data = await _without_secrets(core, artifact_content(core.db.reader, artifact_id) or b"")
        tag = f'"{sha256_hex(data)}"'
        name = shown_text(core, row.name) or artifact_id
        headers = {
            "ETag": tag,
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='', errors='replace')}",
            "X-Content-Type-Options": "nosniff",
        }
        if known is not None and (known.strip() == "*" or tag in known):
            return Response(b"", status_code=304, headers=headers, media_type=BINARY)
        return Response(data, headers=headers, media_type=BINARY)


def _found(core: Core, artifact_id: str) -> ArtifactRow:
    row = load_artifact(core.db.reader, artifact_id)
    if row is None:
        raise NotThere("such artifact")
    return row


async def _without_secrets(core: Core, data: JSONBody[bytes]) -> bytes:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    return (await asyncio.to_thread(core.said, text)).encode("utf-8", "replace")
