"""A workspace file as the owner is shown it: what it is by its first bytes, its text or its picture, and its hash.

Looking at it goes through the gate as the agent's own reading would; here only what has the hash it found is shown.
"""

import base64
from typing import Annotated

import msgspec

from coilclaw.features.approvals.views import result_on_record
from coilclaw.features.owner_files.owner_files import OwnerFiles
from coilclaw.features.owner_files.picture_size import is_drawable
from coilclaw.features.owner_files.views import LARGEST
from coilclaw.packets.action import Action, Label, ToolResult
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.kinds import FileKind, kind_of, text_of
from coilclaw.packets.labels import is_untrusted, join_labels
from coilclaw.server.core import Core
from coilclaw.server.problems import Trouble
from coilclaw.server.redacting import Redacting

LARGEST_IMAGE = 1 << 20


class ShowFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file is to be shown."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    """Where it is in the workspace."""


class ShownFile(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace file as it is now. Showing it is an action like any other."""

    action_id: str
    path: str
    kind: FileKind
    """What it is, by its first bytes and never by its name."""
    size: int
    """In bytes."""
    sha256: str
    """Of all its bytes, as the receipt's action has it."""
    content: str
    """Its text, without secrets; empty when it is none."""
    cut: bool
    """It is a text, and there is more of it than is shown."""
    image: str
    """The bytes of a PNG, JPEG, GIF or WebP of at most 1 MiB and 16 million pixels, in base64; empty for all else."""
    label: Label
    """Where it came from: `owner`, `internal`, or `untrusted:` and the sources."""
    untrusted: bool
    """Somebody else's words may be in it."""


async def shown_file(core: Core, redacting: Redacting, files: OwnerFiles, path: str, action: Action) -> ShownFile:
    """What was looked at, as it may be shown; why not, where it was not."""
    result = result_on_record(core, action)
    if result is None or action.status != "EXECUTED":
        raise _not_shown(core, action, result)
    size, digest = result.metadata.get("size"), result.metadata.get("sha256")
    data = await redacting.aside(lambda: files.read(path, size if isinstance(size, int) else 0))
    if data is None or sha256_hex(data) != digest:
        raise Trouble(
            409,
            "FILE_CHANGED",
            "the file has changed since it was checked, or the path is a link.",
            remedy="Try again; for a link, open its target.",
        )
    label = join_labels((result.label, *files.labels(path)))  # after reading: what was marked meanwhile counts

    def made() -> ShownFile:
        return ShownFile(
            action_id=action.action_id,
            path=path,
            label=core.said(label),
            untrusted=is_untrusted(label),
            **msgspec.structs.asdict(_as_it_is(core, redacting, data)),
        )

    return await redacting.aside(made)


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    kind: FileKind
    size: int
    sha256: str
    content: str = ""
    cut: bool = False
    image: str = ""


def _as_it_is(core: Core, redacting: Redacting, data: bytes) -> _Found:
    kind = kind_of(data)
    found = _Found(kind=kind, size=len(data), sha256=sha256_hex(data))
    if kind == "text":
        cut = len(data) > LARGEST
        return msgspec.structs.replace(found, content=_content(redacting, data, cut=cut), cut=cut)
    if len(data) <= LARGEST_IMAGE and is_drawable(kind, data) and not _holds_secret(core, data):
        return msgspec.structs.replace(found, image=base64.b64encode(data).decode())
    return found


def _content(redacting: Redacting, data: bytes, *, cut: bool) -> str:
    if not cut:
        return redacting.said(data.decode())
    text = text_of(data[:LARGEST], whole=False) or ""
    return redacting.head(f"{text}…", len(text))  # something follows: what could be the start of a secret is held back


def _holds_secret(core: Core, data: bytes) -> bool:
    """A picture cannot be shown without a part of it: with a secret in it, none of it is."""
    text = data.decode("latin-1")
    return core.whole(text) != text


def _not_shown(core: Core, action: Action, result: ToolResult | None) -> Trouble:
    decision = action.decision
    told = core.said(" ".join(decision.reasons) if result is None else result.output)
    if action.status == "REJECTED":
        return Trouble(403, decision.code, told, remedy=core.said(" ".join(decision.recommended_changes)))
    if action.status == "FAILED":
        code = result.code if result is not None else "FAILED"
        return Trouble(409, code, told, remedy="Check that it still exists.")
    return Trouble(409, "ASKS", f"reading it needs approval first: {told}", remedy="Answer it under approvals.")
