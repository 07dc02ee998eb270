"""What the agent does, as a person at a terminal reads it: `✓ wrote a.md`, not keys and values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coilclaw.cli.output import counted

if TYPE_CHECKING:
    from coilclaw.packets.canonical import Json

UNTOLD = frozenset((
    "startup", "config_path", "workspace_path", "channel_started", "provider_selected", "conversation_started",
    "receipt_written", "memory_persisted", "tool_requested", "tool_approved",
))  # fmt: skip
"""Events for a log. What was asked for is told when it has ended, and a card asks for itself."""

_PAST = {
    "Ask": "asked", "Delete": "deleted", "Edit": "edited", "End": "ended", "Fetch": "fetched", "List": "listed",
    "Look": "looked", "Move": "moved", "Open": "opened", "Read": "read", "Restore": "restored", "Run": "ran",
    "Save": "saved", "Search": "searched", "Show": "showed", "Store": "stored", "Tell": "told", "Write": "wrote",
    "Start": "started", "Commit": "committed", "Send": "sent", "Add": "added", "Schedule": "scheduled",
    "Update": "updated", "Release": "released", "Change": "changed", "Check": "checked", "Merge": "merged",
    "See": "saw", "Take": "took", "Type": "typed", "Wait": "waited", "Call": "called", "Find": "looked for",
    "Plan:": "plan:", "Wake": "will wake", "Work": "works",
}  # fmt: skip
_MOST, _MOST_OF_CALL = 160, 72
"""Characters of a line, and in it of what was called; the receipt has the rest."""


def event_words(event: str, fields: "Mapping[str, Json]") -> str | None:
    """A line for an event, empty where a person needs none; None where there are no words for it."""
    if event in UNTOLD:
        return ""
    what = str(fields.get("what") or fields.get("tool") or "").rstrip(".")
    what = _shortened(what, _MOST_OF_CALL)
    why = str(fields.get("why") or fields.get("code") or "").partition("\n")[0]
    why = why.removeprefix("Denied. ").partition(". ")[0].rstrip(".")
    match event:
        case "tool_completed":
            return _shortened(f"✓ {_done(what, fields)}")
        case "tool_denied":
            from coilclaw.store.refusals import refusal_of

            word = refusal_of(str(fields.get("code")))
            return _shortened(
                f"✗ {word}: {_lower(what)}" if word == "rejected" else f"✗ {word}: {_lower(what)} ({why})"
            )
        case "tool_failed":
            return _shortened(f"✗ failed: {_lower(what)} ({why})")
        case "approval_needed":
            return _shortened(f"… waiting for your approval: {_lower(what)}")
        case "job_claimed" | "job_step" | "job_waits":
            return ""  # what it does and what it asks for are told themselves
        case "job_ended":
            return _shortened(_job_ended(fields))
        case _:
            return None


def _job_ended(fields: "Mapping[str, Json]") -> str:
    from coilclaw.cli.phrases import JOBS

    state = str(fields.get("state"))
    mark = "✓" if state == "DONE" else "✗"
    how = next((words for known, words in JOBS.items() if known == state), state.lower())
    return f"{mark} {fields.get('job_id')} is {how}: {fields.get('reason')}"


def _done(what: str, fields: "Mapping[str, Json]") -> str:
    entries = fields.get("entries")
    if fields.get("tool") == "file_list" and isinstance(entries, int):
        where = what.partition(" files in ")[2]
        return f"listed {counted(entries, 'file')}" + (f" in {where}" if where else "")
    if fields.get("tool") == "file_search" and isinstance(entries, int):
        what = f"{what}: {counted(entries, 'file') if entries else 'nothing found'}"
    verb, _, rest = what.partition(" ")
    return f"{_PAST[verb]} {rest}" if verb in _PAST else f"done: {_lower(what)}"


def _lower(what: str) -> str:
    verb, _, _ = what.partition(" ")
    return what[:1].lower() + what[1:] if verb in _PAST else what


def _shortened(line: str, most: int = _MOST) -> str:
    return line if len(line) <= most else f"{line[: most - 1]}…"
