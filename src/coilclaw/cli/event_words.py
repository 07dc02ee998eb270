"""What the agent does, as a person at a terminal reads it: `✓ wrote a.md`, not keys and values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coilclaw.cli.output import counted

if TYPE_CHECKING:
    from coilclaw.packets.canonical import Json

UNTOLD = frozenset((
    "startup", "config_path", "workspace_path", "channel_started", "provider_selected", "conversation_started",
    "receipt_written", "memory_persisted", "tool_requested", "tool_approved", "estop_triggered",
))  # fmt: skip
"""Events for a log. What was asked for is told when it has ended, and a card asks for itself."""

_PAST = {
    "Ask": "asked", "Delete": "deleted", "Edit": "edited", "End": "ended", "Fetch": "fetched", "List": "listed",
    "Look": "looked", "Move": "moved", "Open": "opened", "Read": "read", "Restore": "restored", "Run": "ran",
    "Save": "saved", "Search": "searched", "Show": "showed", "Store": "stored", "Tell": "told", "Write": "wrote",
    "Start": "started", "Commit": "committed", "Send": "sent", "Add": "added", "Schedule": "scheduled",
    "Update": "updated", "Release": "released", "Change": "changed", "Check": "checked", "Merge": "merged",
    "See": "saw", "Take": "took", "Type": "typed", "Wait": "waited", "Call": "called", "Find": "looked for",
    "Plan:": "plan:", "Set": "set", "Wake": "will wake", "Work": "works",
}  # fmt: skip
_OPEN = {
    "tool_unknown": "? it is unknown whether this took effect: {} (see `coilclaw actions list --status unknown`)",
    "tool_in_background": "… in the background: {}",
    "approval_needed": "… waiting for your approval: {}",
}
"""What is said of a call whose end is not known, or not yet."""
_MOST, _MOST_OF_CALL = 160, 72
"""Characters of a line, and in it of what was called; the receipt has the rest."""


def event_words(event: str, fields: "Mapping[str, Json]") -> str | None:
    """A line for an event, empty where a person needs none; None where there are no words for it."""
    if event in UNTOLD or (event == "worker_chore" and not _chore_is_told(fields)):
        return ""
    what = str(fields.get("what") or fields.get("tool") or "").rstrip(".")
    what = _shortened(what, _MOST_OF_CALL)
    why = str(fields.get("why") or fields.get("code") or "").partition("\n")[0]
    why = why.removeprefix("Denied. ").partition(". ")[0].rstrip(".")
    why = why.removeprefix(f"{what.partition(' ')[2]}: ")  # the command is named already
    match event:
        case "tool_completed":
            return _shortened(f"✓ {_done(what, fields)}")
        case "tool_denied":
            from coilclaw.packets.decision import HELD_BACK
            from coilclaw.store.refusals import refusal_of

            if fields.get("code") == HELD_BACK:
                word, why = "… held back", "untrusted content was read"
            else:
                word = f"✗ {refusal_of(str(fields.get('code')))}"
            return _shortened(f"{word}: {_lower(what)}" + ("" if word == "✗ rejected" else f" ({why})"))
        case "tool_failed":
            return _shortened(f"✗ failed: {_lower(what)} ({why})")
        case "tool_unknown" | "tool_in_background" | "approval_needed":
            return _shortened(_OPEN[event].format(_lower(what.partition(" in the background")[0])))
        case "job_claimed" | "job_step" | "job_waits":
            return ""  # what it does and what it asks for are told themselves
        case "config_changed":
            return "" if fields.get("own") else _shortened(_config_changed(fields))
        case "sop_went_on":
            return _shortened(f"… procedure {fields.get('run_id')} went on: {str(fields.get('state')).lower()}")
        case "job_ended":
            return _shortened(_job_ended(fields))
        case _:
            return None


def _chore_is_told(fields: "Mapping[str, Json]") -> bool:
    from coilclaw.cli.phrases import worker_words

    return worker_words("worker_chore", fields) is not None


def further_rows(event: str, fields: "Mapping[str, Json]") -> list[str]:
    """What stands below an event's line: the steps of a plan, or the command that would allow what was not."""
    plan = fields.get("plan") if event == "tool_completed" else None
    remedy = fields.get("remedy")
    if isinstance(remedy, str):
        return [f"  {'to allow it' if event == 'tool_denied' else 'to let it be found'}: {remedy}"]
    return [_shortened(f"  {step}") for step in plan] if isinstance(plan, list) else []


def _config_changed(fields: "Mapping[str, Json]") -> str:
    now, late = (_listed(fields.get(name)) for name in ("keys", "needs_restart"))
    parts = [f"in force now: {now}" if now else "", f"at the next start: {late}" if late else ""]
    return f"· settings changed, {'; '.join(filter(None, parts))}"


def _listed(names: "Json") -> str:
    return ", ".join(str(name) for name in names) if isinstance(names, list) else ""


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
    if "plan" in fields:
        what = what.partition(", now: ")[0]  # its steps say so
    verb, _, rest = what.partition(" ")
    return f"{_PAST[verb]} {rest}" if verb in _PAST else f"done: {_lower(what)}"


def _lower(what: str) -> str:
    verb, _, _ = what.partition(" ")
    return what[:1].lower() + what[1:] if verb in _PAST else what


def _shortened(line: str, most: int = _MOST) -> str:
    return line if len(line) <= most else f"{line[: most - 1]}…"
