"""Attached files: workspace files that the owner sends along with a message, named in it with where they came from."""

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from coilclaw.gate.paths import look_at
from coilclaw.gate.policy_match import is_path_of, unreadable_paths
from coilclaw.packets.action import Label
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import UsageError
from coilclaw.packets.kinds import kind_of
from coilclaw.packets.labels import join_labels, untrusted_only
from coilclaw.packets.pictures import MAX_PICTURE, PictureRef, media_type_of
from coilclaw.packets.text import one_line
from coilclaw.sandbox.files import read_existing
from coilclaw.store.threads import MessageRow

if TYPE_CHECKING:
    from coilclaw.features.chat.store.turns import TurnRow
    from coilclaw.gate.root import Root
    from coilclaw.runtime.runtime import Runtime


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it lies in the workspace."""

    path: str
    size: int
    labels: tuple[Label, ...]
    picture: PictureRef | None
    """Shown to a model that sees, unless a rule keeps the file from readers."""


def attached_files(app: "Runtime", thread_id: str, paths: Sequence[str]) -> list[Attached]:
    """The files of these names where a conversation works; a name that leads to no plain file there is refused."""
    if not paths:
        return []
    hidden = unreadable_paths(app.policy().rules, "chat")
    return [_attached(app.root_of(thread_id), path, hidden) for path in dict.fromkeys(paths)]


def _attached(root: "Root", path: str, hidden: tuple[str, ...]) -> Attached:
    fact = look_at(path, root.places, write=False)
    size = None if fact.fault or fact.in_home or fact.forbidden_by or not fact.relative else _size(fact.absolute)
    if size is None or fact.relative is None:
        raise UsageError(
            f"{one_line(path)[:200]!r} is not a file in the {'project' if root.project_id else 'workspace'}.",
            remedy="Put it into the project's folder; uploads go to the workspace, which this conversation cannot see."
            if root.project_id
            else "Upload it first, then name its path.",
        )
    return Attached(
        path=fact.relative,
        size=size,
        labels=untrusted_only(root.labels.labels_of(fact.relative)),
        picture=None if is_path_of(hidden, fact.relative) else _picture(root, fact.relative),
    )


def _picture(root: "Root", path: str) -> PictureRef | None:
    data = read_existing(root.folder, path, MAX_PICTURE)
    media_type = media_type_of(kind_of(data)) if data else ""
    if not data or not media_type:
        return None
    return PictureRef(path=path, sha256=sha256_hex(data), media_type=media_type, size=len(data))


def _size(path: str) -> int | None:
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    return seen.st_size if stat.S_ISREG(seen.st_mode) else None


def note_of(files: Sequence[Attached], turn: "TurnRow", message_id: str) -> MessageRow:
    """What the model is told of attached files. Their names may be somebody else's words: they bear their labels."""
    pictures = [msgspec.to_builtins(file.picture) for file in files if file.picture is not None]
    listed = "\n".join(f"- {one_line(file.path)} ({file.size} bytes)" for file in files)
    return MessageRow(
        message_id=message_id,
        thread_id=turn.thread_id,
        turn_id=turn.turn_id,
        role="system",
        content=f"Files in the workspace that the owner attached to the next message:\n{listed}",
        label=join_labels(label for file in files for label in file.labels),
        metadata={"attachments": [file.path for file in files], **({"pictures": pictures} if pictures else {})},
    )
