"""Taking back what was written: which files, and as they were before what. The owner proposes it and sees its card."""

import os
from typing import TYPE_CHECKING

import msgspec

from coilclaw.packets.action import Action
from coilclaw.packets.ports import Restore, Touches
from coilclaw.tools.undo import MOST_PATHS

if TYPE_CHECKING:
    from coilclaw.gate.root import Root
    from coilclaw.runtime.runtime import Runtime

_NOTE_CHARACTERS = 200
"""As much of a command as a snapshot keeps."""


def undo_of_action(app: "Runtime", action: Action) -> Restore | None:
    """What takes back what an action wrote; None when nothing is kept from before it.

    Where nobody can tell its files from those of others, that is everything since its turn began: without paths.
    """
    root = app.root_of(action.thread_id)
    moments = root.snapshots.of_turn(action.turn_id)
    if not moments:
        return None
    names = _written(app, action, root)
    if names == ():
        return None
    for moment in moments:  # the first that knows its files has them as they were
        if names is None:
            of_this = moment.whole and moment.note == _note(app, action)
            paths = (moment.changed or ()) if of_this else ()
        else:
            paths = tuple(path for path in moment.changed or () if any(_is_below(path, name) for name in names))
        if paths and len(paths) <= MOST_PATHS:
            return Restore(snapshot=moment.id, paths=tuple(sorted(paths)))
    return Restore(snapshot=moments[0].id)


def undo_of_path(app: "Runtime", path: str) -> Restore | None:
    """What brings a file back as it was before it was last written; None when nothing of it is kept."""
    for kept in app.root.snapshots.recent(MOST_PATHS):
        wanted = Restore(snapshot=kept.id, paths=(path,))
        plan = app.root.undoing.plan(wanted, tainted=False)
        if plan is not None and plan.changes:
            return wanted
    return None


def _touches(app: "Runtime", action: Action) -> Touches:
    found = app.tools.get(action.call.tool)
    try:
        return Touches() if found is None else found.touches(found.parse(action.call.args_bytes))
    except (msgspec.ValidationError, ValueError):  # of another version of this program
        return Touches()


def _written(app: "Runtime", action: Action, root: "Root") -> tuple[str, ...] | None:
    """The files and folders that a call names as written; None for a command, which names none."""
    touches = _touches(app, action)
    if touches.command is not None:
        return None
    removed = () if touches.removes is None else (touches.removes,)
    names = (*touches.writes, *removed, *(touches.moves or ()))
    top = root.places.workspace
    return tuple(os.path.relpath(os.path.join(top, name), top) for name in names)  # noqa: PTH118 - text in, text out


def _note(app: "Runtime", action: Action) -> str:
    return f"{action.call.tool} {_touches(app, action).command or ''}"[:_NOTE_CHARACTERS]


def _is_below(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}/")
