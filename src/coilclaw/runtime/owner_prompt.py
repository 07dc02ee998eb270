"""What the owner told the agent in files of the workspace: SYSTEM.md and the preferences."""

import os
from typing import TYPE_CHECKING

from coilclaw.packets.action import Label
from coilclaw.packets.labels import join_labels, mark
from coilclaw.sandbox.files import read_existing

if TYPE_CHECKING:
    from coilclaw.gate.turn import Turn
    from coilclaw.runtime.runtime import Runtime

SYSTEM = "SYSTEM.md"
PREFERENCES = "memory/PREFERENCES.md"


def owner_prompt(app: "Runtime", turn: "Turn") -> str:
    """The owner's SYSTEM.md and preferences, or nothing. Preferences that somebody else wrote taint the turn."""
    system = _text(app, SYSTEM, 256)
    preferences = _text(app, PREFERENCES, 16)
    labels = app.file_labels.labels_of(PREFERENCES) if preferences.strip() else ()
    for label in labels:
        turn.take_in(label, kept=True)
    return f"{system}\n\n{_preferences_part(preferences, labels)}"


def _text(app: "Runtime", path: str, kilobytes: int) -> str:
    data = read_existing(app.workspace, path, kilobytes * 1024)
    if data is None:
        if os.path.lexists(app.workspace / path):
            app.warn(f"Ignoring {path}: it is not a regular file of at most {kilobytes} KB.")
        return ""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        app.warn(f"Ignoring {path}: it is not UTF-8 text.")
        return ""


def _preferences_part(text: str, labels: tuple[Label, ...]) -> str:
    """What the owner prefers, as a part of the system prompt; marked where somebody else may have written it."""
    if not text.strip():
        return ""
    return f"What the owner prefers (memory/PREFERENCES.md):\n{mark(text.strip(), join_labels(labels), 'preferences')}"
