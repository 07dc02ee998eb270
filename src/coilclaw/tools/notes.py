"""notes_write and notes_read: the agent's own notes, with their labels."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import Context, Notes, ToolOutput
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import nothing, tool

MAX_TITLES = 200
TITLE = 200


class NoteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of notes_write."""

    title: Annotated[
        str, msgspec.Meta(description="One line; replaces a note with this title.", min_length=1, max_length=TITLE)
    ]
    content: Annotated[str, msgspec.Meta(description="The whole note, at most 64 KB.")]


class NoteReadArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of notes_read."""

    title: Annotated[
        str, msgspec.Meta(description="The title of a note; empty for the list of titles.", max_length=TITLE)
    ] = ""


def _notes(context: Context) -> Notes:
    if context.notes is None:
        raise ToolError("notes were not granted to this call.", code="NOT_GRANTED", begun=False)
    return context.notes


def _title(text: str) -> str:
    """A title as stored; one that is invisible in a list, or would break it, is refused."""
    title = text.strip()
    if not title or one_line(title) != title:
        raise ToolError(
            f"the title {one_line(text)!r} is not one line of visible text.",
            remedy="Give it a plain title.",
            code="BAD_TITLE",
            begun=False,
        )
    return title


@tool(
    NoteArgs,
    effect="WRITE",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=nothing,
    summary=lambda args: f"Store a note titled {one_line(args.title)!r}.",
)
async def notes_write(args: NoteArgs, context: Context) -> ToolOutput:
    """Store a note for later conversations under a title, replacing a note with the same title."""
    notes, title = _notes(context), _title(args.title)
    await notes.write_note(title, args.content)
    return ToolOutput(
        text=f"Stored the note {title!r}.", label=INTERNAL, metadata={"bytes": len(args.content.encode())}
    )


@tool(
    NoteReadArgs,
    effect="READ",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=nothing,
    summary=lambda args: f"Read the note {one_line(args.title)!r}." if args.title.strip() else "List the notes.",
)
async def notes_read(args: NoteReadArgs, context: Context) -> ToolOutput:
    """Read a note by its title, or list all titles if none is given."""
    notes, title = _notes(context), args.title.strip()
    if not title:
        return _list(notes)
    note = notes.read_note(title)
    if note is None:
        raise ToolError(
            f"there is no note titled {one_line(title)!r}.",
            remedy="Call notes_read without a title to list them.",
            code="NO_SUCH_NOTE",
            begun=False,
        )
    return ToolOutput(text=note.content, label=note.label, metadata={"updated_at": note.updated_at})


def _list(notes: Notes) -> ToolOutput:
    """The titles. The agent wrote them too, so the list carries the label of every note in it."""
    found = notes.list_notes(limit=MAX_TITLES + 1)
    if not found:
        return ToolOutput(text="There are no notes yet.", label=INTERNAL, metadata={"notes": 0})
    shown = found[:MAX_TITLES]
    lines = [f"[{note.updated_at[:16]}] {note.title}" for note in shown]
    if len(found) > MAX_TITLES:
        lines.append(f"… and more: only the newest {MAX_TITLES} are listed.")
    label = join_labels(note.label for note in shown)
    return ToolOutput(text="\n".join(lines), label=label, metadata={"notes": len(shown)})
