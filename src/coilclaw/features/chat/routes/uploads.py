"""Files: the owner uploads one into the workspace."""

from dataclasses import dataclass
from typing import Annotated, Any

from litestar import Controller, Request, post
from litestar.datastructures import UploadFile
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema
from litestar.params import QueryParameter

from coilclaw.features.chat.attachment_name import plain_folder, plain_name
from coilclaw.features.chat.uploads import Refused, Saved, Upload, Uploads
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import Trouble, problems

MAX_BYTES = 2 * 1024 * 1024
FORM_BYTES = 64 * 1024
"""What a form may weigh beside the file in it."""
BINARY = "application/octet-stream"
FORM = "multipart/form-data"
_STATUSES = {"ESTOP": 409, "RATE_LIMITED": 429, "TOO_MANY_PROPOSALS": 429}

Name = Annotated[str | None, QueryParameter(max_length=1000, description=f"The file's name, with {BINARY}.")]
Folder = Annotated[
    str | None,
    QueryParameter(max_length=500, description=f"A folder below attachments/, with {BINARY}."),
]


@dataclass
class UploadOperation(Operation):
    """The two ways to send a file, for the description of the interface."""

    def __post_init__(self) -> None:
        binary = Schema(type=OpenAPIType.STRING, content_media_type=BINARY, description="The file, at most 2 MiB.")
        folder = Schema(type=OpenAPIType.STRING, max_length=500, description="A folder below attachments/.")
        form = Schema(type=OpenAPIType.OBJECT, properties={"file": binary, "folder": folder}, required=["file"])
        self.request_body = RequestBody(
            content={FORM: OpenAPIMediaType(schema=form), BINARY: OpenAPIMediaType(schema=binary)}, required=True
        )


class UploadRoutes(Controller):
    """Files of the owner's."""

    path = "/v1/files"
    tags = ("files",)

    @post(
        "/",
        operation_id="uploadFile",
        summary="Upload a file",
        operation_class=UploadOperation,
        request_max_body_size=MAX_BYTES + FORM_BYTES,
        responses=problems(409),
    )
    async def upload(
        self,
        request: "Request[Any, Any, Any]",
        caller: NamedDependency[Caller],
        uploads: NamedDependency[Uploads],
        request_key: NamedDependency[str | None],
        name: Name = None,
        folder: Folder = None,
    ) -> Saved:
        """Upload a file of at most 2 MiB to `attachments/` in the workspace, under its own name or the next free one.
        What it says counts as somebody else's words: it can be read, but what is done after reading it is asked for."""
        upload = await _read(request, name, folder)
        if len(upload.data) > MAX_BYTES:
            raise Trouble(413, "TOO_LARGE", "the file is larger than 2 MiB.", remedy="Send a smaller one.")
        outcome = await uploads.save(upload, by=caller.by, key=request_key)
        if isinstance(outcome, Refused):
            raise _trouble(outcome)
        return outcome


async def _read(request: "Request[Any, Any, Any]", name: str | None, folder: str | None) -> Upload:
    kind = request.content_type[0]
    if kind == BINARY:
        if not name:
            raise Trouble(422, "UNFIT", "the file has no name.", remedy="Add ?name=… to the address.")
        return Upload(name=plain_name(name), folder=plain_folder(folder or ""), data=await request.body())
    if kind != FORM:
        raise Trouble(
            415,
            "UNSUPPORTED_MEDIA_TYPE",
            "files cannot be sent with this content type.",
            remedy=f"Send {FORM} or {BINARY}.",
        )
    try:
        form = await request.form()
    except (ValueError, LookupError, TypeError) as error:  # a charset or a boundary that is none
        raise Trouble(422, "UNFIT", "the form cannot be read.", remedy="Send one file as `file`.") from error
    files = [each for each in form.values() if isinstance(each, UploadFile)]
    told = form.get("folder", "")
    try:
        if len(files) != 1 or not isinstance(told, str):
            raise Trouble(422, "UNFIT", "a form must contain exactly one file.", remedy="Send one file as `file`.")
        return Upload(name=plain_name(files[0].filename), folder=plain_folder(told), data=await files[0].read())
    finally:
        for each in files:
            await each.close()


def _trouble(refused: Refused) -> Trouble:
    if refused.under_way:
        return Trouble(
            409,
            "UNDER_WAY",
            "this upload is still being saved.",
            remedy="Ask again.",
            headers={"Retry-After": "1"},
        )
    status = _STATUSES.get(refused.code, 403 if refused.denied else 409)
    remedy = " ".join((*refused.changes, f"See action {refused.action_id}."))
    return Trouble(status, refused.code, " ".join(refused.reasons) or "the upload was refused.", remedy=remedy)
