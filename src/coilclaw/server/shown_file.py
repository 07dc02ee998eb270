"""A workspace file as the owner is shown it: what it is by its first bytes, its text or its picture, and its hash.

The read goes through the gate as the agent's own would, and only what was let through is looked at here.
"""

import base64
from typing import Annotated, Literal, TypeAlias

import msgspec

from coilclaw.packets.action import OWNER, Action, Label, ToolResult
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.labels import is_untrusted, join_labels
from coilclaw.server.actions import result_on_record
from coilclaw.server.core import Core
from coilclaw.server.owner_files import LARGEST, FileDesk
from coilclaw.server.problems import Trouble
from coilclaw.server.redacting import Redacting

FileKind: TypeAlias = Literal["text", "png", "jpeg", "gif", "webp", "pdf", "zip", "other"]

LARGEST_IMAGE = 1 << 20
LARGEST_HASHED = 32 << 20
"""What is larger is not read at all: its hash would take its time, and nobody looks at it here."""

_IMAGES: frozenset[FileKind] = frozenset({"png", "jpeg", "gif", "webp"})
_MAGIC: tuple[tuple[bytes, FileKind], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"%PDF-", "pdf"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_LET_THROUGH = ("FILE_NOT_TEXT", "FILE_TOO_LARGE")
"""The gate let the read happen; the tool, which gives text to a model, had no use for what it found."""


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
    size: int | None
    """In bytes; null when only its text is known, as behind a link."""
    sha256: str | None
    """Of all its bytes; null when only its text is known, as behind a link."""
    content: str
    """Its text, without secrets; empty when it is none."""
    cut: bool
    """It is a text, and there is more of it than is shown."""
    image: str
    """The bytes of a PNG, JPEG, GIF or WebP of at most 1 MiB, in base64; empty for everything else."""
    label: Label
    """Where it came from: `owner`, `internal`, or `untrusted:` and the sources."""
    untrusted: bool
    """Somebody else's words may be in it."""


def kind_of(data: bytes) -> FileKind:
    """What begins with these bytes."""
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return "other" if b"\0" in data[:LARGEST] or _text(data[:LARGEST], whole=len(data) <= LARGEST) is None else "text"


def _text(data: bytes, *, whole: bool) -> str | None:
    """Bytes as text, None if they are none; where they are not the whole, a last character may be cut."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        cut = not whole and error.end == len(data) and error.start > len(data) - 4
        return data[: error.start].decode() if cut else None


async def shown_file(core: Core, redacting: Redacting, files: FileDesk, path: str, action: Action) -> ShownFile:
    """What was read, as it may be shown; why not, where it was not."""
    result = result_on_record(core, action)
    if result is None or not _let_through(action, result):
        raise _not_shown(core, action, result)
    data = await redacting.aside(lambda: files.read(path, LARGEST_HASHED))
    if data is None and action.status != "EXECUTED":
        raise _not_shown(core, action, result)
    read = result.label if action.status == "EXECUTED" else OWNER
    label = join_labels((read, *files.labels(path)))  # after reading: what was marked meanwhile counts

    def made() -> ShownFile:
        found = _as_read(redacting, result) if data is None else _as_it_is(core, redacting, data)
        return ShownFile(
            action_id=action.action_id,
            path=path,
            label=core.said(label),
            untrusted=is_untrusted(label),
            **msgspec.structs.asdict(found),
        )

    return await redacting.aside(made)


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    kind: FileKind
    size: int | None
    sha256: str | None
    content: str = ""
    cut: bool = False
    image: str = ""


def _let_through(action: Action, result: ToolResult) -> bool:
    return action.status == "EXECUTED" or (action.status == "FAILED" and result.code in _LET_THROUGH)


def _as_read(redacting: Redacting, result: ToolResult) -> _Found:
    """What the tool read, where the same path cannot be opened without following a link."""
    content = redacting.said(result.output)
    cut = len(content) > LARGEST or bool(result.artifacts)
    return _Found(kind="text", size=None, sha256=None, content=content[:LARGEST], cut=cut)


def _as_it_is(core: Core, redacting: Redacting, data: bytes) -> _Found:
    kind = kind_of(data)
    found = _Found(kind=kind, size=len(data), sha256=sha256_hex(data))
    if kind == "text":
        cut = len(data) > LARGEST
        return msgspec.structs.replace(found, content=_content(redacting, data, cut=cut), cut=cut)
    if kind in _IMAGES and len(data) <= LARGEST_IMAGE and not _holds_secret(core, data):
        return msgspec.structs.replace(found, image=base64.b64encode(data).decode())
    return found


def _content(redacting: Redacting, data: bytes, *, cut: bool) -> str:
    if not cut:
        return redacting.said(data.decode())
    text = _text(data[:LARGEST], whole=False) or ""
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
    if action.status == "FAILED" and result is not None and result.code in _LET_THROUGH:
        return Trouble(409, "FILE_TOO_LARGE", "it is too large to be shown.", remedy="Open it on the machine.")
    if action.status == "FAILED":
        code = result.code if result is not None else "FAILED"
        return Trouble(409, code, told, remedy="See whether it is still there.")
    return Trouble(409, "ASKS", f"reading it needs an answer first: {told}", remedy="Answer it among the approvals.")
